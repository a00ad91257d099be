"""The ladder as one growing table: each rung predicted, climbed, set side by side."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from parallel_by_hand.capstone.ladder_rungs import (
    PLANS,
    ClimbedRank,
    climb_first,
    climb_rung,
)
from parallel_by_hand.capstone.language_model import SMALL_MODEL, ModelSize
from parallel_by_hand.capstone.rung_predictions import RungCost, RungPlan, predict_rung
from parallel_by_hand.pipeline.schedule_rules import bubble, timetable
from parallel_by_hand.pipeline.schedules import Schedule

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
COUNTS_OWN_MESSAGES = "DDP (torch)", "FSDP2 (torch)"  # the library sends them itself
HALF_SEEN = "threads"  # what its threads keep, autograd tells those threads only


class Rung(NamedTuple):
    """What was predicted and what was found, of each rank in rank order."""

    name: str
    predicted: list[RungCost]
    ranks: list[ClimbedRank]
    order: Schedule | None = None  # in which a pipeline's stages worked

    @property
    def bubble(self) -> float:
        """Of the order in which the stages worked, timed on paper: B takes two F."""
        return bubble(timetable(self.order, 1, 2)) if self.order else 0.0

    @property
    def gap(self) -> float:
        """The largest difference of any number from the first rung, after any step."""
        gaps = [rank.gaps for rank in self.ranks]
        return torch.tensor(gaps, dtype=torch.float64).max().item()  # nan, if one is

    @property
    def messages_are_seen(self) -> bool:
        return self.name not in COUNTS_OWN_MESSAGES

    @property
    def memory_is_seen(self) -> bool:
        return self.name not in (HALF_SEEN, "FSDP2 (torch)")

    @property
    def as_predicted(self) -> bool:
        """Whether every byte that is seen, on every rank, is the predicted one."""
        pairs = list(zip(self.predicted, self.ranks, strict=True))
        sent = all(p.sent == rank.cost.sent for p, rank in pairs)
        held = all(p[1:5] == rank.cost[1:5] for p, rank in pairs)
        idle = abs(self.bubble - self.predicted[0].bubble) < 1e-9
        sent, held = sent or not self.messages_are_seen, held or not self.memory_is_seen
        return sent and held and idle


def predict_ranks(name: str, size: ModelSize, item: int) -> list[RungCost]:
    """A rung's predicted cost for each rank: those of one stage cost the same."""
    plan: RungPlan = PLANS[name]
    stages = predict_rung(size, plan, item=item)
    ranks = plan.replicas * plan.pipeline * plan.tensor
    return [stages[rank // plan.tensor % plan.pipeline] for rank in range(ranks)]


def climb_ladder(
    names: list[str], steps: int, dtype: torch.dtype = torch.float32
) -> Iterator[Rung]:
    """The first rung, then those named, each as soon as it has been climbed."""
    first, trail = climb_first(steps, dtype)
    predicted = predict_ranks("one process", SMALL_MODEL, dtype.itemsize)
    yield Rung("one process", predicted, [first])
    for name in names:
        if name != "one process":
            yield climb_predicted(name, trail, dtype)


def climb_predicted(name: str, trail: Tensor, dtype=torch.float32) -> Rung:
    """Predict a rung first, then climb it beside the first rung's trail."""
    predicted = predict_ranks(name, SMALL_MODEL, dtype.itemsize)
    return Rung(name, predicted, *climb_rung(name, trail, dtype))


HEADING = (
    f"{'':<16}ranks  {'equal':<13}{'bytes sent':>10}  {'memory':>9}  bubble"
    f"  {'predicted':<9}  time"
)


def _rung_line(rung: Rung, tolerance: float = 1e-5) -> str:
    """One line of the table; bytes are those of the rank that has the most."""
    sent = f"{max(r.cost.sent for r in rung.ranks):,}"
    memory = f"{max(r.cost.memory for r in rung.ranks):,}"
    sent = sent if rung.messages_are_seen else "-"
    memory = memory if rung.memory_is_seen else "-"
    equal = f"within {tolerance:.0e}" if rung.gap <= tolerance else "NO"
    bubble = f"{100 * rung.bubble:.0f} %" if rung.predicted[0].bubble else "-"
    seconds = max(rank.seconds for rank in rung.ranks)
    return (
        f"{rung.name:<16}{len(rung.ranks):5}  {equal:<13}{sent:>10}  {memory:>9}"
        f"  {bubble:>6}  {how_predicted(rung):<9}"
        f"  {1000 * seconds:.0f} ms"
    )


def how_predicted(rung: Rung) -> str:
    """Whether a rung was predicted: "exactly" or "NO"; "-" if it is not seen whole."""
    if not rung.memory_is_seen:
        return "-"
    return "exactly" if rung.as_predicted else "NO"


def print_ladder(rungs, tolerance: float = 1e-5) -> list[Rung]:
    """Print each rung when it has been climbed; all of them in the end."""
    print(HEADING, flush=True)
    climbed = []
    for rung in rungs:
        climbed.append(rung)
        print(_rung_line(rung, tolerance), flush=True)
    return climbed
