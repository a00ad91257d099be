"""The forkserver of ranks: multiprocessing's, which has imported torch before it forks.

The notebook's own forkserver is left as it is. This one lives exactly as long as the
process that started it: what it forks does not keep it alive, and ends with it. And
what it forks can ask it for more processes.
"""

# multiprocessing's private names: tests/test_private_names.py says why each is taken.
# pyright: reportAttributeAccessIssue=false

import io
import os
import shutil
import signal
import tempfile
from multiprocessing import context, forkserver, popen_forkserver, util
from multiprocessing.process import current_process
from multiprocessing.spawn import get_preparation_data
from typing import NamedTuple

from sidebyside.programs.process_groups import end_orphans


class Address(NamedTuple):
    """How a process reaches the forkserver that has forked it."""

    socket: str
    key: bytes | None  # since Python 3.14


class RankForkServer(forkserver.ForkServer):
    """Started when it is first needed, unless this process was forked by one."""

    def __init__(self):
        super().__init__()
        self.set_forkserver_preload(["sidebyside.ranks.preload"])
        self.folder = None  # for its socket, and for what ranks leave

    def ensure_running(self) -> None:
        if self._forkserver_address and self._forkserver_pid is None:
            return  # it has forked this process
        config = current_process()._config
        usual = config.get("tempdir")
        # it inherits that; and there is no interrupt between a folder and its removal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            if self.folder is None:
                self.folder = tempfile.mkdtemp(prefix="pymp-")
                remove = shutil.rmtree, (self.folder, True)
                util.Finalize(None, *remove, exitpriority=-100)
            config["tempdir"] = self.folder
            super().ensure_running()
        finally:
            config["tempdir"] = usual
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.go_on()

    def go_on(self) -> None:
        """Even if somebody has stopped it: it says that a rank has ended."""
        if self._forkserver_pid:
            os.kill(self._forkserver_pid, signal.SIGCONT)

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
        current_process()._config["tempdir"] = os.path.dirname(address.socket)


server = RankForkServer()
os.register_at_fork(after_in_child=server.__init__)  # who forks has no part in it


class Popen(popen_forkserver.Popen):
    def _launch(self, process) -> None:
        """As multiprocessing does it, with our server in place of its own."""
        server.ensure_running()
        process.server = server.address()
        data = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            context.reduction.dump(get_preparation_data(process.name), data)
            context.reduction.dump(process, data)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, write_end = server.connect_to_new_process(self._fds)
        parent = os.dup(write_end)  # closes when this process ends
        self.finalizer = util.Finalize(self, util.close_fds, (parent, self.sentinel))
        with open(write_end, "wb") as pipe:
            pipe.write(data.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)

    def wait(self, timeout: float | None = None) -> int | None:
        server.go_on()
        return super().wait(timeout)


class Process(context.ForkServerProcess):
    server: Address

    @staticmethod
    def _Popen(process) -> Popen:
        return Popen(process)

    def run(self) -> None:
        server.join(self.server)
        super().run()

    def close(self) -> None:
        super().close()
        end_orphans(server._forkserver_pid or os.getppid())


class ForkServerContext(context.ForkServerContext):
    """In place of `multiprocessing.get_context("forkserver")`."""

    Process = Process
