"""Checks of the exercises of lesson 15a, Pipeline parallel: the schedule."""

import random
from itertools import combinations, pairwise

from sidebyside.exercises.check import exercise, trying


@exercise("15a-microbatches", seconds=20)
def check_15a_microbatches(fewest_microbatches):
    dice = random.Random(15)
    cases = [(4, 64, 0.2), (4, 64, 0.1), (4, 72, 0.15), (1, 8, 0), (1, 5, 0.3)]
    cases += [(3, 7, 0.25), (3, 7, 0.5), (3, 7, 0.2), (8, 1, 0.9), (8, 1, 0.5)]
    cases += [(4, 6, 0.3333)]
    for _ in range(30):
        waste = round(dice.uniform(0.05, 0.9), 3) + 1e-5  # no bubble is just that
        cases.append((dice.randint(1, 9), dice.randint(1, 60), round(waste, 5)))
    # In these a bubble is equal to the waste, in floats and however it is computed.
    cases += [(4, 72, 0.2), (4, 24, 0.2), (2, 8, 0.5), (4, 12, 0.75)]
    for case in cases:
        _try_fewest_microbatches(fewest_microbatches, *case)


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


def _expect_fewest_microbatches(expect, m, idle, waste, fewest: int) -> None:
    think = f"equal micro-batches: which numbers divide {len(idle)}?"
    expect(m in idle and len(idle) % m == 0, got=m, think=think)
    got = f"{m}, whose bubble is {100 * idle[m]:.6g} %"
    think = f"how your answer makes sure that its bubble is at most {waste}, and what "
    think += "is asked for: how many micro-batches, not how many samples in each"
    expect(idle[m] <= waste, got=got, think=think)
    think = "the fewest: is there a smaller number that divides the batch and wastes "
    think += f"at most {waste}?"
    if idle[fewest] == waste > 0:
        think = _missed_number_of_microbatches(fewest, waste, waste)
    expect(m == fewest, got=got, think=think)


EVERY_WAY = "every other way to cut: is its slowest stage compared, too?"
SLOWEST = (
    "the slowest stage: which layers are in it? Their times count, not their number"
)
BALANCES = [  # times, stages, what a wrong list overlooks
    ([1, 1, 1, 1, 4], 2, SLOWEST),
    ([4, 1, 1, 1, 1], 2, "the order of the layers: where does the slow one stand?"),
    ([3, 1, 2], 3, EVERY_WAY),
    ([5, 2], 1, EVERY_WAY),
    ([2, 2, 2, 9, 1, 1], 3, EVERY_WAY),
    ([1] * 10 + [10, 10], 3, EVERY_WAY),  # ten layers in one stage
    ([6, 3, 5, 5, 8, 3], 4, EVERY_WAY),  # most equal: not best
    ([9, 5, 4, 9, 2, 9], 5, EVERY_WAY),
    ([1] * 5 + [2] * 10, 6, EVERY_WAY),  # 2,002 ways, the best are late ones
    ([0.5, 0.25, 0.25, 0.75], 2, EVERY_WAY),
]


@exercise("15a-balance", seconds=20)
def check_15a_balance(balance):
    dice = random.Random(7)
    for case in BALANCES:
        _try_balance(balance, *case)
    for _ in range(40):
        layers = dice.randint(1, 11)
        times = [dice.randint(1, 36) / 4 for _ in range(layers)]
        _try_balance(balance, times, dice.randint(1, min(layers, 5)), EVERY_WAY)


def _try_balance(balance, times: list, stages: int, overlooked: str) -> None:
    given = list(times)
    with trying(f"balance({times}, {stages})", given) as expect:
        got = balance(given, stages)
        counts = _expect_balanced_counts(expect, got, len(times), stages)
        slowest = _slowest_stage(times, counts)
        cuts = combinations(range(1, len(times)), stages - 1)
        ways = ([b - a for a, b in pairwise((0, *cut, len(times)))] for cut in cuts)
        best = min(_slowest_stage(times, way) for way in ways)
        got = f"{counts}: the slowest stage takes {slowest:g}, and {best:g} is possible"
        expect(slowest <= best * (1 + 1e-9), got=got, think=overlooked)


def _slowest_stage(times: list, counts: list[int]) -> float:
    edges = [sum(counts[:stage]) for stage in range(len(counts) + 1)]
    return max(sum(times[a:b]) for a, b in pairwise(edges))


def _expect_balanced_counts(expect, counts, layers: int, stages: int) -> list[int]:
    right = hasattr(counts, "__len__") and len(counts) == stages
    think = f"the form of the answer: a list, one number for each of {stages} stages"
    expect(right, got=counts, think=think)
    together = f"how many layers the stages have together: there are {layers}"
    expect(sum(counts) == layers, got=counts, think=together)
    think = "what a stage computes that has no layer"
    expect(min(counts) >= 1, got=counts, think=think)
    return [int(count) for count in counts]
