"""What ranks print: each into a file of its own, which the parent shows afterwards."""

import contextlib
import os
import sys
from functools import partial
from typing import IO

from sidebyside.programs.scratch import open_scratch_to_append, read_all_scratch

SHOWN = 20_000  # characters of one rank's output


def redirect_prints_of_rank(path: str) -> None:
    """Send what this process and its children print to the file at `path`."""
    target = open_scratch_to_append(path)
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):  # there may be none
            stream.flush()
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    lines = partial(open, mode="w", buffering=1, encoding="utf-8", closefd=False)
    sys.stdout = lines(1, errors="surrogateescape")
    sys.stderr = lines(2, errors="backslashreplace")


def flush_prints_of_rank() -> None:
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):
            stream.flush()


def show_prints_of_rank(output: IO[bytes], begin: str) -> None:
    """In the parent: print what the file holds, each line behind `begin`."""
    text = read_all_scratch(output).decode(errors="replace")
    output.close()
    if len(text) > SHOWN:
        text = f"{text[:SHOWN]}\n… and {len(text) - SHOWN:,} more characters"
    for line in text.splitlines():
        _print_in_parent(begin + line)


def _print_in_parent(line: str) -> None:
    """What cannot be printed here is no reason to lose the results."""
    if getattr(sys.stdout, "closed", False):
        return
    try:
        print(line)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(line.encode(encoding, "backslashreplace").decode(encoding))
