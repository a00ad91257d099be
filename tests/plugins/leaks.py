"""A run of the tests leaves nothing behind, or it fails.

Every process that the tests start, however indirectly, inherits a marker in its
environment and a private folder for temporary files. At the end no marked process
may live, this process may listen on no new port, the folder must be empty, and no
new shared memory may be left. With several workers (pytest-xdist) each looks after
itself, and the process that leads them after all. Shared memory is left to the latter:
nobody could tell which worker it belongs to. For the same reason a run inside a test
leaves semaphores to the run around it.
"""

import contextlib
import multiprocessing.util
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest

MARKER = "SIDEBYSIDE_TEST_RUN"
PATIENCE = 30  # seconds that leftovers get to disappear
SHARED_MEMORY = Path("/dev/shm")


class Watch:
    """What was there when the run began, and the run's private folder."""

    def __init__(self, is_worker: bool = False) -> None:
        self.is_worker = is_worker
        self.is_inside = MARKER in os.environ
        self.began = time.time()
        self.marker = f"{os.environ.get(MARKER, '')}/{uuid.uuid4().hex}"
        self.shared = shared_memory()
        self.ports = listening()
        # Not inside another's private folder: the name of a socket must be short.
        usual = os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self.folder = Path(tempfile.mkdtemp(prefix="sidebyside-", dir=usual))
        self.set_aside = Path(tempfile.mkdtemp(prefix="sidebyside-", dir=usual))
        self.saved = dict(os.environ)
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", usual)  # pytest's own tmp_path
        os.environ |= {
            MARKER: self.marker,
            "TMPDIR": str(self.folder),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "jupyter"),
            "IPYTHONDIR": str(self.set_aside / "ipython"),
            # torch's cache of compiled code stays on purpose, one for each user
            "TORCHINDUCTOR_CACHE_DIR": str(self.set_aside / "torchinductor"),
            # what holds on the CPU; tests/gpu/every_gpu_path.py tries the GPUs
            "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            "SIDEBYSIDE_PROGRESS": str(self.set_aside / "progress.json"),
        }
        tempfile.tempdir = None  # look at TMPDIR again

    def leftovers(self) -> list[str]:
        lines = [
            f"process {process.pid}: {' '.join(process.info['cmdline'])[:200]}"
            for process in self.processes()
        ]
        lines += [f"temporary file {path.name}" for path in self.files()]
        lines += [
            f"shared memory {name}"
            for name in shared_memory() - self.shared
            if self.may_own(SHARED_MEMORY / name)
        ]
        return lines + [f"open port {port}" for port in listening() - self.ports]

    def processes(self) -> list[psutil.Process]:
        """Those with our marker, also orphans; dead ones do not count."""
        found = []
        for process in psutil.process_iter(["cmdline", "create_time"]):
            try:
                old = process.info["create_time"] < self.began - 1
                if old or process.pid == os.getpid():
                    continue
                marker = process.environ().get(MARKER, "")
                if marker.startswith(self.marker) and process.status() != "zombie":
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def files(self) -> list[Path]:
        found = set(self.folder.iterdir()) - {self.folder / "jupyter"}
        return sorted(found | set(self.folder.glob("jupyter/*")))

    def may_own(self, path: Path) -> bool:
        """False when others use this shared memory, or may have made it."""
        others = self.is_inside and path.name.startswith(("sem.", "joblib_"))
        if self.is_worker or others:
            return False
        users = []
        for process in psutil.process_iter():
            try:
                if str(path) in Path(f"/proc/{process.pid}/maps").read_text():
                    users.append(process.environ().get(MARKER, ""))
            except (OSError, psutil.Error):
                continue
        return not users or any(user.startswith(self.marker) for user in users)

    def end(self) -> list[str]:
        """What is left behind after some patience; afterwards it is gone."""
        stop_helpers()
        deadline = time.monotonic() + PATIENCE
        left = self.leftovers()
        while left and time.monotonic() < deadline:
            time.sleep(0.2)
            # others' shared memory comes and goes; a process may change its words
            known = {line.partition(": ")[0] for line in left}
            left = [one for one in self.leftovers() if one.partition(": ")[0] in known]
        for process in self.processes():
            process.kill()
        return left

    def restore(self) -> None:
        os.environ.clear()
        os.environ.update(self.saved)
        tempfile.tempdir = None
        for folder in (self.folder, self.set_aside):
            shutil.rmtree(folder, ignore_errors=True)


def shared_memory() -> set[str]:
    return set(os.listdir(SHARED_MEMORY)) if SHARED_MEMORY.exists() else set()


def listening() -> set[int]:
    connections = psutil.Process().net_connections("inet")
    return {
        connection.laddr.port
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
        and connection.type == socket.SOCK_STREAM
    }


def stop_helpers() -> None:
    """End what multiprocessing keeps as long as this process: servants, a folder."""
    for module, servant in (
        ("multiprocessing.forkserver", "_forkserver"),
        ("sidebyside.ranks.forkserver", "server"),
        ("multiprocessing.resource_tracker", "_resource_tracker"),
    ):
        if module in sys.modules:
            with contextlib.suppress(FileNotFoundError):  # ours has removed its socket
                getattr(sys.modules[module], servant)._stop()
    multiprocessing.util._run_finalizers()


watch_key = pytest.StashKey[Watch]()
left_key = pytest.StashKey[list[str]]()
LEFT = "left_behind"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[watch_key] = Watch(is_worker=hasattr(config, "workerinput"))
    config.stash[left_key] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A worker has ended: take over what it left behind."""
    node.config.stash[left_key] += getattr(node, "workeroutput", {}).get(LEFT, [])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session) -> None:
    left = session.config.stash[left_key]
    left += session.config.stash[watch_key].end()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT] = left
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config) -> None:
    for line in dict.fromkeys(config.stash[left_key]):
        terminalreporter.write_line(f"left behind: {line}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config) -> None:
    config.stash[watch_key].restore()
