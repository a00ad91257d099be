"""A small Slurm of its own for the tests: one controller, two nodes, on this machine.

It has its own ports, its own key, and a folder that holds everything else, so that it
meets no Slurm that the machine may have. Its daemons, and all that its jobs start, live
in a process namespace: when the program that started it ends, even killed, the system
ends them all. It needs no root. Tried with Debian 12's Slurm 22.05.

`python -m tests.small_slurm` opens a shell in which sbatch and the like speak to it.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

from parallel_by_hand.machines.two_machines import free_port_for_machines

PACKAGES = "slurmd slurmctld slurm-client munge"
PROGRAMS = "munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "unshare"
PATIENCE = 200  # seconds
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
NAMESPACE = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
if sys.platform == "linux" and os.getuid():
    NAMESPACE += ["--user", "--map-current-user"]

# `main` yields to `urgent`: its job is warned, and goes back into the queue. The
# scheduler looks every second, so that tests are quick.
CONFIGURATION = """
ClusterName=small
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
FirstJobId={first_job}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES PriorityTier=1 GraceTime=600
PartitionName=urgent Nodes=n1,n2 PriorityTier=2 PreemptMode=OFF
"""
# They end with the shell, the first process of the namespace, and it ends when nobody
# holds the other end of its standard input any more.
DAEMONS = """
munged --foreground --force --key-file=munge.key --socket="$PWD/munge.sock" \
    --pid-file="$PWD/munged.pid" --log-file="$PWD/munged.log" \
    --seed-file="$PWD/munged.seed" &
slurmctld -D &
slurmd -D -N n1 &
slurmd -D -N n2 &
read _
"""


def why_no_small_slurm() -> str:
    """Why it cannot be started here, or nothing."""
    if sys.platform != "linux":
        return "Slurm's daemons are tried on Linux only"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if missing:
        return f"no {', '.join(missing)}; on Debian: apt-get install {PACKAGES}"
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        return "this system forbids the process namespace that a small Slurm lives in"
    return ""


class SmallSlurm:
    """Runs Slurm's commands; in `folder` is all that it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = {key: value for key, value in os.environ.items() if not of_slurm(key)}
        self.environment = own | {
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "TMPDIR": str(folder),  # torchrun leaves a folder there
        }

    def run(self, *command: object, **environment: object) -> str:
        """What the command prints. More environment is handed to a job, too."""
        more = {name: str(value) for name, value in environment.items()}
        done = subprocess.run(
            [str(part) for part in command],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def job(self, number: str) -> dict[str, str]:
        """What the controller says of a job, such as its JobState."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_until(self, condition: Callable[[], object], every: float = 0.1) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                said = [path.read_text() for path in self.folder.glob("*.out")]
                raise RuntimeError("\n".join(["Slurm is not ready:", *said]))
            time.sleep(every)


def of_slurm(name: str) -> bool:
    """A variable of another Slurm, in whose job the tests may run."""
    return name.startswith(("SLURM", "SBATCH", "SRUN", "SQUEUE", "SINFO", "SCANCEL"))


@contextmanager
def small_slurm() -> Iterator[SmallSlurm]:
    """A Slurm with two idle nodes, n1 and n2. Afterwards nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        slurm = SmallSlurm(Path(name))
        configure_small_slurm(slurm.folder)
        with (slurm.folder / "daemons.out").open("w") as said:
            namespace = subprocess.Popen(
                [*NAMESPACE, "sh", "-c", DAEMONS],
                cwd=slurm.folder,
                env=slurm.environment,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
            )
        try:
            slurm.wait_until(lambda: idle_nodes(slurm) == "2")
            yield slurm
        finally:
            namespace.stdin.close()
            namespace.wait()  # until every process in it has ended


def idle_nodes(slurm: SmallSlurm) -> str:
    try:
        return slurm.run("sinfo", "--noheader", "--states=idle", "--format=%D")
    except RuntimeError:  # the controller does not answer yet
        return ""


def configure_small_slurm(folder: Path) -> None:
    """A key that only we can read, a folder for the state, and slurm.conf."""
    (folder / "state").mkdir()
    key = os.open(folder / "munge.key", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(key, secrets.token_bytes(128))
    os.close(key)
    ports = set()
    while len(ports) < 3:
        ports.add(free_port_for_machines())
    configuration = CONFIGURATION.format(
        folder=folder,
        host=socket.gethostname().partition(".")[0],
        user=getuser(),
        ports=sorted(ports),
        # jobs meet at a port by their number: another small Slurm may run beside this
        first_job=1 + secrets.randbelow(9000),
    )
    (folder / "slurm.conf").write_text(configuration)


def main() -> None:
    if why := why_no_small_slurm():
        sys.exit(why)
    with small_slurm() as slurm:
        print("Two idle nodes, n1 and n2, until you leave this shell.", flush=True)
        # both nodes are this machine: gloo's messages stay on it
        own = slurm.environment | {"GLOO_SOCKET_IFNAME": "lo"}
        subprocess.run([os.environ.get("SHELL", "sh")], env=own)


if __name__ == "__main__":
    main()
