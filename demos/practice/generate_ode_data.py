"""Make training data by solving differential equations, in parallel, without loss.

Run:      python demos/practice/generate_ode_data.py --out oscillators.npz
Look for: each task's rows are saved as soon as they are there. Press Ctrl-C and run the
          same command again: it goes on where it stopped, and the file becomes the
          same to the last bit. The file appears when it is complete, never half. A
          part that was spoiled on the disk is done again. Without --out nothing is
          saved.
Try:      --out oscillators.npz --kill-at 37. The worker that has task 37 is killed, as
          if memory had run out. Then run it again without --kill-at.
          --workers 1, and compare the checksum.
          Reading it: numpy.load("oscillators.npz")["rows"]
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from parallel_by_hand.practice.oscillator import (
    COLUMNS,
    OscillatorTask,
    oscillator_tasks,
    simulate_oscillator,
)
from sidebyside import at_least, machine, program_parser
from sidebyside.course.single_use import hold_for_single_use
from sidebyside.programs.arguments import output_file
from sidebyside.programs.run_program import end_with_parent, run_program


def generate_or_die(task: OscillatorTask, kill_at: int | None) -> np.ndarray:
    """Runs in a worker."""
    if task.number == kill_at:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return simulate_oscillator(task)


def write_whole_data(path: Path, write) -> None:
    """Write beside the place, then rename: a reader sees all of the file or none.

    Its bytes are on the disk before its name is: so it is, even if the power fails.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # a link there would be written through
    try:
        with open(beside, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


class DataParts:
    """The finished tasks of a run: a file each, in a folder beside the final file.

    A part begins with a checksum of its rows, its number and the settings: a part that
    is spoiled, or comes from elsewhere, is not believed, and its task is done again.
    """

    def __init__(self, out: Path, settings: dict):
        self.out, self.settings = out, settings
        self.folder = out.with_name(out.name + ".parts")

    def conflict(self) -> str | None:
        """Why this run cannot be written, or resumed, here."""
        if self.out.exists():
            return f"{self.out} exists: choose another name, or remove it"
        if problem := hold_for_single_use(self.out):
            return problem
        if not self.folder.exists():
            return None
        try:
            names = {path.name for path in self.folder.iterdir()}
            if not names:  # killed before it had done anything
                return None
            earlier = json.loads((self.folder / "settings.json").read_text())
            known = " ".join(f"--{name} {value}" for name, value in earlier.items())
        except (OSError, ValueError, AttributeError, RecursionError):
            return f"{self.folder} is not the folder of an earlier run: remove it"
        if earlier != self.settings:
            return f"{self.folder} is of a run with {known}: resume it or remove it"
        for name in sorted(names):
            ours = re.fullmatch(r"\d{6}\.part|settings\.json|\..*\.\d+", name)
            if not (ours and (self.folder / name).is_file()):
                return f"{self.folder / name} is not of this program: move it away"
        return None

    def open(self) -> dict[int, np.ndarray]:
        """What an earlier run has left, by task; what is spoiled is left out."""
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / "settings.json").exists():
            settings = json.dumps(self.settings).encode()
            write_whole_data(self.folder / "settings.json", lambda f: f.write(settings))
        found = {}
        for path in sorted(self.folder.glob("*.part")):
            number, content = int(path.stem), path.read_bytes()
            data = content[32:]
            if content[:32] == self.checksum(number, data):
                found[number] = np.frombuffer(data).reshape(-1, len(COLUMNS))
        return found

    def checksum(self, number: int, data: bytes) -> bytes:
        """32 bytes that a changed bit, another task or another seed would change."""
        return hashlib.sha256(f"{self.settings} {number} ".encode() + data).digest()

    def add(self, number: int, rows: np.ndarray) -> None:
        data = rows.tobytes()
        content = self.checksum(number, data) + data
        path = self.folder / f"{number:06}.part"
        write_whole_data(path, lambda file: file.write(content))

    def close(self, rows: np.ndarray) -> None:
        """All are there: write the final file, remove the parts."""
        write_whole_data(self.out, lambda f: np.savez(f, rows=rows, columns=COLUMNS))
        shutil.rmtree(self.folder)


def generate_missing_data(
    missing: list[OscillatorTask], workers: int, kill_at: int | None, keep
) -> None:
    """Map: call `keep(number, rows)` for each missing task, as soon as it is done."""
    # "spawn" is the one start method that Linux, macOS and Windows have in common.
    with ProcessPoolExecutor(
        min(workers, len(missing)), get_context("spawn"), end_with_parent
    ) as pool:
        futures = {
            pool.submit(generate_or_die, task, kill_at): task.number for task in missing
        }
        try:
            for future in as_completed(futures):
                keep(futures[future], future.result())
        finally:  # waits: the end of `with` would take the cancelling back
            pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = program_parser(__doc__)
    cores = machine().usable_cores
    parser.add_argument("--tasks", type=at_least(1, 100_000), default=48)
    parser.add_argument("--seed", type=at_least(0), default=7)
    parser.add_argument("--workers", type=at_least(1, 64), default=cores)
    parser.add_argument("--out", type=output_file, help="a file to write, .npz")
    parser.add_argument("--kill-at", type=at_least(0, 100_000), help="task that kills")
    args = parser.parse_args()
    if args.out and args.out.suffix != ".npz":
        parser.error(f"argument --out: must end in .npz, not {args.out.name}")
    parts = None
    if args.out:
        parts = DataParts(args.out, {"tasks": args.tasks, "seed": args.seed})
        if conflict := parts.conflict():
            parser.error(f"argument --out: {conflict}")
    sys.exit(make_data(args, parts))


def make_data(args: argparse.Namespace, parts: DataParts | None) -> int:
    """Map, show progress, reduce; the exit status."""
    try:
        done = parts.open() if parts else {}
    except OSError as error:
        print(f"{error.filename} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    if done:
        print(f"{len(done)} of {args.tasks} tasks are there from an earlier run")

    def keep(number: int, rows: np.ndarray) -> None:
        if parts:
            parts.add(number, rows)
        done[number] = rows
        if len(done) * 4 // args.tasks > (len(done) - 1) * 4 // args.tasks:
            print(f"{len(done)} of {args.tasks} tasks are done", flush=True)

    try:
        work = oscillator_tasks(args.seed, args.tasks)
        if missing := [task for task in work if task.number not in done]:
            generate_missing_data(missing, args.workers, args.kill_at, keep)
    except (KeyboardInterrupt, BrokenProcessPool) as end:
        killed = isinstance(end, BrokenProcessPool)
        saved = "are saved: run it again to go on" if parts else "were done, not saved"
        count = len(parts.open() if parts else done)  # it may end just after a save
        print(
            f"{'a worker was killed' if killed else 'interrupted'}: "
            f"{count} of {args.tasks} tasks {saved}"
        )
        return 1 if killed else 130
    rows = np.concatenate([done[number] for number in range(args.tasks)])  # reduce
    if parts:
        parts.close(rows)
    checksum = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
    print(f"{len(rows)} rows of {', '.join(COLUMNS)}; checksum {checksum}")
    print(f"written to {args.out}" if parts else "not saved: --out names a file")
    return 0


if __name__ == "__main__":
    run_program(main)
