"""The checks of lesson 12a: bounded staleness, the stable step, backup workers."""

import copy
import itertools
import math
import os
import random
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np
import torch

from demos.parameter_server.stale_gradients import predicted_stable_step
from sidebyside import run_ranks
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying

from .bounded_programs import serve_scripted_workers

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))


# 12a-bounded --------------------------------------------------------------------------

BY_HAND = [
    ({1: 5, 2: 3, 3: 2}, [1, 2], 1),
    ({1: 5, 2: 3, 3: 2}, [1, 2], 3),
    ({1: 5, 2: 3, 3: 2}, [1, 2], 0),
    ({1: 5, 2: 5, 3: 2}, [1, 2], 2),
    ({1: 0, 2: 0, 3: 0}, [1, 2, 3], 0),
    ({1: 7}, [1], 0),
    ({1: 4, 2: 4}, [], 5),
    ({4: 9, 2: 1, 3: 1}, [3, 4, 2], 0),
    ({1: 70_002, 2: 70_001, 3: 70_000}, [1, 2], 1),
]


@exercise("12a-bounded", in_ranks=True, when_hung="whether some worker always goes on")
def check_12a_bounded(who_goes_on):
    for pushes, waiting, bound in BY_HAND:
        _expect_who_goes_on(who_goes_on, pushes, waiting, bound)
    dice = random.Random(12)
    for workers, bound in itertools.product((1, 2, 3, 5, 8), (0, 1, 2, 5, 100)):
        for _ in range(6):
            pushes = {w: dice.randint(0, 8) for w in dice.sample(range(1, 20), workers)}
            waiting = dice.sample(sorted(pushes), dice.randint(0, workers))
            _expect_who_goes_on(who_goes_on, pushes, waiting, bound)
    _expect_bounded_ranks(who_goes_on)


def _expect_who_goes_on(
    who_goes_on: Callable, pushes: dict, waiting: list, bound
) -> None:
    with trying(
        f"who_goes_on({pushes}, {waiting}, {bound})", pushes, waiting
    ) as expect:
        slowest = min(pushes.values())
        right = [worker for worker in waiting if pushes[worker] <= slowest + bound]
        got = who_goes_on(pushes, waiting, bound)
        expect(
            isinstance(got, list | tuple),
            got=got,
            think="what is to be returned: a list of workers",
        )
        expect(
            list(got) == right, got=got, think=_think_of_who_goes_on(got, right, pushes)
        )


def _think_of_who_goes_on(got, right: list, pushes: dict) -> str:
    got = list(got)
    if sorted(map(str, got)) == sorted(map(str, right)):
        return "the order: that of `waiting`, first come, first served"
    few = [worker for worker in pushes if pushes[worker] == min(pushes.values())]
    slowest = f"the slowest is {few[0]}, with {pushes[few[0]]} gradients"
    if set(map(str, right)) < set(map(str, got)):
        return f"who may not go on: {slowest}, and it counts also while it computes"
    return f"how far ahead is allowed: up to and including the bound; {slowest}"


def _expect_bounded_ranks(who_goes_on: Callable) -> None:
    """In real processes: three workers, and a server that answers."""
    for bound in (0, 2):
        call = "serve_at_once(...) in a server with 3 workers, your function with "
        with trying(call + f"bound = {bound}") as expect:
            goes = partial(_who_goes_on_with_bound, who_goes_on, bound)
            ranks = run_ranks(
                serve_scripted_workers, goes, world_size=4, timeout=PATIENCE
            )
            ahead, updates = ranks[0]
            expect(
                updates == 12 and ahead <= bound + 1,
                got=f"{updates} updates; a worker got {ahead} gradients ahead",
                think="who may go on: a worker that is let go may push once more, so "
                "it is never more than bound + 1 ahead",
            )


def _who_goes_on_with_bound(who_goes_on: Callable, bound: int, pushes, waiting):
    return who_goes_on(pushes, waiting, bound)


# 12a-stable ---------------------------------------------------------------------------

CURVATURES = {0: 1.0, 1: 1.0, 2: 3.0, 3: 0.25, 4: 1.0, 6: 10.0, 8: 0.1, 16: 1.0}


@exercise("12a-stable", seconds=60)
def check_12a_stable(stable_step):
    _expect_stable_step(stable_step, 25.0, 0)
    for delay, curvature in CURVATURES.items():
        _expect_stable_step(stable_step, curvature, delay)
    _expect_stable_step(stable_step, 7, 5)
    _expect_stable_step(stable_step, 0.01, 0)
    _expect_stable_step(stable_step, 2000.0, 1)


def _expect_stable_step(stable_step: Callable, curvature: float, delay: int) -> None:
    with trying(f"stable_step({curvature}, {delay})") as expect:
        got = stable_step(curvature, delay)
        number = as_number(got)
        expect(number is not None, got=got, think="what is to be returned: one number")
        best = predicted_stable_step(curvature, delay)
        apart = number / best - 1 if math.isfinite(number) else math.inf
        expect(
            abs(apart) <= 0.0105,
            got=number,
            think=_think_of_stable_step(number, curvature, delay),
        )


def _think_of_stable_step(number: float, curvature: float, delay: int) -> str:
    def is_step(c: float, d: int) -> bool:
        return math.isclose(number, predicted_stable_step(c, d), rel_tol=0.011)

    if is_step(1.0, delay):
        return "the curvature: the gradient at x is curvature * x"
    if delay and is_step(curvature, 0):
        return "which x the gradient is taken at: the one from `delay` updates ago"
    if is_step(curvature, delay + 1) or (delay and is_step(curvature, delay - 1)):
        return (
            "how old the gradient is: without a delay it is taken at the newest x, "
            "with a delay of 1 at the x before that. Or do you stop where x swings? "
            "Swinging is allowed"
        )
    if number > predicted_stable_step(curvature, delay):
        return (
            "whether x really goes to 0 with this step: near the edge it grows by a "
            "thousandth in an update, and swings. How many updates do you look at"
        )
    return (
        "whether x really runs away with a step that is 1 % larger: near the edge it "
        "shrinks very slowly, and swings. And how far does your bisection go"
    )


# 12a-backup ---------------------------------------------------------------------------

THREE = [[1.0] * 6, [2.0] * 6, [4.5, 1.0, 1.0, 1.0, 1.0, 1.0]]


@exercise("12a-backup")
def check_12a_backup(backup):
    for needed, rounds in ((2, 3), (3, 3), (2, 1), (2, 2), (1, 1)):
        _expect_backup_workers(backup, copy.deepcopy(THREE), needed, rounds)
    random_numbers = np.random.default_rng(12)
    for workers in (1, 2, 3, 5, 8):
        for needed in {1, max(1, workers - 1), max(1, workers - 2), workers}:
            for rounds in (1, 2, 7, 20):
                tail = 0.2 * random_numbers.pareto(1.2, (workers, 60 * rounds)) + 0.5
                _expect_backup_workers(backup, tail.tolist(), needed, rounds)


def _expect_backup_workers(
    backup: Callable, seconds: list, needed: int, rounds: int
) -> None:
    call = f"backup(seconds of {len(seconds)} workers, {needed}, {rounds})"
    if seconds == THREE:
        call = f"backup({seconds}, {needed}, {rounds})"
    with trying(call, seconds) as expect:
        got = backup(seconds, needed, rounds)
        pair = isinstance(got, tuple | list | np.ndarray | torch.Tensor)
        pair = pair and len(got) == 2 and None not in map(as_number, got)
        expect(pair, got=got, think="what is to be returned: seconds, and a count")
        end, thrown = map(as_number, got)
        right_end, right_thrown = backup_workers_by_events(seconds, needed, rounds)
        think = _think_of_backup_workers(end, seconds, needed, rounds)
        expect(math.isclose(end, right_end, rel_tol=1e-9), got=got, think=think)
        expect(
            thrown == right_thrown,
            got=got,
            think="which gradients are thrown away: those that have arrived, after "
            "their round was over, before the last round ends; not those under way",
        )


def _think_of_backup_workers(
    end: float, seconds: list, needed: int, rounds: int
) -> str:
    if len(seconds) > needed and math.isclose(
        end, backup_workers_by_events(seconds, len(seconds), rounds)[0]
    ):
        return f"how many gradients end a round: the first {needed}"
    fresh = sum(sorted(row[r] for row in seconds)[needed - 1] for r in range(rounds))
    if math.isclose(end, fresh):
        return (
            "what a late worker does when a round ends without it: it finishes its "
            "gradient first, which is thrown away, and pulls only then"
        )
    return (
        "who works on what: a late worker finishes, its gradient does not count, it "
        "pulls the newest parameters at once, and may still be among the first of the "
        "round that is on"
    )


def backup_workers_by_events(
    seconds: list, needed: int, rounds: int
) -> tuple[float, int]:
    """Gradient after gradient, in the order in which they arrive."""
    takes = [iter(row) for row in seconds]
    under_way = [(next(row), worker, 0) for worker, row in enumerate(takes)]
    heapify(under_way)
    done, thrown, waiting, now = 0, 0, [], 0.0
    while done < rounds:
        now, worker, of_round = heappop(under_way)
        going = [worker]
        if of_round < done:
            thrown += 1
        else:
            waiting.append(worker)
            going = []
            if len(waiting) == needed:
                done, going, waiting = done + 1, waiting, []
        for free in going:
            heappush(under_way, (now + next(takes[free]), free, done))
    return now, thrown
