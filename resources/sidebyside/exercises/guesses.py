"""Guess first, then measure: a number is written down and set beside the result."""

import re
import reprlib

from sidebyside.course.record import changed_record
from sidebyside.exercises.any_number import as_number

LARGEST = 1e300  # beyond, a number and its distance are no floats


def guess(
    id: str, value: object = None, *more: object, question: str = "", unit: str = ""
) -> None:
    """Write down a guess: guess(id, value, question, unit).

    None means no guess, and everything works without one. A decimal comma is
    understood, though to Python 1,8 is two numbers.
    """
    texts = [part for part in more if isinstance(part, str)]
    question, unit = [*texts, *(question, unit)[len(texts) :]][:2]
    parts = [value, *(part for part in more if not isinstance(part, str))]
    value = None if value is None and len(parts) == 1 else _number_guessed(id, parts)
    with changed_record() as record:
        record["guesses"][id] = {"value": value, "question": question, "unit": unit}
    if question:
        print(question)
    if value is None:
        print("no guess yet: write a number in place of None")
    else:
        print(f"your guess: {guess_with_unit(value, unit)}")


def reveal(
    id: str,
    measured: float,
    unit: str = "",
    *,
    computed: bool = False,
    simulated: bool = False,
) -> None:
    """Set the measurement beside the guess that was made for it, and keep both.

    With `computed` the number follows from a formula or a plan: "the answer is 5". With
    `simulated` a duration in it is a nap or a paced link: "simulated 5".
    """
    measured = _number_to_guess(f'reveal("{id}", measured)', measured)
    with changed_record() as record:
        entry = record["guesses"].setdefault(id, {})
        guessed, unit = entry.get("value"), unit or entry.get("unit", "")
        entry |= {"measured": measured, "unit": unit}
        entry |= {"computed": computed, "simulated": simulated}
    result = "the answer is " if computed else "measured "
    result = "simulated " if simulated else result
    result += guess_with_unit(measured, unit)
    if not isinstance(guessed, int | float) or not abs(guessed) <= LARGEST:
        print(f"no guess, {result}")
        return
    print(
        f"you guessed {guess_with_unit(guessed, unit)}, {result}: "
        f"{distance_from_guess(guessed, measured, unit)}"
    )


def distance_from_guess(guessed: float, measured: float, unit: str) -> str:
    """How far apart they are, in words that fit the size of the difference."""
    if guessed == measured:
        return "exactly right"
    if abs(guessed - measured) <= 0.1 * abs(measured):
        return "within 10 %"
    if guessed * measured > 0:
        return f"off by a factor {max(guessed / measured, measured / guessed):.2g}"
    return f"off by {guess_with_unit(abs(guessed - measured), unit)}"


def _number_guessed(id: str, parts: list) -> float:
    """The number that was written as 1.8, as "1,8", or as 1,8: that is two numbers."""
    shown = ",".join(map(reprlib.repr, parts))
    written = shown if len(parts) > 1 else parts[0]
    try:
        if isinstance(written, str):
            if re.fullmatch(r"\s*[-+]?[1-9]\d*,(\d{3}|0)\s*", written):
                raise ValueError  # 1,800 is 1800 to some, and 1.8 to others
            written = float(written.replace(",", ".", 1))
        return _number_to_guess("value", written)
    except ValueError:
        error = ValueError(
            f'guess("{id}", value): write a number in place of {shown}, such as 2 or '
            f"1.8, and thousands without a comma, such as 1800"
        )
        # A notebook shows the sentence, not our frames.
        vars(error)["_render_traceback_"] = lambda: [f"ValueError: {error}"]
        raise error from None


def _number_to_guess(what: str, value: object) -> float:
    """A finite Python number from a Python, NumPy or torch number."""
    number = as_number(value)
    if number is None or not abs(number) <= LARGEST:
        raise ValueError(f"{what} must be a number, not {value!r}")
    return number


def guess_with_unit(value: float, unit: str) -> str:
    """Three digits are enough for a measurement; whole numbers are shown whole."""
    whole = 999.5 <= abs(value) < 1e15
    text = f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}" if unit else text
