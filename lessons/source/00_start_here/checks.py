"""Check of the exercise of lesson 00, Start here."""

import random

from sidebyside.exercises import exercise, expect


@exercise("00-saved")
def check_saved(saved):
    def try_out(minutes: list[float], think: str) -> None:
        got = saved(list(minutes))
        right = sum(minutes) - max(minutes, default=0)
        expect(
            isinstance(got, int | float) and abs(got - right) < 1e-9,
            tried=f"saved({minutes})",
            got=got,
            think=think,
        )

    try_out(
        [3, 2, 4],
        "one cook needs 9 minutes, three cooks need 4: how many minutes lie between?",
    )
    try_out([7], "one dish, one cook either way: is anything saved?")
    try_out([5, 1], "with two cooks, when is the slower of the two dishes ready?")
    try_out([1, 5], "the slowest dish may stand anywhere in the list")
    try_out([], "nothing to make: nothing is saved, and nothing should go wrong")
    dice = random.Random(0)
    for _ in range(100):
        minutes = [dice.randint(1, 20) for _ in range(dice.randint(1, 6))]
        try_out(minutes, "what does one cook need, and which dish is ready last?")
