"""Check of the exercise of lesson 00, Start here."""

import random
from collections.abc import Callable, Iterator

from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts
from sidebyside.findings import shown

BREAKFASTS = [
    ([3, 2, 4], "the minutes between: one cook needs 9, and how many do three need?"),
    ([7], "one dish, one cook either way: is anything saved?"),
    ([5, 1], "two cooks: when is the slower of the two dishes ready?"),
    ([1, 5], "the slowest dish: where in the list may it stand?"),
    (
        [2, 6, 6, 1],
        "two dishes that take as long: is only one left out?",
    ),
    (
        [0.5, 2.25, 0],
        "times that are not whole numbers: what is their sum?",
    ),
    ([0.5, 0.25], "dishes of less than a minute: which of them is the slowest?"),
    ([3.2, 3.9], "two dishes of three minutes and more: which is the slowest?"),
    (
        [0.125, 0.33, 0.5],
        "parts of a minute: is all of each of them counted?",
    ),
    ([2, 2, 2], "three dishes that take as long: how long do three cooks need?"),
    ([3, 3, 3], "three dishes that take as long: how long do three cooks need?"),
    ([], "nothing to make: how much is saved then?"),
]


def _breakfasts_of_saved() -> Iterator[tuple[list[float], str]]:
    yield from BREAKFASTS
    dice = random.Random(0)
    for length in [1, 2, 3, 5, 8, 40] * 15:
        minutes = [dice.randint(1, 2000) for _ in range(length)]
        yield minutes, "what one cook needs, and which dish is ready last?"
    yield list(range(2000)), "2000 dishes: what is different if there are so many?"


@exercise("00-saved")
def check_00_saved(saved):
    attempt = Attempts(saved)
    for minutes, think in _breakfasts_of_saved():
        attempt(_expect_minutes_saved, minutes, think)


def _expect_minutes_saved(saved: Callable, minutes: list[float], think: str) -> None:
    said = str(minutes) if len(minutes) < 100 else shown(minutes)
    with trying(f"saved({said})", minutes, think=think) as expect:
        right = sum(minutes) - max(minutes, default=0)
        number = as_number(got := saved(minutes))
        expect(number is not None and abs(number - right) < 1e-6, got=got, think=think)
