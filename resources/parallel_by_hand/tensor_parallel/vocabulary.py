"""A vocabulary split over ranks: the embedding, and a loss without whole logits."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportOptionalOperand=false

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel.conjugates import sum_over_ranks
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.split_layers import (
    GatherColumns,
    own_part,
)
from sidebyside import MessageMeter, device


def first_own_word(words: int) -> int:
    """This rank's first word, where `own_part` cuts the vocabulary."""
    return int(own_part(torch.arange(words), 0)[0])


def look_up_own_words(table: Tensor, tokens: Tensor, first: int) -> Tensor:
    """The rows of this rank's words; zeros for words that other ranks hold."""
    mine = (tokens >= first) & (tokens < first + len(table))
    rows = F.embedding((tokens - first) * mine, table)  # words of others: row 0
    return rows * mine[..., None]


class VocabularyEmbedding(nn.Module):
    """This rank's rows of an embedding; gives the whole embedding of any token."""

    def __init__(self, whole: nn.Embedding, leave=sum_over_ranks):
        super().__init__()
        self.table = nn.Parameter(own_part(whole.weight, 0))
        self.first, self.leave = first_own_word(len(whole.weight)), leave

    def forward(self, tokens: Tensor) -> Tensor:
        return self.leave(look_up_own_words(self.table, tokens, self.first))


def vocabulary_cross_entropy(logits: Tensor, labels: Tensor, first: int) -> Tensor:
    """The mean loss over all positions, from this rank's columns of the logits.

    Shapes: logits (..., own words), labels (...). Hands three numbers for each position
    to all-reduces, and nothing backward: the gradient of a logit needs its own softmax
    only. Source: Shoeybi et al., Megatron-LM, 2019.
    """
    largest = logits.detach().amax(-1)  # of each position; no gradient flows through
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    shifted = logits - largest[..., None]
    mine = (labels >= first) & (labels < first + logits.shape[-1])
    place = ((labels - first) * mine)[..., None]
    of_label = sum_over_ranks(shifted.gather(-1, place)[..., 0] * mine)
    total = sum_over_ranks(shifted.exp().sum(-1))
    return (total.log() - of_label).mean()


def gathered_cross_entropy(logits: Tensor, labels: Tensor, first: int) -> Tensor:
    """The obvious way: every rank gets all logits. All hold equally many words."""
    whole = GatherColumns.apply(logits)
    return F.cross_entropy(whole.flatten(0, -2), labels.flatten())


LOSSES = {"gathered": gathered_cross_entropy, "parallel": vocabulary_cross_entropy}


def meter_loss(way: str, words: int, positions: int, scale: float = 1.0) -> dict:
    """Runs in each rank: bytes sent, counted as 32 bits, and gaps to the whole loss."""
    torch.manual_seed(0)  # the same logits and labels on every rank
    logits = scale * torch.randn(positions, words, dtype=torch.float64)
    whole = logits.to(device()).requires_grad_()
    labels = torch.randint(words, (positions,)).to(device())
    expected = F.cross_entropy(whole, labels)
    expected.backward()
    part = own_part(whole, 1).requires_grad_()
    with messages_of_ours(), MessageMeter() as meter:
        loss = LOSSES[way](part, labels, first_own_word(words))
        loss.backward()
    return {
        "bytes": meter.bytes_sent // 2,
        "loss": abs(loss - expected).item(),
        "gradient": (part.grad - own_part(whole.grad, 1)).abs().max().item(),
    }
