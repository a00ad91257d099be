"""Argument types for the demos: they say what is allowed before anything starts.

    parser.add_argument("--ranks", type=positive_int, default=2)

A wrong value ends the program with status 2 and a line such as
"argument --ranks: must be a whole number of at least 1, not 0".
"""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path


def at_least(smallest: int, at_most: int | None = None) -> Callable[[str], int]:
    """An argparse type: whole numbers from `smallest` up, and not above `at_most`."""
    if at_most is None:
        allowed = f"a whole number of at least {smallest}"
    else:
        allowed = f"a whole number from {smallest} to {at_most}"

    def whole_number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ArgumentTypeError(f"must be {allowed}, not {_shown(text)}") from None
        if value < smallest or (at_most is not None and value > at_most):
            raise ArgumentTypeError(f"must be {allowed}, not {_shown(text)}")
        return value

    return whole_number


positive_int = at_least(1)


def positive_float(text: str) -> float:
    """An argparse type: finite numbers above 0, such as a time or a learning rate."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ArgumentTypeError(f"must be a number above 0, not {_shown(text)}")
    return value


def output_file(text: str) -> Path:
    """An argparse type: the name of a file to write, in a folder that exists."""
    path = Path(text)
    if not text or path.is_dir():
        raise ArgumentTypeError(f"must be the name of a file, not {_shown(text)}")
    if not path.parent.is_dir():
        raise ArgumentTypeError(
            f"must be a file in a folder that exists, not {_shown(text)}"
        )
    return path


def _shown(text: str) -> str:
    """The wrong value on one short line; numbers stand without quotes."""
    plain = text.replace("-", "").replace(".", "").isalnum() and len(text) < 40
    return text if plain else repr(text if len(text) < 40 else text[:37] + "...")
