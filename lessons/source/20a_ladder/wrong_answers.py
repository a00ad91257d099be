"""Wrong answers to the exercises of lesson 20a."""

import math
from itertools import permutations
from math import prod

import torch
import torch.distributed as dist

from lessons.source.sample_answers import Right, Wrong

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


def wrapper_of_early_model(training, mesh):
    parameters = list(training.model.parameters())
    wrapper()(training, mesh)
    done = training.complete

    def complete():
        for p in parameters:
            p.grad /= mesh.size()
        done()

    training.complete = complete


def wrapper_that_averages_parameters(training, mesh):
    deal_only(training, mesh)
    done = training.complete

    def complete():
        done()
        for p in training.model.parameters():
            p.data /= mesh.size()
            dist.all_reduce(p.data, group=mesh.get_group())

    training.complete = complete


def deal_only(training, mesh):
    done = training.complete
    wrapper()(training, mesh)
    training.complete = done


def complete_only(training, mesh):
    deal = training.deal
    wrapper()(training, mesh)
    training.deal = deal


def wrapper_on_the_first_rank(training, mesh):
    wrapper()(training, mesh)
    done, first = training.complete, mesh.get_local_rank() == 0
    training.complete = lambda: done() if first else None


def wrapper_that_returns(training, mesh):
    wrapper()(training, mesh)
    return training


def wrapper_of_first_size(training, mesh):
    sizes = []

    def rows_as_at_first(tensor, ranks, rank):
        sizes.append(len(tensor) // ranks)
        return tensor[rank * sizes[0] : (rank + 1) * sizes[0]]

    wrapper(rows=rows_as_at_first)(training, mesh)


def wrapper_at_once(training, mesh):
    wrapper()(training, mesh)
    dist.barrier(group=mesh.get_group())


FORMER = {}


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


def order_by_bytes(ranks, sent, per_node):
    return sorted(ranks, key=sent.get)


def order_by_bytes_reversed(ranks, sent, per_node):
    return sorted(ranks, key=sent.get, reverse=True)


def order_by_ranks(ranks, sent, per_node):
    return sorted(ranks, key=ranks.get, reverse=True)


def order_as_given(ranks, sent, per_node):
    return list(ranks)


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


def order_from_inside(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[::-1]


def greedy_order(ranks, sent, per_node):
    inside, block = [], 1
    for name in sorted(ranks, key=sent.get, reverse=True):
        if per_node % (block * ranks[name]) == 0:
            block *= ranks[name]
            inside.insert(0, name)
    return [name for name in ranks if name not in inside] + inside


def innermost_name(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[-1]


order_by_blocks = best_by(lambda size, block, node: size == 1 or node % block == 0)
order_without_exception = best_by(lambda size, block, node: node % block == 0)


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


def clip_over_everybody(gradients, split, mesh, longest):
    total = torch.zeros((), dtype=torch.float64)
    for g in gradients.values():
        total += g.double().square().sum().cpu()
    dist.all_reduce(total)
    return _shorten(gradients, total.sqrt().item(), longest)


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


def clip_a_little_more(gradients, split, mesh, longest):
    """As torch.nn.utils.clip_grad_norm_ does, so as not to divide by 0."""
    length = clip_by()(gradients, split, mesh, math.inf)
    if longest / (length + 1e-6) < 1:
        for g in gradients.values():
            g.mul_(longest / (length + 1e-6))
    return length


def clip_with_many_sums(gradients, split, mesh, longest):
    total = torch.zeros((), dtype=torch.float64)
    for name, g in gradients.items():
        square = g.double().square().sum().cpu()
        if name in split:
            dist.all_reduce(square, group=mesh["tensor"].get_group())
        total += square
    return _shorten(gradients, total.sqrt().item(), longest)


def clip_lengths(gradients, split, mesh, longest):
    parts = whole = torch.zeros((), dtype=torch.float64)
    for name, g in gradients.items():
        if name in split:
            parts = parts + g.double().norm().cpu()
        else:
            whole = whole + g.double().norm().cpu()
    dist.all_reduce(parts, group=mesh["tensor"].get_group())
    return _shorten(gradients, (parts + whole).item(), longest)


def clip_each_gradient(gradients, split, mesh, longest):
    length = clip_by()({n: g.clone() for n, g in gradients.items()}, split, mesh, 1e9)
    for g in gradients.values():
        norm = g.norm()
        if norm > longest:
            g.mul_(longest / norm)
    return length


def clip_split_only(gradients, split, mesh, longest):
    length = clip_by()({n: g.clone() for n, g in gradients.items()}, split, mesh, 1e9)
    _shorten({n: g for n, g in gradients.items() if n in split}, length, longest)
    return length


def clip_on_first_rank(gradients, split, mesh, longest):
    """What is whole is counted by the first tensor rank alone."""
    total = torch.zeros(1, dtype=torch.float64)
    for name, g in gradients.items():
        if name in split or mesh["tensor"].get_local_rank() == 0:
            total += g.double().square().sum().cpu()
    dist.all_reduce(total, group=mesh["tensor"].get_group())
    return _shorten(gradients, float(total) ** 0.5, longest)


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


def clip_by_names(gradients, split, mesh, longest):
    parts = sum(gradients[name].double().square().sum().cpu() for name in split)
    whole = torch.zeros((), dtype=torch.float64)
    for name in set(gradients) - set(split):
        whole += gradients[name].double().square().sum().cpu()
    dist.all_reduce(parts, group=mesh["tensor"].get_group())
    return _shorten(gradients, (parts + whole).sqrt().item(), longest)


def clip_where_there_is_any(gradients, split, mesh, longest):
    if not gradients or mesh["tensor"].get_local_rank():
        return 0.0
    return clip_by()(gradients, split, mesh, longest)


WRONG = {
    "20a-wrapper": [
        Wrong(
            "all_ranks",
            wrapper(group=lambda m: None, divisor=lambda m: dist.get_world_size()),
            "a group, not all ranks",
            note="People often leave out the group: then parts of one layer are "
            "averaged with each other.",
        ),
        Wrong("sum", wrapper(divisor=lambda m: 1), "the mean over this group"),
        Wrong(
            "world_size",
            wrapper(divisor=lambda m: dist.get_world_size()),
            "the mean over this group",
        ),
        Wrong("former_deal", wrapper(former_deal=False), "the former `deal`"),
        Wrong("former_complete", wrapper(complete="never"), "that it runs once"),
        Wrong("complete_last", wrapper(complete="last"), "`complete` comes first"),
        Wrong(
            "global_rank",
            wrapper(place=lambda m: dist.get_rank() % m.size()),
            "this rank's number within",
        ),
        Wrong("strided", wrapper(rows=strided), "its part is consecutive"),
        Wrong("first_size", wrapper_of_first_size, "more in the next batch"),
        Wrong("inputs_only", wrapper(both=False), "targets are dealt"),
        Wrong("early_model", wrapper_of_early_model, "what `deal` and `complete`"),
        Wrong("parameters", wrapper_that_averages_parameters, "the mean over"),
        Wrong("deal_only", deal_only, "the mean over"),
        Wrong("complete_only", complete_only, "this rank's number within"),
        Wrong(
            "one_table",
            wrapper_with_one_table,
            "it runs once",
            note="The functions of the training that was wrapped last, for all.",
        ),
        Wrong("returns", wrapper_that_returns, "nothing is returned"),
        Wrong("at_once", wrapper_at_once, "when gradients are there"),
        Wrong(
            "first_rank", wrapper_on_the_first_rank, "every rank of the group", "HUNG"
        ),
    ],
    "20a-inside": [
        Wrong(
            "by_bytes",
            order_by_bytes,
            "not always the one with most bytes",
            note="People often sort by bytes; that fails where the largest does not "
            "fit into a node.",
        ),
        Wrong("reversed", order_by_bytes_reversed, "the last dimension counts fastest"),
        Wrong("by_ranks", order_by_ranks, "fit into a node"),
        Wrong("as_given", order_as_given, "fit into a node"),
        Wrong("all_bytes", order_by_all_bytes, "fit into a node"),
        Wrong("only_fits", order_that_only_fits, "consecutive ranks"),
        Wrong("own_size", order_by_own_size, "consecutive ranks"),
        Wrong("greedy", greedy_order, "not always the one with most bytes"),
        Wrong("from_inside", order_from_inside, "the last dimension counts fastest"),
        Wrong("a_name", innermost_name, "each dimension's name"),
    ],
    "20a-clip": [
        Wrong(
            "twice",
            clip_by(once=False),
            "counts once",
            note="People often add up everything over the tensor group.",
        ),
        Wrong("everybody", clip_over_everybody, "counts once|whose squares"),
        Wrong("world", clip_by(group=None), "one all-reduce on every rank"),
        Wrong("data", clip_by(group="data"), "whose squares are added"),
        Wrong("divided", clip_by(divide=2), "whose squares are added"),
        Wrong("always", clip_by(when_longer=False), "multiplied, and when"),
        Wrong("after", clip_by(after=True), "before it is clipped"),
        Wrong("copies", clip_by(in_place=False), "in place"),
        Wrong("many_sums", clip_with_many_sums, "one all-reduce on every rank"),
        Wrong("a_little_more", clip_a_little_more, "by what all gradients"),
        Wrong("lengths", clip_lengths, "whose squares are added"),
        Wrong("their_type", clip_in_type_of_gradients, "64 bits in any case"),
        Wrong("by_names", clip_by_names, "maybe none"),
        Wrong("each", clip_each_gradient, "by what all gradients"),
        Wrong("split_only", clip_split_only, "by what all gradients"),
        Wrong(
            "first_rank_only", clip_where_there_is_any, "calls the all-reduce", "HUNG"
        ),
    ],
}
RIGHT = {
    "20a-wrapper": [
        Right("bucket", bucket_wrapper),
        Right("gathering", gathering_wrapper),
    ],
    "20a-inside": [
        Right("blocks", order_by_blocks),
        Right("no_exception", order_without_exception),
        Right("all_ranks", order_by_going_to_all),
    ],
    "20a-clip": [
        Right("divided_out", clip_copies_divided_out),
        Right("first_rank_counts", clip_on_first_rank),
    ],
}
