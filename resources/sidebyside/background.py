"""Keep multiprocessing's two background processes apart from the notebook's kernel.

A kernel that shuts down sends SIGTERM to its whole process group. That would end the
forkserver before it could clean up; the resource tracker ignores the signal, and the
kernel would wait for it in vain. In sessions of their own they get no such signal,
and end, as they are made to, when the process that started them does.
"""

import multiprocessing.util

_spawn = multiprocessing.util.spawnv_passfds


def _spawn_in_own_session(path, args, passfds):
    args = list(args)
    if args[-2] == "-c":  # not a rank of the start method spawn: it has options
        args[-1] = f"import os; os.setsid(); {args[-1]}"
    return _spawn(path, args, passfds)


def separate() -> None:
    """From now on, start the forkserver and the resource tracker in own sessions."""
    multiprocessing.util.spawnv_passfds = _spawn_in_own_session
