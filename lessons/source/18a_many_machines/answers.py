"""Wrong answers to the exercises of lesson 18a, and unusual right ones."""

from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.machines.ring_among import ring_among

# 18a-two-levels -----------------------------------------------------------------------


def _place(per_machine):
    rank = dist.get_rank()
    leader = rank - rank % per_machine
    return rank, leader, range(leader + 1, leader + per_machine)


def _gather_sum(tensor, per_machine) -> bool:
    """Whether this rank is a leader; then `tensor` is its machine's sum."""
    rank, leader, others = _place(per_machine)
    if rank != leader:
        dist.send(tensor, leader)
        return False
    for other in others:
        received = torch.empty_like(tensor)
        dist.recv(received, other)
        tensor += received
    return True


def _spread(tensor, per_machine) -> None:
    rank, leader, others = _place(per_machine)
    if rank != leader:
        dist.recv(tensor, leader)
        return
    for other in others:
        dist.send(tensor, other)


def _leaders(per_machine):
    return range(0, dist.get_world_size(), per_machine)


@wrong(
    "18a-two-levels",
    advice="how the total gets back",
    note="The sum is right where people look first: on rank 0.",
)
def levels_total_kept_by_leaders(tensor, per_machine):
    if _gather_sum(tensor, per_machine):
        ring_among(tensor, _leaders(per_machine))


@wrong(
    "18a-two-levels",
    advice="which are leaders",
    note="They forget that only leaders may call the leaders' ring.",
)
def levels_all_in_leaders_ring(tensor, per_machine):
    _gather_sum(tensor, per_machine)
    ring_among(tensor, _leaders(per_machine))
    _spread(tensor, per_machine)


@wrong(
    "18a-two-levels",
    advice="who talks to other machines",
    note="They call the ring of the text with all ranks: a right sum, but the flat "
    "ring again.",
)
def levels_flat_ring(tensor, per_machine):
    ring_among(tensor, range(dist.get_world_size()))


@wrong(
    "18a-two-levels",
    advice="which summands",
    note="They sum inside the machine and forget the other machines.",
)
def levels_one_machine_only(tensor, per_machine):
    _gather_sum(tensor, per_machine)
    _spread(tensor, per_machine)


@wrong(
    "18a-two-levels",
    advice="go round a ring",
    note="The leaders send to rank 0, which adds and answers: the text's ring is not "
    "used, and rank 0's link carries more.",
)
def levels_leaders_at_a_root(tensor, per_machine):
    if _gather_sum(tensor, per_machine):
        others = _leaders(per_machine)[1:]
        if dist.get_rank() == 0:
            for other in others:
                received = torch.empty_like(tensor)
                dist.recv(received, other)
                tensor += received
            for other in others:
                dist.send(tensor, other)
        else:
            dist.send(tensor, 0)
            dist.recv(tensor, 0)
    _spread(tensor, per_machine)


@wrong(
    "18a-two-levels",
    advice="between the ranks that need them",
    note="They call the library instead of building it.",
)
def levels_the_library(tensor, per_machine):
    dist.all_reduce(tensor)


@right("18a-two-levels")
def levels_chain(tensor, per_machine):
    """Along a chain to the last rank of the machine, which speaks for it; and back."""
    rank, leader, _ = _place(per_machine)
    last = leader + per_machine - 1
    if rank > leader:
        received = torch.empty_like(tensor)
        dist.recv(received, rank - 1)
        tensor += received
    if rank < last:
        dist.send(tensor, rank + 1)
        dist.recv(tensor, rank + 1)
    else:
        ring_among(tensor, range(per_machine - 1, dist.get_world_size(), per_machine))
    if rank > leader:
        dist.send(tensor, rank - 1)


@right("18a-two-levels")
def levels_sharded(tensor, per_machine):
    """Each rank of a machine sums up a part, and crosses with it."""
    rank, leader, _ = _place(per_machine)
    parts = tensor.view(-1).tensor_split(per_machine)
    mine = parts[rank - leader]
    others = [r for r in range(leader, leader + per_machine) if r != rank]
    works = [dist.isend(parts[other - leader].clone(), other) for other in others]
    for other in others:
        received = torch.empty_like(mine)
        dist.recv(received, other)
        mine += received
    for work in works:
        work.wait()
    ring_among(mine, range(rank - leader, dist.get_world_size(), per_machine))
    ops = [dist.P2POp(dist.isend, mine, other) for other in others]
    ops += [dist.P2POp(dist.irecv, parts[other - leader], other) for other in others]
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()


# 18a-break-even -----------------------------------------------------------------------


def even_as_solved(size, share, seconds, machines):
    saved = 2 * (machines - 1) / machines * size * (1 - share)
    return max(0.0, saved / seconds)


@wrong(
    "18a-break-even",
    advice="bytes that leave a machine",
    note="They take the size of the gradients for what a machine sends, and forget "
    "the ring.",
)
def even_without_ring(size, share, seconds, machines):
    return max(0.0, size * (1 - share) / seconds)


@wrong(
    "18a-break-even",
    advice="bytes that leave a machine",
    note="They count the reduce-scatter, and forget the all-gather.",
)
def even_once_round(size, share, seconds, machines):
    return even_as_solved(size, share, seconds, machines) / 2


@wrong(
    "18a-break-even",
    advice="or the bytes that are saved|save",
    note="They compute with the bytes that are still sent, not with those saved.",
)
def even_bytes_sent(size, share, seconds, machines):
    return even_as_solved(size, 1 - share, seconds, machines)


@wrong(
    "18a-break-even",
    advice="saves anything",
    note="They forget that a share above 1 saves nothing, and return a negative rate.",
)
def even_negative(size, share, seconds, machines):
    return 2 * (machines - 1) / machines * size * (1 - share) / seconds


@wrong(
    "18a-break-even",
    advice="At which rate",
    note="Links are sold in bits per second; the exercise asks for bytes.",
)
def even_in_bits(size, share, seconds, machines):
    return 8 * even_as_solved(size, share, seconds, machines)


@wrong(
    "18a-break-even",
    advice="At which rate",
    note="They divide the wrong way round: seconds per byte.",
)
def even_seconds_per_byte(size, share, seconds, machines):
    rate = even_as_solved(size, share, seconds, machines)
    return 1 / rate if rate else 0.0


@right("18a-break-even")
def even_in_fractions(size, share, seconds, machines):
    ring = Fraction(2 * (machines - 1), machines)
    return max(0, ring * Fraction(size) * (1 - Fraction(share)) / Fraction(seconds))


@right("18a-break-even")
def even_with_numpy(size, share, seconds, machines):
    sent = 2 * np.float64(machines - 1) / machines * size * np.array([1, share])
    return np.float64(0) if share >= 1 else (sent[0] - sent[1]) / seconds


# 18a-top-k ----------------------------------------------------------------------------


def _mean_of_sent(gradient, places, values):
    ranks = dist.get_world_size()
    all_places = [torch.empty_like(places) for _ in range(ranks)]
    all_values = [torch.empty_like(values) for _ in range(ranks)]
    dist.all_gather(all_places, places)
    dist.all_gather(all_values, values)
    total = torch.zeros_like(gradient)
    for where, what in zip(all_places, all_values, strict=True):
        total[where] += what
    return total / ranks


def _pick(memory, k, by=None):
    places = (memory.abs() if by is None else by).topk(k).indices
    values = memory[places]
    memory[places] = 0
    return places, values


@wrong(
    "18a-top-k",
    advice="what `memory` holds|which entries",
    note="They overwrite the memory instead of adding to it: no error feedback.",
)
def top_k_forgets(gradient, memory, k):
    memory.copy_(gradient)
    return _mean_of_sent(gradient, *_pick(memory, k))


@wrong(
    "18a-top-k",
    advice="of memory and grad",
    note="They choose by the gradient alone, so what waits in memory is never sent.",
)
def top_k_of_gradient_alone(gradient, memory, k):
    memory += gradient
    return _mean_of_sent(gradient, *_pick(memory, k, gradient.abs()))


@wrong(
    "18a-top-k",
    advice="or a new tensor of that name",
    note="`memory = memory + gradient` makes a new tensor; the caller's memory stays "
    "as it was.",
)
def top_k_memory_lost(gradient, memory, k):
    memory = memory + gradient
    return _mean_of_sent(gradient, *_pick(memory, k))


@wrong("18a-top-k", advice="absolute value", note="They forget large negative entries.")
def top_k_largest_not_absolute(gradient, memory, k):
    memory += gradient
    return _mean_of_sent(gradient, *_pick(memory, k, memory))


@wrong(
    "18a-top-k",
    advice="0 at the k places",
    note="They forget to set to 0 what has been sent, so it is sent again.",
)
def top_k_keeps_what_it_sent(gradient, memory, k):
    memory += gradient
    places = memory.abs().topk(k).indices
    return _mean_of_sent(gradient, places, memory[places])


@wrong(
    "18a-top-k",
    advice="dist.all_gather, and noth",
    note="They put the k entries into a full tensor and all-reduce it: right, but "
    "nothing is saved.",
)
def top_k_dense_all_reduce(gradient, memory, k):
    memory += gradient
    places, values = _pick(memory, k)
    total = torch.zeros_like(gradient).index_put((places,), values)
    dist.all_reduce(total)
    return total / dist.get_world_size()


@right("18a-top-k")
def top_k_by_sorting(gradient, memory, k):
    """Places in 32 bits, sorted; added up by index_add_."""
    memory.add_(gradient)
    places = memory.abs().argsort(descending=True)[:k].sort().values
    values = memory[places].clone()
    memory.index_fill_(0, places, 0)
    ranks, short = dist.get_world_size(), places.int()
    all_places = [torch.empty_like(short) for _ in range(ranks)]
    all_values = [torch.empty_like(values) for _ in range(ranks)]
    dist.all_gather(all_values, values)
    dist.all_gather(all_places, short)
    total = torch.zeros_like(gradient)
    total.index_add_(0, torch.cat(all_places).long(), torch.cat(all_values))
    return total / ranks


@right("18a-top-k")
def top_k_in_one_message(gradient, memory, k):
    """The bits of the places travel behind the values, as if they were values."""
    memory += gradient
    places, values = _pick(memory, k)
    packed = torch.cat([values, places.view(values.dtype)])
    everyones = [torch.empty_like(packed) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, packed)
    total = torch.zeros_like(gradient)
    for one in everyones:
        total[one[k:].clone().view(torch.int64)] += one[:k]
    return total / len(everyones)
