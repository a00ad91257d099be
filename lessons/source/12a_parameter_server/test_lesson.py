"""Staleness, the two clocks and the remedies are what the lesson says."""

from collections.abc import Iterator
from functools import partial
from itertools import repeat

import numpy as np
import pytest

from demos.parameter_server.hogwild import count_lost_by_hogs
from parallel_by_hand.parameter_server.digits_server import (
    digits_server_loss,
    train_digits_with_server,
)
from parallel_by_hand.parameter_server.remedies import compare_remedies
from parallel_by_hand.parameter_server.simulated_server import (
    simulate_at_once,
    simulate_in_step,
)
from sidebyside import run_ranks


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_mean_staleness_is_one_less_than_the_workers(workers):
    updates = 40
    naps = [0.002] * (workers - 1) + [0.01]
    diary = run_ranks(
        train_digits_with_server, "at once", naps, 0.1, updates, world_size=1 + workers
    )[0]
    applied = sum(update.staleness for update in diary)
    pulled = dict.fromkeys(range(1, workers + 1), 0)
    for version, update in enumerate(diary, 1):
        pulled[update.worker] = version
    under_way = sum(updates - version for version in pulled.values())
    assert applied + under_way == updates * (workers - 1)


def one_slow(worker: int, seed: int = 0) -> Iterator[float]:
    """The lesson's workers, in units of 20 ms: the third is four times as slow."""
    return repeat([1.0, 1.001, 4.0][worker])


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_step_wins_by_updates_and_at_once_by_seconds(seed):
    at_once = partial(
        simulate_at_once, 3, rate=lambda stale: 0.2, seconds_of=one_slow, seed=seed
    )
    in_step, rounds, _ = simulate_in_step(3, 3, 96.5, 0.2, one_slow, seed)
    as_many, staleness = at_once(11.005)
    as_long, more = at_once(96.5)
    assert rounds == len(staleness) == 24
    assert len(more) >= 9 * rounds
    by_seconds, by_updates = digits_server_loss(as_long), digits_server_loss(as_many)
    assert by_seconds < digits_server_loss(in_step) < by_updates


@pytest.mark.everything
@pytest.mark.usefixtures("one_torch_thread")
def test_the_order_of_the_remedies_is_the_one_that_the_lesson_names():
    found = {name: losses for name, (losses, _) in compare_remedies(60.0, 2).items()}
    alone, at_once, bound, smaller, with_bound, warm, divided, step, backup = map(
        np.array, found.values()
    )
    assert min(*at_once, *bound) > 10  # the loss begins at 2.4
    assert (divided < smaller).all()
    for worse in alone, with_bound, warm, backup:
        assert (smaller < worse).all()
    assert (backup < step).all()


def test_with_a_lock_hogs_lose_nothing():
    found = count_lost_by_hogs(2, 50, 300)
    assert [share for name, (share, _) in found.items() if "lock" in name] == [0, 0]
