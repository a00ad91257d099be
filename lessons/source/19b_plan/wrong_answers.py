"""Wrong answers to the exercises of lesson 19b."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from demos.scale.parts.known_gpus import A100
from demos.scale.parts.legal_strategies import legal_strategies
from demos.scale.parts.simulated_step import simulate_step
from demos.scale.parts.training_plan import Link, Model, Strategy, why_impossible
from lessons.source.sample_answers import Right, Wrong

# 19b-implied --------------------------------------------------------------------------


def implied_in_reverse(work, reached, computing, moved):
    step = work / reached
    if reached == computing:
        return math.inf, moved / step
    return moved / (step - work / computing), moved / step


def implied_while_computing(work, reached, computing, moved):
    return moved * reached / work, moved * computing / work


def implied_without_inf(work, reached, computing, moved):
    step = work / reached
    return moved / step, moved / (step - work / computing)


def implied_with_zero(work, reached, computing, moved):
    step, left = work / reached, work / reached - work / computing
    return moved / step, moved / left if left else 0


def implied_as_one(work, reached, computing, moved):
    return moved / (work / reached)


def implied_seconds(work, reached, computing, moved):
    step = work / reached
    return step - work / computing, step


def implied_from_computing(work, reached, computing, moved):
    least = moved * computing / work
    step = work / reached
    return least, math.inf if reached == computing else moved / (step - 1 / computing)


def implied_by_rates(work, reached, computing, moved):
    left = computing - reached
    most = math.inf if left == 0 else moved * left / work
    return moved * reached / work, most


def implied_in_gigabytes(work, reached, computing, moved):
    step, left = work / reached, work / reached - work / computing
    return moved / step / 1e9, moved / left / 1e9 if left else math.inf


def implied_with_a_tolerance(work, reached, computing, moved):
    step, left = work / reached, work / reached - work / computing
    return moved / step, moved / left if left > 1e-3 else math.inf


def implied_if_nearly_equal(work, reached, computing, moved):
    step = work / reached
    if math.isclose(reached, computing, rel_tol=0.02):
        return moved / step, math.inf
    return moved / step, moved / (step - work / computing)


def implied_printed(work, reached, computing, moved):
    print(moved / (work / reached))


def implied_by_fractions(work, reached, computing, moved):
    work, reached, computing, moved = map(Fraction, (work, reached, computing, moved))
    left = work / reached - work / computing
    return [moved * reached / work, moved / left if left else float("inf")]


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


def choose_without_try(model, cluster, batch, strategies):
    steps = [simulate_step(model, cluster, s, batch) for s in strategies]
    fitting = [step for step in steps if step.fits]
    return min(fitting, key=lambda step: step.seconds).strategy if fitting else None


def choose_without_memory(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    best = min(steps, key=lambda step: step.seconds, default=None)
    return best and best.strategy


def choose_the_step(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    return min(steps, key=lambda step: step.seconds, default=None)


def choose_the_first_that_fits(model, cluster, batch, strategies):
    for step in steps_of(model, cluster, batch, strategies):
        if step.fits:
            return step.strategy
    return None


def choose_below_ten_seconds(model, cluster, batch, strategies):
    best, shortest = None, 10.0
    for step in steps_of(model, cluster, batch, strategies):
        if step.fits and step.seconds < shortest:
            best, shortest = step.strategy, step.seconds
    return best


def choose_by_hundredths(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = min(steps, key=lambda step: round(step.seconds, 2), default=None)
    return best and best.strategy


def choose_the_slowest(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = max(steps, key=lambda step: step.seconds, default=None)
    return best and best.strategy


def choose_the_busiest_hardware(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = max(steps, key=lambda step: step.hardware_utilisation, default=None)
    return best and best.strategy


def choose_the_smallest(model, cluster, batch, strategies):
    steps = (s for s in steps_of(model, cluster, batch, strategies) if s.fits)
    best = min(steps, key=lambda step: sum(step.memory), default=None)
    return best and best.strategy


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


def choose_the_fastest_if_it_fits(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    best = min(steps, key=lambda step: step.seconds, default=None)
    return best.strategy if best and best.fits else None


def choose_from_all_there_are(model, cluster, batch, strategies):
    some = list(legal_strategies(model, cluster, batch))[::7]
    return choose_by_sorting(model, cluster, batch, some)


def choose_and_clear(model, cluster, batch, strategies):
    chosen = choose_by_sorting(model, cluster, batch, strategies)
    strategies.sort(key=lambda s: s.data)
    return chosen


def choose_by_the_first_stage(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    fitting = (step for step in steps if sum(step.ledgers[0]) <= cluster.memory)
    best = min(fitting, key=lambda step: step.seconds, default=None)
    return best and best.strategy


def choose_without_empty(model, cluster, batch, strategies):
    steps = [s for s in steps_of(model, cluster, batch, strategies) if s.fits]
    return sorted(steps, key=lambda step: step.seconds)[0].strategy


def choose_by_sorting(model, cluster, batch, strategies):
    steps = steps_of(model, cluster, batch, strategies)
    in_order = sorted(steps, key=lambda step: step.seconds)
    return next((step.strategy for step in in_order if step.fits), None)


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


def break_on_one_node():
    return WIDE, replace(EIGHTS, nodes=1), 32


def break_with_fast_links():
    return WIDE, replace(EIGHTS, link_between=Link(1e-5, 25e9)), 32


def break_with_too_many():
    return WIDE, replace(EIGHTS, nodes=8), 32


def break_with_no_room():
    return WIDE, replace(EIGHTS, memory=1e8), 32


def break_with_no_batch():
    return WIDE, EIGHTS, 0


def break_with_a_strategy():
    return Strategy(data=4, tensor=4, shard_stage=3), EIGHTS, 32


def break_in_another_order():
    return EIGHTS, WIDE, 32


def break_without_batch():
    return WIDE, EIGHTS


def break_with_nothing():
    second = WIDE, EIGHTS, 32
    print(second)


def break_with_dead_links():
    return WIDE, replace(EIGHTS, link_between=Link(1e-5, 0)), 32


def break_with_heads_that_do_not_divide():
    return replace(WIDE, heads=15), EIGHTS, 32


def break_by_little_memory():
    return [NARROW, FOURS, np.int64(64)]


def break_by_fewer_layers():
    return replace(WIDE, layers=16), EIGHTS, 32.0


ONE_NUMBER = "two numbers, the least and the most"
WRONG = {
    "19b-implied": [
        Wrong("both in the wrong order", implied_in_reverse, "more time"),
        Wrong(
            "while computing instead of what is left",
            implied_while_computing,
            "seconds that are left",
        ),
        Wrong("no infinity", implied_without_inf, "ZeroDivisionError|leaves over"),
        Wrong("zero for no time", implied_with_zero, "computing leaves over"),
        Wrong("only the least", implied_as_one, ONE_NUMBER),
        Wrong("seconds, no bandwidths", implied_seconds, "whole step takes"),
        Wrong("the least while computing", implied_from_computing, "work / reached"),
        Wrong("a difference of rates", implied_by_rates, "seconds that are left"),
        Wrong("in GB", implied_in_gigabytes, "whole step takes"),
        Wrong("printed", implied_printed, ONE_NUMBER),
        Wrong(
            "nearly equal is equal", implied_if_nearly_equal, "seconds that are left"
        ),
        Wrong(
            "a thousandth of a second is nothing",
            implied_with_a_tolerance,
            "seconds that are left",
        ),
    ],
    "19b-choose": [
        Wrong("nothing is caught", choose_without_try, "a strategy that is impossible"),
        Wrong("memory is forgotten", choose_without_memory, "memory of a GPU"),
        Wrong("the step", choose_the_step, "one of the strategies"),
        Wrong("the first that fits", choose_the_first_that_fits, "is fast"),
        Wrong("the slowest", choose_the_slowest, "is fast"),
        Wrong("below ten seconds", choose_below_ten_seconds, "one of the strategies"),
        Wrong("by hundredths", choose_by_hundredths, "is fast"),
        Wrong("the busiest hardware", choose_the_busiest_hardware, "is fast"),
        Wrong("the smallest", choose_the_smallest, "is fast"),
        Wrong(
            "ended by the first exception",
            choose_that_gives_up,
            "one of the strategies",
            note="The `try` stands round the loop instead of in it.",
        ),
        Wrong(
            "the fastest, if it fits",
            choose_the_fastest_if_it_fits,
            "one of the strategies",
        ),
        Wrong("not from the list", choose_from_all_there_are, "are in the list"),
        Wrong("the list is sorted", choose_and_clear, "who else uses"),
        Wrong("no case for nothing", choose_without_empty, "impossible"),
        Wrong("only the first stage's memory", choose_by_the_first_stage, "none of"),
    ],
    "19b-break": [
        Wrong("one node", break_on_one_node, "leave the node"),
        Wrong("links are fast", break_with_fast_links, "a link"),
        Wrong("too many GPUs", break_with_too_many, "at most 16"),
        Wrong("nothing fits", break_with_no_room, "how much memory"),
        Wrong("a batch of nothing", break_with_no_batch, "the batch"),
        Wrong("a strategy", break_with_a_strategy, "the order"),
        Wrong("another order", break_in_another_order, "the order"),
        Wrong("no batch", break_without_batch, "a model, a cluster and a batch"),
        Wrong("nothing", break_with_nothing, "a model, a cluster and a batch"),
        Wrong("links of nothing", break_with_dead_links, "positive"),
        Wrong("impossible", break_with_heads_that_do_not_divide, "legal"),
    ],
}
RIGHT = {
    "19b-implied": [
        Right("fractions", implied_by_fractions),
        Right("NumPy", implied_by_numpy),
    ],
    "19b-choose": [
        Right("sorted", choose_by_sorting),
        Right("by model utilisation, from behind", choose_by_utilisation),
    ],
    "19b-break": [
        Right("GPUs with little memory", break_by_little_memory),
        Right("fewer layers", break_by_fewer_layers),
    ],
}
