"""The search for the fastest strategy that fits: memory first, then a bound, then time.

A strategy's memory is quickly counted, its timetable is not. So what does not fit goes
first. Each of the rest gets a bound, a time that it cannot undercut; the most promising
are simulated, until no bound is left below the slowest of the best so far.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from parallel_by_hand.pipeline.schedule_rules import peak_activations
from parallel_by_hand.scale.kept_timetable import scheduled
from parallel_by_hand.scale.legal_strategies import TODAY, Ways, legal_strategies
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.step_arithmetic import layer_seconds
from parallel_by_hand.scale.step_memory import (
    layers_of_ranks,
    layers_of_stages,
    ledgers_of_ranks,
)
from parallel_by_hand.scale.step_messages import expert_messages, tensor_messages
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy

Tell = Callable[[str], None]
Split = tuple[int, int, int]  # data, tensor, pipeline


class StrategySurvey(NamedTuple):
    """All legal strategies, the bytes that each needs, and the bound of what fits."""

    model: Model
    cluster: Cluster
    batch: int
    memory: dict[Strategy, float]
    bounds: dict[Strategy, float]  # of those that fit, the lowest first


def split_of(strategy: Strategy) -> Split:
    """What the search chooses first: the degrees of data, tensor and pipeline."""
    return strategy.replicas, strategy.tensor, strategy.pipeline


def memory_of_strategy(model: Model, strategy: Strategy, batch: int) -> float:
    """For the search: bytes on the fullest GPU, by 17's ledger and 15's schedule.

    No rank but GPipe's runs ahead by more than two micro-batches for each rank, so a
    short schedule of equal groups keeps as much as a long one.
    """
    ranks, count = strategy.pipeline, strategy.micro_batches(batch)
    kept = [count] * ranks
    if strategy.schedule != "gpipe":
        short = count if count % ranks else min(count, 2 * ranks)
        kept = _most_kept_by_plan(strategy.schedule, ranks, short, strategy.chunks)
    return max(sum(ledger) for ledger in ledgers_of_ranks(model, strategy, kept))


@lru_cache(maxsize=1024)
def _most_kept_by_plan(
    name: str, ranks: int, microbatches: int, chunks: int
) -> list[int]:
    return peak_activations(scheduled(name, ranks, microbatches, chunks))


def bound_of(model: Model, cluster: Cluster, strategy: Strategy, batch: int) -> float:
    """For the search: seconds that a step takes at least.

    The rank with most layers works for all its micro-batches. And the last rank cannot
    begin before one micro-batch has come through all other stages, nor is the step over
    before its gradient has gone back.
    """
    layers = layers_of_stages(model, strategy)
    around = tensor_messages(model, cluster, strategy)
    around += expert_messages(model, cluster, strategy)
    layer = sum(layer_seconds(model, cluster, strategy))
    layer += sum(message.seconds for message in around)
    ranks, count = strategy.pipeline, strategy.micro_batches(batch)
    own = layers_of_ranks(model, strategy)
    last = count * own[-1] + sum(layers[: ranks - 1])
    return layer * max(count * max(own), last)


def survey_strategies(
    model: Model,
    cluster: Cluster,
    batch: int,
    tell: Tell = lambda line: None,
    ways: Ways = TODAY,
) -> StrategySurvey:
    """Count the memory of every legal strategy, and give a bound to those that fit."""
    legal = list(legal_strategies(model, cluster, batch, ways))
    tell(f"{len(legal):,} legal strategies: counting the memory of each")
    memory = {
        strategy: memory_of_strategy(model, strategy, batch) for strategy in legal
    }
    room = cluster.memory - cluster.reserve
    fitting = [strategy for strategy in legal if memory[strategy] <= room]
    bounds = {s: bound_of(model, cluster, s, batch) for s in fitting}
    tell(f"{len(fitting):,} fit into {cluster.memory / 1e9:.0f} GB "
         f"({cluster.memory / 2**30:.1f} GiB)")  # fmt: skip
    in_order = {s: bounds[s] for s in sorted(bounds, key=bounds.__getitem__)}
    return StrategySurvey(model, cluster, batch, memory, in_order)


def fastest_strategies(
    survey: StrategySurvey,
    count: int = 5,
    up_to: float = 0.0,
    among: Callable[[Strategy], bool] = lambda strategy: True,
    tell: Tell = lambda line: None,
) -> list[SimulatedStep]:
    """The fastest that fits of each split, for the `count` fastest splits, in order.

    Besides them, all splits faster than `up_to` seconds. Nothing is lost by not
    simulating the others: their bounds are above.
    """
    model, cluster, batch, _, bounds = survey
    best: dict[Split, SimulatedStep] = {}
    simulated, told = 0, 0.0
    for strategy in filter(among, bounds):
        times = sorted(step.seconds for step in best.values())
        if len(times) >= count and bounds[strategy] > max(times[count - 1], up_to):
            break
        split = split_of(strategy)
        if split in best and bounds[strategy] >= best[split].seconds:
            continue
        step = simulate_step(model, cluster, strategy, batch)
        best[split] = min(best.get(split, step), step, key=lambda step: step.seconds)
        simulated += 1
        if simulated % 100 == 0 and told != min(times):
            told = min(times)
            tell(f"{simulated:,} simulated, the best takes {told:,.2f} s")
    if simulated:
        tell(f"{simulated:,} simulated: the others cannot be faster")
    steps = sorted(best.values(), key=lambda step: step.seconds)
    return [s for n, s in enumerate(steps) if n < count or s.seconds < up_to]


def rank_of_split(
    survey: StrategySurvey,
    split: Split,
    among: Callable[[Strategy], bool] = lambda strategy: True,
) -> tuple[int, int, SimulatedStep, SimulatedStep]:
    """Where the search finds a (data, tensor, pipeline) among all that fit somehow."""
    fitting = {split_of(strategy) for strategy in filter(among, survey.bounds)}
    if split not in fitting:
        raise ValueError(f"nothing with the split {split} fits into memory")
    [own] = fastest_strategies(
        survey, 1, among=lambda s: split_of(s) == split and among(s)
    )
    better = fastest_strategies(survey, 1, up_to=own.seconds, among=among)
    faster = sum(step.seconds < own.seconds for step in better)
    return 1 + faster, len(fitting), own, better[0]
