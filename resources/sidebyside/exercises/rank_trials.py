"""What a check runs in ranks, and how long it waits for them."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sidebyside.exercises.expectations import Expect
from sidebyside.exercises.findings import largest_difference
from sidebyside.measure.message_meter import MessageMeter
from sidebyside.ranks.launch import run_ranks


def patience(seconds: float = 20) -> float:
    """Seconds; right answers need far less. Tests of what hangs wait for less."""
    return float(os.environ.get("SIDEBYSIDE_PATIENCE", seconds))


def expect_single_messages(expect: Expect, rank: int, meter: MessageMeter) -> None:
    """No collective of the library, and each message has been waited for."""
    expect(
        not meter.collectives,
        got=f"rank {rank} called the library's {', '.join(meter.collectives)}",
        think="what you may use: single messages, between the ranks that need them",
    )
    expect(
        not meter.not_awaited,
        got=f"{meter.not_awaited} messages of rank {rank} that nobody waited for",
        think="what isend and irecv give back, and when a tensor may be used again",
    )


def expect_tensor(
    expect: Expect, where: str, got: Any, right: Tensor, think: str, close=1e-9
) -> None:
    """A tensor of the right shape, whose numbers are right but for rounding."""
    a_tensor = isinstance(got, Tensor)
    expect(a_tensor, got=f"{where}: {got}", think="what is asked for: a tensor")
    expect(
        got.shape == right.shape,
        got=f"{where} has shape {tuple(got.shape)}, not {tuple(right.shape)}",
        think="which shape the whole has here, and what of it a rank holds. A gradient "
        "has the shape of its tensor",
    )
    if got.dtype != right.dtype:
        where = f"{where}, of {got.dtype} and not {right.dtype}"
        think = "the dtype: what did you make of the numbers that you were given?"
    expect(
        torch.allclose(got.to(right.dtype), right, close, close),
        got=f"{where}: {largest_difference(got, right)}",
        think=think,
    )


def in_ranks(ranks: int) -> str:
    """The words that say in how many ranks an answer was tried."""
    return "in one rank" if ranks == 1 else f"in {ranks} ranks"


def run_trial(trial: Callable, *args: object, ranks: int, seconds: float = 20) -> list:
    """What `trial(*args)` returns in each of so many ranks."""
    return run_ranks(trial, *args, world_size=ranks, timeout=patience(seconds))
