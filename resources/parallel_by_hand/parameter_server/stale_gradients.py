"""How large a step may be when the gradient is old: a theorem, and trials."""

from collections import deque
from math import pi, sin


def delayed_descent(
    curvature: float, step: float, delay: int, updates: int
) -> list[float]:
    """Gradient descent on curvature * x² / 2, with gradients `delay` updates old.

    x begins at 1, and was 1 before. Ends early when x is beyond a million.
    """
    recent = deque([1.0] * (delay + 1), maxlen=delay + 1)  # the oldest comes first
    path = [1.0]
    for _ in range(updates):
        recent.append(recent[-1] - step * curvature * recent[0])
        path.append(recent[-1])
        if abs(path[-1]) > 1e6:
            break
    return path


def _is_stable_step(curvature: float, step: float, delay: int) -> bool:
    """Does x go to 0? Judged by the last of so many updates that 1 % decides."""
    updates = 2000 + 1000 * delay
    path = delayed_descent(curvature, step, delay, updates)
    last = path[-(8 * delay + 10) :]  # more than a whole swing
    return len(path) > updates and max(map(abs, last)) < 1


def found_stable_step(curvature: float, delay: int) -> float:
    """With stale gradients, the largest stable step, by bisection."""
    low, high = 0.0, 2 / curvature  # stable; the limit for a gradient that is fresh
    for _ in range(12):
        middle = (low + high) / 2
        if _is_stable_step(curvature, middle, delay):
            low = middle
        else:
            high = middle
    return high


def predicted_stable_step(curvature: float, delay: int) -> float:
    """With stale gradients: 2 sin(π / (2 (2 delay + 1))) / curvature.

    On the edge x swings: x(t) = exp(i θ t). Put into x(t+1) = x(t) - a x(t - delay),
    with a = step * curvature, that gives θ = π / (2 delay + 1) and a = 2 sin(θ / 2).
    """
    return 2 * sin(pi / (2 * (2 * delay + 1))) / curvature
