"""Ways to send gradients: replicas stay equal, and nothing is lost for good."""

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from parallel_by_hand.machines import compressed_gradients as compressed
from parallel_by_hand.machines.compressed_gradients import (
    top_k_mean,
    train_over_link,
    wide_digits_network,
)
from sidebyside import load_digits, run_ranks


def train_with_plain_ddp(steps: int) -> torch.Tensor:
    """The oracle: torch's DDP without any hook."""
    rank, model = dist.get_rank(), wide_digits_network()
    replica = DistributedDataParallel(model)
    sgd = torch.optim.SGD(model.parameters(), lr=compressed.RATE_OF_LEARNING)
    images, labels = load_digits("train")
    dice = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        mine = torch.randint(len(images) // 2, (compressed.BATCH,), generator=dice)
        sgd.zero_grad()
        loss = F.cross_entropy(replica(images[rank::2][mine]), labels[rank::2][mine])
        loss.backward()
        sgd.step()
    return parameters_to_vector(model.parameters()).detach()


def test_gradients_sent_as_they_are_train_as_ddp_does():
    plain = run_ranks(train_with_plain_ddp, 16)[0]
    ours = run_ranks(train_over_link, "as they are", 16)[0].parameters
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-5)


def what_is_small_adds_up(rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    gradient, memory = torch.tensor([1.0, 0.3]), torch.zeros(2)
    means = [top_k_mean(gradient, memory, 1) for _ in range(rounds)]
    return torch.stack(means).sum(0), memory


def test_what_error_feedback_holds_back_is_late_and_not_lost():
    sent, memory = run_ranks(what_is_small_adds_up, 10, world_size=2)[0]
    torch.testing.assert_close(sent + memory, torch.tensor([10.0, 3.0]))
    assert sent[1] > 0
