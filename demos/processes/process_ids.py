"""Show a family of processes: their ids, their parents, their groups.

Run:      python demos/processes/process_ids.py
Look for: the parent column leads from each process to the one that started it. A child
          belongs to its parent's group, unless it opens a group of its own as child 2
          does. A signal to that group ends child 2 and its child, and nobody else.
          Ctrl-C in a terminal is a signal to a group, too.
Try:      --hold 30, and find the family in the system monitor: `ps f`, or htop with F5
          (Linux); Activity Monitor, View, All Processes, Hierarchically (macOS); Task
          Manager, Details (Windows). There, too, each is a line that says python.
"""

import contextlib
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection

from sidebyside import run_program

spawn = multiprocessing.get_context("spawn")


def child(connection: Connection, leads_a_group: bool) -> None:
    """Say "ready", then wait until the parent closes the connection or ends."""
    if leads_a_group:
        if hasattr(os, "setpgid"):  # not on Windows
            os.setpgid(0, 0)
        ours = start_child(leads_a_group=False)[1]
    connection.send("ready")
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        connection.recv()
    if leads_a_group:
        ours.close()


def draw_family(rows: list[tuple[int, object]]):
    """A figure of the rows that `family` gives, with a line from each parent."""
    from sidebyside.timeline import figures

    fig, ax = figures.figure(height=0.5 * len(rows), alt="a tree of processes")
    for row, (depth, process) in enumerate(rows):
        name = f"{role(process)}, pid {process.pid}"
        box = {"boxstyle": "round", "facecolor": "white"}
        ax.text(depth, -row, name, va="center", bbox=box)
        if depth:
            up = max(other for other in range(row) if rows[other][0] == depth - 1)
            across = depth - 0.8
            ax.plot([across, across, depth], [-up, -row, -row], color=figures.GREY)
    ax.set(xlim=(-0.2, 5), ylim=(0.5 - len(rows), 0.5))
    ax.axis("off")
    return fig


def start_child(leads_a_group: bool) -> tuple[object, Connection]:
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=child, args=(theirs, leads_a_group))
    process.start()
    theirs.close()
    ours.recv()  # it is ready
    return process, ours


def family(process, up: int = 1) -> list[tuple[int, object]]:
    """(depth, process): `up` generations of parents, the process, its descendants."""
    line = [process]
    while len(line) <= up and (parent := line[0].parent()):
        line.insert(0, parent)
    rows = list(enumerate(line))

    def add_children(parent, depth: int) -> None:
        for process in sorted(parent.children(), key=lambda p: p.pid):
            rows.append((depth, process))
            add_children(process, depth + 1)

    add_children(process, len(line))
    return rows


def role(process) -> str:
    """The program's name, and what Python started it for, if it did."""
    words = " ".join(_command(process))
    roles = {
        "resource_tracker": "resource tracker",
        "forkserver": "fork server",
        "spawn_main": "spawned",
        "ipykernel": "notebook",
    }
    known = [text for part, text in roles.items() if part in words]
    return f"{process.name()} ({known[0]})" if known else process.name()


def _command(process) -> list[str]:
    import psutil

    try:
        return process.cmdline()
    except psutil.Error:  # somebody else's process
        return []


def print_family(process, names: dict[int, str]) -> None:
    print(f"{'':<44} {'process id':>10} {'parent':>8} {'group':>8}")
    for depth, p in family(process):
        name = "   " * depth + role(p)
        name += f", {names[p.pid]}" if p.pid in names else ""
        group = os.getpgid(p.pid) if hasattr(os, "getpgid") else "-"
        print(f"{name:<44} {p.pid:>10} {p.ppid():>8} {group:>8}")


def is_alive(process) -> bool:
    """Has it not ended? Nobody tells us of a grandchild's end: we wait a moment."""
    import psutil

    for _ in range(500):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:  # ended, and still listed
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.01)
    return True


def main() -> None:
    import psutil  # here: the children do not need it

    from sidebyside import at_least, program_parser

    parser = program_parser(__doc__)
    parser.add_argument(
        "--hold", type=at_least(0, 86_400), default=0, metavar="SECONDS",
        help="keep the family alive so long (default: 0)",
    )  # fmt: skip
    args = parser.parse_args()

    first, to_first = start_child(leads_a_group=False)
    second, to_second = start_child(leads_a_group=True)
    try:
        names = {os.getpid(): "this demo", first.pid: "child 1", second.pid: "child 2"}
        grandchild = psutil.Process(second.pid).children()[0]
        names[grandchild.pid] = "child of child 2"
        print_family(psutil.Process(), names)
        if args.hold:
            print(f"\nall wait for {args.hold} s: see your system monitor", flush=True)
            time.sleep(args.hold)
        if hasattr(os, "killpg"):
            print("\na signal to the group of child 2")
            os.killpg(second.pid, signal.SIGTERM)
            second.join()
            for name, process in ("child 1", first), ("child 2", second):
                print(f"{name} is alive: {process.is_alive()}")
            print(f"the child of child 2 is alive: {is_alive(grandchild)}")
    finally:
        to_first.close()
        to_second.close()


if __name__ == "__main__":
    run_program(main)
