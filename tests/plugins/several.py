"""How many test files run at a time; a notebook is one, and a lesson's exercises are.

Half of the time a test waits, so one more than the machine has cores, but no more than
four: each may start processes of its own.
"""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

from sidebyside import machine
from sidebyside.lesson_format import NUMBER


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config) -> int:
    return min(machine().usable_cores + 1, 4)


class ByFile(LoadScopeScheduling):
    """A file is run as a whole by one worker, and so are the exercises of a lesson."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        lesson = re.search(rf"\[({NUMBER})-", test)
        return f"{file} {lesson[1]}" if lesson else file


def pytest_xdist_make_scheduler(config, log) -> ByFile:
    return ByFile(config, log)
