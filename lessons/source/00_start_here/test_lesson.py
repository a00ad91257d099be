"""The claims of the first page hold."""

from sidebyside import machine


def test_the_capacity_of_two_workers_is_never_above_two():
    assert 0 < machine().capacity(workers=2, rounds=1, seconds=0.02) <= 2
