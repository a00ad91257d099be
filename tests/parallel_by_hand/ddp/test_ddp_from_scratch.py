"""Our DistributedDataParallel trains as one process does, and as torch's."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_processes import replicas_agree
from parallel_by_hand.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    fill_buckets,
    make_ddp_model,
    start_all_reduce,
    train_alone_and_with_ddp,
)
from sidebyside import RankFailed, device, load_digits, run_ranks

TORCHS = nn.parallel.DistributedDataParallel


@pytest.mark.parametrize(
    ("world_size", "bucket_bytes"),
    [(2, 1), (2, 10**9), (3, 2048)],  # one bucket each, one for all
)
def test_ours_is_the_single_process_after_every_step(world_size, bucket_bytes):
    """The uneven last batch included."""
    found = run_ranks(train_alone_and_with_ddp, 23, bucket_bytes, world_size=world_size)
    for rows in found:
        assert [row[0] for row in rows] == [64] * 22 + [7]
        for _, loss_alone, loss_together, difference, equal in rows:
            assert loss_together == pytest.approx(loss_alone, abs=1e-6)
            assert difference <= 1e-6
            assert equal, "replicas are equal bit for bit"


def steps_of_both(between: nn.Module, micro_batches: int) -> list[tuple]:
    """Ours and torch's: other seeds in each rank, a frozen parameter, micro-batches."""
    rank = dist.get_rank()
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))

    def model() -> nn.Module:
        torch.manual_seed(rank)
        made = nn.Sequential(nn.Linear(64, 32), between, nn.Linear(32, 10))
        made[2].bias.requires_grad_(False)
        return copy.deepcopy(made).to(device())

    replicas = [DistributedDataParallel(model(), 2048), TORCHS(model())]
    optimizers = [torch.optim.SGD(r.parameters(), lr=0.1) for r in replicas]
    rows = []
    for step in range(6):
        batch = torch.arange(64 * step, 64 * (step + 1))
        losses = []
        for replica, optimizer in zip(replicas, optimizers, strict=True):
            *quiet, last = batch.chunk(micro_batches)
            for part in quiet:
                with replica.no_sync():
                    mine = part[rank::2]
                    F.cross_entropy(replica(images[mine]), labels[mine]).backward()
            mine = last[rank::2]
            loss = F.cross_entropy(replica(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        ours, torchs = (r.module.state_dict().values() for r in replicas)
        pairs = zip(ours, torchs, strict=True)
        difference = torch.stack([(a - b).abs().max() for a, b in pairs]).max().item()
        equal = replicas_agree(replicas[0])
        rows.append((abs(losses[0] - losses[1]), difference, equal))
    return rows


@pytest.mark.parametrize(
    ("between", "micro_batches"), [(nn.BatchNorm1d(32), 1), (nn.ReLU(), 4)]
)
def test_ours_is_torchs_after_every_step(between, micro_batches):
    for rows in run_ranks(steps_of_both, between, micro_batches):
        for loss, parameters_and_buffers, equal in rows:
            assert loss <= 1e-6
            assert parameters_and_buffers <= 1e-6
            assert equal


def sizes_of(buckets: list[list[nn.Parameter]]) -> list[list[int]]:
    return [[p.nbytes for p in bucket] for bucket in buckets]


def test_buckets_are_filled_from_the_last_parameter_and_none_is_lost():
    parameters = [nn.Parameter(torch.zeros(n)) for n in (25, 2, 3, 25)]
    assert sizes_of(fill_buckets(parameters, 105)) == [[100, 12], [8, 100]]
    assert sizes_of(fill_buckets(parameters, 1)) == [[100], [12], [8], [100]]
    assert sizes_of(fill_buckets(parameters, 10**6)) == [[100, 12, 8, 100]]
    assert fill_buckets([], 105) == []


def messages_of_a_step() -> dict:
    """What travels in a plain backward, inside no_sync, and where gradients live."""
    sent = []

    def count(message: torch.Tensor) -> dist.Work:
        sent.append(message.nbytes)
        return start_all_reduce(message)

    replica = DistributedDataParallel(make_ddp_model(), 2048, all_reduce=count)
    images, labels = (tensor[:8].to(device()) for tensor in load_digits("train"))
    found = {}
    for name in "plain", "again":
        F.cross_entropy(replica(images), labels).backward()
        found[name], sent[:] = list(sent), []
    with replica.no_sync():
        F.cross_entropy(replica(images), labels).backward()
    found["quiet"] = list(sent)
    parameters = list(replica.parameters())
    found["shared"] = len(parameters) - len({p.grad.data_ptr() for p in parameters})
    return found


def test_a_backward_sends_each_bucket_once_and_nothing_inside_no_sync():
    for found in run_ranks(messages_of_a_step):
        assert found["plain"] == found["again"] == [2600, 16640]
        assert found["quiet"] == []
        assert found["shared"] == 0


def leave_out_a_layer() -> None:
    replica = DistributedDataParallel(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]))
    replica.module[1](torch.ones(1, 2, device="cpu")).sum().backward()


def test_a_parameter_without_a_gradient_is_an_error_and_not_a_hang():
    with pytest.raises(RankFailed, match="got no gradient"):
        run_ranks(leave_out_a_layer, timeout=20)


def gradients_by_place(make: Callable) -> list[float]:
    """A gradient of 10 ** rank, with forward and backward inside no_sync or outside."""
    found = []
    for forward, backward in product([False, True], repeat=2):
        replica = make(nn.Linear(1, 1, bias=False))
        with replica.no_sync() if forward else nullcontext():
            loss = replica(torch.full((1, 1), 10.0 ** dist.get_rank())).sum()
        with replica.no_sync() if backward else nullcontext():
            loss.backward()
        found.append(next(replica.parameters()).grad.item())
    return found


@pytest.mark.parametrize("make", [DistributedDataParallel, TORCHS])
def test_the_forward_decides_whether_its_backward_sends(make):
    one, other = run_ranks(gradients_by_place, make)
    assert one == [5.5, 5.5, 1, 1] and other == [5.5, 5.5, 10, 10]
