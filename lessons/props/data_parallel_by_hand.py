"""Lesson 09's two networks, one wide and one deep: one step of each, in three ways."""

from collections import defaultdict
from typing import NamedTuple

import torch
from torch import nn

from parallel_by_hand.data_parallel.data_parallel_processes import step_in_rank
from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    call_in_threads,
    call_one_by_one,
    replica_places,
)
from sidebyside import Timeline, device, run_ranks

STEPS = 24
ALONE = {"replicate", "loss", "reduce"}  # what device 0 does while others wait
KINDS = "forward", "backward", "device 0 alone", "update", "all-reduce"  # as drawn


def make_wide() -> nn.Module:
    """One wide hidden layer: a step is a few large products."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10))


def make_deep() -> nn.Module:
    """A hundred narrow layers: a step is hundreds of small calls from Python."""
    torch.manual_seed(0)
    layers = [part for _ in range(99) for part in (nn.Tanh(), nn.Linear(16, 16))]
    return nn.Sequential(nn.Linear(64, 16), *layers, nn.Tanh(), nn.Linear(16, 10))


IMAGES = {make_wide: 1024, make_deep: 32}  # in a batch


def _batch(images: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(images, 64, generator=generator), torch.arange(images) % 10


class OneStepWideOrDeep(NamedTuple):
    """The part of a timeline that is one step; it can be drawn like a timeline."""

    spans: list
    lanes: list

    def cpu(self, name: str) -> float:
        """Seconds in which a core worked on the spans of this name, of all lanes."""
        return sum(span.cpu for span in self.spans if span.name == name)

    @property
    def seconds(self) -> float:
        starts, ends = [s.start for s in self.spans], [s.end for s in self.spans]
        return max(ends) - min(starts)


def fastest_step(timeline: Timeline, steps: int = STEPS) -> OneStepWideOrDeep:
    """Of equal steps the one that other programs have disturbed least."""
    alike = defaultdict(list)
    for span in timeline.spans:
        name = "device 0 alone" if span.name in ALONE else span.name
        alike[span.lane, span.name].append(span._replace(name=name))
    found = []
    for step in range(steps):
        spans = []
        for _, group in sorted(alike.items(), key=_place):
            each = len(group) // steps
            spans += group[step * each : (step + 1) * each]
        found.append(OneStepWideOrDeep(spans, timeline.lanes))
    return min(found, key=lambda step: step.seconds)


def _place(item: tuple) -> int:
    """Where this kind stands in the key to the bars: the same in every picture."""
    (_, name), _ = item
    return KINDS.index("device 0 alone" if name in ALONE else name)


def _draw_step(make, run) -> OneStepWideOrDeep:
    """Two replicas in this process; `run` is call_in_threads or call_one_by_one."""
    places = replica_places(2)
    together = ThreadedReplicas(make().to(places[0]), places, run=run)
    x, y = _batch(IMAGES[make])
    with Timeline() as timeline:
        for _ in range(STEPS):
            together.step(x, y)
    return fastest_step(timeline)


def _steps(make) -> None:
    """Runs in each rank."""
    model = make().to(device())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = (tensor.to(device()) for tensor in _batch(IMAGES[make]))
    for _ in range(STEPS):
        step_in_rank(model, sgd, x, y)


def step_three_ways(make) -> dict[str, OneStepWideOrDeep]:
    """One step of two replicas: one by one, in two threads, in two processes."""
    with Timeline() as timeline:
        run_ranks(_steps, make)
    return {
        "one by one": _draw_step(make, call_one_by_one),
        "threads": _draw_step(make, call_in_threads),
        "processes": fastest_step(timeline),
    }
