"""Two machines for a notebook: hosts of its own where the system makes them.

    machines = TwoMachines(rate=200)
    machines.run_ranks(function, 16_000_000, per_machine=2)   # ranks 0, 1 and 2, 3
    machines.torchrun("demos/ddp/train_digits.py", "--epochs", 2)

Where the system makes no hosts, `why_simulated` says why. Then ranks of this machine
are told that they sit on two, and the link is simulated.
"""

import contextlib
import os
import pickle
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from parallel_by_hand.machines.hosts import RATE, two_hosts, why_no_hosts
from parallel_by_hand.machines.rank_server import receive_frame, send_frame
from parallel_by_hand.machines.torchrun_on_hosts import run_torchrun

LOOPBACK = {"linux": "lo", "darwin": "lo0"}
SERVE = "from parallel_by_hand.machines.rank_server import serve_ranks; serve_ranks()"


class RankOnHostFailed(RuntimeError):
    """A rank on one of `TwoMachines` raised, or did not come back in time."""


class _PretendedHost:
    """This machine under another name: `start` is subprocess.Popen."""

    def __init__(self, name: str, address: str = "127.0.0.1"):
        self.name, self.address = name, address
        self.folder = tempfile.TemporaryDirectory()  # torchrun leaves one in it
        self.environment = {"OMP_NUM_THREADS": "1", "TMPDIR": self.folder.name}
        if sys.platform in LOOPBACK:
            self.environment["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]

    def start(self, *command: object, **options) -> subprocess.Popen:
        env = os.environ | self.environment | options.pop("env", {})
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([*map(str, command)], env=env, **options)


class TwoMachines:
    """host-a and host-b, joined by a link of `rate` Mbit/s; or one machine, simulated.

    Where they are real, they live until `close`, or until this process ends. A later
    call makes new ones.
    """

    def __init__(self, rate: float = RATE):
        self.rate, self.why_simulated = rate, why_no_hosts()
        self.calls = 0
        self._open()

    def _open(self) -> None:
        self.servers, self.stack = [], contextlib.ExitStack()
        if self.why_simulated:
            self.hosts = [_PretendedHost(name) for name in ("host-a", "host-b")]
            for host in self.hosts:
                self.stack.enter_context(host.folder)
        else:
            self.hosts = self.stack.enter_context(two_hosts(self.rate))
        self.close = weakref.finalize(self, self.stack.close)

    def _open_again_if_closed(self) -> None:
        """By close(), or by a call that was interrupted."""
        if not self.close.alive:
            self._open()

    def __enter__(self) -> "TwoMachines":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.why_simulated:
            return f"simulated inside one machine: {self.why_simulated}"
        names = (f"{host.name} ({host.address})" for host in self.hosts)
        return f"{' and '.join(names)}, joined by a link of {self.rate:g} Mbit/s"

    def torchrun(
        self, script: object, *args: object, machines: int = 2, per_machine: int = 1
    ) -> list[str]:
        """What torchrun prints on each machine, if a person starts it on each."""
        self._open_again_if_closed()
        hosts = self.hosts[:machines]
        port = free_port_for_machines() if self.why_simulated else None
        return run_torchrun(hosts, script, *args, ranks_per_host=per_machine, port=port)

    def run_ranks(
        self, fn: Callable, *args: object, per_machine: int = 2, seconds: float = 60
    ) -> list:
        """Results of `fn(*args)` in rank order: `per_machine` ranks on each machine."""
        self._open_again_if_closed()
        if self.why_simulated:
            from sidebyside import run_ranks

            with tempfile.TemporaryDirectory() as folder:
                work = fn, args, self.rate, per_machine, folder
                return run_ranks(
                    _call_on_machine, *work,
                    world_size=2 * per_machine, timeout=seconds,
                )  # fmt: skip
        return self._call_on_hosts(fn, args, per_machine, seconds)

    def _call_on_hosts(self, fn, args, per_machine: int, seconds: float) -> list:
        from sidebyside.ranks.by_value import packed

        if not self.servers:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            apart = {"start_new_session": True}  # Ctrl-C is for this process alone
            command = sys.executable, "-c", SERVE
            self.servers = [
                host.start(*command, **pipes, **apart) for host in self.hosts
            ]
        self.calls += 1
        meeting = self.hosts[0].address, 20_000 + self.calls, seconds
        work, answers = packed((fn, args)), []
        try:
            for node, server in enumerate(self.servers):
                job = work, node * per_machine, per_machine, 2 * per_machine, *meeting
                send_frame(server.stdin, pickle.dumps(job))
            for server in self.servers:
                answers += pickle.loads(receive_frame(server.stdout))
        except BaseException:
            self.close()  # half a conversation cannot be taken up again
            raise
        return _results_of(answers)


def _results_of(answers: Sequence[tuple[bool, Any, str]]) -> list:
    for rank, (_, _, printed) in enumerate(answers):
        for line in printed.splitlines():
            print(f"rank {rank}: {line}")
    failed = [rank for rank, (succeeded, _, _) in enumerate(answers) if not succeeded]
    if failed:
        told = [r for r in failed if "Error" in answers[r][1]] or failed
        lost = {r: re.search("Connection|Broken pipe", answers[r][1]) for r in told}
        first = min(told, key=lambda r: bool(lost[r]))
        raise RankOnHostFailed(f"rank {first}: {answers[first][1]}")
    return [pickle.loads(result) for _, result, _ in answers]


def _call_on_machine(
    fn: Callable, args: tuple, rate: float, per_machine: int, folder: str
) -> object:
    """Runs in each rank: what torchrun would set, and the link, simulated."""
    from parallel_by_hand.machines.link_inside import link_inside

    rank = int(os.environ["RANK"])
    names = {"LOCAL_RANK": rank % per_machine, "GROUP_RANK": rank // per_machine}
    names |= {"LOCAL_WORLD_SIZE": per_machine}
    os.environ |= {name: str(value) for name, value in names.items()}
    with link_inside(rate, per_machine, folder):
        return fn(*args)


def free_port_for_machines() -> int:
    """None of those that the system gives away to anybody's connections."""
    while True:
        port = 10_000 + secrets.randbelow(10_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
