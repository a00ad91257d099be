"""Time a training step of our split MLP block against torch's DTensor.

Run:      python tests/benchmarks/tensor_parallel_vs_dtensor.py
Look for: the last column, the median over all rounds of ours / DTensor. In each
          round both take the same steps, one after the other, in turn first.
Try:      --rounds 40 on a machine that others use too.
"""

import copy
from functools import partial

import torch
import torch.distributed as dist

from parallel_by_hand.ddp.step_speed import seconds_in_turn
from parallel_by_hand.tensor_parallel.mlp import MLPBlock, split_as_pair
from sidebyside import device, run_ranks
from tests.benchmarks.beside_torch import (
    parsed_arguments,
    print_ratio,
)

SIZES = [(64, 256), (512, 256), (1024, 256)]
"""Width h, samples."""


def time_ours_and_dtensor(width: int, samples: int, rounds: int, steps: int) -> dict:
    """Runs in each rank: seconds for the same steps of both, round after round."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    torch.manual_seed(0)
    block = MLPBlock(width).to(device())
    plan = {"wide": parallel.ColwiseParallel(), "narrow": parallel.RowwiseParallel()}
    mesh = init_device_mesh(device().type, (dist.get_world_size(),))
    theirs = parallel.parallelize_module(copy.deepcopy(block), mesh, plan)
    networks = {"ours": split_as_pair(block), "DTensor": theirs}
    x = torch.randn(samples, width, device=device(), requires_grad=True)

    def step(network: torch.nn.Module) -> torch.Tensor:
        network.zero_grad()
        x.grad = None
        network(x).square().mean().backward()
        return x.grad  # it comes with DTensor's last message

    kinds = {kind: partial(step, network) for kind, network in networks.items()}
    return seconds_in_turn(kinds, rounds, steps)


def main() -> None:
    args = parsed_arguments(__doc__)
    print(" width samples    DTensor       ours   ours / DTensor half lie in")
    for size in SIZES:
        timed = *size, args.rounds, args.steps
        found = run_ranks(
            time_ours_and_dtensor, *timed, world_size=args.ranks, timeout=600
        )
        print_ratio(size, found[0], args.steps)


if __name__ == "__main__":
    main()
