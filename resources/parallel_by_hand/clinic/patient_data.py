"""What the clinic's patients are given, and what they return when they are well."""

import torch
from torch import Tensor

from parallel_by_hand.clinic.sick_programs import LIMIT, NUMBERS, RATE


def data_of_patient(name: str, ranks: int = 3) -> list:
    """The data that make the patient sick, for two ranks or more."""
    last = ranks - 1
    if name == "ben":
        return batches_with_outliers(batches_of_ranks([3] * ranks), {(last, 1)})
    if name == "cleo":
        return labelled_gradients([rank == 1 for rank in range(ranks)])
    if name == "dan":
        return rows_of_ranks([8] * last + [6])
    if name == "eve":
        return batches_of_ranks([3 + (rank == 1) for rank in range(ranks)])
    if name == "finn":
        return labelled_numbers([NUMBERS] * last + [NUMBERS - 1])
    return batches_of_ranks([3] * ranks)


def rows_of_ranks(counts: list[int]) -> list[Tensor]:
    """Data for a patient: for each rank so many pairs of numbers, all near 1."""
    dice = torch.Generator().manual_seed(18)
    return [1 + torch.rand(n, 2, generator=dice, dtype=torch.float64) for n in counts]


def batches_of_ranks(counts: list[int]) -> list[list[Tensor]]:
    """Data for a patient: for each rank so many batches of four pairs."""
    rows = rows_of_ranks([4 * n for n in counts])
    return [list(mine.split(4))[:n] for mine, n in zip(rows, counts, strict=True)]


def batches_with_outliers(batches: list[list[Tensor]], wild: set) -> list[list[Tensor]]:
    """Data for a patient: an outlier in the batch of each (rank, step) of `wild`."""
    return [
        [x + 10 * LIMIT * ((rank, step) in wild) for step, x in enumerate(mine)]
        for rank, mine in enumerate(batches)
    ]


def labelled_gradients(swapped: list[bool]) -> list[dict[str, Tensor]]:
    """Data for a patient: each digit of a sum says which rank's number is in it."""
    ones = torch.ones(2, dtype=torch.float64)
    return [
        {"weight": ones * 10**rank, "bias": ones * 10**rank * (0.5 if odd else 2)}
        for rank, odd in enumerate(swapped)
    ]


def labelled_numbers(counts: list[int]) -> list[Tensor]:
    """Data for a patient: rank r has so many times the number 10 ** r."""
    ranks = enumerate(counts)
    return [torch.full((n,), 10.0**rank, dtype=torch.float64) for rank, n in ranks]


def result_when_well(name: str, given: list) -> list:
    """What each rank returns when its patient is well, computed in one process."""
    if name == "cleo":
        return [{n: sum(mine[n] for mine in given) for n in given[0]}] * len(given)
    if name == "dan":
        rows = torch.cat(given)
        return [(rows - 1).square().sum(1).mean().item()] * len(given)
    if name == "finn":
        return [torch.cat(given).sum().item()] * len(given)
    weight = torch.zeros(2, dtype=torch.float64)
    for batches in zip(*given, strict=name != "eve"):  # as many as the shortest has
        gradients = [weight - x.mean(0) for x in batches]
        wild = name == "ben" and any(g.norm() > LIMIT for g in gradients)
        mean = torch.stack(gradients).mean(0)
        weight = weight - RATE * (gradients[0] if wild else mean)
    if name == "ada":
        losses = [(mine[-1] - weight).square().mean() for mine in given]
        return [(weight, torch.stack(losses).mean())] * len(given)
    return [weight] * len(given)
