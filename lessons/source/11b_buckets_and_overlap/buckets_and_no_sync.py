"""What the checks of lesson 11b run in each rank, and what they note there."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import GeneratorType
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sidebyside import device, load_digits


class DdpTraffic(TorchDispatchMode):
    """Notes name and bytes of each collective, and what nobody waits for."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.bytes: list[int] = []
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
        collective = func.namespace in ("c10d", "_c10d_functional")
        if (
            collective
            and "barrier" not in str(func)
            and (sent := _tensors_sent_by_rank(args))
        ):
            self.names.append(func.overloadpacket.__name__)
            self.bytes.append(max(tensor.nbytes for tensor in sent))
        return func(*args, **(kwargs or {}))

    def notes(self) -> dict:
        forgotten = sum(not work.asked for work in self.started)
        names = self.names
        return {"sent": self.bytes, "names": names, "forgotten": forgotten}


class StartedAllReduce:
    """An all-reduce under way; it knows whether anybody has asked for its end."""

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


def small_ddp_model(dtype=torch.float64, frozen: bool = False) -> nn.Module:
    """In 64-bit numbers, what is left of a difference is a mistake, not rounding."""
    torch.manual_seed(11)
    model = ScaledLayers()
    model.first[0].bias.requires_grad_(not frozen)
    return model.to(device(), dtype)


def digits_for_ddp(
    samples: int, dtype=torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits("train")
    return images[:samples].to(device(), dtype), labels[:samples].to(device())


def flat_ddp_model(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


def flat_ddp_gradients(model: nn.Module) -> torch.Tensor:
    """All gradients in one vector; zeros where there is none."""
    return torch.cat(
        [
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten().cpu()
            for p in model.parameters()
        ]
    ).clone()


# 11b-buckets --------------------------------------------------------------------------

SHAPES = [(30, 8), (), (30,), (40, 30), (40,), (20, 40), (20,), (20, 20), (20,)]
SHAPES += [(5, 20), (5,)]


class Buckets(NamedTuple):
    """A case for average_gradients: the parameters at `without` have no gradient."""

    bucket_bytes: int
    dtype: torch.dtype = torch.float32
    without: tuple[int, ...] = ()


def try_buckets(average_gradients: Callable, cases: list[Buckets]) -> list[dict]:
    """What becomes of the gradients in each case, and what travels.

    The parameters are the same in all cases, as they are in all steps of a training.
    """
    options = {"device": device(), "dtype": cases[0].dtype}
    parameters = [nn.Parameter(torch.zeros(shape, **options)) for shape in SHAPES]
    return [_try_case_of_buckets(average_gradients, parameters, c) for c in cases]


def _try_case_of_buckets(
    average_gradients: Callable, parameters: list[nn.Parameter], case: Buckets
) -> dict:
    generator = torch.Generator().manual_seed(dist.get_rank())
    for place, parameter in enumerate(parameters):
        parameter.requires_grad_(place not in case.without)
        parameter.grad = None
        if place not in case.without:
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = gradient.to(parameter)
    before, given = _gradients_in_rank(parameters), list(parameters)
    with DdpTraffic() as traffic:
        average_gradients(given, case.bucket_bytes)
    return traffic.notes() | {
        "before": before,
        "after": _gradients_in_rank(parameters),
        "moved": any(parameter.abs().max() > 0 for parameter in parameters),
        "list": list(map(id, given)) == list(map(id, parameters)),
    }


def _gradients_in_rank(parameters: list[nn.Parameter]) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.cpu().clone() for p in parameters]


# 11b-no-sync --------------------------------------------------------------------------

STEPS, MICRO = 3, 30  # 30 samples can be shared among 1, 2, 3 and 5 ranks


def try_no_sync(average_with_hooks: Callable, frozen: bool) -> dict:
    """What travels, and which gradients there are, with the hooks on and off."""
    model = small_ddp_model(frozen=frozen)
    trial = NoSyncTrial(model, copy.deepcopy(model))
    no_sync = average_with_hooks(model)
    if facts := _why_no_sync_cannot_stand_after_with(no_sync):
        return facts
    facts = {"plain": trial.backward([0])}
    with no_sync():
        facts["quiet"] = trial.backward([0])
    facts["sent after a forward outside"] = trial.forward_before(no_sync)
    another = small_ddp_model()
    average_with_hooks(another)
    other = NoSyncTrial(another, copy.deepcopy(another))
    with no_sync():
        facts["other's"] = other.backward([0])["sent"]
    for error in ValueError, KeyboardInterrupt:
        facts[error.__name__] = trial.after_error(no_sync, error)
    facts["accumulated"] = trial.backward([0, 1, 2], no_sync)
    frozen = [p for p in model.parameters() if not p.requires_grad]
    facts["frozen"] = all(parameter.grad is None for parameter in frozen)
    facts["hooks on frozen"] = any(map(_has_hooks, frozen))
    facts["trained"] = len(list(model.parameters())) - len(frozen)
    model.zero_grad()
    return facts | {"together": trial.train(no_sync), "alone": trial.train_alone()}


def _why_no_sync_cannot_stand_after_with(no_sync) -> dict:
    """What came back, and why `with no_sync():` is not possible; empty if it is."""
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
    with opened:  # what has been opened is closed again
        return {}


def _has_hooks(parameter: nn.Parameter) -> bool:
    """torch keeps the hooks of a tensor in these two, and says so nowhere."""
    kinds = "_backward_hooks", "_post_accumulate_grad_hooks"
    return any(getattr(parameter, kind, None) for kind in kinds)


class NoSyncTrial:
    """The model with the learner's hooks, and the same model without any."""

    def __init__(self, model: nn.Module, plain: nn.Module):
        self.model, self.plain, self.start = model, plain, flat_ddp_model(model)
        self.images, self.labels = digits_for_ddp(STEPS * 3 * MICRO)
        self.batches = torch.arange(len(self.images)).split(MICRO)

    def _loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(self.images[batch]), self.labels[batch])

    def _share(self, number: int) -> torch.Tensor:
        return self.batches[number][dist.get_rank() :: dist.get_world_size()]

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
        notes["moved"] = not torch.equal(flat_ddp_model(self.model), self.start)
        for number in numbers:
            notes["before the last"] = flat_ddp_gradients(self.plain)
            self._loss(self.plain, self._share(number)).backward()
        return notes | {"own": flat_ddp_gradients(self.plain)}

    def forward_before(self, no_sync: Callable) -> list[int]:
        """What a backward inside sends whose forward was outside."""
        with DdpTraffic() as traffic:
            loss = self._loss(self.model, self._share(0))
            with no_sync():
                loss.backward()
                return list(traffic.bytes)  # what comes later is another mistake

    def after_error(self, no_sync: Callable, error: type[BaseException]) -> dict:
        try:
            with no_sync():
                raise error
        except error:
            return self.backward([0])
        return {"swallowed": True}

    def train(self, no_sync: Callable) -> torch.Tensor:
        """The parameters after each step of three micro-batches, two of them quiet."""
        sgd, history = torch.optim.SGD(self.model.parameters(), lr=0.5), []
        for step in range(0, 3 * STEPS, 3):
            with no_sync():
                for number in step, step + 1:
                    (self._loss(self.model, self._share(number)) / 3).backward()
            (self._loss(self.model, self._share(step + 2)) / 3).backward()
            sgd.step()
            sgd.zero_grad()
            history.append(flat_ddp_model(self.model))
        return torch.stack(history)

    def train_alone(self) -> torch.Tensor:
        """The same in one process, which has the whole batch at once."""
        sgd, history = torch.optim.SGD(self.plain.parameters(), lr=0.5), []
        for batch in torch.arange(len(self.images)).split(3 * MICRO):
            sgd.zero_grad()
            self._loss(self.plain, batch).backward()
            sgd.step()
            history.append(flat_ddp_model(self.plain))
        return torch.stack(history)
