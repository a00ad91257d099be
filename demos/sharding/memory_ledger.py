"""Print what a rank holds of any transformer: data parallel and the stages of ZeRO.

Run:      python demos/sharding/memory_ledger.py --width 4096 --layers 32 --ranks 64
Look for: the optimiser's numbers are three quarters of the state, so ZeRO-1 saves most.
          No stage shards activations: they depend on the sequences that a rank has.
Try:      --ranks 1024. ZeRO-1 and 2 end at what they leave whole on every rank, ZeRO-3
          does not. Then --precision single: float32 without a copy, FSDP2's default.
"""

import argparse
from typing import NamedTuple

from demos.sharding.parts.ledger import (
    PRECISIONS,
    STRATEGIES,
    StateBytes,
    state_bytes,
)
from sidebyside import at_least
from sidebyside.programs import run_program

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
    return f"{size / 1e9:11,.2f}"


def bar_of_state(state: StateBytes, activations: int, largest: int) -> str:
    """P, G, O and A, as many of each as its share of the largest bar."""
    letters, done, bar = (*state, activations), 0, ""
    for letter, size in zip("PGOA", letters, strict=True):
        done += size
        bar += letter * (round(BAR * done / largest) - len(bar))
    return bar


def print_memory_ledger(
    model: Transformer, ranks: int, sequences: int, precision: str, strategies: tuple
) -> None:
    activations = model.activations(sequences, precision)
    states = {
        name: state_bytes(model.numbers, ranks, name, PRECISIONS[precision])
        for name in strategies
    }
    columns = [*StateBytes._fields, "activations", "total"]
    print(f"{model.numbers:,} parameters, {ranks:,} ranks, GB on each rank")
    print(f"{'':<6}" + "".join(f"{column:>12}" for column in columns))
    for name, state in states.items():
        sizes = *state, activations, state.total + activations
        print(f"{name:<6} " + " ".join(map(gigabytes, sizes)))
    largest = activations + max(state.total for state in states.values())
    print("\nP parameters, G gradients, O optimiser, A activations")
    for name, state in states.items():
        print(f"{name:<6} {bar_of_state(state, activations, largest)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, usual = parser.add_argument, Transformer()
    add("--width", type=at_least(1, 10**6), default=usual.width)
    add("--layers", type=at_least(1, 10**5), default=usual.layers)
    add("--heads", type=at_least(1, 10**4), default=usual.heads)
    add("--vocabulary", type=at_least(1, 10**8), default=usual.vocabulary)
    add("--length", type=at_least(1, 10**8), default=usual.length, help="of a sequence")
    add("--sequences", type=at_least(1, 10**6), default=1, help="of each rank")
    add("--ranks", type=at_least(1, 10**6), default=64)
    add("--precision", choices=PRECISIONS, default="mixed")
    add("--strategy", choices=("all", *STRATEGIES), default="all")
    args = parser.parse_args()
    if args.width % args.heads:
        parser.error(f"argument --heads: {args.width} is no multiple of {args.heads}")
    model = Transformer(
        args.width, args.layers, args.heads, args.vocabulary, args.length
    )
    chosen = STRATEGIES if args.strategy == "all" else (args.strategy,)
    print_memory_ledger(model, args.ranks, args.sequences, args.precision, chosen)


if __name__ == "__main__":
    run_program(main)
