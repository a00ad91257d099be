"""A recurrent network, one layer on each rank: time steps flow through in chunks."""

from time import sleep

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut
from sidebyside import Timeline, device, run_ranks, span


def flow_through_layers(
    layer: nn.Module, sequence: Tensor, chunk: int, width: int
) -> list[Tensor]:
    """Runs in each rank: the wavefront in its layer, `chunk` time steps at a time.

    `sequence` (steps, batch, features) is the input of rank 0; the others need its
    shape only. `width` features go from layer to layer. Gives the outputs on the last
    rank, and zeros to call `backward` on elsewhere. With `chunk` = all steps a layer
    starts when the one before it has finished.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    state, leaving = None, []
    for piece in sequence.split(chunk):
        if rank > 0:
            piece = receive_across_cut((*piece.shape[:2], width), rank - 1)
        output, state = layer(piece, state)
        leaving.append(output if rank == last else SendForward.apply(output, rank + 1))
    return leaving


class _Nap(torch.autograd.Function):
    """Sleep forward, and again in backward; what passes through stays as it is."""

    @staticmethod
    def forward(ctx, piece: Tensor, seconds: float, step: int) -> Tensor:
        ctx.seconds, ctx.step = seconds, step
        with span(f"forward {step}"):
            sleep(seconds)
        return piece.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor):
        with span(f"backward {ctx.step}"):
            sleep(ctx.seconds)
        return gradient, None, None


class _SleepingLayer(nn.Module):
    """A recurrent layer that sleeps for a known time at each time step."""

    def __init__(self, seconds: float):
        super().__init__()
        self.weight, self.seconds = nn.Parameter(torch.ones(())), seconds

    def forward(self, piece: Tensor, state: tuple | None) -> tuple:
        step, hidden = state or (0, torch.zeros_like(piece[0]))
        outputs = []
        for entering in piece:
            hidden = _Nap.apply(self.weight * (entering + hidden), self.seconds, step)
            outputs.append(hidden)
            step += 1
        return torch.stack(outputs), (step, hidden)


def _sleep_through(steps: int, chunk: int, seconds: float, backward: bool) -> None:
    """Runs in each rank: its layer, forward, and backward if so asked."""
    sequence = torch.ones(steps, 1, 1, device=device())
    layer = _SleepingLayer(seconds).to(device())
    dist.barrier()  # all start together
    leaving = flow_through_layers(layer, sequence, chunk, 1)
    if backward:
        torch.cat([piece.flatten() for piece in leaving]).sum().backward()


def rehearse_wavefront(
    layers: int, steps: int, chunk: int = 1, seconds: float = 0.05, backward=False
) -> Timeline:
    """The timeline of sleeping layers, one on each of `layers` real ranks."""
    with Timeline() as timeline:
        run_ranks(_sleep_through, steps, chunk, seconds, backward, world_size=layers)
    return timeline


def slots_of_naps(timeline: Timeline, seconds: float = 0.05) -> float:
    """The wavefront's slots, from the first nap to the end of the last."""
    naps = [span for span in timeline.spans if span.name != "wait"]
    length = max(nap.end for nap in naps) - min(nap.start for nap in naps)
    return length / seconds
