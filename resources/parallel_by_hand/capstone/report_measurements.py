"""What a report measures by itself: the machine's constants, timelines, the ladder."""

import base64
from collections.abc import Callable, Iterable
from functools import wraps
from types import SimpleNamespace

import torch.distributed as dist

from parallel_by_hand.capstone.ladder_table import climb_ladder, how_predicted
from parallel_by_hand.capstone.report_page import ReportSection
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.text_state import (
    TEXT_MODEL,
    prepare_text_training,
    take_text_step,
)
from parallel_by_hand.collectives.link_cost import (
    LINK_SIZES,
    fit_with_intervals,
    time_messages,
)
from sidebyside import Timeline, draw_timelines, machine, run_ranks, span

LAST = "last step"
DRAWN = "one process", "DDP (ours)", "1F1B"


def constants_section(rounds: int = 6) -> ReportSection:
    """Of a report: capacity, and alpha and beta of a message between ranks (10b)."""
    here = machine()
    workers = max(2, min(here.usable_cores, 8))
    rows = [[f"capacity of {workers} processes", f"{here.capacity(workers):.2f} ×", ""]]
    timed = run_ranks(time_messages, LINK_SIZES, rounds, world_size=2)[0]
    fitted = fit_with_intervals(timed)
    low, high = (1e6 * alpha for alpha in fitted["alpha interval"])
    slow, fast = (1e-6 / beta for beta in reversed(fitted["beta interval"]))
    rows += [
        ["alpha of a message", f"{1e6 * fitted['alpha']:.0f} µs",
         f"{low:.0f} to {high:.0f} µs"],
        ["1/beta of a message", f"{1e-6 / fitted['beta']:.0f} MB/s",
         f"{slow:.0f} to {fast:.0f} MB/s"],
    ]  # fmt: skip
    return {
        "title": "Constants",
        "note": "Capacity: how much more that many busy processes get done than one "
        "(lesson 00). A message between two ranks takes alpha and beta for each byte "
        "(lesson 10b); the interval holds nine out of ten refits.",
        "columns": ["constant", "fitted", "interval"],
        "keys": 1,
        "rows": rows,
    }


def timelines_section(names: Iterable[str] = DRAWN, batch: int = 32) -> ReportSection:
    """Of a report: a picture for each strategy, of what its ranks do in a step."""
    pictures = []
    for name in names:
        with Timeline() as timeline:
            ranks = STRATEGIES[name].ranks
            run_ranks(train_in_spans, name, batch, world_size=ranks)
        drawn = draw_timelines({name: spans_of_last_step(timeline)})
        png = base64.b64encode(drawn._repr_png_()).decode()
        pictures.append({"alt": f"{name}: {drawn.alt}", "png": png})
    return {
        "title": "Timelines",
        "note": f"The third step of the language model, on {batch} rows. Waiting for "
        "other ranks is part of a span unless it has one of its own.",
        "pictures": pictures,
    }


def train_in_spans(name: str, batch: int) -> None:
    """Runs in each rank, for a report's timelines: the third step, in spans."""
    training = prepare_text_training(STRATEGIES[name])
    for step in range(2):
        take_text_step(training, step, batch, TEXT_MODEL.length)
    if "pipeline" not in STRATEGIES[name].mesh:  # it has a span for each micro-batch
        training.backward = _in_span("forward and backward", training.backward)
    training.update = _in_span("update", training.update)
    dist.barrier()  # so that all lanes begin together
    with span(LAST):
        take_text_step(training, 2, batch, TEXT_MODEL.length)


def spans_of_last_step(timeline: Timeline) -> SimpleNamespace:
    """For a report: what was recorded while the ranks took their last step."""
    steps = [s for s in timeline.spans if s.name == LAST]
    began = min(s.start for s in steps)
    spans = [s for s in timeline.spans if s.start >= began and s.name != LAST]
    return SimpleNamespace(
        spans=spans, lanes=list(dict.fromkeys(s.lane for s in spans))
    )


def _in_span(name: str, function: Callable) -> Callable:
    @wraps(function)
    def spanned(*args):
        with span(name):
            return function(*args)

    return spanned


def ladder_section(names: list[str], steps: int) -> ReportSection:
    """Of a report: for each rung, whether it equals the first, and what it costs."""
    rows = []
    for rung in climb_ladder(names, steps):
        sent = f"{max(rank.cost.sent for rank in rung.ranks):,}"
        memory = f"{max(rank.cost.memory for rank in rung.ranks):,}"
        seconds = max(rank.seconds for rank in rung.ranks)
        rows.append(
            [
                rung.name,
                str(len(rung.ranks)),
                f"{rung.gap:.0e}" if rung.gap else "0",
                sent if rung.messages_are_seen else "not seen",
                memory if rung.memory_is_seen else "not seen",
                f"{rung.bubble:.0%}" if rung.bubble else "",
                how_predicted(rung),
                f"{1000 * seconds:.0f} ms",
            ]
        )
    return {
        "title": "The ladder",
        "note": f"{steps} steps of one training, in several ways (lesson 20a). Apart: "
        "the largest difference of any parameter from one process, after any step. "
        "Bytes and memory are those of the rank with most; they were predicted first.",
        "columns": [
            "rung", "ranks", "apart", "bytes sent", "memory", "bubble", "predicted",
            "a step",
        ],
        "keys": 2,
        "rows": rows,
    }  # fmt: skip
