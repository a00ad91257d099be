"""Wrong answers to the exercises of lesson 19b."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Link, Model, why_impossible

# 19b-implied --------------------------------------------------------------------------


@wrong(
    "19b-implied",
    advice="more time",
    note="They mix up the two assumptions, and return the most first.",
)
def implied_in_reverse(work, reached, computing, moved):
    step = work / reached
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
    advice="two numbers, the least and the most",
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
    return moved * reached / work, moved * (computing - reached) / work


@wrong("19b-implied", advice="whole step takes", note="They return GB/s.")
def implied_in_gigabytes(work, reached, computing, moved):
    step = work / reached
    return moved / step / 1e9, moved / (step - work / computing) / 1e9


@right("19b-implied")
def implied_by_fractions(work, reached, computing, moved):
    work, reached, computing, moved = map(Fraction, (work, reached, computing, moved))
    return [moved * reached / work, moved / (work / reached - work / computing)]


@right("19b-implied")
def implied_by_numpy(work, reached, computing, moved):
    return moved / np.array([work / reached, work * (1 / reached - 1 / computing)])


# 19b-choose ---------------------------------------------------------------------------


def steps_of(model, cluster, batch, strategies):
    for strategy in strategies:
        if not why_impossible(model, cluster, strategy, batch):
            yield simulate_step(model, cluster, strategy, batch)


def choose_by(
    of_step=lambda step: step.seconds,
    fits=lambda step: step.fits,
    returned=lambda step: step.strategy,
    default=True,
    steps=steps_of,
):
    """The strategy with the least `of_step`, or with one thing done otherwise."""

    def choose(*case):
        fitting = list(filter(fits, steps(*case)))
        if default and not fitting:
            return None
        return returned(min(fitting, key=of_step))

    return choose


wrong(
    "19b-choose",
    advice="a strategy that is impossible",
    name="without_try",
    note="They forget that simulate_step raises for an impossible strategy.",
)(choose_by(steps=lambda m, c, b, all_: [simulate_step(m, c, s, b) for s in all_]))
wrong(
    "19b-choose",
    advice="memory of a GPU",
    name="without_memory",
    note="They take the fastest, whether it fits or not.",
)(choose_by(fits=lambda step: True))
wrong(
    "19b-choose",
    advice="one of the strategies",
    name="the_step",
    note="They return the step instead of its strategy.",
)(choose_by(returned=lambda step: step))


wrong(
    "19b-choose",
    advice="is fast",
    name="the_busiest_hardware",
    note="They take the highest hardware utilisation, which recomputation raises.",
)(choose_by(of_step=lambda step: -step.hardware_utilisation))
wrong(
    "19b-choose",
    advice="if none of them",
    name="without_none",
    note="They forget that nothing may fit.",
)(choose_by(default=False))


@wrong(
    "19b-choose",
    advice="after the first one that is impossible",
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


wrong(
    "19b-choose",
    advice="which best time you begin with",
    name="below_100_seconds",
    note="Their best time is 100 s at first, which they took for more than any step.",
)(choose_by(fits=lambda step: step.fits and step.seconds < 100))


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
EIGHTS = replace(GPUS["A100"], nodes=2, link_between=Link(1e-5, 5e9))


wrong(
    "19b-break",
    advice="leave the node",
    name="on_one_node",
    note="On one node all links are alike, and there is little to get wrong.",
)(lambda: (WIDE, replace(EIGHTS, nodes=1), 32))
wrong(
    "19b-break",
    advice="a link",
    name="with_fast_links",
    note="They leave the links fast, where planner and second opinion agree.",
)(lambda: (WIDE, replace(EIGHTS, link_between=Link(1e-5, 20e9)), 32))
wrong(
    "19b-break",
    advice="at most 16",
    name="with_too_many",
    note="They take more GPUs than allowed.",
)(lambda: (WIDE, replace(EIGHTS, nodes=8), 32))
wrong(
    "19b-break",
    advice="how much memory",
    name="with_no_room",
    note="They make memory so small that nothing fits.",
)(lambda: (WIDE, replace(EIGHTS, memory=1e8), 32))
wrong(
    "19b-break",
    advice="the order",
    name="in_another_order",
    note="They return cluster and model in another order.",
)(lambda: (EIGHTS, WIDE, 32))
wrong(
    "19b-break",
    advice="a model, a cluster and a batch",
    name="without_batch",
    note="They forget the batch.",
)(lambda: (WIDE, EIGHTS))


@right("19b-break")
def break_by_little_memory():
    return [WIDE, replace(EIGHTS, memory=14e9), np.int64(32)]


@right("19b-break")
def break_by_slower_links():
    return WIDE, replace(EIGHTS, link_between=Link(1e-5, 4e9)), 32.0
