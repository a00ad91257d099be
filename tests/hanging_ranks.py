"""Ranks that must hang: how they do, also where they have been slow to begin."""

import pytest

from sidebyside import RanksHung, run_ranks


def how_they_hang(fn, *lines: str) -> RanksHung:
    """Who waits where; `lines` are in it.

    On a busy machine ranks may not have come to their line within a few seconds: then
    they are tried again, with more.
    """
    for seconds in 3, 60:
        with pytest.raises(RanksHung) as stopped:
            run_ranks(fn, timeout=seconds)
        if all(line in stopped.value.details for line in lines):
            return stopped.value
    raise AssertionError(f"{lines} are not in\n{stopped.value.details}")
