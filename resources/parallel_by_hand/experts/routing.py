"""Which token visits which expert: a router, two ways to balance, a capacity.

Tokens are rows; each is sent to k of E experts, so T tokens make k T *choices*. A
choice's place is its index in `chosen.flatten()`: token i has the places k i to
k i + k - 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Routing(NamedTuple):
    """What a router says of T tokens; `shares` is for the balancing loss."""

    chosen: Tensor  # (T, k), int64: the experts of each token
    gates: Tensor  # (T, k): how much each answer counts; 1 in all for each token
    shares: Tensor  # (T, E): each token's scores, divided by their sum


class Router(nn.Module):
    """A score for each token and expert; a token visits the k highest.

    `bias` moves the choice only: gates come from the scores without it, so the bias
    has no gradient. Source: DeepSeek-V3 technical report, 2024, section 2.1.2.
    """

    bias: Tensor

    def __init__(self, width: int, experts: int, k: int):
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.randn(experts, width) * width**-0.5)
        self.register_buffer("bias", torch.zeros(experts))

    def forward(self, tokens: Tensor) -> Routing:
        scores = (tokens @ self.weight.T).sigmoid()
        chosen = (scores + self.bias).topk(self.k).indices
        gates = scores.gather(1, chosen)
        gates = gates / gates.sum(1, keepdim=True)
        return Routing(chosen, gates, scores / scores.sum(1, keepdim=True))


def choices_of_experts(chosen: Tensor, experts: int) -> Tensor:
    """How often each expert has been chosen; int64, shape (experts,)."""
    return torch.bincount(chosen.flatten(), minlength=experts)


def balance_loss(shares: Tensor, choices: Tensor) -> Tensor:
    """E times the sum over experts of choice share times mean score share.

    1 if all experts are chosen equally often. The counts have no gradient, the scores
    have. Source: Fedus et al., Switch Transformers, 2021, equation 4.
    """
    return len(choices) * (choices / choices.sum() * shares.mean(0)).sum()


def sequence_balance_loss(shares: Tensor, k: int) -> Tensor:
    """The mean of `balance_loss` over sequences; `shares` is (sequences, tokens, E).

    It counts the k highest scores of each token without the bias. Source: DeepSeek-V3
    technical report, 2024, equations 17 to 20.
    """
    experts = shares.shape[-1]
    chosen = F.one_hot(shares.topk(k).indices, experts).sum(2).float()
    return (experts / k * chosen.mean(1) * shares.mean(1)).sum(1).mean()


def move_bias(bias: Tensor, choices: Tensor, speed: float) -> None:
    """Down by `speed` if the expert was chosen too often, up if too seldom."""
    bias += speed * (choices.float().mean() - choices).sign()


def dispatch(
    chosen: Tensor,
    experts: int,
    capacity: int | None = None,
    before: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The places of the choices that are kept, expert 0's first, and how many each has.

    Within an expert they keep the order of the text, and those after the first
    `capacity` are dropped. `before[e]` choices of expert e, on other ranks, come first.
    """
    choices = chosen.flatten()
    places = choices.argsort(stable=True)
    counts = choices_of_experts(chosen, experts)
    if capacity is None:
        return places, counts
    before = torch.zeros_like(counts) if before is None else before
    room = (capacity - before).clamp(min=0).minimum(counts)
    first = counts.cumsum(0) - counts  # of each expert, in `places`
    expert = choices[places]
    queue = torch.arange(len(places), device=places.device) - first[expert]
    return places[queue < room[expert]], room


def combine(answers: Tensor, places: Tensor, gates: Tensor) -> Tensor:
    """For each token, its answers, each times its gate; what was dropped adds nothing.

    Row j of `answers` belongs to the choice at `places[j]`.
    """
    tokens, k = gates.shape
    weighted = gates.flatten()[places, None] * answers
    total = answers.new_zeros(tokens, answers.shape[1])
    return total.index_add(0, places // k, weighted)
