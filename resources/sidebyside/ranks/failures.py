"""Put the outcome of a call into words: which rank failed, where, and what the others
were doing."""

import signal
import sys
from types import TracebackType

from sidebyside.ranks.failed_frames import (
    failed_traceback,
    frame_in_words,
    frame_of_learner,
    is_library,
    is_of_a_lesson,
    shortened_line,
)
from sidebyside.ranks.outcomes import (
    DiedOutcome,
    Outcome,
    OutcomeFrame,
    RaisedOutcome,
    UnsentOutcome,
)

_OFTEN = {
    "SIGKILL": "; often this means that memory ran out",
    "SIGABRT": "; often a message has another length or dtype than the room for it",
}
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")


def is_lost_connection(error: BaseException) -> bool:
    """Whether gloo, or its store, may have raised this because a rank has gone."""
    return any(word in str(error) for word in ("onnection", "Broken pipe"))


class RankError(RuntimeError):
    """Some ranks did not return a result; `.outcome` says what came of each."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome)
        self.outcome = outcome
        self.add_note(self.details)

    @property
    def rank(self) -> int:
        """The rank to blame."""
        return rank_to_blame(self.outcome)

    @property
    def details(self) -> str:
        return details(self.outcome)

    def __str__(self) -> str:
        return _headline(self.outcome)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}", *self.details.splitlines()]


class RankFailed(RankError):
    """`.rank` raised, exited or was killed; the other ranks were stopped."""


class RanksHung(RankError):
    """The ranks were not done in time."""


def interrupted_ranks() -> KeyboardInterrupt:
    """Python's own, so that a program still ends as interrupted programs do."""
    error = KeyboardInterrupt("interrupted while ranks were running; they have ended")
    vars(error)["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {error}"]
    usual = sys.excepthook

    def excepthook(kind: type, raised: BaseException, trace: TracebackType) -> None:
        """A script that ends with this error shows its sentence, as a notebook does."""
        if raised is error:
            print(f"KeyboardInterrupt: {error}", file=sys.stderr)
        else:
            usual(kind, raised, trace)

    sys.excepthook = excepthook
    return error


def failure_told(outcome: Outcome) -> str:
    """All there is to say."""
    return f"{_headline(outcome)}\n{details(outcome)}"


def _headline(outcome: Outcome) -> str:
    """One line: which rank failed and how, or which ranks have not ended."""
    if not outcome.has_failed:
        return f"not done after {_hang_headline(outcome)}"
    rank = rank_to_blame(outcome)
    return f"{outcome.name} {rank} {_how_it_failed(outcome, rank)}"


def hang_told(outcome: Outcome) -> str:
    """All there is to say about ranks that have not ended, after the word "after"."""
    return f"{_hang_headline(outcome)}\n{details(outcome)}"


def _hang_headline(outcome: Outcome) -> str:
    return f"{outcome.timeout:g} s: {_who_still_works(outcome)}"


def details(outcome: Outcome) -> str:
    """Where the failed rank was, in the learner's code, and where the others were."""
    if not outcome.has_failed:
        some_finished = outcome.finished and outcome.unfinished
        advice = [
            "A collective ends when every rank has called it: look for the line that "
            "one never reached."
        ] * bool(some_finished)
        return "\n".join(_where_ranks_failed(outcome) + advice)
    rank = rank_to_blame(outcome)
    raised = outcome.raised.get(rank)
    lines = failed_traceback(raised) if raised and rank not in outcome.died else []
    return "\n".join(lines + _where_ranks_failed(outcome, exclude=rank))


def rank_to_blame(outcome: Outcome) -> int:
    """Whoever died, else whoever raised something else than a lost connection."""
    if not outcome.has_failed:
        return outcome.unfinished[0]
    if outcome.died:
        return min(outcome.died)
    own = [rank for rank, error in outcome.raised.items() if not _lost_partner(error)]
    return min([*own, *outcome.unsent] or outcome.raised)


def _who_still_works(outcome: Outcome) -> str:
    working = outcome.unfinished
    text = f"{_ranks_in_words(outcome.name, working)} still work" + "s" * (
        len(working) == 1
    )
    if outcome.finished:
        text += f", {_ranks_in_words(outcome.name, sorted(outcome.finished))} finished"
    return text


def where_it_works(outcome: Outcome, rank: int) -> OutcomeFrame | None:
    """The line of the learner's code that this rank is on."""
    stack = outcome.stacks.get(rank)
    frame = frame_of_learner(stack) if stack else None
    return frame if frame and not is_library(frame.file) else None


def how_it_died(end: DiedOutcome) -> str:
    if end.status >= 0:
        said = f": {end.said}" if end.said else " before it returned a result"
        return f"exited with status {end.status}{said}"
    try:
        name = signal.Signals(-end.status).name
    except ValueError:
        name = f"signal {-end.status}"
    return f"was killed by {name}{_OFTEN.get(name, '')}"


def _how_it_failed(outcome: Outcome, rank: int) -> str:
    if rank in outcome.died:
        return how_it_died(outcome.died[rank])
    if rank in outcome.unsent:
        return _how_it_was_lost(outcome.unsent[rank])
    return f"raised {_headline_of_error(outcome.raised[rank])}"


def _how_it_was_lost(result: UnsentOutcome) -> str:
    if not result.type:
        return f"returned a result that cannot be rebuilt here: {result.why}"
    return (
        f"failed: its result, of type {result.type}, cannot be sent to another "
        f"process: {result.why}"
    )


def _lost_partner(error: RaisedOutcome) -> bool:
    return any(lost in error.message for lost in _LOST)


def _headline_of_error(error: RaisedOutcome) -> str:
    """The line that has the type; a syntax error begins with where it is."""
    lines = error.summary.splitlines() or [error.type]
    named = (line for line in lines if error.type in line.partition(":")[0])
    return shortened_line(next(named, lines[0]))


def _ranks_in_words(name: str, ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"{name} {ranks[0]}"
    return f"{name}s {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _where_ranks_failed(outcome: Outcome, exclude: int | None = None) -> list[str]:
    """On each rank but `exclude`: it has finished, or the line it is on."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank in range(outcome.size):
        if rank != exclude:
            alike.setdefault(_where_rank_failed(outcome, rank), []).append(rank)
    lines = []
    for (first, *others), ranks in alike.items():
        each = "each of " if len(ranks) > 1 else ""
        lines += [f"{each}{_ranks_in_words(outcome.name, ranks)} {first}", *others]
    return lines


def _where_rank_failed(outcome: Outcome, rank: int) -> tuple[str, ...]:
    if rank in outcome.finished:
        return ("has finished",)
    if rank in outcome.raised and _lost_partner(outcome.raised[rank]):
        return ("lost its connection to the rank that failed",)
    if rank not in outcome.unfinished:
        return (_how_it_failed(outcome, rank),)
    if stack := outcome.stacks.get(rank):
        frame = frame_of_learner(stack)
        called = [name for *_, name in stack[stack.index(frame) + 1 :]]
        public = [n for n in called if n != "wrapper" and n[0] != "_"]  # torch's logger
        inside = f" in {public[0]}," if public else ""
        if is_of_a_lesson(frame.file):
            return (f"waits{inside} in code that comes with the lesson",)
        return (f"waits{inside} at", *frame_in_words(frame))
    if rank in outcome.stacks:
        return ("had not begun yet",)
    return ("does not answer: it is inside compiled code",)
