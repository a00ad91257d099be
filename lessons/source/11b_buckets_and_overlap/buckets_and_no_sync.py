"""What the checks of lesson 11b run in each rank, and what they note there."""

import copy
from collections.abc import Callable
from contextlib import nullcontext, suppress

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sidebyside import device, load_digits
from sidebyside.measure.message_meter import COLLECTIVES


class DdpTraffic(TorchDispatchMode):
    """Notes name and bytes of each message, and how many are not waited for."""

    def __init__(self):
        super().__init__()
        self.messages: list[tuple[str, int]] = []
        self.started: list[StartedAllReduce] = []

    def __enter__(self):
        self.library = dist.all_reduce
        dist.all_reduce = self._all_reduce
        return super().__enter__()

    def __exit__(self, *error):
        dist.all_reduce = self.library
        return super().__exit__(*error)

    def _all_reduce(self, *args, **kwargs):
        work = self.library(*args, **kwargs)
        if work is not None:  # async_op=True
            work = StartedAllReduce(work)
            self.started.append(work)
        return work

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        message = func.namespace in ("c10d", "_c10d_functional")
        if message and (sent := _tensors_sent_by_rank(args)):  # a barrier has one, too
            name = func.overloadpacket.__name__.rstrip("_")
            size = sum(tensor.nbytes for tensor in sent)
            self.messages.append((COLLECTIVES.get(name, name), size))
        return func(*args, **(kwargs or {}))

    def notes(self) -> dict:
        forgotten = sum(not work.asked for work in self.started)
        return {"messages": self.messages, "forgotten": forgotten}


class StartedAllReduce:
    """An all-reduce under way; it knows whether it was asked for its end."""

    def __init__(self, work: dist.Work):
        self.work, self.asked = work, False

    def __getattr__(self, name: str):  # wait, is_completed, get_future
        self.asked = True
        return getattr(self.work, name)


def _tensors_sent_by_rank(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in _tensors_sent_by_rank(part)]
    return []


class ScaledLayers(nn.Module):
    """A parameter of its own, a layer, and a layer within a layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(10))
        self.first = nn.Sequential(nn.Linear(64, 12), nn.ReLU())
        self.second = nn.Linear(12, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.scale * self.second(self.first(images))


def small_ddp_model() -> nn.Module:
    """In 64-bit numbers, what is left of a difference is a mistake, not rounding."""
    torch.manual_seed(11)
    return ScaledLayers().to(device(), torch.float64)


def flat_ddp_gradients(model: nn.Module) -> torch.Tensor:
    """All gradients in one vector; zeros where there is none."""
    gradients = [
        torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()
    ]
    return torch.cat([gradient.flatten().cpu() for gradient in gradients]).clone()


# 11b-buckets --------------------------------------------------------------------------

SHAPES = [(30, 8), (), (30,), (40, 30), (40,), (20, 40), (20,), (20, 20), (20,)]
SHAPES += [(5, 20), (5,)]


def try_buckets(average_gradients: Callable, limits: list[int]) -> list[dict]:
    """What becomes of the gradients with each limit, and what travels.

    The parameters are the same in all cases, as they are in all steps of a training.
    """
    parameters = [nn.Parameter(torch.zeros(s, device=device())) for s in SHAPES]
    return [_try_limit(average_gradients, parameters, limit) for limit in limits]


def _try_limit(
    average_gradients: Callable, parameters: list[nn.Parameter], bucket_bytes: int
) -> dict:
    generator = torch.Generator().manual_seed(dist.get_rank())
    for parameter in parameters:
        gradient = torch.randn(parameter.shape, generator=generator)
        parameter.grad = gradient.to(parameter)
    before = _gradients_in_rank(parameters)
    with DdpTraffic() as traffic:
        average_gradients(list(parameters), bucket_bytes)
    after = _gradients_in_rank(parameters)
    return traffic.notes() | {"before": before, "after": after}


def _gradients_in_rank(parameters: list[nn.Parameter]) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.cpu().clone() for p in parameters]


# 11b-no-sync --------------------------------------------------------------------------

MICRO = 30  # samples can be shared among 1, 2 and 3 ranks


def try_no_sync(average_with_hooks: Callable) -> dict:
    """What travels, and which gradients there are, with the hooks on and off."""
    trial = NoSyncTrial(small_ddp_model())
    no_sync = average_with_hooks(trial.model)
    facts = {"outside": trial.backward([0])}
    with no_sync():
        facts["inside"] = trial.backward([0])
    facts["accumulate"] = trial.backward([0, 1, 2], no_sync)
    with suppress(ValueError), no_sync():
        raise ValueError
    facts["after"] = trial.backward([0])
    facts["trained"] = len(list(trial.model.parameters()))
    return facts


class NoSyncTrial:
    """A model that gets the learner's hooks, and the same model without any."""

    def __init__(self, model: nn.Module):
        self.model, self.plain = model, copy.deepcopy(model)
        images, labels = (t[: 3 * MICRO] for t in load_digits("train"))
        self.images, self.labels = (
            images.to(device(), torch.float64),
            labels.to(device()),
        )
        self.batches = torch.arange(len(images)).split(MICRO)

    def backward(self, numbers: list[int], no_sync: Callable = nullcontext) -> dict:
        """From no gradient on: backward over these, inside no_sync but for the last."""
        self.model.zero_grad()
        self.plain.zero_grad()
        with DdpTraffic() as traffic:
            with no_sync():
                for number in numbers[:-1]:
                    self._loss(self.model, self._share(number)).backward()
            self._loss(self.model, self._share(numbers[-1])).backward()
        notes = traffic.notes() | {"gradient": flat_ddp_gradients(self.model)}
        for number in numbers:
            notes["before the last"] = flat_ddp_gradients(self.plain)
            self._loss(self.plain, self._share(number)).backward()
        return notes | {"own": flat_ddp_gradients(self.plain)}

    def _loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(self.images[batch]), self.labels[batch])

    def _share(self, number: int) -> torch.Tensor:
        return self.batches[number][dist.get_rank() :: dist.get_world_size()]
