"""Pictures of lesson 10b: measured points, and the lines that predict them."""

from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from sidebyside import COLOURS, figure


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
    """Measured seconds of each (way, size) over the paced link of four ranks."""
    sizes = sorted({size for _, size in times})
    fig, ax = figure(height=2.8, stamp="simulated", alt="tree and ring against size")
    for way, colour in zip(
        dict.fromkeys(way for way, _ in times), COLOURS, strict=False
    ):
        line = [1e3 * predicted_seconds(way, 4, size, alpha, beta) for size in sizes]
        kilobytes = [size / 1000 for size in sizes]
        ax.plot(kilobytes, line, color=colour)
        measured = [1e3 * times[way, size] for size in sizes]
        ax.plot(kilobytes, measured, "o", color=colour)
        ax.text(1.03 * kilobytes[-1], line[-1], way, color=colour, va="center")
    ax.set_xlabel("size in KB (lines: predicted, points: measured)")
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
