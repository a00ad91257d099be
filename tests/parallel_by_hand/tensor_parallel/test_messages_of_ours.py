"""The library's all-reduce carried out by our own messages."""

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, run_ranks


def messages_of_both() -> tuple:
    with messages_of_ours():
        total = torch.ones(4)
        with MessageMeter() as meter:
            dist.all_reduce(total)
    inside = meter.collectives, meter.bytes_sent, total.tolist()
    return inside, dist.all_reduce is not ring_all_reduce


def test_our_messages_replace_the_librarys_and_give_them_back():
    for inside, restored in run_ranks(messages_of_both):
        assert inside == ([], 16, [2.0] * 4) and restored


def maximum_by_ours() -> tuple[torch.Tensor, torch.Tensor, int]:
    mine = torch.randn(6, generator=torch.Generator().manual_seed(dist.get_rank()))
    ours, theirs = mine.clone(), mine.clone()
    with messages_of_ours(), MessageMeter() as meter:
        dist.all_reduce(ours, op=dist.ReduceOp.MAX)
    dist.all_reduce(theirs, op=dist.ReduceOp.MAX)
    return ours, theirs, meter.bytes_sent


def test_our_maximum_is_the_librarys_and_costs_what_a_sum_costs():
    for ours, theirs, sent in run_ranks(maximum_by_ours, world_size=3):
        assert torch.equal(ours, theirs)
        assert sent == 2 * 2 / 3 * 6 * 4


def uneven_rows_by_both() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Rank r sends r rows to itself and to the next rank, and none to the one after."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    to_each, from_each = [0] * world_size, [0] * world_size
    to_each[rank] = to_each[(rank + 1) % world_size] = rank
    before = (rank - 1) % world_size
    from_each[rank], from_each[before] = rank, before
    rows = torch.arange(2.0 * sum(to_each)).view(-1, 2) + 100 * rank
    ours = rows.new_empty(sum(from_each), 2)
    theirs = torch.empty_like(ours)
    dist.all_to_all_single(theirs, rows, from_each, to_each)
    with messages_of_ours(), MessageMeter() as meter:
        dist.all_to_all_single(ours, rows, from_each, to_each)
    return ours, theirs, meter.bytes_sent


def test_our_uneven_all_to_all_is_the_librarys():
    for rank, (ours, theirs, sent) in enumerate(
        run_ranks(uneven_rows_by_both, world_size=3)
    ):
        assert torch.equal(ours, theirs) and sent == rank * 2 * 4
