"""A training whose whole state can be saved: it goes on as if it had never stopped."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import digits_here
from sidebyside import device

PARTS = "model", "optimizer", "place", "shuffle", "noise"  # what a snapshot has


class DigitsTraining:
    """Data parallel training on digits: `take_step` is all that changes it.

    All ranks share one order of the images. Each drops neurons of its own, by a
    generator of its own. Momentum, and a learning rate that falls with each epoch, are
    state, too.
    """

    def __init__(self, batch: int = 64, dropout: float = 0.2):
        self.images, self.labels = digits_here("train")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same start in all ranks
            self.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self.model.to(device())
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.2, momentum=0.9, foreach=False
        )
        self.batch, self.dropout = batch, dropout
        self.shuffle = torch.Generator().manual_seed(0)  # draws the order of an epoch
        self.noise = torch.Generator(device()).manual_seed(dist.get_rank())
        self.order = torch.zeros(0, dtype=torch.int64)  # the images of this epoch
        self.used = 0  # how many of them have been used
        self.step = 0

    def next_batch(self) -> Tensor:
        """The images of the next batch, of all ranks; a new order for each epoch."""
        if self.used + self.batch > len(self.order):
            self.order = torch.randperm(len(self.images), generator=self.shuffle)
            self.used = 0
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.9
        self.used += self.batch
        return self.order[self.used - self.batch : self.used]

    def take_step(self) -> float:
        """The loss of the whole batch; each rank computes its share of it."""
        batch = self.next_batch()
        mine = batch[dist.get_rank() :: dist.get_world_size()]
        hidden = self.model[:2](self.images[mine])
        drawn = torch.rand(hidden.shape, generator=self.noise, device=hidden.device)
        hidden = hidden * (drawn >= self.dropout) / (1 - self.dropout)
        answers = self.model[2](hidden)
        loss = F.cross_entropy(answers, self.labels[mine], reduction="sum") / len(batch)
        self.optimizer.zero_grad()
        loss.backward()
        total = loss.detach()
        for tensor in (*(p.grad for p in self.model.parameters()), total):
            dist.all_reduce(tensor)
        self.optimizer.step()
        self.step += 1
        return total.item()

    def parameters(self) -> Tensor:
        """All parameters in one vector, on the CPU: a copy."""
        flat = nn.utils.parameters_to_vector(self.model.parameters())
        return flat.detach().cpu().clone()
