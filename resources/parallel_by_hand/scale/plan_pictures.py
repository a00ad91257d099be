"""What a search has found, as tables, and why the first is first in one sentence."""

from collections.abc import Callable
from typing import NamedTuple

from parallel_by_hand.scale.plan_search import (
    Split,
    StrategySurvey,
    fastest_strategies,
    rank_of_split,
)
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import RECOMPUTATIONS, Cluster, Strategy

Kind = Callable[[Strategy, Cluster], bool]
SPLITS: dict[str, Kind] = {
    "data parallel alone": lambda s, c: s.tensor == s.pipeline == 1,
    "tensor without pipeline": lambda s, c: s.tensor > 1 and s.pipeline == 1,
    "pipeline without tensor": lambda s, c: s.tensor == 1 and s.pipeline > 1,
    "tensor with pipeline": lambda s, c: s.tensor > 1 and s.pipeline > 1,
}
KINDS: dict[str, Kind] = SPLITS | {
    "no ZeRO": lambda s, c: not s.shard_stage,
    "tensor beyond a machine": lambda s, c: s.tensor > c.gpus_per_node,
    "ZeRO-3 everywhere": lambda s, c: s.shard_stage == 3,
    "no recomputation": lambda s, c: s.recomputation == "none",
    "full recomputation": lambda s, c: s.recomputation == "full",
}
HEAD = "data tensor pipe ZeRO micro schedule    again      memory     step  model use"


def _row(step: SimulatedStep) -> str:
    """The knobs of a strategy, the memory of its fullest GPU, its time."""
    s = step.strategy
    return (
        f"{s.data:4} {s.tensor:6} {s.pipeline:4} {s.shard_stage:4} {s.micro_batch:5} "
        f"{s.schedule:<11} {s.recomputation:<9} {sum(step.memory) / 1e9:4.0f} GB "
        f"{step.seconds:6.2f} s {100 * step.model_utilisation:7.1f} %"
        + (f"  context {s.context}" if s.context > 1 else "")
        + (f"  in {s.hybrid} groups" if s.hybrid > 1 else "")
    )


def _shares_of_step(step: SimulatedStep) -> str:
    """Where the average GPU's time goes; what is hidden behind computing takes none."""
    shares = {part: 100 * t / step.seconds for part, t in step.spent.items()}
    return ", ".join(f"{part} {s:.0f} %" for part, s in shares.items() if s > 0.5)


def print_best_plans(
    survey: StrategySurvey,
    best: list[SimulatedStep],
    asked: Callable[[Strategy], bool] = lambda strategy: True,
) -> None:
    """A row for each step, best first; or the least memory of those that were asked."""
    if not best:
        memory = {s: size for s, size in survey.memory.items() if asked(s)}
        least = min(memory, key=memory.__getitem__)
        print(f"nothing fits: the least that a GPU needs is {memory[least] / 1e9:,.1f}"
              f" GB, with data {least.data}, tensor {least.tensor}, pipeline "
              f"{least.pipeline}, ZeRO-{least.shard_stage}")  # fmt: skip
        return
    print(f"\n   {HEAD}")
    for place, step in enumerate(best, 1):
        print(f"{place}. {_row(step)}")
        print(f"        {_shares_of_step(step)}")


OFTEN_MISSED = 0.05  # the mean of published runs: see `published_table.py`


class BestOfKind(NamedTuple):
    """The fastest step of a kind; if none fits, the bytes that it needs, or 0."""

    step: SimulatedStep | None
    needs: float


def best_of_kinds(survey: StrategySurvey) -> dict[str, BestOfKind]:
    """What each of KINDS can make of it."""
    found = {}
    for name, kind in KINDS.items():

        def belongs(strategy: Strategy, kind: Kind = kind) -> bool:
            return kind(strategy, survey.cluster)

        steps = fastest_strategies(survey, 1, among=belongs)
        needs = min((n for s, n in survey.memory.items() if belongs(s)), default=0)
        found[name] = BestOfKind(steps[0] if steps else None, needs)
    return found


REASONS = {
    "computing": "computing",
    "tensor": "messages within layers",
    "pipeline": "messages between stages",
    "data": "messages between replicas",
    "waiting": "waiting in the pipeline",
}


def _what_costs_more(step: SimulatedStep, best: SimulatedStep) -> str:
    """The part of the step that has grown most compared with the best."""
    grown = {part: t - best.spent[part] for part, t in step.spent.items()}
    part = max(grown, key=grown.__getitem__)
    order = RECOMPUTATIONS.index
    again = order(step.strategy.recomputation) > order(best.strategy.recomputation)
    reason = "computing again" if part == "computing" and again else REASONS[part]
    return f"+{grown[part]:.2f} s {reason}"


def why_best(best: SimulatedStep, kinds: dict[str, BestOfKind]) -> str:
    """One sentence: how the best spends its time, and what other kinds lose by."""

    def loses(name: str) -> str:
        step, needs = kinds[name]
        if not step:
            needed = (
                f"needs {needs / 1e9:,.0f} GB"
                if needs
                else "is impossible with these sizes"
            )
            return f"{name} {needed}"
        slower = step.seconds / best.seconds - 1
        why = _what_costs_more(step, best)
        near = ", less than the simulator misses by" if slower < OFTEN_MISSED else ""
        return f"{name} takes {slower:.1%} longer ({why}{near})"

    share, again = best.spent["computing"] / best.seconds, best.strategy.recomputation
    twice = {"none": "nothing", "selective": "attention", "full": "all layers"}[again]
    clauses = [f"its GPUs compute for {share:.0%} of the time, {twice} twice"]
    own = next(n for n, kind in SPLITS.items() if kind(best.strategy, best.cluster))
    others = [name for name in SPLITS if name != own]
    others.sort(key=lambda n: kinds[n].step.seconds if kinds[n].step else float("inf"))
    named = dict.fromkeys([others[0], *SPLITS][:2])  # the next, and the plainest
    named |= {"no ZeRO": None} if best.strategy.shard_stage else {}
    clauses += [loses(name) for name in named if name != own]
    return "; ".join(clauses)


def print_kinds(kinds: dict[str, BestOfKind], best: SimulatedStep) -> None:
    """The best of each kind, and what it loses by; or the least memory it needs."""
    print("\nthe best of each kind     step      most of the difference")
    for name, (step, needs) in kinds.items():
        if step and step.strategy == best.strategy:
            print(f"{name:<24} {best.seconds:6.2f} s  this is the best of all")
        elif step:
            print(f"{name:<24} {step.seconds:6.2f} s  {_what_costs_more(step, best)}")
        elif needs:
            print(f"{name:<24}    none    needs {needs / 1e9:,.0f} GB")


def print_place(
    name: str,
    survey: StrategySurvey,
    split: Split,
    among: Callable[[Strategy], bool] = lambda strategy: True,
) -> None:
    """Where a split stands among all that fit somehow, and what it loses."""
    place, splits, own, first = rank_of_split(survey, split, among)
    slower = 100 * (own.seconds / first.seconds - 1)
    print(f"{name:<27} {split!s:<12} {place:2} of {splits:3}, {slower:.1f} % slower")
