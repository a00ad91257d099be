"""Argument types for the demos: they say what is allowed before anything starts.

    parser.add_argument("--ranks", type=positive_int, default=2)

A wrong value ends the program with status 2 and a line such as
"argument --ranks: must be a whole number from 1 to 64, not 0".
"""

import os
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

ROOM = 2_000_000  # bytes that an output file may need


def program_parser(manual: str | None) -> ArgumentParser:
    """A parser whose --help shows the manual, a program's docstring, as it stands."""
    return ArgumentParser(
        description=manual, formatter_class=RawDescriptionHelpFormatter
    )


def at_least(smallest: int, at_most: int = 1_000_000_000) -> Callable[[str], int]:
    """An argparse type: whole numbers from `smallest` up, and not above `at_most`."""
    allowed = f"a whole number from {smallest} to {at_most:,}"

    def whole_number(text: str) -> int:
        with suppress(ValueError):
            if smallest <= (value := int(text)) <= at_most:
                return value
        raise ArgumentTypeError(f"must be {allowed}, not {_shown_argument(text)}")

    return whole_number


def between(smallest: float, largest: float) -> Callable[[str], float]:
    """An argparse type: numbers from `smallest` to `largest`, such as seconds."""
    allowed = f"a number from {smallest:,} to {largest:,}"

    def number(text: str) -> float:
        with suppress(ValueError):
            if smallest <= (value := float(text)) <= largest:  # nan is not
                return value
        raise ArgumentTypeError(f"must be {allowed}, not {_shown_argument(text)}")

    return number


# Without a limit of its own a number has these: nothing overflows, sleeps for years or
# takes all memory at once. What costs more for each one needs a smaller limit.
positive_int = at_least(1, 1_000_000_000)
positive_float = between(0.000001, 1_000_000)


def output_file(text: str) -> Path:
    """An argparse type: a file to write. That it can be written is tried beside it.

    A link is followed here, so that a program may replace the file as a whole.
    """
    path = Path(text).resolve() if os.path.islink(text) else Path(text)
    try:
        if not text or (os.path.lexists(path) and not path.is_file()):
            raise OSError(0, "not a file")  # a folder, a device, a pipe
        with NamedTemporaryFile(dir=path.parent, prefix=path.name) as trial:
            trial.write(bytes(ROOM))
    except OSError as error:
        raise ArgumentTypeError(
            f"must be a file that can be written, not {_shown_argument(text)}: "
            f"{error.strerror}"
        ) from None
    return path


def picture_file(text: str) -> Path:
    """An argparse type: a file to write that matplotlib can draw."""
    if not text.endswith((".png", ".pdf", ".svg")):
        raise ArgumentTypeError(
            f"must end in .png, .pdf or .svg, not {_shown_argument(text)}"
        )
    return output_file(text)


def _shown_argument(text: str) -> str:
    """The wrong value on one short line; numbers stand without quotes."""
    plain = text.replace("-", "").replace(".", "").isalnum() and len(text) < 40
    return text if plain else repr(text if len(text) < 40 else text[:37] + "...")
