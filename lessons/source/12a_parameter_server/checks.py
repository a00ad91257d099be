"""The checks of lesson 12a: bounded staleness, the stable step, backup workers."""

import copy
import itertools
import math
import random
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from parallel_by_hand.parameter_server.stale_gradients import (
    delayed_descent,
    predicted_stable_step,
)
from sidebyside.exercises.check import exercise, trying

# 12a-bounded --------------------------------------------------------------------------

BY_HAND = [
    ({1: 5, 2: 3, 3: 2}, [1, 2], 1),
    ({1: 5, 2: 3, 3: 2}, [1, 2], 3),
    ({1: 5, 2: 3, 3: 2}, [1, 2], 0),
    ({4: 9, 2: 1, 3: 1}, [3, 4, 2], 0),
    ({1: 70_002, 2: 70_001, 3: 70_000}, [1, 2], 1),
]


@exercise("12a-bounded")
def check_12a_bounded(who_goes_on):
    for pushes, waiting, bound in BY_HAND:
        _expect_who_goes_on(who_goes_on, pushes, waiting, bound)
    dice = random.Random(12)
    for workers, bound in itertools.product((1, 2, 3, 5), (0, 1, 2, 5)):
        for _ in range(6):
            pushes = {w: dice.randint(0, 8) for w in dice.sample(range(1, 20), workers)}
            waiting = dice.sample(sorted(pushes), dice.randint(1, workers))
            _expect_who_goes_on(who_goes_on, pushes, waiting, bound)


def _expect_who_goes_on(
    who_goes_on: Callable, pushes: dict, waiting: list, bound
) -> None:
    with trying(
        f"who_goes_on({pushes}, {waiting}, {bound})", pushes, waiting
    ) as expect:
        slowest = min(pushes.values())
        right = [worker for worker in waiting if pushes[worker] <= slowest + bound]
        going = who_goes_on(pushes, waiting, bound)
        think = "what is to be returned: a list of workers"
        expect(isinstance(going, list | tuple), got=going, think=think)
        few = min(pushes, key=pushes.get)
        behind = f"the slowest is {few}, which has pushed {pushes[few]}"
        got = f"{going}, right is {right}"
        think = f"which workers have asked for an answer: those in {waiting}"
        expect(set(going) <= set(waiting), got=got, think=think)
        think = f"which workers may not go on: {behind}, whether it waits or not"
        expect(set(going) <= set(right), got=got, think=think)
        think = f"how far ahead is allowed: up to and including the bound; {behind}"
        expect(set(going) == set(right), got=got, think=think)
        think = "the order: that of `waiting`, first come, first served"
        expect(list(going) == right, got=got, think=think)


# 12a-stable ---------------------------------------------------------------------------

STEPS = [(1.0, 0), (25.0, 0), (0.01, 0), (1.0, 1), (3.0, 2), (0.25, 3), (1.0, 4)]
STEPS += [(10.0, 6), (0.1, 8), (1.0, 16)]  # curvature and delay


@exercise("12a-stable", seconds=60)
def check_12a_stable(stable_step):
    for curvature, delay in STEPS:
        with trying(f"stable_step({curvature}, {delay})") as expect:
            got = expect.number(stable_step(curvature, delay))
            best = predicted_stable_step(curvature, delay)
            if not delay and curvature != 1:
                think = "the curvature: the gradient at x is curvature * x. And the "
                think += f"steps that you try: is {best:g} among them?"
            elif got < best:
                taken = f"from {delay} updates ago" if delay else "at the newest x"
                think = f"x with a step that is 1 % larger, and the gradient {taken}: "
                think += "it goes to 0, however slowly. Which x does your gradient "
                think += "use, and what does your test say of it?"
            elif delay and got > 0.99 * predicted_stable_step(curvature, delay - 1):
                think = "the x at which the gradient is taken, from `delay` updates ago"
            else:
                path = delayed_descent(curvature, got, delay, 100_000)
                think = f"x with this step: {path[-1]:.2g} after {len(path) - 1} "
                think += "updates. Is that on its way to 0, and do you look so far?"
            expect(abs(got / best - 1) <= 0.0105, got=got, think=think)


# 12a-backup ---------------------------------------------------------------------------

THREE = [[4.5, 0.75, 1.0, 1.0, 1.0, 1.0], [2.0] * 6, [1.0] * 6]


@exercise("12a-backup")
def check_12a_backup(backup):
    for needed, rounds in ((2, 1), (1, 1), (2, 3), (3, 3)):
        _expect_backup_workers(backup, copy.deepcopy(THREE), needed, rounds)
    dice = random.Random(12)
    for workers in (1, 2, 3, 5, 8):
        for needed in {1, max(1, workers - 1), workers}:
            for rounds in (1, 2, 20):
                tail = [
                    [0.3 + 0.2 * dice.paretovariate(1.2) for _ in range(60 * rounds)]
                    for _ in range(workers)
                ]
                _expect_backup_workers(backup, tail, needed, rounds)


def _expect_backup_workers(
    backup: Callable, seconds: list, needed: int, rounds: int
) -> None:
    call = f"backup(seconds of {len(seconds)} workers, {needed}, {rounds})"
    if seconds == THREE:
        call = f"backup({seconds}, {needed}, {rounds})"
    with trying(call, seconds) as expect:
        both = backup(seconds, needed, rounds)
        pair = hasattr(both, "__len__") and len(both) == 2
        expect(pair, got=both, think="what is to be returned: seconds, and a count")
        right_end, right_thrown = backup_workers_by_events(seconds, needed, rounds)
        got = f"{both}, right is {right_end, right_thrown}"
        expect(
            tuple(both) != (right_thrown, right_end) or right_thrown == right_end,
            got=got,
            think="which of the two numbers comes first: the end, then the count",
        )
        think = f"what ends a round: the first {needed} gradients of this round"
        if rounds > 1:
            think = "what a late worker does: it finishes its gradient first, which is "
            think += "thrown away, and then begins its own next one at once, for the "
            think += "current round"
        expect(math.isclose(both[0], right_end, rel_tol=1e-9), got=got, think=think)
        expect(
            both[1] == right_thrown,
            got=got,
            think="which gradients are thrown away: those that have arrived, after "
            "their round was over, before the last round ends; not those under way",
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
