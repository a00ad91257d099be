"""A simulated step as tables in text, and its memory as a figure."""

from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.sharding.ledger import Ledger
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import GREY, light_colour

MOST_ROWS = 8  # ranks in a table; of more, the first and the last ones are shown


def print_step(step: SimulatedStep) -> None:
    """Time, utilisation, memory by rank, bytes by group, cost and energy."""
    model, strategy = step.model, step.strategy
    count = strategy.micro_batches(step.batch)
    active = (
        f", {model.active_numbers / 1e9:,.1f} B active," if model.experts > 1 else ""
    )
    print(
        f"{model.numbers / 1e9:,.1f} B parameters{active} on "
        f"{step.cluster.gpus:,} GPUs: data {strategy.data}, tensor {strategy.tensor}, "
        f"pipeline {strategy.pipeline}"
    )
    print(
        f"{step.batch:,} sequences, {count} micro-batches on each replica (simulated)"
    )
    parts = (f"{part} {s / step.seconds:.1%}" for part, s in step.spent.items())
    print(f"step {step.seconds:.3g} s: {', '.join(parts)}")
    flops = step.hardware_utilisation * step.cluster.peak_flops / 1e12
    print(
        f"utilisation: hardware {step.hardware_utilisation:.1%} "
        f"({flops:.0f} TF/s on each GPU), model {step.model_utilisation:.1%}"
    )
    print(f"bubble {step.bubble:.1%}, idle {step.idle:.1%}")
    _print_memory(step)
    for of, sizes in (("groups", step.sent), ("links", step.sent_over)):
        parts = (f"{name} {size / 1e6:,.1f}" for name, size in sizes.items())
        print(f"MB sent, by {of}: {', '.join(parts)}")
    print(f"cost {step.cost:,.2f} for the step, energy {step.energy / 3.6e6:,.2f} kWh")


def _print_memory(step: SimulatedStep) -> None:
    """GB on a GPU of each rank of the pipeline: 17's ledger."""
    names = [*Ledger._fields, "total"]
    print("GB" + " " * 7 + "".join(f"{name:>12}" for name in names))
    ranks = range(len(step.ledgers))
    if len(ranks) > MOST_ROWS:
        ranks = [*ranks[: MOST_ROWS // 2], *ranks[-MOST_ROWS // 2 :]]
    for place, rank in enumerate(ranks):
        if rank > place == MOST_ROWS // 2:
            print("...")
        row = *step.ledgers[rank], sum(step.ledgers[rank])
        print(f"stage {rank:<3}" + "".join(f"{size / 1e9:12.2f}" for size in row))
    room = step.cluster.memory
    print(f"{'fits' if step.fits else 'does not fit'} into {room / 1e9:,.0f} GB "
          f"({room / 2**30:,.1f} GiB)")  # fmt: skip


def draw_memory(step: SimulatedStep, ax=None):
    """The memory of a step's tables, drawn: a bar for each rank, on axes or a figure.

    Dotted is the room of a GPU, hatched what is reserved of it.
    """
    totals = [sum(ledger) / 1e9 for ledger in step.ledgers]
    room = step.cluster.memory / 1e9
    alt = f"memory in GB of {room:.0f}, by stage: " + "; ".join(
        f"stage {rank}: {total:.1f}" for rank, total in enumerate(totals)
    )
    fig = None
    if ax is None:
        fig, ax = figure(height=0.3 * len(totals) + 1.2, stamp="computed", alt=alt)
    names = [f"stage {rank}" for rank in range(len(totals))]
    left = [0.0] * len(totals)
    for part, colour in zip(Ledger._fields, COLOURS, strict=True):
        sizes = [getattr(ledger, part) / 1e9 for ledger in step.ledgers]
        if any(sizes):
            shade = light_colour(colour)
            ax.barh(names, sizes, 0.7, left, color=shade, edgecolor="black", label=part)
        left = [start + size for start, size in zip(left, sizes, strict=True)]
    for rank, total in enumerate(totals):
        ax.text(total, rank, f" {total:.1f}", va="center", fontsize=8)
    if max(totals) > room / 2 or step.cluster.reserve:
        ax.axvline(room, color="black", linestyle=":")
    if step.cluster.reserve:
        ax.axvspan(room - step.cluster.reserve / 1e9, room, fc="none", ec=GREY,
                   hatch="////", label="reserve")  # fmt: skip
    ax.invert_yaxis()
    ax.legend(ncols=len(Ledger._fields) + 1, loc="lower left", bbox_to_anchor=(0, 1),
              frameon=False, fontsize=8)  # fmt: skip
    ax.set_xlabel(f"GB on a GPU of the stage, which has room for {room:.0f}")
    return fig
