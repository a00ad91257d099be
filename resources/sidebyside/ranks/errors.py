"""What a rank tells of an exception, so that its parent can show it."""

import traceback
from pathlib import Path

from sidebyside.ranks.outcomes import OutcomeFrame, RaisedOutcome

LONGEST_MESSAGE = 2_000  # characters of an exception's text
DEEPEST_CAUSE = 5  # exceptions that are shown above one
MOST_IN_GROUP = 10  # exceptions that are shown of a group
OURS = {str(Path(__file__).with_name(f"{n}.py")) for n in ("process", "meeting")}


def describe_error_of_rank(error: BaseException, depth: int = 0) -> RaisedOutcome:
    """What the parent needs to show `error` as Python would, without our frames."""
    before = error.__cause__
    if before is None and not error.__suppress_context__:
        before = error.__context__
    summary = "".join(traceback.format_exception_only(error)).strip()
    summary += _errors_in_group(error)
    return RaisedOutcome(
        type(error).__name__,
        text_of_error(error),
        _limited_message(summary),
        frames_of_rank(traceback.walk_tb(error.__traceback__)),
        describe_error_of_rank(before, depth + 1)
        if before and depth < DEEPEST_CAUSE
        else None,
        is_cause=error.__cause__ is not None,
        unknown_name=unknown_name_of(error),
    )


def _errors_in_group(error: BaseException, indent: str = "  ") -> str:
    """A line for each exception of a group, and where it was raised."""
    lines = ""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions[:MOST_IN_GROUP]:
            frames = frames_of_rank(traceback.walk_tb(one.__traceback__))
            lines += f"\n{indent}{type(one).__name__}: {text_of_error(one)}"
            if frames:
                lines += f" (line {frames[-1].line}, in {frames[-1].function})"
            lines += _errors_in_group(one, indent + "  ")
    return lines


def unknown_name_of(error: BaseException) -> str:
    """The name that nothing has defined, if that is the error; else ""."""
    name = getattr(error, "name", None) if isinstance(error, NameError) else None
    return name if type(name) is str else ""


def frames_of_rank(walk) -> list[OutcomeFrame]:
    """The frames of the work, outermost first; those that start it are left out.

    Python has no line for some steps, such as the jump back to the start of a loop.
    """
    found = [
        OutcomeFrame(
            f.f_code.co_filename, line or f.f_code.co_firstlineno, f.f_code.co_name
        )
        for f, line in walk
    ]
    ours = [place for place, frame in enumerate(found) if frame.file in OURS]
    return found[max(ours) + 1 :] if ours else found


def text_of_error(value: object) -> str:
    return _limited_message(str(value))


def _limited_message(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    more = len(text) - LONGEST_MESSAGE
    return f"{text[:LONGEST_MESSAGE]} … and {more:,} more characters"
