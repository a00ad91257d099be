"""A paced link lets messages queue, and is taken off again."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives import paced_link as pacing
from parallel_by_hand.collectives.paced_link import PacedLink, paced_link
from sidebyside import run_ranks


def test_messages_that_come_in_at_once_queue(monkeypatch):
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(pacing, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(
        pacing, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds)
    )
    link = PacedLink(alpha=1.0, beta=0.5)
    arrived = SimpleNamespace(wait=lambda: True)
    for expected in (10.0, 13.0, 16.0):
        pacing.ArrivingMessage(link, torch.ones(1), arrived).wait()
        assert clock.now == expected


def leave_the_link() -> tuple[bool, int, float]:
    before = dist.isend, dist.irecv
    with pytest.raises(KeyError), paced_link(0.001, 0):
        raise KeyError
    restored = (dist.isend, dist.irecv) == before
    other, got = 1 - dist.get_rank(), torch.zeros(1)
    with paced_link(0.001, 0):
        if dist.get_rank() == 0:
            dist.send(torch.ones(1), other)
            source = 1
        else:
            source = dist.recv(got)  # from any rank
        dist.all_reduce(got)
    return restored, source, got.item()


def test_the_link_is_restored_and_any_source_can_be_received_from():
    assert run_ranks(leave_the_link) == [(True, 1, 1.0), (True, 0, 1.0)]
