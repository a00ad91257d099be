"""Temporary files that child processes can write and that nobody has to remove."""

import os
import tempfile
import weakref
from typing import IO


def scratch_file() -> tuple[IO[bytes], str]:
    """An empty temporary file, and a path by which child processes can open it.

    On Linux the file has no name: it is gone as soon as this process is, even if
    this process is killed, and children reach it through /proc. Elsewhere it has a
    name and is removed when the file object is.
    """
    if os.path.isdir("/proc/self/fd"):
        file = tempfile.TemporaryFile()  # noqa: SIM115
        return file, f"/proc/{os.getpid()}/fd/{file.fileno()}"
    file = tempfile.NamedTemporaryFile(delete=False)  # noqa: SIM115
    weakref.finalize(file, _remove_scratch_file, file.file, file.name)
    return file, file.name


def _remove_scratch_file(file: IO[bytes], path: str) -> None:
    file.close()  # Windows removes only closed files
    os.unlink(path)


def open_scratch_to_append(path: str) -> int:
    """A file descriptor whose every write lands whole at the end of `path`."""
    return os.open(path, os.O_WRONLY | os.O_APPEND)


def read_all_scratch(file: IO[bytes]) -> bytes:
    """All that has been written to `file` so far, by whichever process."""
    file.seek(0)
    return file.read()
