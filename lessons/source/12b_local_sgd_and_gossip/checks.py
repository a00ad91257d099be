"""The checks of lesson 12b: the last meeting, the rounds, the weight of one's own."""

import math
import os
from collections.abc import Callable

import torch

from sidebyside import run_ranks
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying

from .local_sgd_runs import (
    LocalCase,
    LocalNotes,
    local_model,
    trained_locally,
    try_train_locally,
)

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))


# 12b-local ----------------------------------------------------------------------------

LOCAL_CASES = [
    LocalCase((6,) * 5, 2),
    LocalCase((6,) * 6, 2),
    LocalCase((4, 9, 1, 6), 1),
    LocalCase((5, 5, 8), 7),
    LocalCase((5, 3, 5), 3),
    LocalCase((7,), 4),
    LocalCase((), 3),
    LocalCase((5,) * 7, 3, kind="frozen"),
    LocalCase((5,) * 4, 3, kind="shared"),
    LocalCase((5,) * 4, 3, kind="batch norm"),
    LocalCase((5,) * 4, 3, dtype=torch.float32, rate=0.1),
]
KINDS = {
    "plain": "",
    "frozen": ", one parameter frozen",
    "shared": ", one weight in two layers of the model",
    "batch norm": ", a model with batch norm, whose buffers are each rank's own",
}


@exercise(
    "12b-local",
    in_ranks=True,
    when_hung="whether all ranks come to the same meetings",
)
def check_12b_local(train_locally):
    for ranks in (2, 3, 1, 5):
        think = "what this line gets when there are no batches, when a parameter is "
        think += "frozen or stands twice in the model, or when a rank is alone"
        with trying(
            f"train_locally(model, batches, rate, every) in {ranks} ranks", think=think
        ):
            notes = run_ranks(
                try_train_locally,
                train_locally,
                LOCAL_CASES,
                world_size=ranks,
                timeout=PATIENCE,
            )
        for case, of_ranks in zip(LOCAL_CASES, zip(*notes, strict=True), strict=True):
            _expect_local_sgd(case, of_ranks)


def _expect_local_sgd(case: LocalCase, of_ranks: tuple[LocalNotes, ...]) -> None:
    ranks, steps = len(of_ranks), len(case.sizes)
    call = f"train_locally with {steps} batches, every = {case.every}, {ranks} ranks"
    with trying(call + KINDS[case.kind]) as expect:
        for rank, notes in enumerate(of_ranks):
            expect(
                not notes.batches_changed,
                got=f"other batches than before on rank {rank}",
                think="what the function may change: the model, and not the batches",
            )
            expect(
                not notes.frozen_changed,
                got="another value in a parameter with requires_grad False",
                think="which parameters take steps and go to meetings",
            )
        _expect_local_models(expect, case, of_ranks)
        _expect_local_messages(expect, case, of_ranks)
        for notes in of_ranks:
            number = as_number(notes.returned)
            expect(
                number == case.meetings(),
                got=notes.returned,
                think=f"what to return: the number of meetings, here {case.meetings()}",
            )


def _expect_local_models(expect, case: LocalCase, of_ranks) -> None:
    models = [notes.model for notes in of_ranks]
    close = 1e-4 if case.dtype == torch.float32 else 1e-9
    right = trained_locally(case, len(models), case.meets_after)
    same = all(torch.equal(models[0], model) for model in models)
    near = all(torch.allclose(m, right[0], rtol=0, atol=close) for m in models)
    if same and near:
        return
    apart = max((models[0] - model).abs().max().item() for model in models)
    think = "what a meeting does: each parameter becomes its mean over all ranks"
    got = f"a model that is not the right one (replicas apart by {apart:.2g})"
    for mistake, meets in _known_meetings_of_local_sgd(case).items():
        wrong = trained_locally(case, len(models), meets)
        pairs = zip(models, wrong, strict=True)
        if all(torch.allclose(m, w, rtol=0, atol=close) for m, w in pairs):
            think = mistake
    if near and not same:
        think = (
            "whether all ranks end with the same bits: what do they divide, and when"
        )
    if not all(torch.isfinite(model).all() for model in models):
        think = "how many steps and meetings there are when every is large"
    expect(False, got=got, think=think)


def _known_meetings_of_local_sgd(case: LocalCase) -> dict[str, Callable]:
    """What to think of if just these meetings were held."""
    steps = len(case.sizes)
    return {
        "the last steps, if they do not fill a round: who meets after them": (
            lambda step: step % case.every == 0
        ),
        "when the first meeting is: after `every` steps, counted from 1": (
            lambda step: (step - 1) % case.every == 0
        ),
        "the first meeting: after `every` steps, counted from 1. The last is right": (
            lambda step: (step - 1) % case.every == 0 or step == steps
        ),
        "how often the ranks meet: not only at the end": lambda step: step == steps,
        "how often the ranks meet: not after each step": lambda step: True,
    }


def _expect_local_messages(expect, case: LocalCase, of_ranks) -> None:
    model = local_model(case)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    for rank, notes in enumerate(of_ranks):
        others = {name for name in notes.names if "allreduce" not in name}
        expect(
            not others,
            got=f"messages by {', '.join(sorted(others))}",
            think="by which call numbers travel: dist.all_reduce, and no other",
        )
        sent = sum(map(sum, notes.names.values()))
        if len(of_ranks) == 1 and not sent:
            continue  # alone, nobody needs to be told anything
        expected = trained * case.meetings()
        expect(
            sent == expected,
            got=f"{sent:,} numbers given to dist.all_reduce by rank {rank} instead "
            f"of {expected:,} ({case.meetings()} x {trained})",
            think="what travels in a meeting: each number that is trained, once, and "
            "what is sent between meetings: nothing. Is a meeting held twice",
        )


# 12b-rounds ---------------------------------------------------------------------------


def _gossip_ring(ranks: int, own: float) -> torch.Tensor:
    weights = torch.eye(ranks, dtype=torch.float64) * own
    for rank in range(ranks):
        for other in ((rank + 1) % ranks, (rank - 1) % ranks):
            weights[rank, other] += (1 - own) / 2
    return weights


def _random_gossip_mixing(ranks: int, seed: int) -> torch.Tensor:
    """Symmetric, rows add up to 1: a mean of the identity and random swaps."""
    dice = torch.Generator().manual_seed(seed)
    total = 0.3 * torch.eye(ranks, dtype=torch.float64)
    for _ in range(2 * ranks):
        order = torch.randperm(ranks, generator=dice)
        swap = torch.eye(ranks, dtype=torch.float64)
        pair = order[:2].tolist()
        swap[pair] = swap[pair[::-1]]
        total += 0.7 / (2 * ranks) * swap
    return total


def _gossip_matrices() -> dict[str, torch.Tensor]:
    pairs = torch.block_diag(_gossip_ring(2, 0.75), _gossip_ring(2, 0.75))
    half = torch.full((2, 2), 0.5, dtype=torch.float64)
    named = {
        "two ranks, 3/4 of one's own": _gossip_ring(2, 0.75),
        "a ring of 4 without self-weight": _gossip_ring(4, 0),
        "one rank alone": torch.ones(1, 1, dtype=torch.float64),
        "two pairs that never meet": pairs,
        "one pair and two ranks alone": torch.block_diag(half, torch.eye(2).double()),
        "a ring of 3, a third each": _gossip_ring(3, 1 / 3),
        "five ranks, a fifth each": torch.full((5, 5), 0.2, dtype=torch.float64),
        "two ranks, 1/10 of one's own": _gossip_ring(2, 0.1),
        "the two ranks that swap": _gossip_ring(2, 0),
    }
    for ranks in (3, 5, 6, 8, 9, 16, 32):
        for own in (0, 0.05, 1 / 3, 0.9):
            named[f"a ring of {ranks}, self-weight {own:.2f}"] = _gossip_ring(
                ranks, own
            )
    for ranks in (3, 4, 7):
        name = f"{ranks} ranks with weights drawn at random"
        named[name] = _random_gossip_mixing(ranks, ranks)
    return named


@exercise("12b-rounds", seconds=60)
def check_12b_rounds(rounds_to_agree):
    for name, weights in _gossip_matrices().items():
        for fold in (1000, 2.5, 10, 1e6, 3e4):
            _expect_rounds_of_gossip(rounds_to_agree, name, weights, fold)


def _moduli_of_gossip(weights: torch.Tensor) -> list[float]:
    return sorted(torch.linalg.eigvalsh(weights).abs().tolist(), reverse=True)


def _rounds_of_gossip(factor: float, fold: float) -> float:
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.log(fold) / -math.log(factor)


def _expect_rounds_of_gossip(answer: Callable, name: str, weights, fold: float) -> None:
    factor = _moduli_of_gossip(weights)[1] if len(weights) > 1 else None
    exact = 0 if factor is None else _rounds_of_gossip(factor, fold)
    tie = math.isfinite(exact) and abs(exact - round(exact)) < 1e-6
    if tie and factor is not None and factor > 1e-9:
        return  # rounding would decide
    right = exact if math.isinf(exact) else math.ceil(exact)
    think = "which disagreement lasts longest, whatever its sign, and when it has "
    think += f"fallen to 1/{fold:g} or less"
    with trying(
        f"rounds_to_agree(weights, {fold:g}), {name}",
        weights,
        think=_think_of_rounds_of_gossip(factor, think),
    ) as expect:
        given = weights.clone()
        got = answer(given, fold)
        expect(
            torch.equal(given, weights),
            got="other weights than before",
            think="what the function may change: nothing",
        )
        number = as_number(got)
        expect(number is not None, got=got, think="what is to be returned: a number")
        if number != right and factor is not None:
            think = _think_of_wrong_gossip_rounds(number, weights, fold, factor, think)
        expect(number == right, got=got, think=think)


def _think_of_rounds_of_gossip(factor: float | None, think: str) -> str:
    if factor is None:
        return "one rank alone, which has no second eigenvalue and always agrees"
    if factor > 1 - 1e-9:
        return "a disagreement that never fades: then the answer is math.inf"
    return "a modulus of 0, whose logarithm there is not" if factor < 1e-9 else think


def _think_of_wrong_gossip_rounds(number, weights, fold, factor, think: str) -> str:
    signed = sorted(torch.linalg.eigvalsh(weights).tolist())
    if factor > 1 - 1e-9:
        if signed[0] < -1 + 1e-9:
            return "the eigenvalue -1: a disagreement that changes its sign for ever"
        return "a second eigenvalue 1: ranks that never hear of each other"
    if factor < 1e-9:
        return "what is left of a disagreement after one round, if its eigenvalue is 0"
    exact = _rounds_of_gossip(factor, fold)
    if number == math.floor(exact):
        return "rounding: after this many rounds it is not yet enough"
    if number == math.ceil(exact) + 1:
        return "the smallest number of rounds: is one fewer enough"
    if abs(number - exact) < 1:
        return "what a number of rounds is: a whole number"
    if abs(signed[0]) > abs(signed[-2]) and signed[-2] > 0:
        by_sign = _rounds_of_gossip(signed[-2], fold)
        if number == math.ceil(by_sign):
            return "eigenvalues below 0: what counts is the modulus"
    return think


# 12b-weights --------------------------------------------------------------------------


@exercise("12b-weights", seconds=60)
def check_12b_weights(best_self_weight):
    for ranks in (4, 3, 2, 5, 8, 6, 7, 9, 13, 16, 32, 63, 64):
        cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
        both = max(cosines) + min(cosines)
        best = -both / (2 - both)
        with trying(f"best_self_weight({ranks})") as expect:
            got = best_self_weight(ranks)
            number = as_number(got)
            expect(number is not None, got=got, think="what to return: one number")
            expect(
                abs(number - best) <= 0.001 + 1e-9,
                got=got,
                think=_think_of_gossip_weight(number, cosines),
            )


def _think_of_gossip_weight(number: float, cosines: list[float]) -> str:
    if not 0 <= number <= 1:
        return "which weights are allowed: from 0 to 1"
    lines = [number + (1 - number) * cosine for cosine in cosines]
    slowest = max(lines, key=abs)
    if abs(slowest) > 1 - 1e-9:
        return (
            f"the eigenvalue {slowest:.0f}: this ring never agrees. Which pattern stays"
        )
    other = "larger" if slowest < 0 else "smaller"
    return (
        f"the slowest eigenvalue, {slowest:.4f} with this weight: would a {other} "
        "weight make its modulus smaller"
    )
