"""Pictures of lesson 12a: staleness, loss over updates and seconds, costs."""

from collections import Counter

from sidebyside import COLOURS, figure


def draw_staleness(of_workers: dict[str, list[int]]):
    """How many updates had which staleness: a histogram for each group of workers."""
    fig, axes = figure(
        1, len(of_workers), height=2.4, sharex=True, squeeze=False, stamp="simulated",
        alt="histograms of staleness: " + ", ".join(of_workers),
    )  # fmt: skip
    for ax, colour, (name, staleness) in zip(
        axes[0], COLOURS, of_workers.items(), strict=False
    ):
        counts = Counter(staleness)
        ax.bar(list(counts), list(counts.values()), color=colour)
        ax.set_title(f"{name}: {len(staleness)} updates", fontsize=10)
        ax.set_xlabel("staleness (updates)")
    axes[0][0].set_ylabel("number of updates")
    return fig


def draw_both_clocks(curves: dict[str, list[tuple]], updates: int):
    """Loss of each design against updates (up to `updates`), and against seconds."""
    fig, (by_updates, by_seconds) = figure(
        1, 2, height=2.8, stamp="simulated",
        alt="loss against updates, and against seconds",
    )  # fmt: skip
    for place, (name, rows) in enumerate(curves.items()):
        colour, style = COLOURS[place], ["-", "--"][place % 2]
        first = [row for row in rows if row[0] <= updates]
        for ax, clock, part in ((by_updates, 0, first), (by_seconds, 1, rows)):
            points = [row[clock] for row in part], [row[2] for row in part]
            ax.plot(*points, style, color=colour, label=name)
    by_updates.set_xlabel("updates")
    by_seconds.set_xlabel("seconds (s)")
    by_updates.set_ylabel("loss over all images")
    by_updates.legend(frameon=False)
    return fig


def draw_server_costs(costs: dict[str, dict[int, tuple[float, float]]]):
    """For each way, {workers: (predicted, measured) seconds}: lines and points."""
    fig, ax = figure(height=2.8, stamp="simulated", alt="seconds against workers")
    for (name, of_workers), colour in zip(costs.items(), COLOURS, strict=False):
        workers = sorted(of_workers)
        ax.plot(workers, [1e3 * of_workers[n][0] for n in workers], color=colour)
        ax.plot(workers, [1e3 * of_workers[n][1] for n in workers], "o", color=colour)
        place = workers[-1], 1e3 * of_workers[workers[-1]][0]
        ax.annotate(
            name, place, xytext=(8, -3), textcoords="offset points", color=colour
        )
    ax.set_xlabel("workers (lines: predicted, points: run)")
    ax.set_ylabel("one update (ms)")
    ax.set_xlim(0, 1.35 * max(max(of) for of in costs.values()))
    ax.set_ylim(0, None)
    return fig
