"""Lesson 18b: the picture of goodput, and what goes wrong when a part is not saved."""

from typing import NamedTuple

from torch import Tensor

from parallel_by_hand.failures.checkpoint_interval import (
    Machine,
    expected_goodput,
    goodput_spread_of_few_failures,
    simulated_goodput,
    young_interval,
)
from parallel_by_hand.failures.resumable_training import PARTS, DigitsTraining
from parallel_by_hand.failures.training_snapshots import restore, snapshot
from sidebyside import COLOURS, figure


def draw_goodput(machine: Machine, survived, kills: int, failures: int = 10_000):
    """A line by Daly's formula, points from the simulated clock, and the real kills."""
    young = young_interval(machine)
    grid = [young * 2 ** (power / 8) for power in range(-28, 29)]
    alt = "goodput against interval: it rises, has a broad top and falls"
    fig, ax = figure(stamp="simulated", alt=alt)
    blue, red, green = COLOURS[:3]
    ax.plot(grid, [100 * expected_goodput(e, machine) for e in grid], color=blue)
    points = grid[::4]
    simulated = [
        100 * simulated_goodput(every, machine, failures, seed)
        for seed, every in enumerate(points)
    ]
    ax.plot(points, simulated, "o", color=blue, ms=4)
    label = f"line: formula\npoints: {failures:,} failures each"
    ax.text(grid[-14], 33, label, color=blue)
    ax.axvline(young, color=green, lw=1, ls="--")
    ax.text(young * 0.97, 4, "Young", color=green, ha="right")
    low, high = (
        100 * share for share in goodput_spread_of_few_failures(young, machine, kills)
    )
    ax.plot([young, young], [low, high], color=red, lw=5, alpha=0.35)
    ax.plot([young], [100 * survived.goodput], "D", color=red, ms=6)
    label = f"diamond: {kills} kills of a process that naps\n"
    label += f"bar: 80 % of simulated runs with {kills}"
    ax.text(young * 1.12, high + 5, label, color=red, va="top", fontsize=8)
    ax.set(xscale="log", xlabel="seconds of computing between checkpoints")
    ax.set(ylabel="goodput in %", ylim=(0, 66), xticks=grid[4::8])
    ax.set_xticklabels([f"{every:.2g}" for every in grid[4::8]])
    ax.minorticks_off()
    return fig


EPOCH = 22  # steps
SAVED_AT, ENDS_AT = 30, 50  # in the middle of the second epoch, and in the third


class ContinuedWithoutPart(NamedTuple):
    """A training that was stopped at step `SAVED_AT` and went on to `ENDS_AT`."""

    equal: bool  # every parameter, bit for bit, to the uninterrupted training
    apart: float  # the largest difference of a parameter
    twice: int  # images that the second epoch used twice


class WatchedTraining(DigitsTraining):
    """Notes which images it uses."""

    def __init__(self):
        super().__init__()
        self.seen: list[int] = []

    def next_batch(self) -> Tensor:
        batch = super().next_batch()
        self.seen += batch.tolist()
        return batch

    def take_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.take_step()


def continue_without_each_part() -> dict[str, ContinuedWithoutPart]:
    """Runs in each rank: once with the whole checkpoint, once without each part."""
    whole = WatchedTraining()
    whole.take_steps(SAVED_AT)
    saved, seen = snapshot(whole), whole.seen[EPOCH * whole.batch :]
    whole.take_steps(ENDS_AT - SAVED_AT)
    found = {}
    for part in ("nothing", *PARTS):
        training = WatchedTraining()
        begun_anew = {part: snapshot(training)[part]} if part in PARTS else {}
        restore(training, saved | begun_anew)
        training.take_steps(ENDS_AT - SAVED_AT)
        rest = training.seen[: (2 * EPOCH - SAVED_AT) * whole.batch]
        gap = (training.parameters() - whole.parameters()).abs().max().item()
        twice = len(set(seen) & set(rest))
        found[part] = ContinuedWithoutPart(gap == 0, gap, twice)
    return found
