"""A slow program, to be made parallel without changing its result."""

import math

import numpy as np


def period(angle: float) -> float:
    """The time that a pendulum takes for one swing, by many small steps."""
    step, velocity, time = 1e-4, 0.0, 0.0
    while angle > 0:
        velocity -= math.sin(angle) * step
        angle += velocity * step
        time += step
    return 4 * time


def survey(seed: int, count: int) -> float:
    """The mean period of `count` pendulums that start at random angles."""
    dice = np.random.default_rng(seed)
    total = 0.0
    for _ in range(count):
        angle = dice.uniform(0.1, 3.1)
        total += period(angle) * dice.uniform(0.9, 1.1)  # clocks are not exact
    return total / count
