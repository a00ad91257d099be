"""Checks of the exercises of lesson 15a, Pipeline parallel: the schedule."""

import random
from collections.abc import Sized
from itertools import combinations, pairwise

from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts


@exercise("15a-microbatches", seconds=20)
def check_15a_microbatches(fewest_microbatches):
    dice = random.Random(15)
    cases = [(4, 64, 0.2), (4, 64, 0.1), (4, 72, 0.15), (1, 8, 0), (1, 5, 0.3)]
    cases += [(3, 7, 0.25), (3, 7, 0.5), (3, 7, 0.2), (8, 1, 0.9), (8, 1, 0.5)]
    cases += [(4, 12, 0.76), (5, 12, 0), (5, 48, 1), (16, 96, 0.2), (6, 35, 0.3)]
    cases += [(3, 15, 0.35), (4, 6, 0.3333), (2, 1009, 0.001)]
    for _ in range(40):
        waste = round(dice.uniform(0.05, 0.9), 3) + 1e-5  # no bubble is just that
        cases.append((dice.randint(1, 9), dice.randint(1, 60), round(waste, 5)))
    # In these a bubble is equal to the waste, in floats and however it is computed.
    cases += [(4, 72, 0.2), (4, 24, 0.2), (2, 8, 0.5), (4, 12, 0.5), (4, 12, 0.75)]
    cases += [(4, 9, 0.25)]
    attempt = Attempts(fewest_microbatches)
    for case in cases:
        attempt(_try_fewest_microbatches, *case)


def _try_fewest_microbatches(fewest_microbatches, stages, batch, waste) -> None:
    idle = {m: (stages - 1) / (m + stages - 1) for m in range(1, batch + 1)}
    enough = [m for m in idle if batch % m == 0 and idle[m] <= waste]
    with trying(f"fewest_microbatches({stages}, {batch}, {waste})") as expect:
        answer = fewest_microbatches(stages, batch, waste)
        if enough:
            think = _missed_number_of_microbatches(enough[0], idle[enough[0]], waste)
            got = "None, and there is a number that is enough"
            expect(answer is not None, got=got, think=think)
            _expect_fewest_microbatches(expect, answer, idle, waste, enough[0])
        else:
            think = "what to return when even with one sample in each micro-batch "
            think += f"{100 * idle[batch]:.6g} % is idle"
            expect(answer is None, got=answer, think=think)


def _missed_number_of_microbatches(m: int, bubble: float, waste: float) -> str:
    if bubble == waste > 0:
        think = f"m = {m}, whose bubble is exactly {waste}: what does your answer say "
        return think + f"of it, and is it at most {waste}?"
    if bubble == 0:
        return f"the bubble of a single stage: is it at most {waste}?"
    return f"m = {m}: does your answer try it, and what is its bubble?"


def _expect_fewest_microbatches(expect, answer, idle, waste, fewest: int) -> None:
    m, batch = as_number(answer), len(idle)
    whole = m is not None and m % 1 == 0
    expect(whole, got=answer, think="the form of the answer: a whole number, or None")
    think = f"equal micro-batches: which numbers divide {batch}?"
    expect(int(m) in idle and batch % int(m) == 0, got=answer, think=think)
    got = f"{answer}, whose bubble is {100 * idle[int(m)]:.6g} %"
    think = f"how your answer makes sure that its bubble is at most {waste}"
    if (batch, fewest, m) == (64, 16, 4):
        think = "what is asked for: how many micro-batches, or how many samples in "
        think += "each?"
    expect(idle[int(m)] <= waste, got=got, think=think)
    think = "the fewest: is there a smaller number that divides the batch and wastes "
    think += f"at most {waste}?"
    if idle[fewest] == waste > 0:
        think = _missed_number_of_microbatches(fewest, waste, waste)
    expect(int(m) == fewest, got=got, think=think)


@exercise("15a-balance", seconds=20)
def check_15a_balance(balance):
    dice = random.Random(7)
    cases = [([1, 1, 1, 1, 4], 2), ([4, 1, 1, 1, 1], 2), ([3, 1, 2], 3), ([5, 2], 1)]
    cases += [([1, 1, 1, 1, 1, 1, 1, 1], 4), ([2, 2, 2, 9, 1, 1], 3), ([7], 1)]
    cases += [([1] * 10 + [10, 10], 3)]  # ten layers in one stage
    cases += [([6, 3, 5, 5, 8, 3], 4), ([9, 5, 4, 9, 2, 9], 5)]  # most equal: not best
    cases += [([1] * 5 + [2] * 10, 6)]  # 2,002 ways, the best are late ones
    close = [([1000, 1, 1, 1, 999, 3], 3), ([0.5, 0.25, 0.25, 0.75], 2)]
    close += [([100_000, 1, 1, 99_999], 2)]  # for whoever halves an interval some times
    close += [([0.1, 0.2, 0.3, 0.4, 0.25, 0.35], 3), ([0.33, 0.5, 0.25, 0.2], 2)]
    close += [([3e-6, 1e-6, 2e-6, 2.5e-6, 1e-6], 3)]  # microseconds
    close += [([1e-3, 2e-3, 2.5e-3, 1e-3], 2)]
    for _ in range(40):
        layers, more = dice.randint(1, 11), dice.randint(1, 11)
        cases.append(([dice.randint(1, 9) for _ in range(layers)], min(layers, 5)))
        times = [dice.randint(1, 999) / 1000 for _ in range(more)]
        close.append((times, dice.randint(1, min(more, 5))))
    attempt = Attempts(balance)
    for times, stages in cases:
        think = "every other way to cut: is its slowest stage compared, too?"
        attempt(_try_balance, times, stages, think)
    for times, stages in close:
        think = "small differences: how finely does your answer tell times apart?"
        attempt(_try_balance, times, stages, think)


def _try_balance(balance, times: list, stages: int, think: str) -> None:
    given = list(times)
    with trying(f"balance({times}, {stages})", given):
        got = balance(given, stages)
    with trying(f"balance({times}, {stages})") as expect:
        counts = _expect_balanced_counts(expect, got, len(times), stages)
        slowest = _slowest_stage(times, counts)
        cuts = combinations(range(1, len(times)), stages - 1)
        ways = ([b - a for a, b in pairwise((0, *cut, len(times)))] for cut in cuts)
        best = min(_slowest_stage(times, way) for way in ways)
        dealt = [len(range(stage, len(times), stages)) for stage in range(stages)]
        if times == [1, 1, 1, 1, 4] and counts in (dealt, dealt[::-1]):
            think = "what is to be equal: times count, not numbers of layers"
        elif times == [4, 1, 1, 1, 1] and counts == [4, 1]:
            think = "the order of the layers: is [4, 1] as good for 4, 1, 1, 1, 1 as "
            think += "for 1, 1, 1, 1, 4?"
        got = f"{counts}: the slowest stage takes {slowest:g}, and {best:g} is possible"
        expect(slowest <= best * (1 + 1e-9), got=got, think=think)


def _slowest_stage(times: list, counts: list[int]) -> float:
    edges = [sum(counts[:stage]) for stage in range(len(counts) + 1)]
    return max(sum(times[a:b]) for a, b in pairwise(edges))


def _expect_balanced_counts(expect, got, layers: int, stages: int) -> list[int]:
    """Whole numbers of any kind, in a sequence of any kind, as a list."""
    think = "the form of the answer: a list of numbers of layers"
    many = isinstance(got, Sized) and not isinstance(got, str | dict | set)
    expect(many, got=got, think=think)
    try:
        counts = [int(number) for number in got]
        whole = all(count == number for count, number in zip(counts, got, strict=True))
    except (TypeError, ValueError):
        counts, whole = [], False
    expect(whole, got=got, think=think)
    right = len(counts) == stages
    expect(right, got=got, think=f"one number for each of {stages} stages")
    together = f"how many layers the stages have together: there are {layers}"
    expect(sum(counts) == layers, got=got, think=together)
    expect(min(counts) >= 1, got=got, think="what a stage computes that has no layer")
    return counts
