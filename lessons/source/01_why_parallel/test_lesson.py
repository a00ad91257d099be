"""What lesson 01 says about queues, laws and claims is so; no test asks for speed."""

import random

import pytest

from lessons.props.why_parallel import CLAIMS, claimed_speedup
from parallel_by_hand.performance.queue_simulation import serve_customers
from parallel_by_hand.performance.serial_share import (
    fit_serial_share,
    time_serial_and_parallel,
    worker_counts_for_share,
)
from parallel_by_hand.performance.speedup_laws import (
    PROCESSORS,
    SCALED_SPEEDUPS,
    SERIAL_SHARES,
    amdahl,
    gustafson,
)
from sidebyside import Timeline, span


@pytest.mark.parametrize("counters", [1, 2, 3, 9])
def test_every_customer_is_served_once_and_no_faster_at_more_counters(counters):
    timeline = serve_customers(customers=8, counters=counters, seconds=0.02)
    spans = timeline.spans
    assert sorted(s.name for s in spans) == [f"customer {c}" for c in range(1, 9)]
    assert all(s.duration >= 0.02 for s in spans)
    for lane in timeline.lanes:
        mine = [s for s in spans if s.lane == lane]
        ends, starts = [s.end for s in mine], [s.start for s in mine]
        assert ends[:-1] <= starts[1:], "a counter serves one customer at a time"
    assert len(timeline.lanes) <= min(counters, 8)


def test_nobody_is_served_before_the_shop_is_open():
    opening, *customers = sorted(
        serve_customers(customers=4, counters=3, seconds=0.01, opening=0.05).spans,
        key=lambda s: s.start,
    )
    assert opening.name == "open the shop"
    assert len(customers) == 4
    assert all(customer.start >= opening.end for customer in customers)


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


def test_gustafsons_own_numbers():
    low, high = SERIAL_SHARES
    first, second, third = SCALED_SPEEDUPS.values()
    assert round(gustafson(low, PROCESSORS)) == second == 1020
    assert round(gustafson(high, PROCESSORS)) == third == 1016
    assert round(gustafson(0.003, PROCESSORS)) == first == 1021, "outside 0.4-0.8"
    shares = (low, high)
    assert [round(amdahl(share, PROCESSORS)) for share in shares] == [
        201,
        111,
    ]


def noisy(share: float, counts, noise: float, rounds: int = 9) -> dict:
    dice = random.Random(1)
    return {
        k: [
            (share + (1 - share) / k) * (1 + noise * dice.random())
            for _ in range(rounds)
        ]
        for k in counts
    }


@pytest.mark.parametrize("share", [0, 0.05, 0.2, 1])
def test_the_fit_finds_the_serial_share_and_predicts_a_run_it_has_not_seen(share):
    found = fit_serial_share(noisy(share, [1, 2, 3, 4], noise=0))
    assert found.share == pytest.approx(share, abs=1e-9)
    assert found.low == pytest.approx(share, abs=1e-9)
    assert found.high == pytest.approx(share, abs=1e-9)
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


def test_a_shared_core_looks_like_serial_work():
    """Two workers on 1.5 cores: fitted as 2 workers, or as what they are."""
    seconds = noisy(0.2, [1, 1.5], noise=0)
    assert fit_serial_share({1: seconds[1], 2: seconds[1.5]}).share > 0.4
    assert fit_serial_share(seconds).share == pytest.approx(0.2)


def note(work: float) -> None:
    with span(f"{work:g}"):
        pass


@pytest.mark.parametrize(
    ("grow", "shares"), [(False, ["12", "6", "6"]), (True, ["12", "12", "12"])]
)
def test_the_program_does_the_work_it_says(grow, shares):
    with Timeline() as timeline:
        seconds = time_serial_and_parallel(
            note, 3, 12, counts=[1, 2], rounds=2, grow=grow
        )
    assert {workers: len(times) for workers, times in seconds.items()} == {1: 2, 2: 2}
    work = [s for s in timeline.spans if s.name != "0"]  # without the warm-up
    in_time = sorted(work, key=lambda s: s.start)
    names = [s.name for s in in_time]
    one, two = ["3", shares[0]], ["3", *shares[1:]]
    assert names == one + two + one + two, "serial part first, then the shares"
    assert {s.lane for s in in_time if s.name == "3"} == {"rank 0"}


def test_worker_counts_end_with_the_most():
    assert worker_counts_for_share(1) == [1]
    assert worker_counts_for_share(3) == [1, 2, 3]
    assert worker_counts_for_share(12) == [1, 2, 3, 4, 8, 12]


def test_the_claims_are_wrong_as_the_text_says():
    def throughput(run):
        return run.workers * run.batch_per_worker * run.steps / run.seconds

    found = {
        name: (
            round(claimed_speedup(*runs), 2),
            round(throughput(many) / throughput(one), 2),
        )
        for name, runs in CLAIMS.items()
        for one, many in [runs]
    }
    assert found == {
        "a short evening": (6.67, 3.33),
        "not worth it": (0.83, 3.33),
        "small batches": (2.5, 2.5),
    }


def test_six_workers_are_worth_their_price():
    cost = {k: 10 / amdahl(0.2, k) * (k + 10) for k in range(1, 17)}
    assert [round(cost[k], 6) for k in (1, 4, 8)] == [110, 56, 54]
    assert min(cost, key=cost.get) == 6
    assert round(cost[6], 2) == 53.33
