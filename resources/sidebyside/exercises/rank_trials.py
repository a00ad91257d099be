"""What a check runs in ranks, and how long it waits for them."""

import os
from collections.abc import Callable

from sidebyside.ranks.launch import run_ranks


def patience(seconds: float = 20) -> float:
    """Seconds; right answers need far less. Tests of what hangs wait for less."""
    return float(os.environ.get("SIDEBYSIDE_PATIENCE", seconds))


def run_trial(trial: Callable, *args: object, ranks: int, seconds: float = 20) -> list:
    """What `trial(*args)` returns in each of so many ranks."""
    return run_ranks(trial, *args, world_size=ranks, timeout=patience(seconds))
