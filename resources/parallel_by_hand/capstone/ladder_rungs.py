"""Climb one rung of the ladder: train as it does, and count what it costs each rank."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from parallel_by_hand.capstone.language_model import SMALL_MODEL, ModelSize
from parallel_by_hand.capstone.rung_predictions import RungCost, RungPlan
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.trainer import Strategy, Training, train
from parallel_by_hand.capstone.whole_state import flat_numbers
from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.pipeline.schedules import Schedule, gpipe, one_f_one_b
from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.ledger import bytes_behind, optimizer_tensors
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, Timeline, run_ranks, span

PLANS = {
    "one process": RungPlan(),
    "accumulation": RungPlan(accumulate=4),
    "threads": RungPlan(),
    "DDP (ours)": RungPlan(data=2, zero="DDP"),
    "DDP (torch)": RungPlan(data=2, zero="DDP"),
    "ZeRO-1": RungPlan(data=2, zero="ZeRO-1"),
    "ZeRO-2": RungPlan(data=2, zero="ZeRO-2"),
    "ZeRO-3": RungPlan(data=2, zero="ZeRO-3"),
    "FSDP2 (torch)": RungPlan(data=2, zero="ZeRO-3"),
    "hybrid": RungPlan(data=4, zero="ZeRO-3", hybrid=2),
    "tensor": RungPlan(tensor=2),
    "sequence": RungPlan(tensor=2, sequence=True),
    "context": RungPlan(context=2, zero="DDP"),
    "GPipe": RungPlan(schedule=gpipe(2, 4)),
    "1F1B": RungPlan(schedule=one_f_one_b(2, 4)),
    "data x tensor": RungPlan(2, 2, "DDP"),
    "data x pipeline": RungPlan(2, 1, "DDP", schedule=one_f_one_b(2, 4)),
    "2 x 2 x 2": RungPlan(2, 2, "DDP", schedule=one_f_one_b(2, 4)),
}


class ClimbedRank(NamedTuple):
    """What one rank brings back: of each step, the largest difference from the first
    rung; the cost of step 2; the median time of the others."""

    gaps: list[float]
    cost: RungCost
    seconds: float


class _KeptBesideParameters(KeptBytes):
    """On a rung: the bytes that autograd keeps, parameters wherever they are left out.

    ZeRO-3 and FSDP2 give parameters other memory in each step, so they are told by
    their type here, not by their place.
    """

    def _save(self, tensor: Tensor):
        source = tensor._base if tensor._is_view() else tensor
        if isinstance(source, nn.Parameter):
            return SimpleNamespace(tensor=tensor)
        return super()._save(tensor)


class RungWatch:
    """Compares each step with the first rung's, and counts the second step's cost."""

    def __init__(self, first_rung: Tensor | None):
        self.first_rung = first_rung
        self.cost: Any = None  # the second step's
        self.trail, self.gaps, self.times = [], [], []

    @contextmanager
    def around(self, step: int, training: Training) -> Iterator[None]:
        began = perf_counter()
        with span("step"):
            if step == 1:
                with self._counting(training):
                    yield
            else:
                yield
                self.times.append(perf_counter() - began)

    @contextmanager
    def _counting(self, training: Training) -> Iterator[None]:
        gradients, update = [0], training.update

        def count_then_update() -> None:  # backward has ended, nothing is freed yet
            grads = [p.grad for p in training.model.parameters()]
            grads = [_local_memory(g) for g in grads if g is not None]
            gradients[0] = bytes_behind([*grads, *training.shards])
            update()

        training.update = count_then_update
        with (
            GatheredLedger(training.units) as borrowed,
            messages_of_ours(),  # the library's own would not be counted
            MessageMeter() as meter,
            _KeptBesideParameters() as kept,
        ):
            yield
        training.update = update
        held = bytes_behind(_local_memory(p) for p in training.held()) + borrowed.peak
        momentum = map(_local_memory, optimizer_tensors(training.optimizer))
        counted = held, gradients[0], bytes_behind(momentum), kept.peak
        self.cost = RungCost(meter.bytes_sent, *counted)

    def after(self, step: int, loss: float | None, training: Training) -> None:
        numbers, places = flat_numbers(training.held()).cpu(), training.addresses.held
        if self.first_rung is None:
            self.trail.append(numbers)
        else:
            expected = torch.cat([numbers.new_zeros(1), self.first_rung[step]])
            self.gaps.append((numbers - expected[places]).abs().max().item())


def _local_memory(tensor: Tensor) -> Tensor:
    """The tensor, or this rank's shard of a DTensor."""
    return getattr(tensor, "to_local", lambda: tensor)()


def climb(
    strategy: Strategy,
    steps: int,
    dtype: torch.dtype = torch.float32,
    first_rung: Tensor | None = None,
    size: ModelSize = SMALL_MODEL,
) -> tuple[ClimbedRank, Tensor | None]:
    """Runs in each rank; without a first rung it is the first, and gives its trail:
    all its numbers after each step."""
    watch = RungWatch(first_rung)
    watching = {"around_step": watch.around, "after_step": watch.after}
    train(strategy, steps, size, dtype=dtype, **watching)
    trail = torch.stack(watch.trail) if watch.trail else None
    return ClimbedRank(watch.gaps, watch.cost, median(watch.times)), trail


def climb_first(steps: int, dtype=torch.float32, size: ModelSize = SMALL_MODEL):
    """The rung that all others are held to, and its trail."""
    how = STRATEGIES["one process"], steps, dtype, None, size
    [(rank, trail)] = run_ranks(climb, *how, world_size=1)
    return rank._replace(gaps=[0.0] * steps), trail


def climb_rung(
    name: str, trail: Tensor, dtype=torch.float32
) -> tuple[list[ClimbedRank], Schedule | None]:
    """All ranks of one rung; of a pipeline, the order in which its stages worked."""
    strategy, steps = STRATEGIES[name], len(trail)
    with Timeline() as timeline:
        how = strategy, steps, dtype, trail
        found = run_ranks(climb, *how, world_size=strategy.ranks)
    order = (
        _order_of_work(timeline.spans, PLANS[name]) if PLANS[name].schedule else None
    )
    return [rank for rank, _ in found], order


def _order_of_work(spans: list, plan: RungPlan) -> Schedule:
    """What each stage of the first pipeline did in its last step, in its order."""
    orders = []
    for stage in range(plan.pipeline):
        lane = f"rank {stage * plan.tensor}"
        mine = [s for s in spans if str(s.lane).startswith(lane)]
        mine = [s for s in mine if re.fullmatch(r"[FB]\d+", str(s.name))]
        mine.sort(key=lambda s: s.start)
        orders.append([s.name for s in mine[-2 * plan.microbatches :]])
    return orders
