"""torchrun on each host: what a person would type in one terminal on every machine."""

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from parallel_by_hand.machines.hosts import processes_on_host

PORT = 29500  # on the first host, in a network that nobody else has


class TorchrunFailed(RuntimeError):
    """One of the torchruns ended with an error, or did not end in time."""


def torchrun_command(
    hosts: Sequence[Any],
    node: int,
    script: object,
    *args: object,
    ranks_per_host: int = 1,
    options: Sequence[str] = (),
    port: int | None = None,
) -> list[str]:
    """The words of `torchrun ...` for host number `node`; `options` are its own."""
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--nnodes", str(len(hosts)), "--node-rank", str(node)]
    command += ["--nproc-per-node", str(ranks_per_host)]
    command += ["--master-addr", hosts[0].address, "--master-port", str(port or PORT)]
    return [*command, *options, str(script), *map(str, args)]


def _start_torchrun(
    hosts: Sequence[Any], script: object, *args: object, **how
) -> list[subprocess.Popen]:
    """Start torchrun on every host; the Popens' `stdout` is all that it prints."""
    return [
        host.start(
            *torchrun_command(hosts, node, script, *args, **how),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for node, host in enumerate(hosts)
    ]  # fmt: skip


def run_torchrun(
    hosts: Sequence[Any], script: object, *args: object, seconds: float = 120, **how
) -> list[str]:
    """What the torchrun of each host has printed; TorchrunFailed if one failed."""
    programs = _start_torchrun(hosts, script, *args, **how)
    deadline, said = time.monotonic() + seconds, []
    for host, program in zip(hosts, programs, strict=True):
        try:
            left = max(0.1, deadline - time.monotonic())
            said.append(program.communicate(timeout=left)[0])
        except subprocess.TimeoutExpired:
            for late in programs:
                for process in processes_on_host(late):
                    process.kill()
                late.kill()
            raise TorchrunFailed(
                f"{host.name} has not ended after {seconds:g} s"
            ) from None
    for host, program, text in zip(hosts, programs, said, strict=True):
        if program.returncode:
            raise TorchrunFailed(f"{host.name} ended with an error:\n{text[-4000:]}")
    return said
