"""Every order in which two threads can take their steps, played through."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

Program = tuple[str, ...]

UPDATE: Program = ("load", "add", "store")
LOCKED: Program = ("take lock", *UPDATE, "release lock")
LATE_LOCK: Program = ("load", "add", "take lock", "store", "release lock")
LEFT_FIRST: Program = (
    "take left", "take right", *UPDATE, "release right", "release left",
)  # fmt: skip
RIGHT_FIRST: Program = (
    "take right", "take left", *UPDATE, "release left", "release right",
)  # fmt: skip

PROGRAMS = {
    "plain": (UPDATE, UPDATE),
    "locked": (LOCKED, LOCKED),
    "late-lock": (LATE_LOCK, LATE_LOCK),
    "two-locks": (LEFT_FIRST, RIGHT_FIRST),
}


class StateBetweenSteps(NamedTuple):
    """Where two threads, A and B, stand in their programs, and what they share."""

    done: tuple[int, ...] = (0, 0)  # steps taken so far
    copies: tuple[int, ...] = (0, 0)  # what each thread has loaded, and added to
    x: int = 0
    held: frozenset[str] = frozenset()  # the locks that somebody has


START = StateBetweenSteps()


def do_step(step: str, copy: int, x: int, held: frozenset) -> tuple | None:
    """The threads' state after one step of an interleaving; None if it must wait."""
    verb, _, lock = step.partition(" ")
    if verb == "take" and lock in held:
        return None
    match verb:
        case "load":
            copy = x
        case "add":
            copy = copy + 1
        case "store":
            x = copy
        case "take":
            held = held | {lock}
        case "release":
            held = held - {lock}
    return copy, x, held


def _after_step(
    state: StateBetweenSteps, thread: int, program: Program
) -> StateBetweenSteps | None:
    """The state after the thread's next step; None if it is done or must wait."""
    done, copies = list(state.done), list(state.copies)
    if done[thread] == len(program):
        return None
    result = do_step(program[done[thread]], copies[thread], state.x, state.held)
    if result is None:
        return None
    copies[thread], x, held = result
    done[thread] += 1
    return StateBetweenSteps(tuple(done), tuple(copies), x, held)


def play(order: str, a: Program, b: Program) -> int:
    """What x is after threads A and B moved by an interleaving, such as "AABABB"."""
    state = START
    for place, letter in enumerate(order):
        thread = "AB".index(letter)
        moved = _after_step(state, thread, (a, b)[thread])
        if moved is None:
            steps = (a, b)[thread][state.done[thread] :]
            why = f"it waits to {steps[0]}" if steps else "it has done all its steps"
            where = f"at place {place} of {order!r}"
            raise ValueError(f"{letter} cannot move {where}: {why}")
        state = moved
    for letter, done, steps in zip("AB", state.done, (a, b), strict=True):
        if done < len(steps):
            left = f"{letter} has yet to {', '.join(steps[done:])}"
            raise ValueError(f"{order!r} ends too soon: {left}")
    return state.x


def every_interleaving(
    a: Program, b: Program, order: str = "", state: StateBetweenSteps = START
) -> Iterator[tuple[str, int | str]]:
    """Each order that is possible, with what x is at its end, or "stuck"."""
    after_a, after_b = _after_step(state, 0, a), _after_step(state, 1, b)
    if after_a is not None:
        yield from every_interleaving(a, b, order + "A", after_a)
    if after_b is not None:
        yield from every_interleaving(a, b, order + "B", after_b)
    if after_a is None and after_b is None:
        yield order, state.x if state.done == (len(a), len(b)) else "stuck"


def endings(a: Program, b: Program) -> dict[int | str, int]:
    """How many interleavings end with which x, or "stuck"."""
    found = Counter(ending for _, ending in every_interleaving(a, b))
    return {ending: found[ending] for ending in sorted(found, key=str)}
