"""How many test files run at a time; a notebook is one of them.

Half of the time a test waits, so one more than the machine has cores, but no more than
four: each may start processes of its own.
"""

import pytest

from sidebyside import machine


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config) -> int:
    return min(machine().usable_cores + 1, 4)
