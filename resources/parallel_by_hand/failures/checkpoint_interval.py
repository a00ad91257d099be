"""A simulated clock for failures, and the formulas for the best checkpoint interval."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

# Llama 3 (Grattafiori et al. 2024, arXiv 2407.21783, section 3.3.4): 419 unexpected
# interruptions in 54 days of training on 16,384 GPUs.
LLAMA_3_INTERRUPTIONS, LLAMA_3_DAYS, LLAMA_3_GPUS = 419, 54, 16_384


class Machine(NamedTuple):
    """What decides the checkpoint interval: what failures and saves cost a machine."""

    mean: float  # between two failures
    save: float  # for one checkpoint, while training waits
    restart: float  # from a failure until training goes on, with the checkpoint loaded


def finish_time_with_failures(
    work: float, every: float, save: float, restart: float, failures: Iterable[float]
) -> float:
    """When `work` seconds are done, with checkpoints, if failures come at these times.

    After each `every` seconds of computing a checkpoint is written, for `save`
    seconds, but not after the last. A failure, in whatever phase, throws training back
    to the last checkpoint that is whole; `restart` seconds later it goes on, unless
    the next failure comes before that. `failures` increase.
    """
    now, saved, upcoming = 0.0, 0.0, chain(failures, [math.inf])
    failure = next(upcoming)
    while True:
        last = saved + every >= work
        end = now + (work - saved if last else every + save)
        if end > failure:
            now, failure = failure + restart, next(upcoming)
        elif last:
            return end
        else:
            now, saved = end, saved + every


def progress_at_last_failure(
    every: float, save: float, restart: float, failures: Sequence[float]
) -> float:
    """Seconds of work that the last of these failures finds in a checkpoint."""
    now, saved = 0.0, 0.0
    for failure in failures:
        rounds = max(0, math.floor((failure - now) / (every + save)))
        saved += rounds * every
        now = failure + restart
    return saved


def random_failures(mean: float, seed: int = 0) -> Iterator[float]:
    """Failures between checkpoints, without memory: their gaps are exponential."""
    dice, now = random.Random(seed), 0.0
    while True:
        now += dice.expovariate(1 / mean)
        yield now


def simulated_goodput(
    every: float, machine: Machine, failures: int = 400, seed: int = 0
) -> float:
    """The share of time that is progress at this checkpoint interval, simulated."""
    work = machine.mean * failures * expected_goodput(every, machine)
    clock = random_failures(machine.mean, seed)
    return work / finish_time_with_failures(
        work, every, machine.save, machine.restart, clock
    )


def expected_goodput(every: float, machine: Machine) -> float:
    """The same for a checkpoint interval by Daly's formula, exact for such failures.

    Daly 2006, A higher order estimate of the optimum checkpoint interval for restart
    dumps, Future Generation Computer Systems 22(3).
    """
    mean, save, restart = machine
    try:
        tries = math.expm1((every + save) / mean)
    except OverflowError:
        return 0.0
    return every / (mean * math.exp(restart / mean) * tries)


def young_interval(machine: Machine) -> float:
    """Young 1974, A first order approximation to the optimum checkpoint interval."""
    return math.sqrt(2 * machine.save * machine.mean)


def daly_interval(machine: Machine) -> float:
    """Daly 2006: Young's interval with two terms more, for saves that are not short."""
    mean, save, _ = machine
    if save >= 2 * mean:
        return mean
    half = save / (2 * mean)
    return young_interval(machine) * (1 + math.sqrt(half) / 3 + half / 9) - save


def goodput_by_young(machine: Machine) -> float:
    """The expected goodput of a training with Young's checkpoint interval."""
    return expected_goodput(young_interval(machine), machine)


def best_interval(machine: Machine) -> float:
    """The checkpoint interval with the highest expected goodput, of a fine grid."""
    grid = (machine.mean * 1.005**power for power in range(-2000, 600))
    return max(grid, key=lambda every: expected_goodput(every, machine))


def hours_between_failures(gpus: int) -> float:
    """Hours, to choose a checkpoint interval for GPUs that fail as Llama 3's did."""
    of_one = LLAMA_3_DAYS * 24 * LLAMA_3_GPUS / LLAMA_3_INTERRUPTIONS
    return of_one / gpus


def goodput_spread_of_few_failures(
    every: float, machine: Machine, failures: int, trials: int = 1000
) -> tuple[float, float]:
    """The goodput over so few failures: 80 of 100 trials lie between these two."""
    found = []
    for seed in range(trials):
        few = list(islice(random_failures(machine.mean, seed), failures))
        saved = progress_at_last_failure(every, machine.save, machine.restart, few)
        found.append(saved / (few[-1] + machine.restart))
    found.sort()
    return found[trials // 10], found[trials * 9 // 10]
