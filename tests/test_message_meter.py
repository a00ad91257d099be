"""The meter counts every message of a rank once, to the byte, and changes nothing."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, Work

from sidebyside import MessageMeter, consecutive_steps, run_ranks


def peers() -> tuple[int, int, int, int]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, (rank + 1) % world_size, (rank - 1) % world_size


def every_way_to_send() -> MessageMeter:
    """Five messages from rank 0 to rank 1: each way to send, each way to receive."""
    tensor = torch.zeros(3)
    with MessageMeter() as meter:
        if dist.get_rank() == 0:
            dist.send(tensor, 1)
            dist.isend(tensor, 1).wait()
            dist.send(tensor.double(), 1)
            works = [dist.P2POp(dist.isend, tensor[:n], 1) for n in (0, 2)]
        else:
            dist.recv(tensor, 0)
            dist.irecv(tensor, 0).wait()
            assert dist.recv(tensor.double()) == 0  # from anyone
            works = [dist.P2POp(dist.irecv, tensor[:n], 0) for n in (0, 2)]
        for work in dist.batch_isend_irecv(works):
            work.wait()
    return meter


def test_each_way_to_send_is_counted_once():
    sender, receiver = run_ranks(every_way_to_send)
    assert (sender.messages_sent, sender.messages_received) == (5, 0)
    assert (receiver.messages_sent, receiver.messages_received) == (0, 5)
    assert sender.bytes_sent == receiver.bytes_received == 12 + 12 + 24 + 0 + 8
    assert sender.sent_to == {1: 56}
    assert sender.steps == receiver.steps == 4, "a batch is one step"
    assert consecutive_steps([sender, receiver]) == 5, "a rank sends one at a time"


def ring_at_once() -> MessageMeter:
    _, world_size, right, left = peers()
    with MessageMeter() as meter:
        for _ in range(world_size - 1):
            sending = dist.isend(torch.ones(2), right)
            dist.recv(torch.empty(2), left)
            sending.wait()
    return meter


def ring_in_turn() -> MessageMeter:
    rank, _, right, left = peers()
    with MessageMeter() as meter:
        if rank != 0:
            dist.recv(torch.empty(2), left)
        dist.send(torch.ones(2), right)
        if rank == 0:
            dist.recv(torch.empty(2), left)
    return meter


def all_to_root() -> MessageMeter:
    rank, world_size, _, _ = peers()
    with MessageMeter() as meter:
        if rank:
            dist.send(torch.ones(2), 0)
        else:
            works = [dist.irecv(torch.empty(2), r) for r in range(1, world_size)]
            for work in works:
                work.wait()
    return meter


def test_messages_under_way_together_are_one_step():
    meters = run_ranks(ring_at_once, world_size=3)
    assert [meter.steps for meter in meters] == [2, 2, 2]
    assert consecutive_steps(meters) == 2


def test_a_chain_takes_as_many_steps_as_it_has_messages():
    meters = run_ranks(ring_in_turn, world_size=3)
    assert [meter.steps for meter in meters] == [2, 2, 2], "one rank sees its own two"
    assert consecutive_steps(meters) == 3


def test_a_rank_receives_one_message_in_a_step():
    meters = run_ranks(all_to_root, world_size=4)
    assert [meter.steps for meter in meters] == [1, 1, 1, 1]
    assert consecutive_steps(meters) == 3


def awaited_or_not() -> list[int]:
    counts, tensor, kept = [], torch.ones(1), []
    for is_awaited in (True, False):
        with MessageMeter() as meter:
            if dist.get_rank() == 0:
                kept.append(dist.isend(tensor, 1))
                if is_awaited:
                    kept[0].wait()
            else:
                dist.recv(tensor, 0)
        dist.barrier()  # gloo drops a message whose Work is gone
        counts.append(meter.not_awaited)
    return counts


def test_messages_that_nobody_waits_for_are_counted():
    assert run_ranks(awaited_or_not) == [[0, 1], [0, 0]]


def in_a_group() -> MessageMeter | None:
    rank = dist.get_rank()
    group = dist.new_group([1, 2])
    if rank == 0:
        return None
    with MessageMeter() as meter:
        if rank == 1:
            dist.send(torch.ones(1), group=group, group_dst=1)
        else:
            dist.recv(torch.empty(1), group=group)
    return meter


def test_a_peer_is_named_by_its_rank_among_all():
    _, sender, _ = run_ranks(in_a_group, world_size=3)
    assert sender.sent_to == {2: 4}


def with_collectives() -> tuple[MessageMeter, bool]:
    before = [(c, dict(vars(c))) for c in (ProcessGroup, Work)]
    tensor = torch.ones(2)
    with MessageMeter() as outer:
        dist.all_reduce(tensor)
        with MessageMeter() as inner:
            dist.all_gather([torch.empty(2), torch.empty(2)], tensor)
            dist.broadcast(tensor, 0)
            dist.barrier()
    restored = all(dict(vars(c)) == names for c, names in before)
    assert outer.collectives == ["all_reduce", *inner.collectives]
    return inner, restored


def test_collectives_are_named_and_everything_is_restored():
    for meter, restored in run_ranks(with_collectives):
        assert meter.collectives == ["all_gather", "broadcast", "barrier"]
        assert (meter.messages_sent, meter.steps, restored) == (0, 0, True)


def test_one_end_without_the_other_is_an_error():
    sender, receiver = run_ranks(every_way_to_send)
    receiver.events.pop(0)
    with pytest.raises(ValueError, match="one end only"):
        consecutive_steps([sender, receiver])
