"""Strong and weak scaling, from one core of this machine to ten thousand GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from parallel_by_hand.scale import published as paper
from parallel_by_hand.scale.calibration import step_seconds
from parallel_by_hand.scale.crossovers import fixed_batch_step
from parallel_by_hand.scale.goodput import goodput
from parallel_by_hand.scale.published_runs import fixed_batch_strategy, gpt, selene
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.this_machine import measure_step, strategies_of_two
from parallel_by_hand.scale.training_plan import Model
from sidebyside import COLOURS, figure, run_ranks

SMALL = Model(layers=2, hidden=128, heads=4, sequence=32, vocabulary=0)
STRONG = 96, 192, 384, 768, 1536, 3072, 6144, 12_288  # copies of 96 GPUs
SEQUENCES_OF_REPLICA = 384  # weak scaling: as in Table 2's first row


class ScalingSeries(NamedTuple):
    """A scaling curve: workers, samples per second of each, and how it is known."""

    name: str
    source: str  # "measured", "simulated" or "published"
    workers: list[int]
    throughput: Sequence[float]

    @property
    def relative(self) -> list[float]:
        return [each / self.throughput[0] for each in self.throughput]


def measured_series(rounds: int = 5) -> list[ScalingSeries]:
    """Scaling on this machine, one rank and two: a fixed and a growing batch."""
    series = []
    both = strategies_of_two(16)["data"]
    pair = step_seconds(run_ranks(measure_step, SMALL, both, 16, rounds, world_size=2))
    for name, batch in (("strong", 16), ("weak", 8)):
        alone = replace(both, data=1, micro_batch=batch)
        task = SMALL, alone, batch, rounds
        one = step_seconds(run_ranks(measure_step, *task, world_size=1))
        series.append(ScalingSeries(name, "measured", [1, 2], [batch / one, 8 / pair]))
    return series


def strong_series(name: str, counts: Iterable[int] = STRONG) -> ScalingSeries:
    """Strong scaling: Table 2's model and batch on more GPUs, "ZeRO-3" or "PTD"."""
    counts, batch = list(counts), paper.TABLE_2_BATCH
    each = [batch / fixed_batch_step(name, n).seconds / n for n in counts]
    return ScalingSeries(f"{name}, strong", "simulated", counts, each)


def weak_series(
    counts: Iterable[int] = STRONG, lost: float | None = None
) -> ScalingSeries:
    """Weak scaling: each copy on 96 GPUs has 384 sequences, however many copies.

    With `lost`, times the share that counts if an interruption costs so many seconds.
    """
    model = gpt(paper.TABLE_2_LAYERS, paper.TABLE_2_HIDDEN, paper.TABLE_2_HEADS)
    counts, each = list(counts), []
    for gpus in counts:
        strategy = fixed_batch_strategy("PTD", gpus, 1)
        batch = SEQUENCES_OF_REPLICA * strategy.data
        step = simulate_step(model, selene(gpus), strategy, batch)
        share = 1.0 if lost is None else goodput(gpus, lost)
        each.append(share * batch / step.seconds / gpus)
    name = "PTD, weak" if lost is None else "with failures"
    return ScalingSeries(name, "simulated", counts, each)


def published_series() -> list[ScalingSeries]:
    """Scaling as published: Table 1 (weak: models grow), Table 2's halves (strong)."""
    rows = paper.MEGATRON_TABLE_1
    gpus, teraflops = [r.gpus for r in rows], [r.teraflops for r in rows]
    series = [ScalingSeries("Table 1", "published", gpus, teraflops)]
    for name in ("PTD", "ZeRO-3"):
        rows = [r for r in paper.MEGATRON_TABLE_2 if r.strategy == name]
        gpus, teraflops = [r.gpus for r in rows], [r.teraflops for r in rows]
        series.append(ScalingSeries(f"Table 2, {name}", "published", gpus, teraflops))
    return series


LOOKS = {
    "measured": {"marker": "s", "ms": 7, "lw": 1, "ls": ":"},
    "simulated": {"lw": 2},
    "published": {"marker": "o", "ms": 7, "mfc": "white", "lw": 0},
}
PTD, ZERO_3, HERE, FAILING, TABLE = COLOURS
LABELS = {  # of a series' name: words, where they stand, how they are aligned, colour
    "strong": ("this machine,\nmeasured", 2.6, 0.55, "left", HERE),
    "weak": ("this machine,\nmeasured", 2.6, 0.55, "left", HERE),
    "PTD, strong": ("PTD", 3600, 0.86, "left", PTD),
    "ZeRO-3, strong": ("ZeRO-3", 600, 0.5, "right", ZERO_3),
    "Table 2, PTD": ("", 1, 1, "left", PTD),
    "Table 2, ZeRO-3": ("circles: published", 12_000, 1.15, "right", ZERO_3),
    "PTD, weak": ("PTD", 12_000, 1.03, "right", PTD),
    "with failures": ("PTD with failures", 12_000, 0.8, "right", FAILING),
    "Table 1": ("Table 1, published", 1500, 1.22, "right", TABLE),
}


def draw_scaling(panels: dict[str, list[ScalingSeries]]):
    """A panel each; measured squares, simulated lines, published circles."""
    words = "; ".join(
        f"{s.source} {s.name}: {s.relative[-1]:.2f} at {s.workers[-1]:,}"
        for series in panels.values()
        for s in series
    )
    fig, axes = figure(
        1, len(panels), height=3, stamp="simulated", alt=words, sharey=True
    )
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        for one in series:
            text, x, y, side, colour = LABELS[one.name]
            ax.plot(one.workers, one.relative, color=colour, **LOOKS[one.source])
            ax.text(x, y, text, ha=side, color=colour, fontsize=8)
        ax.set_xscale("log")
        ax.set_xlabel(f"{title}: workers")
    axes[0].set_ylabel("throughput of each")
    sources = "squares: measured here, lines: simulated, circles: published"
    fig.supxlabel(sources, x=0.995, ha="right", fontsize=7)
    axes[0].set_ylim(0, 1.35)
    return fig
