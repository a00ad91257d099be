"""Time a training step of our DistributedDataParallel against torch's.

Run:      python tests/benchmarks/ddp_step_time.py
Look for: the last column, the median over all rounds of ours / torch in that round. In
          each round both do the same steps, one after the other, in turn first.
Try:      --rounds 40 on a machine that others use too.
"""

from functools import partial

import torch
from torch import nn

from parallel_by_hand.ddp.ddp_beside_torch import time_in_turn
from sidebyside import device, run_ranks
from tests.benchmarks.beside_torch import parsed_arguments, print_ratio

NETWORKS = [(32, 1, 32), (256, 3, 64), (512, 3, 128), (1024, 3, 128)]
"""Width, hidden layers, images of each rank."""


def network(width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    modules, inputs = [], 64
    for _ in range(layers):
        modules += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(width, 10)).to(device())


def main() -> None:
    args = parsed_arguments(__doc__)
    print(" width layers images      torch       ours   ours / torch  half lie in")
    for width, layers, images in NETWORKS:
        timed = partial(network, width, layers), images, args.rounds, args.steps
        found = run_ranks(time_in_turn, *timed, world_size=args.ranks, timeout=600)
        print_ratio((width, layers, images), found[0], args.steps)


if __name__ == "__main__":
    main()
