"""What a search has found, as tables."""

from collections.abc import Callable

from parallel_by_hand.scale.plan_search import (
    Split,
    StrategySurvey,
    fastest_strategies,
    rank_of_split,
)
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import Cluster, Strategy

Kind = Callable[[Strategy, Cluster], bool]
OTHER_KINDS: dict[str, Kind] = {
    "data parallel alone": lambda s, c: s.tensor == s.pipeline == 1,
    "  and without ZeRO": lambda s, c: (
        s.tensor == s.pipeline == 1 and not s.shard_stage
    ),
    "tensor, no pipeline": lambda s, c: s.tensor > 1 and s.pipeline == 1,
    "pipeline, no tensor": lambda s, c: s.tensor == 1 and s.pipeline > 1,
    "tensor beyond a machine": lambda s, c: s.tensor > c.gpus_per_node,
    "ZeRO-3 everywhere": lambda s, c: s.shard_stage == 3,
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
        + (f"  experts over {s.expert}" if s.expert > 1 else "")
        + (f"  in {s.hybrid} groups" if s.hybrid > 1 else "")
    )


def _shares_of_step(step: SimulatedStep) -> str:
    """Where the average GPU's time goes; what is hidden behind computing takes none."""
    parts = step.spent.items()
    return ", ".join(f"{part} {100 * t / step.seconds:.0f} %" for part, t in parts)


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


def _what_costs_more(step: SimulatedStep, best: SimulatedStep) -> str:
    """The part of the step that has grown most compared with the best."""
    grown = {part: t - best.spent[part] for part, t in step.spent.items()}
    part = max(grown, key=grown.__getitem__)
    return f"{part} +{grown[part]:.2f} s"


def print_why_others_lose(
    survey: StrategySurvey, best: SimulatedStep, kinds: dict[str, Kind]
) -> None:
    """The best of each kind, and what it loses by; or the least memory it needs."""
    print("\nthe best of each kind     step      most of the difference")
    for name, kind in kinds.items():

        def belongs(strategy: Strategy, kind: Kind = kind) -> bool:
            return kind(strategy, survey.cluster)

        found = fastest_strategies(survey, 1, among=belongs)
        if found and found[0].strategy == best.strategy:
            print(f"{name:<24} {best.seconds:6.2f} s  this is the best of all")
        elif found:
            [step] = found
            print(f"{name:<24} {step.seconds:6.2f} s  {_what_costs_more(step, best)}")
        else:
            needs = [size for s, size in survey.memory.items() if belongs(s)]
            why = f"needs {min(needs) / 1e9:,.0f} GB" if needs else "not legal here"
            print(f"{name:<24}    none    {why}")


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
