"""A DistributedDataParallel of our own: hooks, buckets, and messages that overlap."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_processes import replicas_agree
from sidebyside import device, load_digits


def start_all_reduce(flat: torch.Tensor, group=None) -> dist.Work | None:
    """Start DDP's sum of `flat` over all ranks; `.wait()` ends when it is done."""
    return dist.all_reduce(flat, group=group, async_op=True)


def fill_buckets(
    parameters: list[nn.Parameter], bucket_bytes: int
) -> list[list[nn.Parameter]]:
    """DDP's buckets, last parameter first: about the order of their gradients."""
    buckets = []
    for parameter in reversed(parameters):
        if not buckets or sum(p.nbytes for p in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


class Bucket:
    """Some parameters of DDP, whose gradients travel together in one flat tensor."""

    def __init__(self, parameters: list[nn.Parameter], group=None):
        self.parameters, self.ranks = parameters, dist.get_world_size(group)
        self.flat = torch.cat([torch.zeros_like(p).flatten() for p in parameters])
        pieces = self.flat.split([p.numel() for p in parameters])  # views, not copies
        self.pieces = [v.view_as(p) for v, p in zip(pieces, parameters, strict=True)]
        self.missing = len(parameters)
        self.work = None

    def start(self, all_reduce: Callable) -> None:
        """Pack the gradients, divided by the number of ranks, and let them travel."""
        for piece, parameter in zip(self.pieces, self.parameters, strict=True):
            torch.div(parameter.grad, self.ranks, out=piece)
        self.work = all_reduce(self.flat)

    def finish(self) -> None:
        """Wait for the sum; its pieces are the gradients from now on."""
        self.work.wait()
        for piece, parameter in zip(self.pieces, self.parameters, strict=True):
            parameter.grad = piece
        self.missing, self.work = len(self.parameters), None


class DistributedDataParallel(nn.Module):
    """`module`, to be trained in every rank on this rank's share of each batch.

    All ranks start from rank 0's parameters and buffers. When `backward` returns, all
    hold the mean of their gradients, so that equal optimisers keep them equal. Each
    gradient is sent once per backward, in buckets, while backward is still running.
    Design: Li et al., PyTorch Distributed, VLDB 2020. One dtype and one device only.
    """

    def __init__(
        self,
        module: nn.Module,
        bucket_bytes: int = 25 * 2**20,
        all_reduce: Callable | None = None,
        group=None,
    ):
        super().__init__()
        self.module, self.group = module, group
        self.all_reduce = all_reduce or partial(start_all_reduce, group=group)
        self.syncing, self.backward_sends = True, True
        self.backward_runs, self.started = False, 0
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), group=group, group_src=0)
        trained = [p for p in module.parameters() if p.requires_grad]
        filled = fill_buckets(trained, bucket_bytes)
        self.buckets = [Bucket(some, group) for some in filled]
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                hook = partial(self._gradient_is_ready, bucket)
                parameter.register_post_accumulate_grad_hook(hook)

    def forward(self, *inputs, **options):
        if torch.is_grad_enabled():
            self.backward_sends = self.syncing  # as in torch, the forward decides
            for buffer in self.module.buffers() if self.syncing else ():
                # such as batch norm's running mean
                dist.broadcast(buffer, group=self.group, group_src=0)
        return self.module(*inputs, **options)

    @contextmanager
    def no_sync(self):
        """The backward of a forward inside adds to gradients, and nothing travels."""
        before, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = before

    def _gradient_is_ready(self, bucket: Bucket, parameter: nn.Parameter) -> None:
        if not self.backward_sends:
            return
        if not self.backward_runs:
            self.backward_runs = True  # the first gradient: call us after the last
            Variable._execution_engine.queue_callback(self._finish)
        bucket.missing -= 1
        waiting = self.buckets[self.started :]
        while waiting and not waiting[0].missing:  # in one order, the same in all ranks
            waiting.pop(0).start(self.all_reduce)
            self.started += 1

    def _finish(self) -> None:
        if self.started < len(self.buckets):
            raise RuntimeError("a parameter got no gradient, so a bucket never left")
        for bucket in self.buckets:
            bucket.finish()
        self.backward_runs, self.started = False, 0


def make_ddp_model(seed: int = 0) -> nn.Module:
    """A small network, the same for equal seeds: 64 pixels in, ten scores out."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device())


def flat_parameters(module: nn.Module) -> torch.Tensor:
    """All parameters of a DDP replica in one vector."""
    return nn.utils.parameters_to_vector(module.parameters()).detach()


def train_alone_and_with_ddp(steps: int, bucket_bytes: int) -> list[tuple]:
    """Runs in each rank: every step once with the whole batch, once with our share.

    For each step: samples, loss alone, loss together, largest difference between the
    two models' parameters, and whether the replicas are equal.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    alone = make_ddp_model()
    together = DistributedDataParallel(make_ddp_model(), bucket_bytes)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (alone, together)]
    rows = []
    for step in range(steps):
        batch = torch.arange(len(images)).split(64)[step % 23]
        mine = batch[rank::world_size]  # perhaps one sample more than another rank has
        loss_alone = F.cross_entropy(alone(images[batch]), labels[batch])
        total = F.cross_entropy(together(images[mine]), labels[mine], reduction="sum")
        loss_together = total / len(batch)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_alone.backward()
        (loss_together * world_size).backward()  # for the mean divides by world_size
        for optimizer in optimizers:
            optimizer.step()
        dist.all_reduce(loss_together.detach_())
        difference = (flat_parameters(alone) - flat_parameters(together)).abs().max()
        losses = loss_alone.item(), loss_together.item()
        agree = replicas_agree(together)
        rows.append((len(batch), *losses, difference.item(), agree))
    return rows
