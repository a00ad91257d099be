"""Run one path and print its row: device, result and figure, with tabs between them.

`every_gpu_path.py` starts this once for each path, in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

import torch

from sidebyside.course.lesson_format import lessons
from sidebyside.programs.run_demo import DEMOS, demo_names
from tests.gpu import device_paths as device
from tests.gpu import rank_paths as rank
from tests.gpu.plain_lesson import run_lesson_plainly
from tests.process_state import TORCHRUN

ASKS_FOR_DEVICES = ("device()", "torch.cuda", "run_ranks")
MOST_TELLING_FIRST = (
    *(device.device_chosen, rank.backend_chosen, device.timing_synchronises),
    *(device.roofline_of_gpu, device.products_away, device.streams_overlap),
    *(rank.ranks_share_gpu, rank.own_ddp, rank.torch_ddp, rank.sharded_training),
    *(
        rank.tensor_parallel,
        rank.context_parallel_of_torch,
        device.peak_memory,
        rank.ways_to_all_reduce,
    ),
    *(rank.pipeline_1f1b, rank.pipeline_gpipe, rank.cut_network),
    *(rank.pipeline_with_too_few_gpus, device.one_process_two_devices),
    *(device.replicas_in_threads, device.graph_on_devices),
)
LESSONS_FIRST = (
    "13a",
    "11a",
    "17a",
    "16a",
    "15a",
    "14a",
    "10b",
    "09",
    "20a",
    "11b",
    "17b",
)
Result = tuple[str, str]  # "equal" or "ran", and a figure


def functions() -> dict:
    """The paths that have a function of their own; the first line says which it is."""
    return {path.__doc__.partition("\n")[0]: path for path in MOST_TELLING_FIRST}


def demos_that_differ() -> list[str]:
    """Those that ask for the device themselves; then those whose room of it does."""
    asking = [name for name in demo_names() if _asks(DEMOS / name)]
    others = [name for name in demo_names() if name not in asking]
    library = DEMOS.parent / "resources/parallel_by_hand"
    rooms = {path.parent.name for path in library.glob("*/*.py") if _asks(path)}
    return asking + [name for name in others if name.split("/")[0] in rooms]


def _asks(file: Path) -> bool:
    return any(word in file.read_text("utf-8") for word in ASKS_FOR_DEVICES)


def lessons_that_differ() -> list[str]:
    differ = [
        lesson.number
        for lesson in lessons()
        if any(w in cell.source for cell in lesson.code_cells for w in ASKS_FOR_DEVICES)
    ]
    first = [number for number in LESSONS_FIRST if number in differ]
    return first + [number for number in differ if number not in first]


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
        command[1:1] = [*TORCHRUN, "--standalone", "--nproc-per-node", ranks]
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        print(done.stdout[-500:], done.stderr[-3000:], file=sys.stderr)
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
    try:
        row = run_path(sys.argv[1])
    except RuntimeError as error:
        if "gloo does not support alltoall" not in str(error):
            raise
        row = "cpu", "says why not", f"torch {torch.__version__} is too old: {error}"
    print("\n" + "\t".join(" ".join(str(field).split()) for field in row))


if __name__ == "__main__":
    main()
