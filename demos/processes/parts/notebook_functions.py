"""What becomes of a function that was defined in a notebook. Used by lesson 02."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

COLOUR = re.compile(r"\x1b\[[\d;]*m")


@contextmanager
def overheard() -> Iterator[list[str]]:
    """`with overheard() as lines:` collect what child processes say as they fail.

    Children write to file descriptor 2, as their parent does. Inside the block that
    is a temporary file; the list is filled at the end of the block, without colours
    (since Python 3.13 an error has some).
    """
    lines: list[str] = []
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            said = file.read().decode(errors="replace")
            lines += COLOUR.sub("", said).splitlines()


def call_by_value(pickled: bytes, *args):
    """Unpack a function that was sent with its code, and call it."""
    import cloudpickle

    return cloudpickle.loads(pickled)(*args)
