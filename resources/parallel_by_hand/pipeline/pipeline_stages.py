"""Carry out any legal schedule on real ranks: the plan is given, here is the doing.

The timetable puts every instruction into a slot, and all ranks know it. A message
leaves in the slot of the instruction that made it, so in each slot every rank knows
what it sends and what it gets, and posts both in one batch without waiting. It waits
only when an instruction needs what has not yet arrived. No legal schedule can hang:
the ranks go through the slots in the same order.
"""

import copy
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import backward
from torch.autograd.graph import GradientEdge, get_gradient_edge

from parallel_by_hand.memory.recomputation import Recompute
from parallel_by_hand.pipeline.schedule_rules import (
    homes_of_stages,
    kinds_of_work,
    schedule_size,
    timetable,
)
from parallel_by_hand.pipeline.schedules import (
    Schedule,
    ScheduledWork,
    read_instruction,
)
from sidebyside import device, span


def split_into_stages(
    model: nn.Sequential,
    schedule: Schedule,
    layers: list[int] | None = None,
    group=None,
) -> dict[int, nn.Module]:
    """This rank's stages of `model`, by stage number."""
    stages, _ = schedule_size(schedule)
    edges = [len(model) * stage // stages for stage in range(stages + 1)]
    if layers is not None:
        edges = [0, *accumulate(layers)]
    if len(edges) != stages + 1 or edges[-1] != len(model):
        raise ValueError(
            f"layers must be {stages} numbers with the sum {len(model)}, not {layers}"
        )
    homes, rank = homes_of_stages(schedule), dist.get_rank(group)
    return {
        s: model[edges[s] : edges[s + 1]] for s in range(stages) if homes[s] == rank
    }


class Pipeline:
    """This rank's part of a model that is split into stages.

    `stages` holds this rank's modules by stage number. `loss` is called on the last
    stage's output and its micro-batch of targets; it must be a mean over samples.
    After `step` every parameter's `grad` is that of the mean loss over the batch:
    what the unsplit model would have. `kept` is the largest number of forwards that
    were waiting for their backward. With `recompute`, a stage keeps only what enters
    it, and runs its forward once more when the backward begins.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Module],
        loss: Callable,
        recompute: bool = False,
        group=None,
    ):
        self.ranks, self.rank, self.group = len(schedule), dist.get_rank(group), group
        if dist.get_world_size(group) != self.ranks:
            raise ValueError(
                f"the schedule is for {self.ranks} ranks and there are "
                f"{dist.get_world_size(group)}"
            )
        self.homes = homes_of_stages(schedule)
        self.last = len(self.homes) - 1
        self.microbatches = schedule_size(schedule)[1]
        self.modules = {s: module.to(device()) for s, module in stages.items()}
        self.loss, self.recompute = loss, recompute
        self.run = Recompute.apply if recompute else nn.Module.__call__
        self.splits = "W" in kinds_of_work(schedule)  # backwards are in two parts
        if self.splits and recompute:
            raise ValueError("recompute needs a schedule without W")
        self.slots = self._my_part(schedule)
        self.shapes: dict[int, Tensor] = {}  # shaped like what enters a stage
        self.kept = 0

    def _my_part(
        self, schedule: Schedule
    ) -> list[list[tuple[str, ScheduledWork, ScheduledWork | None]]]:
        """For each slot of time, what this rank does or gets, and what needs it."""
        slots: dict[float, list] = {}
        for start, _, rank, instruction in timetable(schedule):
            work = read_instruction(instruction, rank)
            goal = _stage_that_receives(work, self.last)
            if self.rank in (rank, goal and self.homes[goal.stage]):
                slots.setdefault(start, []).append((instruction, work, goal))
        return [slots[start] for start in sorted(slots)]

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """Forward and backward for one batch: its mean loss, on the last stage's rank.

        Every rank passes the same batch; only the first stage reads `inputs`, only
        the last reads `targets`. The caller steps the optimiser.
        """
        self._begin(inputs, targets)
        for slot in self.slots:
            made = {}
            for instruction, work, _ in slot:
                if work.stage in self.modules:
                    made[work] = self._compute(instruction, work)
            self._exchange(slot, made)
        return self._end()

    def _begin(self, inputs: Tensor, targets: Tensor) -> None:
        if len(inputs) % self.microbatches:
            raise ValueError(
                f"a batch of {len(inputs)} cannot be cut into {self.microbatches} "
                "equal micro-batches"
            )
        self.inputs = inputs.to(device()).chunk(self.microbatches)
        self.targets = targets.to(device()).chunk(self.microbatches)
        if not self.shapes or self.shapes[0].shape != self.inputs[0].shape:
            self._learn_shapes(self.inputs[0])
        self.total = torch.zeros((), device=device())
        self.waiting: dict[tuple[int, int], tuple[Any, GradientEdge]] = {}
        self.halfway: dict[tuple[int, int], Tensor | None] = {}  # between B and W
        self.arriving: dict[ScheduledWork, tuple[Tensor, dist.Work | None]] = {}
        self.leaving: dict[ScheduledWork, tuple[Tensor, dist.Work | None]] = {}
        self.kept = 0

    def _end(self) -> float | None:
        for work in list(self.leaving):
            _finish_between(self.leaving, work)
        return self.total.item() if self.last in self.modules else None

    def _compute(self, instruction: str, work: ScheduledWork) -> Tensor | None:
        """Run one instruction: the activations or the gradient to pass on."""
        kind, stage, microbatch = work
        arrived = _finish_between(self.arriving, work)  # waiting is not work
        if kind == "B":  # its gradient has arrived, so the message of F has, too
            _finish_between(self.leaving, work._replace(kind="F"))
        with span(instruction):
            if kind == "F":
                output = self._forward(stage, microbatch, arrived)
            elif kind == "W":
                output = self._backward_of_weights(stage, microbatch)
            elif self.splits:
                output = self._backward_of_inputs(stage, microbatch, arrived)
            else:
                output = self._backward(stage, microbatch, arrived)
        self.kept = max(self.kept, len(self.waiting))
        return output

    def _forward(self, stage: int, microbatch: int, entered: Tensor | None) -> Tensor:
        if stage == 0:
            entered = self.inputs[microbatch].detach()
        if stage > 0 or self.splits or self.recompute:
            entered.requires_grad_()
        output = self.run(self.modules[stage], entered)
        if stage == self.last:
            output = self.loss(output, self.targets[microbatch]) / self.microbatches
            self.total += output.detach()
        self.waiting[stage, microbatch] = entered, get_gradient_edge(output)
        return output.detach()

    def _backward(self, stage: int, microbatch: int, gradient: Tensor | None):
        entered, way_back = self.waiting.pop((stage, microbatch))
        backward(way_back, gradient)  # adds to the parameters' grad
        return entered.grad

    def _backward_of_inputs(self, stage: int, microbatch: int, gradient):
        """The first part of a backward: the gradient that another rank waits for."""
        entered, way_back = self.waiting[stage, microbatch]
        self.halfway[stage, microbatch] = gradient
        backward(way_back, gradient, inputs=[entered], retain_graph=True)
        return entered.grad

    def _backward_of_weights(self, stage: int, microbatch: int) -> None:
        """The second part: the gradients of the weights, for which nobody waits.

        torch goes the whole way back once more, and repeats work of the first part.
        Programs that want the speed keep the gradients in between.
        """
        _, way_back = self.waiting.pop((stage, microbatch))
        gradient = self.halfway.pop((stage, microbatch))
        weights = [p for p in self.modules[stage].parameters() if p.requires_grad]
        if weights:
            backward(way_back, gradient, inputs=weights)

    def _exchange(self, slot: list, made: dict[ScheduledWork, Tensor]) -> None:
        """Send what this rank made in a slot and get what it will need, in one batch.

        Nobody waits here. On NCCL the batch is what makes it safe: there a lone send
        holds up the receive behind it.
        """
        messages, notes = [], []
        for _, work, goal in slot:
            if goal is None:
                continue
            source, target = self.homes[work.stage], self.homes[goal.stage]
            if source == target:  # this rank has both stages
                self.arriving[goal] = made[work], None
            elif source == self.rank:
                messages.append((dist.isend, made[work].contiguous(), target))
                notes.append((self.leaving, work))
            else:
                stage = max(work.stage, goal.stage)  # a gradient has its input's shape
                buffer = torch.empty_like(self.shapes[stage])
                messages.append((dist.irecv, buffer, source))
                notes.append((self.arriving, goal))
        operations = [
            dist.P2POp(way, tensor, group=self.group, group_peer=peer)
            for way, tensor, peer in messages
        ]
        if operations:
            handles = dist.batch_isend_irecv(operations)
            if len(handles) < len(operations):  # NCCL has one handle for the batch
                handles *= len(operations)
            for operation, handle, (under_way, work) in zip(
                operations, handles, notes, strict=True
            ):
                under_way[work] = operation.tensor, handle

    def _learn_shapes(self, microbatch: Tensor) -> None:
        """Ask each stage in turn what it hands on, by one forward of a copy of it."""
        self.shapes = {0: microbatch}
        for stage in range(self.last):
            told: list[Any] = [None]
            if stage in self.modules:
                trial = copy.deepcopy(self.modules[stage]).eval()  # leaves no trace
                with torch.no_grad():
                    output = trial(torch.zeros_like(self.shapes[stage]))
                told = [(output.shape, output.dtype)]
            dist.broadcast_object_list(
                told, group=self.group, group_src=self.homes[stage], device=device()
            )
            shape, dtype = told[0]
            self.shapes[stage + 1] = torch.empty(shape, dtype=dtype, device=device())


def _stage_that_receives(work: ScheduledWork, last: int) -> ScheduledWork | None:
    """The work that needs the result of `work`, if that is passed on at all."""
    step = {"F": 1, "B": -1}.get(work.kind)
    if step is None:
        return None
    if not 0 <= work.stage + step <= last:
        return None
    return work._replace(stage=work.stage + step)


def _finish_between(
    under_way: dict[ScheduledWork, tuple[Tensor, dist.Work | None]], work: ScheduledWork
):
    """Wait for the message that belongs to `work`, and let go of it."""
    message, handle = under_way.pop(work, (None, None))
    if handle is not None:
        handle.wait()
    return message
