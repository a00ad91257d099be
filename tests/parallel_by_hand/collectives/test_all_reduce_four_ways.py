"""Over a paced link each way takes as long as predicted."""

from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist

from parallel_by_hand.collectives import all_reduce_four_ways
from parallel_by_hand.collectives import paced_link as pacing
from parallel_by_hand.collectives.all_reduce_costs import (
    WAYS,
    predicted_seconds,
)
from parallel_by_hand.collectives.all_reduce_four_ways import (
    time_over_paced_link,
)
from sidebyside import run_ranks


def times_by_counted_sleep(*case) -> dict[tuple[str, int], float]:
    """Runs in each rank: `time_over_paced_link` by a clock that only sleeping moves.

    Each message brings its sender's time along: its receiver goes on no earlier.
    """
    clock, on_their_way = SimpleNamespace(now=0.0), []
    send, receive, barrier = dist.isend, dist.irecv, dist.barrier

    def sleep(seconds: float) -> None:
        clock.now += seconds

    def start_together() -> None:
        barrier()
        clock.now = 0.0

    def send_with_time(tensor, *to, **options):
        now = torch.tensor([clock.now], dtype=torch.float64)
        on_their_way.append((send(now, *to, **options), now))
        return send(tensor, *to, **options)

    def receive_with_time(tensor, *of, **options):
        sent = torch.empty(1, dtype=torch.float64)
        works = [receive(room, *of, **options) for room in (sent, tensor)]

        def wait() -> bool:
            done = [work.wait() for work in works]
            clock.now = max(clock.now, sent.item())
            return all(done)

        return SimpleNamespace(wait=wait)

    ways = {"isend": send_with_time, "irecv": receive_with_time}
    with (
        mock.patch.multiple(dist, barrier=start_together, **ways),
        mock.patch.multiple(pacing, sleep=sleep, perf_counter=lambda: clock.now),
        mock.patch.object(all_reduce_four_ways, "perf_counter", lambda: clock.now),
    ):
        seconds = time_over_paced_link(*case)
    for work, _ in on_their_way:
        work.wait()
    return seconds


def test_over_the_paced_link_ranks_sleep_as_long_as_predicted():
    case = WAYS, [32], 1.0, 0.25, 1
    for counted in run_ranks(times_by_counted_sleep, *case, world_size=4):
        for way in WAYS:
            assert counted[way, 32] == predicted_seconds(way, 4, 32, 1.0, 0.25), way
