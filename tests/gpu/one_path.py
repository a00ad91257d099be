"""Run one path and print its row: device, result and figure, with tabs between them.

`every_gpu_path.py` starts this once for each path, in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import torch

from sidebyside.demos import DEMOS, demo_names
from sidebyside.lesson_format import lessons
from tests.gpu import device_paths, rank_paths
from tests.gpu.plain_lesson import run_lesson_plainly

ASKS_FOR_DEVICES = ("device()", "torch.cuda", "run_ranks")
Result = tuple[str, str]  # "equal" or "ran", and a figure


def functions() -> dict:
    """The paths that have a function of their own; the first line says which it is."""
    found = [*device_paths.PATHS, *rank_paths.PATHS]
    return {path.__doc__.partition("\n")[0].rstrip("."): path for path in found}


def demos_that_differ() -> list[str]:
    """Those that ask for the device themselves, or whose room of the library does."""
    return [name for name in demo_names() if _differs(DEMOS / name)]


def _differs(demo: Path) -> bool:
    room = DEMOS.parent / "resources/parallel_by_hand" / demo.parent.name
    read = [path.read_text("utf-8") for path in (demo, *room.glob("*.py"))]
    return any(word in text for text in read for word in ASKS_FOR_DEVICES)


def lessons_that_differ() -> list[str]:
    return [
        lesson.number
        for lesson in lessons()
        if any(w in cell.source for cell in lesson.code_cells for w in ASKS_FOR_DEVICES)
    ]


def names() -> list[str]:
    return [
        *functions(),
        *(f"demo {name}" for name in demos_that_differ()),
        *(f"lesson {number}" for number in lessons_that_differ()),
    ]


def run_demo_plainly(name: str) -> Result:
    """As from a terminal; a script of one's own under torchrun, one rank a GPU."""
    command = [sys.executable, str(DEMOS / name)]
    if "/own_" in name:
        ranks = str(max(1, min(2, torch.cuda.device_count())))
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        command[1:1] = [*launcher, "--nproc-per-node", ranks]
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return "ran", last[:80]


def run_path(name: str) -> tuple[str, str, str]:
    kind, _, which = name.partition(" ")
    gpus = torch.cuda.device_count()
    places = f"{gpus} GPU" + "s" * (gpus > 1)
    if kind == "demo":
        return places, *run_demo_plainly(which)
    if kind == "lesson":
        return places, *run_lesson_plainly(which)
    return functions()[name]()


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names()))
        return
    row = run_path(sys.argv[1])
    print("\n" + "\t".join(" ".join(str(field).split()) for field in row))


if __name__ == "__main__":
    main()
