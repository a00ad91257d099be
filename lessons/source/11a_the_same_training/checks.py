"""The checks of lesson 11a: shards, and a step of several replicas."""

import copy
import operator
import pickle
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise

import torch
from torch import nn
from torch.nn import functional as F

from sidebyside import device, load_digits, run_ranks
from sidebyside.exercises.check import exercise, trying
from sidebyside.ranks.by_value import packed_answer

# 11a-shard ----------------------------------------------------------------------------

DECKS = [(6, 1), (12, 3), (13, 2), (14, 4), (2, 3), (29, 8), (1415, 5), (1415, 2)]
EPOCHS = 0, 1, 2, 7


@exercise("11a-shard", seconds=60)
def check_11a_shard(shard):
    sent = packed_answer(shard)  # before the first call: it remembers none
    for samples, world_size in DECKS:
        for epoch in EPOCHS:
            _expect_shards_dealt(shard, samples, world_size, epoch)
    _expect_shards_shuffled(shard)
    _expect_same_shard_elsewhere(shard, sent)


def _own_shard(shard: Callable, *call: int) -> list[int]:
    """What a rank gets, in plain whole numbers."""
    think = "what is to be returned: a list of indices, which are whole numbers"
    with trying(f"shard{call}", think=think):
        return [operator.index(sample) for sample in shard(*call)]


def _expect_shards_dealt(shard, samples: int, world_size: int, epoch: int) -> None:
    hands, again = (
        [_own_shard(shard, samples, r, world_size, epoch) for r in range(world_size)]
        for _ in range(2)
    )
    dealt = Counter(sample for hand in hands for sample in hand)
    with trying(f"shard({samples}, rank, {world_size}, {epoch}), each rank") as expect:
        expect(
            again == hands,
            got="two different answers to the same calls",
            think="where the randomness comes from. Ranks cannot talk here: equal "
            "arguments have to give equal decks",
        )
        twice = sorted(sample for sample in dealt if dealt[sample] > 1)
        expect(
            not twice,
            got=f"dealt more than once: {twice[:10]}",
            think="whether every sample is dealt exactly once: do all ranks shuffle "
            "the same deck, does each take other cards of it, and must all get equally "
            "many?",
        )
        missing = sorted(set(range(samples)) - set(dealt))
        expect(
            not missing,
            got=f"{len(dealt)} samples, without {missing[:10]}",
            think="whether every sample is dealt exactly once, also when the number of "
            "ranks does not divide the number of samples",
        )
        strangers = sorted(set(dealt) - set(range(samples)))
        expect(
            not strangers,
            got=f"indices that do not exist: {strangers}",
            think=f"which indices there are: 0 to {samples - 1}",
        )
        sizes = [len(hand) for hand in hands]
        expect(
            max(sizes) - min(sizes) <= 1,
            got=f"shards of {sizes} samples",
            think="how to deal so that no two ranks differ by more than one sample",
        )


def _expect_shards_shuffled(shard) -> None:
    hands = {epoch: _own_shard(shard, 1415, 0, 2, epoch) for epoch in EPOCHS}
    for epoch, hand in hands.items():
        with trying(f"shard(1415, 0, 2, {epoch})") as expect:
            steps = {after - before for before, after in pairwise(hand)}
            expect(
                len(steps) > 50,
                got=f"{', '.join(map(str, hand[:8]))}, ...: an order with a pattern",
                think="the order in which a rank gets its own indices: what makes it "
                f"random in epoch {epoch}?",
            )
    for one, other in combinations(EPOCHS, 2):
        with trying(f"shard(1415, 0, 2, epoch) for epochs {one} and {other}") as expect:
            expect(
                hands[one] != hands[other],
                got="the same order in both epochs",
                think="what `epoch` is for: what does set_epoch change in torch's "
                "sampler?",
            )
            expect(
                set(hands[one]) != set(hands[other]),
                got="the same samples, in another order",
                think="what is shuffled first and dealt afterwards. Rank 0 should not "
                "see the same half of the data for ever",
            )


def _expect_same_shard_elsewhere(shard, sent: bytes) -> None:
    """A fresh interpreter has its own seed for hash()."""
    calls = [(1415, 1, 2, 7), (13, 0, 2, 2), (29, 5, 8, 1)]
    args = sent, calls
    there = run_ranks(_shards_elsewhere, *args, world_size=1, start_method="spawn")[0]
    for call, hand in zip(calls, there, strict=True):
        with trying(f"shard{call} in two processes") as expect:
            expect(
                hand == _own_shard(shard, *call),
                got="two different answers",
                think="what differs from process to process: the seed of hash(), and "
                "whatever was drawn or kept before",
            )


def _shards_elsewhere(sent: bytes, calls: list[tuple]) -> list[list[int]]:
    shard = pickle.loads(sent)
    return [_own_shard(shard, *call) for call in calls]


# 11a-replicas -------------------------------------------------------------------------


def small_digits_model() -> nn.Module:
    """Not all is linear; in 64-bit numbers, what differs is a mistake, not rounding."""
    torch.manual_seed(11)
    layers = nn.Linear(64, 12), nn.PReLU(), nn.LayerNorm(12), nn.Linear(12, 10)
    return nn.Sequential(*layers).to(device(), torch.float64)


def flat_digits_model(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


_forwards: list[int] = []  # images of each forward pass


def _note_images_of_replica(model: nn.Module, inputs: tuple) -> None:
    _forwards.append(len(inputs[0]))


@exercise("11a-replicas", seconds=20)
def check_11a_replicas(replica_step):
    for sizes, lr in [
        ([32], 0.5),
        ([20, 20], 0.1),
        ([12, 12, 12], 1.0),
        ([24, 8], 0.5),
        ([5, 1, 30], 0.2),
        ([3, 8, 1, 8, 2, 5, 13, 1], 0.5),
    ]:
        _try_replicas(replica_step, sizes, lr)


def _try_replicas(step, sizes: list[int], lr: float) -> None:
    model = small_digits_model()
    model.register_forward_pre_hook(_note_images_of_replica)
    images, labels = (t[: sum(sizes)].to(device()) for t in load_digits("train"))
    images = images.double()
    shards = list(zip(images.split(sizes), labels.split(sizes), strict=True))
    before = flat_digits_model(model)
    alone = _step_without_replicas(model, images, labels, lr) - before
    tried = f"replica_step(model, shards of {sizes} samples, lr={lr})"
    _forwards.clear()
    with trying(tried, shards) as expect:
        replicas = step(model, shards, lr)
        good = isinstance(replicas, list | tuple) and len(replicas) == len(sizes)
        expect(
            good and all(isinstance(replica, nn.Module) for replica in replicas),
            got=replicas,
            think=f"what is to be returned: {len(sizes)} models, one for each shard",
        )
        _expect_replicas_apart(expect, model, replicas, before)
        updates = [flat_digits_model(replica) - before for replica in replicas]
        expect(
            all(torch.equal(updates[0], other) for other in updates),
            got="replicas that differ from each other",
            think="what every replica has to know before it takes its step",
        )
        _expect_replica_step(expect, updates[0], alone, len(sizes))
        expect(
            max(_forwards, default=0) <= max(sizes),
            got=f"the right step, and a forward pass of {max(_forwards)} images",
            think="which images each replica computes on: its own shard only",
        )


def _step_without_replicas(model: nn.Module, images, labels, lr: float) -> torch.Tensor:
    """The parameters after one step of one process with these images."""
    model = copy.deepcopy(model)
    F.cross_entropy(model(images), labels).backward()
    torch.optim.SGD(model.parameters(), lr=lr).step()
    return flat_digits_model(model)


def _expect_replicas_apart(expect, model: nn.Module, replicas: list, before) -> None:
    addresses = [{p.data_ptr() for p in m.parameters()} for m in [model, *replicas]]
    shared = sum(map(len, addresses)) - len(set().union(*addresses))
    expect(
        not shared,
        got=f"models that share parameters ({shared} of them)",
        think="where the numbers of each replica live: if one of them changes, whose "
        "else changes, too?",
    )
    expect(
        torch.equal(flat_digits_model(model), before),
        got="the model that was given has changed",
        think="which models are to take the step, and which one only is to be copied",
    )
    expect(
        all(parameter.grad is None for parameter in model.parameters()),
        got="the model that was given has gradients",
        think="whose backward that was: the replicas compute, the model is only copied",
    )


def _expect_replica_step(expect, update, alone: torch.Tensor, shards: int) -> None:
    """The update must be the single process's; say what it is otherwise."""
    off = (update - alone).abs().max().item()
    expect(
        update.any(),
        got="replicas that have not moved",
        think="which line changes the parameters, and when is it run?",
    )
    expect(
        shards == 1 or (update - shards * alone).abs().max() > 1e-9,
        got=f"a step that is {shards} times as long as the single process's",
        think="the difference between the sum of the replicas' gradients and their "
        "mean",
    )
    expect(
        off < 1e-9,
        got=f"a step that differs from the single process's by {off:.1e}",
        think="how many samples stand behind each shard's mean, and what the sum is "
        "multiplied and divided by. The mean of means is not the mean",
    )
