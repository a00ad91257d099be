"""How many test files run at a time; a notebook is one, and a lesson's exercises are.

Half of the time a test waits, so one more than the machine has cores, but no more than
four: each may start processes of its own.
"""

import pytest

from sidebyside import machine


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config) -> int:
    return min(machine().usable_cores + 1, 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items) -> None:
    """A file is run as a whole by one worker, but for the exercises of all lessons."""
    for item in items:
        case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
        part = f" {case.lesson.name}" if case else ""
        item.add_marker(pytest.mark.xdist_group(item.location[0] + part))
