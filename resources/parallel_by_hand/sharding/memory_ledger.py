"""The size of a transformer, and what a rank holds of it."""

from typing import NamedTuple

from parallel_by_hand.sharding.ledger import StateBytes

# Bytes of activations of a layer: s b h (first + second * a s / h), of which one byte
# in 34 numbers and one in 5 is a mask of dropout. Korthikanti et al. 2022, section 4.1.
KEPT = {"mixed": (34, 5), "single": (66, 9)}
BAR = 60  # letters of the longest bar


class Transformer(NamedTuple):
    """A GPT-like model; output and input share one embedding."""

    width: int = 4096
    layers: int = 32
    heads: int = 32
    vocabulary: int = 32_000
    length: int = 2048

    @property
    def numbers(self) -> int:
        """Parameters: 12 h^2 + 13 h in a layer, two embeddings, a last norm."""
        layer = 12 * self.width**2 + 13 * self.width
        return self.layers * layer + (self.vocabulary + self.length + 2) * self.width

    def activations(self, sequences: int, precision: str = "mixed") -> int:
        """Bytes kept for backward by the layers of a rank with so many sequences."""
        first, second = KEPT[precision]
        tokens = self.length * sequences
        each = first * self.width + second * self.heads * self.length
        return self.layers * tokens * each


def gigabytes(size: float) -> str:
    """A cell of the memory ledger."""
    return f"{size / 1e9:11,.2f}"


def bar_of_state(state: StateBytes, activations: int, largest: int) -> str:
    """The memory ledger's bar of P, G, O and A, as many of each as its share."""
    letters, done, bar = (*state, activations), 0, ""
    for letter, size in zip("PGOA", letters, strict=True):
        done += size
        bar += letter * (round(BAR * done / largest) - len(bar))
    return bar
