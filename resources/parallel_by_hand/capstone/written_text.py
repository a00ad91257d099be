"""How well a model predicts a text, and what it writes by itself."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.capstone.text_baselines import numbered_contexts
from parallel_by_hand.capstone.text_batches import decode_text, encode_text, text_tokens

BEGINNING = "The whale "


@torch.no_grad()
def held_out_bits(model: nn.Module, length: int, tokens: Tensor | None = None) -> float:
    """Bits per character of the held-out text: the mean of -log2 of the chance given.

    The text is cut into excerpts of `length` characters, and each is predicted from
    those before it in its excerpt: the first from one, the last from `length`.
    """
    tokens = text_tokens("test") if tokens is None else tokens
    excerpts = (len(tokens) - 1) // length
    inputs = tokens[: excerpts * length].view(excerpts, length)
    targets = tokens[1 : excerpts * length + 1].view(excerpts, length)
    nats = sum(
        F.cross_entropy(model(some), goals.flatten(), reduction="sum").item()
        for some, goals in zip(inputs.split(256), targets.split(256), strict=True)
    )
    return nats / targets.numel() / math.log(2)


@torch.no_grad()
def write_text(
    model: nn.Module,
    length: int,
    characters: int = 200,
    temperature: float = 0.8,
    beginning: str = BEGINNING,
    seed: int = 0,
) -> str:
    """`beginning`, and what the model writes after it, one character at a time."""
    generator = torch.Generator().manual_seed(seed)
    tokens = encode_text(beginning)
    for _ in range(characters):
        scores = model(tokens[None, -length:])[-1] / temperature
        drawn = torch.multinomial(scores.softmax(0), 1, generator=generator)
        tokens = torch.cat([tokens, drawn])
    return decode_text(tokens)


def write_from_counts(
    table: Tensor, characters: int = 200, beginning: str = BEGINNING, seed: int = 0
) -> str:
    """Written by a table of contexts, as `next_character_table` gives it."""
    generator = torch.Generator().manual_seed(seed)
    tokens, words = encode_text(beginning), table.shape[1]
    context = round(math.log(len(table), words))  # characters in one
    for _ in range(characters):
        last = tokens[len(tokens) - context :]
        row = table[numbered_contexts(last, words, context)[0]] if context else table[0]
        tokens = torch.cat([tokens, torch.multinomial(row, 1, generator=generator)])
    return decode_text(tokens)
