"""When gradients travel: after backward, or while it still computes. Simulated."""

# A `.grad` is there after backward; torch says that it may be None.
# A message on its way is a Future that can `wait` as torch's can.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import current_thread
from time import perf_counter, sleep

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.collectives.paced_link import PacedLink
from sidebyside import device, span

FORWARD, BACKWARD = 0.01, 0.03  # seconds that a layer computes


class _Sleep(torch.autograd.Function):
    """The identity, which sleeps forward and backward as if it computed."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        sleep(FORWARD)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        sleep(BACKWARD)
        return gradient


class _SleepingLayer(nn.Linear):
    """A layer of 64 parameters that takes 10 ms forward and 30 ms backward."""

    def __init__(self):
        super().__init__(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sleep.apply(super().forward(x))


class SlowLink(PacedLink):
    """The paced link of the overlap: a whole all-reduce takes alpha, one at a time."""

    def __init__(self, milliseconds: float):
        super().__init__(alpha=milliseconds / 1e3, beta=0)
        self.wire = ThreadPoolExecutor(1, initializer=name_wire)
        self.mark = nullcontext  # `span` during the step that is drawn

    def start(self, *message) -> Future:
        travelling = self.wire.submit(self.carry, *message)
        travelling.wait = partial(self.wait, travelling)  # as torch calls it
        return travelling

    def carry(self, message: torch.Tensor) -> None:
        with self.mark("wait"):  # until the other rank has its message ready
            dist.barrier()
        with self.mark("message"):
            dist.all_reduce(message)
            sleep(self.seconds(message))

    def wait(self, travelling: Future) -> None:
        with self.mark("wait"):
            travelling.result()


def name_wire() -> None:
    """Spans of messages that overlap appear in a lane called wire."""
    current_thread().name = "wire"  # so is its lane in a timeline


def step_after_backward(milliseconds: float) -> float:
    """Runs in each rank: seconds of a step without overlap: messages after backward."""
    model, link = four_sleeping_layers(), SlowLink(milliseconds)

    def average() -> None:
        last_first = reversed(list(model.parameters()))
        wait_for_means([(p, link.start(p.grad)) for p in last_first])

    return _step_through_link(model, link, average)


def step_during_backward(milliseconds: float) -> float:
    """The same with overlap: a message leaves as soon as its gradient is ready."""
    model, link = four_sleeping_layers(), SlowLink(milliseconds)
    messages = []

    def send(parameter: nn.Parameter) -> None:
        messages.append((parameter, link.start(parameter.grad)))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(send)
    return _step_through_link(model, link, partial(wait_for_means, messages))


def wait_for_means(messages: list) -> None:
    """Wait for the messages that overlap with backward; gradients become means."""
    for parameter, message in messages:
        message.wait()
        parameter.grad /= dist.get_world_size()
    messages.clear()


def four_sleeping_layers() -> nn.Module:
    """The network whose backward overlaps: its layers sleep instead of computing."""
    torch.manual_seed(0)
    return nn.Sequential(*(_SleepingLayer() for _ in range(4))).to(device())


def _step_through_link(model: nn.Module, link: SlowLink, average: Callable) -> float:
    """Take two steps and draw the second; its seconds."""
    sample = torch.ones(1, 8, device=device())
    for link.mark in nullcontext, span:
        dist.barrier()
        began = perf_counter()
        with link.mark("forward"):
            loss = model(sample).sum()
        with link.mark("backward"):
            loss.backward()
        average()
        seconds = perf_counter() - began
        model.zero_grad()
    return seconds
