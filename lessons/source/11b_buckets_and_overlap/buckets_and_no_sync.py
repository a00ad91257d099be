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
from sidebyside.message_meter import COLLECTIVES


class DdpTraffic(TorchDispatchMode):
    """Notes name and bytes of each message, and what nobody waits for."""

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
TRIED = {  # by the methods of NoSyncTrial, in their order
    "hang_hooks": "no_sync = average_with_hooks(model)",
    "backward_outside": "loss.backward()",
    "first_block": "loss.backward() inside `with no_sync():`",
    "second_block": "loss.backward() inside a second `with no_sync():`",
    "forward_before": "loss.backward() inside `with no_sync():`, which began after the "
    "forward,",
    "backward_of_another": "another model's loss.backward() inside `with no_sync():`",
    "after_error": "loss.backward() after a `with no_sync():` that ended in ValueError",
    "after_stop_button": "loss.backward() after a `with no_sync():` that ended in "
    "KeyboardInterrupt",
    "accumulate": "3 micro-batches, two of them inside no_sync,",
    "train": "3 steps of 3 micro-batches, two of them inside no_sync,",
}


def try_no_sync(average_with_hooks: Callable, frozen: bool) -> dict:
    """What travels, and which gradients there are, with the hooks on and off."""
    model = small_ddp_model(frozen=frozen)
    trial = NoSyncTrial(average_with_hooks, model, copy.deepcopy(model))
    no_sync = trial.hang_hooks()
    if not callable(no_sync):
        return {"returned": no_sync and repr(no_sync), "think": ""}
    facts = {"backward_outside": trial.backward_outside()}
    opened = _opened_by_no_sync(no_sync)
    if isinstance(opened, dict):
        return opened
    facts["first_block"] = trial.first_block(lambda: opened)
    for name in [*TRIED][3:]:  # each opens its own blocks
        facts[name] = getattr(trial, name)(no_sync)
    frozen = [p for p in model.parameters() if not p.requires_grad]
    facts["frozen"] = all(parameter.grad is None for parameter in frozen)
    facts["hooks on frozen"] = any(map(_has_hooks, frozen))
    facts["trained"] = len(list(model.parameters())) - len(frozen)
    return facts


def _opened_by_no_sync(no_sync: Callable) -> AbstractContextManager | dict:
    """What can stand after `with`; else what came back, and why it cannot."""
    try:
        opened = no_sync()
    except TypeError as error:
        think = ": return the function, without calling it"
        return {"returned": f"{no_sync!r}; called, it raised {error!r}", "think": think}
    if isinstance(opened, AbstractContextManager):
        return opened
    think = ", whose result can stand after `with`"
    if isinstance(opened, GeneratorType):
        think += ": is `@contextmanager` there?"
    return {"returned": f"a function that returns {opened!r}", "think": think}


def _has_hooks(parameter: nn.Parameter) -> bool:
    """torch keeps the hooks of a tensor in these two, and says so nowhere."""
    kinds = "_backward_hooks", "_post_accumulate_grad_hooks"
    return any(getattr(parameter, kind, None) for kind in kinds)


class NoSyncTrial:
    """The model with the learner's hooks, and the same model without any."""

    def __init__(self, hang: Callable, model: nn.Module, plain: nn.Module):
        self.hang, self.model, self.plain = hang, model, plain
        self.start = flat_ddp_model(model)
        self.images, self.labels = digits_for_ddp(STEPS * 3 * MICRO)
        self.batches = torch.arange(len(self.images)).split(MICRO)

    def hang_hooks(self) -> object:
        return self.hang(self.model)

    def backward_outside(self) -> dict:
        return self._backward([0])

    def first_block(self, no_sync: Callable) -> dict:
        with no_sync():
            return self._backward([0])

    def second_block(self, no_sync: Callable) -> dict:
        with no_sync():
            return self._backward([0])

    def forward_before(self, no_sync: Callable) -> list[tuple]:
        """What a backward inside sends whose forward was outside."""
        with DdpTraffic() as traffic:
            loss = self._loss(self.model, self._share(0))
            with no_sync():
                loss.backward()
                return list(traffic.messages)  # what comes later is another mistake

    def backward_of_another(self, no_sync: Callable) -> dict:
        another = small_ddp_model()
        other = NoSyncTrial(self.hang, another, copy.deepcopy(another))
        other.hang_hooks()
        with no_sync():
            return other.backward_outside()

    def after_error(self, no_sync: Callable) -> dict:
        return self._after(ValueError, no_sync)

    def after_stop_button(self, no_sync: Callable) -> dict:
        return self._after(KeyboardInterrupt, no_sync)

    def accumulate(self, no_sync: Callable) -> dict:
        return self._backward([0, 1, 2], no_sync)

    def train(self, no_sync: Callable) -> dict:
        """The parameters after each step of three micro-batches, two of them quiet."""
        sgd, history = torch.optim.SGD(self.model.parameters(), lr=0.5), []
        sgd.zero_grad()
        for step in range(0, 3 * STEPS, 3):
            with no_sync():
                for number in step, step + 1:
                    (self._loss(self.model, self._share(number)) / 3).backward()
            (self._loss(self.model, self._share(step + 2)) / 3).backward()
            sgd.step()
            sgd.zero_grad()
            history.append(flat_ddp_model(self.model))
        return {"together": torch.stack(history), "alone": self._train_alone()}

    def _loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(self.images[batch]), self.labels[batch])

    def _share(self, number: int) -> torch.Tensor:
        return self.batches[number][dist.get_rank() :: dist.get_world_size()]

    def _backward(self, numbers: list[int], no_sync: Callable = nullcontext) -> dict:
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

    def _after(self, error: type[BaseException], no_sync: Callable) -> dict:
        """What is left when the block ends so, and the next backward."""
        self.model.zero_grad()
        came_out = None
        try:
            with no_sync():
                self._loss(self.model, self._share(0)).backward()
                raise error
        except BaseException as caught:
            came_out = type(caught).__name__
        kept = flat_ddp_gradients(self.model)
        facts = {"raised": error.__name__, "came out": came_out, "kept": kept}
        return facts | self._backward([0])

    def _train_alone(self) -> torch.Tensor:
        """The same in one process, which has the whole batch at once."""
        sgd, history = torch.optim.SGD(self.plain.parameters(), lr=0.5), []
        for batch in torch.arange(len(self.images)).split(3 * MICRO):
            sgd.zero_grad()
            self._loss(self.plain, batch).backward()
            sgd.step()
            history.append(flat_ddp_model(self.plain))
        return torch.stack(history)
