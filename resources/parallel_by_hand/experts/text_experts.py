"""A small language model with experts that guesses Moby-Dick's next character."""

from functools import cache
from statistics import fmean
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.experts.expert_layer import ExpertLayer, Limits
from parallel_by_hand.experts.routing import move_bias, sequence_balance_loss
from parallel_by_hand.experts.todays_block import GroupedAttention
from sidebyside import device, load_moby_dick, run_ranks


@cache
def moby_dick_tokens() -> tuple[str, Tensor]:
    """The text's characters in order, and the training text as places among them."""
    alphabet = "".join(sorted(set(load_moby_dick())))
    places = {character: place for place, character in enumerate(alphabet)}
    tokens = [places[character] for character in load_moby_dick("train")]
    return alphabet, torch.tensor(tokens)


def text_excerpts(
    step: int, batch: int = 16, length: int = 32
) -> tuple[Tensor, Tensor]:
    """Inputs and the characters that follow them, each (batch, length)."""
    text = moby_dick_tokens()[1]
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - length, (batch, 1), generator=generator)
    excerpts = text[starts + torch.arange(length + 1)].to(device())
    return excerpts[:, :-1], excerpts[:, 1:]


class TextExperts(nn.Module):
    """Embedding, attention, experts, logits by the same table."""

    def __init__(self, width: int = 32, hidden: int = 32, experts: int = 8, k: int = 2):
        super().__init__()
        self.words = nn.Parameter(0.3 * torch.randn(len(moby_dick_tokens()[0]), width))
        self.places = nn.Parameter(0.1 * torch.randn(32, width))
        self.attention = GroupedAttention(width, 4, 2)
        self.layer, self.norm = (
            ExpertLayer(width, hidden, experts, k),
            nn.RMSNorm(width),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.words) + self.places[: tokens.shape[1]]
        return self.norm(self.layer(self.attention(x))) @ self.words.T


class TextRun(NamedTuple):
    """One training: losses, and how often experts were chosen."""

    losses: list[float]
    choices: Tensor  # (steps, experts)
    by_character: Tensor  # (characters, experts), in the last 20 steps
    busiest: float  # the mean share of an excerpt's busiest expert, in those steps


WAYS = {
    "nothing": (0.0, 0.0, 0.0),
    "loss": (0.02, 0.0, 0.0),
    "bias": (0.0, 0.01, 0.0),
    "V3": (0.0, 0.01, 0.0001),
}
"""What balances the experts: the weight of the loss, the speed of the bias, the weight
of the loss of sequences."""


def train_text_experts(way: str, steps: int = 200) -> TextRun:
    """The whole model on this rank, balanced in one of the `WAYS`."""
    weight, speed, sequence_weight = WAYS[way]
    torch.manual_seed(0)
    model = TextExperts().to(device())
    layer, adam = model.layer, torch.optim.Adam(model.parameters(), lr=0.01)
    layer.limits = Limits(per_rank=True)  # others may train other models
    losses, choices, busiest = [], [], []
    by_character = torch.zeros(len(moby_dick_tokens()[0]), 8, dtype=torch.long)
    for step in range(steps):
        tokens, following = text_excerpts(step)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
        in_excerpts = layer.shares.unflatten(0, tokens.shape)
        balance = weight * layer.balance
        balance += sequence_weight * sequence_balance_loss(in_excerpts, layer.router.k)
        adam.zero_grad()
        (loss + balance).backward()
        adam.step()
        move_bias(layer.router.bias, layer.choices, speed)
        losses.append(loss.item())
        choices.append(layer.choices.cpu())
        if step >= steps - 20:
            readers = tokens.flatten()[:, None].expand_as(layer.chosen).cpu()
            ones = torch.ones_like(readers)
            pairs = readers.flatten(), layer.chosen.cpu().flatten()
            by_character.index_put_(pairs, ones.flatten(), accumulate=True)
            in_excerpts = F.one_hot(layer.chosen.view(len(tokens), -1), 8).float()
            busiest.append(in_excerpts.mean(1).amax(1).mean().item())
    return TextRun(losses, torch.stack(choices), by_character, fmean(busiest))


def train_all_ways(steps: int = 200) -> dict[str, TextRun]:
    """One training for each of the `WAYS`, each in a rank of its own."""
    ranks, patience = len(WAYS), 60 + steps  # one core may have to train all
    runs = run_ranks(_train_way_of_rank, steps, world_size=ranks, timeout=patience)
    return dict(zip(WAYS, runs, strict=True))


def _train_way_of_rank(steps: int) -> TextRun:
    return train_text_experts(list(WAYS)[dist.get_rank()], steps)


def shares_of_experts(run: TextRun, steps: int = 20) -> Tensor:
    """Each expert's share of all choices in the last steps; 1 in all."""
    choices = run.choices[-steps:].sum(0)
    return choices / choices.sum()


def share_dropped(run: TextRun, factor: float, steps: int = 20) -> float:
    """The share of the choices above `factor` times the fair share of their step."""
    choices = run.choices[-steps:]
    capacity = (factor * choices.sum(1, keepdim=True) / choices.shape[1]).ceil()
    return ((choices - capacity).clamp(min=0).sum() / choices.sum()).item()
