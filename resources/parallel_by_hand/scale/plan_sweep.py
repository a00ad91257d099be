"""The best plan for each number of GPUs: what more of them buy, and what they cost."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from parallel_by_hand.scale.legal_strategies import Ways
from parallel_by_hand.scale.plan_facts import cost_of_tokens, tokens_per_second
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy


def halvings(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, half of it, a quarter: whole nodes, at last a part of one."""
    while True:
        yield cluster
        if cluster.nodes % 2 == 0:
            cluster = replace(cluster, nodes=cluster.nodes // 2)
        elif cluster.nodes == 1 and cluster.gpus_per_node % 2 == 0:
            cluster = replace(cluster, gpus_per_node=cluster.gpus_per_node // 2)
        else:
            return


def sweep_gpus(
    model: Model,
    cluster: Cluster,
    batch: int,
    ways: Ways,
    among: Callable[[Strategy], bool],
) -> Iterator[SimulatedStep]:
    """The best step on ever fewer GPUs, until nothing fits."""
    for fewer in halvings(cluster):
        survey = survey_strategies(model, fewer, batch, ways=ways)
        best = fastest_strategies(survey, 1, among=among)
        if not best:
            return
        yield best[0]


def print_sweep(steps: Iterator[SimulatedStep], tokens: float) -> list[SimulatedStep]:
    """A row for each as soon as it is known; returns them all."""
    print(f"\n{'GPUs':>6} {'data tensor pipe ZeRO':>21}      step   tokens/s   per GPU"
          f" model use   days and cost of {tokens:,.0f} tokens")  # fmt: skip
    known = []
    for step in steps:
        s, gpus, rate = step.strategy, step.cluster.gpus, tokens_per_second(step)
        print(
            f"{gpus:6,} {s.data:4} {s.tensor:6} {s.pipeline:4} {s.shard_stage:4} "
            f"{step.seconds:7.2f} s {rate:10,.0f} {rate / gpus:9,.0f} "
            f"{step.model_utilisation:9.1%} {tokens / rate / 86_400:8,.1f} "
            f"{cost_of_tokens(step, tokens):14,.0f}", flush=True,
        )  # fmt: skip
        known.append(step)
    return known
