"""The checks of lesson 17b: gather and free, which layers to recompute, cut anew."""

import random
from itertools import product

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import in_ranks, run_trial

from .watched_gathers import NAMES, WIDTHS, GatheredStepNotes, try_gather_free

# 17b-gather-free ----------------------------------------------------------------------

ORDER = "what needs the memory behind `flat`: forward, backward, and gathers"


@exercise(
    "17b-gather-free",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives, in the same order",
)
def check_17b_gather_free(
    before_forward, after_forward, before_backward, after_backward
):
    given = before_forward, after_forward, before_backward, after_backward
    functions = dict(zip(NAMES, given, strict=True))
    for ranks in 2, 1, 3, 5:
        think = "what this line needs: `flat`, as long as all shards, or `kept`, this "
        think += "rank's own; and whether all ranks send tensors of the same shape"
        with trying(f"three steps {in_ranks(ranks)}", think=think):
            found = run_trial(try_gather_free, functions, ranks=ranks)
        for step, notes in enumerate(zip(*found, strict=True), 1):
            call = f"step {step} of 3 units, widths {WIDTHS}, {in_ranks(ranks)}"
            for rank, of_rank in enumerate(notes):
                _expect_gather_free_step(call, rank, ranks, of_rank)


def _expect_gather_free_step(
    call: str, rank: int, ranks: int, notes: GatheredStepNotes
) -> None:
    with trying(call) as expect:
        for fault in notes.faults:
            got = f"{fault.said}, on rank {rank}"
            expect(False, got=got, think=THINK_OF_FAULT[fault.kind])
        expect(
            not notes.complaint,
            got=f"freed too early: {notes.complaint}, on rank {rank}",
            think=ORDER,
        )
        expect(
            notes.peak <= notes.largest,
            got=f"{notes.peak} bytes gathered at once on rank {rank}, and the largest "
            f"unit has {notes.largest}",
            think="when a unit is freed: after each use",
        )
        _expect_gather_calls(expect, rank, notes)
        expect(
            notes.gap < 1e-4,
            got=f"on rank {rank}, a shard of the gradient that is off by "
            f"{notes.gap:.2g}",
            think=_think_of_sharded_gradient(notes.factor, ranks),
        )


THINK_OF_FAULT = {
    "no memory": ORDER,
    "still whole": "which function frees the unit: until then its memory is taken",
    "replaced": "the views that autograd has kept of the first `flat`: from where they "
    "get their numbers",
    "no gradient": "where this rank's shard of the mean gradient belongs: "
    "`unit.kept.grad`",
}


def _think_of_sharded_gradient(factor: float, ranks: int) -> str:
    if min(abs(factor - ranks), abs(factor - 1 / ranks)) < 0.01 < abs(factor - 1):
        return "what is asked for: the sum over the ranks, divided once"
    return (
        "which numbers `flat` holds while a unit computes: the current shards of all "
        "ranks, in rank order; and whose gradients are added up in which shard"
    )


def _expect_gather_calls(expect, rank: int, notes: GatheredStepNotes) -> None:
    calls, units = notes.calls, notes.units
    gathers, reduces = calls.count("all_gather"), calls.count("reduce_scatter")
    expect(
        gathers == 2 * reduces == 2 * units and len(calls) == gathers + reduces,
        got=f"on rank {rank}, the collectives {', '.join(sorted(set(calls)))}: "
        f"{gathers} all-gathers, {reduces} reduce-scatters and "
        f"{len(calls) - gathers - reduces} other messages in one step",
        think="what has to travel for a unit: its parameters before forward and "
        "before backward, its gradients once, and of these only one shard to each rank",
    )


# 17b-which-layers ---------------------------------------------------------------------

BY_HAND = [(4, 1, 3), (4, 1, 2), (4, 1, 1)]


@exercise("17b-which-layers")
def check_17b_which_layers(layers_to_recompute):
    cases = [
        (BY_HAND, 12),
        (BY_HAND, 9),
        (BY_HAND, 5),
        ([(6, 1, 5), (5, 1, 3), (5, 1, 3), (6, 0, 9)], 13),  # greedy pays more
        ([(6, 0, 5), (3, 0, 3), (3, 0, 3), (1, 0, 0)], 9),  # so does giving back
        ([(2, 1, 1), (9, 1, 2), (1, 0, 1)], 10),  # the peak is in front
    ]
    for layers, budget in cases + _random_layers():
        think = "budgets that no choice fits"
        with trying(
            f"layers_to_recompute({layers}, {budget})", layers, think=think
        ) as expect:
            got = layers_to_recompute(layers, budget)
            _expect_choice(expect, got, layers, budget)


def _random_layers() -> list[tuple[list[tuple[int, int, int]], int]]:
    random_ = random.Random(17)
    cases = []
    for number in range(15):
        layers = []
        for _ in range(random_.randint(1, 7)):
            kept = random_.randint(0, 20)
            layers.append((kept, random_.randint(0, kept), random_.randint(0, 9)))
        all_again = set(range(len(layers)))
        most, least = (max(_held(layers, chosen)) for chosen in (set(), all_again))
        cases.append((layers, random_.randint(max(0, least - number % 2), most)))
    return cases


def _held(layers, chosen: set[int]) -> list[int]:
    """What memory holds while backward is at each layer."""
    before, held = 0, []
    for place, (kept, entry, _) in enumerate(layers):
        held.append(before + kept)
        before += entry if place in chosen else kept
    return held


def _cheapest_choice(layers, budget: int) -> set[int] | None:
    choices = []
    for flags in product((False, True), repeat=len(layers)):
        chosen = {place for place, flag in enumerate(flags) if flag}
        if max(_held(layers, chosen)) <= budget:
            choices.append(chosen)
    return min(choices, key=lambda chosen: _seconds(layers, chosen), default=None)


def _seconds(layers, chosen: set[int]) -> int:
    return sum(layers[place][2] for place in chosen)


def _expect_choice(expect, got, layers, budget: int) -> None:
    best = _cheapest_choice(layers, budget)
    if best is None:
        think = "what to return if no choice fits: None"
        expect(got is None, got=f"{got} was returned", think=think)
        return
    expect(
        isinstance(got, set | frozenset | list | tuple),
        got=f"{got}, and {best or 'set()'} fits: {_held(layers, best)} bytes while "
        "backward is at each layer",
        think="what memory holds at each layer; what is asked for: a set of indices",
    )
    places = [as_number(place) for place in got]
    expect(
        all(place in range(len(layers)) for place in places),
        got=got,
        think="what is asked for: the indices of the layers to recompute, from 0",
    )
    chosen = {int(place) for place in places}
    held = _held(layers, chosen)
    expect(
        max(held) <= budget,
        got=f"{got}, with {held} bytes while backward is at each layer; the budget is "
        f"{budget}",
        think="what memory holds while backward is at a layer: all of this one's, and "
        "what those before it hold; layers are counted from 0",
    )
    cost, fewest = _seconds(layers, chosen), _seconds(layers, best)
    think = "what memory holds at each layer; also choices that fill the budget fit, "
    think += "and a rule of thumb misses some"
    if len(chosen) < len(best):
        think = "what is to be least: seconds, not the number of layers"
    expect(
        cost == fewest,
        got=f"{got}: {cost} s; {fewest} s are enough, with {best or 'set()'}",
        think=think,
    )


# 17b-reshard --------------------------------------------------------------------------


@exercise("17b-reshard")
def check_17b_reshard(pieces_to_read):
    cases = [
        (10, 4, 3),
        (10, 2, 3),
        (12, 4, 2),
        (12, 2, 4),
        (10, 4, 4),
        (9, 8, 5),
        (9, 5, 8),
    ]
    cases += product((11, 17), (1, 2, 3, 5), (1, 2, 4, 6))
    for length, writers, readers in cases:
        whole = range(length)
        files = [shard_to_reshard(whole, writers, writer) for writer in range(writers)]
        for reader in range(readers):
            with trying(
                f"pieces_to_read({length}, {writers}, {readers}, {reader})",
                think="files and shards with nothing in them",
            ) as expect:
                got = pieces_to_read(length, writers, readers, reader)
                wanted = shard_to_reshard(whole, readers, reader)
                _expect_pieces_to_reshard(expect, got, files, wanted)


def shard_to_reshard(whole, ranks: int, rank: int):
    """A slice of equal length for each rank, rounded up; the last ones get the rest."""
    size = -(-len(whole) // ranks)
    return whole[rank * size : (rank + 1) * size]


def _expect_pieces_to_reshard(expect, got, files: list[range], wanted: range) -> None:
    expect(
        isinstance(got, list | tuple)
        and all(_is_piece_to_reshard(piece) for piece in got),
        got=got,
        think="what is asked for: a list of tuples (writer, start, stop)",
    )
    pieces = [tuple(int(as_number(part)) for part in piece) for piece in got]
    for writer, start, stop in pieces:
        expect(
            writer in range(len(files)),
            got=got,
            think="which writers there are: from 0 to writers - 1",
        )
        expect(
            start < stop,
            got=f"{got}; from writer {writer}, all from {start} to {stop} - 1",
            think="empty pieces: (writer, start, stop) ends just before its `stop`",
        )
        expect(
            start >= 0 and stop <= len(files[writer]),
            got=f"{got}; the file of writer {writer} has {len(files[writer])} numbers",
            think="from where positions are counted: from the beginning of the file; "
            "and how long the last shards are, without padding",
        )
    read = [files[writer][start:stop] for writer, start, stop in pieces]
    numbers = [number for piece in read for number in piece]
    expect(
        numbers == list(wanted),
        got=f"{got}: the numbers {numbers} of the whole, not {list(wanted)}",
        think="where this reader's shard begins and ends in the whole tensor, that a "
        "piece ends just before its `stop`, and the order of the pieces",
    )
    expect(
        len({writer for writer, _, _ in pieces}) == len(pieces),
        got=got,
        think="how many pieces of one file a reader needs: one, for both are intervals",
    )


def _is_piece_to_reshard(piece) -> bool:
    if not isinstance(piece, list | tuple) or len(piece) != 3:
        return False
    numbers = [as_number(part) for part in piece]
    return all(number is not None and number == int(number) for number in numbers)
