"""The bold sentences of lesson 10a hold, beyond the sizes that the lesson shows."""

import warnings

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from sidebyside import run_ranks
from tests.hanging_ranks import how_they_hang
from tests.quiet_loopback import least_on_loopback


def request_for_piece_thrown_away() -> None:
    if dist.get_rank() == 0:
        dist.isend(torch.ones(1), 1)
    dist.barrier()  # so that the other receives later
    if dist.get_rank() == 1:
        dist.recv(torch.empty(1), 0)


@pytest.mark.everything
def test_a_message_whose_request_is_thrown_away_does_not_arrive_with_gloo():
    how_they_hang(request_for_piece_thrown_away, "rank 1 waits in recv")


def bytes_of_three() -> tuple[float, float, float]:
    pieces = list(torch.ones(1_000_000).chunk(4))
    room = torch.empty_like(pieces[0])
    calls = (
        lambda: eight_collectives.reduce_scatter(room, pieces),
        lambda: dist.reduce_scatter(room, pieces),
        lambda: dist.all_gather(pieces, room),
    )
    return tuple(megabytes_per_rank(call) / 4 for call in calls)


@pytest.mark.skipif(not loopback_bytes(), reason="no loopback interface is counted")
def test_gloos_reduce_scatter_sends_a_whole_all_reduce_and_ours_does_not():
    ours, gloos, all_gather = least_on_loopback(bytes_of_three, 0.9, 1.65, 0.9)
    assert ours == pytest.approx(0.75, abs=0.15)  # others may send meanwhile
    assert gloos == pytest.approx(1.5, abs=0.15)
    assert all_gather == pytest.approx(0.75, abs=0.15)


def warnings_of_names() -> dict[str, list[str]]:
    found, ranks = {}, dist.get_world_size()
    one, all_of_them = torch.ones(1), torch.ones(ranks)
    for name in "all_gather_into_tensor", "all_gather_single":
        found[name] = _warnings_of(getattr(dist, name), all_of_them.clone(), one)
    for name in "reduce_scatter_tensor", "reduce_scatter_single":
        found[name] = _warnings_of(getattr(dist, name), one.clone(), all_of_them)
    return found


def _warnings_of(call, *args) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(*args)
    return [str(warning.message) for warning in said]


@pytest.mark.skipif(torch.__version__ >= "2.15", reason="torch 2.15 does not warn")
def test_the_old_names_warn_and_name_the_new_ones():
    found = run_ranks(warnings_of_names)[0]
    assert "all_gather_single" in found["all_gather_into_tensor"][0]
    assert "reduce_scatter_single" in found["reduce_scatter_tensor"][0]
    assert not found["all_gather_single"] and not found["reduce_scatter_single"]
