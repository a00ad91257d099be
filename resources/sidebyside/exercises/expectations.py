"""What a check says of an answer: `with trying(...) as expect:`, and `expect(...)`."""

import contextlib
import copy
import traceback
from collections.abc import Iterator
from typing import Any

from sidebyside.course.lesson_format import STUB_SAYS
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.findings import NOT_YET, TOO_SLOW, shown
from sidebyside.ranks.failed_frames import is_library
from sidebyside.ranks.messages import TryingMessage
from sidebyside.ranks.process import tell_parent_of_rank

OMITTED = object()


class NotYet(Exception):
    """The answer is not right yet: what was tried, what came back, what to think of."""

    state = NOT_YET

    def __init__(self, tried: str = "", got: object = OMITTED, think: str = ""):
        super().__init__(think)
        self.tried, self.got, self.think = tried, got, think


class NotStarted(NotImplementedError):
    """A check has found the stub in a process that only data leave."""

    def __init__(self):
        super().__init__(STUB_SAYS)


class TooSlow(NotYet):
    """The answer is right, and takes longer than it needs to."""

    state = TOO_SLOW


class Expect:
    """What `trying` hands to a check: `expect(condition, got=..., think=...)`.

    `got` is what came back, or a sentence about it; `think` a question or a noun that
    leads on, never the code.
    """

    def __init__(self, tried: str):
        self.tried = tried

    def __call__(self, condition: object, *, got: object = OMITTED, think: str) -> None:
        """Go on if the condition holds; else the answer is NOT YET right."""
        if not condition:
            raise NotYet(self.tried, got, think)

    def number(self, got: Any, what: str = "one number", where: str = "") -> float:
        """The number that came back, in a tensor of any shape, too."""
        number = as_number(got.squeeze() if hasattr(got, "squeeze") else got)
        if number is None:
            told = f"{where}: {shown(got)}" if where else got
            raise NotYet(self.tried, told, f"what is asked for: {what}")
        return number

    def quick(self, condition: object, *, got: object = OMITTED, think: str) -> None:
        """Go on if the condition holds; else the answer is right and TOO SLOW."""
        if not condition:
            raise TooSlow(self.tried, got, think)


@contextlib.contextmanager
def trying(tried: str, *leaves: object, think: str = "") -> Iterator[Expect]:
    """`with trying("largest([1, 2])") as expect:` call the answer, then `expect` of it.

    `tried` is the call as the learner would write it: it is shown with whatever is
    found in this block, an exception too, for which `think` is the advice. The values
    `leaves` are given to the answer, which must leave them as they are.
    """
    kept = copy.deepcopy(leaves)
    expect = Expect(tried)
    tell_parent_of_rank(TryingMessage(tried))
    try:
        yield expect
    except NotYet:
        _expect_left_as_they_are(expect, kept, leaves)  # or that may be why
        raise
    except Exception as error:
        if not _is_raised_by_answer(error):
            _expect_left_as_they_are(expect, kept, leaves)
        if not hasattr(error, "tried"):  # by a block inside this one
            vars(error).update(tried=tried, think=think)
        raise
    _expect_left_as_they_are(expect, kept, leaves)


def _is_raised_by_answer(error: Exception) -> bool:
    walk = traceback.walk_tb(error.__traceback__)
    return any(not is_library(frame.f_code.co_filename) for frame, _ in walk)


def _expect_left_as_they_are(expect: Expect, kept: tuple, leaves: tuple) -> None:
    for before, after in zip(kept, leaves, strict=True):
        expect(
            _same_after_trying(before, after),
            got=f"{shown(before)} has become {shown(after)}",
            think="who else uses what your function was given",
        )


def _same_after_trying(before: Any, after: Any) -> bool:
    """Equal, for arrays and tensors and what holds them too."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return list(before) == list(after) and all(
            _same_after_trying(value, after[key]) for key, value in before.items()
        )
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_same_after_trying, before, after))
    if hasattr(before, "shape") and before.shape == after.shape:
        equal = (before == after) | ((before != before) & (after != after))  # NaN
        return bool(equal.all())
    return before is after or before == after
