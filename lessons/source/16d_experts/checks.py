"""The checks of lesson 16d: a dispatch with a capacity, combine, who sums which."""

import torch
from torch import Tensor

from parallel_by_hand.experts import routing
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, in_ranks, run_trial

from .meshes_of_experts import GradientNotes, try_complete_gradients

CLOSE = 1e-5  # in 32 bits

# 16d-dispatch -------------------------------------------------------------------------

DISPATCHES = [  # tokens, experts, k, capacity
    (6, 3, 1, 2),
    (12, 4, 2, 4),
    (9, 5, 3, 100),
    (40, 6, 2, 1),
    (3, 40, 2, 2),
]


@exercise("16d-dispatch")
def check_16d_dispatch(dispatch):
    _try_dispatch(dispatch, torch.tensor([[0, 1], [0, 2], [0, 1]]), 3, 2)
    for seed, (tokens, experts, k, capacity) in enumerate(DISPATCHES):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(tokens, experts, generator=generator)
        scores[:, 0] += 0.4  # a favourite
        _try_dispatch(dispatch, scores.topk(k).indices, experts, capacity)


def _try_dispatch(dispatch, chosen: Tensor, experts: int, capacity: int) -> None:
    right = routing.dispatch(chosen, experts, capacity)
    shown = chosen.tolist() if len(chosen) < 10 else f"{len(chosen)} tokens"
    with trying(f"dispatch({shown}, {experts}, {capacity})", chosen) as expect:
        got = dispatch(chosen, experts, capacity)
        think = "what is to be returned: places and counts, two tensors"
        pair = isinstance(got, tuple | list) and len(got) == 2
        tensors = pair and all(isinstance(part, Tensor) for part in got)
        expect(tensors, got=got, think=think)
        places, counts = (part.tolist() for part in got)
        _expect_places(expect, places, right[0].tolist(), chosen, capacity)
        think = "how many choices each expert keeps, also an expert that nobody chooses"
        if counts == routing.choices_of_experts(chosen, experts).tolist():
            think = "which choices are counted: those that were made, or those kept"
        expect(counts == right[1].tolist(), got=f"counts {counts}", think=think)


def _expect_places(expect, got: list, right: list, chosen: Tensor, capacity) -> None:
    k, choices = chosen.shape[1], chosen.flatten().tolist()
    tokens = [place // k for place in right]
    think = "what a place is: an index in the flat list of choices, not the token's"
    expect(k == 1 or got != tokens, got=f"places {got}", think=think)
    inside = all(p in range(len(choices)) for p in got) and len({*got}) == len(got)
    think = f"what a place is: one of the {len(choices)} choices, each at most once"
    expect(inside, got=f"places {got}", think=think)
    experts = [choices[place] for place in got]
    most = max(map(experts.count, experts), default=0)
    kept = f"places {got}: one expert keeps {most}"
    think = f"how many an expert takes of all its choices, at most: {capacity}"
    expect(most <= capacity, got=kept, think=think)
    if sorted(got) == sorted(right):
        think = "the order that is asked for: expert 0's places first, and each "
        think += "expert's in the order of the flat list"
    elif len(got) < len(right):
        think = f"whether a choice is lost that is among an expert's first {capacity}"
    else:
        think = "which of an expert's choices are kept when they are too many: the "
        think += "first in the flat list"
    expect(got == right, got=f"places {got}", think=think)


# 16d-combine --------------------------------------------------------------------------


@exercise("16d-combine")
def check_16d_combine(combine):
    for tokens, k, experts, capacity, width in [
        (7, 2, 4, 3, 3), (5, 2, 3, 9, 4), (8, 1, 4, 2, 5), (6, 3, 4, 1, 2),
    ]:  # fmt: skip
        generator = torch.Generator().manual_seed(tokens)
        chosen = torch.rand(tokens, experts, generator=generator).topk(k).indices
        places, _ = routing.dispatch(chosen, experts, capacity)
        answers = torch.randn(len(places), width, generator=generator)
        gates = torch.rand(tokens, k, generator=generator) + 0.1
        gates = gates / gates.sum(1, keepdim=True)
        call = f"combine: {tokens} tokens with {k} choices each, {len(places)} kept"
        _try_combine(combine, answers, places, gates, call)
    by_hand = torch.tensor([[10.0], [20.0]]), torch.tensor([0, 3])
    gates = torch.tensor([[0.7, 0.3], [0.6, 0.4]])
    _try_combine(combine, *by_hand, gates, "combine, the case by hand")


def _try_combine(combine, answers, places, gates, call: str) -> None:
    mine = [part.clone().requires_grad_() for part in (answers, gates)]
    theirs = [part.clone().requires_grad_() for part in (answers, gates)]
    expected = routing.combine(theirs[0], places, theirs[1])
    expected.square().sum().backward()
    kept = answers, places, gates
    think = "what each index counts: tokens, choices, or answers"
    with trying(call, *kept, think=think) as expect:
        got = combine(mine[0], places, mine[1])
        shape = getattr(got, "shape", None)
        think = "which rows the result has: one for each token"
        expect(shape == expected.shape, got=f"shape {shape}", think=think)
        think = _why_combined_otherwise(got, expected, answers, places, gates)
        expect_tensor(expect, "the result", got, expected, think, CLOSE)
        think = "what of your code autograd can follow"
        expect(got.requires_grad, got="a result without gradient", think=think)
        got.square().sum().backward()
        names = zip(("answers", "gates"), mine, theirs, strict=True)
        for name, one, other in names:
            where = f"the gradient of {name}"
            none = one.grad is None
            expect(not none, got=f"{where}: None", think=f"how {name} enter the result")
            expect_tensor(expect, where, one.grad, other.grad, think, CLOSE)


def _why_combined_otherwise(got, expected, answers, places, gates) -> str:
    """What to think about, if this is not the right result."""
    plain = routing.combine(answers, places, torch.ones_like(gates))
    used = torch.zeros_like(gates).flatten().index_fill(0, places, 1).view_as(gates)
    left = (gates * used).sum(1, keepdim=True).clamp(min=1e-9)
    in_order = routing.combine(answers, places.sort().values, gates)
    if torch.allclose(got, plain):
        return "how much each answer counts"
    if torch.allclose(got, routing.combine(answers, places, gates / left)):
        return "the gates of what was dropped: do the others grow?"
    if torch.allclose(got, in_order):
        return "the order of the answers: it is that of places, not of the text"
    alone = (places // gates.shape[1]).bincount(minlength=len(gates)) == 1
    if torch.allclose(got[alone], expected[alone]):
        return "what happens to a token that has two answers: are they added?"
    got, expected = got[alone], expected[alone]
    if torch.allclose(torch.cosine_similarity(got, expected).abs(), torch.tensor(1.0)):
        return "a token with one answer: by which gate is it multiplied?"
    return "a token with one answer: does it get its own, and no other token's?"


# 16d-who-sums -------------------------------------------------------------------------


@exercise(
    "16d-who-sums",
    in_ranks=True,
    when_hung="whether all ranks of a group call the same collectives",
)
def check_16d_who_sums(complete_gradients):
    for ranks, copies in (4, 2), (2, 1), (3, 3), (1, 1):
        call = f"complete_gradients(layer, replicas) {in_ranks(ranks)}, "
        call += f"the experts there {copies} times"
        with trying(call, think="what this line needs on each rank"):
            trial = try_complete_gradients
            found = run_trial(trial, complete_gradients, copies, ranks=ranks)
        with trying(call) as expect:
            for rank, notes in enumerate(found):
                for note in notes:
                    _expect_gradient(expect, rank, note)


def _expect_gradient(expect, rank: int, note: GradientNotes) -> None:
    where = f"on rank {rank}, the gradient of {note.name}"
    think = "what is to change: .grad only"
    expect(note.is_kept, got=f"on rank {rank}, another {note.name}", think=think)
    got, right = note.got, note.expected
    if isinstance(got, Tensor) and got.shape == right.shape:
        think = "the mean of which losses this gradient has to be; it changes in place"
        same = torch.equal(got, note.before) and not torch.allclose(got, right)
        expect(not same, got=f"{where} is as it was before", think=think)
        factor = float((got * right).sum() / (right * right).sum())
        is_scaled = torch.allclose(got, factor * right) and abs(factor - 1) > 1e-6
        think = "by how many losses the sum is divided, if it is the mean of all ranks'"
        scaled = f"{where}: {factor:.3g} times what it should be"
        expect(not is_scaled, got=scaled, think=think)
    think = "which ranks have a copy of it, and whether each has seen its own tokens"
    if note.name.startswith("experts."):
        think = "which ranks have the same expert, and whether ranks with other ones "
        think += "have anything to add"
    expect_tensor(expect, where, got, right, think)
