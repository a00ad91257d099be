"""The checks of lesson 16c: merge as they come, share the triangle, bring them home."""

from collections.abc import Sequence

import torch

from parallel_by_hand.context_parallel.seen_keys import attend_to_piece
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, in_ranks, run_trial

from .rounds_of_keys import RoundNotes, try_attention_rounds, try_gradient_rounds

RANKS = 2, 3, 1, 5
CLOSE = 1e-4


def _expect_arguments_kept(expect, notes) -> None:
    expect(
        not notes.changed,
        got=f"other numbers in {', '.join(notes.changed)} than before the call",
        think="which operations work in place, and on whose tensor",
    )


def _expect_one_piece_at_a_time(expect, rank: int, notes: RoundNotes, scores: int):
    gathers = [name for name in notes.collectives if "gather" in name]
    made = f"made {notes.largest} numbers at once, where a piece has {scores} scores"
    expect(
        not gathers and notes.largest <= max(2 * scores, 64),
        got=f"rank {rank} {f'called {gathers[0]}' if gathers else made}",
        think="how many keys a rank holds then, and how many travel in a ring",
    )


# 16c-merge ----------------------------------------------------------------------------

MERGES = [(3, 4, 4, 2), (4, 3, 5, 4)]  # queries, keys of one, keys of other, d
FAR_MERGES = [  # log-sums of one, log-sums of other
    ([5000.0], [4999.0]),
    ([2.0, 0.0, -4.0], [1.0, 5000.0, -4.0]),  # far apart for one query only
]


@exercise(
    "16c-merge",
    in_ranks=True,
    when_hung="whether all ranks call pass_on equally often",
)
def check_16c_merge(merge_seen, attend_round):
    for seed, case in enumerate(MERGES):
        _check_attention_merge(merge_seen, seed, *case)
    for one, other in FAR_MERGES:
        _check_far_attention_merge(merge_seen, one, other)
        _check_far_attention_merge(merge_seen, other, one)
    for ranks in RANKS:
        think = "what this line needs; with one rank, how often there is to be passed"
        with trying(f"attend_round(query, key, value) {in_ranks(ranks)}", think=think):
            found = run_trial(try_attention_rounds, attend_round, ranks=ranks)
        for of_ranks in zip(*found, strict=True):
            _expect_ring_attention(of_ranks)


def _check_attention_merge(merge_seen, seed, queries, first, second, d) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(n, d, generator=generator, dtype=torch.double)
        for n in (queries, first + second, first + second)
    )
    pieces = zip(key.split([first, second]), value.split([first, second]), strict=True)
    args = tuple(attend_to_piece(query, *piece) for piece in pieces)
    call = f"merge_seen(one, other): {queries} queries, {first} and {second} keys"
    with trying(call, args, think="what each pair holds, and in which shape") as expect:
        expected = attend_to_piece(query, key, value)
        _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _check_far_attention_merge(merge_seen, *log_sums: list[float]) -> None:
    logs = torch.tensor(log_sums, dtype=torch.double)  # (2, queries)
    mixed = torch.arange(logs.numel() * 2).double().view(*logs.shape, 2) - 1.5
    expected = (logs.softmax(0)[..., None] * mixed).sum(0), logs.logsumexp(0)
    args = (mixed[0], logs[0]), (mixed[1], logs[1])
    call = "merge_seen with the log-sums {} and {}".format(*log_sums)
    with trying(call, args, think="what each pair holds, and in which shape") as expect:
        _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _expect_merged_attention_pair(expect, got, expected) -> None:
    expect(
        isinstance(got, tuple | list) and len(got) == 2,
        got=got,
        think="what is to be returned: a mixture and a log-sum, as a pair",
    )
    shapes = [tuple(getattr(part, "shape", ())) for part in got]
    expect(
        shapes == [tuple(part.shape) for part in expected],
        got="a pair with the shapes {} and {}".format(*shapes),
        think="what comes first in the pair, (queries, d), and what second, (queries,)",
    )
    overflows = expected[1].exp().isinf().any()
    for place, name in (1, "log_sum"), (0, "mixed"):
        think = "how much each set counts: the share that it has of the whole softmax"
        if name == "log_sum":
            think = "the logarithm of the sum of both sums"
        if overflows:
            think = "which exponentials are finite: only differences of log-sums are "
            think += "small enough, and of these only the ones that are not above 0"
        expect_tensor(expect, name, got[place], expected[place], think, CLOSE)


def _expect_ring_attention(of_ranks: Sequence[RoundNotes]) -> None:
    ranks, positions = len(of_ranks), len(of_ranks[0].expected)
    with trying(
        f"attend_round: {positions} positions on each of {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_arguments_kept(expect, notes)
            where = f"on rank {rank}, the result"
            think = "whether this rank's queries have seen every rank's keys and "
            think += "values, each once and nothing else, merged by merge_seen"
            pair = notes.got, notes.expected
            expect_tensor(expect, where, *pair, think, CLOSE)
        for rank, notes in enumerate(of_ranks):
            _expect_ring_attention_messages(expect, rank, ranks, notes)
            _expect_one_piece_at_a_time(expect, rank, notes, positions**2)


def _expect_ring_attention_messages(expect, rank: int, ranks: int, notes) -> None:
    size = 2 * notes.expected.nbytes
    expect(
        notes.bytes_sent <= (ranks - 1) * size,
        got=f"rank {rank} sent {notes.bytes_sent} bytes; its keys and values have "
        f"{size}",
        think="how many ranks have to see them: what has to travel, and how often",
    )


# 16c-deal -----------------------------------------------------------------------------

TEXTS = [(2, 4), (2, 12), (3, 18), (1, 6), (5, 40)]  # ranks, positions


@exercise("16c-deal")
def check_16c_deal(own_positions):
    for ranks, length in TEXTS:
        held = []
        for rank in range(ranks):
            call = f"own_positions({rank}, {ranks}, {length})"
            with trying(call, think="what this line needs") as expect:
                got = own_positions(rank, ranks, length)
                numbers = list(got) if hasattr(got, "__iter__") else [None]
                expect(
                    all(hasattr(number, "__float__") for number in numbers),
                    got=got,
                    think="what is asked for: one list, and in it positions only",
                )
                numbers = [float(number) for number in numbers]
                outside = [n for n in numbers if n not in range(length)]
                expect(
                    not outside,
                    got=got,
                    think=f"which positions a text of {length} has, counted from 0",
                )
                held.append([int(number) for number in numbers])
        _expect_fair_deal(held, ranks, length)


def _expect_fair_deal(held: list[list[int]], ranks: int, length: int) -> None:
    dealt = [position for of_rank in held for position in of_rank]
    sizes, pairs = map(len, held), [sum(of_rank) + len(of_rank) for of_rank in held]
    with trying(f"{ranks} ranks, {length} positions") as expect:
        expect(
            sorted(dealt) == list(range(length)),
            got=f"ranks 0 to {ranks - 1} hold {held}",
            think="which positions nobody holds, and which ones are held twice",
        )
        expect(
            len(set(sizes)) == 1,
            got=f"ranks 0 to {ranks - 1} hold {held}",
            think="how many positions each rank holds",
        )
        expect(
            len(set(pairs)) == 1,
            got=f"{held}, with {', '.join(map(str, pairs))} pairs",
            think="how many pairs the last position has, and which other position "
            "makes up for it",
        )


# 16c-home -----------------------------------------------------------------------------

NAMES = "query", "key", "value"


@exercise(
    "16c-home",
    in_ranks=True,
    when_hung="whether all ranks call pass_on equally often",
)
def check_16c_home(gradients_round):
    for ranks in RANKS:
        think = "what this line needs, and which shapes a piece and its gradients have"
        call = f"gradients_round(query, key, value, seen, gradient) {in_ranks(ranks)}"
        with trying(call, think=think):
            found = run_trial(try_gradient_rounds, gradients_round, ranks=ranks)
        for of_ranks in zip(*found, strict=True):
            _expect_gradient_rounds(of_ranks)


def _expect_gradient_rounds(of_ranks: Sequence[RoundNotes]) -> None:
    ranks, positions = len(of_ranks), len(of_ranks[0].expected[0])
    call = f"gradients_round: {positions} positions on each of {ranks} ranks"
    with trying(call) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_arguments_kept(expect, notes)
            expect(
                isinstance(notes.got, list | torch.Tensor) and len(notes.got) == 3,
                got=notes.got,
                think="what is to be returned: three gradients",
            )
            for number, name in enumerate(NAMES):
                expected, got = notes.expected[number], notes.got[number]
                think = _thought_about_gradient(of_ranks, rank, number)
                where = f"on rank {rank}, the gradient of {name}"
                expect_tensor(expect, where, got, expected, think, CLOSE)
        for rank, notes in enumerate(of_ranks):
            _expect_one_piece_at_a_time(expect, rank, notes, positions**2)


def _thought_about_gradient(of_ranks, rank: int, number: int) -> str:
    got = of_ranks[rank].got[number]
    for other, notes in enumerate(of_ranks):
        for place, theirs in enumerate(notes.expected):
            if not isinstance(got, torch.Tensor) or got.shape != theirs.shape:
                continue
            got = got.to(theirs.dtype)
            if torch.allclose(len(of_ranks) * got, theirs):
                return "what is asked for: a sum over the ranks, not a mean"
            if torch.allclose(got, theirs) and other != rank:
                return f"whose gradients these are: they belong to rank {other}"
            if torch.allclose(got, theirs) and place != number:
                return (
                    f"in which order they are returned: this is that of {NAMES[place]}"
                )
    if number == 0:
        think = "whether this gradient ever leaves its rank, which keys have added to "
        return think + "it, each once, and what seen and gradient every call gets"
    think = "where each rank's part of this gradient is made, how it gets here, and "
    return think + "what it is added to: parts of the same keys, or the same values"
