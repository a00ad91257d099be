"""What happens inside a process that `run_ranks` starts. The parent's side is crew.py,
and what they say to each other rank_messages.py.

A rank stays until it is told to exit, so that the end of one rank does not break the
connections of another.
"""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue

from sidebyside.outcomes import OutcomeFrame, RaisedOutcome, UnsentOutcome
from sidebyside.process_sessions import lead_session
from sidebyside.rank_messages import (
    DoneMessage,
    ExitingMessage,
    ExitMessage,
    StackMessage,
    StorePortMessage,
    WhereAreYouMessage,
    WorkMessage,
)
from sidebyside.scratch import open_scratch_to_append
from sidebyside.timeline import label_process

LONGEST_MESSAGE = 2_000  # characters of an exception's text
DEEPEST_CAUSE = 5  # exceptions that are shown above one


@dataclass(frozen=True)
class RankSeat:
    """A rank's place among the others, and its ways to the outside."""

    rank: int
    world_size: int
    connected: bool  # by torch.distributed
    commands: Connection
    reports: Connection
    output: str  # the file that gets what it prints
    register: str  # the file in which its session is entered


def serve_rank(seat: RankSeat) -> None:
    """Run one piece of work as rank `seat.rank`, then wait for the end."""
    _rank_dies_with_parent()
    lead_session(seat.register, multiprocessing.parent_process().pid)
    shared_folder = _folder_of_rank()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what stops
    reports = _RankReports(seat.reports)
    inbox: SimpleQueue = SimpleQueue()
    try:
        work: WorkMessage = seat.commands.recv()
        _redirect_prints_of_rank(seat.output)
    except (EOFError, OSError):  # interrupted before the work was sent
        os._exit(1)
    try:
        worker = threading.get_ident()
        threading.Thread(
            target=_obey_parent_of_rank,
            args=(seat.commands, reports, inbox, worker),
            daemon=True,
        ).start()
        os.environ.clear()
        os.environ.update(work.environment)
        if seat.connected:
            label_process(f"rank {seat.rank}")
            _connect_rank(seat, reports, inbox)
        fn, args = pickle.loads(work.pickled)
        _report_result_of_rank(fn(*args), reports)
    except SystemExit as stop:
        _exit_rank(stop.code, reports)
    except BaseException as error:
        reports.send(describe_error_of_rank(error))
    _flush_prints_of_rank()
    while inbox.get() != ExitMessage():
        pass
    _flush_prints_of_rank()
    _remove_folder_of_rank(shared_folder)
    os._exit(0)  # no clean-up can hang: all that was asked for has been sent


def _report_result_of_rank(result: object, reports: "_RankReports") -> None:
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(result)
    except Exception as error:
        kind = f"{type(result).__module__}.{type(result).__qualname__}"
        reports.send(
            UnsentOutcome(kind.removeprefix("builtins."), _text_of_error(error))
        )
    else:
        reports.send(DoneMessage(), followed_by=pickled)


def _exit_rank(code: object, reports: "_RankReports") -> None:
    """End as Python does after sys.exit(code): a text is said, and means status 1."""
    status = code if isinstance(code, int) else int(code is not None)
    if status is not code and code is not None:
        said = _text_of_error(code)
        with contextlib.suppress(Exception):
            print(said, file=sys.stderr)
        reports.send(ExitingMessage(said))
    _flush_prints_of_rank()
    os._exit(status & 0xFF)


class _RankReports:
    """Two threads report through one pipe."""

    def __init__(self, pipe: Connection):
        self.pipe = pipe
        self.lock = threading.Lock()

    def send(self, message: object, followed_by: bytes | None = None) -> None:
        with self.lock, contextlib.suppress(OSError):  # the parent may have gone
            self.pipe.send(message)
            if followed_by is not None:
                self.pipe.send_bytes(followed_by)


def _obey_parent_of_rank(
    commands: Connection, reports: _RankReports, inbox: SimpleQueue, worker: int
):
    """In a thread: do what the parent says, and end when there is no parent."""
    with contextlib.suppress(EOFError, OSError):
        parent = multiprocessing.parent_process().sentinel
        while True:
            if commands not in wait([commands, parent]):
                break
            message = commands.recv()
            if isinstance(message, WhereAreYouMessage):
                frame = sys._current_frames().get(worker)
                stack = reversed(list(traceback.walk_stack(frame)))
                reports.send(StackMessage(frames_of_rank(stack)))
            else:
                inbox.put(message)
    os._exit(1)


def _rank_dies_with_parent() -> None:
    """On Linux, ask to be killed when the forkserver, or the parent, is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


def _redirect_prints_of_rank(path: str) -> None:
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


def _flush_prints_of_rank() -> None:
    for stream in sys.stdout, sys.stderr:
        with contextlib.suppress(Exception):
            stream.flush()


def _folder_of_rank() -> str | None:
    """Where multiprocessing has its sockets, if it has any."""
    return multiprocessing.current_process()._config.get("tempdir")


def _remove_folder_of_rank(shared: str | None) -> None:
    """Remove it, unless other processes share it."""
    if _folder_of_rank() not in (None, shared):
        shutil.rmtree(_folder_of_rank(), ignore_errors=True)


def _connect_rank(seat: RankSeat, reports: _RankReports, inbox: SimpleQueue) -> None:
    """Initialise torch.distributed; rank 0 offers the meeting point on a free port."""
    import torch
    import torch.distributed as dist

    os.environ |= {"RANK": str(seat.rank), "LOCAL_RANK": str(seat.rank)}
    os.environ["WORLD_SIZE"] = str(seat.world_size)
    torch.set_num_threads(1)
    if seat.rank == 0:
        store = _rank_store_on_loopback()
        reports.send(StorePortMessage(store.port))
    else:
        port = inbox.get().port
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
    rank_joins_group(seat.rank, seat.world_size, store=store)


def _rank_store_on_loopback():
    """A store that only this machine can reach: left to itself, it would listen on
    all of the machine's networks."""
    import torch.distributed as dist

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 1))  # sends nothing, but looks for the way
        listener = socket.create_server(("127.0.0.1", 0))
    except OSError as error:
        raise ConnectionError(
            "ranks meet at 127.0.0.1, this machine's own address, and it cannot be "
            f"used: {error}. On Linux `ip link set lo up` sets it up."
        ) from None
    port = listener.getsockname()[1]
    if os.name == "nt":  # its libraries do not share file descriptors
        listener.close()
        return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def rank_joins_group(rank: int, world_size: int, timeout: float = 0, **meeting) -> None:
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
    if timeout:
        meeting["timeout"] = timedelta(seconds=timeout)
    dist.init_process_group(backend, rank=rank, world_size=world_size, **meeting)


def frames_of_rank(walk) -> list[OutcomeFrame]:
    """The frames of the work, outermost first; those that start it are left out."""
    found = [
        OutcomeFrame(f.f_code.co_filename, line, f.f_code.co_name) for f, line in walk
    ]
    ours = [place for place, frame in enumerate(found) if frame.file == __file__]
    return found[max(ours) + 1 :] if ours else found


def describe_error_of_rank(error: BaseException, depth: int = 0) -> RaisedOutcome:
    """What the parent needs to show `error` as Python would, without our frames."""
    before = error.__cause__
    if before is None and not error.__suppress_context__:
        before = error.__context__
    summary = "".join(traceback.format_exception_only(error)).strip()
    return RaisedOutcome(
        type(error).__name__,
        _text_of_error(error),
        _limited_message(summary),
        frames_of_rank(traceback.walk_tb(error.__traceback__)),
        describe_error_of_rank(before, depth + 1)
        if before and depth < DEEPEST_CAUSE
        else None,
        is_cause=error.__cause__ is not None,
    )


def _text_of_error(value: object) -> str:
    try:
        return _limited_message(
            str.__str__(str(value))
        )  # a str, and no class of the learner's
    except BaseException as error:
        return f"<its text cannot be shown: {type(error).__name__}>"


def _limited_message(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    more = len(text) - LONGEST_MESSAGE
    return f"{text[:LONGEST_MESSAGE]} … and {more:,} more characters"
