"""What a rank and the process that started it say to each other.

The parent sends WorkMessage, WhereAreYouMessage any number of times, and ExitMessage.
The rank sends a StackMessage whenever it is asked, and in the end DoneMessage, followed
by the bytes of the result, or one of RaisedOutcome, UnsentOutcome and ExitingMessage.
If it has started ranks itself, it says so with a GroupsMessage. A TryingMessage says
what it is about to do, for the case that it never says more.
"""

from dataclasses import dataclass

from sidebyside.ranks.outcomes import OutcomeFrame


@dataclass(frozen=True)
class WorkMessage:
    """`pickled` is a function with its arguments."""

    environment: dict[str, str]
    pickled: bytes


@dataclass(frozen=True)
class WhereAreYouMessage:
    """Tell the line you are on."""


@dataclass(frozen=True)
class StackMessage:
    """The answer, outermost frame first."""

    frames: list[OutcomeFrame]


@dataclass(frozen=True)
class TryingMessage:
    """In words, for those who read how it ended."""

    tried: str


@dataclass(frozen=True)
class DoneMessage:
    """The pickled result follows."""


@dataclass(frozen=True)
class ExitingMessage:
    """The last words of a rank that calls `sys.exit("last words")`."""

    said: str


@dataclass(frozen=True)
class GroupsMessage:
    """The process groups that ranks of a rank lead: they begin to exist, or end."""

    leaders: set[int]
    exist: bool


@dataclass(frozen=True)
class ExitMessage:
    """All have what they need of you."""
