"""The gradient of a batch from the gradients of its shards: in space, and in time.

Run:      python demos/sgd/gradient_shards.py --sizes 48 16
Look for: weighted by the sizes, the shards' gradients give the batch's gradient, up to
          rounding. Their plain mean does so for equal shards only. It makes no
          difference whether shards are computed side by side or one after the other.
Try:      --sizes 16 16 16 16, and then --sizes 61 1 1 1. With equal shards all agree;
          in the other cut, one sample weighs as much as sixty-one.
"""

import torch

from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from parallel_by_hand.sgd.gradient_shards import (
    cut_into_shards,
    gradients_in_space,
    gradients_in_time,
    weighted_by_size,
)
from sidebyside import Timeline, at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--sizes", type=at_least(1, 100), nargs="+", default=[48, 16])
    sizes = parser.parse_args().sizes
    if len(sizes) > 8:
        parser.error("argument --sizes: must be from 1 to 8 numbers")

    images, labels = digits_here("train")
    for name, number in ("32 bit", torch.float32), ("64 bit", torch.float64):
        model, some = digits_network().to(number), images.to(number)
        shards = cut_into_shards(some, labels, sizes)
        batch = flat_gradient(model, some[: sum(sizes)], labels[: sum(sizes)])
        parts = [flat_gradient(model, *shard) for shard in shards]
        off = (sum(parts) / len(parts) - batch).abs().max()
        weighted_off = (weighted_by_size(parts, sizes) - batch).abs().max()
        print(f"{name}  mean of the shards is off by {off:.1e},", end="  ")
        print(f"the mean weighted by size by {weighted_off:.1e}")
    for compute in gradients_in_space, gradients_in_time:
        with Timeline() as timeline:
            compute(digits_network(), cut_into_shards(images, labels, sizes))
        print(f"\n{compute.__name__} (simulated: each image takes 5 ms)")
        print(timeline.text())


if __name__ == "__main__":
    run_program(main)
