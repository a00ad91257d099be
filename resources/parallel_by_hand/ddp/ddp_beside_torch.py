"""Our DistributedDataParallel beside torch's: buckets, messages, and time."""

from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.futures import Future
from torch.nn import functional as F

from parallel_by_hand.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    start_all_reduce,
)
from parallel_by_hand.ddp.step_speed import seconds_in_turn
from sidebyside import device, load_digits, span

TORCHS = nn.parallel.DistributedDataParallel


def make_wide() -> nn.Module:
    """To set DDP beside torch's: 2.2 million parameters in eight tensors."""
    torch.manual_seed(0)
    sizes = [(64, 1024), (1024, 1024), (1024, 1024)]
    hidden = [layer for size in sizes for layer in (nn.Linear(*size), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(1024, 10)).to(device())


class _MessageNotes:
    """Starts all-reduces, notes their bytes, and draws them from start to arrival."""

    def __init__(self):
        self.sent: list[int] = []
        self.drawn = False

    def start(self, message: torch.Tensor) -> dist.Work | None:
        self.sent.append(message.nbytes)
        travelling = span("message")
        if self.drawn:
            travelling.start()
        work = start_all_reduce(message)
        work.get_future().then(lambda _: travelling.stop())
        return work

    def hook(self, _, bucket: dist.GradBucket) -> Future[torch.Tensor]:
        """The same for torch's DDP: what it calls a communication hook."""
        work = self.start(bucket.buffer().div_(dist.get_world_size()))
        return work.get_future().then(lambda arrived: arrived.value()[0])


class _BackwardInTwo:
    """Draws a backward as two spans: until the last gradient is ready, and after."""

    def __init__(self, model: nn.Module):
        self.missing = len(list(model.parameters()))
        self.now = span("backward")
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.gradient_is_ready)

    def gradient_is_ready(self, parameter: nn.Parameter) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.now.stop()
            self.now = span("wait").start()

    def run(self, loss: torch.Tensor) -> None:
        self.now.start()
        loss.backward()
        self.now.stop()


def _wrap_wide(
    kind: str, bucket_mb: float | None, notes: _MessageNotes
) -> DistributedDataParallel | TORCHS:
    if kind == "ours":
        bucket_bytes = int(25 if bucket_mb is None else bucket_mb) * 2**20
        return DistributedDataParallel(make_wide(), bucket_bytes, notes.start)
    replica = TORCHS(make_wide(), bucket_cap_mb=bucket_mb)
    replica.register_comm_hook(None, notes.hook)
    return replica


def bytes_of_messages(kind: str, bucket_mb: float | None = None) -> list[list[int]]:
    """Runs in each rank: bytes of every DDP message, for each of three steps."""
    notes, steps = _MessageNotes(), []
    replica = _wrap_wide(kind, bucket_mb, notes)
    for _ in range(3):
        replica(torch.ones(2, 64, device=device())).sum().backward()
        steps.append(list(notes.sent))
        notes.sent.clear()
    return steps


def draw_sixth_step(kind: str, bucket_mb: float = 1) -> None:
    """Runs in each rank: six steps of DDP, ours or torch's; the last one is drawn."""
    x, y = (tensor[:128].to(device()) for tensor in load_digits("train"))
    notes = _MessageNotes()
    replica = _wrap_wide(kind, bucket_mb, notes)
    for _ in range(5):
        F.cross_entropy(replica(x), y).backward()
    replica.zero_grad()
    notes.drawn = True
    dist.barrier()
    with span("forward"):
        loss = F.cross_entropy(replica(x), y)
    _BackwardInTwo(replica.module).run(loss)


def time_in_turn(
    make_network: Callable, images: int = 64, rounds: int = 12, steps: int = 3
) -> dict[str, list[float]]:
    """Runs in each rank: seconds for the same steps of our DDP and torch's, in turn."""
    x, y = (tensor[:images].to(device()) for tensor in load_digits())
    replicas = {
        "ours": DistributedDataParallel(make_network(), 2**20),
        "torch's": TORCHS(make_network(), bucket_cap_mb=1),
    }

    def step(replica: nn.Module) -> None:
        replica.zero_grad()
        F.cross_entropy(replica(x), y).backward()

    works = {kind: partial(step, replica) for kind, replica in replicas.items()}
    return seconds_in_turn(works, rounds, steps)


def ratio_of_steps(make_network: Callable = make_wide) -> float:
    """Runs in each rank: how many times as long as torch's DDP our step takes."""
    seconds = time_in_turn(make_network)
    pairs = zip(seconds["ours"], seconds["torch's"], strict=True)
    return median(ours / torchs for ours, torchs in pairs)
