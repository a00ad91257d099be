"""The processes of one call of run_ranks: started, listened to, and ended."""

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait

from sidebyside.programs.process_groups import (
    descendants,
    end_groups,
    end_processes,
)
from sidebyside.programs.scratch import scratch_file
from sidebyside.ranks.failures import RankFailed, RanksHung
from sidebyside.ranks.messages import (
    DoneMessage,
    ExitingMessage,
    ExitMessage,
    GroupsMessage,
    StackMessage,
    TryingMessage,
    WhereAreYouMessage,
    WorkMessage,
)
from sidebyside.ranks.outcomes import DiedOutcome, Outcome, RaisedOutcome, UnsentOutcome
from sidebyside.ranks.prints import show_prints_of_rank
from sidebyside.ranks.process import RankSeat, serve_rank, tell_parent_of_rank

ANSWER = 5  # seconds that a rank has to tell the line it is on
_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ONE_THREAD = dict.fromkeys(_LIMITS, "1")
_AT_START = _ONE_THREAD | {"PYTHONSAFEPATH": "1"}  # ours import no learner's random.py
_starting = threading.Lock()


@contextlib.contextmanager
def _environment_at_start():
    """Of processes that start in here, which get the usual one with their work."""
    with _starting:  # the environment belongs to all threads of this process
        saved = {name: os.environ.get(name) for name in _AT_START}
        os.environ |= _AT_START
        try:
            yield
        finally:
            for name, value in saved.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


class Crew:
    """The processes of one call: their pipes, their output and what they reported."""

    def __init__(self, context, work: list[bytes], connect: bool, outcome: Outcome):
        self.work, self.outcome = work, outcome
        self.name, self.size = outcome.name, outcome.size
        self.context = context
        self.commands, self.reports, self.outputs, self.processes = [], [], [], []
        self.results: dict[int, bytes] = {}
        self.last_words: dict[int, str] = {}
        self.groups: set[int] = set()  # those of ranks of ranks, too
        self.store, self.store_path = scratch_file() if connect else (None, "")

    def start(self) -> None:
        with _environment_at_start():  # for the forkserver, which starts with the first
            for rank in range(self.size):
                try:
                    self._start_one(rank)
                except (OSError, EOFError) as error:  # too many files or processes
                    raise RuntimeError(
                        f"{self.name} {rank} of {self.size} cannot be started: "
                        f"{error or 'there is no room for another process'}"
                    ) from None
        environment = dict(os.environ) | _ONE_THREAD
        for rank, work in enumerate(self.work):
            self._send(rank, WorkMessage(environment, work))

    def _start_one(self, rank: int) -> None:
        commands, ours = self.context.Pipe(duplex=False)
        self.commands.append(ours)
        reports, theirs = self.context.Pipe(duplex=False)
        self.reports.append(reports)
        output, path = scratch_file()
        self.outputs.append(output)
        seat = RankSeat(rank, self.size, self.store_path, commands, theirs, path)
        process = self.context.Process(
            target=serve_rank, args=(seat,), name=f"{self.name} {rank}", daemon=False
        )
        self.processes.append(process)
        process.start()
        self._note_groups({process.pid}, True)
        commands.close()
        theirs.close()

    def _note_groups(self, leaders: set[int], exist: bool) -> None:
        self.groups = self.groups | leaders if exist else self.groups - leaders
        tell_parent_of_rank(GroupsMessage(leaders, exist))

    def _send(self, rank: int, message) -> None:
        with contextlib.suppress(OSError):  # it has died: collect() will see that
            self.commands[rank].send(message)

    def collect(self, deadline: float) -> list:
        """The results; or an error that says what came of each rank."""
        while len(self.results) < self.size:
            heard = self._listen(deadline - time.monotonic())
            if self.outcome.has_failed:
                self._listen_until(time.monotonic() + 0.2, lambda: False)
                self._ask_where()
                raise RankFailed(self.outcome)
            if not heard and time.monotonic() >= deadline:
                self._ask_where()
                if self.outcome.has_failed:  # meanwhile
                    raise RankFailed(self.outcome)
                if self.outcome.unfinished:
                    raise RanksHung(self.outcome)
        return [self._rebuild(rank) for rank in range(self.size)]

    def _rebuild(self, rank: int) -> object:
        try:
            return pickle.loads(self.results[rank])
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
        self.outcome.finished.discard(rank)
        self.outcome.unsent[rank] = UnsentOutcome("", why)
        raise RankFailed(self.outcome)

    def _listen(self, patience: float) -> bool:
        """Take in what the ranks report; False if `patience` seconds were silent."""
        running = [r for r in range(self.size) if r not in self.outcome.died]
        sources = {self.reports[r]: r for r in running}
        sources |= {self.processes[r].sentinel: r for r in running}
        ready = wait(list(sources), max(patience, 0))
        for source in ready:
            rank = sources[source]
            if rank in self.outcome.died:
                continue
            try:
                if self.reports[rank].poll():
                    self._take_in(rank, self.reports[rank].recv())
                    continue
            except (EOFError, OSError):
                pass  # it died: perhaps in the middle of a report
            self._note_death(rank)
        return bool(ready)

    def _note_death(self, rank: int) -> None:
        process = self.processes[rank]
        process.join(timeout=1)
        if process.is_alive():  # it closed its pipe and lives
            process.kill()
            process.join()
        said = self.last_words.get(rank, "")
        self.outcome.died[rank] = DiedOutcome(process.exitcode, said)

    def _take_in(self, rank: int, message) -> None:
        match message:
            case DoneMessage():
                self.results[rank] = self.reports[rank].recv_bytes()
                self.outcome.finished.add(rank)
            case RaisedOutcome():
                self.outcome.raised[rank] = message
            case UnsentOutcome():
                self.outcome.unsent[rank] = message
            case ExitingMessage():
                self.last_words[rank] = message.said
            case StackMessage():
                self.outcome.stacks[rank] = message.frames
            case TryingMessage():
                self.outcome.tried[rank] = message.tried
            case GroupsMessage():
                self._note_groups(message.leaders, message.exist)

    def _listen_until(self, deadline: float, enough: Callable[[], bool]) -> None:
        while not enough() and (left := deadline - time.monotonic()) > 0:
            self._listen(left)

    def _ask_where(self) -> None:
        """Ask each rank that still works for the line it is on."""
        for rank in self.outcome.unfinished:
            self._send(rank, WhereAreYouMessage())
        self._listen_until(
            time.monotonic() + ANSWER,
            lambda: set(self.outcome.unfinished) <= set(self.outcome.stacks),
        )

    def stop(self) -> None:
        """End every process, whatever it does; ask nicely only if all are done."""
        clean = len(self.results) == self.size
        started = [process for process in self.processes if process.pid is not None]
        leaders = self.groups | {process.pid for process in started}
        strays = set().union(*(descendants(process.pid) for process in started))
        for rank, process in enumerate(started):
            if clean:
                self._send(rank, ExitMessage())
            else:
                process.kill()
        for process in started:
            process.join(timeout=5 if clean else None)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        end_groups(leaders)
        end_processes(strays)
        self._note_groups(leaders, False)
        for pipe in self.commands + self.reports:
            pipe.close()

    def show_output(self) -> None:
        for rank, output in enumerate(self.outputs):
            show_prints_of_rank(output, f"{self.name} {rank} | " if self.name else "")
