"""The checks of lesson 11a: shards, and a step of several replicas."""

import copy
import operator
import pickle
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations, pairwise

import torch
from torch import nn
from torch.nn import functional as F

from sidebyside import device, load_digits, run_ranks
from sidebyside.by_value import packed_answer
from sidebyside.exercises import exercise, trying

# 11a-shard ----------------------------------------------------------------------------

DECKS = [(6, 1), (12, 3), (13, 2), (14, 4), (2, 3), (29, 8), (1415, 5), (1415, 2)]
EPOCHS = 0, 1, 2, 7
LARGE_EPOCHS = 8, 10, 100, 256, 1000


@exercise("11a-shard", seconds=60)
def check_11a_shard(shard):
    sent = packed_answer(shard)  # before the first call: it remembers none
    for samples, world_size in DECKS:
        for epoch in EPOCHS:
            _expect_shards_dealt(shard, samples, world_size, epoch)
    _expect_large_deck_dealt(shard, 70_000)  # more than 16 bits can count
    _expect_shards_shuffled(shard, EPOCHS + LARGE_EPOCHS)
    _expect_same_shard_elsewhere(shard, sent)


def _own_shard(shard: Callable, samples: int, rank: int, world_size: int, epoch: int):
    """What a rank gets, in plain whole numbers."""
    with trying(f"shard({samples}, {rank}, {world_size}, {epoch})") as expect:
        got = shard(samples, rank, world_size, epoch)
        sequence = hasattr(got, "__len__") and hasattr(got, "__getitem__")
        expect(sequence, got=got, think="what is to be returned: a list of indices")
        try:
            return [operator.index(sample) for sample in got]
        except TypeError:
            expect(False, got=got, think="what can be an index: whole numbers only")


def _all_shards(
    shard: Callable, samples: int, world_size: int, epoch: int
) -> list[list]:
    return [
        _own_shard(shard, samples, rank, world_size, epoch)
        for rank in range(world_size)
    ]


def _expect_shards_dealt(shard, samples: int, world_size: int, epoch: int) -> None:
    call = f"shard({samples}, rank, {world_size}, {epoch}) for each rank"
    hands = _all_shards(shard, samples, world_size, epoch)
    with trying(call + ", twice") as expect:
        expect(
            _all_shards(shard, samples, world_size, epoch) == hands,
            got="two different answers",
            think="where the randomness comes from. Ranks cannot talk here: equal "
            "arguments have to give equal decks",
        )
    dealt = Counter(sample for hand in hands for sample in hand)
    with trying(call) as expect:
        twice = sorted(sample for sample in dealt if dealt[sample] > 1)
        think = "whether every sample is dealt exactly once: do all ranks shuffle the "
        think += "same deck, and does each take other cards of it?"
        padded = samples % world_size and dealt.total() % world_size == 0
        if padded and 0 < dealt.total() - samples < world_size:
            think = f"{samples} samples for {world_size} ranks: must all ranks get "
            think += "equally many?"
        expect(not twice, got=f"dealt more than once: {twice[:10]}", think=think)
        missing = sorted(set(range(samples)) - set(dealt))
        think = "the deck of this call: how many cards has it, and is every sample "
        think += "dealt exactly once?"
        if samples % world_size:
            think = "whether every sample is dealt exactly once, also when the number "
            think += "of ranks does not divide the number of samples"
        got = f"{len(dealt)} samples, without {missing[:10]}"
        expect(not missing, got=got, think=think)
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


def _expect_large_deck_dealt(shard, samples: int) -> None:
    hands = _all_shards(shard, samples, 2, 1)
    with trying(f"shard({samples}, rank, 2, 1) for each rank") as expect:
        dealt = sorted(chain(*hands))
        expect(
            dealt == list(range(samples)),
            got=f"{len(set(dealt))} different indices, from {min(dealt, default=None)} "
            f"to {max(dealt, default=None)}",
            think="what is different when there are so many samples: how large a "
            "number can your indices hold?",
        )


def _expect_shards_shuffled(shard, epochs: tuple) -> None:
    hands = {epoch: _own_shard(shard, 1415, 0, 2, epoch) for epoch in epochs}
    for epoch, hand in hands.items():
        with trying(f"shard(1415, 0, 2, {epoch})") as expect:
            steps = {after - before for before, after in pairwise(hand)}
            expect(
                len(steps) > 50,
                got=f"{', '.join(map(str, hand[:8]))}, ...: an order with a pattern",
                think="the order in which a rank gets its own indices: what makes it "
                f"random in epoch {epoch}?",
            )
    think = "what your code makes of the two epochs: where do they become the same?"
    if hands[0] == hands[1]:
        think = "what `epoch` is for: what does set_epoch change in torch's sampler?"
    for one, other in combinations(epochs, 2):
        with trying(f"shard(1415, 0, 2, epoch) for epochs {one} and {other}") as expect:
            expect(
                hands[one] != hands[other],
                got="the same order in both epochs",
                think=think,
            )
            expect(
                set(hands[one]) != set(hands[other]),
                got="the same samples, in another order",
                think="what is shuffled first and dealt afterwards. Rank 0 should not "
                "see the same half of the data for ever",
            )
            alike = set(pairwise(hands[one])) & set(pairwise(hands[other]))
            expect(
                len(alike) < 50,
                got=f"{len(alike)} samples that are followed by the same one in both",
                think="the deck: is it shuffled anew, or does it begin elsewhere?",
            )


def _expect_same_shard_elsewhere(shard, sent: bytes) -> None:
    """A fresh interpreter has its own seed for hash(), and ours has another clock."""
    calls = [(1415, 1, 2, 7), (13, 0, 2, 2), (29, 5, 8, 1), (6, 0, 1, 0)]
    args = sent, calls
    there = run_ranks(_shards_elsewhere, *args, world_size=1, start_method="spawn")[0]
    for call, hand in zip(calls, there, strict=True):
        with trying(f"shard{call} in two processes") as expect:
            expect(
                hand == _own_shard(shard, *call),
                got="two different answers",
                think="what differs from process to process: the time, the seed of "
                "hash(), whatever was drawn or kept before. Ranks cannot talk here: "
                "equal arguments have to give equal decks",
            )


def _shards_elsewhere(sent: bytes, calls: list[tuple]) -> list[list[int]]:
    here, seconds_of_a_month = time.time, 2_700_001
    time.time = lambda: here() + seconds_of_a_month
    time.time_ns = lambda: int(time.time() * 1e9)
    shard = pickle.loads(sent)
    return [_own_shard(shard, *call) for call in calls]


# 11a-replicas -------------------------------------------------------------------------


class _CountedReLU(nn.ReLU):
    """It counts its forward passes in a buffer, as batch norm counts its batches."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.tensor(0))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.passes = self.passes + 1  # torch.func allows nothing in place
        return super().forward(values)


def small_digits_model(dtype=torch.float64, frozen: str = "") -> nn.Module:
    """In 64-bit numbers, what is left of a difference is a mistake, not rounding."""
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(64, 12), _CountedReLU(), nn.Linear(12, 10))
    if frozen:
        model.get_parameter(frozen).requires_grad_(False)
        model[0].eval()  # as people do with a layer that is not trained
    return model.to(device(), dtype)


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
    _try_replicas(replica_step, [7, 9, 4], 0.5, frozen="0.bias")
    _try_replicas(replica_step, [2, 6], 0.5, frozen="0.weight")
    _try_replicas(replica_step, [9, 4], 0.1, dtype=torch.float32)


def _try_replicas(step, sizes: list, lr, dtype=torch.float64, frozen="") -> None:
    model = small_digits_model(dtype, frozen)
    model.register_forward_pre_hook(_note_images_of_replica)
    images, labels = (t[: sum(sizes)].to(device()) for t in load_digits("train"))
    images = images.to(dtype)
    shards = list(zip(images.split(sizes), labels.split(sizes), strict=True))
    before, modes = flat_digits_model(model), _modes_of_model(model)
    alone = _step_without_replicas(model, images, labels, lr) - before
    tried = f"replica_step(model, shards of {sizes} samples, lr={lr})"
    think = ""
    if frozen:
        tried += f", where the parameter {frozen} is frozen, its layer in eval mode"
        think = "what the `.grad` of a frozen parameter holds: None"
    _forwards.clear()
    with trying(tried, shards, think=think) as expect:
        replicas = step(model, shards, lr)
        good = isinstance(replicas, list | tuple) and len(replicas) == len(sizes)
        expect(
            good and all(isinstance(replica, nn.Module) for replica in replicas),
            got=replicas,
            think=f"what is to be returned: {len(sizes)} models, one for each shard",
        )
        _expect_replicas_apart(expect, model, replicas, before)
        _expect_same_modes_of_model(expect, model, modes)
        _expect_no_frozen_gradient(expect, model, replicas)
        updates = [flat_digits_model(replica) - before for replica in replicas]
        _expect_equal_replicas(expect, updates, alone)
        means = sum(
            _step_without_replicas(model, *shard, lr) - before for shard in shards
        )
        _expect_replica_step(expect, updates[0], alone, means / len(sizes), len(sizes))
        expect(
            max(_forwards, default=0) <= max(sizes),
            got=f"the right step, and a forward pass of {max(_forwards)} images",
            think="which images each replica computes on: its own shard only",
        )


def _modes_of_model(model: nn.Module) -> tuple[list[bool], list[bool]]:
    """Which parameters are trained, and which modules are in training mode."""
    trained = [parameter.requires_grad for parameter in model.parameters()]
    return trained, [module.training for module in model.modules()]


def _expect_same_modes_of_model(expect, model: nn.Module, before: tuple) -> None:
    trained, training = _modes_of_model(model)
    expect(
        trained == before[0],
        got="the model that was given, with other parameters frozen than before",
        think="what becomes of `requires_grad` in the model that you were given",
    )
    expect(
        training == before[1],
        got="the model that was given, with other modules in training mode than before",
        think="what `train()` and `eval()` change, and in which model",
    )


def _expect_no_frozen_gradient(expect, model: nn.Module, replicas: list) -> None:
    pairs = (zip(model.parameters(), r.parameters(), strict=True) for r in replicas)
    own = [own for pair in pairs for given, own in pair if not given.requires_grad]
    expect(
        all(parameter.grad is None for parameter in own),
        got="a frozen parameter with a gradient",
        think="what the `.grad` of a frozen parameter holds: None",
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
    expect(
        not any(buffer.any() for buffer in model.buffers()),
        got="the buffers of the model that was given have changed",
        think="whose forward that was: the replicas compute, the model is only copied",
    )


def _expect_equal_replicas(expect, updates: list, alone: torch.Tensor) -> None:
    think = "what every replica has to know before it takes its step"
    if torch.allclose(updates[0], alone, rtol=0, atol=1e-5):
        think = "the first replica, which takes the right step: do the others add up "
        think += "what it did, or is something changed by then?"
    expect(
        all(torch.equal(updates[0], other) for other in updates),
        got="replicas that differ from each other",
        think=think,
    )


def _expect_replica_step(expect, update, alone, mean_of_means, shards: int) -> None:
    """The update must be the single process's; say what it is otherwise."""
    rounding = 1e-9 if update.dtype == torch.float64 else 1e-5
    expect(
        update.any(),
        got="replicas that have not moved",
        think="which line changes the parameters, and when is it run?",
    )
    off = (update - alone).abs().max().item()
    if off < rounding:
        return
    wrong = (update - alone).abs() >= rounding
    expect(
        update[wrong].any(),
        got="some parameters after the right step, and others that have not moved",
        think="which parameters take a step: is one left out that is trained?",
    )
    times = (update @ alone / (alone @ alone)).item()
    if (update - times * alone).abs().max() < rounding:
        think = "what the gradient is multiplied by, what it is divided by, and how "
        think += "often each shard's gradient is counted"
        if abs(times - shards) < 1e-3:
            think = "the difference between the sum of the replicas' gradients and "
            think += "their mean"
        got = f"a step that is {times:.2f} times as long as the single process's"
        expect(False, got=got, think=think)
    think = "how the gradients are combined: compare with one process and one batch"
    if (update - mean_of_means).abs().max() < rounding:
        think = "how many samples stand behind each shard's mean. The mean of means is "
        think += "not the mean"
    got = f"a step that differs from the single process's by {off:.1e}"
    expect(False, got=got, think=think)
