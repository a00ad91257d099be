"""The program does the work it says, and the fit finds the serial share that it has."""

import random

import pytest

from parallel_by_hand.performance.serial_share import (
    fit_serial_share,
    time_serial_and_parallel,
)
from parallel_by_hand.performance.speedup_laws import amdahl
from sidebyside import Timeline, span


def noisy(share: float, counts, noise: float) -> dict:
    dice = random.Random(1)
    return {
        k: [(1 + noise * dice.random()) / amdahl(share, k) for _ in range(9)]
        for k in counts
    }


@pytest.mark.parametrize("share", [0, 0.05, 0.2, 1])
def test_the_fit_finds_the_serial_share_and_predicts_a_run_it_has_not_seen(share):
    found = fit_serial_share(noisy(share, [1, 2, 3, 4], noise=0))
    assert [found.low, found.share, found.high] == pytest.approx([share] * 3, abs=1e-9)
    assert found.seconds(8) == pytest.approx(share + (1 - share) / 8)


def test_noise_makes_the_interval_wide():
    small, large = (
        fit_serial_share(noisy(0.2, [1, 2, 4], noise)) for noise in (0.02, 0.2)
    )
    assert 0 < small.high - small.low < large.high - large.low
    assert large.low < 0.2 < large.high


def test_one_number_of_workers_tells_nothing():
    with pytest.raises(ValueError, match="one number of workers"):
        fit_serial_share(noisy(0.2, [1], noise=0.1))


def note(work: float) -> None:
    with span(f"{work:g}"):
        pass


@pytest.mark.parametrize(
    ("grow", "shares"), [(False, ["12", "6", "6"]), (True, ["12", "12", "12"])]
)
def test_the_serial_part_comes_first_and_then_the_shares(grow, shares):
    with Timeline() as timeline:
        seconds = time_serial_and_parallel(
            note, 3, 12, counts=[1, 2], rounds=2, grow=grow
        )
    assert {workers: len(times) for workers, times in seconds.items()} == {1: 2, 2: 2}
    work = [s for s in timeline.spans if s.name != "0"]  # without the warm-up
    names = [s.name for s in sorted(work, key=lambda s: s.start)]
    assert names == 2 * ["3", shares[0], "3", *shares[1:]]
    assert {s.lane for s in work if s.name == "3"} == {"rank 0"}
