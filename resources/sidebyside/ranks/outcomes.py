"""What came of a call of `run_ranks`, as plain data; the sentences are in failures.py.

All of it is of Python's own types, so that it can leave any process, and be read there
without running anything of the learner's.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class OutcomeFrame(NamedTuple):
    """Where a piece of code is, or was called."""

    file: str
    line: int
    function: str


class RaisedOutcome(NamedTuple):
    """An exception: what it is, where it came from, and what led to it."""

    type: str
    message: str
    summary: str  # as Python's last lines would say it
    frames: list[OutcomeFrame] = []  # noqa: RUF012, outermost first, without ours
    before: "RaisedOutcome | None" = None  # what Python would show above it
    is_cause: bool = False  # `raise ... from before`
    unknown_name: str = ""  # that a NameError is about


class UnsentOutcome(NamedTuple):
    """A result that could not be sent, or not be rebuilt where it arrived."""

    type: str  # of the result; "" where only its bytes have arrived
    why: str


class DiedOutcome(NamedTuple):
    """An exit status, or minus a signal; and what `sys.exit` was told."""

    status: int
    said: str = ""


@dataclass
class Outcome:
    """Of each rank: has it finished, failed or died, and if not, where is it?"""

    name: str  # what a rank is called
    size: int
    timeout: float
    finished: set[int] = field(default_factory=set)
    raised: dict[int, RaisedOutcome] = field(default_factory=dict)
    unsent: dict[int, UnsentOutcome] = field(default_factory=dict)
    died: dict[int, DiedOutcome] = field(default_factory=dict)
    stacks: dict[int, list[OutcomeFrame]] = field(default_factory=dict)
    tried: dict[int, str] = field(default_factory=dict)  # what a rank said it would do

    @property
    def has_failed(self) -> bool:
        return bool(self.raised or self.unsent or self.died)

    @property
    def unfinished(self) -> list[int]:
        """The ranks that still work, or were still working when they were stopped."""
        over = self.finished | set(self.raised) | set(self.unsent) | set(self.died)
        return [rank for rank in range(self.size) if rank not in over]
