"""Train on the same samples in batches of different size; count updates and bytes.

Run:      python demos/sgd/batch_size.py --epochs 4
Look for: all rows have seen the same samples. Small batches make many updates and get
          far with them; large ones compute more samples per second. What autograd keeps
          grows by the same number of bytes for each sample.
Try:      --rate 2. Which batch sizes survive it?
"""

import torch

from parallel_by_hand.sgd.batch_size import (
    kept_for_backward,
    loss_along_updates,
    samples_per_second,
)
from parallel_by_hand.sgd.digits_network import digits_here, digits_network
from sidebyside import at_least, between, program_parser, run_program

SIZES = 1, 4, 16, 64, 256, 1415


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--epochs", type=at_least(1, 1000), default=3)
    parser.add_argument("--rate", type=between(0.0001, 100), default=0.2)
    args = parser.parse_args()
    torch.set_num_threads(1)

    images, labels = digits_here("train")
    print(f"{args.epochs} x {len(images):,} samples, learning rate {args.rate}")
    print(
        f"{'batch':>6} {'updates':>8} {'loss':>7} {'kept bytes':>11} {'throughput':>21}"
    )
    for batch in SIZES:
        model = digits_network()
        kept = kept_for_backward(model, images[:batch], labels[:batch])
        speed = samples_per_second(digits_network(), batch)
        updates, _, loss = loss_along_updates(model, batch, args.epochs, args.rate)[-1]
        row = f"{batch:>6} {updates:>8} {loss:>7.3f} {kept:>11,}"
        print(f"{row} {speed:>11,.0f} samples/s")


if __name__ == "__main__":
    run_program(main)
