"""What happens inside a process that `run_ranks` starts. The parent's side is crew.py,
what they say to each other messages.py. How ranks meet, what they print and what they
tell of an exception is in meeting.py, prints.py and errors.py.

A rank stays until it is told to exit, so that the end of one rank does not break the
connections of another.
"""

# multiprocessing's private names: tests/test_private_names.py says why each is taken.
# pyright: reportAttributeAccessIssue=false

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import util
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue

from sidebyside.programs.process_groups import (
    end_own_group,
    inherit_orphans,
    lead_group,
)
from sidebyside.ranks.errors import (
    describe_error_of_rank,
    frames_of_rank,
    text_of_error,
)
from sidebyside.ranks.meeting import rank_meets_others
from sidebyside.ranks.messages import (
    DoneMessage,
    ExitingMessage,
    ExitMessage,
    StackMessage,
    WhereAreYouMessage,
    WorkMessage,
)
from sidebyside.ranks.outcomes import UnsentOutcome
from sidebyside.ranks.prints import flush_prints_of_rank, redirect_prints_of_rank
from sidebyside.timeline.spans import label_process


@dataclass(frozen=True)
class RankSeat:
    """A rank's place among the others, and its ways to the outside."""

    rank: int
    world_size: int
    store: str  # the file by which torch.distributed connects them, or ""
    commands: Connection
    reports: Connection
    output: str  # the file that gets what it prints


_reports: "_RankReports | None" = None  # of the rank that this process is


def tell_parent_of_rank(message: object) -> None:
    """Report it, if this process is a rank."""
    if _reports:
        _reports.send(message)


def serve_rank(seat: RankSeat) -> None:
    """Run one piece of work as rank `seat.rank`, then wait for the end."""
    global _reports
    own = os.getpid()
    _rank_dies_with_forkserver()
    inherit_orphans()
    lead_group()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what stops
    _reports = reports = _RankReports(seat.reports)
    inbox: SimpleQueue = SimpleQueue()
    try:
        work: WorkMessage = seat.commands.recv()
        redirect_prints_of_rank(seat.output)
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
        if seat.store:
            label_process(f"rank {seat.rank}")
            rank_meets_others(seat.rank, seat.world_size, seat.store)
        fn, args = pickle.loads(work.pickled)
        result = fn(*args)
        if os.getpid() == own:
            _report_result_of_rank(result, reports)
    except SystemExit as stop:
        if os.getpid() == own:
            _exit_rank(stop.code, reports)
    except BaseException as error:
        if os.getpid() == own:
            reports.send(describe_error_of_rank(error))
        else:
            traceback.print_exc()
    if os.getpid() != own:  # the work has forked, and this is not the rank
        flush_prints_of_rank()
        os._exit(0)
    flush_prints_of_rank()
    while inbox.get() != ExitMessage():
        pass
    flush_prints_of_rank()
    util._run_finalizers()  # multiprocessing's: its semaphores and folder are removed
    os._exit(0)  # all that was asked for has been sent


def _report_result_of_rank(result: object, reports: "_RankReports") -> None:
    from sidebyside.ranks.by_value import packed

    try:
        pickled = packed(result)
    except Exception as error:
        kind = f"{type(result).__module__}.{type(result).__qualname__}"
        reports.send(
            UnsentOutcome(kind.removeprefix("builtins."), text_of_error(error))
        )
    else:
        reports.send(DoneMessage(), followed_by=pickled)


def _exit_rank(code: object, reports: "_RankReports") -> None:
    """End as Python does after sys.exit(code): a text is said, and means status 1."""
    status = code if isinstance(code, int) else int(code is not None)
    if status is not code and code is not None:
        said = text_of_error(code)
        with contextlib.suppress(Exception):
            print(said, file=sys.stderr)
        reports.send(ExitingMessage(said))
    flush_prints_of_rank()
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
    end_own_group()


def _rank_dies_with_forkserver() -> None:
    """On Linux, ask to be killed when the forkserver is."""
    if os.getppid() != multiprocessing.parent_process().pid and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
