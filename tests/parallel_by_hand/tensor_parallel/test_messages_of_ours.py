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
