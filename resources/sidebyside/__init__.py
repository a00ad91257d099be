"""The instruments of the course Side by Side: they launch, measure, draw and check."""

import importlib

from sidebyside.showing import in_notebook

# Each name is imported when it is first used, so that a notebook which needs only
# threads does not wait for torch or matplotlib.
_HOME = {
    "run_ranks": "ranks",
    "RankFailed": "failures",
    "RanksHung": "failures",
    "device": "devices",
    "MessageMeter": "message_meter",
    "consecutive_steps": "message_meter",
    "Timeline": "timeline",
    "span": "timeline",
    "draw_timelines": "timeline_picture",
    "figure": "figures",
    "COLOURS": "figures",
    "compare": "comparison",
    "machine": "machines",
    "guess": "guesses",
    "reveal": "guesses",
    "check": "exercises",
    "hint": "exercises",
    "solution": "exercises",
    "progress": "standing",
    "reset": "standing",
    "run_demo": "demos",
    "run_program": "programs",
    "DemoFailed": "demos",
    "show": "showing",
    "load_digits": "datasets",
    "load_moby_dick": "datasets",
    "positive_int": "arguments",
    "positive_float": "arguments",
    "at_least": "arguments",
    "between": "arguments",
    "output_file": "arguments",
}

__all__ = list(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'sidebyside' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sidebyside.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if in_notebook():
    from sidebyside.cells import explain_names_of_cells_not_run
    from sidebyside.process_groups import keep_servants_apart

    keep_servants_apart()
    explain_names_of_cells_not_run()
