"""The wrappers: each changes a training along one dimension of the mesh."""

from collections.abc import Callable

import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.capstone.language_model import text_loss
from parallel_by_hand.capstone.split_language_model import (
    context_language_model,
    loss_of_own_positions,
    split_language_model,
    sum_of_position_gradients,
)
from parallel_by_hand.context_parallel.chunks import own_chunks, zig_zag
from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    replica_places,
)
from parallel_by_hand.ddp.ddp_from_scratch import DistributedDataParallel
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedules import Schedule
from parallel_by_hand.sharding.fsdp_beside_ours import shard_by_torch
from parallel_by_hand.sharding.shard_links import RingLink
from parallel_by_hand.sharding.zero_3 import ZeRO3


def accumulation(parts: int) -> Callable:
    """A wrapper: the batch in several parts, then one update (lesson 8)."""

    def wrap(training, mesh) -> None:
        whole = training.backward

        def backward(inputs: Tensor, targets: Tensor) -> float:
            losses = []
            for part, goal in zip(
                inputs.chunk(parts), targets.chunk(parts), strict=True
            ):
                losses.append(whole(part, goal))
            for p in training.model.parameters():
                p.grad /= parts
            return sum(losses) / parts

        training.backward = backward

    return wrap


def train_in_threads(replicas: int) -> Callable:
    """A wrapper: replicas in threads, which take the whole step (lesson 9)."""

    def wrap(training, mesh) -> None:
        crew = ThreadedReplicas(training.model, replica_places(replicas))
        training.optimizer = crew.sgd = training.make_optimizer(
            list(training.model.parameters())
        )
        training.backward = lambda x, y: crew.step(x, y.flatten())
        training.update = lambda: None

    return wrap


def deal_rows(training, mesh) -> None:
    """What wrappers of data parallel do: each rank takes its rows of the batch."""
    rank, ranks, deal = mesh.get_local_rank(), mesh.size(), training.deal

    def deal_own(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = deal(inputs, targets)
        return inputs.chunk(ranks)[rank], targets.chunk(ranks)[rank]

    training.deal = deal_own


def deal_positions(training, mesh) -> None:
    """What the wrapper of context parallel does: each of all ranks takes its positions
    of every excerpt, and gathers the keys and values of the others (lesson 16c)."""
    training.model = context_language_model(training.model)
    training.deal = lambda *batch: tuple(own_chunks(x, zig_zag, 1) for x in batch)


def ddp_ours(training, mesh) -> None:
    """A wrapper: gradients travel in buckets, while backward goes on (lesson 11b)."""
    deal_rows(training, mesh)
    replica = DistributedDataParallel(training.model, group=mesh.get_group())
    training.backward = lambda x, y: _mean_loss_backward(replica, x, y)


def ddp_of_torch(training, mesh) -> None:
    """A wrapper: the library's DDP, whose messages no meter sees."""
    deal_rows(training, mesh)
    replica = nn.parallel.DistributedDataParallel(
        training.model, process_group=mesh.get_group()
    )
    training.backward = lambda x, y: _mean_loss_backward(replica, x, y)


def _mean_loss_backward(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    loss = text_loss(model(inputs), targets)
    loss.backward()
    return loss.item()


def sharded_state(state_of: Callable, deal: Callable = deal_rows) -> Callable:
    """A wrapper: gradients are summed and shards updated after backward (lesson 17a).

    `state_of(model, make_optimizer, group=group)` is one of `ReplicatedState`, `ZeRO1`,
    `ZeRO2`. It needs nothing of the backward inside it: so it goes round tensor and
    pipeline parallel, too. `deal` is `deal_rows` or `deal_positions`.
    """

    def wrap(training, mesh) -> None:
        deal(training, mesh)
        state = state_of(
            training.model, training.make_optimizer, group=mesh.get_group()
        )
        training.optimizer, training.shards = state.optimizer, state.gradients
        training.update = state.step

    return wrap


def shard_parameters(training, mesh) -> None:
    """A wrapper: parameters in shards, borrowed layer by layer (lesson 17b)."""
    deal_rows(training, mesh)
    group = mesh.get_group()
    state = ZeRO3(training.model, training.make_optimizer, RingLink(group), group)
    training.optimizer, training.shards = state.optimizer, state.gradients
    training.units, training.update = state.units, state.step
    training.held = lambda: [unit.kept for unit in state.units]
    training.complete = state.finish_gradients


def replicate_shards(training, mesh) -> None:
    """A wrapper: copies of all shards, which average their gradients (lesson 17b)."""
    deal_rows(training, mesh)
    complete = training.complete

    def average() -> None:
        complete()
        for shard in training.shards:
            shard /= mesh.size()
            dist.all_reduce(shard, group=mesh.get_group())

    training.complete = average


def fsdp2(training, mesh) -> None:
    """A wrapper: the library's ZeRO-3, whose messages no meter sees."""
    deal_rows(training, mesh)
    training.model = shard_by_torch(training.model, mesh)


def tensor_parallel(training, mesh) -> None:
    """A wrapper: each rank has its heads and neurons, all positions (lesson 16)."""
    training.model = split_language_model(training.model, "tensor", mesh.get_group())


def sequence_parallel(training, mesh) -> None:
    """A wrapper: between the pairs, a rank has its own positions only (lesson 16b)."""
    group = mesh.get_group()
    training.model = split_language_model(training.model, "sequence", group)

    def backward(inputs: Tensor, targets: Tensor) -> float:
        loss = loss_of_own_positions(training.model, inputs, targets, group)
        loss.backward()
        return loss.item() * dist.get_world_size(group)

    training.backward = backward
    training.complete = lambda: sum_of_position_gradients(training.model, group)


def pipeline_parallel(
    schedule_of: Callable[[int, int], Schedule], microbatches: int = 4
) -> Callable:
    """A wrapper: consecutive layers on each rank, by a schedule (lesson 15)."""

    def wrap(training, mesh) -> None:
        group, schedule = mesh.get_group(), schedule_of(mesh.size(), microbatches)
        stages = split_into_stages(training.model, schedule, group=group)
        pipeline = Pipeline(schedule, stages, text_loss, group=group)
        training.model = nn.Sequential(*stages.values())
        training.backward = pipeline.step

    return wrap
