"""A server moves the predicted bytes, in the predicted seconds."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from parallel_by_hand.collectives import paced_link as pacing
from parallel_by_hand.parameter_server import (
    server_costs,
)
from parallel_by_hand.parameter_server.server_and_workers import (
    serve_at_once,
    serve_in_step,
)
from sidebyside import run_ranks


def predicted_bytes(workers: int, size: int, servers: int) -> float:
    """Its seconds over a link of a byte a second, without latency or versions."""
    return server_costs.predicted_server_seconds(workers, size, 0, 1, servers)


@pytest.mark.parametrize(("servers", "workers"), [(1, 3), (3, 2)])
def test_a_server_moves_the_predicted_bytes(servers, workers):
    elements, updates = 1200, 3
    ranks = run_ranks(
        server_costs.time_server_over_paced_link,
        servers, elements, 0.0, 0.0, updates, world_size=servers + workers,
    )  # fmt: skip
    for _, meter in ranks[:servers]:
        moved = updates * predicted_bytes(workers, 4 * elements, servers)
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


@pytest.mark.parametrize(("servers", "workers"), [(1, 5), (2, 3)])
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


def test_servers_on_all_machines_move_what_a_ring_moves():
    workers, size = 8, 1_000_000
    share = predicted_bytes(workers, size, servers=workers)
    own = 2 * size / workers  # what server and worker of one machine pass each other
    assert share - own == 2 * (workers - 1) / workers * size
