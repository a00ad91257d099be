"""Samples per second with one rank, two, four, … and all of them, in one table.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/ddp/speed_by_ranks.py
Look for: each rank has a batch of its own, so N ranks train N times as many samples at
          best. What is lost goes to messages that backward cannot hide, to waiting for
          a slow rank and, on a CPU, to sharing its cores.
Try:      --width 128: less computing for each byte that is sent, so a smaller gain. On
          GPUs, --width 4096 --batch 4096, or the GPUs mostly wait for Python.
"""

import os
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential
from torch.nn.parallel import DistributedDataParallel

from parallel_by_hand.ddp.step_speed import seconds_in_turn, take_step
from sidebyside import at_least, device, program_parser, run_program, run_ranks

STEPS = 4  # between two looks at the clock


def step_of(width: int, batch: int, ranks: int) -> Callable:
    """Runs in each rank: a step of training in the first `ranks` of them."""
    group = dist.new_group(range(ranks))  # called by all ranks, those outside too
    if dist.get_rank() >= ranks:
        return lambda: None
    layers = [layer for _ in range(4) for layer in (Linear(width, width), ReLU())]
    model = Sequential(*layers).to(device())
    replica = model
    if ranks > 1:
        replica = DistributedDataParallel(model, process_group=group)
    images = torch.rand(batch, width, device=device())
    labels = torch.randint(width, (batch,), device=device())
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    return partial(take_step, replica, sgd, images, labels)


def samples_per_second(width: int, batch: int) -> dict[int, float]:
    """Runs in each rank; 1, 2, 4, … and all ranks take turns."""
    ranks = dist.get_world_size()
    counts = sorted({2**n for n in range(ranks.bit_length())} | {ranks})
    steps = {count: step_of(width, batch, count) for count in counts}
    seconds = seconds_in_turn(steps, rounds=5, steps=STEPS)
    return {n: n * batch * STEPS / median(times) for n, times in seconds.items()}


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--ranks", type=at_least(1, 64), default=2, help="without torchrun; default: 2")
    add("--width", type=at_least(1, 16_384), default=512, help="of 4 layers")
    add("--batch", type=at_least(1, 16_384), default=256, help="of each rank")
    args = parser.parse_args()
    work = samples_per_second, args.width, args.batch
    speeds = run_ranks(*work, world_size=args.ranks, timeout=300)[0]
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank is here
        print("ranks   samples/s    times one   of N times")
        for ranks, speed in speeds.items():
            gain = speed / speeds[1]
            share = 100 * gain / ranks
            print(f"{ranks:5} {speed:11,.0f} {gain:10.2f} × {share:9.0f} %")


if __name__ == "__main__":
    run_program(main)
