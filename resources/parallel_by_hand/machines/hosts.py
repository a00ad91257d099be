"""Two hosts on one Linux machine, without root: each has a name, an address, a network.

    with two_hosts(rate=200) as (a, b):  # joined by a link of 200 Mbit/s
        a.start("hostname").wait()

A *namespace* is the kernel's way to show a process a network, a host name or a list of
processes of its own; containers are made of them. All that is started here lives in
one private list of processes, whose first process waits for the end of our pipe. When
the pipe closes, in whatever way this program ends, the kernel kills that process, all
others of the list, and with them their networks: nothing has to be tidied up.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache

import psutil

NAMES = "host-a", "host-b"
ADDRESSES = "10.200.1.1", "10.200.1.2"
RATE = 200  # Mbit/s, if nobody asks for another
FORBIDDEN = "SIDEBYSIDE_NO_HOSTS"  # set to anything, it says: go on without hosts
PROGRAMS = "unshare", "nsenter", "mount", "ip", "tc"
SYSTEM = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PRIVATE = "--user --map-root-user --net --mount --pid --fork --kill-child --mount-proc"

# What the first process of the private list does. `ip netns add` makes a network;
# each gets one end of a cable, and `tc` slows down what leaves through it.
MAKE_HOSTS = """
mount -t tmpfs none /run && mkdir /run/netns /run/tmp &&
printf '127.0.0.1 localhost\\n10.200.1.1 host-a\\n10.200.1.2 host-b\\n' > /run/hosts &&
printf '::ffff:10.200.1.1 host-a\\n::ffff:10.200.1.2 host-b\\n' >> /run/hosts &&
mount --bind /run/hosts /etc/hosts && ip netns add host-a && ip netns add host-b &&
ip -n host-a link set lo up && ip -n host-b link set lo up || exit 1
if [ "$2" = 0 ]; then
  ip link add eth0 netns host-a type veth peer name eth0 netns host-b &&
  ip -n host-a address add 10.200.1.1/24 dev eth0 &&
  ip -n host-b address add 10.200.1.2/24 dev eth0 || exit 1
  for host in host-a host-b; do
    ip -n $host link set eth0 up || exit 1
    tc -n $host qdisc add dev eth0 root tbf rate $1mbit burst 64kbit latency 400ms ||
    exit 1
  done
fi
echo ready
read until_the_pipe_is_closed
"""


class HostsForbidden(RuntimeError):
    """This system makes no hosts; the message says why, in one sentence."""


class Host:
    """One of the hosts: `name`, `address`, and `start` to run a program on it."""

    def __init__(self, name: str, address: str, keeper: int, environment: dict):
        self.name, self.address, self.environment = name, address, environment
        enter = f"nsenter --target {keeper} --user --preserve-credentials --mount --pid"
        self.enter = [*enter.split(), *f"nsenter --net=/run/netns/{name}".split()]
        self.programs: list[subprocess.Popen] = []

    def start(self, *command: object, **options) -> subprocess.Popen:
        """Start a program here; `options` are those of `subprocess.Popen`.

        The process that it returns ends with the program, and with its exit status.
        `env` adds to the environment. To kill the program, kill what
        `processes_on_host(popen)` returns: the Popen itself only stands at the door.
        """
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"']
        words = [*self.enter, *named, "sh", *map(str, command)]
        environment = self.environment | options.pop("env", {})
        options.setdefault("stdin", subprocess.DEVNULL)
        program = subprocess.Popen(words, env=environment, **options)
        self.programs.append(program)
        return program

    def ip(self, *words: object) -> str:
        """What `ip ...` says on this host, such as `ip("link", "set", "eth0", "down")`,
        which cuts the link; with "up" it is mended."""
        command = [*self.enter, "ip", *map(str, words)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout


def processes_on_host(program: subprocess.Popen) -> list[psutil.Process]:
    """What runs on a host behind a Popen of `Host.start`, the program first."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(program.pid).children(recursive=True)
    return []


@contextlib.contextmanager
def two_hosts(rate: float = RATE, latency: float = 0) -> Iterator[list[Host]]:
    """host-a and host-b, joined by a link of `rate` Mbit/s in each direction.

    `latency` is in ms, one way. With one, a program of ours is the link (forwarder.py);
    it carries at most about 600 Mbit/s. Each host has its address on `eth0`, finds the
    other by name, and has nothing else: no way to the internet, none back to us, but
    the same files. Raises HostsForbidden where the system does not allow it.
    """
    if problem := _why_not_even_tried():
        raise HostsForbidden(problem)
    command = ["unshare", *PRIVATE.split(), "sh", "-c", MAKE_HOSTS, "sh"]
    command += [f"{rate:.6f}", f"{latency:g}"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    keeper = subprocess.Popen(
        command, **pipes, text=True, env=_environment(), start_new_session=True
    )
    hosts: list[Host] = []
    try:
        if keeper.stdout.readline() != "ready\n":
            said = keeper.stderr.read().strip().splitlines() or ["nothing was said"]
            raise HostsForbidden(f"this system does not allow it: {said[-1]}")
        first = psutil.Process(keeper.pid).children()[0].pid
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            hosts.append(Host(name, address, first, _environment()))
        if latency:
            _lay_forwarder(hosts[0], rate, latency)
        yield hosts
    finally:
        _end_hosts(keeper, hosts)


def _end_hosts(keeper: subprocess.Popen, hosts: list[Host]) -> None:
    """Close the pipe: the kernel does the rest, and we wait for it.

    First each program enters its host: at a host that is gone it would complain. It
    may be in no list yet, since Ctrl-C can come while a Popen is made.
    """
    for child in psutil.Process().children() if hosts else ():
        with contextlib.suppress(psutil.Error):  # it has ended
            while child.cmdline()[:3] == hosts[0].enter[:3] and not child.children():
                time.sleep(0.001)
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(10)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    for program in [program for host in hosts for program in host.programs]:
        program.wait()  # what it was has been killed
        for pipe in (program.stdin, program.stdout, program.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
    for pipe in (keeper.stdout, keeper.stderr):
        pipe.close()


def _lay_forwarder(host: Host, rate: float, latency: float) -> None:
    code = (
        "import sys; from parallel_by_hand.machines.forwarder import forward_packets; "
    )
    code += "forward_packets(*map(float, sys.argv[1:]))"
    outside = host.enter[: host.enter.index("nsenter", 1)]
    program = subprocess.Popen(
        [*outside, sys.executable, "-c", code, f"{rate:g}", f"{latency:g}"],
        env=host.environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    host.programs.append(program)
    if program.stdout.readline() != "ready\n":
        said = program.stderr.read().strip().splitlines() or ["nothing was said"]
        raise HostsForbidden(f"this system allows no latency on a link: {said[-1]}")


def _environment() -> dict[str, str]:
    """For all that runs on a host, without GPUs: NCCL lets no two ranks share one. What
    torchrun writes into the folder for temporary files disappears with the host."""
    one_thread = {"OMP_NUM_THREADS": "1", "TMPDIR": "/run/tmp", "LC_ALL": "C.UTF-8"}
    network = {"GLOO_SOCKET_IFNAME": "eth0", "CUDA_VISIBLE_DEVICES": ""}
    return os.environ | one_thread | network | {"PATH": SYSTEM}


def _why_not_even_tried() -> str | None:
    if os.environ.get(FORBIDDEN):
        return f"the environment variable {FORBIDDEN} forbids it"
    if sys.platform != "linux":
        return "only Linux has network namespaces"
    for name in PROGRAMS:
        if not shutil.which(name, path=SYSTEM):
            package = "iproute2" if name in ("ip", "tc") else "util-linux"
            return f"the program {name} is missing (package {package})"
    return None


@cache
def why_no_hosts() -> str | None:
    """One sentence that says why this system makes no hosts, or None if it does."""
    try:
        with two_hosts():
            return None
    except HostsForbidden as problem:
        return str(problem)
