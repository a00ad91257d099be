"""Layers that sleep for a known time, to draw when ZeRO-3 sends and computes."""

from contextlib import nullcontext
from time import perf_counter, sleep

import torch
import torch.distributed as dist
from torch import Tensor, nn

from demos.sharding.parts.shard_links import SlowWire
from demos.sharding.parts.zero_3 import TunedZeRO3
from sidebyside import device, span


class Sleep(torch.autograd.Function):
    """The identity, which takes `seconds` forward and twice as long backward."""

    @staticmethod
    def forward(ctx, layer: "SleepingLayer", x: Tensor) -> Tensor:
        ctx.layer = layer
        layer.rest("forward", layer.seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        ctx.layer.rest("backward", 2 * ctx.layer.seconds)
        return None, gradient


class SleepingLayer(nn.Module):
    """A linear layer that is as slow as we want: backward takes twice its `seconds`."""

    def __init__(self, width: int, seconds: float):
        super().__init__()
        self.linear, self.seconds = nn.Linear(width, width), seconds
        self.mark = nullcontext

    def rest(self, name: str, seconds: float) -> None:
        with self.mark(name):
            sleep(seconds)

    def forward(self, x: Tensor) -> Tensor:
        return Sleep.apply(self, self.linear(x))


def step_over_slow_wire(
    prefetch: bool, depth: int = 4, seconds: float = 0.04, travel: float = 0.03
) -> float:
    """Runs in each rank: seconds for a step, the second of two, which is drawn.

    A layer computes for `seconds` forward and twice that backward; to gather it or to
    scatter its gradients takes `travel` on a slow wire.
    """
    torch.manual_seed(0)
    layers = [SleepingLayer(32, seconds) for _ in range(depth)]
    wire = SlowWire(1.0)
    model = nn.Sequential(*layers).to(device())
    zero = TunedZeRO3(model, torch.optim.SGD, wire, prefetch)
    others = dist.get_world_size() - 1
    wire.bytes_per_second = others * zero.units[0].kept.nbytes / travel
    for mark in (nullcontext, span):
        for part in (wire, *layers):
            part.mark = mark
        dist.barrier()
        began = perf_counter()
        model(torch.ones(4, 32, device=device())).sum().backward()
        zero.step()
        taken = perf_counter() - began
    return taken


def predicted_step_of_sleepers(
    prefetch: bool, depth: int = 4, seconds: float = 0.04, travel: float = 0.03
) -> float:
    """The same, added up; for a wire that carries a layer while another one computes.

    One after another: a layer waits to be gathered, and in backward the gradients of
    the layer before it travel first. With prefetch only the ends are waited for: the
    first gather forward, the first backward, and the last gradients.
    """
    if not prefetch:
        forward = depth * (travel + seconds)
        return forward + depth * (2 * travel + 2 * seconds)
    if 2 * travel > 2 * seconds:
        raise ValueError("travel must not be above seconds: else computing waits")
    return 3 * travel + 3 * depth * seconds
