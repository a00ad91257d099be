"""Wrong answers to the exercises of lesson 17b."""

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


def reduce(unit):
    ranks = dist.get_world_size()
    unit.release()
    whole = unit.take_gradients() / ranks
    unit.kept.grad = torch.empty_like(unit.kept)
    dist.reduce_scatter(unit.kept.grad, list(whole.chunk(ranks)))


def reduce_without_freeing(unit):
    whole = unit.take_gradients() / dist.get_world_size()
    unit.kept.grad = torch.empty_like(unit.kept)
    dist.reduce_scatter(unit.kept.grad, list(whole.chunk(dist.get_world_size())))


def reduce_to_the_sum(unit):
    unit.release()
    whole = unit.take_gradients()
    unit.kept.grad = torch.empty_like(unit.kept)
    dist.reduce_scatter(unit.kept.grad, list(whole.chunk(dist.get_world_size())))


def reduce_divided_twice(unit):
    reduce(unit)
    unit.kept.grad /= dist.get_world_size()


def reduce_by_all_reduce(unit):
    unit.release()
    whole = unit.take_gradients() / dist.get_world_size()
    dist.all_reduce(whole)
    unit.kept.grad = whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def own_gradient_only(unit):
    unit.release()
    whole = unit.take_gradients()
    unit.kept.grad = whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def reduce_into_a_piece(unit):
    unit.release()
    whole = unit.take_gradients() / dist.get_world_size()
    pieces = list(whole.chunk(dist.get_world_size()))
    mine = pieces[dist.get_rank()]
    dist.reduce_scatter(mine, pieces)
    unit.kept.grad = mine


def reduce_without_waiting(unit):
    unit.release()
    whole = unit.take_gradients() / dist.get_world_size()
    unit.kept.grad = torch.empty_like(unit.kept)
    pieces = list(whole.chunk(dist.get_world_size()))
    dist.reduce_scatter(unit.kept.grad, pieces, async_op=True)


def gather_without_memory(unit):
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size())), unit.kept)


def only_own_shard(unit):
    unit.allocate()
    unit.flat.zero_()
    unit.flat.chunk(dist.get_world_size())[dist.get_rank()].copy_(unit.kept)


def allocate_only(unit):
    unit.allocate()


def gather_and_spoil(unit):
    gather(unit)
    unit.flat.fill_(torch.nan)


def gather_if_needed(unit):
    if not unit.flat.untyped_storage().nbytes():
        gather(unit)


def gather_in_another_order(unit):
    unit.allocate()
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size()))[::-1], unit.kept)


def gather_into_a_new_flat(unit):
    unit.flat = torch.empty_like(unit.kept).repeat(dist.get_world_size())
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size())), unit.kept)


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
    if dist.get_world_size() == 1:
        pieces[0].copy_(unit.kept)
    else:
        dist.all_gather(pieces, unit.kept, async_op=True).wait()


def reduce_alone_without_messages(unit):
    if dist.get_world_size() == 1:
        unit.release()
        unit.kept.grad = unit.take_gradients()
    else:
        reduce(unit)


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


@wrong("17b-which-layers", advice="rule of thumb", note="The most common one.")
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


@wrong("17b-which-layers", advice="rule of thumb")
def from_the_front(layers, budget):
    chosen = set()
    for place in range(len(layers)):
        if peak_of(layers, chosen) <= budget:
            return chosen
        chosen.add(place)
    return chosen if peak_of(layers, chosen) <= budget else None


@wrong("17b-which-layers", advice="while backward is at a layer")
def by_sum_after_forward(layers, budget):
    def held(layers, chosen):
        return sum(e if i in chosen else k for i, (k, e, _) in enumerate(layers))

    return by_brute_force(layers, budget, peak=held)


@wrong("17b-which-layers", advice="are enough")
def fewest_layers(layers, budget):
    return by_brute_force(layers, budget, cost=lambda layers, chosen: len(chosen))


@wrong("17b-which-layers", advice="are enough")
def least_memory(layers, budget):
    return by_brute_force(layers, budget, cost=peak_of)


@wrong("17b-which-layers", advice="are enough")
def recomputes_everything(layers, budget):
    chosen = set(range(len(layers)))
    return chosen if peak_of(layers, chosen) <= budget else None


@wrong("17b-which-layers", advice="if no choice fits")
def empty_if_none_fits(layers, budget):
    return by_brute_force(layers, budget) or set()


@wrong("17b-which-layers", advice="are enough|whether a choice fits")
def below_the_budget(layers, budget):
    return by_brute_force(layers, budget - 1)


@wrong("17b-which-layers", advice="while backward is at a layer")
def recomputed_layers_never_whole(layers, budget):
    def peak(layers, chosen):
        before = most = 0
        for place, (kept, entry, _) in enumerate(layers):
            before += entry if place in chosen else kept
            most = max(most, before)
        return most

    return by_brute_force(layers, budget, peak=peak)


@wrong("17b-which-layers", advice="the indices")
def as_flags(layers, budget):
    chosen = by_brute_force(layers, budget)
    return chosen if chosen is None else [i in chosen for i in range(len(layers))]


@wrong("17b-which-layers", advice="from 0|while backward")
def counted_from_one(layers, budget):
    chosen = by_brute_force(layers, budget)
    return chosen if chosen is None else {place + 1 for place in chosen}


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


@wrong("17b-reshard", advice="beginning of the file")
def positions_in_the_whole(*args):
    return [(w, f, last) for w, b, e, f, last in intervals(*args) if f < last]


@wrong("17b-reshard", advice="empty")
def with_empty_pieces(*args):
    return [(w, f - b, last - b) for w, b, e, f, last in intervals(*args) if f <= last]


@wrong("17b-reshard", advice="empty|beginning of the file")
def all_writers(*args):
    found = [(w, f - b, last - b) for w, b, e, f, last in intervals(*args)]
    return [(w, max(0, f), max(0, last)) for w, f, last in found]


@wrong("17b-reshard", advice="where this reader's shard|empty")
def stop_included(*args):
    return [
        (w, f - b, last - b - 1) for w, b, e, f, last in intervals(*args) if f < last
    ]


@wrong("17b-reshard", advice="without padding|where this reader's")
def into_the_padding(length, writers, readers, reader):
    padded = -(-length // writers) * writers
    return list_of(intervals(padded, writers, readers, reader))


def list_of(found):
    return [(w, f - b, last - b) for w, b, e, f, last in found if f < last]


@wrong("17b-reshard", advice="where this reader's shard")
def rounded_down(length, writers, readers, reader):
    own, theirs = length // readers, max(1, length // writers)
    pieces = []
    for writer in range(writers):
        begin = writer * theirs
        first, last = max(begin, reader * own), min(begin + theirs, (reader + 1) * own)
        if first < last:
            pieces.append((writer, first - begin, last - begin))
    return pieces


@wrong("17b-reshard", advice="where this reader's shard")
def whole_files(length, writers, readers, reader):
    """Right only if the readers' cuts fall on the writers'."""
    share = -(-writers // readers)
    theirs = -(-length // writers)
    mine = range(reader * share, min((reader + 1) * share, writers))
    return [
        (w, 0, min(theirs, length - w * theirs)) for w in mine if w * theirs < length
    ]


@wrong("17b-reshard", advice="where this reader's shard")
def one_file_only(*args):
    return list_of(intervals(*args))[:1]


@wrong("17b-reshard", advice="empty|where this reader's")
def start_and_count(*args):
    return [(w, f - b, last - f) for w, b, e, f, last in intervals(*args) if f < last]


@wrong("17b-reshard", advice="order of the pieces")
def last_first(*args):
    return list_of(intervals(*args))[::-1]


@wrong("17b-reshard", advice="one, for both are intervals")
def number_by_number(*args):
    return [
        (w, at - b, at - b + 1)
        for w, b, e, f, last in intervals(*args)
        for at in range(f, last)
    ]


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
    note="Gathered for forward only. Without the ledger the process may end.",
    name="freed_too_early",
)((gather, free, nothing, reduce))
wrong(
    "17b-gather-free",
    advice="still whole after after_backward",
    note="Memory fills up in the course of backward.",
    name="never_freed_after_backward",
)((gather, free, gather, reduce_without_freeing))
wrong(
    "17b-gather-free",
    advice="still whole after after_forward",
    name="never_freed_after_forward",
)((gather, nothing, gather_if_needed, reduce))
wrong("17b-gather-free", advice="not the sum", name="sum")(
    (gather, free, gather, reduce_to_the_sum)
)
wrong("17b-gather-free", advice="divided by", name="divided_twice")(
    (gather, free, gather, reduce_divided_twice)
)
wrong("17b-gather-free", advice="only one shard to each rank", name="all_reduce")(
    (gather, free, gather, reduce_by_all_reduce)
)
wrong("17b-gather-free", advice="the gradient", name="own_gradient")(
    (gather, free, gather, own_gradient_only)
)
wrong(
    "17b-gather-free",
    advice="what stays in memory with a view",
    note="Right numbers, and the whole gradient stays in memory.",
    name="into_a_piece",
)((gather, free, gather, reduce_into_a_piece))
wrong("17b-gather-free", advice="not awaited in after_backward", name="not_awaited")(
    (gather, free, gather, reduce_without_waiting)
)
wrong("17b-gather-free", advice="memory behind|freed too early", name="no_memory")(
    (gather_without_memory, free, gather_without_memory, reduce)
)
wrong(
    "17b-gather-free",
    advice="which numbers `flat` holds|its parameters before forward",
    name="own_shard_only",
)((only_own_shard, free, only_own_shard, reduce))
wrong(
    "17b-gather-free",
    advice="which numbers|before backward|the gradient",
    note="Memory alone is no parameters.",
    name="allocated_only_before_backward",
)((gather, free, allocate_only, reduce))
wrong("17b-gather-free", advice="off by nan", name="spoiled")(
    (gather_and_spoil, free, gather_and_spoil, reduce)
)
wrong("17b-gather-free", advice="in rank order", name="another_order")(
    (gather_in_another_order, free, gather_in_another_order, reduce)
)
wrong("17b-gather-free", advice="another flat", name="new_flat")(
    (gather_into_a_new_flat, free, gather_into_a_new_flat, reduce)
)
wrong(
    "17b-gather-free",
    advice="what has to travel|current shards",
    note="The first step is right, the second computes with old numbers.",
    name="gathered_once",
)((gather_once, free, gather_once, reduce))
wrong("17b-gather-free", advice="freed too early|no m", name="freed_before_forward")(
    (free, free, gather, reduce)
)
right("17b-gather-free", name="joined")(
    (gather_joined, free, gather_joined, reduce_then_divide)
)
right("17b-gather-free", name="waits")(
    (gather_with_wait, free, gather, reduce_alone_without_messages)
)
