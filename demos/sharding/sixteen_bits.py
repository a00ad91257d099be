"""Train in 16 bits: what a float32 master copy is for, and scaling the loss.

Run:      python demos/sharding/sixteen_bits.py
Look for: with a master copy bfloat16 learns what float32 learns. Without it, updates
          smaller than half a step of the format are lost. float16 loses gradients
          instead: divided by many parts of a batch, most of them round to zero, unless
          the loss is scaled.
Try:      --lr 0.0001. The smaller the updates, the more of them bfloat16 alone loses.
"""

import argparse

import torch

from parallel_by_hand.sharding.sixteen_bits import FORMATS, train_in_format
from sidebyside import at_least, positive_float, run_program


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", type=at_least(1, 2**20), default=2**16, help="default: 65,536")
    add("--lr", type=positive_float, default=0.0003, help="default: 0.0003")
    add("--epochs", type=at_least(1, 100), default=10, help="default: 10")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"each batch is one part of {args.parts:,}; {args.epochs} epochs of digits")
    print(f"{'':<22} loss  gradients 0  weights that an update leaves as they are")
    for name, format in FORMATS.items():
        found = train_in_format(format, args.parts, args.lr, args.epochs)
        print(f"{name:<22} {found.loss:.2f} {found.zeros:11.0%} {found.unchanged:9.0%}")


if __name__ == "__main__":
    run_program(main)
