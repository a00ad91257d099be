"""What a shell or a folder may hold that would stand in the way of a lesson."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

LONGEST_FOLDER = 103 - len("/pymp-12345678/listener-12345678")  # a socket's name


def settle_environment() -> None:
    """Make do with a folder whose sockets could not be named, and with OMP_PROC_BIND.

    With that, the thread that imports torch stays on one core, and so would all ranks.
    """
    if os.name == "posix" and len(os.environ.get("TMPDIR", "")) > LONGEST_FOLDER:
        import tempfile

        os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"
    bound = [os.environ.pop(name, "") for name in ("OMP_PROC_BIND", "OMP_PLACES")]
    if any(bound) and "torch" in sys.modules and sys.platform == "linux":
        parent = os.getppid()  # 0: this is the first process of a container
        every = range(os.cpu_count() or 1)
        os.sched_setaffinity(0, os.sched_getaffinity(parent) if parent else every)


def say_what_stands_in_the_way() -> None:
    """In a notebook: a sentence on each thing that would change what lessons show.

    It comes after a cell: a kernel that is starting has no place to show it.
    """
    from IPython import get_ipython

    said = []
    for name in "TORCH_DISTRIBUTED_DEBUG", "GLOO_SOCKET_IFNAME":
        if os.environ.pop(name, None):
            said.append(f"{name} is set aside here: lessons assume that it is not set.")
    libraries = sys.path[sys.path.index("") + 1 :] if "" in sys.path else []
    for file in sorted(Path().glob("*.py")):
        if PathFinder.find_spec(file.stem, libraries):
            why = "hides the library's module of that name: rename it."
            said.append(f"{file}, beside this notebook, {why}")
    events = get_ipython().events

    def say(_) -> None:
        events.unregister("post_run_cell", say)
        print(*said, sep="\n")

    if said:
        events.register("post_run_cell", say)
