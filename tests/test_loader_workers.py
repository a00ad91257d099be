"""A DataLoader's worker ends with the program that reads from it, even a killed one."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.everything

LOADERS = {  # an import, and a loader with one worker that lasts longer than the test
    "items": (
        "from parallel_by_hand.random_numbers.loader_workers import *",
        "make_loader(NoiseByItem(10_000_000), 1, start_method())",
    ),
    "slow batches": (
        "from lessons.props.devices_and_queues import load_slow_batches",
        "load_slow_batches(10_000, 0.05, 1)",
    ),
}
READS = """
{}

if __name__ == "__main__":
    items = iter({})
    next(items)
    print(items._workers[0].pid, flush=True)
    for _ in items:
        pass
"""


@pytest.mark.parametrize("loader", LOADERS)
def test_the_loaders_worker_ends_with_a_killed_program(loader):
    with tempfile.TemporaryDirectory() as folder:  # a killed program leaves files
        path = Path(folder, "reads.py")
        path.write_text(READS.format(*LOADERS[loader]))
        paths = os.pathsep.join(filter(None, sys.path))
        program = subprocess.Popen(
            [sys.executable, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths, "TMPDIR": folder},
        )
        worker = int(program.stdout.readline())
        program.kill()
        try:
            program.communicate(timeout=30)  # until nobody holds the pipe any more
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
