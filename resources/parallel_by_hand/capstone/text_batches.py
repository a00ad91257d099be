"""Moby-Dick as numbers: a token for each character, and the batches that all train on.

A batch depends on the seed and on its number only: whoever trains, in however many
processes, gets the same one, and a training that is resumed can begin at any step.
"""

from collections.abc import Iterator
from functools import cache
from itertools import count

import torch
from torch import Tensor

from sidebyside import load_moby_dick


@cache
def text_alphabet() -> str:
    """The 80 characters of the text in their order; a token is a place in it."""
    return "".join(sorted(set(load_moby_dick())))


def encode_text(text: str) -> Tensor:
    """A token for each character; int64, shape (characters,)."""
    places = {character: place for place, character in enumerate(text_alphabet())}
    return torch.tensor([places[character] for character in text])


def decode_text(tokens: Tensor) -> str:
    """The characters of some tokens."""
    return "".join(text_alphabet()[token] for token in tokens.tolist())


@cache
def text_tokens(part: str = "train") -> Tensor:
    """All tokens of "train" or of "test". Nobody may write into them."""
    return encode_text(load_moby_dick(part))


def text_batch(
    step: int, seed: int = 0, batch: int = 8, length: int = 16
) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one step, each of the shape (batch, length)."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + step)
    text = text_tokens("train")
    starts = torch.randint(len(text) - length, (batch, 1), generator=generator)
    excerpts = text[starts + torch.arange(length + 1)]
    return excerpts[:, :-1], excerpts[:, 1:]


def text_batches(
    seed: int = 0, batch: int = 8, length: int = 16, first: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches from step `first` on, without end."""
    for step in count(first):
        yield text_batch(step, seed, batch, length)
