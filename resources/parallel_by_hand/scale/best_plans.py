"""What a search has found: tables, why the first is first, and its picture."""

import textwrap
from collections.abc import Callable
from typing import NamedTuple

from matplotlib.patches import Patch

from parallel_by_hand.scale.plan_search import (
    Split,
    StrategySurvey,
    fastest_strategies,
    rank_of_split,
    split_of,
)
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.step_tables import draw_memory
from parallel_by_hand.scale.training_plan import RECOMPUTATIONS, Cluster, Strategy
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import FIXED, IDLE, PALE

Kind = Callable[[Strategy, Cluster], bool]
ALONE = "data parallel alone"
SPLITS: dict[str, Kind] = {
    ALONE: lambda s, c: s.tensor == s.pipeline == s.context == 1,
    "tensor without pipeline": lambda s, c: s.tensor > 1 and s.pipeline == 1,
    "pipeline without tensor": lambda s, c: s.tensor == 1 and s.pipeline > 1,
    "tensor with pipeline": lambda s, c: s.tensor > 1 and s.pipeline > 1,
}
KINDS: dict[str, Kind] = SPLITS | {
    "shared sequences": lambda s, c: s.context > 1,
    "no ZeRO": lambda s, c: not s.shard_stage,
    "tensor beyond a machine": lambda s, c: s.tensor > c.gpus_per_node,
    "ZeRO-3 everywhere": lambda s, c: s.shard_stage == 3,
    "full recomputation": lambda s, c: s.recomputation == "full",
}
HEAD = "data tensor pipe ZeRO micro schedule    recompute  memory     step  model use"


def _row(step: SimulatedStep) -> str:
    """The knobs of a strategy, the memory of its fullest GPU, its time."""
    s = step.strategy
    return (
        f"{s.data:4} {s.tensor:6} {s.pipeline:4} {s.shard_stage:4} {s.micro_batch:5} "
        f"{s.schedule:<11} {s.recomputation:<9} {sum(step.memory) / 1e9:4.0f} GB "
        f"{step.seconds:6,.2f} s {step.model_utilisation:9.1%}"
        + ("  sequence parallel" if s.sequence_parallel else "")
        + (f"  context {s.context}" if s.context > 1 else "")
        + (f"  experts over {s.expert}" if s.expert > 1 else "")
        + (f"  in {s.hybrid} groups" if s.hybrid > 1 else "")
    )


def print_best_plans(
    survey: StrategySurvey,
    best: list[SimulatedStep],
    asked: Callable[[Strategy], bool] = lambda strategy: True,
) -> None:
    """A row for each plan, best first; or the least memory of those that were asked."""
    if not best:
        memory = {s: size for s, size in survey.memory.items() if asked(s)}
        least = min(memory, key=memory.__getitem__)
        needs = (memory[least] + survey.cluster.reserve) / 1e9
        print(f"nothing fits: the least that a GPU needs is {needs:,.1f} GB, "
              f"with data {least.data}, tensor {least.tensor}, pipeline "
              f"{least.pipeline}, ZeRO-{least.shard_stage}")  # fmt: skip
        return
    print(f"\n   {HEAD}")
    for place, step in enumerate(best, 1):
        print(f"{place}. {_row(step)}")
        shares = {part: t / step.seconds for part, t in step.spent.items()}
        parts = (f"{part} {s:.0%}" for part, s in shares.items() if s > 0.005)
        print(f"        {', '.join(parts)}")


OFTEN_MISSED = 0.05  # the mean of published runs: see `published_table.py`


def _what_costs_more(step: SimulatedStep, best: SimulatedStep) -> str:
    """The part of the step that has grown most compared with the best."""
    grown = {part: t - best.spent[part] for part, t in step.spent.items()}
    part = max(grown, key=grown.__getitem__)
    of_best, again = (
        RECOMPUTATIONS.index(one.strategy.recomputation) for one in (best, step)
    )
    reason = part if part in ("computing", "waiting") else f"{part} messages"
    reason = "recomputing" if part == "computing" and again > of_best else reason
    return f"+{grown[part]:.2f} s {reason}"


class BestOfKind(NamedTuple):
    """A kind's best plan; if none fits, the bytes that it needs, or 0."""

    step: SimulatedStep | None
    needs: float

    def loses_to(self, best: SimulatedStep) -> str:
        """By how much it takes longer, and why."""
        if not self.step:
            needs = f"needs {(self.needs + best.cluster.reserve) / 1e9:,.0f} GB"
            return needs if self.needs else "does not divide these sizes"
        slower = self.step.seconds / best.seconds - 1
        if not slower:
            return "is the best of all"
        why = _what_costs_more(self.step, best)
        near = f", within the simulator's {OFTEN_MISSED:.0%}"
        return f"takes {slower:.1%} longer{near * (slower < OFTEN_MISSED)}: {why}"


def best_of_kinds(survey: StrategySurvey) -> dict[str, BestOfKind]:
    """The best plan of each of KINDS."""
    found = {}
    for name, kind in KINDS.items():

        def belongs(strategy: Strategy, kind: Kind = kind) -> bool:
            return kind(strategy, survey.cluster)

        steps = fastest_strategies(survey, 1, among=belongs)
        needs = min((n for s, n in survey.memory.items() if belongs(s)), default=0)
        found[name] = BestOfKind(steps[0] if steps else None, needs)
    return found


def why_best(best: SimulatedStep, kinds: dict[str, BestOfKind]) -> str:
    """Why a plan is best: how it spends its time, and what other kinds lose by."""
    share, again = best.spent["computing"] / best.seconds, best.strategy.recomputation
    twice = {"none": "nothing", "selective": "attention", "full": "all layers"}[again]
    others = [n for n, kind in SPLITS.items() if not kind(best.strategy, best.cluster)]
    others.sort(key=lambda n: kinds[n].step.seconds if kinds[n].step else float("inf"))
    named = [others[0], *(n for n in others[1:] if n == ALONE)]
    named += ["no ZeRO"] if best.strategy.shard_stage else []
    named = named if best.cluster.gpus > 1 else []
    clauses = (f"; {name} {kinds[name].loses_to(best)}" for name in named)
    return f"GPUs compute for {share:.0%} of the time, {twice} twice" + "".join(clauses)


def print_why(survey: StrategySurvey, best: SimulatedStep) -> None:
    """Why the best plan is best, and the best of each kind that is possible."""
    kinds = best_of_kinds(survey)
    print(textwrap.fill(f"why: {why_best(best, kinds)}", 95, subsequent_indent="  "))
    print("\nthe best of each kind, data×tensor×pipe")
    for name, kind in kinds.items():
        if kind.needs:
            row = f"{'none':>10}  {'':9}"
            if kind.step:
                split = "×".join(map(str, split_of(kind.step.strategy)))
                row = f"{kind.step.seconds:8,.2f} s  {split:9}"
            row = f"{name:<24}{row} {kind.loses_to(best)}"
            print(textwrap.fill(row, 100, subsequent_indent=" " * 46))


def print_place(
    name: str,
    survey: StrategySurvey,
    split: Split,
    among: Callable[[Strategy], bool] = lambda strategy: True,
) -> None:
    """Where a split stands among all plans that fit, and what it loses to the best."""
    place, splits, own, first = rank_of_split(survey, split, among)
    slower, why = own.seconds / first.seconds - 1, _what_costs_more(own, first)
    loses = f"{slower:.1%} slower: {why}" if slower else "none is faster"
    print(f"{name:<27} {split!s:<12} {place:2} of {splits:3}, {loses}")


OF_SPANS = {"wait": PALE} | FIXED | {"update": COLOURS[2]}


def draw_step(step: SimulatedStep):
    """A plan drawn: memory beside the room of a GPU, one replica's timeline."""
    ranks = step.strategy.pipeline
    height = 2.4 + min(0.5 * ranks, 16)
    fig, (memory, times) = figure(2, 1, height=height, stamp="simulated")
    draw_memory(step, memory)
    spans = timeline_of_step(step).spans
    for kind, colour in OF_SPANS.items():
        for rank in range(ranks):
            lane = f"stage {rank}"
            mine = [s for s in spans if s.lane == lane and s.name.startswith(kind)]
            extents = [(span.start, span.end - span.start) for span in mine]
            times.broken_barh(extents, (rank - 0.35, 0.7), fc=colour, lw=0)
    times.set_facecolor(IDLE)
    times.set_ylim(ranks - 0.5, -0.5)
    times.set_yticks(range(ranks), [f"stage {rank}" for rank in range(ranks)])
    times.set_xlim(0, step.seconds)
    times.set_xlabel("seconds of one step on a replica; grey is idle")
    key = [Patch(fc=colour, ec="black", label=k) for k, colour in OF_SPANS.items()]
    times.legend(handles=key, ncols=4, loc="lower left", bbox_to_anchor=(0, 1),
                 frameon=False, fontsize=8)  # fmt: skip
    return fig
