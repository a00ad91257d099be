"""The checks of lesson 19b: implied bandwidths, the choice, and a plan that breaks."""

import itertools
import math
from dataclasses import replace

from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.legal_strategies import legal_strategies
from parallel_by_hand.scale.second_opinion import second_opinion
from parallel_by_hand.scale.simulated_step import Step, simulate_step
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

# 19b-implied --------------------------------------------------------------------------

# work, reached, computing, moved; the second row is a published one, in SI units
IMPLIED = [
    (100, 10, 20, 50),
    (5.9e15, 88e12, 188e12, 1.05e12),
    (2.9e15, 44e12, 188e12, 1.05e12),
    (7, 2.5, 2.5, 3),
    (1e6, 1, 1e6, 1),
    (3, 0.1, 0.3, 1e-3),
    (1, 8, 9, 1),
    (2, 8e4, 9e4, 5),  # a step of microseconds
    (6e9, 3, 4, 2e12),
]


def _implied_seconds_of_plan(work, reached, computing, moved) -> tuple[float, float]:
    step = work / reached
    left = step - work / computing
    return moved / step, math.inf if reached == computing else moved / left


@exercise("19b-implied")
def check_19b_implied(implied_bandwidths):
    for case in IMPLIED:
        expected = _implied_seconds_of_plan(*case)
        with trying(f"implied_bandwidths{case}") as expect:
            got = implied_bandwidths(*case)
            try:
                found = [as_number(number) for number in got]
            except TypeError:
                found = []
            expect(
                len(found) == 2 and None not in found,
                got=got,
                think="what is asked for: two numbers, the least and the most",
            )
            agree = [
                math.isclose(a, b, rel_tol=1e-6)
                for a, b in zip(found, expected, strict=True)
            ]
            expect(
                all(agree), got=got, think=_think_of_implied_plan(case, found, agree)
            )


def _think_of_implied_plan(case: tuple, found: list[float], agree: list[bool]) -> str:
    least, most = _implied_seconds_of_plan(*case)
    if math.isclose(found[0], most) and math.isclose(found[1], least):
        return "which of the two assumptions gives the messages more time"
    if not agree[0]:
        return "how many seconds the whole step takes: work / reached"
    if case[1] == case[2]:
        return "how much time computing leaves over if it takes the whole step"
    return "the seconds that are left of the step when computing is over"


# 19b-choose ---------------------------------------------------------------------------

FOUR_NODES = replace(A100, gpus_per_node=4, nodes=4, efficiency=0.6)
SHAPE = Model(layers=24, hidden=2304, heads=24, sequence=2048, vocabulary=51_200)
IMPOSSIBLE = Strategy(data=5, tensor=3)  # 15 GPUs, and there are 16


def _plan_cluster_with_link(bandwidth: float, memory: float = 80e9) -> Cluster:
    return replace(FOUR_NODES, memory=memory, link_between=Link(1e-5, bandwidth))


def _some_strategies_to_plan(
    model: Model, cluster: Cluster, batch: int
) -> list[Strategy]:
    """Every 18th legal one, with impossible ones at the ends and in between."""
    legal = list(itertools.islice(legal_strategies(model, cluster, batch), 0, None, 18))
    return [IMPOSSIBLE, *legal[::2], IMPOSSIBLE, *legal[1::2], IMPOSSIBLE]


def _cases_to_plan() -> list[tuple[str, Cluster, int, list[Strategy]]]:
    fast, slow = _plan_cluster_with_link(100e9), _plan_cluster_with_link(0.25e9)
    full, tiny = (
        _plan_cluster_with_link(25e9, memory=20e9),
        _plan_cluster_with_link(25e9, memory=0.1e9),
    )
    many = _some_strategies_to_plan(SHAPE, fast, 64)
    one = Strategy(data=16, shard_stage=3, overlap=True)
    deep = Strategy(pipeline=16, micro_batch=2, recomputation="full", overlap=True)
    between = _plan_cluster_with_link(
        25e9, memory=5.5e9
    )  # the first stage of `deep` would fit
    return [
        ("one strategy", fast, 64, [one]),
        ("no strategy", fast, 64, []),
        ("fast links between nodes", fast, 64, many),
        ("slow links between nodes", slow, 64, many),
        ("GPUs of 20 GB", full, 64, many),
        ("GPUs of 0.1 GB", tiny, 64, many),
        ("one strategy, the last stage the fullest", between, 64, [deep]),
        ("none is possible", fast, 64, [IMPOSSIBLE, IMPOSSIBLE]),
        ("a batch of 7", fast, 7, many),
    ]


def _possible_plans(
    cluster: Cluster, batch: int, strategies: list[Strategy]
) -> list[Step]:
    steps = []
    for strategy in strategies:
        try:
            steps.append(simulate_step(SHAPE, cluster, strategy, batch))
        except ValueError:
            continue
    return steps


@exercise("19b-choose", seconds=60)
def check_19b_choose(choose):
    for name, cluster, batch, strategies in _cases_to_plan():
        steps = _possible_plans(cluster, batch, strategies)
        fitting = [step for step in steps if step.fits]
        think = "what simulate_step does with a strategy that is impossible"
        with trying(f"choose(...) with {name}", strategies, think=think) as expect:
            got = choose(SHAPE, cluster, batch, strategies)
            if not fitting:
                reason = "fits" if steps else "is possible"
                expect(
                    got is None,
                    got=got,
                    think=f"what is asked for if none of them {reason}: None",
                )
                continue
            _expect_chosen_plan(expect, got, steps, fitting)


def _expect_chosen_plan(expect, got, steps: list[Step], fitting: list[Step]) -> None:
    expect(
        isinstance(got, Strategy),
        got="None" if got is None else got,
        think="what is asked for: one of the strategies",
    )
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
    least = min(step.seconds for step in fitting)
    expect(
        found.seconds <= least * (1 + 1e-9),
        got=f"{got}: {found.seconds:.3f} s, and another one takes {least:.3f} s",
        think="which number says that a strategy is fast, whatever the list's order",
    )


# 19b-break ----------------------------------------------------------------------------

GPUS, LOSS = 16, 0.10


@exercise("19b-break", seconds=120)
def check_19b_break(break_the_planner):
    with trying("break_the_planner()") as expect:
        got = break_the_planner()
        expect(
            isinstance(got, tuple | list) and len(got) == 3,
            got="None" if got is None else got,
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
        _expect_small_cluster_for_plan(expect, cluster)
        _expect_a_bad_plan(expect, model, cluster, int(size))


def _expect_small_cluster_for_plan(expect, cluster: Cluster) -> None:
    expect(
        min(cluster.nodes, cluster.gpus_per_node) >= 1 and cluster.gpus <= GPUS,
        got=f"{cluster.nodes} nodes with {cluster.gpus_per_node} GPUs each",
        think=f"the number of GPUs: at most {GPUS}",
    )
    sizes = (
        *cluster.link_within, *cluster.link_between, cluster.memory,
        cluster.memory_bandwidth, cluster.peak_flops, cluster.efficiency,
    )  # fmt: skip
    expect(
        all(0 < size < math.inf for size in sizes),
        got=cluster,
        think="links, memory and speeds: all are positive numbers",
    )


def _expect_a_bad_plan(expect, model: Model, cluster: Cluster, batch: int) -> None:
    opinion = second_opinion(model, cluster, batch)
    expect(
        opinion is not None,
        got="a case in which nothing fits into memory",
        think="how much memory a GPU has, and how large the model is",
    )
    favourite, better = opinion.favourite.strategy, opinion.better.strategy
    expect(
        opinion.loss >= LOSS,
        got=f"a loss of {opinion.loss:.1%}: the favourite has data {favourite.data}, "
        f"tensor {favourite.tensor}, pipeline {favourite.pipeline}",
        think=_think_of_losing_plan(cluster, favourite == better),
    )


def _think_of_losing_plan(cluster: Cluster, same: bool) -> str:
    if cluster.nodes == 1:
        return "which messages leave the node here"
    if same:
        return "a link at which the planner is about to change its mind"
    return "a link, a memory or a batch with which the loss grows"
