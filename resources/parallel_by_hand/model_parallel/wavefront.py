"""Time steps that flow through a recurrent network, one layer on each rank."""

from itertools import chain
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.cut_training import largest_gap
from parallel_by_hand.model_parallel.wavefront_flow import flow_through_layers
from sidebyside import MessageMeter, device, load_digits

PIXELS = 64  # a digit is read in 8 time steps of 8 pixels, or in 64 of one


class WavefrontNotes(NamedTuple):
    """What one rank reports: its parameters after each step, bytes sent in a step."""

    history: list[list[Tensor]]
    sent: int
    messages: int


def _make_recurrent_network(
    layers: int, width: int, pixels: int = 8
) -> tuple[nn.LSTM, nn.Linear]:
    """LSTM layers that read so many pixels at a time, and a head; always the same."""
    torch.manual_seed(0)
    return nn.LSTM(pixels, width, layers), nn.Linear(width, 10)


def layer_of_rank(whole: nn.LSTM, layer: int) -> nn.LSTM:
    """For the wavefront: layer number `layer` of a recurrent network, by itself."""
    entering = whole.input_size if layer == 0 else whole.hidden_size
    alone = nn.LSTM(entering, whole.hidden_size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        source = getattr(whole, f"{name}_l{layer}")
        getattr(alone, f"{name}_l0").data.copy_(source.data)
    return alone


def _digits_in_time(step: int, batch: int, times: int = 8) -> tuple[Tensor, Tensor]:
    """(time steps, batch, pixels) of some digits, and their labels."""
    images, labels = load_digits("train")
    mine = torch.arange(step * batch, (step + 1) * batch) % len(images)
    pixels = images[mine].view(-1, times, PIXELS // times).transpose(0, 1)
    return pixels.to(device()), labels[mine].to(device())


def train_layer_of_rank(
    chunk: int, width: int = 64, steps: int = 10, batch: int = 64
) -> WavefrontNotes:
    """Runs in each rank: the wavefront trains its LSTM layer; the last has the head."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    whole, head = _make_recurrent_network(last + 1, width)
    layer, head = layer_of_rank(whole, rank).to(device()), head.to(device())
    mine = [*layer.parameters(), *(head.parameters() if rank == last else ())]
    sgd, history = torch.optim.SGD(mine, lr=2.0), []
    with MessageMeter() as meter:
        for step in range(steps):
            rows, labels = _digits_in_time(step, batch)
            sgd.zero_grad()
            leaving = flow_through_layers(layer, rows, chunk, width)
            if rank < last:
                loss = torch.stack(leaving).sum()  # zeros to call backward on
            else:
                loss = F.cross_entropy(head(leaving[-1][-1]), labels)
            loss.backward()
            sgd.step()
            history.append([p.detach().cpu().clone() for p in mine])
    return WavefrontNotes(
        history, meter.bytes_sent // steps, meter.messages_sent // steps
    )


def train_unsplit_layers(
    layers: int, width: int = 64, steps: int = 10, batch: int = 64
) -> list[list[Tensor]]:
    """Without a wavefront: torch's network in one process, parameters of each step."""
    whole, head = (part.to(device()) for part in _make_recurrent_network(layers, width))
    mine = [*whole.parameters(), *head.parameters()]
    sgd, history = torch.optim.SGD(mine, lr=2.0), []
    for step in range(steps):
        rows, labels = _digits_in_time(step, batch)
        sgd.zero_grad()
        F.cross_entropy(head(whole(rows)[0][-1]), labels).backward()
        sgd.step()
        history.append([p.detach().cpu().clone() for p in mine])
    return history


def gap_of_flow(ranks: list[WavefrontNotes], whole: list[list[Tensor]]) -> float:
    """Of the wavefront: the largest difference of any parameter after any step."""
    steps = zip(*(rank.history for rank in ranks), strict=True)
    return largest_gap([list(chain(*of_ranks)) for of_ranks in steps], whole)


def time_flow_and_alone(
    width: int, chunks: list[int], times: int = 8, rounds: int = 3, batch: int = 64
) -> dict[str, float]:
    """Runs in each rank: median seconds of the wavefront and of one process."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, _ = _make_recurrent_network(ranks, width, PIXELS // times)
    whole.to(device())
    layer, rows = (
        layer_of_rank(whole, rank).to(device()),
        _digits_in_time(0, batch, times)[0],
    )

    def alone() -> None:
        if rank == 0:
            whole(rows)[0].sum().backward()

    def flow(chunk: int) -> None:
        leaving = flow_through_layers(layer, rows, chunk, width)
        torch.cat([piece.flatten() for piece in leaving]).sum().backward()

    seconds: dict = {"alone": [], **{chunk: [] for chunk in chunks}}
    for turn in range(-1, rounds):  # the first is not counted
        for way, measured in seconds.items():
            dist.barrier()
            began = perf_counter()
            alone() if way == "alone" else flow(way)
            if rows.is_cuda:
                torch.cuda.synchronize()
            took = torch.tensor(perf_counter() - began, device=device())
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if turn >= 0:
                measured.append(took.item())
    return {str(way): median(times) for way, times in seconds.items()}
