"""What a model of text must beat: single characters, pairs and triples, counted.

Shannon (1951) asked how well the next letter can be guessed from those before it. The
measure is bits per character: the mean of -log2 of the probability that the model gave
to the character that came.
"""

import torch

NAMES = "uniform", "single characters", "pairs", "triples"
SMOOTHING = 5.0


def next_character_table(
    text: torch.Tensor, characters: int, order: int, smoothing: float = SMOOTHING
) -> torch.Tensor:
    """A baseline: the chance of each character (column) after each context (row).

    A context is the `order` - 1 characters before, read as a number with `characters`
    digits; order 0 is uniform. Counts alone would give 0 to what was never seen. So
    each context behaves as if `smoothing` more characters had followed it, distributed
    as the next shorter context says (MacKay and Peto, 1995).
    `characters` ** `order` numbers of 8 bytes: 4 MB for triples of 80 characters.
    """
    if order == 0:
        return torch.full((1, characters), 1 / characters, dtype=torch.float64)
    shorter = next_character_table(text, characters, order - 1, smoothing)
    contexts = characters ** (order - 1)
    seen = torch.bincount(
        numbered_contexts(text, characters, order), minlength=contexts * characters
    ).view(contexts, characters)
    backed = shorter.repeat(contexts // len(shorter), 1)
    return (seen + smoothing * backed) / (seen.sum(1, keepdim=True) + smoothing)


def numbered_contexts(text: torch.Tensor, characters: int, length: int) -> torch.Tensor:
    """For the baselines: each run of `length` characters, as one number, in order."""
    numbers = torch.zeros(max(0, len(text) - length + 1), dtype=torch.int64)
    for place in range(length):
        numbers = numbers * characters + text[place : place + len(numbers)]
    return numbers


def bits_of_counts(
    text: torch.Tensor, held_out: torch.Tensor, characters: int, order: int
) -> float:
    """A baseline's bits per character of `held_out`, with what was counted in `text`.

    Both are int64 numbers of characters. The first three characters are not asked for,
    so that all orders up to 4 predict the same ones.
    """
    table = next_character_table(text, characters, order).view(-1)
    asked = numbered_contexts(
        held_out[3 - max(0, order - 1) :], characters, max(order, 1)
    )
    chances = table[asked] if order else table[:1].expand(len(asked))
    return -chances.log2().mean().item()
