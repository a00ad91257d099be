"""Two hosts on one machine: a name, an address and a network each; and nothing stays.

Where the system makes no hosts, what can be tested is that it says why.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from parallel_by_hand.machines.hosts import (
    FORBIDDEN,
    HostsForbidden,
    two_hosts,
    why_no_hosts,
)
from parallel_by_hand.machines.torchrun_on_hosts import TorchrunFailed, run_torchrun
from tests.process_state import MARK, marked

pytestmark = pytest.mark.everything

needs_hosts = pytest.mark.skipif(bool(why_no_hosts()), reason=f"{why_no_hosts()}")
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as link:
    link.sendall(bytes(1_000_000))
"""
RECEIVE = """
import socket
with socket.create_server(("", 5000)) as server:
    print("listening", flush=True)
    link, address = server.accept()
    with link.makefile("rb") as file:
        print(address[0], len(file.read()))
"""
CONNECT = """
import socket, sys, time
began = time.monotonic()
with socket.create_connection((sys.argv[1], 5000)):
    print(time.monotonic() - began)
"""
LISTEN = """
import os, sys, tempfile
import psutil
from parallel_by_hand.decentralised import killed_peer
from parallel_by_hand.failures import failing_ranks, own_agent

def listen(*args):
    found = psutil.Process().net_connections("inet")
    print(*{place.laddr.ip for place in found if place.status == "LISTEN"}, flush=True)
    return []

def as_peer(folder):
    killed_peer.local_batches = listen
    killed_peer.peer_trains(0, 1, folder, None, 0, 0, False)

def as_survivor(folder):
    with failing_ranks.group_with_time_limit(0, 1, folder, 9):
        listen()

own_agent.end_with_parent = lambda: None  # this is no process of multiprocessing

def as_restarted(folder):
    own_agent.join_and_train(listen, 0, 1, folder, 0)

for join in as_peer, as_survivor, as_restarted:
    with tempfile.TemporaryDirectory() as folder:
        if os.fork() == 0:
            join(folder)
            os._exit(0)
        os.wait()
"""


def python(host, code, *args, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options
    return host.start(sys.executable, "-S", "-c", code, *args, text=True, **options)


def said_by(host, *command) -> str:
    program = host.start(*command, stdout=subprocess.PIPE, text=True)
    return program.communicate()[0].strip()


@needs_hosts
def test_ranks_that_the_library_starts_can_be_reached_from_their_machine_only():
    """The host's name leads to the address on its network, as usual on a cluster."""
    with two_hosts() as hosts:
        script = "env", "-u", "GLOO_SOCKET_IFNAME", sys.executable, "-c", LISTEN
        said = said_by(hosts[0], *script)
    assert said.split("\n") == ["127.0.0.1"] * 3


@needs_hosts
def test_a_link_that_is_cut_reaches_nobody_until_it_is_mended():
    with two_hosts() as (a, b):
        a.ip("link", "set", "eth0", "down")
        assert "unreachable" in python(a, SEND, "host-b").communicate()[0]
        a.ip("link", "set", "eth0", "up")
        server = python(b, RECEIVE)
        assert server.stdout.readline() == "listening\n"
        assert python(a, SEND, "host-b").communicate()[0] == ""
        with pytest.raises(OSError, match="Cannot find device"):
            a.ip("link", "set", "eth7", "down")


@needs_hosts
def test_with_latency_no_round_trip_is_shorter_than_twice_that():
    with two_hosts(500, latency=3) as (a, b):
        server = python(b, RECEIVE)
        assert server.stdout.readline() == "listening\n"
        assert float(python(a, CONNECT, "host-b").communicate()[0]) >= 2 * 0.003


# Nothing stays behind -----------------------------------------------------------------


def networks_and_mounts() -> tuple:
    """What this system has, as far as hosts could have added to it."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    ours = [line for line in mounts if "netns" in line or "/etc/hosts" in line]
    return sorted(psutil.net_if_addrs()), ours, os.path.exists("/run/netns/host-a")


@needs_hosts
def test_nothing_is_left_when_the_hosts_end(monkeypatch):
    monkeypatch.setenv(MARK, mark := uuid.uuid4().hex)
    before = networks_and_mounts()
    children = len(psutil.Process().children(recursive=True))
    with pytest.raises(ZeroDivisionError), two_hosts(latency=1) as (a, b):
        a.start("sh", "-c", "(setsid sleep 1000 &) ; touch $TMPDIR/file")
        b.start("sleep", "1000")
        assert 1 / 0
    assert marked(mark) == []
    assert networks_and_mounts() == before
    assert len(psutil.Process().children(recursive=True)) == children


@needs_hosts
def test_a_program_that_is_only_entering_its_host_says_nothing_of_the_end(capfd):
    for _ in range(5):
        with two_hosts() as (a, b):
            a.start("true")
            b.start("true")
    assert capfd.readouterr().err == ""


KILLED = """
from parallel_by_hand.machines.hosts import two_hosts
with two_hosts() as (a, b):
    a.start("setsid", "sleep", "1000")
    b.start("sh", "-c", "trap '' TERM INT HUP; echo up; sleep 1000").wait()
"""


@needs_hosts
def test_nothing_is_left_of_a_program_that_is_killed():
    mark = uuid.uuid4().hex
    before = networks_and_mounts()
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True,
        env=os.environ | {MARK: mark},
    )  # fmt: skip
    with program:
        assert program.stdout.readline() == "up\n"
        found = marked(mark)
        assert len(found) > 3
        program.kill()
    _, alive = psutil.wait_procs(found, timeout=60)
    assert not alive and not marked(mark)
    assert networks_and_mounts() == before


# Where it is forbidden ----------------------------------------------------------------


def test_a_person_may_forbid_it(monkeypatch):
    monkeypatch.setenv(FORBIDDEN, "1")
    why_no_hosts.cache_clear()
    forbidden = pytest.raises(HostsForbidden, match=f"{FORBIDDEN} forbids it")
    with forbidden, two_hosts():
        pass
    why_no_hosts.cache_clear()


# torchrun -----------------------------------------------------------------------------


@needs_hosts
def test_a_failure_under_torchrun_is_told(tmp_path):
    (tmp_path / "fails.py").write_text("raise SystemExit('no such luck')")
    failed = pytest.raises(TorchrunFailed, match="no such luck")
    with two_hosts() as hosts, failed:
        run_torchrun(hosts, tmp_path / "fails.py")
