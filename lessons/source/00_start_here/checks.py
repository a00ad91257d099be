"""Check of the exercise of lesson 00, Start here."""

import random

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

BREAKFASTS = [
    ([3, 2, 4], "one cook's 9 minutes: how many do three need, and what is saved?"),
    ([7], "one dish, one cook either way: is anything saved?"),
    ([5, 1], "two cooks: when is the slower of the two dishes ready?"),
    ([1, 5], "the slowest dish: where in the list may it stand?"),
    ([2, 6, 6, 1], "two dishes that take as long: is only one left out?"),
    ([0.5, 2.25, 0], "times that are not whole numbers: what is their sum?"),
]


@exercise("00-saved")
def check_00_saved(saved):
    dice = random.Random(0)
    more = [[dice.randint(1, 2000) for _ in range(n)] for n in [2, 3, 5, 40] * 5]
    think = "what one cook needs, and which dish is ready last?"
    for minutes, think in [*BREAKFASTS, *((minutes, think) for minutes in more)]:
        with trying(f"saved({minutes})", minutes, think=think) as expect:
            right = sum(minutes) - max(minutes)
            number = as_number(got := saved(minutes))
            close = number is not None and abs(number - right) < 1e-6
            expect(close, got=got, think=think)
