"""Notebooks as strict tests: nbval with its holes closed.

Lessons must run from top to bottom; solutions must also give their stored outputs.
Beyond what nbval does, these fail: a cell with an unknown magic (it replies with an
error but shows none), a dead kernel (at once, not at the time limit), a cell tagged
raises-exception that raises nothing, a solution cell without a stored run, and a run
that executed nothing. What child processes print is seen, as it is in JupyterLab.

Starting a kernel, importing torch there and starting the first ranks takes five seconds
of a core. A worker of pytest-xdist does it once, and forks the kernels of its notebooks
from there. With `-n 0` each notebook has a new process, as it has where it is built.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from queue import Empty
from unittest import mock

import nbval.kernel
import nbval.plugin
import psutil
import pytest
from jupyter_client.provisioning import local_provisioner

from lessons.source.execution import at_free_ports, normalise
from tests.forked_programs import ForkedProgram, ForkedPrograms

SECONDS_PER_NOTEBOOK = 60  # a budget: reported, never asserted

RunningKernel = nbval.kernel.RunningKernel
NotebookFile = nbval.plugin.IPyNbFile
NotebookCell = nbval.plugin.IPyNbCell

usage: dict[str, tuple[float, int]] = {}  # seconds and peak bytes, by notebook
executed = {"cells": 0, "tests": 0}


def pytest_configure(config) -> None:
    config.option.nbval_sanitize_with = str(Path(__file__).parents[1] / "sanitize.cfg")
    if hasattr(config, "workerinput") and sys.platform == "linux":
        HardKernel.launch = staticmethod(fork_kernel)


# Kernels


FORKED_KERNEL = Path(__file__).parents[1] / "forked_kernel.py"


@cache
def forked_kernels() -> ForkedPrograms:
    """The process that all kernels of this worker are forked from."""
    backend = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    with mock.patch.dict(os.environ, backend):  # read where matplotlib is imported
        return ForkedPrograms()


def fork_kernel(cmd: list[str], env: dict[str, str], cwd: str, **_) -> ForkedProgram:
    """A kernel that has imported torch; it takes the place of a new process."""
    start = forked_kernels().start
    program = start(FORKED_KERNEL, *cmd[-2:], folder=cwd, **env)
    while os.getpgid(program.pid) != program.pid:  # it is about to lead its group
        time.sleep(0.001)
    program.stdin = None  # as subprocess.Popen has it
    return program


class HardKernel(RunningKernel):
    launch = staticmethod(local_provisioner.launch_kernel)
    last_reply: dict

    def __init__(self, *args, **kwargs) -> None:
        self.last_reply = {}
        # With this variable set, ipykernel does not show what child processes print.
        hidden = os.environ.pop("PYTEST_CURRENT_TEST", None)
        try:
            with mock.patch.object(local_provisioner, "launch_kernel", self.launch):
                at_free_ports(lambda: super(HardKernel, self).__init__(*args, **kwargs))
        finally:
            if hidden is not None:
                os.environ["PYTEST_CURRENT_TEST"] = hidden

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """Wait for the reply to a cell; keep it; stop waiting if the kernel died."""
        deadline = time.monotonic() + (timeout or float("inf"))
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.get_message(stream="shell", timeout=min(1.0, left))
            except Empty:
                if not self.is_alive():
                    raise KernelDied from None
                continue
            if message["parent_header"].get("msg_id") == msg_id:
                self.last_reply = message["content"]
                return
        raise Empty

    def stop(self) -> None:
        """Ask the kernel to end, as JupyterLab does, and kill it if it does not."""
        if hasattr(self, "km"):
            self.kc.stop_channels()
            self.km.shutdown_wait_time = 20  # killed on the way, it would leave files
            self.km.shutdown_kernel(now=not self.km.is_alive())
            del self.km


class KernelDied(Exception):
    """The kernel's process ended while a cell was running."""


# Notebooks


class Usage:
    """Seconds and peak memory of a kernel with all its children, by sampling."""

    def __init__(self, pid: int) -> None:
        self.process = psutil.Process(pid)
        self.began = time.monotonic()
        self.peak = 0
        self.stopped = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        most = 0
        while not self.stopped.wait(1):
            try:
                tree = [self.process, *self.process.children(recursive=True)]
            except psutil.Error:
                return
            resident = sum(map(resident_memory, tree))
            if resident > 0.9 * most:  # else not: to ask for shares takes 5 ms each
                most = max(most, resident)
                self.peak = max(self.peak, sum(map(memory, tree)))

    def stop(self) -> tuple[float, int]:
        self.stopped.set()
        return time.monotonic() - self.began, self.peak


def memory(process: psutil.Process) -> int:
    """Bytes of a process; what several processes share is divided among them."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        shares = [line.split()[1] for line in lines if line.startswith("Pss:")]
        return 1024 * int(shares[0])
    except (OSError, IndexError):
        return resident_memory(process)


def resident_memory(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def is_solution(file: pytest.File) -> bool:
    return file.path.parent.name == "solutions"


def collect(self: NotebookFile, inner=NotebookFile.collect) -> Iterator[NotebookCell]:
    self.compare_outputs = is_solution(self)
    yield from inner(self)


def setup(self: NotebookFile, inner=NotebookFile.setup) -> None:
    """Each notebook begins with nothing done; the learner's record is not touched."""
    self.private = tempfile.TemporaryDirectory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "SIDEBYSIDE_PROGRESS", str(Path(self.private.name, "progress.json"))
        )
        patch.setenv("SIDEBYSIDE_PATIENCE", "60")  # of checks: the machine may be busy
        if is_solution(self):  # as when it was built
            patch.setenv("SIDEBYSIDE_PAGE", "solution")
        inner(self)
    self.usage = Usage(self.kernel.km.provisioner.pid)


def teardown(self: NotebookFile) -> None:
    if self.kernel is not None:
        usage[f"{self.path.parent.name}/{self.path.name}"] = self.usage.stop()
        self.kernel.stop()
    self.private.cleanup()


NotebookFile.collect, NotebookFile.setup, NotebookFile.teardown = (
    collect,
    setup,
    teardown,
)
nbval.plugin.RunningKernel = HardKernel


# Cells


def runtest(self: NotebookCell, inner=NotebookCell.runtest) -> None:
    kernel = self.parent.kernel
    kernel.last_reply = {}
    if not kernel.is_alive():
        self.raise_cell_error("The kernel died in an earlier cell")
    if is_solution(self.parent) and self.cell.execution_count is None:
        self.raise_cell_error("This cell of a solution has no stored run: build it")
    self.output_timeout = 60  # seconds from a cell's reply to the end of its output
    try:
        inner(self)
    except KernelDied:
        self.raise_cell_error("The kernel died in this cell")
    if self.options["check_exception"]:
        if not any(output.output_type == "error" for output in self.test_outputs):
            self.raise_cell_error("Tagged raises-exception, but nothing was raised")
    elif kernel.last_reply.get("status") != "ok":
        problem = "{ename}: {evalue}".format_map({"ename": "", **kernel.last_reply})
        self.raise_cell_error(f"The cell was answered with an error: {problem}")


def sanitize(self: NotebookCell, text, inner=NotebookCell.sanitize):
    return inner(self, normalise(text)) if isinstance(text, str) else text


NotebookCell.runtest, NotebookCell.sanitize = runtest, sanitize


# The run, in one process or in several (pytest-xdist)


def pytest_runtest_logreport(report) -> None:
    if report.when == "call" and not report.skipped:
        executed["cells" if "::Cell " in report.nodeid else "tests"] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A worker has ended: its notebooks are ours."""
    usage.update(getattr(node, "workeroutput", {}).get("usage", {}))


def pytest_sessionfinish(session, exitstatus) -> None:
    """A run that executed nothing has not tested anything."""
    if forked_kernels.cache_info().currsize:
        forked_kernels().__exit__()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["usage"] = usage
        return
    option = session.config.option
    if option.collectonly or exitstatus not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return
    complete = session.config.args_source == session.config.ArgsSource.TESTPATHS
    chosen = option.keyword or option.markexpr or getattr(option, "lf", False)
    kinds = list(executed) if complete and not chosen else []
    nothing = [kind for kind in kinds if not executed[kind]]
    if nothing or not any(executed.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.ran_nothing = (
            f"This run executed no {' and no '.join(nothing or executed)}."
        )


def pytest_terminal_summary(terminalreporter, config) -> None:
    if usage:
        terminalreporter.section("notebooks: time and peak memory, with all processes")
    for name, (seconds, peak) in sorted(usage.items()):
        line = f"{name:<50} {seconds:6.1f} s {peak / 1e6:7.0f} MB"
        over = seconds > SECONDS_PER_NOTEBOOK
        line += f"  over the budget of {SECONDS_PER_NOTEBOOK} s" if over else ""
        terminalreporter.write_line(line, yellow=over)
    if message := getattr(terminalreporter._session, "ran_nothing", ""):
        terminalreporter.write_line(message, red=True)
