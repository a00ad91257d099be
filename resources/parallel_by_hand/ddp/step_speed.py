"""Samples per second of one process and of two ranks: measured, and from parts."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false

from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from parallel_by_hand.collectives.eight_collectives import finished
from parallel_by_hand.ddp.ddp_from_scratch import DistributedDataParallel
from sidebyside import device, load_digits

WAYS = ("1 process", "1 process, 2 threads", "2 ranks, batch split")
WAYS += ("2 ranks, batch grown",)


def make_convolutions() -> nn.Module:
    """28,394 parameters in ten tensors, all but 330 used at each of 64 pixels."""
    torch.manual_seed(0)
    layers = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    return nn.Sequential(*layers, *head).to(device())


def make_deep() -> nn.Module:
    """2.7 million parameters in 24 tensors, each used once for an image."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 512), nn.ReLU()]
    for _ in range(10):
        layers += [nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(512, 10)).to(device())


NETWORKS: dict[str, tuple[Callable, int]] = {
    "convolutions": (make_convolutions, 256),
    "deep": (make_deep, 32),
}
"""What makes each network, and the samples of its batch."""


def take_step(model, sgd, images, labels, mark: Callable = nullcontext) -> None:
    """One step of training; `mark` names its three parts, as `span` does."""
    with mark("forward"):
        loss = F.cross_entropy(model(images), labels)
    with mark("backward"):
        loss.backward()
    with mark("update"):
        sgd.step()
        sgd.zero_grad()


def step_of(model: nn.Module, samples: int, rank: int = 0) -> Callable:
    """`take_step` for this model and the rank's own `samples` digits."""
    mine = slice(rank * samples, (rank + 1) * samples)
    images, labels = (tensor[mine].to(device()) for tensor in load_digits("train"))
    return partial(
        take_step, model, torch.optim.SGD(model.parameters()), images, labels
    )


def operations_per_byte(network: str) -> float:
    """Operations of a rank's step for each byte of its gradients, in two ranks."""
    make, batch = NETWORKS[network]
    model = make()
    with FlopCounterMode(display=False) as counter:
        step_of(model, batch // 2)()
    return counter.get_total_flops() / sum(p.nbytes for p in model.parameters())


def now() -> "float | torch.cuda.Event":
    """This moment: on a GPU, the one when it has done all that it was given so far."""
    if device().type == "cpu":
        return perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_between(earlier, later) -> float:
    """Between two moments of `now`; on a GPU, Python waits for the later one."""
    if isinstance(earlier, float):
        return later - earlier
    later.synchronize()
    return earlier.elapsed_time(later) / 1e3


def seconds_in_turn(works: dict, rounds: int, steps: int = 1) -> dict:
    """Runs in each rank: seconds of `steps` calls of each of `works`, by its key.

    All take turns, so a busy moment of the computer hits all of them. A round before
    warms up.
    """
    seconds = {key: [] for key in works}
    for turn in range(rounds + 1):
        for key in works if turn % 2 else reversed(works):
            dist.barrier()
            began = now()
            for _ in range(steps):
                works[key]()
            seconds[key].append(seconds_between(began, now()))
    return {key: times[1:] for key, times in seconds.items()}


def samples_per_second(network: str, rounds: int = 7) -> dict[str, list[float]]:
    """Runs in each of two ranks: in rank 0, the speed in each of WAYS, round by round.

    While rank 0 trains as the only process, rank 1 waits and needs no core.
    """
    make, batch = NETWORKS[network]
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, replica = step_of(make(), batch), DistributedDataParallel(make(), 2**20)

    def alone(threads: int) -> None:
        if rank == 0:
            torch.set_num_threads(threads)
            whole()
            torch.set_num_threads(1)

    split, grown = (step_of(replica, n, rank) for n in (batch // ranks, batch))
    works = partial(alone, 1), partial(alone, 2), split, grown
    seconds = seconds_in_turn(dict(zip(WAYS, works, strict=True)), rounds)
    samples = dict(zip(WAYS, (batch, batch, batch, batch * ranks), strict=True))
    if rank > 0:
        return {}
    return {way: [samples[way] / t for t in times] for way, times in seconds.items()}


def predicted_wait(ready: list[float], travel: list[float]) -> float:
    """How long a rank waits for messages after its last gradient is ready.

    Message i may leave at `ready[i]` and is on the wire for `travel[i]`, in the same
    unit. The wire carries one message at a time, in this order.
    """
    arrived = 0.0
    for leaves, takes in zip(ready, travel, strict=True):
        arrived = max(arrived, leaves) + takes
    return arrived - ready[-1]


class StepParts(NamedTuple):
    """Seconds of a rank's step without any message.

    Message i of `sizes[i]` bytes is ready `ready[i]` seconds after backward began.
    """

    forward: float
    ready: list[float]
    sizes: list[int]
    update: float

    def in_buckets(self, bucket_bytes: int) -> "StepParts":
        """The same step in buckets that leave with so many bytes or more."""
        ready, sizes = [], []
        for moment, size in zip(self.ready, self.sizes, strict=True):
            if not sizes or sizes[-1] >= bucket_bytes:
                ready.append(moment)
                sizes.append(0)
            ready[-1] = moment
            sizes[-1] += size
        return self._replace(ready=ready, sizes=sizes)

    def predict(self, alpha: float, beta: float) -> tuple[float, float]:
        """Seconds of the step if nothing is hidden by backward, and if all can be.

        An all-reduce of n bytes takes alpha + beta * n seconds.
        """
        travel = [alpha + beta * size for size in self.sizes]
        computing = self.forward + self.ready[-1] + self.update
        return computing + sum(travel), computing + predicted_wait(self.ready, travel)


def measure_parts(network: str, rounds: int = 9) -> StepParts:
    """Runs in each rank: the parts of a step on its share of the batch, as medians.

    All ranks compute at the same time, as in training, but each gradient, instead of
    leaving, only notes the moment.
    """
    make, batch = NETWORKS[network]
    moments, sizes = [], []

    def note(message: torch.Tensor) -> torch.futures.Future:
        moments.append(now())
        sizes.append(message.nbytes)
        return finished()

    replica = DistributedDataParallel(make(), 1, all_reduce=note)  # a bucket for each
    step = step_of(replica, batch // dist.get_world_size(), dist.get_rank())
    rows = []

    @contextmanager
    def mark(phase: str):
        moments.append(now())
        yield

    for _ in range(rounds + 1):
        moments.clear()
        sizes.clear()
        dist.barrier()
        step(mark)
        end = now()
        forward, backward, *ready, update = moments
        parts = (forward, backward), (update, end), *((backward, r) for r in ready)
        rows.append([seconds_between(*part) for part in parts])
    forward, update, *ready = (median(column) for column in zip(*rows[1:], strict=True))
    return StepParts(forward, ready, list(sizes), update)


def time_all_reduces(sizes: list[int], rounds: int = 12) -> dict[int, list[float]]:
    """Runs in each rank: seconds of an all-reduce of so many bytes, for each round."""
    messages = {size: torch.ones(size // 4, device=device()) for size in sizes}
    works = {size: partial(dist.all_reduce, messages[size]) for size in sizes}
    return seconds_in_turn(works, rounds)


def time_buckets(
    network: str, limits: list[int], rounds: int = 9
) -> dict[int, list[float]]:
    """Runs in each rank: seconds of a step with each limit for buckets, in turn."""
    make, batch = NETWORKS[network]
    share, rank = batch // dist.get_world_size(), dist.get_rank()
    replicas = {limit: DistributedDataParallel(make(), limit) for limit in limits}
    steps = {limit: step_of(one, share, rank) for limit, one in replicas.items()}
    return seconds_in_turn(steps, rounds)
