"""Rings, gathers and exchanges of heads attend as one rank does, there and back."""

import pytest
import torch

from parallel_by_hand.context_parallel import other_ways, ring_attention, seen_keys
from parallel_by_hand.context_parallel.bill_of_ways import bill_of_way
from parallel_by_hand.context_parallel.chunks import DEALS, own_chunks
from sidebyside import run_ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("way", ["ring", "gather", "heads"])
def test_each_way_is_the_whole_attention_in_outputs_and_gradients(way, deal, ranks):
    for bill in run_ranks(bill_of_way, way, deal, 12, 6, 6, world_size=ranks):
        assert bill["output"] < 1e-12 and bill["gradients"] < 1e-12


def test_merging_is_attention_to_both_even_where_exponentials_are_infinite():
    query, key, value = torch.randn(3, 6, 4, dtype=torch.float64)
    query = 5000 * query
    pieces = zip(key.split([2, 4]), value.split([2, 4]), strict=True)
    seen = [seen_keys.attend_to_piece(query, *piece) for piece in pieces]
    expected = seen_keys.attend_to_piece(query, key, value)
    for ours, theirs in zip(seen_keys.merge_seen(*seen), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_chunks_that_see_nothing_have_the_log_sum_of_nothing():
    query, key, value = torch.randn(3, 4, 2)
    mixed, log_sum = seen_keys.attend_to_chunks(query, key, value, (0, 1), (2, 3))
    assert not mixed.any() and (log_sum == -torch.inf).all()


def refusals() -> list[str]:
    refused = []
    query, key = torch.randn(1, 6, 4, 2), torch.randn(1, 3, 4, 2)
    for call in (
        lambda: own_chunks(torch.arange(6), DEALS["zig-zag"], 0),
        lambda: other_ways.attend_by_heads(query, key, key, DEALS["zig-zag"]),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        refused.append(str(caught.value))
    return refused


def test_what_cannot_be_dealt_out_evenly_is_refused():
    for refused in run_ranks(refusals):
        assert refused == [
            "6 positions cannot be cut into 4 equal chunks",
            "6 and 3 heads on 2 ranks",
        ]


def passed() -> list[list[int]]:
    rank = torch.distributed.get_rank()
    numbers = [torch.tensor([rank]), torch.tensor([10 * rank])]
    to_right = ring_attention.pass_on(numbers)
    return [t.item() for t in (*to_right, *ring_attention.pass_on(numbers, to=-1))]


def test_what_is_passed_on_comes_from_the_neighbour():
    assert run_ranks(passed, world_size=3) == [
        [2, 20, 1, 10],
        [0, 0, 2, 20],
        [1, 10, 0, 0],
    ]
