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
        os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


def say_what_stands_in_the_way() -> None:
    """In a notebook: a sentence on each thing that would change what lessons show."""
    if os.environ.pop(name := "TORCH_DISTRIBUTED_DEBUG", "OFF") != "OFF":
        print(f"{name} is set aside: use it in cells, by os.environ.", file=sys.stderr)
    libraries = sys.path[sys.path.index("") + 1 :] if "" in sys.path else []
    for file in sorted(Path().glob("*.py")):
        if PathFinder.find_spec(file.stem, libraries):
            print(
                f"{file}, beside this notebook, hides the library's module of that "
                "name: give it another one.",
                file=sys.stderr,
            )
