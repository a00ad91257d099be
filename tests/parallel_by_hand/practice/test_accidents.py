"""An accident ends with nothing left of it, and its tracker runs before it begins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parallel_by_hand.practice import accidents

# Makes a semaphore and a worker that lasts, and is killed.
CUT_OFF = """
import os, signal, time
from multiprocessing import get_context

spawn = get_context("spawn")
lock = spawn.Lock()
spawn.Process(target=time.sleep, args=(600,)).start()
print(f"/dev/shm/sem.{lock._semlock.name[1:]}", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.everything
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="semaphores are no files")
def test_after_a_killed_program_its_worker_ends_first_and_its_semaphores_are_removed():
    program = subprocess.Popen(
        [sys.executable, "-c", CUT_OFF], stdout=subprocess.PIPE, start_new_session=True
    )
    semaphore = Path(os.fsdecode(program.stdout.readline()).strip())
    assert semaphore.name.startswith("sem.mp-")
    accidents.end_accident(program)
    assert not semaphore.exists()
