"""Lesson 17b: what is gathered, as pictures, and layers that sleep a known time."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter, sleep

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.sharding.shard_links import SlowWire
from parallel_by_hand.sharding.zero_3 import TunedZeRO3
from sidebyside import COLOURS, device, figure, span
from sidebyside.timeline.figures import ink_colour, light_colour

Entries = Sequence[tuple[str, int]]  # (operation, bytes), as a GatheredLedger has them


def draw_borrowed_units():
    """Two units in one step: a band is what a rank keeps, a box the whole unit."""
    uses = "forward 1", "forward 2", "backward 2", "backward 1"
    alt = "; ".join(f"gather {use[-1]}, {use}, free {use[-1]}" for use in uses)
    fig, ax = figure(height=1.7, stamp="computed", alt=alt)
    for unit in (0, 1):
        ax.barh(unit, 12.3, 0.15, color=COLOURS[unit])
    for place, use in enumerate(uses):
        unit, left = int(use[-1]) - 1, 3.1 * place
        light = light_colour(COLOURS[unit])
        after = ("scatter", 0.85) if "backward" in use else ("free", 0)
        for text, wide in ("gather", 0.85), (use, 1.3), after:
            face = COLOURS[unit] if text == use else light
            ax.barh(unit, wide, 0.8, left=left, color=face, edgecolor="white")
            ink = ink_colour(face) if wide else "black"
            x, y = left + (wide or 0.85) / 2, unit + (0 if wide else 0.3)
            ax.text(x, y, text, color=ink, ha="center", va="center", fontsize=8)
            left += wide
    ax.set_yticks([0, 1], ["unit 1", "unit 2"])
    ax.set(ylim=(1.6, -0.6), xlim=(0, 12.4), xticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_xlabel("time")
    return fig


def draw_gathered(runs: Mapping[str, Entries], whole: int):
    """A line for each run: bytes of gathered parameters after each operation.

    `whole` is what all parameters take: the line that none should reach.
    """
    peaks = (
        f"{name}: at most {max(b for _, b in run):,}" for name, run in runs.items()
    )
    alt = f"bytes of gathered parameters, of {whole:,} in all; " + "; ".join(peaks)
    fig, axes = figure(
        1, len(runs), height=2.0, stamp="measured here", alt=alt, squeeze=False
    )
    for ax, (name, entries), colour in zip(
        axes[0], runs.items(), COLOURS, strict=False
    ):
        held = [bytes_ / 1000 for _, bytes_ in entries]
        ax.fill_between(range(len(held)), held, step="mid", color=colour, alpha=0.75)
        ax.axhline(whole / 1000, color=COLOURS[4], lw=1, ls="--")
        ax.text(
            len(held), whole / 1000 * 1.03, "all parameters", ha="right", fontsize=8
        )
        ax.set(ylim=(0, whole / 800), xlabel="operations of one step")
        ax.set_title(name, fontsize=9)
    axes[0][0].set_ylabel("KB gathered")
    return fig


def draw_kept(kept: Mapping[int, Mapping[int, float]]):
    """For each depth, a line: activations kept for segments of so many layers."""
    best = {depth: min(line, key=line.get) for depth, line in kept.items()}
    alt = "least kept: " + ", ".join(
        f"{depth} layers in segments of {length} keep {kept[depth][length]:.0f}"
        for depth, length in best.items()
    )
    fig, ax = figure(height=2.6, stamp="measured here", alt=alt)
    for (depth, line), colour in zip(kept.items(), COLOURS, strict=False):
        ax.plot(list(line), list(line.values()), marker="o", color=colour)
        last = max(line)
        ax.text(last * 1.1, line[last], f"{depth} layers", color=colour, va="center")
        ax.plot(best[depth], line[best[depth]], "o", ms=11, mfc="none", color=colour)
    ax.set(xscale="log", yscale="log", xlabel="layers in a segment")
    ticks = sorted({length for line in kept.values() for length in line})
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_yticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
    ax.minorticks_off()
    ax.set_xlim(0.9, 2.2 * max(ticks))
    ax.set_ylabel("activations kept")
    return fig


class Sleep(torch.autograd.Function):
    """The identity, which takes `seconds` forward and twice as long backward."""

    @staticmethod
    def forward(ctx, layer: "SleepingLayer", x: Tensor) -> Tensor:
        ctx.layer = layer
        layer.rest("forward", layer.seconds)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        ctx.layer.rest("backward", 2 * ctx.layer.seconds)
        return None, gradient


class SleepingLayer(nn.Module):
    """A linear layer that is as slow as we want: backward takes twice its `seconds`."""

    def __init__(self, width: int, seconds: float):
        super().__init__()
        self.linear, self.seconds = nn.Linear(width, width), seconds
        self.mark = nullcontext

    def rest(self, name: str, seconds: float) -> None:
        with self.mark(name):
            sleep(seconds)

    def forward(self, x: Tensor) -> Tensor:
        return Sleep.apply(self, self.linear(x))


def step_over_slow_wire(
    prefetch: bool, depth: int = 4, seconds: float = 0.04, travel: float = 0.03
) -> float:
    """Runs in each rank: seconds for a step, the second of two, which is drawn.

    A layer computes for `seconds` forward and twice that backward; to gather it or to
    scatter its gradients takes `travel` on a slow wire.
    """
    torch.manual_seed(0)
    layers = [SleepingLayer(32, seconds) for _ in range(depth)]
    wire = SlowWire(0)
    model = nn.Sequential(*layers).to(device())
    zero = TunedZeRO3(model, torch.optim.SGD, wire, prefetch)
    others = dist.get_world_size() - 1
    wire.bytes_per_second = others * zero.units[0].kept.nbytes / travel
    for mark in (nullcontext, span):
        for part in (wire, *layers):
            part.mark = mark
        dist.barrier()
        began = perf_counter()
        model(torch.ones(4, 32, device=device())).sum().backward()
        zero.step()
        taken = perf_counter() - began
    return taken
