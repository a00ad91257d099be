"""Every byte is predicted and found, and ZeRO trains what data parallel trains."""

import pytest
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from parallel_by_hand.sharding import shard_timelines
from sidebyside import Timeline, run_ranks
from tests.quiet_loopback import least_on_loopback

# Sixteen bits -------------------------------------------------------------------------


def test_float16_rounds_to_0_what_the_lesson_says():
    small = torch.tensor([2.9e-8, 3.1e-8]).half()
    assert small[0] == 0 < small[1]
    bfloat = torch.tensor([1.0]).bfloat16()
    assert torch.nextafter(bfloat, 2 * bfloat) == 1.0078125


def test_autocast_leaves_parameters_gradients_and_averages_in_float32():
    layer = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = layer(torch.randn(3, 8))
    made.float().sum().backward()
    optimizer.step()
    averages = [t for state in optimizer.state.values() for t in state.values()]
    kept = [*layer.parameters(), *(p.grad for p in layer.parameters()), *averages]
    assert made.dtype == torch.bfloat16
    assert {tensor.dtype for tensor in kept} == {torch.float32}


# The same bytes -----------------------------------------------------------------------


def megabytes_of_the_library() -> tuple[float, float]:
    network = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))  # 8.4 MB
    replica = nn.parallel.DistributedDataParallel(network)
    sharded = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam)

    def backward() -> None:
        replica(torch.ones(1, 512)).sum().backward()

    backward()
    sharded.step()
    return megabytes_per_rank(backward, 2), megabytes_per_rank(sharded.step, 2)


@pytest.mark.everything
@pytest.mark.skipif(not loopback_bytes(), reason="no loopback interface is counted")
def test_the_librarys_stage_1_sends_one_and_a_half_times_what_ddp_sends():
    all_reduce, broadcasts = least_on_loopback(megabytes_of_the_library, 13.8, 6.9)
    assert all_reduce == pytest.approx(2 * 3 / 4 * 8.4, rel=0.1)
    assert broadcasts == pytest.approx(3 / 4 * 8.4, rel=0.1)


# Timelines ----------------------------------------------------------------------------


def spans_of(way: str) -> dict[str, list]:
    with Timeline() as timeline:
        run_ranks(shard_timelines.step_over_slow_link, way, 10)
    of_rank_0 = [s for s in timeline.spans if "rank 0" in str(s.lane)]
    names = {s.name for s in of_rank_0}
    return {name: [s for s in of_rank_0 if s.name == name] for name in names}


def scatters_beside_backward(way: str) -> int:
    """How many of rank 0's scatters travel while one of its layers goes back."""
    spans = spans_of(way)
    return sum(
        any(scatter.start < b.end and b.start < scatter.end for b in spans["backward"])
        for scatter in spans["reduce-scatter"]
    )


@pytest.mark.everything
def test_only_overlapped_does_backward_go_on_while_gradients_travel():
    assert scatters_beside_backward("ZeRO-1") == 0
    assert scatters_beside_backward("ZeRO-2") == 0
    tries = (scatters_beside_backward("ZeRO-2, overlapped") for _ in range(5))
    assert 3 in tries, "all but the last; a busy machine may begin one too late"
