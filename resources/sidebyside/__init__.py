"""The instruments of the course Side by Side: they launch, measure, draw and check."""

import importlib
import sys

from sidebyside.programs.environment import (
    say_what_stands_in_the_way,
    settle_environment,
)
from sidebyside.programs.showing import in_notebook

# Each name is imported when it is first used, so that a notebook which needs only
# threads does not wait for torch or matplotlib.
_HOME = {
    "run_ranks": "ranks.launch",
    "RankFailed": "ranks.failures",
    "RanksHung": "ranks.failures",
    "device": "ranks.devices",
    "MessageMeter": "measure.message_meter",
    "consecutive_steps": "measure.message_meter",
    "Timeline": "timeline.spans",
    "span": "timeline.spans",
    "draw_timelines": "timeline.picture",
    "figure": "timeline.figures",
    "COLOURS": "timeline.figures",
    "compare": "measure.comparison",
    "machine": "measure.machines",
    "guess": "exercises.guesses",
    "reveal": "exercises.guesses",
    "check": "exercises.check",
    "hint": "exercises.check",
    "solution": "exercises.check",
    "progress": "exercises.standing",
    "forget": "exercises.standing",
    "reset": "exercises.standing",  # the old name of forget
    "run_demo": "programs.run_demo",
    "run_program": "programs.run_program",
    "DemoFailed": "programs.run_demo",
    "show": "programs.showing",
    "load_digits": "course.datasets",
    "load_moby_dick": "course.datasets",
    "positive_int": "programs.arguments",
    "positive_float": "programs.arguments",
    "at_least": "programs.arguments",
    "between": "programs.arguments",
    "output_file": "programs.arguments",
    "picture_file": "programs.arguments",
    "program_parser": "programs.arguments",
}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  of one table


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'sidebyside' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sidebyside.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Moved:
    """Asked last, when nobody else has found the module."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> None:
        if name.startswith("sidebyside."):
            from sidebyside.course.moved import OF_INSTRUMENTS

            if place := OF_INSTRUMENTS.get(name.removeprefix("sidebyside.")):
                now = f"now sidebyside.{place}: import it from there"
                raise ImportError(f"{name} is {now}", name=name)


sys.meta_path.append(_Moved)
settle_environment()
if in_notebook():
    from sidebyside.exercises.cells import explain_names_of_cells_not_run
    from sidebyside.programs.process_groups import keep_servants_apart

    keep_servants_apart()
    explain_names_of_cells_not_run()
    say_what_stands_in_the_way()
