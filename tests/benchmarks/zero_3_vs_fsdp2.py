"""Time a training step of our ZeRO-3 against torch's FSDP2.

Run:      python tests/benchmarks/zero_3_vs_fsdp2.py
Look for: the last column, the median over all rounds of ours / FSDP2. In each round
          both take the same steps, one after the other, in turn first. Both call two
          all-gathers and a reduce-scatter for each unit; ours prefetches.
Try:      --rounds 40 on a machine that others use too.
"""

from functools import partial

import torch

from parallel_by_hand.ddp.step_speed import seconds_in_turn
from parallel_by_hand.sharding.fsdp_beside_ours import (
    make_wide_stack,
    sgd_beside_fsdp2,
    shard_by_torch,
)
from parallel_by_hand.sharding.zero_3 import TunedZeRO3
from sidebyside import device, run_ranks
from tests.benchmarks.beside_torch import (
    parsed_arguments,
    print_ratio,
)

SIZES = [(64, 256), (512, 256)]
"""Width h, samples of each rank."""


def time_ours_and_fsdp2(width: int, samples: int, rounds: int, steps: int) -> dict:
    """Runs in each rank: seconds for the same steps of both, round after round."""
    ours, theirs = make_wide_stack(width), shard_by_torch(make_wide_stack(width))
    trained = {
        "ours": (ours, TunedZeRO3(ours, sgd_beside_fsdp2, prefetch=True)),
        "FSDP2": (theirs, sgd_beside_fsdp2(theirs.parameters())),
    }
    x = torch.randn(samples, width, device=device())

    def step(network: torch.nn.Module, stepper) -> torch.Tensor:
        network.zero_grad()
        loss = (network(x) - x).square().mean()
        loss.backward()
        stepper.step()
        return loss

    kinds = {kind: partial(step, *both) for kind, both in trained.items()}
    return seconds_in_turn(kinds, rounds, steps)


def main() -> None:
    args = parsed_arguments(__doc__, steps=5)
    print(" width samples      FSDP2       ours   ours / FSDP2  half lie in")
    for size in SIZES:
        timed = *size, args.rounds, args.steps
        found = run_ranks(
            time_ours_and_fsdp2, *timed, world_size=args.ranks, timeout=600
        )
        print_ratio(size, found[0], args.steps)


if __name__ == "__main__":
    main()
