"""The picture of lesson 20b: what a training has learned, beside counting."""

from sidebyside import COLOURS, figure


def draw_text_curve(learned: dict[int, float], baselines: dict[str, float]):
    """Bits per character after so many steps; a level line for each baseline."""
    steps, bits = list(learned), list(learned.values())
    told = ", ".join(f"{b:.1f} after {step} steps" for step, b in learned.items())
    fig, ax = figure(height=3.2, alt=f"the transformer needs {told}")
    ax.plot(steps, bits, "o-", color=COLOURS[0])
    last = steps[-1]
    ax.annotate(
        "transformer", (steps[0], bits[0]), (-2, -8), textcoords="offset points",
        color=COLOURS[0], ha="right", va="top",
    )  # fmt: skip
    for name, level in baselines.items():
        if level < 1.5 * bits[0]:  # the others would press the curve flat
            ax.axhline(level, xmax=0.825, color=COLOURS[4], linewidth=0.8)
            ax.text(last * 1.02, level, name, va="center")
    ax.set_xlim(0, last * 1.22)
    ax.set_xlabel("steps")
    ax.set_ylabel("bits per character")
    return fig
