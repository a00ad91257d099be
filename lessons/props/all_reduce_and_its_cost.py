"""Pictures of lesson 10b: who holds what, measured points, lines that predict them."""

from itertools import pairwise
from pathlib import Path

from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from sidebyside import COLOURS, figure
from sidebyside.timeline.touchable import make_touchable

NUMBERS = 840  # of four bytes, in a ring to touch: 2 to 8 ranks divide it


def who_holds_what(way: str, ranks: int) -> list[list[list[int]]]:
    """At first and after each step, for each rank and chunk: of how many ranks the sum.

    `way` is "ring", or "tree" for a power of two of ranks, whose one chunk is all.
    """
    everyone, down = range(ranks), [2**n for n in range((ranks - 1).bit_length())]
    if way == "ring":  # sender, receiver, chunk
        steps = [
            [(rank, (rank + 1) % ranks, (rank - step) % ranks) for rank in everyone]
            for step in range(2 * (ranks - 1))
        ]
    else:
        steps = [[(r, r - far, 0) for r in range(far, ranks, 2 * far)] for far in down]
        steps += [[(to, of, 0) for of, to, _ in step] for step in reversed(steps)]
    held = [[[1] * (ranks if way == "ring" else 1) for _ in everyone]]
    for step, messages in enumerate(steps):
        after = [list(chunks) for chunks in held[-1]]
        for sender, receiver, chunk in messages:
            added = held[-1][receiver][chunk] if step < len(steps) / 2 else 0
            after[receiver][chunk] = held[-1][sender][chunk] + added
        held.append(after)
    return held


def draw_who_holds_what(way: str, ranks: int):
    """A group of boxes after each step: a colour is a chunk, strong when it is done.

    A black edge marks what has arrived in this step.
    """
    held = who_holds_what(way, ranks)
    chunks = len(held[0][0])
    alt = f"how many ranks each chunk adds up, after each step of the {way}"
    fig, ax = figure(height=0.5 + 0.4 * ranks, stamp="computed", alt=alt)
    for step, (before, of_ranks) in enumerate(pairwise([held[0], *held])):
        for rank, counts in enumerate(of_ranks):
            for chunk, count in enumerate(counts):
                x, fill = step * (chunks + 1) + chunk, COLOURS[chunk]
                edge = "none" if count == before[rank][chunk] else "black"
                ax.barh(rank, 0.9, left=x, ec=edge, fc=(fill, 0.7 * count / ranks))
                ax.text(x + 0.5, rank, count, ha="center", va="center")
    middles = [step * (chunks + 1) + chunks / 2 for step in range(len(held))]
    ax.set_xticks(middles, ["at first", *(f"step {n}" for n in range(1, len(held)))])
    ax.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    ax.invert_yaxis()
    return fig


def touch_ring(ranks: int):
    """A ring that can be touched: after each step, how many ranks a chunk adds up."""
    choices = {"ranks": range(2, 9), "step": range(15)}
    return make_touchable(
        draw_who_holds_what("ring", ranks),
        [Path(__file__).with_name("touch_ring.js")],
        choices,
        {"ranks": ranks, "step": 0},
        held={n: who_holds_what("ring", n) for n in choices["ranks"]},
        chunk={n: 4 * NUMBERS // n for n in choices["ranks"]},
    )


def draw_link(timed: dict[int, float], link: dict, unseen: tuple[int, float]):
    """Seconds of a message of each size, the fitted line, and the size left out."""
    sizes = sorted([*timed, unseen[0]])
    line = [1e3 * (link["alpha"] + link["beta"] * size) for size in sizes]
    points = [1e3 * seconds for seconds in timed.values()]
    fig, ax = figure(height=2.8, alt="time of a message against its size, and the line")
    ax.loglog(sizes, line, color="black")
    ax.loglog(list(timed), points, "o", color=COLOURS[0])
    ax.loglog([unseen[0]], [1e3 * unseen[1]], "s", color=COLOURS[1], ms=8)
    where = {"xytext": (-10, 6), "textcoords": "offset points", "ha": "right"}
    place = unseen[0], 1e3 * unseen[1]
    ax.annotate("not seen by the fit", place, color=COLOURS[1], **where)
    ax.set_xlabel("bytes (line: fitted, points: measured)")
    ax.set_ylabel("time of a message (ms)")
    return fig


def draw_crossover(times: dict[tuple[str, int], float], alpha: float, beta: float):
    """Seconds that each (way, size) took over the paced link of four ranks."""
    sizes = sorted({size for _, size in times})
    fig, ax = figure(height=2.8, stamp="simulated", alt="tree and ring against size")
    for way, colour in zip(
        dict.fromkeys(way for way, _ in times), COLOURS, strict=False
    ):
        line = [1e3 * predicted_seconds(way, 4, size, alpha, beta) for size in sizes]
        kilobytes = [size / 1000 for size in sizes]
        ax.plot(kilobytes, line, color=colour)
        ran = [1e3 * times[way, size] for size in sizes]
        ax.plot(kilobytes, ran, "o", color=colour)
        ax.text(1.03 * kilobytes[-1], line[-1], way, color=colour, va="center")
    ax.set_xlabel("size in KB (lines: predicted, points: run)")
    ax.set_ylabel("time of an all-reduce (ms)")
    return fig


def draw_residuals(carried: list[float], seconds: list[float], fitted: list[float]):
    """Published time divided by fitted time, for sizes from bytes to gigabytes."""
    ratios = [time / line for time, line in zip(seconds, fitted, strict=True)]
    fig, ax = figure(height=2.6, stamp="published", alt="published over fitted time")
    ax.axhline(1, color="black", lw=1)
    ax.semilogx(carried, ratios, "o-", color=COLOURS[0])
    ax.set_xlabel("bytes that each link carries in a ring")
    ax.set_ylabel("published / fitted time")
    ax.set_ylim(0, None)
    return fig
