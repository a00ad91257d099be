"""Wrong answers to the exercises of lesson 11a, as people give them."""

import copy
import pickle

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong

# 11a-shard ----------------------------------------------------------------------------


def _deck(samples, seed):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed))


@wrong(
    "11a-shard",
    advice="do all ranks shuffle the same deck",
    note="The rank got into the seed: some samples come twice, some never.",
)
def shard_own_deck(samples, rank, world_size, epoch):
    return _deck(samples, 1000 * epoch + rank)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="does not divide the number of samples",
    note="Rounding down loses up to world_size - 1 samples.",
)
def shard_without_the_remainder(samples, rank, world_size, epoch):
    size = samples // world_size
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


@wrong(
    "11a-shard",
    advice="no two ranks differ by more than one",
    note="Rounding up. Of 14 samples, the last of 4 ranks gets two fewer "
    "than the others.",
)
def shard_rounded_up(samples, rank, world_size, epoch):
    size = -(-samples // world_size)
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


@wrong(
    "11a-shard",
    advice="more than once",
    note="torch's DistributedSampler does this, so that all shards are equally "
    "long. Worth a word: it is a decision, not a law.",
)
def shard_padded(samples, rank, world_size, epoch):
    deck = _deck(samples, epoch).tolist()
    deck += deck[: -samples % world_size]
    return deck[rank::world_size]


@wrong(
    "11a-shard",
    advice="set_epoch",
    note="The same as a training loop without set_epoch. Nothing crashes.",
)
def shard_without_epoch(samples, rank, world_size, epoch):
    return _deck(samples, 0)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="what is shuffled first and dealt afterwards",
    note="Each rank sees the same half for ever, in changing order.",
)
def shard_dealt_first(samples, rank, world_size, epoch):
    mine = torch.arange(samples)[rank::world_size]
    return mine[_deck(len(mine), epoch)].tolist()


@wrong(
    "11a-shard",
    advice="where the randomness comes from",
    note="Works in one process, where one generator is shared.",
)
def shard_without_a_seed(samples, rank, world_size, epoch):
    return torch.randperm(samples)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="what differs from process to process",
    note="Equal in one process. The hash of a text differs in the next.",
)
def shard_by_hash(samples, rank, world_size, epoch):
    return _deck(samples, hash(f"epoch {epoch}"))[rank::world_size].tolist()


@right("11a-shard")
def shard_in_blocks(samples, rank, world_size, epoch):
    order = np.random.default_rng(7919 * epoch).permutation(samples)
    return np.array_split(order, world_size)[rank]  # NumPy's whole numbers


@right("11a-shard")
def shard_seeded_for_all(samples, rank, world_size, epoch):
    torch.manual_seed(epoch + 1)
    return torch.randperm(samples).tensor_split(world_size)[-1 - rank]


# 11a-replicas -------------------------------------------------------------------------


def _copies(model, shards) -> list:
    return [copy.deepcopy(model) for _ in shards]


def _backward(replicas, shards, weights=None) -> list:
    """Each replica on its shard, times its weight; the gradients, added up."""
    for place, (replica, (images, labels)) in enumerate(
        zip(replicas, shards, strict=True)
    ):
        loss = F.cross_entropy(replica(images), labels)
        (loss * (weights[place] if weights else 1)).backward()
    same = zip(*(replica.parameters() for replica in replicas), strict=True)
    return [sum(parameter.grad for parameter in ones) for ones in same]


def _shares(shards) -> list[float]:
    total = sum(len(labels) for _, labels in shards)
    return [len(labels) / total for _, labels in shards]


def _step(replicas, gradients, lr):
    for replica in replicas:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            parameter.data -= lr * gradient
            parameter.grad = None
    return replicas


@wrong(
    "11a-replicas",
    advice="where the numbers of each replica live",
    note="`[model] * n` is one model: it takes every step, n times in all.",
)
def replicas_one_storage(model, shards, lr):
    replicas = [copy.deepcopy(model)] * len(shards)
    return _step(replicas, _backward(replicas[:1], shards[:1]), lr)


@wrong(
    "11a-replicas",
    advice="which models are to take the step",
    note="The replicas are right, and the model has been trained behind their back.",
)
def replicas_copied_afterwards(model, shards, lr):
    batch = tuple(torch.cat(parts) for parts in zip(*shards, strict=True))
    _step([model], _backward([model], [batch]), lr)
    return _copies(model, shards)


@wrong(
    "11a-replicas",
    advice="the sum of the replicas' gradients and their mean",
    note="With SGD the step is n times too long. Adam hides it: 1.9e-2 "
    "apart under SGD was 1.3e-4 under AdamW.",
)
def replicas_sum(model, shards, lr):
    replicas = _copies(model, shards)
    return _step(replicas, _backward(replicas, shards), lr)


@wrong(
    "11a-replicas",
    advice="mean of means is not the mean",
    note="Right as long as all shards are equally long.",
)
def replicas_mean_of_means(model, shards, lr):
    replicas = _copies(model, shards)
    return _step(replicas, _backward(replicas, shards), lr / len(shards))


@wrong(
    "11a-replicas",
    advice="before it takes its step",
    note="After one step there are n different models.",
)
def replicas_each_its_own_step(model, shards, lr):
    replicas = _copies(model, shards)
    for replica, shard in zip(replicas, shards, strict=True):
        _step([replica], _backward([replica], [shard]), lr)
    return replicas


@wrong(
    "11a-replicas",
    advice="its own shard only",
    note="The right step, and nothing has been shared out.",
)
def replicas_all_on_the_whole_batch(model, shards, lr):
    batch = tuple(torch.cat(parts) for parts in zip(*shards, strict=True))
    replicas = _copies(model, shards)
    return _step(replicas, _backward(replicas[:1], [batch]), lr)


@wrong(
    "11a-replicas",
    advice="whose backward that was",
    note="The replicas are copies that never compute; the model runs every shard "
    "itself.",
)
def replicas_gradients_on_the_given(model, shards, lr):
    _backward([model] * len(shards), shards, _shares(shards))
    gradients = [parameter.grad for parameter in model.parameters()]
    return _step(_copies(model, shards), gradients, lr)


@wrong(
    "11a-replicas",
    advice="differs from the single process's",
    note="The step goes through the layers that have a `weight` and a `bias`; a "
    "parameter that belongs to no such layer stays.",
)
def replicas_of_linear_layers(model, shards, lr):
    replicas = _copies(model, shards)
    gradients = _backward(replicas, shards, _shares(shards))
    linear = {
        f"{name}.{kind}"
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
        for kind in ("weight", "bias")
    }
    for place, (name, _) in enumerate(model.named_parameters()):
        if name not in linear:
            gradients[place] = torch.zeros_like(gradients[place])
    return _step(replicas, gradients, lr)


@right("11a-replicas")
def replicas_with_optimizers(model, shards, lr):
    replicas = [pickle.loads(pickle.dumps(model)) for _ in shards]
    gradients = _backward(replicas, shards, _shares(shards))
    for replica in replicas:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        torch.optim.SGD(replica.parameters(), lr=lr).step()
    return tuple(replicas)


@right("11a-replicas")
def replicas_copied_from_the_first(model, shards, lr):
    replicas = _copies(model, shards)
    _step(replicas[:1], _backward(replicas, shards, _shares(shards)), lr)
    for replica in replicas[1:]:
        replica.load_state_dict(replicas[0].state_dict())
    return replicas
