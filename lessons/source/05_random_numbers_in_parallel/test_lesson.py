"""What lesson 05 says about random numbers is so, on the versions that it names."""

import multiprocessing
from pathlib import Path

import pytest

from demos.random_numbers import forked_random_numbers
from tests.process_state import said_by

METHODS = "fork", "forkserver", "spawn"
TABLE = {  # the start methods under which two workers draw the same
    "np.random, first used by the worker": set(),
    "random, used by the parent": set(),
    "np.random, used by the parent": {"fork"},
    "np Generator, sent by the parent": {"fork", "forkserver", "spawn"},
    "np Generator, made by the worker": set(),
    "torch, used by the parent": {"fork"},
}


@pytest.mark.everything
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on Windows"
)
def test_the_table_is_as_the_lesson_explains_it():
    lines = said_by(Path(forked_random_numbers.__file__)).splitlines()
    rows = {row: line for line in lines for row in TABLE if line.startswith(row)}
    found = {}
    for row, line in rows.items():
        words = line.removeprefix(row).split()
        found[row] = {m for m, w in zip(METHODS, words, strict=True) if w == "EQUAL"}
    assert found == TABLE
