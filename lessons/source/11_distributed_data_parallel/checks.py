"""The checks of lesson 11: shards, replicas, buckets, accumulation without traffic."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate, pairwise
from types import GeneratorType

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sidebyside import RankFailed, device, load_digits, run_ranks
from sidebyside.exercises import exercise, expect
from sidebyside.failures import says_your_turn

PATIENCE = 20  # seconds; a right answer needs less than one


def _in_ranks(tried: str, think: str, fn: Callable, *args, world_size: int) -> list:
    """What the ranks return; if one of them raises, what to think about."""
    try:
        return run_ranks(fn, *args, world_size=world_size, timeout=PATIENCE)
    except RankFailed as failed:
        if says_your_turn(failed.outcome):
            raise
        got = failed
    expect(False, tried, got, think)


# 11-shard -----------------------------------------------------------------------------


def _deal(shard: Callable, samples: int, world_size: int, epoch: int) -> list[list]:
    """What each rank gets."""
    return [
        [int(sample) for sample in shard(samples, rank, world_size, epoch)]
        for rank in range(world_size)
    ]


@exercise("11-shard", seconds=20)
def check_shard(shard):
    for samples, world_size in (6, 1), (12, 3), (13, 2), (14, 4), (2, 3), (1415, 2):
        tried = f"shard({samples}, rank, {world_size}, 0) for each rank"
        hands = _deal(shard, samples, world_size, 0)
        expect(
            _deal(shard, samples, world_size, 0) == hands,
            tried + ", twice",
            "two different answers",
            "where the randomness comes from. Ranks cannot talk here: equal arguments "
            "have to give equal decks",
        )
        dealt = sorted(sample for hand in hands for sample in hand)
        missing = sorted(set(range(samples)) - set(dealt))
        twice = sorted({sample for sample in dealt if dealt.count(sample) > 1})[:10]
        expect(
            not twice,
            tried,
            f"dealt more than once: {twice}",
            "whether every sample is dealt exactly once: do all ranks shuffle the same "
            "deck, and does each take other cards of it",
        )
        expect(
            not missing and len(dealt) == samples,
            tried,
            f"{len(dealt)} samples, without {missing[:10]}",
            "whether every sample is dealt exactly once, also when the number of ranks "
            "does not divide the number of samples",
        )
        sizes = [len(hand) for hand in hands]
        expect(
            max(sizes) - min(sizes) <= 1,
            tried,
            f"shards of {sizes} samples",
            "how to deal so that no two ranks differ by more than one sample",
        )
    first, second = (_deal(shard, 1415, 2, epoch) for epoch in (0, 1))
    for epoch, (hand, _) in enumerate((first, second)):
        steps = {after - before for before, after in pairwise(hand)}
        expect(
            len(steps) > 50,
            f"shard(1415, 0, 2, {epoch})",
            f"{', '.join(map(str, hand[:8]))}, ...: an order with a pattern",
            "who shuffles the deck. Neighbours in the file should not meet in a batch "
            "in every epoch",
        )
    expect(
        first != second,
        "shard(1415, rank, 2, epoch) for epochs 0 and 1",
        "the same order in both epochs",
        "what `epoch` is for: what does set_epoch change in torch's sampler",
    )
    expect(
        set(first[0]) != set(second[0]),
        "shard(1415, 0, 2, epoch) for epochs 0 and 1",
        "the same samples, in another order",
        "what is shuffled first and dealt afterwards. Rank 0 should not see the same "
        "half of the data for ever",
    )


# 11-replicas --------------------------------------------------------------------------


def _small_model() -> nn.Module:
    """64-bit numbers: what is then left of a difference is a mistake, not rounding."""
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
    return model.double().to(device())


def _digits(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits("train")
    return images[:samples].double().to(device()), labels[:samples].to(device())


def _flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


def _single_step(model: nn.Module, images, labels, lr: float) -> torch.Tensor:
    """The parameters after one step of one process, which has the whole batch."""
    model = copy.deepcopy(model)
    F.cross_entropy(model(images), labels).backward()
    torch.optim.SGD(model.parameters(), lr=lr).step()
    return _flat(model)


@exercise("11-replicas", seconds=20)
def check_replicas(replica_step):
    for sizes in [32], [20, 20], [12, 12, 12], [24, 8], [5, 1, 30]:
        tried = f"replica_step(model, shards of {sizes} samples, lr=0.5)"
        model, lr = _small_model(), 0.5
        images, labels = _digits(sum(sizes))
        shards = list(zip(images.split(sizes), labels.split(sizes), strict=True))
        before, single = _flat(model), _single_step(model, images, labels, lr)

        replicas = replica_step(model, shards, lr)
        good = isinstance(replicas, list | tuple) and len(replicas) == len(sizes)
        expect(
            good and all(isinstance(replica, nn.Module) for replica in replicas),
            tried,
            replicas,
            f"what is to be returned: {len(sizes)} models, one for each shard",
        )
        everyone = [model, *replicas]
        addresses = [{p.data_ptr() for p in one.parameters()} for one in everyone]
        shared = sum(map(len, addresses)) - len(set().union(*addresses))
        expect(
            not shared,
            tried,
            f"models that share parameters ({shared} of them)",
            "where the numbers of each replica live. Two names for one storage are one "
            "model: it collects the gradients of all shards and takes every step",
        )
        expect(
            torch.equal(_flat(model), before),
            tried,
            "and the model that was given has changed",
            "which models are to take the step, and which one only is to be copied",
        )
        after = [_flat(replica) for replica in replicas]
        expect(
            all(torch.equal(after[0], other) for other in after),
            tried,
            "replicas that differ from each other",
            "what every replica has to know before it takes its step",
        )
        _expect_same_step(before, after[0], single, tried, sizes)


def _expect_same_step(before, after, single, tried: str, sizes: list[int]) -> None:
    """The update must be the single process's; say how long it is otherwise."""
    update, right = after - before, single - before
    times = (update @ right / (right @ right)).item()
    expect(
        times != 0,
        tried,
        "replicas that have not moved",
        "which line changes the parameters",
    )
    n = len(sizes)
    expect(
        n == 1 or abs(times - n) > 1e-3 or (update - n * right).abs().max() > 1e-9,
        tried,
        f"a step that is {times:.2f} times as long as the single process's",
        "the difference between the sum of the replicas' gradients and their mean",
    )
    think = "how the gradients are combined: compare with one process and one batch"
    if len(set(sizes)) > 1:
        think = (
            "how many samples stand behind each shard's mean. The mean of means is not "
            "the mean"
        )
    expect(
        (after - single).abs().max() < 1e-9,
        tried,
        f"a step that differs from the single process's by "
        f"{(after - single).abs().max().item():.1e}",
        think,
    )


# 11-buckets ---------------------------------------------------------------------------


class Traffic(TorchDispatchMode):
    """Notes the bytes of every collective, and all numbers of the first."""

    def __init__(self):
        super().__init__()
        self.bytes: list[int] = []
        self.first: torch.Tensor | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        collective = func.namespace in ("c10d", "_c10d_functional")
        if collective and "barrier" not in str(func):
            tensors = [t for t in _tensors(args) if t.numel()]
            if tensors:
                self.bytes.append(max(t.nbytes for t in tensors))
                if self.first is None:
                    flat = [t.detach().flatten() for t in tensors]
                    self.first = torch.cat(flat).cpu()
        return func(*args, **(kwargs or {}))


def _tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


SHAPES = [(30, 8), (30,), (40, 30), (40,), (20, 40), (20,), (20, 20), (20,), (5, 20)]
SHAPES += [(5,)]
EXACT = 4 * (5 + 5 * 20)  # bytes of the last two: the limit is hit exactly


def _try_buckets(average_gradients: Callable, limits: list, frozen: int) -> list[dict]:
    """Runs in each rank: what happens with each limit of a bucket's bytes."""
    return [_try_a_limit(average_gradients, limit, frozen) for limit in limits]


def _try_a_limit(average_gradients: Callable, bucket_bytes: int, frozen: int) -> dict:
    generator = torch.Generator().manual_seed(dist.get_rank())
    parameters = []
    for shape in SHAPES:
        parameter = nn.Parameter(torch.zeros(shape, device=device()))
        parameter.grad = torch.randn(shape, generator=generator).to(device())
        parameters.append(parameter)
    if frozen >= 0:
        parameters[frozen].requires_grad_(False)
        parameters[frozen].grad = None
    before = [None if p.grad is None else p.grad.cpu().clone() for p in parameters]
    with Traffic() as traffic:
        average_gradients(list(parameters), bucket_bytes)
    after = [None if p.grad is None else p.grad.cpu().clone() for p in parameters]
    moved = any(parameter.abs().max() > 0 for parameter in parameters)
    facts = {"before": before, "after": after, "moved": moved}
    return facts | {"sent": traffic.bytes, "first": traffic.first}


@exercise("11-buckets", in_ranks=True)
def check_buckets(average_gradients):
    total = sum(4 * torch.Size(shape).numel() for shape in SHAPES)
    for world_size, limits, frozen in (2, [2000, EXACT, total], -1), (3, [4000], 3):
        begin = f"average_gradients({len(SHAPES)} parameters with {total} bytes in all"
        end = f") in {world_size} ranks"
        if frozen >= 0:
            end += "; one parameter has no gradient"
        found = _in_ranks(
            begin + f", bucket_bytes={' or '.join(map(str, limits))}" + end,
            "what a parameter without a gradient holds: None. And whether a bucket can "
            "be empty when it is sent, the last one for instance",
            _try_buckets, average_gradients, limits, frozen, world_size=world_size,
        )  # fmt: skip
        for bucket_bytes, ranks in zip(limits, zip(*found, strict=True), strict=True):
            tried = begin + f", bucket_bytes={bucket_bytes}" + end
            _expect_means(ranks, tried)
            for rank in ranks:
                _expect_buckets(rank, bucket_bytes, tried, world_size)


def _expect_means(found: tuple[dict], tried: str) -> None:
    world_size = len(found)
    for place, shape in enumerate(SHAPES):
        grads = [rank["before"][place] for rank in found]
        if grads[0] is None:
            expect(
                all(rank["after"][place] is None for rank in found),
                tried,
                f"parameter {place} had no gradient, and has one now",
                "what None tells the optimizer: leave this parameter alone. Zeros are "
                "a gradient, and travel; with weight decay they even move a parameter",
            )
            continue
        mean = torch.stack(grads).mean(0)
        for number, rank in enumerate(found):
            got = rank["after"][place]
            where = f"parameter {place} of rank {number}"
            right_shape = got is not None and got.shape == mean.shape
            expect(
                right_shape,
                tried,
                f"{where} has a gradient of shape {None if got is None else got.shape}",
                f"how a piece of the flat bucket gets its shape {shape} back",
            )
            expect(
                not torch.equal(got, grads[number]) or world_size == 1,
                tried,
                f"{where} still has its own gradient",
                "whether the averaged numbers find their way from the bucket back into "
                "`parameter.grad`, for the last bucket too",
            )
            expect(
                not torch.allclose(got, world_size * mean, atol=1e-6),
                tried,
                f"{where} has the sum of {world_size} gradients",
                "the difference between the sum that all_reduce gives and the mean",
            )
            expect(
                torch.allclose(got, mean, atol=1e-6),
                tried,
                f"{where} differs from the mean of all ranks' gradients by "
                f"{(got - mean).abs().max().item():.1e}",
                "which piece of which bucket belongs to which parameter, and by how "
                "many ranks you divide",
            )
    expect(
        not any(rank["moved"] for rank in found),
        tried,
        "parameters that have moved",
        "what is to be averaged: the gradients, not the parameters",
    )


def _expect_buckets(rank: dict, bucket_bytes: int, tried: str, world_size: int) -> None:
    grads = [grad for grad in rank["before"] if grad is not None]
    total, largest = sum(g.nbytes for g in grads), max(g.nbytes for g in grads)
    sent, most = rank["sent"], total // bucket_bytes + 1
    expect(
        len(sent) <= most,
        tried,
        f"{len(sent)} collectives for {len(grads)} gradients",
        f"how many buckets of at least {bucket_bytes} bytes there can be: {most} at "
        "most. All gradients of a bucket travel in one all-reduce",
    )
    expect(
        max(sent) < bucket_bytes + largest,
        tried,
        f"one all-reduce of {max(sent)} bytes",
        "when a bucket is full. A bucket that waits for all gradients cannot leave "
        "before backward has ended. Do you count bytes or numbers",
    )
    if len(sent) > 1:
        last = grads[-1].flatten()[0]
        inside = [rank["first"].isclose(last / n).any() for n in (1, world_size)]
        expect(
            any(inside),
            tried,
            "a first all-reduce without the last parameter's gradient",
            "which parameter's gradient is ready first in backward",
        )
    filled = list(accumulate(grad.nbytes for grad in reversed(grads)))
    expect(
        bucket_bytes not in filled or sent[0] <= bucket_bytes,
        tried,
        f"a first all-reduce of {sent[0]} bytes",
        f"whether a bucket with exactly {bucket_bytes} bytes is full",
    )


# 11-no-sync ---------------------------------------------------------------------------


def _try_no_sync(average_with_hooks: Callable) -> dict:
    """Runs in each rank: facts about what travels, and training held to one process."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = _digits(240)
    model, alone = _small_model(), _small_model()
    no_sync = average_with_hooks(model)
    if not callable(no_sync):
        return {"returned": no_sync and repr(no_sync), "think": ""}
    try:
        opened = no_sync()
    except TypeError as error:
        think = ": return the function, without calling it"
        return {"returned": f"{no_sync!r}; called, it raised {error!r}", "think": think}
    if not isinstance(opened, AbstractContextManager):
        think = ", whose result can stand after `with`"
        if isinstance(opened, GeneratorType):
            think += ": is `@contextmanager` there"
        return {"returned": f"a function that returns {opened!r}", "think": think}
    facts: dict = {"parameters": len(list(model.parameters()))}

    def backward(batch: torch.Tensor, share: float = 1.0) -> int:
        """Backward on this rank's part of the batch; how many collectives that took."""
        mine = batch[rank::world_size]
        with Traffic() as traffic:
            (F.cross_entropy(model(images[mine]), labels[mine]) * share).backward()
        return len(traffic.bytes)

    deck = torch.arange(240, device=images.device)
    facts["plain"] = backward(deck[:24])
    F.cross_entropy(alone(images[:24]), labels[:24]).backward()
    facts["ratio"] = _ratio(model, alone)
    model.zero_grad()
    with no_sync():
        facts["quiet"] = backward(deck[:24])
    try:
        with no_sync():
            raise ValueError
    except ValueError:
        facts["after_error"] = backward(deck[:24])
    model.zero_grad()
    alone.zero_grad()

    facts["difference"], facts["equal"], facts["loud"] = 0.0, True, []
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (model, alone)]
    for batch in deck.split(48):
        first, second, last = batch.split(16)
        with no_sync():
            backward(first, 1 / 3)
            backward(second, 1 / 3)
        facts["loud"].append(backward(last, 1 / 3))
        F.cross_entropy(alone(images[batch]), labels[batch]).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        gathered = [None] * world_size
        dist.all_gather_object(gathered, _flat(model))
        facts["equal"] &= all(torch.equal(gathered[0], other) for other in gathered)
        difference = (_flat(model) - _flat(alone)).abs().max().item()
        facts["difference"] = max(facts["difference"], difference)
    return facts


def _ratio(model: nn.Module, alone: nn.Module) -> float:
    """How many times too long the gradient is, against the single process's."""
    a, b = (
        torch.cat([torch.zeros(p.numel()).to(p) if p.grad is None else p.grad.flatten()
                   for p in m.parameters()])
        for m in (model, alone)
    )  # fmt: skip
    return (a @ b / (b @ b)).item()


@exercise("11-no-sync", in_ranks=True)
def check_no_sync(average_with_hooks):
    for facts in _in_ranks(
        "average_with_hooks(model), then loss.backward() in 2 ranks",
        "what autograd gives to your hook: a post-accumulate hook gets the parameter, "
        "and its gradient is in `parameter.grad`",
        _try_no_sync, average_with_hooks, world_size=2,
    ):  # fmt: skip
        expect(
            "returned" not in facts,
            "average_with_hooks(model)",
            facts.get("returned"),
            "what is to be returned: a function no_sync, for `with no_sync():`"
            + facts.get("think", ""),
        )
        tried = "loss.backward() in 2 ranks, on 12 samples each"
        expect(
            facts["plain"] > 0,
            tried,
            "no collective at all",
            "who averages the gradients: a hook on every parameter, called by backward",
        )
        expect(
            abs(facts["ratio"] - 2) > 1e-6,
            tried,
            "gradients that are 2.00 times as long as the single process's",
            "the difference between the sum that all_reduce gives and the mean",
        )
        expect(
            facts["plain"] <= facts["parameters"],
            tried,
            f"{facts['plain']} collectives for {facts['parameters']} parameters",
            "how often the gradient of one parameter has to travel in one backward",
        )
        tried = "loss.backward() inside `with no_sync():`"
        expect(
            facts["quiet"] == 0,
            tried,
            f"{facts['quiet']} collectives",
            "how a hook learns that it is called inside no_sync: does `no_sync` change "
            "the same variable",
        )
        expect(
            facts["after_error"] > 0,
            "loss.backward() after a `with no_sync():` that ended in an exception",
            "no collective at all",
            "what always happens at the end of a with block: try ... finally",
        )
        tried = "5 steps of 3 micro-batches each, the first two inside no_sync"
        expect(
            facts["equal"],
            tried,
            "replicas that differ from each other after a step",
            "what has to be averaged after the last micro-batch: its gradient only, or "
            "all that has been accumulated. Which of the two does your hook get, and "
            "have the messages arrived when backward returns",
        )
        expect(
            facts["difference"] < 1e-9,
            tried,
            f"parameters that are up to {facts['difference']:.1e} away from the single "
            "process's",
            "whether every micro-batch counts once, and each rank's share too",
        )
