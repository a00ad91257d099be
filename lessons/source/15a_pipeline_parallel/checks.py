"""Checks of the exercises of lesson 15a, Pipeline parallel: the schedule."""

import random
from collections.abc import Sized
from fractions import Fraction
from itertools import combinations, pairwise

from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying


@exercise("15a-microbatches", seconds=20)
def check_15a_microbatches(fewest_microbatches):
    dice = random.Random(15)
    cases = [
        (4, 72, 0.2),
        (4, 64, 0.2),
        (4, 64, 0.1),
        (1, 8, 0),
        (1, 5, 0.3),
        (2, 8, 0.5),
    ]
    cases += [(4, 12, 0.75), (4, 12, 0.5), (4, 9, 0.25), (8, 1, 0.9), (8, 1, 0.5)]
    cases += [(3, 7, 0.5), (3, 7, 0.2), (5, 12, 0), (16, 96, 0.2), (6, 35, 0.3)]
    cases += [(3, 15, 0.35), (2, 30, Fraction(1, 7)), (5, 48, 1)]
    cases += [(4, 24, 0.2), (4, 6, 0.33)]  # 12 waste exactly 0.2, and 6 a little more
    for _ in range(40):
        stages, batch = dice.randint(1, 9), dice.randint(1, 60)
        cases.append((stages, batch, round(dice.uniform(0.05, 0.9), 3) + 1e-5))
    answers = {}  # the last one for so many stages and samples
    for stages, batch, waste in cases:
        with trying(f"fewest_microbatches({stages}, {batch}, {waste})") as expect:
            answer = fewest_microbatches(stages, batch, waste)
            before = answers.get((stages, batch))
            _expect_fewest_microbatches(expect, answer, stages, batch, waste, before)
            answers[stages, batch] = answer


def _expect_fewest_microbatches(
    expect, answer, stages, batch, waste, remembered
) -> None:
    idle = {m: (stages - 1) / (m + stages - 1) for m in range(1, batch + 1)}
    enough = [m for m in idle if batch % m == 0 and idle[m] <= waste]
    if not enough:
        least = f"even with {batch} micro-batches {100 * idle[batch]:.1f} % is idle"
        expect(answer is None, got=answer, think=f"what to return when {least}")
        return
    think = "the numbers of micro-batches that divide the batch: which have you tried?"
    if len(enough) == 1 and idle[enough[0]] == waste:
        think = f"a waste of exactly {waste}: is that at most {waste}?"
    expect(
        answer is not None,
        got="None, and there is a number that is enough",
        think=think,
    )
    m = as_number(answer)
    whole = m is not None and m == int(m)
    expect(whole, got=answer, think="the form of the answer: a whole number, or None")
    think = f"equal micro-batches: which numbers divide {batch}?"
    expect(int(m) in idle and batch % int(m) == 0, got=answer, think=think)
    think = "the bubble is the idle share of the whole picture: how long is that?"
    if int(m) * enough[0] == batch:
        think = (
            "what is asked for: how many micro-batches, or how many samples in each?"
        )
    elif int(m) == remembered:
        think = f"the waste of this call, {waste}: does your answer depend on it?"
    got = f"{answer}, whose bubble is {100 * idle[int(m)]:.1f} %"
    expect(idle[int(m)] <= waste, got=got, think=think)
    think = "the fewest: is there a smaller number that divides the batch and wastes "
    think += "at most that much? Exactly that much is allowed"
    expect(int(m) == enough[0], got=got, think=think)


@exercise("15a-balance", seconds=20)
def check_15a_balance(balance):
    dice = random.Random(7)
    cases = [([1, 1, 1, 1, 4], 2), ([4, 1, 1, 1, 1], 2), ([3, 1, 2], 3), ([5, 2], 1)]
    cases += [([1, 1, 1, 1, 1, 1, 1, 1], 4), ([2, 2, 2, 9, 1, 1], 3), ([7], 1)]
    cases += [([1] * 10 + [10, 10], 3)]  # ten layers in one stage
    cases += [([0.5, 0.25, 0.25, 0.75], 2), ([0.1, 0.2, 0.3, 0.4, 0.25, 0.35], 3)]
    cases += [([6, 3, 5, 5, 8, 3], 4), ([9, 5, 4, 9, 2, 9], 5)]  # most equal: not best
    cases += [([3e-6, 1e-6, 2e-6, 2.5e-6, 1e-6], 3)]  # microseconds
    cases += [([1e-3, 2e-3, 2.5e-3, 1e-3], 2), ([1000, 1, 1, 1, 999, 3], 3)]
    cases += [([Fraction(1, 3), Fraction(1, 2), Fraction(1, 4), Fraction(1, 5)], 2)]
    for number in range(80):
        layers, whole = dice.randint(1, 11), number % 2
        times = [dice.randint(1, 9) if whole else dice.random() for _ in range(layers)]
        cases.append((times, dice.randint(1, min(layers, 5))))
    for times, stages in cases:
        _try_balance(balance, times, stages)


def _try_balance(balance, times: list, stages: int) -> None:
    with trying(f"balance({times}, {stages})", times) as expect:
        got = balance(times, stages)
        counts = _expect_balanced_counts(expect, got, len(times), stages)
        edges = [sum(counts[:stage]) for stage in range(stages + 1)]
        slowest = max(sum(times[a:b]) for a, b in pairwise(edges))
        best = min(
            max(sum(times[a:b]) for a, b in pairwise((0, *cuts, len(times))))
            for cuts in combinations(range(1, len(times)), stages - 1)
        )
        think = "every other way to cut: is it tried with the times of this call, and "
        think += "is its slowest stage what you compare?"
        dealt = [len(range(stage, len(times), stages)) for stage in range(stages)]
        if times == [1, 1, 1, 1, 4] and counts in (dealt, dealt[::-1]):
            think = "what is to be equal: times count, not numbers of layers"
        expect(
            slowest <= best * (1 + 1e-9),
            got=f"{counts}: the slowest stage takes {slowest}, and {best} is possible",
            think=think,
        )


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
