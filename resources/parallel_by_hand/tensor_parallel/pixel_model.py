"""A language model of digits: 17 shades of grey are its words, rows of pixels its text.

The model: an embedding, the transformer block of lessons 14 to 17, and logits by the
same table (tied weights). It predicts the shade of the next pixel.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import (
    ENDS,
    split_block,
    sum_whole_parameters,
)
from parallel_by_hand.tensor_parallel.vocabulary import (
    VocabularyEmbedding,
    vocabulary_cross_entropy,
)
from sidebyside import device, load_digits

SHADES, LENGTH = 17, 32


def pixel_batches(sequences: int, batches: int) -> list[tuple[Tensor, Tensor]]:
    """Pairs of tokens and the tokens that follow them; each (sequences, LENGTH)."""
    images, _ = load_digits("train")
    shades = (16 * images).round().long()[:, 8 : 8 + LENGTH + 1]
    chosen = shades[: sequences * batches].split(sequences)
    return [(tokens[:, :-1], tokens[:, 1:]) for tokens in chosen]


class PixelModel(nn.Module):
    """Embedding, block, logits; whole. `model(tokens, labels)` is the mean loss."""

    def __init__(self, width: int = 32, heads: int = 4):
        super().__init__()
        self.block = make_transformer_block(width, heads)  # sets the seed
        self.words = nn.Embedding(SHADES, width)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, width))
        nn.init.normal_(self.words.weight, std=0.1)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.block(self.words(tokens) + self.places)
        logits = x @ self.words.weight.T
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class SplitPixelModel(nn.Module):
    """The same loss from this rank's words, heads and neurons."""

    def __init__(self, whole: PixelModel, way: str):
        super().__init__()
        self.way, self.ends = way, ENDS[way]
        self.words = VocabularyEmbedding(whole.words, self.ends.leave)
        self.places = nn.Parameter(whole.places.detach().clone())
        self.block = split_block(whole.block, self.ends)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        places = self.places[None]
        if self.way != "tensor":
            places = own_positions(places)
        x = self.block(self.words(tokens) + places)
        logits = self.ends.enter(x, self.words.table, None)  # of this rank's words
        return vocabulary_cross_entropy(logits, labels, self.words.first)


def _gap_to_whole(split: SplitPixelModel, whole: PixelModel) -> float:
    """The largest difference of this rank's parameters from the whole model's parts."""
    expected = SplitPixelModel(whole, split.way).parameters()
    pairs = zip(split.parameters(), expected, strict=True)
    gaps = [(mine - theirs).abs().max() for mine, theirs in pairs]
    return torch.stack(gaps).max().item()


def train_beside_whole(way: str, steps: int = 10) -> tuple[list, list]:
    """Runs in each rank: the pixel model's gap after each step of SGD, and losses."""
    whole = PixelModel().to(device())
    split, gaps, losses = SplitPixelModel(whole, way), [], []
    for tokens, labels in pixel_batches(16, steps):
        for model in (whole, split):
            model.zero_grad()
            loss = model(tokens.to(device()), labels.to(device()))
            loss.backward()
            if model is split and way != "tensor":
                sum_whole_parameters(split)
            torch.optim.SGD(model.parameters(), lr=0.1).step()
        gaps.append(_gap_to_whole(split, whole))
        losses.append(loss.item())
    return gaps, losses
