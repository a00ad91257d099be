"""How many test files run at a time; a notebook is one, and a lesson's exercises are,
and a folder of demos is.

More than half of the time a test waits, so two more than the machine has cores, but no
more than four: each may start processes of its own.
"""

import gc
import re

import pytest
from xdist.scheduler import LoadScopeScheduling

from sidebyside import machine
from sidebyside.course.lesson_format import NUMBER

PARTS = {
    "tests/test_exercises.py": re.compile(rf"\[({NUMBER})-"),
    "tests/test_demos.py": re.compile(r"\[(\w+)/"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config) -> int:
    return min(machine().usable_cores + 2, 4)


class ByFile(LoadScopeScheduling):
    """A file is run as a whole by one worker, but for two long ones.

    All the exercises of a lesson are run by one, and all the demos of a folder.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        part = PARTS[file].search(test) if file in PARTS else None
        return f"{file} {part[1]}" if part else file


def pytest_collection_finish() -> None:
    """No test searches thousands of tests for garbage, or copies them for a fork."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config, log) -> ByFile:
    return ByFile(config, log)
