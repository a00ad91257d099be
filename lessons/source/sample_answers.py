"""Answers that people really give: what each check is tried on.

`answers.py` in a lesson's room declares them where they are defined:

    @wrong("12a-bounded", advice="up to and including", note="They read `<`.")
    def bounded_strictly(pushes, waiting, bound): ...

Six to twelve wrong ones for each exercise, each a mistake of its own kind, the one that
we expect most often first: the instructor's page shows them in this order, each with
its note. And two or three unusual right ones. An answer that is a value is declared as
`wrong(id, ..., name="one_is_missing")(value)`.
tests/test_exercises.py tries them all.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DECLARED: dict[str, dict[str, "Right"]] = {}  # by the exercise's id and the name


@dataclass(frozen=True)
class Right:
    """A right answer that does it in another way than the solution."""

    name: str
    answers: object  # a function or value, or a tuple with all answers of the exercise

    @property
    def as_tuple(self) -> tuple:
        return self.answers if isinstance(self.answers, tuple) else (self.answers,)


@dataclass(frozen=True)
class Wrong(Right):
    """A wrong answer, the state it must get, and a regex its message must match.

    Where chance decides between two states, `state` is "HUNG or NOT YET".
    """

    advice: str
    state: str = "NOT YET"
    note: str = ""  # for the instructor's page: what people think who answer so


def right(id: str, *, name: str = "", given: Callable | None = None) -> Callable:
    """Declare what follows as a right answer to the exercise `id`.

    `given` makes of it what the check gets, where that is more than one answer, or an
    object of the class: `given=lambda queue: (PIPES, queue, SHARED)`, `given=call`.
    """
    return _declare(Right, id, name, given)


def wrong(
    id: str,
    *,
    advice: str,
    note: str = "",
    state: str = "NOT YET",
    name: str = "",
    given: Callable | None = None,
) -> Callable:
    """Declare what follows as a wrong answer to the exercise `id`; see `Wrong`."""
    return _declare(Wrong, id, name, given, advice=advice, state=state, note=note)


def _declare(kind: type[Right], id: str, name: str, given, **more: str) -> Callable:
    def declare(answer):
        answers = given(answer) if given else answer
        sample = kind(name or answer.__name__, answers, **more)
        DECLARED.setdefault(id, {})[sample.name] = sample
        return answer

    return declare


def declared(room: Path, ids: list[str]) -> dict[str, list[Right]]:
    """The right and wrong answers of the room's answers.py to the exercises `ids`."""
    path, name = room / "answers.py", f"lessons.source.{room.name}.answers"
    if path.exists() and name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return {id: list(DECLARED.get(id, {}).values()) for id in ids}
