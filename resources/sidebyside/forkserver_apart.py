"""A forkserver of our own: the notebook's own multiprocessing is left as it is.

It is multiprocessing's, with four differences. It has imported torch before it forks.
It, and the resource tracker that it starts, lead sessions of their own: a kernel that
shuts down sends SIGTERM to its process group, which would end the forkserver before it
could clean up, while the tracker ignores the signal and the kernel would wait for it
in vain. It lives exactly as long as the process that started it: what it forks does
not keep it alive. And what it forks can ask it for more processes.
"""

import contextlib
import io
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing import context, forkserver, resource_tracker, util
from multiprocessing.popen_forkserver import Popen as UsualPopen
from multiprocessing.process import current_process
from multiprocessing.spawn import get_preparation_data
from typing import NamedTuple


class Address(NamedTuple):
    """How a process reaches the forkserver that has forked it."""

    socket: str
    key: bytes | None  # since Python 3.14


class ForkServer(forkserver.ForkServer):
    """Started when it is first needed, unless this process was forked by one."""

    inherited = False

    def __init__(self):
        super().__init__()
        self.set_forkserver_preload(["sidebyside.forkserver_start"])

    def ensure_running(self) -> None:
        if self.inherited:
            return
        if self._forkserver_pid is not None and not self._runs():
            self.forget(self._forkserver_address)
        if self._forkserver_pid is None:
            with apart(), _folder_of_own_forkserver():
                super().ensure_running()

    def _runs(self) -> bool:
        try:
            return os.waitpid(self._forkserver_pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:  # it serves the process that this one was forked from
            return False

    def forget(self, address: str | None) -> None:
        """End the server at this address, if it lives; the next use starts another."""
        with self._lock:
            if address is None or address != self._forkserver_address:
                return  # another thread has done so
            os.close(self._forkserver_alive_fd)
            with contextlib.suppress(OSError, TypeError):
                if os.waitpid(self._forkserver_pid, os.WNOHANG) == (0, 0):
                    os.kill(self._forkserver_pid, signal.SIGKILL)
                    os.waitpid(self._forkserver_pid, 0)
            self._forkserver_alive_fd = self._forkserver_pid = None
            self._forkserver_address = None
            self.inherited = False

    def address(self) -> Address:
        key = getattr(self, "_forkserver_authkey", None)
        return Address(self._forkserver_address, key)

    def join(self, address: Address) -> None:
        """In a process that it has forked: use it, but do not keep it alive.

        Else a process that cannot react would keep itself and all others alive.
        """
        usual = forkserver._forkserver
        os.close(usual._forkserver_alive_fd)
        usual._forkserver_alive_fd = None
        self._forkserver_address, self._forkserver_authkey = address
        self._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
        self.inherited = True
        # what this process leaves in its folder is removed together with the server's
        current_process()._config["tempdir"] = os.path.dirname(address.socket)


server = ForkServer()


class Popen(UsualPopen):
    def _launch(self, process) -> None:
        server.ensure_running()
        address = server.address()
        try:
            self._fork(process)
        except (OSError, EOFError):  # somebody has killed it, or removed its socket
            server.forget(address.socket)
            server.ensure_running()
            self._fork(process)

    def _fork(self, process) -> None:
        process.server = server.address()
        data = io.BytesIO()
        self._fds = []
        context.set_spawning_popen(self)
        try:
            context.reduction.dump(get_preparation_data(process._name), data)
            context.reduction.dump(process, data)
        finally:
            context.set_spawning_popen(None)
        sentinel, write_end = server.connect_to_new_process(self._fds)
        parent = os.dup(write_end)  # closes when this process ends
        try:
            with open(write_end, "wb") as pipe:
                pipe.write(data.getbuffer())
            self.pid = forkserver.read_signed(sentinel)
        except BaseException:
            util.close_fds(parent, sentinel)
            raise
        self.sentinel = sentinel
        self.finalizer = util.Finalize(self, util.close_fds, (parent, sentinel))


class Process(context.ForkServerProcess):
    server: Address

    @staticmethod
    def _Popen(process) -> Popen:
        return Popen(process)

    def run(self) -> None:
        server.join(self.server)
        super().run()


class ForkServerContext(context.ForkServerContext):
    """In place of `multiprocessing.get_context("forkserver")`."""

    Process = Process


_usual_spawn = util.spawnv_passfds
# An interrupt that came before the session is not the server's: it is forgotten.
_IN_OWN_SESSION = (
    "import os, signal; os.setsid(); signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT]); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
)


def _spawn_in_own_session(path, args, passfds):
    args = list(args)
    if "--multiprocessing-fork" in args or "-c" not in args:  # a rank
        return _usual_spawn(path, args, passfds)
    program = args.index("-c") + 1
    args[program] = _IN_OWN_SESSION + args[program]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # inherited
    try:
        return _usual_spawn(path, args, passfds)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def keep_servers_apart() -> None:
    """In a notebook's kernel, the learner's own forkserver leads a session too.

    Else a kernel that is shut down would leave its folder behind. Nothing else of the
    kernel's multiprocessing changes, and in a script nothing at all.
    """
    util.spawnv_passfds = _spawn_in_own_session


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """What multiprocessing starts in here for itself leads a session of its own."""
    usual = util.spawnv_passfds
    util.spawnv_passfds = _spawn_in_own_session
    try:
        resource_tracker.ensure_running()
        yield
    finally:
        util.spawnv_passfds = usual


@contextlib.contextmanager
def _folder_of_own_forkserver() -> Iterator[None]:
    """A forkserver that starts in here has its socket in a folder of its own."""
    config = current_process()._config
    usual = config.get("tempdir")
    folder = tempfile.mktemp(prefix="pymp-")  # noted first: an interrupt may come
    util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=-100)
    os.mkdir(folder, 0o700)
    config["tempdir"] = folder
    try:
        yield
    finally:
        config["tempdir"] = usual
