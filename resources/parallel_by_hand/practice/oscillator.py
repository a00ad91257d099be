"""One task of lesson 07: the path of an oscillator, solved in steps of varying length.

The van der Pol oscillator x'' = mu (1 - x²) x' - x swings for ever. With a large mu it
creeps for a long time and then jumps. It is stiff then: while it creeps, the solver
needs many small steps, or it would blow up.
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from sidebyside import span

SECONDS, SAMPLES = 20.0, 50  # how long the oscillator is followed; rows per task
COLUMNS = ("task", "mu", "time", "x", "velocity")


class OscillatorTask(NamedTuple):
    """The number of an oscillator, and its seed."""

    number: int
    seed: np.random.SeedSequence


def oscillator_tasks(seed: int, count: int) -> list[OscillatorTask]:
    """`count` oscillators to solve, each task with a seed of its own."""
    children = np.random.SeedSequence(seed).spawn(count)
    return [OscillatorTask(number, child) for number, child in enumerate(children)]


def _change(time: float, state: np.ndarray, mu: float) -> tuple[float, float]:
    """How fast place and velocity change."""
    x, velocity = state
    return velocity, mu * (1 - x * x) * velocity - x


def solve_oscillator(mu: float, x: float, times: np.ndarray | None = None):
    """The oscillator's path from rest at x, by Runge-Kutta with steps that vary."""
    return solve_ivp(
        _change, (0, SECONDS), (x, 0.0), method="RK45", t_eval=times,
        args=(mu,), rtol=1e-4, atol=1e-6,
    )  # fmt: skip


def simulate_oscillator(task: OscillatorTask) -> np.ndarray:
    """A random oscillator: 50 rows of task, mu, time, x, velocity (2000 bytes)."""
    with span(f"task {task.number}"):
        dice = np.random.default_rng(task.seed)
        mu = 50 ** dice.uniform(0, 1)  # from 1 to 50, small ones as often as large ones
        times = np.linspace(0, SECONDS, SAMPLES)
        path = solve_oscillator(mu, dice.uniform(0.5, 2), times)
        known = np.full(SAMPLES, task.number), np.full(SAMPLES, mu)
        return np.column_stack([*known, path.t, *path.y])
