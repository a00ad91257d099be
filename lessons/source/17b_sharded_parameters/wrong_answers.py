"""Wrong answers to the exercises of lesson 17b."""

from itertools import product

import torch
import torch.distributed as dist

from lessons.source.sample_answers import Right, Wrong

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


def from_the_front(layers, budget):
    chosen = set()
    for place in range(len(layers)):
        if peak_of(layers, chosen) <= budget:
            return chosen
        chosen.add(place)
    return chosen if peak_of(layers, chosen) <= budget else None


def by_sum_after_forward(layers, budget):
    def held(layers, chosen):
        return sum(e if i in chosen else k for i, (k, e, _) in enumerate(layers))

    return by_brute_force(layers, budget, peak=held)


def fewest_layers(layers, budget):
    return by_brute_force(layers, budget, cost=lambda layers, chosen: len(chosen))


def least_memory(layers, budget):
    return by_brute_force(layers, budget, cost=peak_of)


def recomputes_everything(layers, budget):
    chosen = set(range(len(layers)))
    return chosen if peak_of(layers, chosen) <= budget else None


def empty_if_none_fits(layers, budget):
    return by_brute_force(layers, budget) or set()


def below_the_budget(layers, budget):
    return by_brute_force(layers, budget - 1)


def recomputed_layers_never_whole(layers, budget):
    def peak(layers, chosen):
        before = most = 0
        for place, (kept, entry, _) in enumerate(layers):
            before += entry if place in chosen else kept
            most = max(most, before)
        return most

    return by_brute_force(layers, budget, peak=peak)


def as_flags(layers, budget):
    chosen = by_brute_force(layers, budget)
    return chosen if chosen is None else [i in chosen for i in range(len(layers))]


def counted_from_one(layers, budget):
    chosen = by_brute_force(layers, budget)
    return chosen if chosen is None else {place + 1 for place in chosen}


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


def positions_in_the_whole(*args):
    return [(w, f, last) for w, b, e, f, last in intervals(*args) if f < last]


def with_empty_pieces(*args):
    return [(w, f - b, last - b) for w, b, e, f, last in intervals(*args) if f <= last]


def all_writers(*args):
    found = [(w, f - b, last - b) for w, b, e, f, last in intervals(*args)]
    return [(w, max(0, f), max(0, last)) for w, f, last in found]


def stop_included(*args):
    return [
        (w, f - b, last - b - 1) for w, b, e, f, last in intervals(*args) if f < last
    ]


def into_the_padding(length, writers, readers, reader):
    padded = -(-length // writers) * writers
    return list_of(intervals(padded, writers, readers, reader))


def list_of(found):
    return [(w, f - b, last - b) for w, b, e, f, last in found if f < last]


def rounded_down(length, writers, readers, reader):
    own, theirs = length // readers, max(1, length // writers)
    pieces = []
    for writer in range(writers):
        begin = writer * theirs
        first, last = max(begin, reader * own), min(begin + theirs, (reader + 1) * own)
        if first < last:
            pieces.append((writer, first - begin, last - begin))
    return pieces


def whole_files(length, writers, readers, reader):
    """Right only if the readers' cuts fall on the writers'."""
    share = -(-writers // readers)
    theirs = -(-length // writers)
    mine = range(reader * share, min((reader + 1) * share, writers))
    return [
        (w, 0, min(theirs, length - w * theirs)) for w in mine if w * theirs < length
    ]


def one_file_only(*args):
    return list_of(intervals(*args))[:1]


def start_and_count(*args):
    return [(w, f - b, last - f) for w, b, e, f, last in intervals(*args) if f < last]


def last_first(*args):
    return list_of(intervals(*args))[::-1]


def number_by_number(*args):
    return [
        (w, at - b, at - b + 1)
        for w, b, e, f, last in intervals(*args)
        for at in range(f, last)
    ]


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


WRONG = {
    "17b-gather-free": [
        Wrong(
            "freed_too_early",
            (gather, free, nothing, reduce),
            "freed too early|no memory after before_backward",
            note="Gathered for forward only. Without the ledger the process may end.",
        ),
        Wrong(
            "never_freed_after_backward",
            (gather, free, gather, reduce_without_freeing),
            "still whole after after_backward",
            note="Memory fills up in the course of backward.",
        ),
        Wrong(
            "never_freed_after_forward",
            (gather, nothing, gather_if_needed, reduce),
            "still whole after after_forward",
        ),
        Wrong("sum", (gather, free, gather, reduce_to_the_sum), "not the sum"),
        Wrong(
            "divided_twice", (gather, free, gather, reduce_divided_twice), "divided by"
        ),
        Wrong(
            "all_reduce",
            (gather, free, gather, reduce_by_all_reduce),
            "only one shard to each rank",
        ),
        Wrong(
            "own_gradient", (gather, free, gather, own_gradient_only), "the gradient"
        ),
        Wrong(
            "into_a_piece",
            (gather, free, gather, reduce_into_a_piece),
            "what stays in memory with a view",
            note="Right numbers, and the whole gradient stays in memory.",
        ),
        Wrong(
            "not_awaited",
            (gather, free, gather, reduce_without_waiting),
            "not awaited in after_backward",
        ),
        Wrong(
            "no_memory",
            (gather_without_memory, free, gather_without_memory, reduce),
            "memory behind|freed too early",
        ),
        Wrong(
            "own_shard_only",
            (only_own_shard, free, only_own_shard, reduce),
            "which numbers `flat` holds|its parameters before forward",
        ),
        Wrong(
            "allocated_only_before_backward",
            (gather, free, allocate_only, reduce),
            "which numbers|before backward|the gradient",
            note="Memory alone is no parameters.",
        ),
        Wrong(
            "spoiled",
            (gather_and_spoil, free, gather_and_spoil, reduce),
            "off by nan",
        ),
        Wrong(
            "another_order",
            (gather_in_another_order, free, gather_in_another_order, reduce),
            "in rank order",
        ),
        Wrong(
            "new_flat",
            (gather_into_a_new_flat, free, gather_into_a_new_flat, reduce),
            "another flat",
        ),
        Wrong(
            "gathered_once",
            (gather_once, free, gather_once, reduce),
            "what has to travel|current shards",
            note="The first step is right, the second computes with old numbers.",
        ),
        Wrong(
            "freed_before_forward", (free, free, gather, reduce), "freed too early|no m"
        ),
    ],
    "17b-which-layers": [
        Wrong("greedy", greedy_by_rate, "rule of thumb", note="The most common one."),
        Wrong("from_the_front", from_the_front, "rule of thumb"),
        Wrong(
            "sum_after_forward", by_sum_after_forward, "while backward is at a layer"
        ),
        Wrong("fewest_layers", fewest_layers, "are enough"),
        Wrong("least_memory", least_memory, "are enough"),
        Wrong("everything", recomputes_everything, "are enough"),
        Wrong("empty_set", empty_if_none_fits, "if no choice fits"),
        Wrong("below_budget", below_the_budget, "are enough|whether a choice fits"),
        Wrong(
            "never_whole", recomputed_layers_never_whole, "while backward is at a layer"
        ),
        Wrong("flags", as_flags, "the indices"),
        Wrong("from_one", counted_from_one, "from 0|while backward"),
    ],
    "17b-reshard": [
        Wrong("in_the_whole", positions_in_the_whole, "beginning of the file"),
        Wrong("empty_pieces", with_empty_pieces, "empty"),
        Wrong("all_writers", all_writers, "empty|beginning of the file"),
        Wrong("stop_included", stop_included, "where this reader's shard|empty"),
        Wrong("padding", into_the_padding, "without padding|where this reader's"),
        Wrong("rounded_down", rounded_down, "where this reader's shard"),
        Wrong("whole_files", whole_files, "where this reader's shard"),
        Wrong("one_file", one_file_only, "where this reader's shard"),
        Wrong("start_and_count", start_and_count, "empty|where this reader's"),
        Wrong("last_first", last_first, "order of the pieces"),
        Wrong("number_by_number", number_by_number, "one, for both are intervals"),
    ],
}
RIGHT = {
    "17b-gather-free": [
        Right("joined", (gather_joined, free, gather_joined, reduce_then_divide)),
        Right("waits", (gather_with_wait, free, gather, reduce_alone_without_messages)),
    ],
    "17b-which-layers": [Right("recursion", by_recursion), Right("table", by_table)],
    "17b-reshard": [Right("division", by_division), Right("torch", by_torch)],
}
