"""Programs that have a group end as they should: with it, its threads end too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMOS = Path(__file__).parents[1] / "demos"
SCRIPTS = sorted(DEMOS.glob("*/own_*.py"))
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "0"}
ALONE |= {"LOCAL_WORLD_SIZE": "1"}
AS_TORCHRUN = ALONE | {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "none"}
AS_TORCHRUN |= {"TORCHELASTIC_RESTART_COUNT": "0"}
RUN_AND_NAME_THREADS = """
import contextlib, faulthandler, os, runpy, sys, time
usual = faulthandler.dump_traceback_later  # a script's watchdog shall not bite here
faulthandler.dump_traceback_later = lambda seconds, **more: usual(60, **more)
seconds, sys.argv = int(sys.argv[1]), sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as stop:
    assert not stop.code, stop.code
def threads():
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{thread}/comm") as file:
                yield file.read().strip()
end = time.monotonic() + seconds  # one that has ended is listed for a moment
while any("gloo" in name for name in threads()) and time.monotonic() < end:
    time.sleep(0.1)
for name in threads():
    print("thread:", name)
"""


pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the threads' names in /proc"
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_no_thread_of_the_group_is_left_when_the_script_ends(script):
    """A thread of gloo that lives on can abort the interpreter while it ends.

    torch.distributed.nn takes the group of the moment as its functions' default. The
    first optimizer imports it, so a group that stands by then is never freed. DTensor
    has caches that keep the group, and FSDP2 uses it: there the script has to wait for
    the threads.
    """
    keeps = re.search(r"distributed\.(tensor|fsdp)", script.read_text())
    seconds = "0" if keeps else "10"
    command = [sys.executable, "-c", RUN_AND_NAME_THREADS, seconds, str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "thread: python" in done.stdout
    if keeps:
        assert "gloo" in done.stdout, "it need not wait any longer"
        assert "    dist.destroy_process_group()\n    time.sleep(" in script.read_text()
    else:
        assert "gloo" not in done.stdout


def test_no_thread_is_left_when_a_rank_of_torchruns_has_trained(tmp_path):
    command = [sys.executable, "-c", RUN_AND_NAME_THREADS, "10"]
    command += [str(DEMOS / "failures" / "kill_and_resume.py"), "--folder"]
    command += [str(tmp_path), "--failure", "link", "--steps", "3", "--kill-at", "2"]
    path = os.pathsep.join(map(str, (DEMOS.parent, DEMOS.parent / "resources")))
    env = os.environ | AS_TORCHRUN | {"PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1 has trained 3 steps\nthread: python" in done.stdout
    assert "gloo" not in done.stdout
