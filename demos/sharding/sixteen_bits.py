"""Train in 16 bits: what a float32 master copy is for, and scaling the loss.

Run:      python demos/sharding/sixteen_bits.py
Look for: with a master copy bfloat16 learns what float32 learns. Without it, updates
          smaller than half a step of the format are lost. float16 loses gradients
          instead: divided by many parts of a batch, most of them round to zero, unless
          the loss is scaled.
Try:      --lr 0.0001. The smaller the updates, the more of them bfloat16 alone loses.
"""

import torch

from parallel_by_hand.sharding.sixteen_bits import FORMATS, train_in_format
from sidebyside import positive_float, program_parser, run_program

PARTS = 2**16


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--lr", type=positive_float, default=0.0003)
    lr = parser.parse_args().lr
    torch.set_num_threads(1)
    print(f"each batch is one part of {PARTS:,}; 10 epochs of digits")
    print(f"{'':<22} loss  gradients 0  weights that an update leaves as they are")
    for name, format in FORMATS.items():
        found = train_in_format(format, PARTS, lr, epochs=10)
        print(f"{name:<22} {found.loss:.2f} {found.zeros:11.0%} {found.unchanged:9.0%}")


if __name__ == "__main__":
    run_program(main)
