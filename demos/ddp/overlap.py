"""Draw when gradients travel: after backward, during backward, and in torch's own DDP.

Run:      python demos/ddp/overlap.py --link 300
Look for: through the slow link (simulated: an all-reduce, then a sleep) no message sets
          out before its rank's backward has ended, unless hooks send buckets during
          backward. Then only the last buckets are waited for: W. In ours and in
          torch's, the first message sets out before backward returns. (What torch
          waits for inside backward is not drawn by itself.)
Try:      --link 30. Now the cable decides, and a step takes as long as the cable needs.
"""

from sidebyside.programs import run_program

import argparse
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from time import perf_counter, sleep
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.ddp.ddp_from_scratch import DistributedDataParallel, start_all_reduce
from sidebyside import Timeline, between, device, load_digits, run_ranks, span

BUCKET_MB = 1
TORCHS = nn.parallel.DistributedDataParallel


class SlowLink:
    """All-reduce as through a cable of so many MB/s, one message at a time."""

    def __init__(self, megabytes_per_second: float):
        self.bytes_per_second = megabytes_per_second * 1e6
        self.wire = ThreadPoolExecutor(1, thread_name_prefix="wire")
        self.mark = nullcontext  # `span` during the step that is drawn

    def start(self, message: torch.Tensor) -> Future:
        travelling = self.wire.submit(self.carry, message)
        travelling.wait = partial(self.wait, travelling)  # as torch calls it
        return travelling

    def carry(self, message: torch.Tensor) -> None:
        with self.mark("wait"):  # until the other rank has its message ready
            dist.barrier()
        with self.mark("all-reduce"):
            dist.all_reduce(message)
            sleep(message.nbytes / self.bytes_per_second)

    def wait(self, travelling: Future) -> None:
        with self.mark("wait"):
            travelling.result()


class LinkInside:
    """All-reduce inside this computer, drawn from its start to its arrival."""

    mark = nullcontext

    def start(self, message: torch.Tensor) -> SimpleNamespace:
        travelling = span("all-reduce")
        if self.mark is span:
            travelling.start()
        work = start_all_reduce(message)
        arrives = work.get_future()
        arrives.then(lambda _: travelling.stop())
        return SimpleNamespace(wait=partial(self.wait, work), arrives=arrives)

    def wait(self, work: dist.Work) -> None:
        with self.mark("wait"):
            work.wait()

    def hook(self, _, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The same for torch's DDP, as a communication hook."""
        message = self.start(bucket.buffer().div_(dist.get_world_size()))
        return message.arrives.then(lambda arrived: arrived.value()[0])


def make_wide() -> nn.Module:
    """2.2 million parameters in eight tensors: enough to see them travel."""
    torch.manual_seed(0)
    sizes = [(64, 1024), (1024, 1024), (1024, 1024)]
    hidden = [layer for size in sizes for layer in (nn.Linear(*size), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(1024, 10)).to(device())


def take_steps(model: nn.Module, link, average: Callable = lambda model: None) -> float:
    """Take six steps and draw the last; the seconds of the fastest in between."""
    x, y = (tensor[:128].to(device()) for tensor in load_digits("train"))
    sgd, seconds = torch.optim.SGD(model.parameters(), lr=0.01), []
    for step in range(6):
        mark = link.mark = span if step == 5 else nullcontext
        dist.barrier()
        began = perf_counter()
        with mark("forward"):
            loss = F.cross_entropy(model(x), y)
        with mark("backward"):
            loss.backward()
        average(model)
        with mark("update"):
            sgd.step()
        sgd.zero_grad()
        seconds.append(perf_counter() - began)
    return min(seconds[1:5])


def average_after_backward(link) -> float:
    """Runs in each rank: one message for each gradient, when backward has ended."""

    def average(model: nn.Module) -> None:
        for parameter in model.parameters():
            link.start(parameter.grad).wait()
            parameter.grad /= dist.get_world_size()

    return take_steps(make_wide(), link, average)


def average_during_backward(link) -> float:
    """Runs in each rank: hooks send buckets of 1 MB while backward computes."""
    replica = DistributedDataParallel(make_wide(), BUCKET_MB * 2**20, link.start)
    return take_steps(replica, link)


def average_in_torchs_way(link) -> float:
    """Runs in each rank: torch's DistributedDataParallel, with the same buckets."""
    replica = TORCHS(make_wide(), bucket_cap_mb=BUCKET_MB)
    replica.register_comm_hook(None, link.hook)
    return take_steps(replica, link)


def time_in_turn(
    make_network: Callable, images: int = 64, rounds: int = 12, steps: int = 3
) -> dict[str, list[float]]:
    """Runs in each rank: seconds for the same steps of both, round after round."""
    x, y = (tensor[:images].to(device()) for tensor in load_digits())
    replicas = {
        "ours": DistributedDataParallel(make_network(), BUCKET_MB * 2**20),
        "torch's": TORCHS(make_network(), bucket_cap_mb=BUCKET_MB),
    }
    seconds = {kind: [] for kind in replicas}
    for turn in range(rounds + 1):
        for kind in replicas if turn % 2 else reversed(replicas):
            dist.barrier()
            began = perf_counter()
            for _ in range(steps):
                replicas[kind].zero_grad()
                F.cross_entropy(replicas[kind](x), y).backward()
            next(replicas[kind].parameters()).grad.sum().item()  # wait for a GPU
            seconds[kind].append(perf_counter() - began)
    return {kind: times[1:] for kind, times in seconds.items()}  # the first: warm-up


def through_slow_link(average: Callable, megabytes_per_second: float) -> float:
    return average(SlowLink(megabytes_per_second))


def inside_this_computer(average: Callable) -> float:
    return average(LinkInside())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--link", type=between(0.1, 1_000_000), default=300, help="MB/s; default: 300"
    )
    speed = parser.parse_args().link
    after, during = average_after_backward, average_during_backward
    for title, fn, *args in (
        ("after backward, slow link", through_slow_link, after, speed),
        ("during backward, slow link", through_slow_link, during, speed),
        ("ours, inside this computer", inside_this_computer, during),
        ("torch's, inside this computer", inside_this_computer, average_in_torchs_way),
    ):
        with Timeline() as timeline:
            seconds = run_ranks(fn, *args)[0]
        print(f"{title}: {1e3 * seconds:.1f} ms per step\n{timeline.text()}\n")


if __name__ == "__main__":
    run_program(main)
