"""The best plan for each number of GPUs: what more of them buy, and what they cost."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from parallel_by_hand.scale.legal_strategies import Ways
from parallel_by_hand.scale.plan_facts import facts_of_step
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import GREY


def sweep_gpus(
    model: Model,
    cluster: Cluster,
    batch: int,
    ways: Ways,
    among: Callable[[Strategy], bool],
) -> Iterator[SimulatedStep]:
    """The best step on the cluster, on half of it, and so on, until nothing fits."""
    survey = survey_strategies(model, cluster, batch, ways=ways)
    yield from (best := fastest_strategies(survey, 1, among=among))
    halved = "nodes" if cluster.nodes > 1 else "gpus_per_node"
    if best and getattr(cluster, halved) % 2 == 0:
        half = replace(cluster, **{halved: getattr(cluster, halved) // 2})
        yield from sweep_gpus(model, half, batch, ways, among)


def print_sweep(steps: Iterator[SimulatedStep], tokens: float) -> list[SimulatedStep]:
    """A row for each as soon as it is known; returns them all."""
    print(f"\n  GPUs data tensor pipe ZeRO      step   tokens/s   per GPU model use"
          f"     days and cost of {tokens:,.0f} tokens")  # fmt: skip
    known = []
    for step in steps:
        s, facts = step.strategy, facts_of_step(step, tokens)
        print(
            f"{s.gpus:6,} {s.data:4} {s.tensor:6} {s.pipeline:4} {s.shard_stage:4} "
            f"{step.seconds:7,.2f} s {facts['tokens_per_s']:10,.0f} "
            f"{facts['tokens_per_s_per_gpu']:9,.0f} {step.model_utilisation:9.1%} "
            f"{facts['days']:8,.1f} {facts['cost']:14,.0f}", flush=True,
        )  # fmt: skip
        known.append(step)
    if not known:
        print("nothing fits; the plan without --sweep says what would")
    return known


def draw_sweep(steps: list[SimulatedStep], tokens: float):
    """Tokens per second of a GPU, beside those of the fewest; the cost of `tokens`."""
    gpus = [step.cluster.gpus for step in steps]
    facts = [facts_of_step(step, tokens) for step in steps]
    rates = [one["tokens_per_s_per_gpu"] for one in facts]
    costs = [one["cost"] for one in facts]
    fig, (fast, dear) = figure(1, 2, stamp="simulated")
    fast.axhline(rates[-1], color=GREY, ls=":", label="in proportion")
    fast.semilogx(gpus, rates, "o-", color=COLOURS[0])
    fast.set_ylim(0, 1.1 * max(rates))
    fast.legend(loc="lower left", frameon=False)
    dear.semilogx(gpus, costs, "o-", color=COLOURS[1])
    dear.set_ylim(0, 1.1 * max(costs))
    cost = f"cost of {tokens / 1e9:,g} billion tokens"
    for ax, label in (fast, "tokens/s of a GPU"), (dear, cost):
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set_xticks(gpus, [f"{n:,}" for n in gpus])
        ax.set_xticks([], minor=True)
        ax.set(xlabel="GPUs", ylabel=label)
    return fig
