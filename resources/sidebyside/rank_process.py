"""What happens inside a process that `run_ranks` starts. The parent's side is ranks.py.

The parent sends, through `commands`: the pickled work, then perhaps ("store", port),
("stack",) any number of times, and ("exit",). The process answers through `results`:
("store", port), ("stack", frames), ("done", pickled result), ("unpicklable", text) or
("raised", ...). It stays until it is told to exit, so that the end of one rank does
not break the connections of another.
"""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue

from sidebyside.scratch import open_to_append
from sidebyside.timeline import label_process


def serve(
    rank: int,
    world_size: int,
    connect: bool,
    commands: Connection,
    results: Connection,
    output: str,
) -> None:
    """Run one piece of work as rank `rank` of `world_size`, then wait for the end."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what stops
    _redirect_prints(output)
    reports = _Reports(results)
    inbox: SimpleQueue = SimpleQueue()
    try:
        environment, sent = pickle.loads(commands.recv_bytes())
    except (EOFError, OSError):  # interrupted before the work was sent
        os._exit(1)
    try:
        worker = threading.get_ident()
        threading.Thread(
            target=_obey, args=(commands, reports, inbox, worker), daemon=True
        ).start()
        os.environ.clear()
        os.environ.update(environment)
        if connect:
            label_process(f"rank {rank}")
            _connect(rank, world_size, reports, inbox)
        fn, args = pickle.loads(sent)
        result = fn(*args)
        reports.send("done", _pickle(result))
    except SystemExit as stop:
        _flush()
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        os._exit(code)
    except BaseException as error:
        reports.send("raised", describe(error))
    _flush()
    while inbox.get() != "exit":
        pass
    _flush()
    os._exit(0)  # no clean-up can hang: all that was asked for has been sent


class Unpicklable(Exception):
    """A rank's result cannot be sent to another process."""


def _pickle(result: object) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(result)
    except Exception as error:
        kind = f"{type(result).__module__}.{type(result).__qualname__}"
        raise Unpicklable(
            f"its result, of type {kind.removeprefix('builtins.')}, cannot be sent to "
            f"another process ({error}): return numbers, tensors, lists or dicts"
        ) from None


class _Reports:
    """Two threads report through one pipe."""

    def __init__(self, results: Connection):
        self.results = results
        self.lock = threading.Lock()

    def send(self, kind: str, content: object) -> None:
        with self.lock, contextlib.suppress(OSError):  # the parent may have gone
            self.results.send((kind, content) if kind != "done" else (kind, None))
            if kind == "done":
                self.results.send_bytes(content)


def _obey(commands: Connection, reports: _Reports, inbox: SimpleQueue, worker: int):
    """In a thread: do what the parent says, and end when there is no parent."""
    with contextlib.suppress(EOFError, OSError):
        parent = multiprocessing.parent_process().sentinel
        while True:
            if commands not in wait([commands, parent]):
                break
            kind, *content = commands.recv()
            if kind == "stack":
                frame = sys._current_frames().get(worker)
                stack = reversed(list(traceback.walk_stack(frame)))
                reports.send("stack", frames(stack))
            else:
                inbox.put(content[0] if content else kind)
    os._exit(1)


def _die_with_parent() -> None:
    """On Linux, ask to be killed when the forkserver, or the parent, is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


def _redirect_prints(path: str) -> None:
    """Send what this process and its children print to the file at `path`."""
    target = open_to_append(path)
    for stream in sys.stdout, sys.stderr:
        stream.flush()
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115


def _flush() -> None:
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):
            stream.flush()


def _connect(rank: int, world_size: int, reports: _Reports, inbox: SimpleQueue) -> None:
    """Initialise torch.distributed; rank 0 offers the meeting point on a free port."""
    import torch
    import torch.distributed as dist

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ["WORLD_SIZE"] = str(world_size)
    torch.set_num_threads(1)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        reports.send("store", store.port)
    else:
        store = dist.TCPStore("127.0.0.1", inbox.get(), is_master=False)
    join_group(rank, world_size, store=store)


def join_group(rank: int, world_size: int, **meeting) -> None:
    """NCCL with a GPU for each rank where there are enough, else gloo on the CPU."""
    import torch
    import torch.distributed as dist

    here = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    if dist.is_nccl_available() and torch.cuda.device_count() >= here:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "nccl"
    else:
        backend = "gloo"
        if here == world_size and sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(backend, rank=rank, world_size=world_size, **meeting)


def frames(walk) -> list[tuple[str, int, str]]:
    """File, line and function of each frame of the work, outermost first; the frames
    that only start the work are left out."""
    found = [(f.f_code.co_filename, line, f.f_code.co_name) for f, line in walk]
    ours = [place for place, (name, *_) in enumerate(found) if name == __file__]
    return found[max(ours) + 1 :] if ours else found


def describe(error: BaseException) -> dict:
    """What the parent needs to show `error` as Python would, without our frames."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "frames": frames(traceback.walk_tb(error.__traceback__)),
        "summary": "".join(traceback.format_exception_only(error)).strip(),
    }
