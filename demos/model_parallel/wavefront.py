"""Let time steps flow through a recurrent network with one layer on each rank.

Run:      python demos/model_parallel/wavefront.py
Look for: layer after layer, 2 sleeping layers take 2 T slots for T time steps; step by
          step they take T + 1. Real layers learn what the unsplit network learns. A
          narrow one is faster alone; with wide ones and two free cores, two ranks gain.
Try:      --layers 4: T + 3 slots instead of 4 T.
          --chunk 4: fewer messages, and a longer way until the last layer begins.
"""

import argparse
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from demos.model_parallel.parts.wavefront_flow import (
    flow_through_layers,
    rehearse_wavefront,
    slots_of_naps,
)
from sidebyside import MessageMeter, at_least, between, device, load_digits, run_ranks
from sidebyside.programs import run_program

PIXELS = 64  # a digit is read in 8 time steps of 8 pixels, or in 64 of one


class WavefrontNotes(NamedTuple):
    """What one rank reports: its parameters after each step, bytes sent in a step."""

    history: list[list[Tensor]]
    sent: int
    messages: int


def make_recurrent_network(
    layers: int, width: int, pixels: int = 8
) -> tuple[nn.LSTM, nn.Linear]:
    """LSTM layers that read so many pixels at a time, and a head; always the same."""
    torch.manual_seed(0)
    return nn.LSTM(pixels, width, layers), nn.Linear(width, 10)


def layer_of_rank(whole: nn.LSTM, layer: int) -> nn.LSTM:
    """Layer number `layer` of a recurrent network, as a network of its own."""
    entering = whole.input_size if layer == 0 else whole.hidden_size
    alone = nn.LSTM(entering, whole.hidden_size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        source = getattr(whole, f"{name}_l{layer}")
        getattr(alone, f"{name}_l0").data.copy_(source.data)
    return alone


def digits_in_time(step: int, batch: int, times: int = 8) -> tuple[Tensor, Tensor]:
    """(time steps, batch, pixels) of some digits, and their labels."""
    images, labels = load_digits("train")
    mine = torch.arange(step * batch, (step + 1) * batch) % len(images)
    pixels = images[mine].view(-1, times, PIXELS // times).transpose(0, 1)
    return pixels.to(device()), labels[mine].to(device())


def train_layer_of_rank(
    chunk: int, width: int = 64, steps: int = 10, batch: int = 64
) -> WavefrontNotes:
    """Runs in each rank: train one LSTM layer; the last rank has the head as well."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    whole, head = make_recurrent_network(last + 1, width)
    layer, head = layer_of_rank(whole, rank).to(device()), head.to(device())
    mine = [*layer.parameters(), *(head.parameters() if rank == last else ())]
    sgd, history = torch.optim.SGD(mine, lr=2.0), []
    with MessageMeter() as meter:
        for step in range(steps):
            rows, labels = digits_in_time(step, batch)
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
    """Torch's own network in one process: its parameters after each step."""
    whole, head = (part.to(device()) for part in make_recurrent_network(layers, width))
    mine = [*whole.parameters(), *head.parameters()]
    sgd, history = torch.optim.SGD(mine, lr=2.0), []
    for step in range(steps):
        rows, labels = digits_in_time(step, batch)
        sgd.zero_grad()
        F.cross_entropy(head(whole(rows)[0][-1]), labels).backward()
        sgd.step()
        history.append([p.detach().cpu().clone() for p in mine])
    return history


def gap_of_flow(ranks: list[WavefrontNotes], whole: list[list[Tensor]]) -> float:
    """The largest difference of any parameter after any step."""
    gaps = [
        (a - b).abs().max()
        for step, theirs in enumerate(whole)
        for a, b in zip(
            [p for rank in ranks for p in rank.history[step]], theirs, strict=True
        )
    ]
    return torch.stack(gaps).max().item()


def time_flow_and_alone(
    width: int, chunks: list[int], times: int = 8, rounds: int = 3, batch: int = 64
) -> dict[str, float]:
    """Runs in each rank: median seconds of forward and backward, in turn.

    `alone` is torch's own network on rank 0 while the others wait. The slowest rank's
    time counts.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, _ = (
        part.to(device())
        for part in make_recurrent_network(ranks, width, PIXELS // times)
    )
    layer, rows = (
        layer_of_rank(whole, rank).to(device()),
        digits_in_time(0, batch, times)[0],
    )

    def alone() -> None:
        if rank == 0:
            whole(rows)[0].sum().backward()

    def flow(chunk: int) -> None:
        leaving = flow_through_layers(layer, rows, chunk, width)
        torch.cat([piece.flatten() for piece in leaving]).sum().backward()

    seconds: dict = {"alone": [], **{chunk: [] for chunk in chunks}}
    for turn in range(-1, rounds):  # the first is not counted
        for way, times in seconds.items():
            dist.barrier()
            began = perf_counter()
            alone() if way == "alone" else flow(way)
            if rows.is_cuda:
                torch.cuda.synchronize()
            took = torch.tensor(perf_counter() - began, device=device())
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if turn >= 0:
                times.append(took.item())
    return {str(way): median(times) for way, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--layers", type=at_least(1, 6), default=2, help="and ranks; default: 2")
    add("--steps", type=at_least(1, 20), default=8, help="of the naps; default: 8")
    add("--chunk", type=at_least(1, 20), default=1, help="time steps in a message")
    add("--seconds", type=between(0.01, 0.2), default=0.05, help="of a nap")
    args = parser.parse_args()
    layers, steps = args.layers, args.steps
    for name, chunk in (
        ("layer after layer", steps),
        (f"chunk {args.chunk}", args.chunk),
    ):
        chunk = min(chunk, steps)
        timeline = rehearse_wavefront(layers, steps, chunk, args.seconds)
        slots = slots_of_naps(timeline, args.seconds)
        planned = steps + chunk * (layers - 1)
        print(f"{name}: {planned} slots planned, {slots:.1f} slept")
        print(timeline.text(), flush=True)

    chunk = min(args.chunk, 8)
    notes = run_ranks(train_layer_of_rank, chunk, world_size=layers)
    gap = gap_of_flow(notes, train_unsplit_layers(layers))
    print(f"trained on digits: after each of 10 steps within {gap:.0e} of one process")
    sent = f"{notes[0].sent:,} bytes in {notes[0].messages} messages"
    print(f"in each step rank 0 sends {sent}")
    print("time of a step with sequences of 64, alone and with chunks of 64, 8 and 1:")
    for width in (16, 128):
        ranks = run_ranks(
            time_flow_and_alone, width, [64, 8, 1], 64, 2, world_size=layers
        )
        times = ", ".join(f"{1e3 * took:.0f} ms" for took in ranks[0].values())
        print(f"width {width:3}: {times}")


if __name__ == "__main__":
    run_program(main)
