"""Activation checkpointing: keep the inputs of a segment, compute the rest again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from parallel_by_hand.memory.kept_bytes import KeptBytes


class Recompute(torch.autograd.Function):
    """`Recompute.apply(segment, x)` is `segment(x)`, of which autograd keeps only x.

    Backward runs the segment once more, this time with autograd, and goes back through
    it. `x` must want a gradient. A segment that draws random numbers would draw others
    the second time: torch's `checkpoint` also restores the generator's state.
    """

    @staticmethod
    def forward(ctx, segment: Callable, x: torch.Tensor) -> torch.Tensor:
        ctx.segment = segment
        ctx.save_for_backward(x)
        return segment(x)  # autograd is off in here: nothing is kept

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.segment(x)
        y.backward(gradient)
        return None, x.grad


class _CountedLayer(nn.Module):
    """A linear layer and a tanh, which counts its forwards."""

    def __init__(self, width: int):
        super().__init__()
        self.linear, self.forwards = nn.Linear(width, width), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        return self.linear(x).tanh()


def make_deep(depth: int, width: int = 32) -> list[_CountedLayer]:
    """A deep network for recomputation, whose layers count their forwards."""
    torch.manual_seed(0)
    return [_CountedLayer(width) for _ in range(depth)]


@contextmanager
def torch_with_one_thread() -> Iterator[None]:
    """To time recomputation, one thread inside torch: two would wait for cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@torch_with_one_thread()
def take_step(
    layers: Sequence[nn.Module], x: torch.Tensor, length: int | None, again=None
) -> None:
    """One step with recomputation of segments of `length` layers; None: without."""
    if length is None:
        y = nn.Sequential(*layers)(x)
    else:
        y = x
        for first in range(0, len(layers), length):
            segment = nn.Sequential(*layers[first : first + length])
            y = (again or Recompute.apply)(segment, y)
    y.square().sum().backward()


def measure_recomputation(
    depth: int, length: int | None, samples: int = 64, width: int = 32, again=None
) -> dict:
    """One step of a deep network: most bytes kept for backward, forwards, gradients."""
    layers = make_deep(depth, width)
    x = torch.randn(samples, width).requires_grad_()
    with KeptBytes(*layers) as kept:
        take_step(layers, x, length, again)
    return {
        "kept": kept.peak / (4 * samples * width),
        "bytes": kept.peak,
        "forwards": sum(layer.forwards for layer in layers),
        "gradients": [x.grad, *(layer.linear.weight.grad for layer in layers)],
    }
