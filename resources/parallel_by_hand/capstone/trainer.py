"""ONE trainer for every strategy: a strategy is a list of wrappers over a mesh.

`train` makes the model, lets each wrapper of the strategy change the training along
its dimension of the `DeviceMesh`, and takes the steps. What a wrapper may change are
four functions: which part of the batch this rank takes, how it gets gradients, how it
completes them, and how it updates. Nobody else knows how many ranks there are.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from parallel_by_hand.capstone.language_model import (
    SMALL_MODEL,
    ModelSize,
    make_language_model,
    text_loss,
)
from parallel_by_hand.capstone.text_batches import text_batches
from parallel_by_hand.capstone.whole_state import (
    Addresses,
    WholeState,
    copy_with_numbered_parameters,
    load_averages,
    load_whole_model,
    parameter_numbers_in_training,
)
from sidebyside import device

Wrapper = Callable[["Training", DeviceMesh | None], None]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class Strategy(NamedTuple):
    """What the trainer is told: the mesh, and what to do along each of its dimensions.

    `mesh` has a number of ranks for each name: {"data": 2, "tensor": 2} are four ranks,
    and those of one tensor group stand side by side. `wrappers` are applied in their
    order; each changes a `Training` and is given its dimension of the mesh, if that
    has one of its name.
    """

    mesh: dict[str, int]
    wrappers: dict[str, Wrapper]

    @property
    def ranks(self) -> int:
        return prod(self.mesh.values())


class Training:
    """What the trainer trains. Alone, it is the whole model, trained on every row."""

    def __init__(self, model: nn.Sequential, make_optimizer: MakeOptimizer):
        self.model, self.make_optimizer = model, make_optimizer
        self.deal = lambda inputs, targets: (inputs, targets)  # this rank's part
        self.backward = self.backward_alone  # fills .grad; the loss, if known here
        self.complete = lambda: None  # gradients that are still summands
        self.update = self.update_alone
        self.held = lambda: list(self.model.parameters())  # numbers this rank keeps
        self.optimizer: Any = None  # a wrapper's, or wrap_model's
        self.shards: list[Tensor] = []  # gradients kept beside the parameters' .grad
        self.units: list = []  # ZeRO-3's parameters that are borrowed
        # which of the whole model's numbers this rank has
        self.addresses: Addresses | None = None

    def backward_alone(self, inputs: Tensor, targets: Tensor) -> float:
        loss = text_loss(self.model(inputs), targets)
        loss.backward()
        return loss.item()

    def update_alone(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self, inputs: Tensor, targets: Tensor) -> float | None:
        """One step on a batch that all ranks are given alike."""
        loss = self.backward(*self.deal(inputs, targets))
        self.complete()
        self.update()
        return loss


def _text_sgd(parameters: list[nn.Parameter], lr: float = 0.1) -> torch.optim.SGD:
    """SGD with momentum: what ZeRO has to shard, and yet the same sums everywhere."""
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, foreach=False)


def make_mesh(strategy: Strategy) -> DeviceMesh | None:
    """The trainer's ranks in rows and columns with names; none for one process."""
    if not strategy.mesh:
        return None
    sizes, names = tuple(strategy.mesh.values()), tuple(strategy.mesh)
    return init_device_mesh(device().type, sizes, mesh_dim_names=names)


def wrap_model(
    strategy: Strategy, model: nn.Sequential, mesh, make_optimizer: MakeOptimizer
) -> Training:
    """The trainer's model, changed by each wrapper along its dimension of the mesh."""
    training = Training(model.to(device()), make_optimizer)
    for dimension, wrapper in strategy.wrappers.items():
        wrapper(training, mesh[dimension] if dimension in strategy.mesh else None)
    if training.optimizer is None:
        training.optimizer = make_optimizer(list(training.model.parameters()))
    return training


def train(
    strategy: Strategy,
    steps: int = 20,
    size: ModelSize = SMALL_MODEL,
    batch: int = 8,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    make_optimizer: MakeOptimizer = _text_sgd,
    start: WholeState | None = None,
    around_step: Callable[[int, Training], AbstractContextManager] | None = None,
    after_step: Callable[[int, float | None, Training], None] | None = None,
) -> Training:
    """The trainer. Runs in each rank: `steps` steps of `strategy`; the `Training`.

    `start` goes on where another training stopped, under whatever strategy that was.
    `around_step(step, training)` is a context for each step, such as a meter.
    `after_step(step, loss, training)` is called after it; the loss is the mean over
    this rank's part of the batch, or None where another rank has it.
    """
    mesh, model = make_mesh(strategy), make_language_model(size, dtype, seed)
    if start:
        load_whole_model(model, start)
    numbered = wrap_model(
        strategy, copy_with_numbered_parameters(model), mesh, make_optimizer
    )
    training = wrap_model(strategy, model, mesh, make_optimizer)
    training.addresses = parameter_numbers_in_training(numbered)
    if start:
        load_averages(training, start)
    first = start.step if start else 0
    data = text_batches(seed, batch, size.length, first)
    for step, (inputs, targets) in enumerate(islice(data, steps), first):
        with around_step(step, training) if around_step else nullcontext():
            loss = training.step(inputs.to(device()), targets.to(device()))
        if after_step:
            after_step(step, loss, training)
    return training
