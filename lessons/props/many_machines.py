"""The picture of lesson 18a: ways to send, as bars."""

from collections.abc import Mapping

from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import light_colour


def draw_ways(found: Mapping[str, object], rate: float):
    """`found` maps each way to a Training; `rate` is the link's, in Mbit/s.

    The dark part of a bar is what the bytes of a step take at this rate.
    """
    alt = "time per step and loss of each way"
    fig, ax = figure(height=2.8, stamp="simulated", alt=alt)
    ax.set_axis_off()
    names = list(found)[::-1]
    panels = [fig.add_axes((0.17 + 0.42 * n, 0.26, 0.34, 0.7)) for n in range(2)]
    times, losses = panels
    for row, name in enumerate(names):
        whole = 1000 * found[name].seconds_per_step
        link = min(whole, 8e-3 * found[name].bytes_per_step / rate)
        times.barh(row, link, color=COLOURS[0], height=0.6)
        times.barh(
            row, whole - link, left=link, color=light_colour(COLOURS[0]), height=0.6
        )
        times.text(whole, row, f" {whole:.0f}", va="center")
        losses.barh(row, found[name].loss, color=COLOURS[1], height=0.6)
        losses.text(found[name].loss, row, f" {found[name].loss:.2f}", va="center")
    times.set_yticks(range(len(names)), names)
    losses.set_yticks([])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlim(0, 1.15 * panel.dataLim.x1)
    times.set_xlabel("ms per step (dark: bytes / rate)")
    losses.set_xlabel("loss after the last step")
    return fig
