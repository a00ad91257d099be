"""The library's all-reduce carried out by our own messages."""

import pytest
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
        with pytest.raises(ValueError, match="group must be None"):
            dist.all_reduce(total, group=dist.group.WORLD)
    inside = meter.collectives, meter.bytes_sent, total.tolist()
    return inside, dist.all_reduce is not ring_all_reduce


def test_our_messages_replace_the_librarys_and_give_them_back():
    for inside, restored in run_ranks(messages_of_both):
        assert inside == ([], 16, [2.0] * 4) and restored
