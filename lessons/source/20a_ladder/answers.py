"""Wrong answers to the exercises of lesson 20a."""

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
):
    """A wrapper with one thing, or several, done in another way."""

    def wrap(training, mesh):
        deal, done = training.deal, training.complete

        def deal_rows(inputs, targets):
            if former_deal:
                inputs, targets = deal(inputs, targets)
            ranks, here = mesh.size(), place(mesh)
            return inputs.chunk(ranks)[here], targets.chunk(ranks)[here]

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


wrong(
    "20a-wrapper",
    advice="a group, not all ranks",
    name="all_ranks",
    note="People often leave out the group: then parts of one layer are averaged "
    "with each other.",
)(wrapper(group=lambda m: None, divisor=lambda m: dist.get_world_size()))
wrong(
    "20a-wrapper",
    advice="the mean over this group",
    name="sum",
    note="They forget to divide.",
)(wrapper(divisor=lambda m: 1))
wrong(
    "20a-wrapper",
    advice="the former `deal`",
    name="former_deal",
    note="They replace the former `deal` without calling it, so a wrapper inside "
    "loses its rows.",
)(wrapper(former_deal=False))
wrong(
    "20a-wrapper",
    advice="`complete` comes first",
    name="complete_last",
    note="They call the former `complete` after averaging.",
)(wrapper(complete="last"))
wrong(
    "20a-wrapper",
    advice="this rank's number within",
    name="global_rank",
    note="They take the rank among all for the number within the dimension.",
)(wrapper(place=lambda m: dist.get_rank() % m.size()))


@wrong(
    "20a-wrapper",
    advice="every rank of the group",
    state="HUNG",
    note="They let the first rank of the group call a collective alone.",
)
def wrapper_on_the_first_rank(training, mesh):
    wrapper()(training, mesh)
    done, first = training.complete, mesh.get_local_rank() == 0
    training.complete = lambda: done() if first else None


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
    note="People often sort by bytes; that fails where the largest does not fit into "
    "a node.",
)
def order_by_bytes(ranks, sent, per_node):
    return sorted(ranks, key=sent.get)


def best_by(inside):
    """Tries all orders: a dimension is inside if inside(size, block, per_node)."""

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


wrong(
    "20a-inside",
    advice="consecutive ranks",
    name="only_fits",
    note="They ask whether a block fits into a node, not whether blocks fill it "
    "evenly.",
)(best_by(lambda size, block, node: block <= node))
wrong(
    "20a-inside",
    advice="consecutive ranks",
    name="own_size",
    note="They ask whether the dimension alone fits, without those inside it.",
)(best_by(lambda size, block, node: node % size == 0))


@wrong(
    "20a-inside",
    advice="the last dimension counts fastest",
    note="They find the best order and write its innermost dimension first.",
)
def order_from_inside(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[::-1]


@wrong(
    "20a-inside",
    advice="not always the one with most bytes",
    note="They fill the node with the largest that fits, and never try two small "
    "ones instead.",
)
def greedy_order(ranks, sent, per_node):
    inside, block = [], 1
    for name in sorted(ranks, key=sent.get, reverse=True):
        if per_node % (block * ranks[name]) == 0:
            block *= ranks[name]
            inside.insert(0, name)
    return [name for name in ranks if name not in inside] + inside


@wrong(
    "20a-inside",
    advice="each dimension's name",
    note="They return one dimension, the one inside.",
)
def innermost_name(ranks, sent, per_node):
    return order_by_blocks(ranks, sent, per_node)[-1]


order_by_blocks = best_by(lambda size, block, node: size == 1 or node % block == 0)
right("20a-inside", name="blocks")(order_by_blocks)


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
    once=True,
    group=lambda mesh: mesh["tensor"].get_group(),
    power=2,
    when_longer=True,
    in_place=True,
):
    """Clips on a mesh, with one thing done otherwise."""

    def clip(gradients, split, mesh, longest):
        counted = whole = torch.zeros((), dtype=torch.float64)
        for name, g in gradients.items():
            size = g.double().norm().cpu() ** power
            if name in split or not once:
                counted = counted + size
            else:
                whole = whole + size
        dist.all_reduce(counted, group=group(mesh))
        length = ((counted + whole) ** (1 / power)).item()
        if length > longest or not when_longer:
            for name, g in gradients.items():
                if in_place:
                    g.mul_(longest / length)
                else:
                    gradients[name] = g * (longest / length)
        return length

    return clip


wrong(
    "20a-clip",
    advice="counts once",
    name="twice",
    note="People often add up everything over the tensor group.",
)(clip_by(once=False))
wrong(
    "20a-clip",
    advice="the squares of split gradients",
    name="data",
    note="They add up over the data group, where all hold copies.",
)(clip_by(group=lambda mesh: mesh["data"].get_group()))
wrong(
    "20a-clip",
    advice="multiplied, split or whole, and when",
    name="always",
    note="They stretch a short gradient to `longest` as well.",
)(clip_by(when_longer=False))
wrong(
    "20a-clip",
    advice="in place",
    name="copies",
    note="They put new tensors into the dictionary.",
)(clip_by(in_place=False))


wrong(
    "20a-clip",
    advice="the squares of split gradients",
    name="lengths",
    note="They add lengths instead of squares.",
)(clip_by(power=1))


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


@wrong(
    "20a-clip", advice="by what all gradients", note="They clip each tensor by itself."
)
def clip_each_gradient(gradients, split, mesh, longest):
    length = clip_by()({n: g.clone() for n, g in gradients.items()}, split, mesh, 1e9)
    for g in gradients.values():
        norm = g.norm()
        if norm > longest:
            g.mul_(longest / norm)
    return length


@right("20a-clip")
def clip_on_first_rank(gradients, split, mesh, longest):
    """What is whole is counted by the first tensor rank alone, in 32 bits."""
    total = torch.zeros(1)
    for name, g in gradients.items():
        if name in split or mesh["tensor"].get_local_rank() == 0:
            total += g.square().sum().cpu()
    dist.all_reduce(total, group=mesh["tensor"].get_group())
    return _shorten(gradients, float(total) ** 0.5, longest)
