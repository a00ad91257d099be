"""What helps against stale gradients: remedies with the same budget of seconds."""

from functools import partial
from statistics import median

from torch import Tensor

from parallel_by_hand.parameter_server.digits_server import digits_server_loss
from parallel_by_hand.parameter_server.server_and_workers import within_bound
from parallel_by_hand.parameter_server.simulated_server import (
    gradient_seconds,
    simulate_at_once,
    simulate_in_step,
)

RATE, WORKERS = 1.0, 16
AT_ONCE = {  # name: options of simulate_at_once
    "one worker alone": {"workers": 1},
    "at once": {},
    "at once, bound 2": {"who_goes_on": partial(within_bound, bound=2)},
    "at once, step / 16": {"rate": lambda stale: RATE / 16},
    "at once, step / 16, bound 2": {
        "rate": lambda stale: RATE / 16,
        "who_goes_on": partial(within_bound, bound=2),
    },
    "at once, step / 16, 10 s of warm-up": {
        "rate": lambda stale: RATE / 16,
        "alone": 10.0,
    },
    "at once, step / (1 + staleness)": {"rate": lambda stale: RATE / (1 + stale)},
}
IN_STEP = {"in step": WORKERS, "in step, 2 of the 16 are backup": WORKERS - 2}
REMEDIES = [*AT_ONCE, *IN_STEP]


def _train_one(name: str, budget: float, seed: int) -> tuple[Tensor, int]:
    """The parameters after `budget` simulated seconds, and the number of updates."""
    if name in IN_STEP:
        parameters, rounds, _ = simulate_in_step(
            WORKERS, IN_STEP[name], budget, RATE, gradient_seconds, seed
        )
        return parameters, rounds
    options = {"workers": WORKERS, "rate": lambda stale: RATE} | AT_ONCE[name]
    parameters, staleness = simulate_at_once(
        budget=budget, seconds_of=gradient_seconds, seed=seed, **options
    )
    return parameters, len(staleness)


def compare_remedies(budget: float, seeds: int) -> dict[str, tuple[list[float], float]]:
    """For each remedy the loss of each seed, and the median of the updates made."""
    found = {}
    for name in REMEDIES:
        runs = [_train_one(name, budget, seed) for seed in range(seeds)]
        losses = [digits_server_loss(parameters) for parameters, _ in runs]
        found[name] = losses, median(updates for _, updates in runs)
    return found
