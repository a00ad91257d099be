"""What a run of the tests costs: seconds of each group, and processor time of all.

Run:      python tests/benchmarks/cost_of_tests.py --everything
          The arguments are those of pytest.
Look for: test-seconds by group; with several workers they are more than have passed.
          Processor time counts every process that the tests started, orphans too.
"""

import ctypes
import os
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict

GROUPS = {  # how the name of a test begins
    "lessons/source/": "lessons' tests",
    "solutions/": "solutions' cells",
    "lessons/": "lessons' cells",
    "tests/test_exercises.py": "exercises",
    "tests/test_demos.py": "demos",
    "": "instruments and documents",
}
DURATION = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(.+)$", re.MULTILINE)
BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux: orphans become our children


def main() -> int:
    ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1)
    command = [sys.executable, "-m", "pytest", "-vv", "--durations=0", *sys.argv[1:]]
    began = time.monotonic()
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    passed = time.monotonic() - began
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tests, seconds = defaultdict(set), defaultdict(float)
    for duration, name in DURATION.findall(run.stdout):
        group = next(GROUPS[start] for start in GROUPS if name.startswith(start))
        tests[group].add(name)
        seconds[group] += float(duration)
    rest = run.stdout.partition(" slowest durations ")[2]
    print(*rest.splitlines()[1:21], *rest.splitlines()[-2:], sep="\n")
    seconds["all"], tests["all"] = sum(seconds.values()), set().union(*tests.values())
    for group in (*GROUPS.values(), "all"):
        print(f"{group:<26} {len(tests[group]):6,} tests {seconds[group]:8,.0f} s")
    processor = used.ru_utime + used.ru_stime
    print(f"{passed:,.0f} s passed, {processor:,.1f} s of processor time")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
