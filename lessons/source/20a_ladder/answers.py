"""Wrong answers to the exercises of lesson 20a."""

import math
from itertools import permutations
from math import prod

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong

# 20a-wrapper --------------------------------------------------------------------------


def wrapper(
    group=lambda mesh: mesh.get_group(),
    divisor=lambda mesh: mesh.size(),
    place=lambda mesh: mesh.get_local_rank(),
    former_deal=True,
    complete="first",
    times=1,
    rows=lambda tensor, ranks, rank: tensor.chunk(ranks)[rank],
    both=True,
):
    """A wrapper with one thing, or several, done in another way."""

    def wrap(training, mesh):
        deal, done = training.deal, training.complete

        def deal_rows(inputs, targets):
            if former_deal:
                inputs, targets = deal(inputs, targets)
            mine = rows(inputs, mesh.size(), place(mesh))
            if not both:
                return mine, targets[: len(mine)]
            return mine, rows(targets, mesh.size(), place(mesh))

        def complete_gradients():
            if complete == "first":
                done()
            for p in training.model.parameters():
                for _ in range(times):
                    p.grad /= divisor(mesh)
                    dist.all_reduce(p.grad, group=group(mesh))
            if complete == "last":
                done()

        training.deal, training.complete = deal_rows, complete_gradients

    return wrap


@wrong("20a-wrapper", advice="what `deal` and `complete`")
def wrapper_of_early_model(training, mesh):
    parameters = list(training.model.parameters())
    wrapper()(training, mesh)
    done = training.complete

    def complete():
        for p in parameters:
            p.grad /= mesh.size()
        done()

    training.complete = complete


@wrong("20a-wrapper", advice="the mean over")
def wrapper_that_averages_parameters(training, mesh):
    deal_only(training, mesh)
    done = training.complete

    def complete():
        done()
        for p in training.model.parameters():
            p.data /= mesh.size()
            dist.all_reduce(p.data, group=mesh.get_group())

    training.complete = complete


@wrong("20a-wrapper", advice="the mean over")
def deal_only(training, mesh):
    done = training.complete
    wrapper()(training, mesh)
    training.complete = done


@wrong("20a-wrapper", advice="this rank's number within")
def complete_only(training, mesh):
    deal = training.deal
    wrapper()(training, mesh)
    training.deal = deal


@wrong("20a-wrapper", advice="every rank of the group", state="HUNG")
def wrapper_on_the_first_rank(training, mesh):
    wrapper()(training, mesh)
    done, first = training.complete, mesh.get_local_rank() == 0
    training.complete = lambda: done() if first else None


@wrong("20a-wrapper", advice="nothing is returned")
def wrapper_that_returns(training, mesh):
    wrapper()(training, mesh)
    return training


@wrong("20a-wrapper", advice="more in the next batch")
def wrapper_of_first_size(training, mesh):
    sizes = []

    def rows_as_at_first(tensor, ranks, rank):
        sizes.append(len(tensor) // ranks)
        return tensor[rank * sizes[0] : (rank + 1) * sizes[0]]

    wrapper(rows=rows_as_at_first)(training, mesh)


@wrong("20a-wrapper", advice="when gradients are there")
def wrapper_at_once(training, mesh):
    wrapper()(training, mesh)
    dist.barrier(group=mesh.get_group())


FORMER = {}


@wrong(
    "20a-wrapper",
    advice="it runs once",
    note="The functions of the training that was wrapped last, for all.",
)
def wrapper_with_one_table(training, mesh):
    FORMER["deal"], FORMER["complete"] = training.deal, training.complete

    def deal(inputs, targets):
        pair, rank = FORMER["deal"](inputs, targets), mesh.get_local_rank()
        return tuple(part.chunk(mesh.size())[rank] for part in pair)

    def complete():
        FORMER["complete"]()
        for p in training.model.parameters():
            dist.all_reduce(p.grad, group=mesh.get_group())
            p.grad /= mesh.size()

    training.deal, training.complete = deal, complete


def strided(tensor, ranks, rank):
    return tensor[rank::ranks]


@right("20a-wrapper")
def bucket_wrapper(training, mesh):
    deal, done = training.deal, training.complete

    def complete():
        done()
        grads = [p.grad for p in training.model.parameters()]
        flat = torch.cat([g.flatten() for g in grads]) / mesh.size()
        dist.all_reduce(flat, group=mesh.get_group())
        for g, piece in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            g.copy_(piece.view_as(g))

    def deal_rows(*tensors):
        tensors, size, here = deal(*tensors), mesh.size(), mesh.get_local_rank()
        rows = len(tensors[0]) // size
        return [t[here * rows : (here + 1) * rows] for t in tensors]

    training.deal, training.complete = deal_rows, complete


@right("20a-wrapper")
def gathering_wrapper(training, mesh):
    wrapper(times=0)(training, mesh)
    done, group = training.complete, mesh.get_group()

    def complete():
        done()
        for p in training.model.parameters():
            pieces = [torch.empty_like(p.grad) for _ in range(mesh.size())]
            dist.all_gather(pieces, p.grad, group=group)
            p.grad = torch.stack(pieces).mean(0)

    training.complete = complete


# 20a-inside ---------------------------------------------------------------------------


@wrong(
    "20a-inside",
    advice="not always the one with most bytes",
    note="People often sort by bytes; that fails where the largest does not "
    "fit into a node.",
)
def order_by_bytes(ranks, sent, per_node):
    return sorted(ranks, key=sent.get)


@wrong("20a-inside", advice="the last dimension counts fastest")
def order_by_bytes_reversed(ranks, sent, per_node):
    return sorted(ranks, key=sent.get, reverse=True)


@wrong("20a-inside", advice="fit into a node")
def order_by_ranks(ranks, sent, per_node):
    return sorted(ranks, key=ranks.get, reverse=True)


@wrong("20a-inside", advice="fit into a node")
def order_as_given(ranks, sent, per_node):
    return list(ranks)


@wrong("20a-inside", advice="fit into a node")
def order_by_all_bytes(ranks, sent, per_node):
    return sorted(ranks, key=lambda name: sent[name] * ranks[name])


def best_by(inside):
    def order(ranks, sent, per_node):
        def cost(names):
            block, total = 1, 0
            for name in reversed(names):
                block *= ranks[name]
                if not inside(ranks[name], block, per_node):
                    total += sent[name]
            return total

        return list(min(permutations(ranks), key=cost))

    return order


order_that_only_fits = best_by(lambda size, block, node: block <= node)
order_by_own_size = best_by(lambda size, block, node: node % size == 0)


@wrong("20a-inside", advice="the last dimension counts fastest")
def order_from_inside(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[::-1]


@wrong("20a-inside", advice="not always the one with most bytes")
def greedy_order(ranks, sent, per_node):
    inside, block = [], 1
    for name in sorted(ranks, key=sent.get, reverse=True):
        if per_node % (block * ranks[name]) == 0:
            block *= ranks[name]
            inside.insert(0, name)
    return [name for name in ranks if name not in inside] + inside


@wrong("20a-inside", advice="each dimension's name")
def innermost_name(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[-1]


order_by_blocks = best_by(lambda size, block, node: size == 1 or node % block == 0)
order_without_exception = best_by(lambda size, block, node: node % block == 0)


@right("20a-inside")
def order_by_going_to_all(ranks, sent, per_node):
    """Number all ranks, and look in which nodes each group lies."""

    def cost(names):
        total, stride = 0, 1
        for name in reversed(names):
            size, world = ranks[name], prod(ranks.values())
            starts = [r for r in range(world) if r // stride % size == 0]
            last = stride * (size - 1)
            total += sent[name] * any(
                r // per_node != (r + last) // per_node for r in starts
            )
            stride *= size
        return total

    return min(permutations(ranks), key=cost)


# 20a-clip -----------------------------------------------------------------------------


def clip_by(
    once=True, group="tensor", divide=1, when_longer=True, after=False, in_place=True
):
    def clip(gradients, split, mesh, longest):
        counted = whole = torch.zeros((), dtype=torch.float64)
        for name, g in gradients.items():
            square = g.double().square().sum().cpu()
            if name in split or not once:
                counted = counted + square
            else:
                whole = whole + square
        if group:
            dist.all_reduce(counted, group=mesh[group].get_group())
        length = (counted / divide + whole).sqrt().item()
        if length > longest or not when_longer:
            for name, g in gradients.items():
                if in_place:
                    g.mul_(longest / length if length else 1)
                else:
                    gradients[name] = g * (longest / length)
        return min(length, longest) if after else length

    return clip


@wrong("20a-clip", advice="counts once|whose squares")
def clip_over_everybody(gradients, split, mesh, longest):
    total = torch.zeros((), dtype=torch.float64)
    for g in gradients.values():
        total += g.double().square().sum().cpu()
    dist.all_reduce(total)
    return _shorten(gradients, total.sqrt().item(), longest)


@right("20a-clip")
def clip_copies_divided_out(gradients, split, mesh, longest):
    """All ranks of the mesh, and every copy by its share of them."""
    total = torch.zeros(1, dtype=torch.float64)
    for name, g in gradients.items():
        copies = mesh["data"].size() * (1 if name in split else mesh["tensor"].size())
        total += g.double().square().sum().cpu() / copies
    dist.all_reduce(total)
    return _shorten(gradients, total.sqrt().item(), longest)


def _shorten(gradients, length, longest):
    if length > longest:
        for g in gradients.values():
            g.mul_(longest / length)
    return length


@wrong("20a-clip", advice="by what all gradients")
def clip_a_little_more(gradients, split, mesh, longest):
    """As torch.nn.utils.clip_grad_norm_ does, so as not to divide by 0."""
    length = clip_by()(gradients, split, mesh, math.inf)
    if longest / (length + 1e-6) < 1:
        for g in gradients.values():
            g.mul_(longest / (length + 1e-6))
    return length


@wrong("20a-clip", advice="one all-reduce on every rank")
def clip_with_many_sums(gradients, split, mesh, longest):
    total = torch.zeros((), dtype=torch.float64)
    for name, g in gradients.items():
        square = g.double().square().sum().cpu()
        if name in split:
            dist.all_reduce(square, group=mesh["tensor"].get_group())
        total += square
    return _shorten(gradients, total.sqrt().item(), longest)


@wrong("20a-clip", advice="whose squares are added")
def clip_lengths(gradients, split, mesh, longest):
    parts = whole = torch.zeros((), dtype=torch.float64)
    for name, g in gradients.items():
        if name in split:
            parts = parts + g.double().norm().cpu()
        else:
            whole = whole + g.double().norm().cpu()
    dist.all_reduce(parts, group=mesh["tensor"].get_group())
    return _shorten(gradients, (parts + whole).item(), longest)


@wrong("20a-clip", advice="by what all gradients")
def clip_each_gradient(gradients, split, mesh, longest):
    length = clip_by()({n: g.clone() for n, g in gradients.items()}, split, mesh, 1e9)
    for g in gradients.values():
        norm = g.norm()
        if norm > longest:
            g.mul_(longest / norm)
    return length


@wrong("20a-clip", advice="by what all gradients")
def clip_split_only(gradients, split, mesh, longest):
    length = clip_by()({n: g.clone() for n, g in gradients.items()}, split, mesh, 1e9)
    _shorten({n: g for n, g in gradients.items() if n in split}, length, longest)
    return length


@right("20a-clip")
def clip_on_first_rank(gradients, split, mesh, longest):
    """What is whole is counted by the first tensor rank alone."""
    total = torch.zeros(1, dtype=torch.float64)
    for name, g in gradients.items():
        if name in split or mesh["tensor"].get_local_rank() == 0:
            total += g.double().square().sum().cpu()
    dist.all_reduce(total, group=mesh["tensor"].get_group())
    return _shorten(gradients, float(total) ** 0.5, longest)


@wrong("20a-clip", advice="64 bits in any case")
def clip_in_type_of_gradients(gradients, split, mesh, longest):
    dtype = next((g.dtype for g in gradients.values()), torch.float64)
    parts = whole = torch.zeros((), dtype=dtype)
    for name, g in gradients.items():
        if name in split:
            parts = parts + g.square().sum().cpu()
        else:
            whole = whole + g.square().sum().cpu()
    dist.all_reduce(parts, group=mesh["tensor"].get_group())
    return _shorten(gradients, (parts + whole).sqrt().item(), longest)


@wrong("20a-clip", advice="maybe none")
def clip_by_names(gradients, split, mesh, longest):
    parts = sum(gradients[name].double().square().sum().cpu() for name in split)
    whole = torch.zeros((), dtype=torch.float64)
    for name in set(gradients) - set(split):
        whole += gradients[name].double().square().sum().cpu()
    dist.all_reduce(parts, group=mesh["tensor"].get_group())
    return _shorten(gradients, (parts + whole).sqrt().item(), longest)


@wrong("20a-clip", advice="calls the all-reduce", state="HUNG")
def clip_where_there_is_any(gradients, split, mesh, longest):
    if not gradients or mesh["tensor"].get_local_rank():
        return 0.0
    return clip_by()(gradients, split, mesh, longest)


wrong(
    "20a-wrapper",
    advice="a group, not all ranks",
    note="People often leave out the group: then parts of one layer are "
    "averaged with each other.",
    name="all_ranks",
)(wrapper(group=lambda m: None, divisor=lambda m: dist.get_world_size()))
wrong("20a-wrapper", advice="the mean over this group", name="sum")(
    wrapper(divisor=lambda m: 1)
)
wrong("20a-wrapper", advice="the mean over this group", name="world_size")(
    wrapper(divisor=lambda m: dist.get_world_size())
)
wrong("20a-wrapper", advice="the former `deal`", name="former_deal")(
    wrapper(former_deal=False)
)
wrong("20a-wrapper", advice="that it runs once", name="former_complete")(
    wrapper(complete="never")
)
wrong("20a-wrapper", advice="`complete` comes first", name="complete_last")(
    wrapper(complete="last")
)
wrong("20a-wrapper", advice="this rank's number within", name="global_rank")(
    wrapper(place=lambda m: dist.get_rank() % m.size())
)
wrong("20a-wrapper", advice="its part is consecutive", name="strided")(
    wrapper(rows=strided)
)
wrong("20a-wrapper", advice="targets are dealt", name="inputs_only")(
    wrapper(both=False)
)
wrong("20a-inside", advice="consecutive ranks", name="only_fits")(order_that_only_fits)
wrong("20a-inside", advice="consecutive ranks", name="own_size")(order_by_own_size)
wrong(
    "20a-clip",
    advice="counts once",
    note="People often add up everything over the tensor group.",
    name="twice",
)(clip_by(once=False))
wrong("20a-clip", advice="one all-reduce on every rank", name="world")(
    clip_by(group=None)
)
wrong("20a-clip", advice="whose squares are added", name="data")(clip_by(group="data"))
wrong("20a-clip", advice="whose squares are added", name="divided")(clip_by(divide=2))
wrong("20a-clip", advice="multiplied, and when", name="always")(
    clip_by(when_longer=False)
)
wrong("20a-clip", advice="before it is clipped", name="after")(clip_by(after=True))
wrong("20a-clip", advice="in place", name="copies")(clip_by(in_place=False))
right("20a-inside", name="blocks")(order_by_blocks)
right("20a-inside", name="no_exception")(order_without_exception)
