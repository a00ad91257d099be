"""The checks of lesson 19b: implied bandwidths, the choice, and a plan that breaks."""

import itertools
import math
from contextlib import suppress
from dataclasses import replace
from functools import partial

from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.legal_strategies import Ways, legal_strategies
from parallel_by_hand.scale.second_opinion import second_opinion
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

# 19b-implied --------------------------------------------------------------------------

# work, reached, computing, moved; the second row is a published one, in SI units
IMPLIED = [
    (100, 10, 20, 50),
    (5.9e15, 88e12, 188e12, 1.05e12),
    (3, 0.1, 0.3, 1e-3),
    (2, 8e4, 9e4, 5),  # a step of microseconds
]


@exercise("19b-implied")
def check_19b_implied(implied_bandwidths):
    for case in IMPLIED:
        work, reached, computing, moved = case
        step = work / reached
        least, most = moved / step, moved / (step - work / computing)
        with trying(f"implied_bandwidths{case}") as expect:
            got = implied_bandwidths(*case)
            several = hasattr(got, "__iter__")
            found = [as_number(number) for number in got] if several else []
            expect(
                len(found) == 2 and None not in found,
                got=got,
                think="what is asked for: two numbers, the least and the most",
            )
            expect(
                not _same_plan(found, [most, least]),
                got=got,
                think="which of the two assumptions gives the messages more time",
            )
            expect(
                _same_plan(found[:1], [least]),
                got=f"{got}, where the least is {least:g}",
                think="bytes per second, and how many seconds the whole step takes",
            )
            expect(
                _same_plan(found, [least, most]),
                got=f"{got}, where the most is {most:g}",
                think="the seconds that are left of the step when computing is over",
            )


def _same_plan(found: list[float], expected: list[float]) -> bool:
    return all(map(partial(math.isclose, rel_tol=1e-6), found, expected))


# 19b-choose ---------------------------------------------------------------------------

FOUR_NODES = replace(A100, gpus_per_node=4, nodes=4, efficiency=0.6)
SHAPE = Model(layers=24, hidden=2304, heads=24, sequence=2048, vocabulary=51_200)
IMPOSSIBLE = Strategy(data=5, tensor=3)  # 15 GPUs, and there are 16


def _plan_cluster_with_link(bandwidth: float, memory: float = 80e9) -> Cluster:
    return replace(FOUR_NODES, memory=memory, link_between=Link(1e-5, bandwidth))


def _cases_to_plan() -> list[tuple[str, Cluster, list[Strategy]]]:
    fast, full = _plan_cluster_with_link(100e9), _plan_cluster_with_link(25e9, 20e9)
    plain = legal_strategies(SHAPE, fast, 64, Ways(fused_attention=False))
    # every 31st legal one, with impossible ones at the ends and in between
    legal = list(itertools.islice(plain, 0, None, 31))
    many = [IMPOSSIBLE, *legal[::2], IMPOSSIBLE, *legal[1::2], IMPOSSIBLE]
    return [
        ("fast links between nodes", fast, many),
        ("slow links between nodes", _plan_cluster_with_link(0.25e9), many),
        ("GPUs of 20 GB", full, many),
        ("slow GPUs", replace(fast, peak_flops=fast.peak_flops / 1e4), many),
        ("GPUs of 0.1 GB", _plan_cluster_with_link(25e9, 0.1e9), many),
        ("none is possible", fast, [IMPOSSIBLE, IMPOSSIBLE]),
    ]


def _possible_plans(
    cluster: Cluster, strategies: list[Strategy]
) -> list[SimulatedStep]:
    steps = []
    for strategy in strategies:
        with suppress(ValueError):
            steps.append(simulate_step(SHAPE, cluster, strategy, 64))
    return steps


@exercise("19b-choose", seconds=60)
def check_19b_choose(choose):
    for name, cluster, strategies in _cases_to_plan():
        steps = _possible_plans(cluster, strategies)
        fitting = [step for step in steps if step.fits]
        reason = "fits" if steps else "is possible"
        nothing = f"what is asked for if none of them {reason}: None"
        think = "what simulate_step does with a strategy that is impossible"
        with trying(
            f"choose(...) with {name}", strategies, think=think if fitting else nothing
        ) as expect:
            got = choose(SHAPE, cluster, 64, strategies)
            if fitting:
                _expect_chosen_plan(expect, got, steps, fitting)
            else:
                expect(got is None, got=got, think=nothing)


def _expect_chosen_plan(
    expect, got, steps: list[SimulatedStep], fitting: list[SimulatedStep]
) -> None:
    least = min(step.seconds for step in fitting)
    expect(
        got is not None,
        got=f"None, and {len(fitting)} of them are possible and fit",
        think="which best time you begin with, and what you do after the first one "
        "that is impossible or does not fit",
    )
    think = "what is asked for: one of the strategies"
    expect(isinstance(got, Strategy), got=got, think=think)
    [found] = [step for step in steps if step.strategy == got][:1] or [None]
    expect(
        found is not None,
        got=got,
        think="which strategies are in the list, and which of them are possible",
    )
    expect(
        found.fits,
        got=f"{got}: {sum(found.memory) / 1e9:.1f} GB on GPUs of "
        f"{found.cluster.memory / 1e9:g} GB",
        think="what fits into the memory of a GPU",
    )
    expect(
        found.seconds <= least * (1 + 1e-9),
        got=f"{got}: {found.seconds:.3f} s, and another one takes {least:.3f} s",
        think="which number says that a strategy is fast, whatever the list's order",
    )


# 19b-break ----------------------------------------------------------------------------

GPUS, LOSS = 16, 0.20


@exercise("19b-break", seconds=120)
def check_19b_break(break_the_planner):
    with trying("break_the_planner()") as expect:
        got = break_the_planner()
        expect(
            isinstance(got, tuple | list) and len(got) == 3,
            got=got,
            think="what is asked for: a model, a cluster and a batch",
        )
        model, cluster, batch = got
        kinds = isinstance(model, Model) and isinstance(cluster, Cluster)
        expect(kinds, got=got, think="the order: a Model, a Cluster, a whole number")
        size = as_number(batch)
        expect(
            size is not None and size == int(size) and size >= 1,
            got=f"a batch of {batch}",
            think="the batch: a whole number of sequences",
        )
        expect(
            cluster.gpus <= GPUS,
            got=f"{cluster.nodes} nodes with {cluster.gpus_per_node} GPUs each",
            think=f"the number of GPUs: at most {GPUS}",
        )
        _expect_a_bad_plan(expect, model, cluster, int(size))


def _expect_a_bad_plan(expect, model: Model, cluster: Cluster, batch: int) -> None:
    opinion = second_opinion(model, cluster, batch)
    expect(
        opinion is not None,
        got="a case in which nothing fits into memory",
        think="how much memory a GPU has, and how large the model is",
    )
    favourite, link = opinion.favourite.strategy, cluster.link_between
    expect(
        opinion.loss >= LOSS,
        got=f"a loss of {opinion.loss:.1%}: the favourite has data {favourite.data}, "
        f"tensor {favourite.tensor}, pipeline {favourite.pipeline}; "
        f"{link.bandwidth:g} bytes/s between nodes",
        think="which messages leave the node here"
        if cluster.nodes == 1
        else "a link at which the planner is about to change its mind"
        if opinion.loss < LOSS / 2
        else "a link, a memory or a batch with which the loss grows",
    )
