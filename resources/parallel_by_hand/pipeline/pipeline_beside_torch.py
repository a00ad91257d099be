"""The same schedules with torch.distributed.pipelining and with ours, in turn."""

from time import perf_counter

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.model_parallel.split_by_torch import import_pipelining
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedules import gpipe, one_f_one_b
from sidebyside import device

SCHEDULES_OF_BOTH = [gpipe, one_f_one_b]


def _make_layers(width: int, layers: int = 8) -> nn.Sequential:
    """Layers of one size, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers))
    )


def _torchs_pipeline(make, module: nn.Module, microbatches: int, loss):
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
    """Runs in each rank: losses and seconds of `rounds` steps, ours and torch's."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    schedule, loss = make(ranks, microbatches), nn.functional.mse_loss
    stages = [
        split_into_stages(_make_layers(width), schedule)[rank].to(device())
        for _ in range(2)
    ]
    ours = Pipeline(schedule, {rank: stages[0]}, loss)
    torchs = _torchs_pipeline(make, stages[1], microbatches, loss)

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
