"""The simulator beside real steps of two ranks: what it predicts, and the miss."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from parallel_by_hand.scale.calibration import step_seconds
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.this_machine import (
    MeasuredStep,
    measure_step,
    strategies_of_two,
)
from parallel_by_hand.scale.training_plan import Cluster, Link, Model
from sidebyside import run_ranks

WAYS = "data", "ZeRO-1", "tensor", "pipeline"


class HeldToThisMachine(NamedTuple):
    """One way to train: the simulated step, and both ranks' measurements."""

    step: SimulatedStep
    measured: list[MeasuredStep]

    @property
    def seconds(self) -> float:
        return step_seconds(self.measured)

    @property
    def miss(self) -> float:
        """By how much the prediction is too long; -0.1 is a tenth too short."""
        return self.step.seconds / self.seconds - 1

    @property
    def bytes_agree(self) -> bool:
        """The meter counts on each rank what was predicted for it, to the byte."""
        ranks = self.step.sent_by_ranks
        if len(ranks) == 1:  # one stage: all ranks do the same
            ranks = ranks * len(self.measured)
        predicted = [sum(sent.values()) for sent in ranks]
        return predicted == [measured.sent for measured in self.measured]


def hold_to_this_machine(
    cluster: Cluster,
    model: Model,
    batch: int,
    ways: Iterable[str] = WAYS,
    rounds: int = 5,
    slow: Link | None = None,
) -> dict[str, HeldToThisMachine]:
    """Simulate and run each of `ways`; with `slow`, over a paced link of that cost."""
    pace = None
    if slow:
        cluster = replace(cluster, link_within=slow, link_between=slow)
        pace = slow.alpha, 1 / slow.bandwidth
    held = {}
    for way in ways:
        strategy = strategies_of_two(batch)[way]
        task = model, strategy, batch, rounds, pace
        measured = run_ranks(measure_step, *task, world_size=2)
        held[way] = HeldToThisMachine(
            simulate_step(model, cluster, strategy, batch), measured
        )
    return held


def print_held(held: dict[str, HeldToThisMachine]) -> None:
    """Held to this machine: seconds predicted and measured, misses, bytes."""
    for way, found in held.items():
        sent = max(measured.sent for measured in found.measured)
        print(
            f"{way:<9} predicted {1e3 * found.step.seconds:5.0f} ms, "
            f"measured {1e3 * found.seconds:5.0f} ms, miss {100 * found.miss:+4.0f} %; "
            f"{sent:>9,} bytes sent, as predicted: {found.bytes_agree}"
        )


def fastest_first(held: dict[str, HeldToThisMachine], measured: bool) -> list[str]:
    """The ways held to this machine, by the time of a step, measured or predicted."""
    return sorted(
        held, key=lambda way: held[way].seconds if measured else held[way].step.seconds
    )
