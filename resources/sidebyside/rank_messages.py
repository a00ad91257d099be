"""What a rank and the process that started it say to each other.

The parent sends Work, then perhaps a StorePort, WhereAreYou any number of times, and
Exit. The rank sends StorePort if it is rank 0, a Stack whenever it is asked, and in
the end Done, followed by the bytes of the result, or one of Raised, Unsent (both are
part of the outcome) and Exiting.
"""

from dataclasses import dataclass

from sidebyside.outcomes import Frame


@dataclass(frozen=True)
class Work:
    """`pickled` is a function with its arguments."""

    environment: dict[str, str]
    pickled: bytes


@dataclass(frozen=True)
class StorePort:
    """Where rank 0 awaits the others."""

    port: int


@dataclass(frozen=True)
class WhereAreYou:
    """Tell the line you are on."""


@dataclass(frozen=True)
class Stack:
    """The answer, outermost frame first."""

    frames: list[Frame]


@dataclass(frozen=True)
class Done:
    """The pickled result follows."""


@dataclass(frozen=True)
class Exiting:
    """The last words of a rank that calls `sys.exit("last words")`."""

    said: str


@dataclass(frozen=True)
class Exit:
    """All have what they need of you."""
