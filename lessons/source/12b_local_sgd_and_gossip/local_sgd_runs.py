"""What the check of local SGD runs in each rank, and what it notes there."""

import copy
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sidebyside import device, load_digits


class LocalCase(NamedTuple):
    """`sizes`: of each rank's batches, one number for each step."""

    sizes: tuple[int, ...]
    every: int
    dtype: torch.dtype = torch.float64
    kind: str = "plain"  # or frozen, shared, batch norm: see `local_model`
    rate: float = 0.4

    def meetings(self) -> int:
        return -(-len(self.sizes) // self.every)

    def meets_after(self, step: int) -> bool:
        return step % self.every == 0 or step == len(self.sizes)


class LocalNotes(NamedTuple):
    returned: object
    model: Tensor  # all parameters afterwards
    names: dict[str, list[int]]  # numbers in each message, for each kind of message
    batches_changed: bool
    frozen_changed: bool


class NumbersSentInLocalSGD(TorchDispatchMode):
    """Notes every operation of torch.distributed, and how many numbers it is given."""

    def __init__(self):
        super().__init__()
        self.names: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in ("c10d", "_c10d_functional"):
            name = str(func).split(".")[1].strip("_")
            if name not in ("barrier", "wait_tensor"):
                given = sum(tensor.numel() for tensor in _tensors_in_local_sgd(args))
                self.names.setdefault(name, []).append(given)
        return func(*args, **(kwargs or {}))


def _tensors_in_local_sgd(value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in _tensors_in_local_sgd(part)]
    return []


def local_model(case: LocalCase) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12)
        hidden, last = [nn.Tanh()], nn.Linear(6, 10)
        if case.kind == "batch norm":
            hidden = [nn.BatchNorm1d(6), nn.Tanh()]
        if case.kind == "shared":  # one weight in two layers
            hidden = [nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)]
            hidden[2].weight = hidden[0].weight
        model = nn.Sequential(nn.Linear(64, 6), *hidden, last)
    model[0].bias.requires_grad_(case.kind != "frozen")
    return model.to(device(), case.dtype)


@cache
def _local_digits_read_once() -> tuple[Tensor, Tensor]:
    return load_digits("train")


def local_case_batches(case: LocalCase, rank: int) -> list[tuple[Tensor, Tensor]]:
    """Every rank has other images; those of a batch are never those of another."""
    images, labels = _local_digits_read_once()
    dice = torch.Generator().manual_seed(rank)
    batches = []
    for size in case.sizes:
        mine = torch.randperm(len(images), generator=dice)[:size]
        x, y = images[mine].to(device(), case.dtype), labels[mine].to(device())
        batches.append((x, y))
    return batches


def flat_local_model(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


def try_train_locally(train: Callable, cases: list[LocalCase]) -> list[LocalNotes]:
    return [_try_local_case(train, case) for case in cases]


def _try_local_case(train: Callable, case: LocalCase) -> LocalNotes:
    model = local_model(case)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, 7.0)  # left from before
    batches = local_case_batches(case, dist.get_rank())
    before, bias = copy.deepcopy(batches), model[0].bias.detach().clone()
    with NumbersSentInLocalSGD() as sent:
        returned = train(model, batches, case.rate, case.every)
    same = len(before) == len(batches) and all(
        torch.equal(a, b)
        for one, other in zip(before, batches, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    frozen_changed = case.kind == "frozen" and not torch.equal(bias, model[0].bias)
    if isinstance(returned, Tensor | nn.Module):
        returned = returned.item() if getattr(returned, "ndim", 1) == 0 else "a model"
    return LocalNotes(
        returned, flat_local_model(model), sent.names, not same, frozen_changed
    )


def trained_locally(case: LocalCase, ranks: int, meets: Callable) -> list[Tensor]:
    """The oracle: all ranks' models in one process; `meets(step)` says when."""
    models = [local_model(case) for _ in range(ranks)]
    batches = [local_case_batches(case, rank) for rank in range(ranks)]
    for step in range(len(case.sizes)):
        for model, own in zip(models, batches, strict=True):
            trained = [p for p in model.parameters() if p.requires_grad]
            loss = F.cross_entropy(model(own[step][0]), own[step][1])
            gradients = torch.autograd.grad(loss, trained)
            with torch.no_grad():
                for parameter, gradient in zip(trained, gradients, strict=True):
                    parameter -= case.rate * gradient
        if meets(step + 1):
            _set_local_models_to_mean(models)
    return [flat_local_model(model) for model in models]


@torch.no_grad()
def _set_local_models_to_mean(models: list[nn.Module]) -> None:
    for same in zip(*(model.parameters() for model in models), strict=True):
        mean = torch.stack(list(same)).mean(0)
        for parameter in same:
            parameter.copy_(mean)
