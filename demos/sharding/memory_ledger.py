"""Print what a rank holds of any transformer: data parallel and the stages of ZeRO.

Run:      python demos/sharding/memory_ledger.py --width 4096 --layers 32 --ranks 64
Look for: the optimiser's numbers are three quarters of the state, so ZeRO-1 saves most.
          No stage shards activations: they depend on the sequences that a rank has.
          They include attention's scores, which a fused attention does not keep.
Try:      --ranks 1024. ZeRO-1 and 2 end at what they leave whole on every rank, ZeRO-3
          does not. Then --precision single: float32 without a copy, FSDP2's default.
"""

from parallel_by_hand.sharding.ledger import (
    PRECISIONS,
    STRATEGIES,
    StateBytes,
    state_bytes,
)
from parallel_by_hand.sharding.memory_ledger import Transformer, bar_of_state, gigabytes
from sidebyside import at_least, program_parser, run_program


def print_memory_ledger(
    model: Transformer, ranks: int, sequences: int, precision: str
) -> None:
    activations = model.activations(sequences, precision)
    states = {
        name: state_bytes(model.numbers, ranks, name, PRECISIONS[precision])
        for name in STRATEGIES
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
    parser = program_parser(__doc__)
    add, usual = parser.add_argument, Transformer()
    add("--width", type=at_least(1, 10**6), default=usual.width)
    add("--layers", type=at_least(1, 10**5), default=usual.layers)
    add("--heads", type=at_least(1, 10**4), default=usual.heads)
    add("--vocabulary", type=at_least(1, 10**8), default=usual.vocabulary)
    add("--length", type=at_least(1, 10**8), default=usual.length, help="of a sequence")
    add("--sequences", type=at_least(1, 10**6), default=1, help="of each rank")
    add("--ranks", type=at_least(1, 10**6), default=64)
    add("--precision", choices=PRECISIONS, default="mixed")
    args = parser.parse_args()
    if args.width % args.heads:
        parser.error(f"argument --heads: {args.width} is no multiple of {args.heads}")
    model = Transformer(
        args.width, args.layers, args.heads, args.vocabulary, args.length
    )
    print_memory_ledger(model, args.ranks, args.sequences, args.precision)


if __name__ == "__main__":
    run_program(main)
