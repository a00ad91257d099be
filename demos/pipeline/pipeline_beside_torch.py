"""Run the same schedules with torch.distributed.pipelining and with ours, in turn.

Run:      python demos/pipeline/pipeline_beside_torch.py --microbatches 8
Look for: both train the same two stages, and their losses agree to within rounding. The
          ratio is ours over torch's: near 1 the two executors cost about the same.
Try:      --rounds 30. The ratio moves less.
"""

import argparse
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
from torch import nn

from demos.model_parallel.parts.split_by_torch import import_pipelining
from demos.pipeline.parts.pipeline_stages import Pipeline, split_into_stages
from demos.pipeline.parts.schedules import gpipe, one_f_one_b
from sidebyside import at_least, device, run_ranks
from sidebyside.programs import run_program

SCHEDULES_OF_BOTH = [gpipe, one_f_one_b]


def make_layers_beside_torch(width: int, layers: int = 8) -> nn.Sequential:
    """Layers of one size, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers))
    )


def torchs_pipeline(make, module: nn.Module, microbatches: int, loss):
    """torch's executor for this rank's stage, with torch's schedule like `make`'s."""
    pipelining = import_pipelining()
    stage = pipelining.PipelineStage(
        module, dist.get_rank(), dist.get_world_size(), device()
    )
    kinds = {gpipe: pipelining.ScheduleGPipe, one_f_one_b: pipelining.Schedule1F1B}
    return kinds[make](stage, n_microbatches=microbatches, loss_fn=loss)


def both_pipelines_in_turn(
    make, microbatches: int, batch: int = 512, width: int = 512, rounds: int = 9
) -> dict[str, list]:
    """Runs in each rank: losses and seconds of `rounds` steps, ours and torch's.

    Both start from the same weights, see the same batches and take a step of SGD each
    time; the order changes from round to round. Losses are None but on the last rank.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    schedule, loss = make(ranks, microbatches), nn.functional.mse_loss
    stages = [
        split_into_stages(make_layers_beside_torch(width), schedule)[rank].to(device())
        for _ in range(2)
    ]
    ours = Pipeline(schedule, {rank: stages[0]}, loss)
    torchs = torchs_pipeline(make, stages[1], microbatches, loss)

    def step_torch(inputs, targets) -> float | None:
        inputs, losses = (inputs.to(device()),) if rank == 0 else (), []
        targets = targets.to(device()) if rank == ranks - 1 else None
        torchs.step(*inputs, target=targets, losses=losses)
        return torch.stack(losses).mean().item() if losses else None

    steps = {"ours": ours.step, "torch": step_torch}
    optimizers = [torch.optim.SGD(stage.parameters(), lr=0.1) for stage in stages]
    found = {"ours": [], "torch": [], "ours seconds": [], "torch seconds": []}
    generator = torch.Generator().manual_seed(1)
    for number in range(rounds + 1):  # the first round makes connections
        inputs, targets = torch.randn(2, batch, width, generator=generator)
        for name in list(steps)[:: 1 if number % 2 else -1]:
            dist.barrier()
            start = perf_counter()
            value = steps[name](inputs, targets)
            dist.barrier()
            if number > 0:
                found[f"{name} seconds"].append(perf_counter() - start)
            found[name].append(value)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--microbatches", type=at_least(2, 64), default=4, help="default: 4")
    add("--rounds", type=at_least(1, 100), default=5, help="default: 5")
    args = parser.parse_args()
    sizes = args.microbatches, 8 * args.microbatches, 128, args.rounds
    print(f"{'schedule':<12} {'ours':>9} {'torch':>9} {'ratio':>7}  losses differ by")
    for make in SCHEDULES_OF_BOTH:
        last = run_ranks(both_pipelines_in_turn, make, *sizes, world_size=2)[-1]
        ours, torchs = (1e3 * median(last[f"{w} seconds"]) for w in ("ours", "torch"))
        losses = torch.tensor([last["ours"], last["torch"]], dtype=torch.float64)
        gap = losses.diff(dim=0).abs().max().item()
        print(
            f"{make.__name__:<12} {ours:6.2f} ms {torchs:6.2f} ms"
            f" {ours / torchs:5.2f} ×  {gap:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    run_program(main)
