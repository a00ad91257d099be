"""compare takes turns, and reports what it measured; machine says what may be used."""

import re

import pytest

from sidebyside import compare, machine
from sidebyside.measure.machines import _group_limits
from tests.process_state import said_by


def test_alternatives_take_turns():
    calls = []
    result = compare(rounds=3, a=lambda: calls.append("a"), b=lambda: calls.append("b"))
    assert calls == ["a", "b"] * 4  # one to warm up
    assert [len(times) for times in result.seconds.values()] == [3, 3]


def test_the_numbers_agree_with_each_other():
    result = compare(rounds=3, first=lambda: sum(range(2000)), second=lambda: 7)
    assert result.results == {"first": 1999000, "second": 7}
    assert result.speedup["first"] == 1
    assert result.speedup["second"] == pytest.approx(
        result.median["first"] / result.median["second"]
    )
    for name, times in result.seconds.items():
        assert min(times) <= result.median[name] <= max(times)
    assert "3 rounds" in repr(result)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({}, "at least one alternative"),
        ({"a": 3}, "a must be a function without arguments"),
        ({"a": int, "rounds": 0}, "rounds must be a whole number of at least 1"),
        ({"a": int, "workers": 0}, "workers must be a whole number of at least 1"),
    ],
)
def test_impossible_arguments_are_refused(call, said):
    with pytest.raises(ValueError, match=said):
        compare(**call)


def test_the_machine_has_at_least_one_usable_core():
    report = machine()
    assert 1 <= report.usable_cores <= report.logical_cores
    assert re.search(r"usable cores +\d+", repr(report))


def test_capacity_is_positive_and_at_most_the_number_of_workers():
    assert 0 < machine().capacity(1, rounds=1) <= 1
    assert 0 < machine().capacity(2, rounds=1) <= 2


def test_counters_end_with_their_block_and_nobody_imports_torch():
    code = """
import contextlib, psutil, sys
from sidebyside import machine
from sidebyside.measure.step_counter import step_counters

with contextlib.suppress(RuntimeError), step_counters(2):
    raise RuntimeError
print(machine().usable_cores > 0, machine().capacity(2, rounds=1, seconds=0.01) > 0)
print(psutil.Process().children(), "torch" in sys.modules)
"""
    assert said_by("-c", code).split() == ["True", "True", "[]", "False"]


INF = float("inf")
OLD = {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}
TREES = [
    ({"cpu.max": "max 100000", "memory.max": "max"}, (INF, INF)),
    ({"job/cpu.max": "150000 100000", "job/step/memory.max": "4096"}, (1.5, 4096)),
    ({"job/memory.max": "512", "job/step/memory.max": "4096"}, (INF, 512)),
    ({"cpu/cpu.cfs_quota_us": "-1", "other/cpu.max": "1 2"}, (INF, INF)),
    (OLD, (0.5, INF)),
]


@pytest.mark.parametrize(("files", "limits"), TREES)
def test_the_limits_of_a_control_group_and_those_around_it_are_seen(
    tmp_path, files, limits
):
    own = tmp_path / "own"
    own.write_text("4:memory:/elsewhere\n0::/job/step\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _group_limits(tmp_path, own) == limits
