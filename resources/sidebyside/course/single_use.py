"""A file that one program at a time may use."""

import atexit
import os
from pathlib import Path

HELD: dict[Path, int] = {}  # open until the program ends, however it ends


def hold_for_single_use(path: Path) -> str:
    """Keep other programs from `path` until this one ends: "", or why it cannot be.

    What is locked is the file `path.lock`. The system takes the lock away from a
    program that has been killed; one that ends by itself removes the file, too.
    On Windows nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        return ""
    if path in HELD:
        return ""
    lock = path.with_name(path.name + ".lock")
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            return f"{path} cannot be written: {error.strerror}"
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                break
        except BlockingIOError:
            os.close(handle)
            return f"{path} is in use by another run of this program"
        except OSError:
            pass  # its owner has just ended and removed it: once more
        os.close(handle)
    HELD[path] = handle
    atexit.register(lock.unlink, missing_ok=True)
    return ""
