"""The checks of lesson 12b: the last meeting, the rounds, the weight of one's own."""

import math

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.findings import largest_difference
from sidebyside.exercises.rank_trials import in_ranks, run_trial

from .local_sgd_runs import (
    LocalCase,
    flat_local_model,
    local_model,
    trained_locally,
    try_train_locally,
)

# 12b-local ----------------------------------------------------------------------------

LOCAL_CASES = [  # one step; then the first round is whole, then the last one is short
    LocalCase((6,), 1),
    LocalCase((6,) * 6, 2),
    LocalCase((6,) * 5, 2),
    LocalCase((5, 3, 5), 3),
    LocalCase((4, 9, 1, 6), 1),
    LocalCase((5, 5, 8), 7),
]


@exercise(
    "12b-local",
    in_ranks=True,
    when_hung="whether all ranks come to the same meetings",
)
def check_12b_local(train_locally):
    for ranks in (1, 2, 3, 5):  # with one, only the steps can be wrong
        call = f"train_locally(model, batches, rate, every) {in_ranks(ranks)}"
        with trying(call, think="what this line needs, in each of the ranks"):
            notes = run_trial(
                try_train_locally, train_locally, LOCAL_CASES, ranks=ranks
            )
        for case, of_ranks in zip(LOCAL_CASES, zip(*notes, strict=True), strict=True):
            with trying(
                f"{call}: {len(case.sizes)} batches, every = {case.every}"
            ) as expect:
                _expect_local_models(expect, case, of_ranks)
                if ranks > 1:
                    _expect_local_messages(expect, case, of_ranks)


def _expect_local_models(expect, case: LocalCase, of_ranks) -> None:
    first, *others = models = [notes.model for notes in of_ranks]
    apart = max((first - model).abs().max().item() for model in models)
    last = "what a meeting does, and whether there is one after the last step"
    if len(case.sizes) % case.every:
        last = "the last steps, if they do not fill a round: which meeting follows them"
    expect(
        all(torch.equal(first, other) for other in others),
        got=f"replicas that are apart by {apart:.2g} in the end",
        think=last,
    )
    right, start = trained_locally(case, len(models)), flat_local_model(local_model())
    off = largest_difference(first - start, right - start)
    think = "how often the ranks meet (after `every` steps, counted from 1), and what "
    think += "a meeting does: each parameter becomes its mean. Steps are as in 1 rank"
    if not others:
        think = "the steps, one for each batch: the gradient of this batch alone, at "
        think += "the parameters that the model has now. Here a meeting changes nothing"
    expect(
        torch.allclose(first, right, rtol=0, atol=1e-9),
        got=f"parameters that moved by {off}",
        think=think,
    )


def _expect_local_messages(expect, case: LocalCase, of_ranks) -> None:
    for notes in of_ranks:
        others = set(notes.collectives) - {"all_reduce"}
        expect(
            not others,
            got=f"messages by {', '.join(sorted(others))}",
            think="by which call numbers travel: dist.all_reduce, and no other",
        )
        expect(
            notes.returned == case.meetings(),
            got=notes.returned,
            think=f"how many meetings there are to be: here {case.meetings()}. A step "
            "that fills a round and is the last has only one",
        )


# 12b-rounds ---------------------------------------------------------------------------


def _gossip_ring(ranks: int, own: float) -> torch.Tensor:
    weights = torch.eye(ranks, dtype=torch.float64) * own
    for rank in range(ranks):
        for other in ((rank + 1) % ranks, (rank - 1) % ranks):
            weights[rank, other] += (1 - own) / 2
    return weights


def _gossip_matrices() -> list[tuple[str, torch.Tensor, str]]:
    """Each with its name, and what a wrong answer overlooks where it is special."""
    pairs = torch.block_diag(_gossip_ring(2, 0.75), _gossip_ring(2, 0.75))
    never = ", for ever: then the answer is math.inf"
    swapped = "the eigenvalue -1: a disagreement that changes its sign" + never
    apart = "a second eigenvalue 1: ranks that never hear of each other" + never
    negative = "eigenvalues below 0: what counts is the modulus"
    matrices = [
        ("two ranks, 3/4 of one's own", _gossip_ring(2, 0.75), ""),
        ("a ring of 8, a third each", _gossip_ring(8, 1 / 3), ""),
        ("a ring of 6 without self-weight", _gossip_ring(6, 0), swapped),
        ("two pairs that never meet", pairs, apart),
        ("two ranks, 1/10 of one's own", _gossip_ring(2, 0.1), negative),
    ]
    for ranks in (3, 5, 16):
        for own in (0.05, 0.9):
            name = f"a ring of {ranks}, self-weight {own:.2f}"
            matrices.append((name, _gossip_ring(ranks, own), ""))
    return matrices


@exercise("12b-rounds", seconds=60)
def check_12b_rounds(rounds_to_agree):
    for name, weights, overlooked in _gossip_matrices():
        for fold in (1000, 2.5, 1e6):
            call = f"rounds_to_agree(weights, {fold:g}), {name}"
            with trying(call, weights, think=overlooked) as expect:
                got = rounds_to_agree(weights, fold)
                factor = _factor_of_gossip(weights)
                right = math.inf
                if factor <= 1 - 1e-9:
                    right = math.ceil(math.log(fold) / -math.log(factor) - 1e-9)
                think = "what a number of rounds is: a whole number, rounded up"
                expect(got in (math.inf, got // 1), got=got, think=think)
                think = "the disagreement that lasts longest: so many rounds multiply "
                think += f"it by {factor**got:.4g}. Is that 1/{fold:g} or less, and "
                think += "would fewer rounds do"
                expect(got == right, got=got, think=overlooked or think)


def _factor_of_gossip(weights: torch.Tensor) -> float:
    return sorted(torch.linalg.eigvalsh(weights).abs().tolist())[-2]


# 12b-weights --------------------------------------------------------------------------


@exercise("12b-weights", seconds=60)
def check_12b_weights(best_self_weight):
    for ranks in (4, 3, 2, 5, 8, 7, 16, 63, 64):
        cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
        both = max(cosines) + min(cosines)
        best = -both / (2 - both)
        think = "what to return: one number"
        with trying(f"best_self_weight({ranks})", think=think) as expect:
            got = float(best_self_weight(ranks))
            think = _think_of_gossip_weight(got, cosines)
            expect(abs(got - best) <= 0.001 + 1e-9, got=got, think=think)


def _think_of_gossip_weight(number: float, cosines: list[float]) -> str:
    known = "the cosines besides the first, "
    known += f"from {min(cosines):.4f} to {max(cosines):.4f}"
    if not -1e-9 <= number <= 1 + 1e-9:
        return f"which weights are allowed: from 0 to 1; and {known}"
    lines = [number + (1 - number) * cosine for cosine in cosines]
    return (
        f"{known}. With the weight {number:.4f} they give eigenvalues from "
        f"{min(lines):.4f} to {max(lines):.4f}: which has the largest modulus, and "
        "what makes it smaller"
    )
