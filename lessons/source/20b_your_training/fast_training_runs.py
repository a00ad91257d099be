"""What the check of exercise 20b-fast runs in each rank, and what it notes."""

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from parallel_by_hand.capstone.language_model import (
    ModelSize,
    make_language_model,
    text_loss,
)
from parallel_by_hand.capstone.text_batches import text_batch
from sidebyside import MessageMeter, device
from sidebyside.exercises.any_number import as_number

SMALL = ModelSize(width=16, heads=2, blocks=1, length=8)
TIMED = ModelSize(width=64, heads=4, blocks=1, length=32)
RATE = 0.5


class FastCase(NamedTuple):
    """A training to make fast: batches of `rows` rows, in 32 or in 64 bits."""

    rows: int
    steps: int
    seed: int
    double: bool = False

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        return batches_of_fast_training(self.rows, self.steps, self.seed, SMALL.length)

    def model(self):
        dtype = torch.float64 if self.double else torch.float32
        return make_language_model(SMALL, dtype, self.seed).to(device())


class FastNotes(NamedTuple):
    """What one rank has returned, beside what one process gets; and what it did."""

    returned: object
    losses: list[float] | None
    expected_losses: list[float]
    parameters: Tensor
    expected: Tensor
    arithmetic: int  # additions and multiplications in products of matrices
    whole_arithmetic: int
    products: int  # such products
    whole_products: int
    messages: int


class FastTrainingProducts(TorchDispatchMode):
    """Counts the products of matrices that are computed inside it."""

    def __init__(self):
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.products += function._overloadpacket in PRODUCTS
        return function(*args, **(kwargs or {}))


PRODUCTS = {getattr(torch.ops.aten, name) for name in ("mm", "addmm", "bmm", "baddbmm")}


def batches_of_fast_training(rows: int, steps: int, seed: int, length: int) -> list:
    batches = [text_batch(step, seed, rows, length) for step in range(steps)]
    return [
        (x.contiguous().to(device()), y.contiguous().to(device())) for x, y in batches
    ]


def train_alone_beside_fast(model, batches, lr: float) -> list[float]:
    """One process, whole batches: what every answer is compared with."""
    losses = []
    for inputs, targets in batches:
        loss = text_loss(model(inputs), targets)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= lr * gradient
        losses.append(loss.item())
    return losses


def counted_fast_training(train: Callable, *args) -> tuple[object, int, int]:
    """What it returns, its arithmetic and its products of matrices."""
    with FastTrainingProducts() as products, FlopCounterMode(display=False) as flops:
        returned = train(*args)
    return returned, flops.get_total_flops(), products.products


def try_fast(fast_training: Callable, cases: list[FastCase]) -> list[FastNotes]:
    """Runs in each rank: train with the answer, and alone, and note both."""
    return [_try_fast_case(fast_training, case) for case in cases]


def _try_fast_case(fast_training: Callable, case: FastCase) -> FastNotes:
    alone, batches = case.model(), case.batches()
    expected, whole_arithmetic, whole_products = counted_fast_training(
        train_alone_beside_fast, alone, batches, RATE
    )
    model = case.model()
    with MessageMeter() as meter:
        returned, arithmetic, products = counted_fast_training(
            fast_training, model, batches, RATE
        )
    return FastNotes(
        returned=returned,
        losses=_losses_of_fast_training(returned),
        expected_losses=expected,
        parameters=parameters_to_vector(model.parameters()).detach().cpu(),
        expected=parameters_to_vector(alone.parameters()).detach().cpu(),
        arithmetic=arithmetic,
        whole_arithmetic=whole_arithmetic,
        products=products,
        whole_products=whole_products,
        messages=meter.messages_sent + len(meter.collectives),
    )


def _losses_of_fast_training(returned) -> list[float] | None:
    losses = (
        [as_number(x) for x in returned] if hasattr(returned, "__iter__") else [None]
    )
    return None if None in losses else losses


def fast_seconds(
    fast_training: Callable, rounds: int = 5, steps: int = 2
) -> list[float]:
    """Seconds of a step: rank 0 trains alone, then all with the answer, in turn."""
    batches = batches_of_fast_training(32, steps, 1, TIMED.length)
    seconds = {train_alone_beside_fast: [], fast_training: []}
    for turn in range(rounds + 1):  # the first is not counted
        for train, noted in seconds.items():
            model = make_language_model(TIMED).to(device())
            dist.barrier()
            began = perf_counter()
            if train is fast_training or dist.get_rank() == 0:
                train(model, batches, RATE)
            dist.barrier()
            if turn:
                noted.append((perf_counter() - began) / steps)
    return list(map(median, seconds.values()))
