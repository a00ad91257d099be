"""Compare ways to do the same work, fairly enough for a noisy machine."""

import statistics
from collections.abc import Callable
from time import perf_counter

from sidebyside.programs.passing import passing_line


class Comparison:
    """Seconds of each alternative in each round, and what follows, by their names."""

    def __init__(
        self,
        seconds: dict[str, list[float]],
        results: dict,
        ceiling: float | None,
    ):
        self.seconds = seconds
        self.results = results  # what the last call of each has returned
        self.ceiling = ceiling
        self.median = {name: statistics.median(t) for name, t in seconds.items()}
        first = next(iter(self.median.values()))
        self.speedup = {name: first / median for name, median in self.median.items()}

    def __repr__(self) -> str:
        rounds = len(next(iter(self.seconds.values())))
        wide = max(map(len, ["alternative", *self.seconds]))
        head = f"{'alternative':<{wide}}  {'median':>10}  {'fastest to slowest':>24}"
        lines = [head + f"  {'speedup':>9}"]
        for name, times in self.seconds.items():
            spread = f"{_compared(min(times))} to {_compared(max(times))}"
            lines.append(
                f"{name:<{wide}}  {_compared(self.median[name]):>10}  {spread:>24}"
                f"  {self.speedup[name]:>7.2f} ×"
            )
        lines.append(f"({rounds} rounds in turn)")
        if self.ceiling is not None:
            lines[0] += "  of capacity"
            for place, speedup in enumerate(self.speedup.values(), start=1):
                lines[place] += f"  {100 * speedup / self.ceiling:>9.0f} %"
            lines[-1] = f"({rounds} rounds in turn; capacity {self.ceiling:.2f} ×)"
        return "\n".join(lines)


def _compared(seconds: float) -> str:
    for factor, unit in (1, "s"), (1e3, "ms"):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def compare(
    workers: int = 1, rounds: int = 5, **alternatives: Callable[[], object]
) -> Comparison:
    """Time each of `alternatives` once per round, in turn, `rounds` times.

    Each is a function without arguments that does the same work in another way;
    before the first round each is called once to warm up. A machine that gets slower
    for a while slows all of them, not one. The speedup is against the first
    alternative, and with `workers` above 1 also given as a share of what that many
    busy processes get out of this machine (`machine().capacity(workers)`, measured
    here and now).
    """
    if not alternatives:
        raise ValueError("name at least one alternative: compare(serial=f, threads=g)")
    for name, alternative in alternatives.items():
        if not callable(alternative):
            raise ValueError(
                f"{name} must be a function without arguments, not "
                f"{type(alternative).__name__}: write {name}=lambda: ..."
            )
    for name, value in ("rounds", rounds), ("workers", workers):
        if not isinstance(value, int) or value < 1:
            raise ValueError(
                f"{name} must be a whole number of at least 1, not {value!r}"
            )
    ceiling = None
    if workers > 1:
        from sidebyside.measure.machines import machine

        ceiling = machine().capacity(workers)
    results, seconds = {}, {name: [] for name in alternatives}
    with passing_line() as say:
        for number in range(rounds + 1):  # round 0 warms up
            for name, alternative in alternatives.items():
                say(f"round {number} of {rounds}: {name}")
                began = perf_counter()
                results[name] = alternative()
                if number:
                    seconds[name].append(perf_counter() - began)
    return Comparison(seconds, results, ceiling)
