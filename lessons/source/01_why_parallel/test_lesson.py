"""What lesson 01 says about queues, laws and claims is so; no test asks for speed."""

import pytest

from parallel_by_hand.performance.queue_simulation import serve_customers
from parallel_by_hand.performance.serial_share import fit_serial_share
from parallel_by_hand.performance.speedup_laws import (
    amdahl,
    gustafson,
)


def test_no_customer_is_served_faster_at_more_counters():
    for counters in 1, 2, 9:
        timeline = serve_customers(customers=8, counters=counters, seconds=0.02)
        assert all(s.duration >= 0.02 for s in timeline.spans)
    assert len(timeline.lanes) <= 8, "with nine, one counter never serves anybody"


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_the_speedup_of_fixed_work_stays_below_one_by_the_serial_share(share):
    speedups = [amdahl(share, workers) for workers in (1, 2, 64, 1e6, 1e12)]
    assert speedups == sorted(speedups)
    assert speedups[0] == pytest.approx(1)
    assert speedups[-1] < 1 / share
    assert speedups[-1] == pytest.approx(1 / share, rel=1e-3)


@pytest.mark.parametrize("workers", [1, 2, 8, 1024])
@pytest.mark.parametrize("share", [0, 0.004, 0.2, 1])
def test_both_laws_agree_about_one_program(share, workers):
    of_one = share / (share + (1 - share) * workers)
    assert gustafson(share, workers) == pytest.approx(amdahl(of_one, workers))


def test_a_shared_core_looks_like_serial_work():
    """Two workers on 1.5 cores: fitted as 2 workers, or as what they are."""
    one, two = ([1 / amdahl(0.2, capacity)] * 9 for capacity in (1, 1.5))
    assert fit_serial_share({1: one, 2: two}).share > 0.4
    assert fit_serial_share({1: one, 1.5: two}).share == pytest.approx(0.2)
