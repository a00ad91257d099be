"""Two hosts train under torchrun, and one is lost, or the link between them.

Each host runs torchrun with `--nnodes 1:2`: one host is enough, two are better.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Thread

import psutil
import torch.distributed as dist

from parallel_by_hand.failures.failing_ranks import gist_of_error
from parallel_by_hand.failures.resumed_digits import Run, train_through_accidents
from parallel_by_hand.machines.hosts import Host, processes_on_host, two_hosts
from sidebyside.ranks.meeting import keep_gloo_on_loopback

RENDEZVOUS = "join_timeout=60,last_call_timeout=1,keep_alive_interval=1"
RENDEZVOUS += ",keep_alive_max_attempt=3"  # a silent agent is given up after 3 s
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
PATIENCE = 90  # seconds for both torchruns; one of them may hang when a link is cut


def be_a_rank_of_torchrun(run: Run, limit: float) -> None:
    """Join, train, say when the group breaks; a collective waits `limit` seconds."""
    if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
        keep_gloo_on_loopback()
    # its agent may notice a failure first: time to say what this rank has noticed
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(2))
    dist.init_process_group("gloo", timeout=timedelta(seconds=limit))
    who = f"rank {dist.get_rank()} of {dist.get_world_size()}"
    print(f"{who} begins", flush=True)
    try:
        train_through_accidents(int(os.environ["TORCHELASTIC_RESTART_COUNT"]), run)
    except RuntimeError as error:
        print(f"{who}: {gist_of_error(error)}", flush=True)
        os._exit(1)
    print(f"{who} has trained {run.steps} steps", flush=True)
    dist.destroy_process_group()


def _both_train(run: Run) -> bool:
    """And there is a checkpoint. The first may have begun, and saved, alone."""
    there = run.checkpoint.exists() and run.log.exists()
    return there and any(life.ranks == 2 for life in run.lives)


def train_on_failing_hosts(
    program: str, failure: str, mend: float, run: Run, *args: object
) -> None:
    """Start, wait for the first checkpoint, let it happen, and print who says what."""
    with two_hosts() as hosts:
        clock = _Clock()
        meet = f"{hosts[0].address}:29600"
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2"]
        command += ["--nproc-per-node", 1, "--max-restarts", 3]
        command += ["--rdzv-backend", "c10d", "--rdzv-id", "digits"]
        command += ["--rdzv-endpoint", meet, "--rdzv-conf", RENDEZVOUS, program, *args]
        env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # see own_resumable
        programs = [host.start(*command, env=env, **PIPES) for host in hosts]
        readers = [
            Thread(target=clock.report, args=pair, daemon=True)
            for pair in zip(hosts, programs, strict=True)
        ]
        for reader in readers:
            reader.start()
        _wait_until(lambda: _both_train(run) or _all_ended(programs))
        clock.began = time.monotonic()
        if failure != "link":
            victim = 0 if failure == "rendezvous" else 1
            clock.say(hosts[victim].name, "killed: torchrun, and its rank with it")
            for process in processes_on_host(programs[victim]):
                with contextlib.suppress(psutil.NoSuchProcess):  # ended with another
                    process.kill()
        else:
            clock.say("the link", "cut")
            hosts[0].ip("link", "set", "eth0", "down")
            if mend:
                time.sleep(mend)
                hosts[0].ip("link", "set", "eth0", "up")
                clock.say("the link", "is back")
        _wait_until(lambda: _all_ended(programs))
        for host, popen in zip(hosts, programs, strict=True):
            if popen.poll() is None:
                clock.say(host.name, "torchrun still waits: we end it")


class _Clock:
    """Prints lines with the seconds since the accident."""

    began: float | None = None

    def say(self, who: str, what: str) -> None:
        when = "" if self.began is None else f"{time.monotonic() - self.began:.1f} s"
        print(f"{when:>7}  {who:<9} {what}", flush=True)

    def report(self, host: Host, program) -> None:
        for line in program.stdout:
            self.say(host.name, line.strip())
        self.say(host.name, f"torchrun has ended, status {program.wait()}")


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)


def _all_ended(programs: list) -> bool:
    return all(program.poll() is not None for program in programs)
