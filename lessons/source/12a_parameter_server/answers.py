"""Wrong answers to the exercises of lesson 12a, and right ones of another kind."""

from collections import deque
from heapq import heapify, heappop, heappush
from math import pi, sin

import numpy as np

from lessons.source.sample_answers import right, wrong

# 12a-bounded --------------------------------------------------------------------------


@wrong(
    "12a-bounded",
    advice="whether it waits or not",
    note="The slowest worker is the one that does not wait: it computes.",
)
def bounded_among_waiting(pushes, waiting, bound):
    if not waiting:
        return []
    slowest = min(pushes[worker] for worker in waiting)
    return [worker for worker in waiting if pushes[worker] - slowest <= bound]


@wrong(
    "12a-bounded",
    advice="up to and including",
    note='`<` for "at most": with bound 0 nobody ever goes on.',
)
def bounded_strictly(pushes, waiting, bound):
    slowest = min(pushes.values())
    return [worker for worker in waiting if pushes[worker] - slowest < bound]


@wrong(
    "12a-bounded",
    advice="how far ahead is allowed",
    note="The lead of the fastest decides for all: those in the middle wait too.",
)
def bounded_all_or_nobody(pushes, waiting, bound):
    ahead = max(pushes.values()) - min(pushes.values())
    return list(waiting) if ahead <= bound else []


@wrong(
    "12a-bounded",
    advice="how far ahead is allowed|may not go on",
    note="The bound is taken for a number of gradients, not for a lead.",
)
def bounded_by_count(pushes, waiting, bound):
    return [worker for worker in waiting if pushes[worker] <= bound]


@wrong(
    "12a-bounded",
    advice="have asked for an answer",
    note="Workers that compute have asked for nothing, and get an answer.",
)
def bounded_all_present(pushes, waiting, bound):
    slowest = min(pushes.values())
    return [worker for worker in pushes if pushes[worker] - slowest <= bound]


@wrong(
    "12a-bounded",
    advice="the order",
    note="Sorted by number: first come, first served is lost.",
)
def bounded_sorted(pushes, waiting, bound):
    slowest = min(pushes.values())
    return sorted(worker for worker in waiting if pushes[worker] - slowest <= bound)


@right("12a-bounded")
def bounded_in_a_loop(pushes, waiting, bound):
    going = []
    for worker in waiting:
        if all(pushes[worker] <= count + bound for count in pushes.values()):
            going.append(worker)
    return going


@right("12a-bounded")
def bounded_as_tuple(pushes, waiting, bound):
    limit = sorted(pushes.values())[0] + bound
    return tuple(filter(lambda worker: pushes[worker] <= limit, waiting))


# 12a-stable ---------------------------------------------------------------------------


def _bisect(stable, high: float, halvings: int = 16) -> float:
    low = 0.0
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def _path(curvature, step, delay, updates):
    recent = deque([1.0] * (delay + 1), maxlen=delay + 1)
    path = []
    for _ in range(updates):
        recent.append(recent[-1] - step * curvature * recent[0])
        path.append(recent[-1])
        if abs(path[-1]) > 1e9:
            break
    return path


def _small(path) -> bool:
    return max(map(abs, path[-200:])) < 1


@wrong(
    "12a-stable",
    advice="after 50 updates.*do you look so far",
    note="Plot x for a step 1 % too large: it takes hundreds of updates.",
)
def stable_of_few_updates(curvature, delay):
    return _bisect(
        lambda step: abs(_path(curvature, step, delay, 30)[-1]) < 1e3, 2 / curvature
    )


@wrong(
    "12a-stable",
    advice="however slowly",
    note="After a hundred updates x need not be tiny yet.",
)
def stable_that_must_vanish(curvature, delay):
    return _bisect(
        lambda step: abs(_path(curvature, step, delay, 100)[-1]) < 1e-6, 2 / curvature
    )


@wrong(
    "12a-stable",
    advice="`delay` updates ago",
    note="The step of the case by hand, for any delay.",
)
def stable_without_delay(curvature, delay):
    return 2 / curvature


@wrong(
    "12a-stable",
    advice="the gradient at the newest x",
    note="The list of recent x is one too long.",
)
def stable_one_too_old(curvature, delay):
    updates = 2000 + 1500 * delay
    return _bisect(
        lambda step: _small(_path(curvature, step, delay + 1, updates)), 2 / curvature
    )


@wrong(
    "12a-stable",
    advice="the curvature",
    note="They bisect for curvature 1 and forget the other.",
)
def stable_without_curvature(curvature, delay):
    updates = 2000 + 1500 * delay
    return _bisect(lambda step: _small(_path(1.0, step, delay, updates)), 2.0)


@wrong(
    "12a-stable",
    advice="what does your test say of it",
    note="The step from which on x swings: far below the one from which on it grows.",
)
def stable_without_swings(curvature, delay):
    return _bisect(
        lambda step: min(_path(curvature, step, delay, 3000)) >= 0, 2 / curvature
    )


@right("12a-stable")
def stable_by_the_theorem(curvature, delay):
    return 2 * sin(pi / (4 * delay + 2)) / curvature


@right("12a-stable")
def stable_by_roots(curvature, delay):
    def stable(step):
        equation = np.zeros(delay + 2)
        equation[0], equation[1] = 1, -1
        equation[-1] += step * curvature
        return max(abs(np.roots(equation))) < 1

    return _bisect(stable, 2 / curvature)


# 12a-backup ---------------------------------------------------------------------------


@wrong(
    "12a-backup",
    advice="not those under way",
    note="A worker that computes does not look into its post.",
)
def backup_interrupts(seconds, needed, rounds):
    end = sum(sorted(row[r] for row in seconds)[needed - 1] for r in range(rounds))
    return end, (len(seconds) - needed) * rounds


def _backup(seconds, needed, rounds, late_counts=False, late_waits=False):
    takes = [iter(row) for row in seconds]
    under_way = [(next(row), worker, 0) for worker, row in enumerate(takes)]
    heapify(under_way)
    done, thrown, waiting, idle, now = 0, 0, [], [], 0.0
    while done < rounds:
        now, worker, of_round = heappop(under_way)
        going = []
        if of_round < done and not late_counts:
            thrown += 1
            if late_waits:
                idle.append(worker)
            else:
                going = [worker]
        else:
            waiting.append(worker)
        if len(waiting) == needed:
            done, going, waiting, idle = done + 1, waiting + idle, [], []
        for free in going:
            heappush(under_way, (now + next(takes[free]), free, done))
    return now, thrown, len(under_way)


@wrong(
    "12a-backup",
    advice="is thrown away",
    note="Late gradients count for the next round: then it is no longer synchronous.",
)
def backup_uses_late_gradients(seconds, needed, rounds):
    return _backup(seconds, needed, rounds, late_counts=True)[:2]


@wrong(
    "12a-backup",
    advice="begins its own next one at once",
    note="Late workers wait for the next round instead of joining the one that is on.",
)
def backup_late_workers_sit_out(seconds, needed, rounds):
    return _backup(seconds, needed, rounds, late_waits=True)[:2]


@wrong(
    "12a-backup",
    advice="the first 2",
    note="They leave the backup workers idle: all are waited for.",
)
def backup_waits_for_all(seconds, needed, rounds):
    return _backup(seconds, len(seconds), rounds)[:2]


@wrong(
    "12a-backup",
    advice="may still be among the first|how many gradients end a round|the first",
    note="The first `needed` of the list, instead of the first that arrive.",
)
def backup_always_the_first_workers(seconds, needed, rounds):
    return _backup(seconds[:needed], needed, rounds)[:2]


@wrong(
    "12a-backup",
    advice="not those under",
    note="What is under way at the end has not arrived.",
)
def backup_counts_those_under_way(seconds, needed, rounds):
    end, thrown, _ = _backup(seconds, needed, rounds)
    return end, thrown + len(seconds) - needed


@right("12a-backup")
def backup_by_events(seconds, needed, rounds):
    return _backup(seconds, needed, rounds)[:2]


@right("12a-backup")
def backup_round_by_round(seconds, needed, rounds):
    """For each round, when each worker would finish its first gradient of it."""
    used, free = [0] * len(seconds), [0.0] * len(seconds)
    begin, late = 0.0, []
    for _ in range(rounds):
        starts = [max(begin, moment) for moment in free]
        late += [moment for moment in free if moment > begin]
        ends = [t + row[i] for t, row, i in zip(starts, seconds, used, strict=True)]
        end = sorted(ends)[needed - 1]
        for worker, start in enumerate(starts):
            if start < end:
                free[worker] = ends[worker]
                used[worker] += 1
        begin = end
    return begin, len({m for m in late if m <= begin})
