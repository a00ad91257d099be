"""A parameter server on a clock that is only counted: every run gives the same numbers.

The gradients are real, the seconds are not: a gradient takes as long as a list says,
and letters take no time. So sixteen workers need no core each, and nothing depends on
how busy the machine is.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

import numpy as np
import torch
from torch import Tensor

from parallel_by_hand.parameter_server.digits_server import DigitsGradient, digits_start
from parallel_by_hand.parameter_server.server_and_workers import everyone_may_go_on


def gradient_seconds(worker: int, seed: int = 0) -> Iterator[float]:
    """How long a simulated worker's gradients take: 1 at least, at times far longer."""
    random = np.random.default_rng([seed, worker])
    while True:
        yield 1.0 + 0.2 * float(random.pareto(1.6))


def _same_seconds(worker: int, seed: int = 0) -> Iterator[float]:
    """Every gradient of every worker takes 1, and a little that tells them apart."""
    while True:
        yield 1.0 + 1e-3 * worker


def simulate_at_once(
    workers: int,
    budget: float,
    rate: Callable[[int], float],
    who_goes_on: Callable = everyone_may_go_on,
    seconds_of: Callable = _same_seconds,
    alone: float = 0.0,
    seed: int = 0,
) -> tuple[Tensor, list[int]]:
    """The simulated server, asynchronous: parameters after `budget` seconds, staleness.

    `rate(staleness)` is the learning rate of each update. `who_goes_on` is as in
    `serve_at_once`. For the first `alone` seconds there is one worker only.
    """
    parameters, staleness, version = digits_start(seed), [], 0
    gradient_of = [DigitsGradient(100 * seed + worker) for worker in range(workers)]
    takes = [seconds_of(worker, seed) for worker in range(workers)]
    pushes, waiting = {0: 0}, [0]
    under_way, now = [], 0.0  # (when it arrives, worker, version, parameters)
    while now < budget:
        if now >= alone and len(pushes) < workers:  # the others join, as far as all are
            waiting += range(1, workers)
            pushes |= dict.fromkeys(range(1, workers), pushes[0])
        for worker in who_goes_on(pushes, waiting):
            pulled = worker, version, parameters.clone()
            heappush(under_way, (now + next(takes[worker]), *pulled))
            waiting.remove(worker)
        now, worker, pulled, old = heappop(under_way)
        staleness.append(version - pulled)
        step = rate(staleness[-1]) * gradient_of[worker](old, pulled)
        parameters = parameters - step
        version, pushes[worker] = version + 1, pushes[worker] + 1
        waiting.append(worker)
    return parameters, staleness


def simulate_in_step(
    workers: int,
    needed: int,
    budget: float,
    rate: float,
    seconds_of: Callable = _same_seconds,
    seed: int = 0,
) -> tuple[Tensor, int, int]:
    """A simulated server in step: the first `needed` of `workers` make a round.

    Parameters after `budget` seconds, the number of rounds, gradients thrown away.
    """
    parameters = digits_start(seed)
    gradient_of = [DigitsGradient(100 * seed + worker) for worker in range(workers)]
    takes = [seconds_of(worker, seed) for worker in range(workers)]
    under_way = [(next(takes[worker]), worker, 0) for worker in range(workers)]
    heapify(under_way)
    rounds, thrown, arrived = 0, 0, []
    while under_way[0][0] < budget:
        now, worker, of_round = heappop(under_way)
        if of_round < rounds:  # too late: its round is over
            thrown, going = thrown + 1, [worker]
        else:
            arrived, going = [*arrived, worker], []
        if len(arrived) == needed:
            gradients = [gradient_of[w](parameters, rounds) for w in arrived]
            parameters = parameters - rate * torch.stack(gradients).mean(0)
            rounds, going, arrived = rounds + 1, arrived, []
        for free in going:
            heappush(under_way, (now + next(takes[free]), free, rounds))
    return parameters, rounds, thrown
