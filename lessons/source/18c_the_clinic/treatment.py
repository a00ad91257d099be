"""What the checks of the clinic run in ranks: repaired programs, on many data."""

import copy
import random
from collections.abc import Callable

import torch
import torch.distributed as dist

from parallel_by_hand.clinic import patient_data as data
from parallel_by_hand.clinic.sick_programs import LIMIT
from parallel_by_hand.clinic.ward import patient_from_code
from sidebyside.exercises.check import trying

DATA = {"ada": "batches", "ben": "batches", "cleo": "gradients"}
DATA |= {"dan": "rows", "eve": "batches", "finn": "numbers"}


def cases_for_treatment(name: str, ranks: int) -> list[list]:
    """What the ranks are given, case by case: the patient's own data first."""
    return [
        *([data.data_of_patient(name, ranks)] if ranks > 1 else []),
        *_CASES[name](ranks, random.Random(18 + ranks)),
    ]


def _cases_of_ada(ranks: int, dice: random.Random) -> list[list]:
    return [data.batches_of_ranks([n] * ranks) for n in (1, 4)]


def _cases_of_ben(ranks: int, dice: random.Random) -> list[list]:
    """Nobody has an outlier, one has, all have; and one is long, but no mean is."""
    batches = data.batches_of_ranks([4] * ranks)
    wild = [set(), {(0, 0)}, {(rank, 2) for rank in range(ranks)}]
    wild += [{(dice.randrange(ranks), step) for step in (1, 2)} for _ in range(2)]
    many = [data.batches_with_outliers(batches, outliers) for outliers in wild]
    lengths = [*[1] * (ranks - 1), LIMIT + 1]
    pairs = [torch.tensor([[length, 0]], dtype=torch.float64) for length in lengths]
    return [*many, [[pair] for pair in pairs]]


def _cases_of_cleo(ranks: int, dice: random.Random) -> list[list]:
    """In the order of all, in any order, one name, six names."""
    cases = [data.labelled_gradients([False] * ranks)]
    cases += [data.labelled_gradients([dice.random() < 0.5 for _ in range(ranks)])]
    cases += [[{"only": mine["bias"]} for mine in cases[-1]]]
    many = data.rows_of_ranks([6] * ranks)
    return [*cases, [dict(zip("wxyzab", rows, strict=True)) for rows in many]]


def _cases_of_dan(ranks: int, dice: random.Random) -> list[list]:
    counts = [[8] * ranks, [1, *[3] * (ranks - 1)]]
    counts += [[dice.randint(1, 9) for _ in range(ranks)] for _ in range(2)]
    cases = [data.rows_of_ranks(count) for count in counts]
    for rows in cases[-1]:  # small errors here and large ones there
        rows += len(rows)
    return cases


def _cases_of_eve(ranks: int, dice: random.Random) -> list[list]:
    counts = [[3] * ranks, [4, *[2] * (ranks - 1)], [*[5] * (ranks - 1), 1]]
    counts += [[dice.randint(1, 7) for _ in range(ranks)] for _ in range(2)]
    return [data.batches_of_ranks(count) for count in counts]


def _cases_of_finn(ranks: int, dice: random.Random) -> list[list]:
    counts = [[4] * ranks, [*[9] * (ranks - 1), 2]]
    counts += [[dice.randint(1, 40) for _ in range(ranks)] for _ in range(2)]
    return [data.labelled_numbers(count) for count in counts]


_CASES: dict[str, Callable] = {
    "ada": _cases_of_ada,
    "ben": _cases_of_ben,
    "cleo": _cases_of_cleo,
    "dan": _cases_of_dan,
    "eve": _cases_of_eve,
    "finn": _cases_of_finn,
}


def treat_in_rank(name: str, code: str, ranks: int) -> list:
    """Runs in each rank: what this patient's code returns in each of its cases."""
    results = []
    for given in cases_for_treatment(name, ranks):
        counts = [len(mine) for mine in given]
        with trying(f"{name}, repaired, on {ranks} ranks with {counts} {DATA[name]}"):
            results.append(_result_of_treatment(name, code, given))
    return results


class PatientNameOfOneRank(str):
    """Its hash is another one on each rank, as that of any text is in real life.

    Ranks of one forkserver share their hashes, and so the order of their sets.
    """

    def __hash__(self) -> int:
        return hash((dist.get_rank(), *map(ord, self)))


def _result_of_treatment(name: str, code: str, given: list):
    program, mine = patient_from_code(name, code), copy.deepcopy(given[dist.get_rank()])
    if name == "cleo":
        mine = {PatientNameOfOneRank(key): gradient for key, gradient in mine.items()}
    returned = program(mine)
    if isinstance(returned, dict):
        returned = {str(key): sums for key, sums in returned.items()}
    dist.barrier()  # what belongs to the next case stays away from this one
    return returned
