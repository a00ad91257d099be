"""What a check found, in the words that the learner reads."""

import inspect
import linecache
import math
import re
import reprlib
import traceback
from dataclasses import dataclass, field

from sidebyside.course.lesson_format import STUB_SAYS, YOUR_TURN
from sidebyside.ranks.errors import unknown_name_of
from sidebyside.ranks.failed_frames import is_library, shortened_line
from sidebyside.ranks.failures import (
    RankError,
    failure_told,
    hang_told,
    rank_to_blame,
)
from sidebyside.ranks.outcomes import Outcome

NOT_STARTED, NOT_YET, PASSED = "NOT STARTED", "NOT YET", "PASSED"
TOO_SLOW, HUNG = "TOO SLOW", "HUNG"


@dataclass
class Finding:
    """A state and its explanation. Plain data, so that it can leave any process."""

    state: str
    lines: list[tuple[str, str | Outcome]] = field(default_factory=list)
    place: tuple[str, int, str] | None = None  # file, line, function
    think: str = ""
    unknown_name: str = ""  # if a NameError was raised outside ranks

    def unknown_names(self) -> set[str]:
        """The names that nothing had defined, there or in a rank."""
        outcomes = [told for _, told in self.lines if isinstance(told, Outcome)]
        raised = [error for outcome in outcomes for error in outcome.raised.values()]
        return {self.unknown_name, *(error.unknown_name for error in raised)} - {""}

    def text(self, id: str) -> str:
        """As the learner sees it. The code of a notebook's cell is known only here."""
        lines = list(self.lines)
        if self.place:
            file, line, function = self.place
            where = f"{line}, in {function}" if function != "<module>" else f"{line}"
            code = shortened_line(linecache.getline(file, line).strip())
            lines.append(("at line", f"{where}: {code}" if code else where))
        if self.think:
            lines.append(("think about", self.think))
        rows = [
            f"  {label:<11} {_finding_in_words(told_of)}" for label, told_of in lines
        ]
        indented = [row.replace("\n", "\n" + " " * 14) for row in rows]
        return "\n".join([f"{id}: {self.state}", *indented])


def _finding_in_words(told_of: str | Outcome) -> str:
    """What ranks did is put into words here: only the notebook knows its cells."""
    if isinstance(told_of, Outcome):
        told_of = failure_told(told_of) if told_of.has_failed else hang_told(told_of)
    return told_of.rstrip()


def says_your_turn(outcome: Outcome) -> bool:
    """Is the code that failed still the stub of an exercise?"""
    error = outcome.raised.get(rank_to_blame(outcome))
    return error is not None and error[:2] == ("NotImplementedError", STUB_SAYS)


def finding_not_started(line: str = YOUR_TURN) -> Finding:
    think = f"the line that still says {line}; if you have replaced it, run its cell"
    return Finding(NOT_STARTED, think=think)


def finding_unfinished(answers: tuple) -> Finding | None:
    """NOT STARTED when all that is to be filled in is still `...`."""
    parts = []
    for answer in answers:
        if type(answer) is dict:  # other types may do anything when asked
            parts += answer.values()
        elif type(answer) in (list, tuple):
            parts += answer
        else:
            parts.append(answer)
    still_open = sum(part is ... for part in parts)
    if not still_open:
        return None
    if still_open == len(parts) or any(answer is ... for answer in answers):
        return finding_not_started("...")
    return Finding(
        NOT_YET,
        [("came back", f"an answer that says ... in {still_open} of its places")],
        think="what belongs there; a guess is better than nothing",
    )


def finding_cannot_be_sent(error: BaseException) -> Finding:
    return Finding(
        NOT_YET,
        [("came back", summary(error))],
        think="which variable of this notebook your answer uses. The check runs it in "
        "another process, and this cannot be sent there: make it inside the function",
    )


def came_back(got: object, answers: tuple) -> str | Outcome:
    """What an answer gave back. Nothing is often a forgotten `return`."""
    if isinstance(got, RankError):
        return got.outcome
    if got is None and any(map(callable, answers)):
        return "None: to print is not to return, and without return nothing comes back"
    return shown(got)


def finding_raised(error: BaseException, check_code, answers: tuple = ()) -> Finding:
    """The learner's code raised something, or returned what the check cannot use."""
    own = _learners_frames(error, check_code)
    tried, think = getattr(error, "tried", ""), getattr(error, "think", "")
    lines = [("tried", tried)] if tried else []
    if isinstance(error, NotImplementedError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        by_learner = own and not is_library(last.filename)
        if by_learner or error.args == (STUB_SAYS,):
            return finding_not_started()
    if not own and (kind := _called_a_result(error, answers)):
        return Finding(
            NOT_YET,
            [("given", f"{kind}, where the check needs a function")],
            think="the brackets: hand over the function itself, not what it returns",
        )
    if not own:
        think = "what your code should return, and whether it does in every case"
        if re.search(r"\w+ did not match \w+", summary(error)):  # torch, of two dtypes
            think = "the dtype of what comes back: is it that of what was given?"
        useless = "came back", f"something no check can use ({summary(error)})"
        return Finding(NOT_YET, [*lines, useless], think=think)
    lines.append(("came back", summary(error)))
    if not tried and (arguments := _arguments_in_finding(own[0][0])):
        lines.append(("with", arguments))
    frame, line = own[-1]
    code = frame.f_code
    place = (code.co_filename, line or code.co_firstlineno, code.co_name)
    think = think or "what this line does with these values"
    return Finding(NOT_YET, lines, place, think, unknown_name_of(error))


def _called_a_result(error: BaseException, answers: tuple) -> str:
    """The type of an answer that the check called, and that is not a function."""
    kinds = {type(answer).__name__ for answer in answers if not callable(answer)}
    called = re.fullmatch(r"TypeError: '(\w+)' object is not callable", summary(error))
    return f"a {called[1]}" if called and called[1] in kinds else ""


def _learners_frames(error: BaseException, check_code) -> list[tuple]:
    """The frames of the learner's own code, outermost first."""
    walk = list(traceback.walk_tb(error.__traceback__))
    return [
        (frame, line)
        for frame, line in walk
        if frame.f_code is not check_code and not is_library(frame.f_code.co_filename)
    ]


def _arguments_in_finding(frame) -> str:
    """`spans = [], n = 3`: what the learner's function was called with."""
    names = inspect.getargs(frame.f_code).args
    values = {n: frame.f_locals[n] for n in names[:4] if n in frame.f_locals}
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items())


class _Short(reprlib.Repr):
    def repr_Fraction(self, value: object, level: int) -> str:
        return str(value)

    repr_float64 = repr_float32 = repr_int64 = repr_Fraction  # NumPy's


_short = _Short()
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxdict = 20
_short.maxstring = _short.maxother = _short.maxlong = 300


def shown(value: object) -> str:
    """A short repr, without addresses, whatever the object does."""
    if type(value) is str and " " in value.strip():
        return _clean_finding(value, 600)
    try:
        return _clean_finding(_short.repr(value), 600)
    except BaseException as error:
        kind = type(value).__name__
        return f"a {kind} that cannot be shown ({type(error).__name__})"


def largest_difference(got, right) -> str:
    """Of two tensors of one shape: where they differ most, and whether by a factor."""
    place = int((got - right).abs().nan_to_num(math.inf).argmax())
    numbers = [tensor.flatten()[place].item() for tensor in (got, right)]
    told = "{:.9g} instead of {:.9g}, at position {}".format(*numbers, place)
    got, right = got.double(), right.double()
    factor = (got * right).sum() / right.square().sum()
    off = (got - factor * right).abs().max() / right.abs().max()
    if right.numel() > 1 and off < 1e-4 and abs(factor - 1) > 0.01:
        told += f"; each number is {factor:.3g} times the right one"
    return told


def summary(error: BaseException) -> str:
    """`ValueError: what it says`, on one line."""
    lines = str(error).strip().splitlines() or [""]
    return _clean_finding(f"{type(error).__name__}: {lines[0]}".removesuffix(": "), 300)


def _clean_finding(text: str, longest: int) -> str:
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    return text if len(text) <= longest else text[:longest] + " …"
