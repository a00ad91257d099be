"""Where one thing begins to cost more than another: three crossings, simulated."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from parallel_by_hand.scale import published as paper
from parallel_by_hand.scale.published_runs import fixed_batch_strategy, gpt, selene
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.training_plan import Strategy
from sidebyside import COLOURS, figure


class CrossoverCurves(NamedTuple):
    """Two costs that cross, for each x, in the unit that `unit` says."""

    x: list[int]
    first: list[float]
    second: list[float]


def first_crossing(curves: CrossoverCurves) -> float | None:
    """The x at which the first curve comes to lie above the second, by straight lines.

    None if it does nowhere.
    """
    gaps = [a - b for a, b in zip(curves.first, curves.second, strict=True)]
    points = list(zip(curves.x, gaps, strict=True))
    for (x0, gap0), (x1, gap1) in pairwise(points):
        if gap0 <= 0 < gap1:
            return x0 + (x1 - x0) * gap0 / (gap0 - gap1)
    return None


def _crossover_curves(
    x: Iterable[int], pair: Callable[[int], tuple[float, ...]]
) -> CrossoverCurves:
    x = list(x)
    return CrossoverCurves(x, *map(list, zip(*map(pair, x), strict=True)))


def _sequences_curves() -> CrossoverCurves:
    """Sequences for each GPU: seconds of computing, and of data parallel's all-reduce.

    1.7 billion parameters on 128 GPUs, nothing overlapped or computed again. What if a
    node had one network card for its eight GPUs?
    """
    row = paper.MEGATRON_TABLE_1[0]
    model = gpt(row.layers, row.hidden, row.heads)
    one_card = replace(selene(128), ring_of_all_cards=False)

    def pair(count: int) -> tuple[float, ...]:
        strategy = Strategy(data=128, fused_attention=True)
        spent = simulate_step(model, one_card, strategy, 128 * count).spent
        return spent["computing"], spent["data"]

    return _crossover_curves(range(1, 9), pair)


def fixed_batch_step(name: str, gpus: int) -> SimulatedStep:
    """For a crossing: Table 2's model on any number of GPUs, "ZeRO-3" or "PTD"."""
    model = gpt(paper.TABLE_2_LAYERS, paper.TABLE_2_HIDDEN, paper.TABLE_2_HEADS)
    micro = max(1, paper.TABLE_2_BATCH // gpus) if name == "ZeRO-3" else 1
    strategy = fixed_batch_strategy(name, gpus, micro)
    return simulate_step(model, selene(gpus), strategy, paper.TABLE_2_BATCH)


def _fixed_batch_curves() -> CrossoverCurves:
    """GPUs: seconds of ZeRO-3, and of pipeline, tensor and data parallel together."""

    def pair(gpus: int) -> tuple[float, ...]:
        steps = (fixed_batch_step(way, gpus) for way in ("ZeRO-3", "PTD"))
        return tuple(step.seconds for step in steps)

    return _crossover_curves((768, 1536), pair)


def _micro_batch_curves() -> CrossoverCurves:
    """Micro-batches: seconds of tensor parallel, and of a pipeline, within a machine.

    18.4 billion parameters on one machine of eight GPUs, all of them in one group.
    """
    row = paper.MEGATRON_TABLE_1[3]
    model, cluster = gpt(row.layers, row.hidden, row.heads), selene(8)
    tensor = Strategy(tensor=8, recomputation="full", fused_attention=True)
    pipeline = replace(tensor, tensor=1, pipeline=8)

    def pair(count: int) -> tuple[float, ...]:
        steps = (simulate_step(model, cluster, s, count) for s in (tensor, pipeline))
        return tuple(step.seconds for step in steps)

    return _crossover_curves(range(4, 41, 4), pair)


def three_crossovers() -> dict[str, CrossoverCurves]:
    """All three, each with the curve that begins below as the first."""
    return {
        "sequences": _sequences_curves(),
        "gpus": _fixed_batch_curves(),
        "micro": _micro_batch_curves(),
    }


WORDS = {  # x, the first curve, the second
    "sequences": ("sequences of a GPU", "computing", "all-reduce"),
    "gpus": ("GPUs", "ZeRO-3", "PTD"),
    "micro": ("micro-batches", "tensor", "pipeline"),
}


LABELS = {  # which point they stand at, how far from it, how they are aligned
    "computing": (4, (-8, 6), "right"),
    "all-reduce": (-1, (0, -12), "right"),
    "ZeRO-3": (0, (2, -24), "left"),
    "PTD": (0, (12, 0), "left"),
    "tensor": (-1, (-22, 0), "right"),
    "pipeline": (-1, (0, -40), "right"),
}


def draw_crossovers(found: dict[str, CrossoverCurves]):
    """A panel for each: seconds of a step, or of a part of it."""
    crossings = {name: first_crossing(curves) for name, curves in found.items()}
    alt = "; ".join(
        "{1} costs more than {2} from {x:.1f} {0}".format(*WORDS[name], x=x)
        for name, x in crossings.items()
    )
    fig, axes = figure(1, len(found), height=2.5, stamp="simulated", alt=alt)
    for ax, (name, curves) in zip(axes, found.items(), strict=True):
        unit, *names = WORDS[name]
        for label, y, colour in zip(names, curves[1:], COLOURS, strict=False):
            place, offset, side = LABELS[label]
            ax.plot(curves.x, y, color=colour, lw=2)
            ax.annotate(
                label, (curves.x[place], y[place]), offset, textcoords="offset points",
                ha=side, color=colour, fontsize=8,
            )  # fmt: skip
        ax.axvline(crossings[name], color="black", lw=0.8, ls=":")
        ax.set_xlabel(unit)
        ax.set_ylim(0)
    axes[0].set_ylabel("seconds")
    return fig
