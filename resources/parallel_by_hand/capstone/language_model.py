"""A small transformer that guesses the next character, built from lesson 14's block."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.capstone.text_batches import text_alphabet
from parallel_by_hand.experts.expert_layer import ExpertLayer
from parallel_by_hand.model_parallel.transformer_block import AttentionHalf, MLPHalf


class ModelSize(NamedTuple):
    """How large the model is; `length` is the most characters that it looks back."""

    width: int = 32
    heads: int = 4
    blocks: int = 2
    length: int = 16
    experts: int = 0  # in place of each MLP, and a token visits two of them; 0: none


SMALL_MODEL = ModelSize()  # 31,184 parameters


class TextEmbedding(nn.Module):
    """For each token a vector for what it is, plus one for where it stands."""

    def __init__(self, words: int, length: int, width: int):
        super().__init__()
        self.words = nn.Parameter(torch.randn(words, width) * 0.1)
        self.places = nn.Parameter(torch.randn(length, width) * 0.1)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Shapes: (batch, positions) to (batch, positions, width).

        `first` is the place of the first of these tokens, if others hold those before.
        """
        places = self.places[first : first + tokens.shape[1]]
        return F.embedding(tokens, self.words) + places


class TextHead(nn.Module):
    """The scores of all characters for each position, one row each: for the loss."""

    def __init__(self, width: int, words: int):
        super().__init__()
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.norm(x.flatten(0, 1)))


def make_language_model(
    size: ModelSize = SMALL_MODEL, dtype=torch.float32, seed: int = 0
) -> nn.Sequential:
    """The embedding, the halves of all blocks, the head: the same in every process."""
    torch.manual_seed(seed)
    words = len(text_alphabet())
    halves: list[nn.Module] = []
    for _ in range(size.blocks):
        halves.append(AttentionHalf(size.width, size.heads))
        if size.experts:
            halves.append(ExpertLayer(size.width, size.width, size.experts, k=2))
        else:
            halves.append(MLPHalf(size.width))
    embedding = TextEmbedding(words, size.length, size.width)
    head = TextHead(size.width, words)
    return nn.Sequential(embedding, *halves, head).to(dtype)


def text_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """The language model's mean cross entropy, in nats for each character."""
    return F.cross_entropy(scores, targets.flatten())
