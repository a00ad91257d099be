"""Run any schedule on real ranks whose stages sleep for a known time.

The ranks are real and so are the messages; only the work is not. A stage sleeps
instead of computing, so eight ranks can work side by side on two cores, and the
picture is exact.
"""

import time

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.pipeline.pipeline_stages import Pipeline
from parallel_by_hand.pipeline.schedule_rules import (
    Slot,
    homes_of_stages,
    schedule_size,
)
from parallel_by_hand.pipeline.schedules import Schedule
from sidebyside import Timeline, run_ranks


class _SleepingStage(nn.Module):
    """A stage that takes a known time for one micro-batch, on any machine."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seconds: tuple[float, ...] = 0.0, 0.0, 0.0  # of F, B and W

    def forward(self, tensor):
        forward_seconds, *of_parts = self.seconds  # B passes here first, and then W
        time.sleep(forward_seconds)
        output, parts = tensor * self.weight, iter(of_parts)
        if output.requires_grad:
            output.register_hook(lambda gradient: time.sleep(next(parts)))
        return output


def _sleep_in_rehearsal(schedule: Schedule, seconds: list[list[float]]) -> None:
    """Runs in each rank: once awake, to make the connections, and once asleep."""
    homes, (_, microbatches) = homes_of_stages(schedule), schedule_size(schedule)
    mine = [stage for stage, home in enumerate(homes) if home == dist.get_rank()]
    modules = {stage: _SleepingStage() for stage in mine}
    pipeline = Pipeline(schedule, modules, nn.functional.mse_loss)
    batch = torch.ones(microbatches, 1)
    pipeline.step(batch, batch)
    for stage, module in modules.items():
        module.seconds = tuple(times[stage] for times in seconds)
    dist.barrier()
    pipeline.step(batch, batch)


def rehearse(
    schedule: Schedule, forward=1, backward=1, weights=1, seconds=0.05
) -> list[Slot]:
    """Run `schedule` on real ranks with sleeping stages: what each did, and when."""
    stages, _ = schedule_size(schedule)
    times = [
        [
            seconds * t
            for t in ([time] * stages if isinstance(time, int | float) else time)
        ]
        for time in (forward, backward, weights)
    ]
    with Timeline() as timeline:
        run_ranks(_sleep_in_rehearsal, schedule, times, world_size=len(schedule))
    last = {(s.lane, s.name): s for s in timeline.spans}  # the second step's spans
    began = min(span.start for span in last.values())
    return sorted(
        Slot(
            (span.start - began) / seconds, (span.end - began) / seconds,
            int(span.lane.split()[1]), span.name,
        )
        for span in last.values()
    )  # fmt: skip
