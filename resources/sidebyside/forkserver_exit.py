"""Preloaded by the forkserver: when it ends, its socket's folder goes too.

multiprocessing leaves that removal to the parent, which cannot do it when killed.
"""

import atexit
import os
import shutil
import socket
import sys
import time


def _socket_folder() -> str | None:
    """The folder of the forkserver's listening socket; None in any other process."""
    frame = sys._getframe()
    while frame is not None:
        listener = frame.f_locals.get("listener_fd")
        if frame.f_globals.get("__name__") == "multiprocessing.forkserver" and listener:
            with socket.socket(fileno=os.dup(listener)) as opened:
                return os.path.dirname(opened.getsockname())
        frame = frame.f_back
    return None


def _remove(folder: str, forkserver: int, parent: int) -> None:
    if os.getpid() != forkserver:  # one of the children that it forked
        return
    end = time.monotonic() + 1
    while os.getppid() == parent:  # it may be about to end
        if time.monotonic() > end:
            return  # the parent lives and will remove the folder itself
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


if (_folder := _socket_folder()) and os.path.basename(_folder).startswith("pymp-"):
    atexit.register(_remove, _folder, os.getpid(), os.getppid())
