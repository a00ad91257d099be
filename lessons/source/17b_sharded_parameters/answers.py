"""Wrong answers to the exercises of lesson 17b."""

from functools import partial
from itertools import product

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong

# 17b-gather-free ----------------------------------------------------------------------


def gather(unit):
    unit.allocate()
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size())), unit.kept)


def free(unit):
    unit.release()


def nothing(unit):
    pass


def reduce(unit, frees=True, mean=True):
    ranks = dist.get_world_size()
    if frees:
        unit.release()
    whole = unit.take_gradients() / (ranks if mean else 1)
    unit.kept.grad = torch.empty_like(unit.kept)
    dist.reduce_scatter(unit.kept.grad, list(whole.chunk(ranks)))


def gather_without_memory(unit):
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size())), unit.kept)


def gather_if_needed(unit):
    if not unit.flat.untyped_storage().nbytes():
        gather(unit)


FIRST: dict[object, torch.Tensor] = {}


def gather_once(unit):
    """Keeps a copy of what was gathered first: the optimiser changes it later."""
    if unit not in FIRST:
        gather(unit)
        FIRST[unit] = unit.flat.clone()
    unit.allocate()
    unit.flat.copy_(FIRST[unit])


def gather_joined(unit):
    """Into tensors of its own, and from there."""
    pieces = [torch.empty_like(unit.kept) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, unit.kept)
    unit.allocate()
    unit.flat.copy_(torch.cat(pieces))


def reduce_then_divide(unit):
    ranks, mine = dist.get_world_size(), torch.zeros_like(unit.kept)
    dist.reduce_scatter(mine, list(unit.take_gradients().tensor_split(ranks)))
    unit.release()
    unit.kept.grad = mine / ranks


def gather_with_wait(unit):
    unit.allocate()
    pieces = list(unit.flat.view(dist.get_world_size(), -1).unbind())
    dist.all_gather(pieces, unit.kept, async_op=True).wait()


# 17b-which-layers ---------------------------------------------------------------------


def peak_of(layers, chosen) -> int:
    before = peak = 0
    for place, (kept, entry, _) in enumerate(layers):
        peak = max(peak, before + kept)
        before += entry if place in chosen else kept
    return peak


def all_choices(layers):
    for flags in product((False, True), repeat=len(layers)):
        yield {place for place, flag in enumerate(flags) if flag}


def cost_of(layers, chosen) -> int:
    return sum(layers[place][2] for place in chosen)


def by_brute_force(layers, budget, peak=peak_of, cost=cost_of):
    fitting = [
        chosen for chosen in all_choices(layers) if peak(layers, chosen) <= budget
    ]
    return min(fitting, key=lambda chosen: cost(layers, chosen), default=None)


@wrong(
    "17b-which-layers",
    advice="rule of thumb",
    note="The most common one: most bytes for each second first.",
)
def greedy_by_rate(layers, budget):
    def rate(place):
        kept, entry, seconds = layers[place]
        return (kept - entry) / (seconds + 0.01)

    chosen = set()
    for place in sorted(range(len(layers)), key=rate, reverse=True):
        if peak_of(layers, chosen) <= budget:
            return chosen
        chosen.add(place)
    return chosen if peak_of(layers, chosen) <= budget else None


@wrong(
    "17b-which-layers",
    advice="while backward is at a layer",
    note="They add up what is held after forward, and forget that a recomputed layer "
    "is whole when backward reaches it.",
)
def by_sum_after_forward(layers, budget):
    def held(layers, chosen):
        return sum(e if i in chosen else k for i, (k, e, _) in enumerate(layers))

    return by_brute_force(layers, budget, peak=held)


@wrong(
    "17b-which-layers",
    advice="while backward is at a layer",
    note="They look at the last layer only, where most is held as a rule.",
)
def by_the_last_layer(layers, budget):
    def held(layers, chosen):
        before = sum(layer[i in chosen] for i, layer in enumerate(layers[:-1]))
        return before + layers[-1][0]

    return by_brute_force(layers, budget, peak=held)


@wrong(
    "17b-which-layers",
    advice="are enough",
    note="They look for the fewest layers, not the fewest seconds.",
)
def fewest_layers(layers, budget):
    return by_brute_force(layers, budget, cost=lambda layers, chosen: len(chosen))


@wrong(
    "17b-which-layers",
    advice="are enough",
    note="They recompute all, as a library's switch does.",
)
def recomputes_everything(layers, budget):
    chosen = set(range(len(layers)))
    return chosen if peak_of(layers, chosen) <= budget else None


@wrong(
    "17b-which-layers",
    advice="if no choice fits",
    note="They return an empty set when nothing fits, which means: recompute nothing.",
)
def empty_if_none_fits(layers, budget):
    return by_brute_force(layers, budget) or set()


@right("17b-which-layers")
def by_recursion(layers, budget):
    """Goes through the layers once, and cuts off what cannot fit any more."""

    def best(place, before):
        if place == len(layers):
            return 0, frozenset()
        kept, entry, seconds = layers[place]
        if before + kept > budget:
            return None
        ways = []
        for cost, held, mine in ((0, kept, ()), (seconds, entry, (place,))):
            rest = best(place + 1, before + held)
            if rest is not None:
                ways.append((cost + rest[0], rest[1] | set(mine)))
        return min(ways, key=lambda way: way[0], default=None)

    found = best(0, 0)
    return None if found is None else found[1]


@right("17b-which-layers")
def by_table(layers, budget):
    """Dynamic programming: for each memory held before a layer, the cheapest choice."""
    table = {0: (0, [])}
    for place, (kept, entry, seconds) in enumerate(layers):
        after = {}
        for before, (cost, chosen) in table.items():
            if before + kept > budget:
                continue
            for held, more, mine in ((kept, 0, []), (entry, seconds, [place])):
                state = cost + more, chosen + mine
                if state[0] < after.get(before + held, (float("inf"),))[0]:
                    after[before + held] = state
        table = after
    return min(table.values())[1] if table else None


# 17b-reshard --------------------------------------------------------------------------


def intervals(length, writers, readers, reader):
    own, theirs = -(-length // readers), -(-length // writers)
    for writer in range(writers):
        begin, end = writer * theirs, min((writer + 1) * theirs, length)
        first, last = max(begin, reader * own), min(end, (reader + 1) * own)
        yield writer, begin, end, first, last


@wrong(
    "17b-reshard",
    advice="beginning of the file",
    note="They return positions in the whole tensor, not in the writer's file.",
)
def positions_in_the_whole(*args):
    return [(w, f, last) for w, b, e, f, last in intervals(*args) if f < last]


@wrong("17b-reshard", advice="empty", note="They keep pieces with nothing in them.")
def with_empty_pieces(*args):
    return [(w, f - b, last - b) for w, b, e, f, last in intervals(*args) if f <= last]


@wrong(
    "17b-reshard",
    advice="just before its `stop`",
    note="They take the last position for the stop.",
)
def stop_included(*args):
    return [
        (w, f - b, last - b - 1) for w, b, e, f, last in intervals(*args) if f < last
    ]


@wrong(
    "17b-reshard",
    advice="where this reader's shard",
    note="They round the shards' length down.",
)
def rounded_down(length, writers, readers, reader):
    own, theirs = length // readers, max(1, length // writers)
    pieces = []
    for writer in range(writers):
        begin = writer * theirs
        first, last = max(begin, reader * own), min(begin + theirs, (reader + 1) * own)
        if first < last:
            pieces.append((writer, first - begin, last - begin))
    return pieces


@wrong(
    "17b-reshard",
    advice="where this reader's shard",
    note="They read whole files, which is right only if the readers' cuts fall on "
    "the writers'.",
)
def whole_files(length, writers, readers, reader):
    """Right only if the readers' cuts fall on the writers'."""
    share = -(-writers // readers)
    theirs = -(-length // writers)
    mine = range(reader * share, min((reader + 1) * share, writers))
    return [
        (w, 0, min(theirs, length - w * theirs)) for w in mine if w * theirs < length
    ]


@wrong(
    "17b-reshard",
    advice="where this reader's shard",
    note="They stop after the first file.",
)
def one_file_only(*args):
    pieces = intervals(*args)
    return [(w, f - b, last - b) for w, b, e, f, last in pieces if f < last][:1]


@right("17b-reshard")
def by_division(length, writers, readers, reader):
    """Walks from file to file."""
    own, theirs = -(-length // readers), -(-length // writers)
    at, end, pieces = reader * own, min((reader + 1) * own, length), []
    while at < end:
        writer, start = divmod(at, theirs)
        count = min(theirs - start, end - at)
        pieces.append((writer, start, start + count))
        at += count
    return pieces


@right("17b-reshard")
def by_torch(length, writers, readers, reader):
    """Cuts a tensor of positions as torch.chunk does, and looks where they lie."""
    theirs = max(1, -(-length // writers))
    whole = torch.arange(length)
    shard = whole[reader * -(-length // readers) :][: -(-length // readers)]
    pieces = []
    for writer in torch.unique(shard // theirs).tolist():
        inside = shard[shard // theirs == writer] - writer * theirs
        pieces.append([writer, int(inside[0]), int(inside[-1]) + 1])
    return pieces


wrong(
    "17b-gather-free",
    advice="freed too early|no memory after before_backward",
    name="freed_too_early",
    note="Gathered for forward only. Without the ledger the process may end.",
)((gather, free, nothing, reduce))
wrong(
    "17b-gather-free",
    advice="still whole after after_backward",
    name="never_freed_after_backward",
    note="Memory fills up in the course of backward.",
)((gather, free, gather, partial(reduce, frees=False)))
wrong(
    "17b-gather-free",
    advice="still whole after after_forward",
    name="never_freed_after_forward",
    note="They keep a unit for backward: right numbers, and all units are whole at "
    "once.",
)((gather, nothing, gather_if_needed, reduce))
wrong(
    "17b-gather-free",
    advice="divided once",
    name="sum",
    note="They forget to divide by the ranks.",
)((gather, free, gather, partial(reduce, mean=False)))


wrong(
    "17b-gather-free",
    advice="memory behind|freed too early",
    name="no_memory",
    note="They gather into `flat` before it has memory.",
)((gather_without_memory, free, gather_without_memory, reduce))


wrong(
    "17b-gather-free",
    advice="what has to travel|current shards",
    name="gathered_once",
    note="The first step is right, the second computes with old numbers.",
)((gather_once, free, gather_once, reduce))
right("17b-gather-free", name="joined")(
    (gather_joined, free, gather_joined, reduce_then_divide)
)
right("17b-gather-free", name="waits")((gather_with_wait, free, gather, reduce))
