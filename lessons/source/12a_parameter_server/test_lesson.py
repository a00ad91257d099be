"""In step equals one process; staleness, bounds and costs are what the lesson says."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice, repeat

import numpy as np
import pytest
import torch
import torch.distributed as dist

from demos.parameter_server import own_parameter_server
from demos.parameter_server.hogwild import WAYS, count_lost_by_hogs
from parallel_by_hand.parameter_server.digits_server import (
    digits_server_loss,
    train_digits_with_server,
)
from parallel_by_hand.parameter_server.remedies import compare_remedies
from parallel_by_hand.parameter_server.server_and_workers import (
    within_bound,
)
from parallel_by_hand.parameter_server.simulated_server import (
    gradient_seconds,
    simulate_at_once,
    simulate_in_step,
)
from sidebyside import run_ranks

from .checks import THREE, backup_workers_by_events

# The server ---------------------------------------------------------------------------


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


# The simulated clock ------------------------------------------------------------------


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


def slow_in_turns(worker: int, seed: int = 0) -> Iterator[float]:
    """Each worker needs long for one gradient in three, and never two at a time."""
    return (4.0 if turn % 3 == worker else 1 + 1e-3 * worker for turn in count())


def updates_with_bound(bound: int, budget: float, seconds_of: Callable) -> int:
    goes = partial(within_bound, bound=bound)
    return len(simulate_at_once(3, budget, lambda stale: 0.1, goes, seconds_of)[1])


@pytest.mark.usefixtures("one_torch_thread")
def test_a_bound_costs_less_than_waiting_in_step_if_workers_are_slow_in_turns():
    _, rounds, _ = simulate_in_step(3, 3, 60.5, 0.1, slow_in_turns)
    assert rounds == 15
    made = [updates_with_bound(bound, 60.5, slow_in_turns) for bound in (0, 2, 1000)]
    assert made[0] <= 3 * rounds + 3 < made[1] <= made[2]
    assert made[1] > 1.5 * 3 * rounds


@pytest.mark.usefixtures("one_torch_thread")
def test_within_a_bound_fast_workers_go_at_the_pace_of_a_slow_one():
    slow_makes, bound = 50, 2
    made = updates_with_bound(bound, 4 * slow_makes + 0.5, one_slow)
    assert 3 * slow_makes <= made <= 3 * slow_makes + 2 * (bound + 1) + 1
    assert updates_with_bound(1000, 4 * slow_makes + 0.5, one_slow) > 2.5 * made


@pytest.mark.usefixtures("one_torch_thread")
def test_backup_workers_give_more_rounds_and_cost_gradients():
    all_needed = simulate_in_step(16, 16, 20, 0.5, gradient_seconds)
    with_backup = simulate_in_step(16, 14, 20, 0.5, gradient_seconds)
    assert with_backup[1] > all_needed[1]
    assert with_backup[2] > all_needed[2] == 0


def test_the_slowest_of_16_takes_as_much_longer_as_the_lesson_says():
    rounds = zip(*(islice(gradient_seconds(w), 4000) for w in range(16)), strict=True)
    *_, fourteenth, _, slowest = zip(*map(sorted, rounds), strict=True)
    ratios = np.array(slowest) / np.array(fourteenth)
    assert np.median(ratios) == pytest.approx(1.5, abs=0.05)
    assert (ratios > 3).mean() == pytest.approx(1 / 8, abs=0.02)


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


def test_the_case_by_hand_ends_as_the_lesson_says():
    assert backup_workers_by_events(THREE, 2, 3) == (5.5, 1)
    assert backup_workers_by_events(THREE, 3, 3) == (8.5, 0)


# Demos --------------------------------------------------------------------------------


def test_with_a_lock_hogs_lose_nothing():
    lost = {name: share for name, (share, _) in count_lost_by_hogs(2, 50, 300).items()}
    assert list(lost) == list(WAYS)
    for name, share in lost.items():
        assert 0 <= share < 1
        if "lock" in name:
            assert share == 0


@pytest.mark.everything
def test_without_a_lock_dense_updates_get_lost_and_sparse_ones_hardly():
    for _ in range(5):
        found = count_lost_by_hogs(2, 10_000, 4_000)
        dense, add, sparse = (
            found[name][0] for name in ("dense, copy_", "dense, add_", "sparse, copy_")
        )
        if dense > 0.01 and dense > 3 * max(add, sparse):
            return
    pytest.fail(f"lost: dense {dense}, with add_ {add}, sparse {sparse}")


def train_with_own_server(updates: int) -> tuple[float, float] | None:
    """Runs in each rank: the server's loss and mean staleness."""
    torch.manual_seed(0)
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels, weights = (images @ rule).argmax(1), torch.zeros(10, 64)
    if dist.get_rank() > 0:
        own_parameter_server.work(images, labels, dist.get_rank())
        return None
    workers = range(1, dist.get_world_size())
    staleness = own_parameter_server.serve(weights, workers, updates)
    loss = torch.nn.functional.cross_entropy(images @ weights.T, labels)
    return loss.item(), sum(staleness) / updates


def test_the_script_of_your_own_trains():
    (loss, staleness), *_ = run_ranks(train_with_own_server, 50, world_size=3)
    assert loss < 2.3 and 0 <= staleness <= 1, "0 if one worker did all the work"
