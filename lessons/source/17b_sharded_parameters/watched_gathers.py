"""What the check of exercise 17b-gather-free runs in each rank, and what it notes."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.flat_shards import own_shard
from parallel_by_hand.sharding.gathered_ledger import FreedTooEarly, GatheredLedger
from parallel_by_hand.sharding.zero_3 import ShardedUnit, call_after_gradients
from sidebyside import MessageMeter, device

NAMES = "before_forward", "after_forward", "before_backward", "after_backward"
WIDTHS = 4, 6, 3, 5  # before and after each unit's layer: few ranks divide all


class FaultOfGathers(NamedTuple):
    """A rule that one of the four functions has broken."""

    kind: str  # which rule
    said: str


class GatheredStepNotes(NamedTuple):
    """What one rank saw in one step; gaps are to whole training on all samples."""

    complaint: str  # what went wrong in an operation, or nothing
    peak: int  # bytes gathered at the most
    largest: int  # bytes of the largest unit
    units: int
    calls: list[str]  # collectives, and "send" for a message
    faults: list[FaultOfGathers]  # in the order in which they were seen
    gap: float
    factor: float  # this gradient, as a multiple of the right one


class WatchedGathers:
    """Calls the four functions of an answer, and looks at the unit after each."""

    def __init__(self, functions: dict[str, Callable]):
        self.functions = functions
        self.calls: list[str] = []
        self.faults: list[FaultOfGathers] = []

    def call(self, name: str, unit: ShardedUnit, *_) -> None:
        flat = unit.flat
        with MessageMeter() as meter:
            self.functions[name](unit)
        if unit.flat is not flat:
            self.note("replaced", f"by another `flat` in {name}")
        self.calls += meter.collectives + ["send"] * meter.messages_sent
        held = unit.flat.untyped_storage().nbytes()
        if name.startswith("before") and held != unit.flat.nbytes:
            self.note("no memory", f"after {name}")
        if name.startswith("after") and held:
            self.note("still whole", f"after {name}")

    def note(self, kind: str, where: str) -> None:
        self.faults.append(FaultOfGathers(kind, f"{kind} {where}"))


def make_stack_to_gather() -> nn.Sequential:
    torch.manual_seed(0)
    units = [nn.Sequential(nn.Linear(*p), nn.Tanh()) for p in pairwise(WIDTHS)]
    return nn.Sequential(*units).to(device())


def try_gather_free(functions: dict) -> list[GatheredStepNotes]:
    """The notes of each of three steps."""
    model, whole = make_stack_to_gather(), make_stack_to_gather()
    units = [ShardedUnit(unit) for unit in model]
    watched = WatchedGathers(functions)
    for unit in units:
        _hook_of_gathers(unit, watched)
    notes = []
    for step in range(3):
        watched.calls = []
        notes.append(_take_gathered_step(model, whole, units, watched, step))
        if not _all_go_on_gathering(notes[-1]):
            break
    return notes


def _all_go_on_gathering(notes: GatheredStepNotes) -> bool:
    """Memory that nobody has filled may hold the right numbers on one rank only."""
    right = not notes.complaint and not notes.faults and notes.gap <= 1e-3
    wrong_ranks = torch.tensor(float(not right), device=device())
    dist.all_reduce(wrong_ranks)
    return not wrong_ranks.item()


def _hook_of_gathers(unit: ShardedUnit, watched: WatchedGathers) -> None:
    def after_forward(module, inputs, output):
        watched.call("after_forward", unit)
        output.register_hook(lambda _: watched.call("before_backward", unit))

    unit.module.register_forward_pre_hook(
        lambda *_: watched.call("before_forward", unit)
    )
    unit.module.register_forward_hook(after_forward)
    call_after_gradients(unit.parameters, lambda: watched.call("after_backward", unit))


def _take_gathered_step(model, whole, units, watched, step: int) -> GatheredStepNotes:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(step)
    shape = 3 * ranks, WIDTHS[0]
    x = torch.randn(shape, generator=generator).to(device())
    (whole(x).square().sum() / ranks).backward()
    complaint, ledger = "", GatheredLedger(units)
    dist.barrier()
    try:
        with ledger:
            model(x.chunk(ranks)[rank]).square().sum().backward()
    except FreedTooEarly as error:
        complaint = str(error)
    largest = max(unit.flat.nbytes for unit in units)
    gap, factor = (
        (0.0, 1.0) if complaint else _compare_gathered_units(units, whole, watched)
    )
    counts = ledger.peak, largest, len(units)
    seen = watched.calls, list(watched.faults)
    return GatheredStepNotes(complaint, *counts, *seen, gap, factor)


def _compare_gathered_units(
    units, whole: nn.Sequential, watched: WatchedGathers
) -> tuple[float, float]:
    """The largest gap of a shard of a gradient; then both take a step of SGD."""
    gap, factor = 0.0, 1.0
    for unit, module in zip(units, whole, strict=True):
        expected = own_shard(
            _padded_for_gathers(unit, [p.grad for p in module.parameters()])
        )
        got = unit.kept.grad
        if not isinstance(got, torch.Tensor) or got.shape != unit.kept.shape:
            watched.note("no gradient", "as kept.grad")
            return gap, factor
        difference = (got - expected).abs().max().item()
        if difference > gap or math.isnan(difference):  # from then on it stays nan
            gap = difference
            factor = ((got * expected).sum() / (expected * expected).sum()).item()
        unit.kept -= 0.05 * expected  # so that the next step has other numbers
        unit.kept.grad = None
        for parameter in module.parameters():
            parameter.data -= 0.05 * parameter.grad
            parameter.grad = None
    return gap, factor


def _padded_for_gathers(
    unit: ShardedUnit, gradients: list[torch.Tensor]
) -> torch.Tensor:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    return nn.functional.pad(flat, (0, unit.flat.numel() - flat.numel()))
