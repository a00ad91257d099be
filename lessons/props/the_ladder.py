"""What lesson 20a draws, and its strategies that are not the same training."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from parallel_by_hand.capstone.ladder_rungs import PLANS, RungWatch
from parallel_by_hand.capstone.ladder_table import Rung
from parallel_by_hand.capstone.strategy_wrappers import ddp_ours
from parallel_by_hand.capstone.trainer import Strategy, train
from sidebyside import COLOURS, figure, run_ranks

PARTS = "parameters", "gradients", "momentum", "activations"


def draw_ladder(rungs: Sequence[Rung]):
    """A bar for each rung: the memory of the rank that holds most, part by part.

    The black edge is what was predicted; beside the bar stands what a rank sends.
    """
    rungs = sorted(rungs, key=lambda rung: list(PLANS).index(rung.name))
    words = [f"{rung.name}: {_largest_of_rung(rung).memory:,}" for rung in rungs]
    alt = "bytes that a rank holds; " + "; ".join(words)
    fig, ax = figure(height=0.9 + 0.3 * len(rungs), stamp="measured here", alt=alt)
    widest = max(_largest_of_rung(rung).memory for rung in rungs) / 1000
    for place, rung in enumerate(rungs):
        cost, left = _largest_of_rung(rung), 0.0
        for part, colour in zip(PARTS, COLOURS, strict=False):
            wide = getattr(cost, part) / 1000
            label = part if place == 0 else None
            ax.barh(place, wide, left=left, color=colour, height=0.7, label=label)
            left += wide
        expected = max(p.memory for p in rung.predicted) / 1000
        ax.barh(place, expected, height=0.7, fill=False, edgecolor="black", lw=1.2)
        ax.text(
            left + widest / 80, place, _what_rung_sends(rung), va="center", fontsize=8
        )
    ax.set_yticks(range(len(rungs)), list(map(_name_of_rung, rungs)))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.45 * widest)
    ax.set_xlabel("thousands of bytes that the fullest rank holds")
    ax.legend(loc="lower right", fontsize=8, frameon=False)
    return fig


def _largest_of_rung(rung: Rung):
    return max((rank.cost for rank in rung.ranks), key=lambda cost: cost.memory)


def _name_of_rung(rung: Rung) -> str:
    ranks = len(rung.ranks)
    return f"{rung.name} ({ranks} rank{'s' * (ranks > 1)})"


def _what_rung_sends(rung: Rung) -> str:
    sent = max(rank.cost.sent for rank in rung.ranks) / 1000
    bubble = f", bubble {100 * rung.bubble:.0f} %" if rung.predicted[0].bubble else ""
    return (f"sends {sent:.0f}" if sent else "sends nothing") + bubble


class NormOfBatch(nn.Module):
    """Batch norm without parameters: all positions of all rows share mean and size."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(0, 1)).view_as(x)


def _insert_before_head(layer_for: Callable) -> Callable:
    """A wrapper that puts one more layer before the model's head."""

    def wrap(training, mesh) -> None:
        *layers, head = training.model
        layer = layer_for(head.norm.normalized_shape[0]).to(head.norm.weight)
        training.model = nn.Sequential(*layers, layer, head)

    return wrap


def update_late(training, mesh) -> None:
    """Lesson 12's stale gradient, in step: each update takes that of the step before.

    The first update has none and does nothing. Nothing waits for the network then.
    """
    update, before = training.update, []

    def update_with_last() -> None:
        parameters = list(training.model.parameters())
        before.append([p.grad.clone() for p in parameters])
        for p, gradient in zip(
            parameters, before[max(0, len(before) - 2)], strict=True
        ):
            p.grad.copy_(gradient)
        if len(before) > 1:
            before.pop(0)
            update()

    training.update = update_with_last


def other_order(training, mesh) -> None:
    """The batch in eight parts, the last first: the same sum in another order."""

    def backward(inputs: Tensor, targets: Tensor) -> float:
        total = 0.0
        for row in reversed(range(len(inputs))):
            rows = slice(row, row + 1)
            total += training.backward_alone(inputs[rows], targets[rows])
        for p in training.model.parameters():
            p.grad /= len(inputs)
        return total / len(inputs)

    training.backward = backward


dropout = _insert_before_head(lambda width: nn.Dropout(0.1))
batch_norm = _insert_before_head(NormOfBatch)
TWO_REPLICAS = {"data": 2}
UNEQUAL = {
    "sums in another order": (
        Strategy({}, {}),
        Strategy({}, {"order": other_order}),
    ),
    "dropout": (
        Strategy({}, {"dropout": dropout}),
        Strategy(TWO_REPLICAS, {"dropout": dropout, "data": ddp_ours}),
    ),
    "batch norm": (
        Strategy({}, {"norm": batch_norm}),
        Strategy(TWO_REPLICAS, {"norm": batch_norm, "data": ddp_ours}),
    ),
    "as if asynchronous, one step late": (  # played in one process: nobody is late
        Strategy({}, {}),
        Strategy({}, {"late": update_late}),
    ),
}


def _train_row(
    strategy: Strategy, steps: int, dtype: torch.dtype, trail: Tensor | None
) -> tuple[list[float], list[Tensor]]:
    """Runs in each rank: its numbers after each step, or its gaps from a trail."""
    watch = RungWatch(trail)
    train(strategy, steps, dtype=dtype, after_step=watch.after)
    return watch.gaps, watch.trail


def gap_of_row(name: str, steps: int = 20, dtype: torch.dtype = torch.float32) -> float:
    """The largest difference of any number between the two strategies of a row."""
    alone, other = UNEQUAL[name]
    [(_, trail)] = run_ranks(_train_row, alone, steps, dtype, None, world_size=1)
    ranks = run_ranks(
        _train_row,
        other,
        steps,
        dtype,
        torch.stack(trail),
        world_size=other.ranks,
    )
    gaps = torch.tensor([gaps for gaps, _ in ranks], dtype=torch.float64)
    return gaps.max().item()  # nan, if one is
