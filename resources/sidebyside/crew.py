"""The processes of one call of run_ranks: started, listened to, and ended."""

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait

from sidebyside import failures
from sidebyside.failures import RankFailed
from sidebyside.rank_process import serve
from sidebyside.scratch import read_all, scratch_file

SHOWN = 20_000  # characters of one rank's output

_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ONE_THREAD = dict.fromkeys(_LIMITS, "1")
_starting = threading.Lock()


@contextlib.contextmanager
def _one_thread_each():
    """Processes that start in here compute with one thread each."""
    with _starting:  # the environment belongs to all threads of this process
        saved = {name: os.environ.get(name) for name in _LIMITS}
        os.environ |= _ONE_THREAD
        try:
            yield
        finally:
            for name, value in saved.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


class Crew:
    """The processes of one call: their pipes, their output and what they reported."""

    def __init__(self, context, work: list[bytes], connect: bool, name: str):
        self.work, self.connect, self.name = work, connect, name
        self.size = len(work)
        self.context = context
        self.commands, self.reports, self.outputs, self.processes = [], [], [], []
        self.results: dict[int, bytes] = {}
        self.raised: dict[int, dict] = {}
        self.died: dict[int, int] = {}
        self.stacks: dict[int, list] = {}

    def start(self) -> None:
        with _one_thread_each():  # for the forkserver, which starts with the first
            for rank in range(self.size):
                commands, ours = self.context.Pipe(duplex=False)
                reports, theirs = self.context.Pipe(duplex=False)
                output, path = scratch_file()
                process = self.context.Process(
                    target=serve, name=f"{self.name} {rank}", daemon=False,
                    args=(rank, self.size, self.connect, commands, theirs, path),
                )  # fmt: skip
                self.commands.append(ours)
                self.reports.append(reports)
                self.outputs.append(output)
                self.processes.append(process)
                process.start()
                commands.close()
                theirs.close()
        environment = dict(os.environ) | _ONE_THREAD
        for rank, work in enumerate(self.work):
            self._send(rank, pickle.dumps((environment, work)), raw=True)

    def _send(self, rank: int, message, raw: bool = False) -> None:
        pipe = self.commands[rank]
        with contextlib.suppress(OSError):  # it has died: collect() will see that
            pipe.send_bytes(message) if raw else pipe.send(message)

    def collect(self, deadline: float, timeout: float) -> list:
        while len(self.results) < self.size:
            self._listen(deadline - time.monotonic())
            if self.raised or self.died:
                self._listen_until(time.monotonic() + 0.2, lambda: False)
                raise failures.failed(self._ask_where())
            if time.monotonic() >= deadline:
                raise failures.hung(self._ask_where(), timeout)
        results = []
        for rank in range(self.size):
            try:
                results.append(pickle.loads(self.results[rank]))
            except Exception as error:
                raise RankFailed(
                    f"{self.name} {rank}'s result cannot be rebuilt here: {error}", rank
                ) from None
        return results

    def _listen(self, patience: float) -> None:
        """Take in what the ranks report, for at most `patience` seconds."""
        running = [r for r in range(self.size) if r not in self.died]
        sources = {self.reports[r]: r for r in running}
        sources |= {self.processes[r].sentinel: r for r in running}
        for source in wait(list(sources), max(patience, 0)):
            rank = sources[source]
            if rank in self.died:
                continue
            try:
                if self.reports[rank].poll():
                    self._take_in(rank, *self.reports[rank].recv())
                    continue
            except (EOFError, OSError):
                pass  # it died: perhaps in the middle of a report
            self.processes[rank].join(timeout=1)
            if self.processes[rank].exitcode is None:  # it closed its pipe and lives
                self.processes[rank].kill()
                self.processes[rank].join()
            self.died[rank] = self.processes[rank].exitcode

    def _take_in(self, rank: int, kind: str, content) -> None:
        if kind == "done":
            self.results[rank] = self.reports[rank].recv_bytes()
        elif kind == "raised":
            self.raised[rank] = content
        elif kind == "stack":
            self.stacks[rank] = content
        elif kind == "store":
            for other in range(1, self.size):
                self._send(other, ("store", content))

    def _listen_until(self, deadline: float, enough: Callable[[], bool]) -> None:
        while not enough() and (left := deadline - time.monotonic()) > 0:
            self._listen(left)

    def _ask_where(self) -> "Crew":
        """Ask each rank that still works for the line it is on."""
        silent = set(self.results) | set(self.raised)
        asked = [r for r in range(self.size) if r not in silent | set(self.died)]
        for rank in asked:
            self._send(rank, ("stack",))
        self._listen_until(
            time.monotonic() + 1.0,
            lambda: all(r in self.stacks or r in self.died for r in asked),
        )
        return self

    def stop(self) -> None:
        """End every process, whatever it does; ask nicely only if all are done."""
        clean = len(self.results) == self.size
        started = [process for process in self.processes if process.pid is not None]
        for rank, process in enumerate(started):
            if clean:
                self._send(rank, ("exit",))
            else:
                process.kill()
        for process in started:
            process.join(timeout=5 if clean else None)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        for pipe in self.commands + self.reports:
            pipe.close()

    def show_output(self) -> None:
        for rank, output in enumerate(self.outputs):
            text = read_all(output).decode(errors="replace")
            output.close()
            if len(text) > SHOWN:
                text = f"{text[:SHOWN]}\n… and {len(text) - SHOWN:,} more characters"
            for line in text.splitlines():
                print(f"{self.name} {rank} | {line}" if self.name else line)
