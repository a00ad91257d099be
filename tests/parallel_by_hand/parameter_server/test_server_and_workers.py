"""In step or at once, a server trains as one process does with the same gradients."""

from collections import Counter
from functools import partial
from heapq import heappop, heappush
from types import SimpleNamespace

import pytest
import torch

from parallel_by_hand.parameter_server import (
    server_and_workers,
)
from parallel_by_hand.parameter_server.digits_server import (
    DigitsGradient,
    digits_start,
    train_digits_with_server,
)
from parallel_by_hand.parameter_server.server_and_workers import (
    STOP,
    serve_at_once,
    within_bound,
)
from sidebyside import run_ranks

train = train_digits_with_server


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
        monkeypatch.setattr(server_and_workers, "letter_group", lambda: None)
        return letters

    return make


@pytest.mark.parametrize("beyond", [-14, 0, 1, 8])
def test_beyond_22_workers_gradients_queue(counted_letters, beyond):
    gradient, letter, updates = 360.0, 18.0, 200
    letters = counted_letters(gradient, letter)
    workers = round(gradient / letter + 2) + beyond
    serve_at_once(torch.zeros(1), range(workers), 0.0, updates)
    assert set(letters.queued[:updates]) == {max(0, beyond) * letter}


@pytest.mark.parametrize(("bound", "made"), [(0, 2), (3, 8), (1000, 50)])
def test_with_a_bound_all_soon_wait_for_a_lost_worker(counted_letters, bound, made):
    counted_letters(1.0, lost=3)
    goes, versions = partial(within_bound, bound=bound), []
    with pytest.raises(NobodyWrites):  # without a bound: in the end
        serve_at_once(
            torch.zeros(1), [1, 2, 3], 0.1, 50, lambda n, *_: versions.append(n), goes
        )
    assert len(versions) == made
