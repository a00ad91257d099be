"""Run every path of lessons and demos that differs on a GPU, and print a table.

Run:      python tests/gpu/every_gpu_path.py
          It needs torch (2.11 or later), NumPy, psutil, cloudpickle and matplotlib, for
          all lessons SciPy and joblib too, and no JupyterLab. It ends within eight
          minutes, and with status 1 if a path failed or there was no time for it. The
          most telling paths come first.
Look for: the column "result". "equal" means: equal to the CPU's result to within
          rounding, or to that of what the name has behind "beside". "ran": it ended
          well. Please send us the table, `resources/gpu_paths.txt`, whatever it says.
Try:      --only 15 runs what has "15" in its name, and leaves the stored table alone.
"""

import argparse
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "resources" / "gpu_paths.txt"
NOTHING = "no GPU: nothing run"
COUNT_GPUS = (
    "import torch; print('torch', torch.__version__); n = torch.cuda.device_count(); "
    "[print(torch.cuda.get_device_name(k)) for k in range(n)]"
)
GOOD = {"equal", "ran", "says why not"}


class Row(NamedTuple):
    path: str
    device: str
    result: str
    figure: str


def environment(scratch: str) -> dict[str, str]:
    """The course is found though it is not installed."""
    folders = [str(ROOT), str(ROOT / "resources")]
    folders += filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(folders),
        "SIDEBYSIDE_PROGRESS": os.path.join(scratch, "progress.json"),
        "MPLBACKEND": "agg",
    }


def found_gpus(env: dict[str, str]) -> tuple[str, list[str]]:
    """The version of torch, and the names of the GPUs."""
    command = [sys.executable, "-c", COUNT_GPUS]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"torch cannot be asked for GPUs:\n{done.stderr}")
    version, *names = done.stdout.splitlines()
    return version, names


def run_one(name: str, env: dict[str, str], seconds: float) -> Row:
    """The row of one path, which runs in a process of its own and may fail or hang."""
    if seconds <= 0:
        return Row(name, "", "NO TIME", "the minutes were over")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.gpu.one_path", name],
        env=env, cwd=ROOT, text=True, start_new_session=os.name != "nt",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Row(name, "", "HUNG", f"no result after {seconds:.0f} s")
    finally:
        end_with_children(process)
    fields = printed.strip().rpartition("\n")[2].split("\t")
    if process.returncode or len(fields) != 3:
        lines = [line for line in complaint.splitlines() if line.strip(" =-")]
        lines = lines or [f"status {process.returncode}"]
        print(name, *lines[-40:], sep="\n    ", file=sys.stderr, flush=True)
        return Row(name, "", "FAILED", lines[-1][:300])
    return Row(name, *fields)


def end_with_children(process: subprocess.Popen) -> None:
    """Stop it, if it still runs, and whatever it has started."""
    if process.poll() is not None:
        return
    if os.name == "nt":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def names_of_paths(env: dict[str, str]) -> list[str]:
    command = [sys.executable, "-m", "tests.gpu.one_path", "--list"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the paths cannot be listed:\n{done.stderr}")
    return done.stdout.splitlines()


def run_all(names: list[str], env: dict[str, str], args) -> list[Row]:
    """Those that are timed one by one, then the others, several at a time."""
    end = monotonic() + 60 * args.minutes

    def run_and_print(name: str) -> Row:
        row = run_one(name, env, min(args.seconds, end - monotonic()))
        print(in_columns(row), flush=True)
        return row

    timed = [name for name in names if name.startswith("13a:")]
    rows = [run_and_print(name) for name in timed]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        others = [name for name in names if name not in timed]
        return rows + list(pool.map(run_and_print, others))


def in_columns(row: Row) -> str:
    return f"{row.path:<44} {row.device:<8} {row.result:<13} {row.figure}".rstrip()


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--only",
        nargs="+",
        default=[""],
        metavar="TEXT",
        help="only with it in the name",
    )
    add("--minutes", type=float, default=8, help="for all; default: 8")
    add("--seconds", type=float, default=100, help="for one path; default: 100")
    add("--to", type=Path, help="the table's file; default: resources/gpu_paths.txt")
    args = parser.parse_args()
    args.to = args.to or (None if any(args.only) else TABLE)
    return args


def main() -> int:
    args = parsed_arguments()
    with TemporaryDirectory() as scratch:
        return run_on_gpus(args, environment(scratch))


def run_on_gpus(args: argparse.Namespace, env: dict[str, str]) -> int:
    """The status: 0 if nothing failed, 2 if there is no such path."""
    version, gpus = found_gpus(env)
    if not gpus:
        print(NOTHING)
        return 0
    names = names_of_paths(env)
    names = [name for only in args.only for name in names if only in name]
    if not names:
        print(f"no path has {args.only!r} in its name", file=sys.stderr)
        return 2
    head = f"{version}, Python {sys.version.split()[0]}, GPUs: {', '.join(gpus)}"
    print(head, in_columns(Row("path", "device", "result", "figure")), sep="\n")
    rows = run_all(names, env, args)
    bad = [row for row in rows if row.result not in GOOD]
    tail = f"{len(rows)} paths, {len(bad)} of them failed or not run"
    print(tail)
    if args.to:
        table = "\n".join([head, *map(in_columns, rows), tail, ""])
        args.to.write_text(table, "utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
