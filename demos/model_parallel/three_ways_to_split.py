"""Train a convolutional network on two ranks three ways: by layers, channels and space.

Run:      python demos/model_parallel/three_ways_to_split.py
Look for: all three train the same network: after each step they are within rounding of
          one process. They send and keep very different numbers of bytes.
Try:      --zoom 4: larger images. The split by space sends little more, the others a
          lot more. --maps 64 --batch 4: many channels, few images. Now the split by
          space costs more for the weights' gradients than it saves on the images.
"""

from parallel_by_hand.model_parallel.convolution_cuts import bytes_of_splits
from parallel_by_hand.model_parallel.three_ways_to_split import (
    WAYS,
    NotesOfThreeWays,
    gap_to_one_process,
    train_split,
)
from sidebyside import at_least, program_parser, run_program, run_ranks

HEAD_OF_SPLITS = (
    "              gap   bytes of rank 0 and 1: sent"
    "             parameters       activations kept"
)


def print_split(way: str, parts: list[NotesOfThreeWays], gap: float) -> None:
    """One line: the gap, and the bytes of rank 0 and of rank 1."""
    columns = zip(*((p.sent, p.parameters, p.kept) for p in parts), strict=True)
    cells = "".join(f"{a:>12,}{b:>11,}" for a, b in columns)
    print(f"{way:<9}{gap:>8.0e}{cells}")


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--batch", type=at_least(1, 512), default=64, help="images; default: 64")
    add(
        "--zoom", type=at_least(1, 8), default=1, help="8 pixels times this; default: 1"
    )
    add("--maps", type=at_least(2, 128), default=16, help="even; default: 16")
    args = parser.parse_args()
    if args.maps % 2:
        parser.error(f"argument --maps: two ranks need an even number, not {args.maps}")
    sizes = 10, args.batch, args.zoom, args.maps

    side, channels = 8 * args.zoom, (1, args.maps, args.maps, 10)
    print(f"{args.batch} images of {side} x {side}, channels {channels}")
    print(HEAD_OF_SPLITS)
    one = run_ranks(train_split, "one process", *sizes, world_size=1)[0].history
    predicted = bytes_of_splits(args.batch, channels, side, side)
    for way in WAYS:
        parts = run_ranks(train_split, way, *sizes)
        print_split(way, parts, gap_to_one_process(way, parts, one))
    print(
        "predicted to be sent:", ", ".join(f"{w} {b:,}" for w, b in predicted.items())
    )


if __name__ == "__main__":
    run_program(main)
