"""Save a sharded training from some ranks, and go on with others.

Run:      python demos/sharding/checkpoint_resharding.py
Look for: four ranks train and write a checkpoint, one file each. Two ranks read it, cut
          everything anew, and go on: their losses are those of a training that nobody
          interrupted, up to rounding.
Try:      --damage torn, a file that ends too early, or --damage foreign, a checkpoint
          of another model: both are refused in one sentence. --readers 3 also works.
"""

import tempfile
from pathlib import Path

from parallel_by_hand.sharding.checkpoint_resharding import (
    WIDTH,
    damage_checkpoint,
    train_sharded,
)
from sidebyside import RankFailed, at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--writers", type=at_least(1, 8), default=4)
    parser.add_argument("--readers", type=at_least(1, 8), default=2)
    parser.add_argument("--damage", choices=["none", "torn", "foreign"], default="none")
    args = parser.parse_args()
    if 24 % args.writers or 24 % args.readers:
        parser.error("--writers and --readers must divide the batch of 24")
    with tempfile.TemporaryDirectory() as folder:
        width = WIDTH * (1 + (args.damage == "foreign"))
        wrote = folder, 0, 6, 3, width
        whole = run_ranks(train_sharded, *wrote, world_size=args.writers)[0]
        for path in sorted(Path(folder).iterdir()):
            print(f"{path.name:<14} {path.stat().st_size:9,} bytes")
        if args.damage == "torn":
            damage_checkpoint(folder)
        try:
            read = folder, 3, 6
            losses = run_ranks(train_sharded, *read, world_size=args.readers)[0]
        except RankFailed as failure:
            return print("refused:", str(failure).splitlines()[0])
    print("step  not interrupted   went on")
    for step, (alone, after) in enumerate(zip(whole[3:], losses, strict=True), 4):
        print(f"{step:4} {alone:16.6f} {after:9.6f}")


if __name__ == "__main__":
    run_program(main)
