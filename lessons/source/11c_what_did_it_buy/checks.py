"""The checks of lesson 11c: the wait that is left, exposed messages, four traces."""

import random
from itertools import pairwise

from parallel_by_hand.ddp.sick_traces import ILLNESSES, PATIENTS
from parallel_by_hand.ddp.step_speed import predicted_wait
from parallel_by_hand.ddp.step_traces import TraceEvent, exposed, joined
from sidebyside.exercises.check import exercise, trying

# 11c-wait -----------------------------------------------------------------------------


@exercise("11c-wait")
def check_11c_wait(wait_for_messages):
    dice = random.Random(11)
    cases = [([10, 20, 60, 70, 80], [25, 12, 38, 8, 11]), ([20], [5])]
    for count in (2, 3, 5, 12, 40):
        ready = sorted(dice.sample(range(1, 300), count))
        cases.append((ready, [dice.randint(1, 40) for _ in ready]))
    for ready, travel in cases:
        call = f"wait_for_messages({ready}, {travel})"
        with trying(call, ready, travel) as expect:
            right = predicted_wait(ready, travel)
            given = wait_for_messages(ready, travel)
            got = expect.number(given, "one number, the time of the wait")
            think = _why_other_wait(ready, travel, got)
            told = f"{given}, right is {right:g}"
            expect(abs(got - right) < 1e-6, got=told, think=think)


def _why_other_wait(ready: list, travel: list, got: float) -> str:
    ends = [r + t for r, t in zip(ready, travel, strict=True)]
    landed = [r + predicted_wait(ready[:n], travel[:n]) for n, r in enumerate(ready, 1)]
    likely = [
        (sum(travel), "what travels while backward still computes: is it waited for?"),
        (max(ends) - ready[-1], "the wire, which carries one message at a time: what "
         "if the one before has not arrived yet?"),
        (ready[0] + sum(travel) - ready[-1], "a wire that has nothing to carry: can a "
         "message leave before its own gradient is ready?"),
        (max(0, sum(travel) - ready[-1]), "the moment at which the first message can "
         "leave"),
        (landed[-1], "from which moment on the rank waits: when is its last gradient "
         "ready?"),
        (travel[-1], "the messages before the last: have they all arrived when the "
         "last one is ready to leave?"),
    ]  # fmt: skip
    default = f"when each message has arrived, here at {landed}"
    return _first_that_fits(likely, got, default)


def _first_that_fits(likely: list[tuple[float, str]], got: float, default: str) -> str:
    return next((advice for one, advice in likely if abs(one - got) < 1e-6), default)


# 11c-exposed --------------------------------------------------------------------------

Interval = tuple[float, float]


def _trace(messages: list[Interval], compute: list[Interval]) -> list[TraceEvent]:
    """Events of several threads, in the order in which they ended, as in a file."""
    events = [TraceEvent("message", "gloo:all_reduce", 7, *m) for m in messages]
    events += [
        TraceEvent("compute", "aten::mm", place % 2, *c)
        for place, c in enumerate(compute)
    ]
    return sorted(events, key=lambda event: event.end)


def _random_trace(dice: random.Random) -> list[TraceEvent]:
    compute = []
    for _ in range(12):
        start, length = dice.randint(0, 90), dice.randint(4, 9)
        compute += [(start, start + length), (start + 1, start + length - 2)]
    messages = [(start, start + 12) for start in dice.sample(range(90), 5)]
    backward = TraceEvent("span", "backward", 0, 0, 120)
    return [*_trace(messages, compute), backward]


@exercise("11c-exposed")
def check_11c_exposed(exposed_time):
    dice = random.Random(11)
    cases = {
        "nothing computed": _trace([(10, 14)], []),
        "no message": _trace([], [(0, 10)]),
        "a message that ends after the computing": _trace([(6, 18)], [(0, 10)]),
        "gaps": _trace([(0, 4), (10, 20)], [(1, 2.5), (6, 8), (12, 13), (15, 18)]),
        "an operation inside another": _trace([(0, 10)], [(2, 8), (3, 5)]),
        "two messages at once": _trace([(0, 10), (5, 15)], [(0, 2)]),
        "two threads that compute": _trace([(0, 10)], [(1, 5), (3, 8)]),
        "a span": [*_trace([(8, 20)], [(0, 10)]), TraceEvent("span", "b", 0, 0, 30)],
    }
    cases |= {f"random trace {n}": _random_trace(dice) for n in range(6)}
    for name, events in cases.items():
        with trying(
            f"exposed_time(events), {name}{_written(events)}", events
        ) as expect:
            right, given = exposed(events), exposed_time(events)
            got = expect.number(given, "one number, in milliseconds")
            right_is = f"{given}, right is {right:g}"
            think = _why_other_exposed(events, got)
            expect(abs(got - right) < 1e-6, got=right_is, think=think)


def _written(events: list[TraceEvent]) -> str:
    if len(events) > 6:
        return ""
    return ": " + ", ".join(f"{e.kind} {e.start:g} to {e.end:g}" for e in events)


def _lengths(intervals: list[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def _why_other_exposed(events: list[TraceEvent], got: float) -> str:
    messages = [(e.start, e.end) for e in events if e.kind == "message"]
    compute = [(e.start, e.end) for e in events if e.kind == "compute"]
    other = [(e.start, e.end) for e in events if e.kind != "message"]

    def hidden(some: list, by: list) -> float:
        pairs = ((m, c) for m in some for c in by)
        return sum(max(0, min(m[1], c[1]) - max(m[0], c[0])) for m, c in pairs)

    apart, busy = joined(messages), joined(compute)
    total, working = _lengths(apart), _lengths(busy)
    likely = [
        (_lengths(messages), "the messages that travel while something is computed"),
        (total, "the messages that travel while something is computed"),
        (total - working, "computing while no message travels: does it hide anything?"),
        (total - hidden(apart, compute), "operations inside operations, and on two "
         "threads: how often is a moment subtracted?"),
        (_lengths(messages) - hidden(messages, busy), "two messages that travel at the "
         "same time: how often is a moment counted?"),
        (_lengths(messages) - hidden(messages, compute), "moments with two messages, "
         "or with an operation inside another: how often does each count?"),
        (total - hidden(apart, joined(other)), "what counts as computing: a span only "
         "names a part of the step, in which the rank may wait"),
    ]  # fmt: skip
    moments = sorted({moment for e in events for moment in (e.start, e.end)})
    cut = [[piece] for piece in pairwise(moments)]  # nothing changes within a piece
    pieces = [c[0] for c in cut if hidden(c, apart) and not hidden(c, busy)]
    shown = ", ".join(f"{a:g} to {b:g}" for a, b in joined(pieces))
    default = f"the moments with a message and without computing: {shown or 'none'}"
    return _first_that_fits(likely, got, default)


# 11c-traces ---------------------------------------------------------------------------

EVIDENCE = {
    "straggler": "the length of a message on each rank: what does rank 0 wait for?",
    "one bucket": "how many messages a step has, and when the first of them sets out",
    "waits for each message": "what a rank computes while one of its messages travels",
    "starving loader": "the gap between the steps: does any rank compute there, and "
        "does any message travel?",
}  # fmt: skip


@exercise("11c-traces")
def check_11c_traces(diagnoses):
    with trying("your diagnoses") as expect:
        form = 'the form: for each letter one of the four names, such as {"A": "...'
        complete = isinstance(diagnoses, dict) and diagnoses.keys() == PATIENTS.keys()
        expect(complete, got=diagnoses, think=form + '", ...}')
        for letter, illness in PATIENTS.items():
            given = str(diagnoses[letter]).strip().lower()
            names = ", ".join(ILLNESSES)
            expect(
                given in ILLNESSES,
                got=f"{letter}: {given!r}",
                think=f"the names to choose from: {names}",
            )
            expect(
                given == illness,
                got=f"trace {letter} is said to be: {given}",
                think=f"trace {letter} again: {EVIDENCE[illness]}",
            )
