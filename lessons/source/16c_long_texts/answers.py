"""Wrong answers to the exercises of lesson 16c, and right ones."""

import functools

import torch
import torch.distributed as dist
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.context_parallel.ring_attention import pass_on
from parallel_by_hand.context_parallel.seen_keys import (
    attend_to_piece,
    gradients_of_piece,
    merge_seen,
)

# 16c-merge ----------------------------------------------------------------------------


def merge_by_mean(one, other):
    return (one[0] + other[0]) / 2, torch.logaddexp(one[1], other[1])


def merge_by_exp(one, other):
    sums = one[1].exp(), other[1].exp()
    total = sums[0] + sums[1]
    mixed = (sums[0][:, None] * one[0] + sums[1][:, None] * other[0]) / total[:, None]
    return mixed, total.log()


def merge_with_added_logs(one, other):
    mixed, _ = merge_seen(one, other)
    return mixed, one[1] + other[1]


def merge_by_softmax(one, other):
    logs = torch.stack([one[1], other[1]])
    shares = logs.softmax(0)[..., None]
    return (shares * torch.stack([one[0], other[0]])).sum(0), logs.logsumexp(0)


def merge_by_sigmoid(one, other):
    share = torch.sigmoid(one[1] - other[1]).unsqueeze(-1)
    return [
        other[0] + share * (one[0] - other[0]),
        torch.maximum(one[1], other[1]) + F.softplus(-(one[1] - other[1]).abs()),
    ]


def go_round(query, key, value, passes, merge=merge_seen):
    seen = attend_to_piece(query, key, value)
    for _ in range(passes):
        key, value = pass_on([key, value])
        seen = merge(seen, attend_to_piece(query, key, value))
    return seen[0]


def round_right(query, key, value):
    return go_round(query, key, value, dist.get_world_size() - 1)


def round_with_own_twice(query, key, value):
    return go_round(query, key, value, dist.get_world_size())


def round_of_own_keys(query, key, value):
    return attend_to_piece(query, key, value)[0]


def round_that_passes_first_keys(query, key, value):
    """The own keys each time: the neighbour's come, and never go on."""
    seen = attend_to_piece(query, key, value)
    for _ in range(dist.get_world_size() - 1):
        arrived = pass_on([key, value])
        seen = merge_seen(seen, attend_to_piece(query, *arrived))
    return seen[0]


def round_of_gathered_pieces(query, key, value):
    both = torch.stack([key, value])
    pieces = [torch.empty_like(both) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, both)
    return functools.reduce(merge_seen, [attend_to_piece(query, *p) for p in pieces])[0]


def round_of_collected_pieces(query, key, value):
    pieces = [torch.stack([key, value])]
    for _ in range(dist.get_world_size() - 1):
        pieces += pass_on(pieces[-1:])
    return attend_to_piece(query, *torch.cat(pieces, 1))[0]


def round_with_one_message(query, key, value):
    """Keys and values side by side; nothing seen at first."""
    both = torch.cat([key, value], 1)
    nothing = torch.full_like(query[:, 0], -torch.inf)
    seen = torch.zeros_like(query), nothing
    for left in reversed(range(dist.get_world_size())):
        key, value = both.tensor_split(2, 1)
        seen = merge_by_softmax(seen, attend_to_piece(query, key, value))
        if left:
            both = pass_on([both])[0]
    return seen[0]


wrong(
    "16c-merge",
    advice="how much each set counts",
    name="merge_mean",
    note="They average the two mixtures, as if both sets had the same share.",
)((merge_by_mean, round_right))
wrong(
    "16c-merge",
    advice="only differences of log-sums",
    name="merge_exp",
    note="Right for small scores.",
)((merge_by_exp, round_right))
wrong(
    "16c-merge",
    advice="how often|each once",
    name="own_twice",
    note="They pass once too often, and see their own keys again.",
)((merge_seen, round_with_own_twice))
wrong(
    "16c-merge",
    advice="logarithm of the sum",
    name="adds_logs",
    note="They add logarithms; that multiplies the sums.",
)((merge_with_added_logs, round_right))
wrong(
    "16c-merge",
    advice="every rank's keys",
    name="own_keys",
    note="They look at this rank's keys only.",
)((merge_seen, round_of_own_keys))
wrong("16c-merge", advice="each once", name="first_keys", note="Right on two ranks.")(
    (merge_seen, round_that_passes_first_keys)
)
wrong(
    "16c-merge",
    advice="how many keys a rank holds",
    name="gathered",
    note="They gather first, and merge what lies there already.",
)((merge_seen, round_of_gathered_pieces))
wrong(
    "16c-merge",
    advice="how many keys a rank holds",
    name="collected",
    note="They keep every piece that comes by, and attend to all at the end.",
)((merge_seen, round_of_collected_pieces))
right("16c-merge", name="softmax")((merge_by_softmax, round_right))
right("16c-merge", name="sigmoid_and_one_message")(
    (merge_by_sigmoid, round_with_one_message)
)


# 16c-deal -----------------------------------------------------------------------------


@wrong(
    "16c-deal",
    advice="how many pairs the last position has",
    note="As one deals cards. In each round, rank 0 gets one pair less than rank 1.",
)
def deal_like_cards(rank, ranks, length):
    return list(range(rank, length, ranks))


@wrong(
    "16c-deal",
    advice="how many pairs the last position has",
    note="Unbroken parts, as in the picture: the last rank does most.",
)
def deal_in_order(rank, ranks, length):
    size = length // ranks
    return list(range(rank * size, (rank + 1) * size))


@wrong(
    "16c-deal",
    advice="which positions a text of",
    note="They forget that the text ends at length − 1.",
)
def deal_from_behind_the_end(rank, ranks, length):
    return [p for i in range(rank, length // 2, ranks) for p in (i, length - i)]


@wrong(
    "16c-deal",
    advice="which positions nobody holds",
    note="They return the numbers of the two chunks.",
)
def deal_numbers_of_chunks(rank, ranks, length):
    return [rank, 2 * ranks - 1 - rank]


@wrong(
    "16c-deal",
    advice="how many positions each rank holds",
    note="Unbroken parts of equal area: long ones in front, short ones at the end.",
)
def deal_equal_areas(rank, ranks, length):
    start, end = (round(length * (r / ranks) ** 0.5) for r in (rank, rank + 1))
    return list(range(start, end))


@wrong(
    "16c-deal",
    advice="held twice",
    note="The chunks at the end are taken in the same order as those at the front.",
)
def deal_halves_alike(rank, ranks, length):
    size = length // (2 * ranks)
    front = range(rank * size, (rank + 1) * size)
    return [*front, *(position + size for position in front)]


@right("16c-deal")
def deal_forth_and_back(rank, ranks, length):
    """As cards, and every second round the other way."""
    return [p for p in range(length) if p % (2 * ranks) in (rank, 2 * ranks - 1 - rank)]


@right("16c-deal")
def deal_to_the_idlest(rank, ranks, length):
    """The longest that is left goes to the rank that has least to do so far."""
    held, work = [[] for _ in range(ranks)], [0] * ranks
    for position in reversed(range(length)):
        idlest = work.index(min(work))
        held[idlest].append(position)
        work[idlest] += position + 1
    return held[rank]


@right("16c-deal")
def deal_couples(rank, ranks, length):
    """Any couples from both ends, as a tensor."""
    front = torch.arange(rank, length // 2, ranks)
    return torch.cat([front, length - 1 - front])


# 16c-home -----------------------------------------------------------------------------


def travel(query, key, value, seen, gradient, passes, home):
    """Keys, values and their gradients go on `passes` times; then `home` is called."""
    totals = gradients_of_piece(query, key, value, seen, gradient)
    for _ in range(passes):
        key, value, *of_keys = pass_on([key, value, *totals[1:]])
        parts = gradients_of_piece(query, key, value, seen, gradient)
        sums = zip((totals[0], *of_keys), parts, strict=True)
        totals = [total + part for total, part in sums]
    return totals[0], *home(totals[1:])


@wrong(
    "16c-home",
    advice="whose gradients these are",
    note="All sums are complete, and one rank away from home.",
)
def without_the_last_pass(*given):
    return travel(*given, dist.get_world_size() - 1, home=list)


@wrong(
    "16c-home",
    advice="of the same keys",
    note="Keys travel and their gradients stay: sums of different keys' gradients.",
)
def with_gradients_that_stay(query, key, value, seen, gradient):
    totals = gradients_of_piece(query, key, value, seen, gradient)
    for _ in range(dist.get_world_size() - 1):
        key, value = pass_on([key, value])
        parts = gradients_of_piece(query, key, value, seen, gradient)
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return tuple(totals)


@wrong(
    "16c-home",
    advice="whose gradients these are",
    note="Right on two ranks: the last pass goes to the left.",
)
def home_by_the_left(*given):
    passes = dist.get_world_size() - 1
    return travel(*given, passes, home=lambda sums: pass_on(list(sums), to=-1))


@wrong(
    "16c-home",
    advice="each once",
    note="N passes with queries: the own keys are counted twice.",
)
def with_one_pass_too_many(*given):
    return travel(*given, dist.get_world_size(), home=list)


@wrong(
    "16c-home",
    advice="which keys have added",
    note="They go back through this rank's keys only.",
)
def gradients_of_own_piece(query, key, value, seen, gradient):
    return gradients_of_piece(query, key, value, seen, gradient)


@wrong(
    "16c-home",
    advice="how many keys a rank holds",
    note="The gather of the next section: right numbers, and everything in one place.",
)
def gradients_of_gathered(query, key, value, seen, gradient):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pieces = []
    for part in key, value:
        everyones = [torch.empty_like(part) for _ in range(ranks)]
        dist.all_gather(everyones, part)
        pieces.append(torch.cat(everyones))
    of_query, *of_all = gradients_of_piece(query, *pieces, seen, gradient)
    for total in of_all:
        dist.all_reduce(total)
    return of_query, *(total.chunk(ranks)[rank] for total in of_all)


@right("16c-home")
def with_all_four_home(query, key, value, seen, gradient):
    """Nothing at first; keys and values travel home, too. A list."""
    of_query = torch.zeros_like(query)
    travelling = [key, value, torch.zeros_like(key), torch.zeros_like(value)]
    for _ in range(dist.get_world_size()):
        key, value, of_key, of_value = travelling
        parts = gradients_of_piece(query, key, value, seen, gradient)
        of_query = of_query + parts[0]
        travelling = pass_on([key, value, of_key + parts[1], of_value + parts[2]])
    return [of_query, *travelling[2:]]


@right("16c-home")
def with_the_other_direction(query, key, value, seen, gradient):
    """Round the ring to the left."""
    totals = gradients_of_piece(query, key, value, seen, gradient)
    for _ in range(dist.get_world_size() - 1):
        key, value, *of_keys = pass_on([key, value, *totals[1:]], to=-1)
        parts = gradients_of_piece(query, key, value, seen, gradient)
        sums = zip((totals[0], *of_keys), parts, strict=True)
        totals = [total + part for total, part in sums]
    return totals[0], *pass_on(list(totals[1:]), to=-1)
