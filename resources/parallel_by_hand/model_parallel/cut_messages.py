"""Messages across a cut that autograd drives: activations forward, gradients back."""

import torch
import torch.distributed as dist
from torch import Tensor

from sidebyside import device, span


class SendForward(torch.autograd.Function):
    """Send activations to rank `target`; in backward, receive their gradient from it.

    Gives a zero to call `backward` on. Only shape and type of the activations are kept.
    """

    @staticmethod
    def forward(ctx, leaving: Tensor, target: int) -> Tensor:
        ctx.target, ctx.like = target, (leaving.shape, leaving.dtype, leaving.device)
        dist.send(leaving.contiguous(), target)
        return leaving.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        shape, dtype, place = ctx.like
        gradient = torch.empty(shape, dtype=dtype, device=place)
        with span("wait"):
            dist.recv(gradient, ctx.target)
        return gradient, None


class ReceiveForward(torch.autograd.Function):
    """Receive activations from rank `source`; in backward, send their gradient there.

    They have the given shape, and the type and device of `anchor`.
    """

    @staticmethod
    def forward(ctx, anchor: Tensor, shape: tuple[int, ...], source: int) -> Tensor:
        ctx.source = source
        arriving = torch.empty(shape, dtype=anchor.dtype, device=anchor.device)
        with span("wait"):
            dist.recv(arriving, source)
        return arriving

    @staticmethod
    def backward(ctx, gradient: Tensor):
        dist.send(gradient.contiguous(), ctx.source)
        return torch.zeros_like(gradient.sum()), None, None


def receive_across_cut(shape: tuple[int, ...], source: int) -> Tensor:
    """`ReceiveForward` with a fresh anchor, which makes autograd follow it."""
    anchor = torch.zeros((), device=device(), requires_grad=True)
    return ReceiveForward.apply(anchor, shape, source)
