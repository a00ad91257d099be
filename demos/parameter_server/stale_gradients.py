"""How large may a step be when the gradient is old? A theorem, found by trying.

Run:      python demos/parameter_server/stale_gradients.py --curvature 2
Look for: found and predicted agree within 1 %. A delay of one halves the largest stable
          step, and from then on it falls about as 1 / delay.
Try:      --delays 32 64: is the step halved again when the delay doubles?
"""

import argparse
from collections import deque
from math import pi, sin

from sidebyside import at_least, between
from sidebyside.programs import run_program


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


def is_stable_step(curvature: float, step: float, delay: int) -> bool:
    """Does x go to 0? Judged by the last of so many updates that 1 % decides."""
    updates = 2000 + 1000 * delay
    path = delayed_descent(curvature, step, delay, updates)
    last = path[-(8 * delay + 10) :]  # more than a whole swing
    return len(path) > updates and max(map(abs, last)) < 1


def found_stable_step(curvature: float, delay: int) -> float:
    """The largest stable step, by bisection."""
    low, high = 0.0, 2 / curvature  # stable; the limit for a gradient that is fresh
    for _ in range(12):
        middle = (low + high) / 2
        if is_stable_step(curvature, middle, delay):
            low = middle
        else:
            high = middle
    return high


def predicted_stable_step(curvature: float, delay: int) -> float:
    """2 sin(π / (2 (2 delay + 1))) / curvature.

    On the edge x swings: x(t) = exp(i θ t). Put into x(t+1) = x(t) - a x(t - delay),
    with a = step * curvature, that gives θ = π / (2 delay + 1) and a = 2 sin(θ / 2).
    """
    return 2 * sin(pi / (2 * (2 * delay + 1))) / curvature


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--curvature", type=between(0.001, 1000), default=1.0)
    parser.add_argument(
        "--delays", type=at_least(0, 64), nargs="+", default=[0, 1, 2, 4, 8, 16]
    )
    args = parser.parse_args()
    print("delay   found  predicted   apart")
    for delay in args.delays:
        found = found_stable_step(args.curvature, delay)
        predicted = predicted_stable_step(args.curvature, delay)
        apart = 100 * (found / predicted - 1)
        print(f"{delay:5} {found:7.4f} {predicted:10.4f} {apart:+6.2f} %")


if __name__ == "__main__":
    run_program(main)
