"""In step equals one process; staleness, bounds and costs are what the lesson says."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist

from demos.parameter_server import own_parameter_server
from demos.parameter_server.hogwild import WAYS, count_lost_by_hogs
from parallel_by_hand.collectives import paced_link as pacing
from parallel_by_hand.parameter_server import (
    server_and_workers,
    server_costs,
    stale_gradients,
)
from parallel_by_hand.parameter_server.digits_server import (
    DigitsGradient,
    digits_server_loss,
    digits_start,
    losses_over_time,
    train_digits_with_server,
)
from parallel_by_hand.parameter_server.remedies import compare_remedies
from parallel_by_hand.parameter_server.server_and_workers import (
    STOP,
    serve_at_once,
    serve_in_step,
    within_bound,
)
from parallel_by_hand.parameter_server.server_failures import (
    load_server,
    train_while_worker_is_lost,
    train_with_checkpoints,
)
from parallel_by_hand.parameter_server.simulated_server import (
    gradient_seconds,
    simulate_at_once,
    simulate_in_step,
)
from sidebyside import RankFailed, run_ranks

from .checks import THREE, backup_workers_by_events

train = train_digits_with_server


# The server ---------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("servers", [1, 2])
def test_in_step_equals_one_process_after_every_update(workers, servers):
    ranks = run_ranks(
        train, "in step", [0] * workers, 0.5, 6, servers, world_size=servers + workers
    )
    parameters = digits_start()
    gradient_of = [DigitsGradient(worker) for worker in range(workers)]
    for version in range(6):
        gradients = torch.stack([g(parameters, version) for g in gradient_of])
        parameters = parameters - 0.5 * gradients.mean(0)
        share = torch.cat([diary[version].share for diary in ranks[:servers]])
        torch.testing.assert_close(share, parameters, rtol=0, atol=1e-6)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_at_once_equals_one_process_that_takes_the_gradients_in_the_same_order(workers):
    diary = run_ranks(
        train, "at once", [0.001] * workers, 0.1, 30, world_size=1 + workers
    )[0]
    history = [digits_start()]
    gradient_of = {worker: DigitsGradient(worker - 1) for worker in range(1, 4)}
    for version, update in enumerate(diary):
        pulled = version - update.staleness
        gradient = gradient_of[update.worker](history[pulled], pulled)
        history.append(history[-1] - 0.1 * gradient)
        torch.testing.assert_close(update.share, history[-1], rtol=0, atol=1e-6)
    if workers == 1:
        assert not any(update.staleness for update in diary)


def test_several_servers_at_once_end_and_each_makes_its_updates_or_fewer():
    ranks = run_ranks(train, "at once", [0.001] * 3, 0.1, 25, 2, world_size=5)
    assert max(len(diary) for diary in ranks[:2]) == 25
    assert all(0 < len(diary) <= 25 for diary in ranks[:2])
    assert ranks[2:] == [[], [], []]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_mean_staleness_is_one_less_than_the_workers(workers):
    updates = 40
    naps = [0.002] * (workers - 1) + [0.01]
    diary = run_ranks(train, "at once", naps, 0.1, updates, world_size=1 + workers)[0]
    applied = sum(update.staleness for update in diary)
    pulled = dict.fromkeys(range(1, workers + 1), 0)
    for version, update in enumerate(diary, 1):
        pulled[update.worker] = version
    under_way = sum(updates - version for version in pulled.values())
    assert applied + under_way == updates * (workers - 1)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_no_gradient_is_older_than_the_bound_allows(bound):
    goes = partial(within_bound, bound=bound)
    naps = [0, 0.001, 0.01]
    diary = run_ranks(train, "at once", naps, 0.1, 30, 1, goes, world_size=4)[0]
    assert max(update.staleness for update in diary) <= 2 * (2 * bound + 1)
    pushes = Counter({1: 0, 2: 0, 3: 0})
    for update in diary:
        pushes[update.worker] += 1
        assert max(pushes.values()) - min(pushes.values()) <= bound + 1


def test_losses_are_those_of_the_updates_chosen():
    diary = run_ranks(train, "in step", [0, 0], 0.5, 9, world_size=3)[0]
    rows = losses_over_time(diary, every=3)
    assert [row[0] for row in rows] == [0, 3, 6, 9]
    assert rows[-1][2] == digits_server_loss(diary[-1].share) < rows[0][2]


# Stale gradients ----------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 1, 4, 16])
@pytest.mark.parametrize("curvature", [1.0, 25.0])
def test_the_largest_stable_step_is_the_theorems_within_one_percent(delay, curvature):
    found = stale_gradients.found_stable_step(curvature, delay)
    formula = stale_gradients.predicted_stable_step(curvature, delay)
    assert found == pytest.approx(formula, rel=0.01)


def test_a_delay_of_one_halves_the_step_and_a_long_one_divides_it():
    predicted = partial(stale_gradients.predicted_stable_step, 1.0)
    assert predicted(1) == pytest.approx(predicted(0) / 2)
    assert predicted(32) / predicted(16) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("delay", [0, 1, 3, 16])
def test_the_edge_is_where_the_characteristic_equation_has_a_root_of_modulus_one(delay):
    equation = np.zeros(delay + 2)
    equation[0], equation[1] = 1, -1
    equation[-1] += stale_gradients.predicted_stable_step(1.0, delay)
    assert max(abs(np.roots(equation))) == pytest.approx(1)


# The simulated clock ------------------------------------------------------------------


def test_a_simulated_server_makes_the_updates_that_a_real_one_would():
    _, staleness = simulate_at_once(3, 10.5, lambda stale: 0.1)
    assert len(staleness) == 31  # ten gradients of each, and the one that ends it
    assert staleness[:3] == [0, 1, 2] and set(staleness[3:]) == {2}
    _, fresh = simulate_at_once(1, 10.5, lambda stale: 0.1)
    assert set(fresh) == {0} and len(fresh) == 11


def test_a_simulated_round_without_backup_is_sgd_with_the_mean_gradient():
    parameters, rounds, thrown = simulate_in_step(3, 3, 5.5, 0.5)
    gradient_of = [DigitsGradient(worker) for worker in range(3)]
    expected = digits_start()
    for version in range(rounds):
        gradients = torch.stack([g(expected, version) for g in gradient_of])
        expected = expected - 0.5 * gradients.mean(0)
    assert (rounds, thrown) == (5, 0)
    torch.testing.assert_close(parameters, expected)


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
    larger = [
        digits_server_loss(simulate_in_step(3, 3, 96.5, rate, one_slow, seed)[0])
        for rate in (0.4, 0.8, 1.2, 1.6, 3.2)
    ]
    assert by_seconds < 0.7 * min(larger)
    assert min(larger) < 0.5 * digits_server_loss(in_step)


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


# Costs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_a_server_moves_the_predicted_bytes(servers, workers):
    elements, updates = 1200, 3
    ranks = run_ranks(
        server_costs.time_server_over_paced_link,
        servers, elements, 0.0, 0.0, updates, world_size=servers + workers,
    )  # fmt: skip
    for _, meter in ranks[:servers]:
        moved = updates * server_costs.bytes_of_server(workers, 4 * elements, servers)
        last = 4 * elements / servers * workers  # the letters that say stop
        versions = 4 * workers * (2 * updates + 1)
        assert meter.bytes_sent + meter.bytes_received == moved + last + versions
        assert not meter.collectives


def test_a_server_at_once_gets_a_letter_and_sends_one_for_each_gradient():
    elements, updates, workers = 1200, 6, 3
    at_once = 0.0, 0.0, updates, serve_at_once
    ranks = run_ranks(
        server_costs.time_server_over_paced_link,
        1, elements, *at_once, world_size=1 + workers,
    )  # fmt: skip
    gradients = updates + workers - 1  # the others' last ones are under way
    letters = 2 * gradients + workers  # and those that say stop
    meter = ranks[0][1]
    assert meter.bytes_sent + meter.bytes_received == letters * 4 * (elements + 1)


def timed_by_sleeps(serve: Callable, servers: int) -> float | None:
    """Runs in each rank: a server's seconds for an update, if only the link takes time.

    What the link asks for is counted, and nobody sleeps.
    """
    clock = SimpleNamespace(now=0.0)
    pacing.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    pacing.perf_counter = server_costs.perf_counter = lambda: clock.now
    timed = server_costs.time_server_over_paced_link(servers, 12, 1.0, 0.25, 4, serve)
    return timed and timed[0]


@pytest.mark.parametrize(("servers", "workers"), [(1, 2), (1, 5), (2, 3)])
def test_in_step_a_server_takes_the_predicted_seconds_but_for_one_message(
    servers, workers
):
    ranks = run_ranks(
        timed_by_sleeps, serve_in_step, servers, world_size=servers + workers
    )
    letter = 4 * (12 // servers + 1)  # bytes, with the version
    predicted = server_costs.predicted_server_seconds(
        workers, servers * letter, 1.0, 0.25, servers
    )
    # The first gradient is under way while the last letters go out.
    assert ranks[:servers] == [predicted - (1.0 + 0.25 * letter)] * servers


def test_at_once_a_server_takes_one_letters_seconds_for_each_gradient():
    ranks = run_ranks(timed_by_sleeps, serve_at_once, 1, world_size=4)
    assert ranks[0] == 1.0 + 0.25 * 4 * (12 + 1)


class NobodyWrites(Exception):
    """The server would wait for ever."""


class CountedLetters:
    """A server's `dist` without ranks: letters and workers on a clock that is counted.

    A worker takes `seconds` for a gradient, and the worker `lost` never answers. To
    send a letter keeps the server busy for `letter` seconds, and so long it travels.
    """

    def __init__(self, seconds: float, letter: float = 0.0, lost: int | None = None):
        self.seconds, self.letter, self.lost = seconds, letter, lost
        self.now, self.under_way, self.queued = 0.0, [], []

    def isend(self, letter: torch.Tensor, worker: int, group: None) -> SimpleNamespace:
        self.now += self.letter
        if worker != self.lost and letter[-1] != STOP:
            arrives = self.now + self.seconds + self.letter
            heappush(self.under_way, (arrives, worker, float(letter[-1])))
        return SimpleNamespace(wait=lambda: None)

    def recv(self, letter: torch.Tensor, group: None) -> int:
        if not self.under_way:
            raise NobodyWrites
        arrives, worker, letter[-1] = heappop(self.under_way)
        letter[:-1] = 0
        self.queued.append(max(0.0, self.now - arrives))
        self.now = max(self.now, arrives)
        return worker


@pytest.fixture
def counted_letters(monkeypatch):
    """Call it as `CountedLetters`: then this process's server uses these letters."""

    def make(*args, **options) -> CountedLetters:
        letters = CountedLetters(*args, **options)
        monkeypatch.setattr(server_and_workers, "dist", letters)
        monkeypatch.setattr(server_and_workers, "post", lambda: None)
        return letters

    return make


@pytest.mark.parametrize("beyond", [-14, 0, 1, 8])
def test_beyond_22_workers_gradients_queue(counted_letters, beyond):
    gradient, letter, updates = 360.0, 18.0, 200
    letters = counted_letters(gradient, letter)
    workers = round(gradient / letter + 2) + beyond
    serve_at_once(torch.zeros(1), range(workers), 0.0, updates)
    assert set(letters.queued[:updates]) == {max(0, beyond) * letter}


def test_servers_on_all_machines_move_what_a_ring_moves():
    workers, size = 8, 1_000_000
    share = server_costs.bytes_of_server(workers, size, servers=workers)
    own = 2 * size / workers  # what server and worker of one machine pass each other
    assert share - own == 2 * (workers - 1) / workers * size


# Failure ------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", [0, 1])
def test_a_checkpoint_brings_the_run_back_to_the_same_parameters(tmp_path, victim):
    path = tmp_path / "server.pt"
    with pytest.raises(RankFailed, match=f"rank {victim} was killed by SIGKILL"):
        run_ranks(train_with_checkpoints, path, 20, victim, 15, world_size=3)
    assert load_server(path)[0] == 10
    first, again = run_ranks(train_with_checkpoints, path, 20, world_size=3)[0]
    other = tmp_path / "other.pt"
    whole = run_ranks(train_with_checkpoints, other, 20, world_size=3)[0][1]
    assert first == 10 and torch.equal(again, whole)


def test_at_once_a_checkpoint_brings_the_server_back_too(tmp_path):
    path = tmp_path / "server.pt"
    trains = partial(train_with_checkpoints, path, design="at once")
    with pytest.raises(RankFailed, match="rank 0 was killed by SIGKILL"):
        run_ranks(partial(trains, 40, victim=0, at=25), world_size=3)
    version, share = load_server(path)
    assert version == 20
    first, held = run_ranks(trains, version, world_size=3)[0]  # nothing left to do
    assert first == version and torch.equal(held, share)
    first, again = run_ranks(trains, 40, world_size=3)[0]
    last, saved = load_server(path)
    assert (first, last) == (20, 40)
    assert torch.equal(again, saved) and not torch.equal(again, share)


@pytest.mark.parametrize(("bound", "made"), [(0, 2), (3, 8), (1000, 50)])
def test_with_a_bound_all_soon_wait_for_a_lost_worker(counted_letters, bound, made):
    counted_letters(1.0, lost=3)
    goes, versions = partial(within_bound, bound=bound), []
    with pytest.raises(NobodyWrites):  # without a bound: in the end
        serve_at_once(
            torch.zeros(1), [1, 2, 3], 0.1, 50, lambda n, *_: versions.append(n), goes
        )
    assert len(versions) == made


@pytest.mark.everything  # on counted letters above
def test_a_lost_worker_stops_nobody_at_once():
    heard, *of_workers = run_ranks(
        train_while_worker_is_lost, 400, 15, 0.01, world_size=4
    )
    assert of_workers == ["the server", "the server", "this worker"]
    assert len(heard) == 400
    after = heard[15:]
    assert after.count(3) <= 1  # it may be slow with a gradient that it began before
    assert {1, 2} <= set(after)


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
