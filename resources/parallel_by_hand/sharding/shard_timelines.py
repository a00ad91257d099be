"""When gradients and parameters travel: ZeRO-1, ZeRO-2, and ZeRO-2 overlapped."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from time import perf_counter, sleep
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.ddp.overlap import name_wire
from parallel_by_hand.sharding import flat_shards, zero_1, zero_2
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.sharding.zero_2 import ZeRO2
from sidebyside import device, span

FORWARD, BACKWARD = 0.02, 0.04  # seconds that a layer computes
WAYS = "ZeRO-1", "ZeRO-2", "ZeRO-2, overlapped"


class _Nap(torch.autograd.Function):
    """The identity, which sleeps forward and backward as if it computed."""

    @staticmethod
    def forward(ctx, x: Tensor, mark) -> Tensor:
        ctx.mark = mark
        with mark("forward"):
            sleep(FORWARD)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        with ctx.mark("backward"):
            sleep(BACKWARD)
        return gradient, None


class _NappingLayer(nn.Linear):
    """16,384 parameters that are as slow as we want; `mark` draws a span or nothing."""

    mark = nullcontext

    def __init__(self):
        super().__init__(128, 128, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return _Nap.apply(super().forward(x), _NappingLayer.mark)


@contextmanager
def _slow_link(milliseconds: float) -> Iterator[None]:
    """Inside, the ring takes so long to scatter, or to gather, one layer's shards."""
    layer = 128 * 128 * 4  # bytes

    def slowed(ring):
        def paced(flat: Tensor, *given, **group):
            result = ring(flat, *given, **group)
            sleep(milliseconds / 1000 * flat.nbytes / layer)
            return result

        return paced

    scatter = slowed(flat_shards.ring_reduce_scatter)
    gather = slowed(flat_shards.ring_all_gather)
    rings = {"ring_reduce_scatter": scatter, "ring_all_gather": gather}
    with mock.patch.multiple(zero_1, **rings), mock.patch.multiple(zero_2, **rings):
        yield


def step_over_slow_link(way: str, milliseconds: float) -> float:
    """Runs in each rank: a timeline of two steps, and the seconds of the second."""
    torch.manual_seed(0)
    network = nn.Sequential(*(_NappingLayer() for _ in range(4))).to(device())
    sgd = partial(torch.optim.SGD, lr=0.1, foreach=False)
    wire = ThreadPoolExecutor(1, initializer=name_wire)
    with _slow_link(milliseconds), wire:
        if way == "ZeRO-1":
            trained = ZeRO1(network, sgd)
        else:
            trained = ZeRO2(network, sgd)
            if way == WAYS[2]:
                trained.carry = partial(wire.submit, trained.reduce_scatter)
        for mark in (nullcontext, span):
            marks = [mock.patch.object(_NappingLayer, "mark", mark)]
            marks += [mock.patch.object(module, "span", mark) for module in
                      (zero_1, zero_2)]  # fmt: skip
            with marks[0], marks[1], marks[2]:
                dist.barrier()
                began = perf_counter()
                network(torch.ones(2, 128, device=device())).sum().backward()
                trained.step()
                seconds = perf_counter() - began
    return seconds
