"""The checks of lesson 17c: bytes of a unit, traffic, faults by their bytes."""

from math import prod

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial

from .traffic_of_parts import TrafficCase, TrafficNotes, try_traffic

# 17c-bytes ----------------------------------------------------------------------------

UNITS = [
    [(64, 16), (64,), (16, 64), (16,)],
    [(5, 3), (5,)],
    [(2, 7)],
    [(9, 2, 3), (1,)],
    [(10,), (4, 5)],
]


def rows_of_rank(rows: int, ranks: int, rank: int) -> int:
    each = -(-rows // ranks)
    return len(range(rows)[rank * each : (rank + 1) * each])


def bytes_of_unit(shapes, ranks: int, rank: int) -> tuple[int, int]:
    """(kept, gathered), from the rows that each rank has."""
    kept = gathered = 0
    for rows, *others in shapes:
        kept += 16 * rows_of_rank(rows, ranks, rank) * prod(others)
        gathered += 2 * ranks * rows_of_rank(rows, ranks, 0) * prod(others)
    return kept, gathered


@exercise("17c-bytes")
def check_17c_bytes(unit_bytes):
    for ranks in 2, 1, 3, 4, 5, 8:
        for shapes in UNITS:
            for rank in range(ranks):
                call = f"unit_bytes({shapes}, {ranks}, {rank})"
                think = "shapes of one to three sizes, and ranks that have no row"
                with trying(call, think=think) as expect:
                    got = unit_bytes(list(shapes), ranks, rank)
                    right = bytes_of_unit(shapes, ranks, rank)
                    _expect_bytes(expect, got, right, shapes, ranks, rank)


def _expect_bytes(expect, got, right, shapes, ranks: int, rank: int) -> None:
    numbers = list(map(as_number, got)) if isinstance(got, tuple | list) else []
    swapped = tuple(numbers) == right[::-1] != right
    expect(
        len(numbers) == 2 and None not in numbers and not swapped,
        got=got,
        think="what is asked for: two numbers, first the bytes that are kept, then "
        "those of the gathered unit",
    )
    (kept, gathered), (right_kept, right_gathered) = numbers, right
    each = 16 * kept / right_kept if right_kept else 0
    rows = [shape[0] for shape in shapes]
    even = all(n % ranks == 0 for n in rows)
    mine = [rows_of_rank(n, ranks, rank) for n in rows]
    expect(
        kept == right_kept,
        got=f"{got}; it keeps {right_kept} bytes",
        think="what there is for each number that a rank keeps: the shard, its "
        f"gradient, two averages, and in how many bits; this is {each:g} for each"
        if even and each.is_integer()
        else f"which rows this rank has: {mine} of {rows}; and how many numbers a row "
        "has. Ranks have as many, rounded up, the last ones what is left, or none",
    )
    exact = 2 * sum(prod(shape) for shape in shapes)
    expect(
        gathered == right_gathered,
        got=f"{got}; the gathered unit has {right_gathered} bytes",
        think="the padding: how many rows a gathered parameter has"
        if gathered == exact
        else "in how many bits parameters are gathered, and how many rows there are: "
        "as many for each rank",
    )


# 17c-switches -------------------------------------------------------------------------

CASES = [
    TrafficCase(m, gathers, scatters)
    for m in (3, 2)
    for gathers in (2 * m, m + 1, m, 1)
    for scatters in ((1, m) if m == 3 else (1,))
]


@exercise(
    "17c-switches",
    in_ranks=True,
    when_hung="whether all ranks set the same switches, in the same order",
)
def check_17c_switches(backward_of_parts):
    of_two_parts = [case for case in CASES if case.parts == 2]
    for ranks, cases in {2: CASES, 3: of_two_parts}.items():
        think = "the three switches, each True or False, and the functions in losses"
        with trying(f"one step in {ranks} ranks", think=think):
            found = run_trial(try_traffic, backward_of_parts, cases, ranks=ranks)
        for case, notes in zip(cases, found[0], strict=True):
            m, gathers, scatters = case
            call = f"m = {m}, gathers = {gathers}, scatters = {scatters}; {ranks} ranks"
            with trying(call) as expect:
                _expect_traffic(expect, case, notes)


def _expect_traffic(expect, case: TrafficCase, notes: TrafficNotes) -> None:
    ways = "forward", "backward"
    expect(
        notes.order == [f"{way} {part}" for part in range(case.parts) for way in ways],
        got=", ".join(notes.order),
        think="what is asked for: each function once, in order, and then its backward",
    )
    expect(
        notes.scatters == case.scatters,
        got=f"{notes.scatters:g} reduce-scatters of each unit",
        think="set_requires_gradient_sync: before which backward it must be on",
    )
    expect(
        set(notes.gathers) == {case.gathers},
        got=f"the blocks are gathered {notes.gathers} times",
        think="the two reshard switches: after which use a block is freed, and when "
        "the switch must be set for that",
    )
    expect(
        notes.gap < 1e-5,
        got=f"gradients that are {notes.factor:.2f} times the right ones"
        if abs(notes.factor - 1) > 0.01
        else f"gradients that are off by {notes.gap:.2g}",
        think="what is sent: the sum of all parts as it is; and after which backward",
    )
    expect(
        not notes.late,
        got="after an update, the loss of the same images is what it was before",
        think="what is still whole after the last backward: the optimiser changes only "
        "the shards",
    )


# 17c-faults ---------------------------------------------------------------------------

FAULTS = {
    "P": "one unit",
    "Q": "gradients held back",
    "R": "replicas",
    "S": "kept after forward",
    "T": "optimiser first",
}
COLUMNS = {  # what to look at in each program
    "P": "`whole`, and how many gathers there are for how many units",
    "Q": "`gradients`",
    "R": "`gathers`: what it says of the shards",
    "S": "`whole`, and how many gathers there are for how many units",
    "T": "`optimiser`: which parameters have had a gradient",
}


@exercise("17c-faults")
def check_17c_faults(faults):
    with trying("your dictionary", think="a dictionary") as expect:
        expect(
            isinstance(faults, dict) and set(faults) == set(FAULTS),
            got=faults,
            think="what is asked for: a dictionary with the keys P, Q, R, S and T",
        )
        names = *FAULTS.values(), "mixed precision"
        expect(
            all(fault in names for fault in faults.values()),
            got=faults,
            think="the names of the six faults, as the text spells them",
        )
    for program, fault in FAULTS.items():
        with trying(f"program {program}") as expect:
            expect(
                faults[program] == fault,
                got=f"{program}: {faults[program]!r}",
                think=f"the column {COLUMNS[program]}; and which column "
                f"{faults[program]!r} would change",
            )
