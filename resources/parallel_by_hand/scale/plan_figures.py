"""A plan as a picture, and what more GPUs buy as another."""

from matplotlib.patches import Patch

from parallel_by_hand.scale.plan_facts import cost_of_tokens, tokens_per_second
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.step_tables import draw_bars_of_memory, memory_in_words
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import FIXED, GREY, IDLE, PALE

OF_SPANS = {"wait": PALE} | FIXED | {"update": COLOURS[2]}


def draw_step(step: SimulatedStep):
    """Memory by part beside the room of a GPU, and the timeline of one replica."""
    ranks = step.strategy.pipeline
    tall = min(0.25 * ranks, 8) + 0.4
    fig, (memory, times) = figure(
        2, 1, height=2 * tall + 1.6, stamp="simulated", alt=memory_in_words(step)
    )
    draw_bars_of_memory(memory, step)
    bars: dict[str, dict[int, list]] = {kind: {} for kind in OF_SPANS}
    for span in timeline_of_step(step).spans:
        kind, lane = span.name.split()[0], span.lane.split()
        if len(lane) == 2:  # a stage; its link's messages are the waiting
            extent = span.start, span.end - span.start
            bars[kind].setdefault(int(lane[1]), []).append(extent)
    for kind, of_ranks in bars.items():
        for rank, extents in of_ranks.items():
            times.broken_barh(extents, (rank - 0.35, 0.7), fc=OF_SPANS[kind], lw=0)
    times.set_facecolor(IDLE)
    times.set_ylim(ranks - 0.5, -0.5)
    times.set_yticks(range(ranks), [f"stage {rank}" for rank in range(ranks)])
    times.set_xlim(0, step.seconds)
    times.set_xlabel("seconds of one step on a replica; grey is idle")
    key = [Patch(fc=colour, ec="black", label=k) for k, colour in OF_SPANS.items()]
    times.legend(handles=key, ncols=4, loc="lower left", bbox_to_anchor=(0, 1),
                 frameon=False, fontsize=8)  # fmt: skip
    return fig


def draw_sweep(steps: list[SimulatedStep], tokens: float):
    """Tokens per second, beside as many for each GPU as the fewest reach; and cost."""
    gpus = [step.cluster.gpus for step in steps]
    rates = [tokens_per_second(step) for step in steps]
    costs = [cost_of_tokens(step, tokens) for step in steps]
    words = "; ".join(
        f"{n:,} GPUs: {rate:,.0f} tokens/s, cost {cost:,.0f}"
        for n, rate, cost in zip(gpus, rates, costs, strict=True)
    )
    fig, (fast, dear) = figure(1, 2, stamp="simulated", alt=words)
    each = rates[-1] / gpus[-1]
    fast.plot(gpus, [each * n for n in gpus], color=GREY, ls=":")
    fast.text(gpus[0], rates[-1], "dotted: in proportion", ha="right", color=GREY)
    fast.plot(gpus, rates, "o-", color=COLOURS[0])
    fast.set_yscale("log")
    fast.set_ylabel("tokens/s")
    dear.plot(gpus, costs, "o-", color=COLOURS[1])
    dear.set_ylim(0, 1.1 * max(costs))
    dear.set_ylabel(f"cost of {tokens:.3g} tokens")
    for ax in fast, dear:
        ax.set_xscale("log", base=2)
        ax.set_xticks(gpus, [f"{n:,}" for n in gpus])
        ax.set_xlabel("GPUs")
    return fig
