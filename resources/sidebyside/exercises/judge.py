"""Run a check so that no answer can do any harm.

A lesson's checks are functions that try out the learner's answers:

    @exercise("03-overlap", seconds=10)
    def check_03_overlap(overlap):
        spans = [(0, 2), (1, 3)]
        with trying(f"overlap({spans})", spans) as expect:
            got = overlap(spans)
            expect(got == 2, got=got, think="which spans are open at 1.5")

A check may return a sentence: what it measured, shown when the answer has passed.
"""

import importlib
import pickle
import sys
from collections.abc import Callable
from typing import NamedTuple

from sidebyside.course.lesson_format import number_of, rooms
from sidebyside.exercises import findings
from sidebyside.exercises.expectations import OMITTED, NotYet
from sidebyside.exercises.findings import (
    HUNG,
    NOT_STARTED,
    NOT_YET,
    PASSED,
    Finding,
)
from sidebyside.ranks import failures
from sidebyside.ranks.outcomes import Outcome

FOR_RANKS = 90  # seconds more for a check that calls run_ranks, which has own limits


class Exercise(NamedTuple):
    id: str
    check: Callable
    seconds: float
    in_ranks: bool
    when_hung: str = ""


_exercises: dict[str, Exercise] = {}


def exercise(
    id: str,
    seconds: float = 10,
    in_ranks: bool = False,
    when_hung: str = "what would have to happen for this line to end",
) -> Callable[[Callable], Callable]:
    """Make a function the check of exercise `id`; its parameters are the answers.

    It runs in a process of its own, which is killed after `seconds` with all that it
    has started. `in_ranks` says that it calls `run_ranks(..., timeout=...)`, which
    takes longer. `when_hung` is what to think of when the answer hangs.
    """

    def register(check: Callable) -> Callable:
        _exercises[id] = Exercise(id, check, seconds, in_ranks, when_hung)
        return check

    return register


def find_exercise(id: str) -> Exercise | None:
    """The exercise `03-name`, from `checks.py` in the room of lesson 03."""
    if id not in _exercises and (number := number_of(id)):
        for room in rooms():
            if number_of(room.name) == number and (room / "checks.py").exists():
                importlib.import_module(f"lessons.source.{room.name}.checks")
    return _exercises.get(id)


def examine(found: Exercise, answers: tuple, seconds: float | None = None) -> Finding:
    """Run the check of an exercise in a process of its own. Ends in any case."""
    if (finding := findings.finding_unfinished(answers)) is not None:
        return finding
    from sidebyside.ranks.by_value import packed, packed_answer
    from sidebyside.ranks.failures import RankFailed, RanksHung
    from sidebyside.ranks.launch import call_in_processes

    pack = packed if found.in_ranks else packed_answer  # ranks would share no lock
    try:
        sent = pack((found.check, answers))
    except (Exception, SystemExit) as error:
        return findings.finding_cannot_be_sent(error)
    seconds = found.seconds + FOR_RANKS if found.in_ranks else seconds or found.seconds
    try:
        [finding] = call_in_processes(_try_out_sent, [(sent,)], seconds, name="")
    except RanksHung as hung:
        finding = _finding_of_hung_check(hung.outcome)
    except RankFailed as failed:
        return _finding_of_ended_check(failed.outcome)
    except RuntimeError as error:  # no process could be started
        return Finding(NOT_STARTED, [("sorry", f"nothing was tried: {error}")])
    if finding.state == HUNG:
        finding.think = found.when_hung
    return finding


def _finding_of_hung_check(outcome: Outcome) -> Finding:
    after = "after", f"{outcome.timeout:g} s it had not ended"
    place = failures.where_it_works(outcome, 0)
    return Finding(HUNG, [*_tried(outcome.tried.get(0)), after], place)


def _tried(what: str | None) -> list[tuple[str, str | Outcome]]:
    return [("tried", what.replace(" 1 ranks", " 1 rank"))] if what else []


def _finding_of_ended_check(outcome: Outcome) -> Finding:
    if outcome.died:
        came_back = f"nothing: the process {failures.how_it_died(outcome.died[0])}"
    else:
        came_back = "nothing that could be sent here"
    think = "which line of your code ends the whole process"
    lines = [*_tried(outcome.tried.get(0)), ("came back", came_back)]
    return Finding(NOT_YET, lines, think=think)


def _try_out_sent(sent: bytes) -> Finding:
    """In the process of the check, which takes with it all that it has started."""
    try:
        check, answers = pickle.loads(sent)
    except BaseException as error:
        return findings.finding_cannot_be_sent(error)
    return _try_out(check, answers)


def _try_out(check: Callable, answers: tuple) -> Finding:
    """Run the check on the answers, here, and put into words what happened."""
    from sidebyside.ranks.failures import RankFailed, RanksHung

    for answer in answers:  # a fork's Pool looks for a notebook's functions in __main__
        if getattr(answer, "__module__", "") == "__main__":
            vars(sys.modules["__main__"]).update(getattr(answer, "__globals__", {}))
    try:
        measured = check(*answers)
    except NotYet as verdict:
        lines = _tried(verdict.tried)
        if verdict.got is not OMITTED:
            lines.append(("came back", findings.came_back(verdict.got, answers)))
        return Finding(verdict.state, lines, think=verdict.think)
    except RanksHung as hung:
        tried = hung.outcome.tried.get(0, vars(hung).get("tried"))  # by a rank: closer
        lines = [*_tried(tried), ("after", hung.outcome)]
        return Finding(HUNG, lines)
    except RankFailed as failed:
        if findings.says_your_turn(failed.outcome):
            return findings.finding_not_started()
        lines = [*_tried(vars(failed).get("tried")), ("came back", failed.outcome)]
        return Finding(NOT_YET, lines, think=getattr(failed, "think", ""))
    except BaseException as error:
        return findings.finding_raised(error, check.__code__, answers)
    return Finding(PASSED, [("measured", measured)] if measured else [])
