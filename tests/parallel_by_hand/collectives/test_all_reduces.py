"""All four ways give the library's sum, in the promised messages."""

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives.all_reduce_costs import (
    WAYS,
    messages_and_bytes,
)
from parallel_by_hand.collectives.all_reduce_four_ways import (
    meter_every_way,
)
from parallel_by_hand.collectives.all_reduces import ALL_REDUCES, ring_all_reduce
from sidebyside import Timeline, consecutive_steps, run_ranks

RANKS = [1, 2, 3, 8]


LENGTHS = [0, 1, 7, 64, 1000]


def sums_of_all_ways() -> dict[tuple, tuple[torch.Tensor, torch.Tensor]]:
    """Runs in each rank: (ours, the library's) for each way, length and type."""
    torch.manual_seed(dist.get_rank())
    pairs = {}
    for way, length in ((way, length) for way in ALL_REDUCES for length in LENGTHS):
        for dtype in (torch.float32, torch.float64):
            ours = torch.randn(length, dtype=dtype)
            library = ours.clone()
            ALL_REDUCES[way](ours)
            dist.all_reduce(library)
            pairs[way, length, dtype] = ours, library
    return pairs


@pytest.mark.parametrize("ranks", RANKS)
def test_every_way_gives_the_librarys_sum_and_the_same_bits_to_all(ranks):
    of_ranks = run_ranks(sums_of_all_ways, world_size=ranks)
    for case, (ours, library) in of_ranks[0].items():
        torch.testing.assert_close(ours, library, msg=str(case))
        assert all(torch.equal(ours, pairs[case][0]) for pairs in of_ranks), case


@pytest.mark.parametrize("ranks", RANKS)
def test_the_meter_finds_the_promised_messages_bytes_and_steps(ranks):
    of_ranks = run_ranks(lambda: list(map(meter_every_way, LENGTHS)), world_size=ranks)
    for place, length in enumerate(LENGTHS):
        meters = {way: [rank[place][way] for rank in of_ranks] for way in WAYS}
        for way in WAYS:
            expected = messages_and_bytes(way, ranks, 4 * length)[0]
            assert consecutive_steps(meters[way]) == expected, (way, length)
        root = meters["root"][0]
        assert root.bytes_sent == root.bytes_received == 4 * (ranks - 1) * length
        for meter in meters["ring"]:
            assert meter.messages_sent == 2 * (ranks - 1)
            if length % ranks == 0:
                assert meter.bytes_sent == 4 * 2 * (ranks - 1) * length // ranks
            assert meter.bytes_sent <= 4 * 2 * (length - length // ranks)


def test_the_timeline_of_a_ring_names_each_chunk_in_both_halves():
    with Timeline() as timeline:
        run_ranks(lambda: ring_all_reduce(torch.ones(3)), world_size=3)
    of_rank_0 = [span.name for span in timeline.spans if span.lane == "rank 0"]
    assert of_rank_0 == ["reduce 0", "reduce 2", "gather 1", "gather 0"]
