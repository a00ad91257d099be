"""Guess first, then measure: a number is written down and set beside the result."""

import math
import numbers

from sidebyside.record import changed_record, read_record


def guess(
    id: str, value: float | None = None, question: str = "", unit: str = ""
) -> None:
    """Write down a guess; None means no guess, and everything works without one."""
    if value is not None:
        value = _number_to_guess(f'guess("{id}", value)', value)
    with changed_record() as record:
        record["guesses"][id] = {"value": value, "question": question, "unit": unit}
    if question:
        print(question)
    if value is None:
        print("no guess yet: write a number in place of None")
    else:
        print(f"your guess: {_guess_with_unit(value, unit)}")


def reveal(id: str, measured: float, unit: str = "", *, computed: bool = False) -> None:
    """Set the measurement beside the guess that was made for it.

    With `computed` the number follows from a formula or a plan: "the answer is 5".
    """
    measured = _number_to_guess(f'reveal("{id}", measured)', measured)
    earlier = read_record()["guesses"].get(id, {})
    guessed, unit = earlier.get("value"), unit or earlier.get("unit", "")
    result = "the answer is " if computed else "measured "
    result += _guess_with_unit(measured, unit)
    if not isinstance(guessed, int | float):
        print(f"no guess, {result}")
        return
    print(
        f"you guessed {_guess_with_unit(guessed, unit)}, {result}: "
        f"{_distance_from_guess(guessed, measured, unit)}"
    )


def _distance_from_guess(guessed: float, measured: float, unit: str) -> str:
    """How far apart they are, in words that fit the size of the difference."""
    if guessed == measured:
        return "exactly right"
    if abs(guessed - measured) <= 0.1 * abs(measured):
        return "within 10 %"
    if guessed * measured > 0:
        return f"off by a factor {max(guessed / measured, measured / guessed):.2g}"
    return f"off by {_guess_with_unit(abs(guessed - measured), unit)}"


def _number_to_guess(what: str, value: object) -> float:
    """A finite Python number from a Python, NumPy or torch number."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, str | bytes | bool):
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError(f"{what} must be a number, not {value!r}")


def _guess_with_unit(value: float, unit: str) -> str:
    """Three digits are enough for a measurement; whole numbers are shown whole."""
    whole = isinstance(value, int) or (abs(value) >= 1000 and abs(value) < 1e15)
    text = f"{value:.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}" if unit else text
