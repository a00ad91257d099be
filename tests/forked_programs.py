"""Programs that start at once: forked from a process that has imported torch.

`python demo.py` spends two seconds of a core on importing torch, and its forkserver
four: more than most demos need for their work. Where a test asks how a program ends or
what it answers, and another one starts it as people do, it may start like this.

What differs from `python program.py`: `IMPORTED` is loaded already; in a list of
processes it has the words and the environment of the server it was forked from; and one
child waits to become its forkserver.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

KILLED_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux
IMPORTED = ["torch", "torch.distributed", "torch._dynamo", "matplotlib.pyplot"]
IMPORTED += ["psutil", "cloudpickle", "ipykernel.kernelapp"]


class ForkedPrograms:
    """The server, and the programs that it has forked. Use it in a `with` block."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        self.server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONUTF8": "1"},
        )  # fmt: skip
        theirs.close()

    def __enter__(self) -> "ForkedPrograms":
        return self

    def __exit__(self, *_) -> None:
        self.channel.close()
        self.server.wait()

    def start(self, path: Path, *args: str, folder: Path, **environment: str):
        """Start a program in this folder, in a session of its own, without input."""
        return ForkedProgram(self, path, args, folder, environment)


class ForkedProgram:
    """As `subprocess.Popen`, with pipes for what the program prints."""

    def __init__(self, programs, path, args, folder, environment) -> None:
        pipes = [os.pipe() for _ in range(3)]
        request = {
            "argv": [str(path), *args],
            "folder": str(folder),
            "environment": dict(os.environ) | environment,
        }
        theirs = [write for _, write in pipes]
        _send(programs.channel, request, theirs)
        for write in theirs:
            os.close(write)
        ours = (os.fdopen(read, "rb") for read, _ in pipes)
        self.stdout, self.stderr, self.status = ours
        self.pid = int(self.status.readline())
        self.returncode = None

    def __enter__(self) -> "ForkedProgram":
        return self

    def __exit__(self, *_) -> None:
        self.wait()
        for file in self.stdout, self.stderr, self.status:
            file.close()

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal: for the program and what is in its group."""
        os.killpg(self.pid, signal.SIGINT)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> int | None:
        """How it ended, as `Popen.returncode` says it; None if it still runs then."""
        if self.returncode is None and _readable(self.status, seconds):
            self.returncode = int(self.status.readline())
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it prints from now on, once it has ended. Raises TimeoutExpired."""
        said = {}

        def read(file) -> None:
            said[file] = b"" if file.closed else file.read()

        files = self.stdout, self.stderr
        readers = [threading.Thread(target=read, args=[file]) for file in files]
        for reader in readers:
            reader.start()
        ended = self.wait(timeout) is not None
        if not ended:
            self.kill()
        for reader in readers:
            reader.join()
        if not ended:
            raise subprocess.TimeoutExpired(["program"], timeout, *said.values())
        return tuple(said[file].decode() for file in files)


def _readable(file, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(file)
    return bool(poll.poll(None if seconds is None else 1000 * seconds))


def _send(channel: socket.socket, message: dict, fds: list[int]) -> None:
    """One message, its length first; the file descriptors travel with that."""
    data = json.dumps(message).encode()
    socket.send_fds(channel, [len(data).to_bytes(8, "big")], fds)
    channel.sendall(data)


def _receive(channel: socket.socket) -> tuple[dict, list[int]] | None:
    """The next message and its file descriptors; None when there will be no more."""
    length, fds, _, _ = socket.recv_fds(channel, 8, 16)
    if not length:
        return None
    data = b""
    while len(data) < int.from_bytes(length, "big"):
        data += channel.recv(1 << 16)
    return json.loads(data), fds


# In the server ------------------------------------------------------------------------


def next_program(channel: socket.socket) -> dict | None:
    """Fork for every request; in the process that becomes the program, return it."""
    gc.disable()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    atexit.register(gc.unfreeze)  # else triton 3.9 reports what is left as leaked
    gc.enable()
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    while received := _receive(channel):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # keepers that have ended
                pass
        request, fds = received
        if os.fork() == 0:  # a keeper, which will say how the program ended
            channel.close()
            if program := os.fork():
                _tell_how_it_ends(program, fds)
            signal.signal(signal.SIGINT, usual)
            _put_on_stage(request, fds)
            return request
        for fd in fds:
            os.close(fd)
    return None


def _tell_how_it_ends(program: int, fds: list[int]) -> None:
    if sys.platform == "linux":  # nobody is told when the server has ended
        ctypes.CDLL(None).prctl(KILLED_WITH_PARENT, signal.SIGKILL)
    *printed, status = fds
    for fd in printed:
        os.close(fd)
    with contextlib.suppress(OSError):  # perhaps nobody asks any more
        os.write(status, b"%d\n" % program)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        os.write(status, b"%d\n" % code)
    os._exit(0)


def _put_on_stage(request: dict, fds: list[int]) -> None:
    """What a new process has: a session, a folder, an environment, its own output."""
    os.setsid()
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)
    for fd in fds:
        os.close(fd)
    streams = (os.fdopen(fd, "w", 1, "utf-8", closefd=False) for fd in (1, 2))
    sys.stdout, sys.stderr = streams
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.modules["numpy"].random.seed()  # Python's own generator sees to it itself


class ForkserverInWaiting:
    """A child that has imported what a forkserver needs, and becomes one if asked."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # not a word after Ctrl-C
            os.setpgid(0, 0)  # a kernel that shuts down waits for its own group
            self.channel.close()
            self.channel = theirs
        else:
            theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def wait(self) -> list[str]:
        """In the child: the code of the forkserver that it is to be, its arguments."""
        received = _receive(self.channel)
        if received is None:
            os._exit(0)
        os.setpgid(0, os.getpgid(os.getppid()))
        request, fds = received
        signal.pthread_sigmask(signal.SIG_SETMASK, request["mask"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        wanted = dict(zip(request["fds"], fds, strict=True))
        high = {place: _moved_up(fd) for place, fd in wanted.items()}
        os.closerange(3, min(high.values()))
        for place, fd in high.items():
            os.dup2(fd, place, inheritable=True)
        os.closerange(min(high.values()), max(high.values()) + 1)
        return request["words"]

    def serve_multiprocessing(self) -> None:
        """In the program: the first forkserver that it starts is this child."""
        from multiprocessing import util

        usual = util.spawnv_passfds

        def spawn(path, args, passfds):
            words = args[args.index("-c") + 1 :] if "-c" in args else [""]
            if "multiprocessing.forkserver" not in str(words[0]) or not self.channel:
                return usual(path, args, passfds)
            fds, mask = list(passfds), signal.pthread_sigmask(signal.SIG_BLOCK, [])
            request = {"words": words, "fds": fds, "mask": [int(n) for n in mask]}
            _send(self.channel, request, fds)
            self.channel.close()
            self.channel = None
            return self.pid

        util.spawnv_passfds = spawn


def _moved_up(fd: int) -> int:
    import fcntl  # not on Windows

    return fcntl.fcntl(fd, fcntl.F_DUPFD, 500)


def main_module(file: str | None) -> dict:
    """The names of a new `__main__`."""
    module = types.ModuleType("__main__")
    if file:
        module.__file__ = file
    sys.modules["__main__"] = module
    return module.__dict__


if __name__ == "__main__":
    if request := next_program(socket.socket(fileno=int(sys.argv[1]))):
        sys.argv = request["argv"]
        path = sys.argv[0]
        in_waiting = ForkserverInWaiting()
        if in_waiting.pid:
            in_waiting.serve_multiprocessing()
            sys.path[0] = os.path.dirname(path)
            code = compile(Path(path).read_bytes(), path, "exec")
            exec(code, main_module(path))
        else:
            code, *args = in_waiting.wait()
            sys.argv, sys.path[0] = ["-c", *args], ""
            exec(code, main_module(None))
