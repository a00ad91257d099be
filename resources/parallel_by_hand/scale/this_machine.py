"""Real steps of two ranks on this machine, to hold the simulator to.

The model is a stack of the transformer blocks of lessons 14 to 17, without vocabulary.
All messages are the course's own, so that a meter counts them and a link can be slow.
"""

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.collectives.paced_link import paced_link
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale.training_plan import Model, Strategy
from parallel_by_hand.sharding.ledger import SINGLE
from parallel_by_hand.sharding.measured_ledger import BUILT, adam
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.split_block import ENDS, split_block
from sidebyside import MessageMeter, device


def strategies_of_two(batch: int, micro_batches: int = 4) -> dict[str, Strategy]:
    """For this machine: how two ranks can share a batch; float32 and Adam."""
    half, part = batch // 2, batch // micro_batches
    return {
        "data": Strategy(data=2, micro_batch=half, state=SINGLE),
        "ZeRO-1": Strategy(data=2, shard_stage=1, micro_batch=half, state=SINGLE),
        "ZeRO-2": Strategy(data=2, shard_stage=2, micro_batch=half, state=SINGLE),
        "tensor": Strategy(tensor=2, micro_batch=batch, state=SINGLE),
        "pipeline": Strategy(pipeline=2, micro_batch=part, state=SINGLE),
    }


class MeasuredStep(NamedTuple):
    """Of a rank of this machine: seconds of each round, messages and bytes of one, and
    the bytes of this rank's parameters."""

    seconds: list[float]
    messages: int
    sent: int
    parameters: int


def _make_stack(model: Model) -> nn.Sequential:
    """`model.layers` blocks, the same in every process."""
    blocks = [
        make_transformer_block(model.hidden, model.heads) for _ in range(model.layers)
    ]
    return nn.Sequential(*blocks).to(device())


def _prepare_step(
    model: Model, strategy: Strategy, batch: int
) -> tuple[nn.Module, Callable[[], None]]:
    """What this rank trains, and a function that makes one step with the batch."""
    whole = _make_stack(model)
    shape = batch, model.sequence, model.hidden
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device())
    if strategy.pipeline > 1:
        return _prepare_pipeline(whole, strategy, x)
    if strategy.data > 1:
        return _prepare_data(whole, strategy, x)
    return _prepare_tensor(whole, x, split=strategy.tensor > 1)


def _prepare_data(
    whole: nn.Sequential, strategy: Strategy, x: Tensor
) -> tuple[nn.Module, Callable[[], None]]:
    mine = x.chunk(strategy.data)[dist.get_rank()]
    trained = BUILT[strategy.shards](whole, adam)

    def step() -> None:
        for part in mine.split(strategy.micro_batch):
            share = len(part) / len(mine)
            (whole(part).square().mean() * share).backward()
        trained.step()

    return whole, step


def _prepare_tensor(
    whole: nn.Sequential, x: Tensor, split: bool
) -> tuple[nn.Module, Callable[[], None]]:
    """Not `split`: this rank trains the whole model, and sends nothing."""
    mine = whole
    if split:
        blocks = [split_block(block, ENDS["tensor"]) for block in whole]
        mine = nn.Sequential(*blocks).to(device())
    optimizer = adam(mine.parameters())
    x.requires_grad_()  # as if an embedding stood before the first layer

    def step() -> None:
        with messages_of_ours():
            mine(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        x.grad = None

    return mine, step


def _prepare_pipeline(
    whole: nn.Sequential, strategy: Strategy, x: Tensor
) -> tuple[nn.Module, Callable[[], None]]:
    count = len(x) // strategy.micro_batch
    schedule = SCHEDULES_BY_NAME[strategy.schedule](strategy.pipeline, count)
    stages = split_into_stages(whole, schedule)
    pipeline = Pipeline(schedule, stages, lambda y, _: y.square().mean())
    mine = nn.ModuleList(stages.values())
    optimizer = adam(mine.parameters())

    def step() -> None:
        pipeline.step(x, x)
        optimizer.step()
        optimizer.zero_grad()

    return mine, step


def measure_step(
    model: Model,
    strategy: Strategy,
    batch: int,
    rounds: int = 5,
    pace: tuple[float, float] | None = None,
) -> MeasuredStep:
    """Runs in each rank of this machine: real steps, with `pace` over a slow link."""
    mine, step = _prepare_step(model, strategy, batch)
    step()  # memory is fetched, connections are made
    with MessageMeter() as meter:
        step()
    seconds = []
    with paced_link(*pace) if pace else nullcontext():
        for _ in range(rounds):
            dist.barrier()
            began = perf_counter()
            step()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds.append(perf_counter() - began)
    parameters = sum(p.nbytes for p in mine.parameters())
    return MeasuredStep(seconds, meter.messages_sent, meter.bytes_sent, parameters)


def time_rings(sizes: list[int], rounds: int = 8) -> dict[int, list[float]]:
    """Runs in each rank of this machine: seconds of rings of each size, in turn."""
    seconds = {size: [] for size in sizes}
    for turn in range(-1, rounds):  # the first is not counted
        for size in sizes:
            tensor = torch.zeros(size // 4, device=device())
            dist.barrier()
            began = perf_counter()
            ring_all_reduce(tensor)
            tensor[:1].sum().item()  # on a GPU: wait until it is there
            if turn >= 0:
                seconds[size].append(perf_counter() - began)
    return seconds
