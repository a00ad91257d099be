"""Replicas in threads, which is DataParallel's design."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportOperatorIssue=false

import copy
from collections import Counter
from collections.abc import Callable
from threading import Thread
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from sidebyside import span


def replica_places(replicas: int) -> list[torch.device]:
    """For replicas in threads: a GPU for each if there are so many, else the CPU."""
    if torch.cuda.device_count() >= replicas:
        return [torch.device("cuda", number) for number in range(replicas)]
    return [torch.device("cpu")] * replicas


def replicate(model: nn.Module, places: list) -> list[nn.Module]:
    """The model, which is on the first place, and a copy on each of the others."""
    return [model, *(copy.deepcopy(model).to(place) for place in places[1:])]


def call_in_threads(function: Callable, *lists: list) -> list:
    """Call the function for the first of each list, the second ...: a thread each."""
    results: list[Any] = [None] * len(lists[0])

    def call(place: int, items: tuple) -> None:
        try:
            results[place] = function(*items)
        except Exception as error:
            results[place] = error

    threads = [
        Thread(target=call, args=(place, items), name=f"replica {place}")
        for place, items in enumerate(zip(*lists, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def call_one_by_one(function: Callable, *lists: list) -> list:
    """`call_in_threads` without threads: one call after the other."""
    return list(map(function, *lists))


class ThreadedReplicas:
    """Replicas of `model` that take one step of SGD together, in threads.

    `traffic` counts the bytes to and from the first place, as if each replica were on
    a device of its own. Design: torch.nn.DataParallel, with its seven phases. (There,
    autograd brings gradients back and runs one thread for each GPU. On the CPU it
    would run one thread in all, so here each replica's thread calls backward itself.)
    """

    def __init__(
        self,
        model: nn.Module,
        places: list,
        lr: float = 0.1,
        run: Callable = call_in_threads,
    ):
        self.replicas, self.places, self.run = replicate(model, places), places, run
        self.sgd = torch.optim.SGD(model.parameters(), lr=lr)
        self.traffic = Counter()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        with span("replicate"):
            self.send_weights()
        shards = self.scatter("images", x)
        outputs = self.run(_forward_of_replica, self.replicas, shards)
        with span("loss"):
            whole = self.gather(outputs)
            loss = F.cross_entropy(whole, y.to(whole.device))
            loss.backward()  # no further than to `whole`
        slopes = self.scatter("slopes", whole.grad)
        self.run(_backward_of_replica, outputs, slopes)
        with span("reduce"):
            self.reduce()
        with span("update"):
            self.sgd.step()
            self.sgd.zero_grad()
        return loss.item()

    @torch.no_grad()
    def send_weights(self) -> None:
        """Overwrite the weights of all other replicas: nobody has updated those."""
        first, *others = self.replicas
        for other in others:
            for mine, its in zip(first.parameters(), other.parameters(), strict=True):
                its.copy_(mine)
                its.grad = None
                self.traffic["weights"] += mine.nbytes

    def scatter(self, what: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        shards = tensor.tensor_split(len(self.places))
        self.traffic[what] += sum(shard.nbytes for shard in shards[1:])
        return [s.to(place) for s, place in zip(shards, self.places, strict=True)]

    def gather(self, outputs: list[torch.Tensor]) -> torch.Tensor:
        self.traffic["outputs"] += sum(output.nbytes for output in outputs[1:])
        whole = torch.cat([output.detach().to(self.places[0]) for output in outputs])
        return whole.requires_grad_()

    def reduce(self) -> None:
        """Add all gradients to the first replica's. The loss is a mean already."""
        first, *others = self.replicas
        for other in others:
            for mine, its in zip(first.parameters(), other.parameters(), strict=True):
                if its.grad is not None:  # it is, where a parameter is frozen
                    mine.grad += its.grad.to(mine.device)
                    self.traffic["gradients"] += its.nbytes


def _forward_of_replica(replica: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with span("forward"):
        return replica(images)


def _backward_of_replica(output: torch.Tensor, slope: torch.Tensor) -> None:
    with span("backward"):
        output.backward(slope)


def make_digit_model() -> nn.Module:
    """For threads and processes: a small network for digits, the same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def largest_difference(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of the parameters of two replicas."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return torch.stack([(a.cpu() - b.cpu()).abs().max() for a, b in pairs]).max().item()
