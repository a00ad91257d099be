"""Wrong answers to the exercises of lesson 19b."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Link, Model, Strategy, why_impossible

# 19b-implied --------------------------------------------------------------------------


@wrong(
    "19b-implied",
    advice="more time",
    note="They mix up the two assumptions, and return the most first.",
)
def implied_in_reverse(work, reached, computing, moved):
    step = work / reached
    if reached == computing:
        return math.inf, moved / step
    return moved / (step - work / computing), moved / step


@wrong(
    "19b-implied",
    advice="seconds that are left",
    note="They give messages the time of computing, not what it leaves over.",
)
def implied_while_computing(work, reached, computing, moved):
    return moved * reached / work, moved * computing / work


@wrong(
    "19b-implied",
    advice="ZeroDivisionError|leaves over",
    note="They forget that computing may take the whole step.",
)
def implied_without_inf(work, reached, computing, moved):
    step = work / reached
    return moved / step, moved / (step - work / computing)


@wrong(
    "19b-implied",
    advice="computing leaves over",
    note="They return 0 where any bandwidth, however large, is allowed.",
)
def implied_with_zero(work, reached, computing, moved):
    step, left = work / reached, work / reached - work / computing
    return moved / step, moved / left if left else 0


ONE_NUMBER = "two numbers, the least and the most"


@wrong(
    "19b-implied",
    advice=ONE_NUMBER,
    note="They compute one number where an interval is asked for.",
)
def implied_as_one(work, reached, computing, moved):
    return moved / (work / reached)


@wrong(
    "19b-implied",
    advice="whole step takes",
    note="They return the seconds and forget to divide the bytes by them.",
)
def implied_seconds(work, reached, computing, moved):
    step = work / reached
    return step - work / computing, step


@wrong(
    "19b-implied",
    advice="seconds that are left",
    note="They subtract rates; seconds add up, rates do not.",
)
def implied_by_rates(work, reached, computing, moved):
    left = computing - reached
    most = math.inf if left == 0 else moved * left / work
    return moved * reached / work, most


@wrong("19b-implied", advice="whole step takes", note="They return GB/s.")
def implied_in_gigabytes(work, reached, computing, moved):
    step, left = work / reached, work / reached - work / computing
    return moved / step / 1e9, moved / left / 1e9 if left else math.inf


@right("19b-implied")
def implied_by_fractions(work, reached, computing, moved):
    work, reached, computing, moved = map(Fraction, (work, reached, computing, moved))
    left = work / reached - work / computing
    return [moved * reached / work, moved / left if left else float("inf")]


@right("19b-implied")
def implied_by_numpy(work, reached, computing, moved):
    with np.errstate(divide="ignore"):
        seconds = np.array([work / reached, work * (1 / reached - 1 / computing)])
        if reached == computing:
            seconds[1] = 0
        return np.float64(moved) / seconds


# 19b-choose ---------------------------------------------------------------------------


def steps_of(model, cluster, batch, strategies):
    for strategy in strategies:
        if not why_impossible(model, cluster, strategy, batch):
            yield simulate_step(model, cluster, strategy, batch)


@wrong(
    "19b-choose",
    advice="a strategy that is impossible",
    note="They forget that simulate_step raises for an impossible strategy.",
)
def choose_without_try(model, cluster, batch, strategies):
    steps = [simulate_step(model, cluster, s, batch) for s in strategies]
    fitting = [step for step in steps if step.fits]
    return min(fitting, key=lambda step: step.seconds).strategy if fitting else None


@wrong(
    "19b-choose",
    advice="memory of a GPU",
    note="They take the fastest, whether it fits or not.",
)
def choose_without_memory(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    best = min(steps, key=lambda step: step.seconds, default=None)
    return best and best.strategy


@wrong(
    "19b-choose",
    advice="one of the strategies",
    note="They return the step instead of its strategy.",
)
def choose_the_step(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    return min(steps, key=lambda step: step.seconds, default=None)


@wrong("19b-choose", advice="is fast", note="They take the first that fits.")
def choose_the_first_that_fits(model, cluster, batch, strategies):
    for step in steps_of(model, cluster, batch, strategies):
        if step.fits:
            return step.strategy
    return None


@wrong(
    "19b-choose",
    advice="is fast",
    note="They take the highest hardware utilisation, which recomputation raises.",
)
def choose_the_busiest_hardware(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = max(steps, key=lambda step: step.hardware_utilisation, default=None)
    return best and best.strategy


@wrong("19b-choose", advice="is fast", note="They take what needs least memory.")
def choose_the_smallest(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = min(steps, key=lambda step: sum(step.memory), default=None)
    return best and best.strategy


@wrong(
    "19b-choose",
    advice="one of the strategies",
    note="The `try` stands round the loop instead of in it.",
)
def choose_that_gives_up(model, cluster, batch, strategies):
    best = None
    try:
        for strategy in strategies:
            step = simulate_step(model, cluster, strategy, batch)
            if step.fits and (best is None or step.seconds < best.seconds):
                best = step
    except ValueError:
        pass
    return best and best.strategy


@wrong(
    "19b-choose",
    advice="one of the strategies",
    note="They look at the fastest alone, and give up if it does not fit.",
)
def choose_the_fastest_if_it_fits(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    best = min(steps, key=lambda step: step.seconds, default=None)
    return best.strategy if best and best.fits else None


@wrong("19b-choose", advice="impossible", note="They forget that nothing may fit.")
def choose_without_empty(model, cluster, batch, strategies):
    steps = [s for s in steps_of(model, cluster, batch, strategies) if s.fits]
    return sorted(steps, key=lambda step: step.seconds)[0].strategy


@right("19b-choose")
def choose_by_sorting(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    in_order = sorted(steps, key=lambda step: step.seconds)
    return next((step.strategy for step in in_order if step.fits), None)


@right("19b-choose")
def choose_by_utilisation(model, cluster, batch, strategies):
    """The model's operations are the same for all: the best used are the fastest."""
    best, share = None, 0.0
    for strategy in reversed(strategies):
        try:
            step = simulate_step(model, cluster, strategy, batch)
        except ValueError:
            continue
        room = cluster.memory - sum(step.memory)
        if room >= 0 and step.model_utilisation > share:
            best, share = strategy, step.model_utilisation
    return best


# 19b-break ----------------------------------------------------------------------------

WIDE = Model(layers=32, hidden=2048, heads=16, sequence=2048, vocabulary=51_200)
NARROW = Model(layers=24, hidden=1024, heads=8, sequence=2048, vocabulary=51_200)
EIGHTS = replace(A100, nodes=2, efficiency=0.646, link_between=Link(1e-5, 5e9))
FOURS = replace(
    A100, gpus_per_node=4, nodes=4, efficiency=0.646, memory=20e9
)  # links of 25 GB/s


@wrong(
    "19b-break",
    advice="leave the node",
    note="On one node all links are alike, and there is little to get wrong.",
)
def break_on_one_node():
    return WIDE, replace(EIGHTS, nodes=1), 32


@wrong(
    "19b-break",
    advice="a link",
    note="They leave the links fast, where planner and second opinion agree.",
)
def break_with_fast_links():
    return WIDE, replace(EIGHTS, link_between=Link(1e-5, 25e9)), 32


@wrong("19b-break", advice="at most 16", note="They take more GPUs than allowed.")
def break_with_too_many():
    return WIDE, replace(EIGHTS, nodes=8), 32


@wrong(
    "19b-break",
    advice="how much memory",
    note="They make memory so small that nothing fits.",
)
def break_with_no_room():
    return WIDE, replace(EIGHTS, memory=1e8), 32


@wrong(
    "19b-break",
    advice="the order",
    note="They hand in a strategy in place of the model.",
)
def break_with_a_strategy():
    return Strategy(data=4, tensor=4, shard_stage=3), EIGHTS, 32


@wrong(
    "19b-break",
    advice="the order",
    note="They return cluster and model in another order.",
)
def break_in_another_order():
    return EIGHTS, WIDE, 32


@wrong(
    "19b-break", advice="a model, a cluster and a batch", note="They forget the batch."
)
def break_without_batch():
    return WIDE, EIGHTS


@wrong(
    "19b-break",
    advice="positive",
    note="They cut the link: then nothing is bad, it is impossible.",
)
def break_with_dead_links():
    return WIDE, replace(EIGHTS, link_between=Link(1e-5, 0)), 32


@right("19b-break")
def break_by_little_memory():
    return [NARROW, FOURS, np.int64(64)]


@right("19b-break")
def break_by_fewer_layers():
    return replace(WIDE, layers=16), EIGHTS, 32.0
