"""How noisy is the gradient of a mini-batch, and how large a batch is worth having?

Run:      python demos/sgd/gradient_noise.py --target 0.6
Look for: four times the batch, half the noise. The noise scale comes from gradients of
          8 and of 64 images alone. The last table tests it: below the noise scale a
          larger batch saves updates in proportion, far above it saves next to none.
Try:      --target 0.25. Nearer to the optimum the gradient is small and the noise is
          not: the noise scale grows, and so does the batch that is worth having.
"""

import torch

from parallel_by_hand.sgd.digits_network import digits_network
from parallel_by_hand.sgd.gradient_noise import (
    fewest_updates,
    fit_knee,
    gradient_spread,
    noise_scale_from_two_sizes,
    squared_norms_in_training,
)
from sidebyside import between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--target", type=between(0.2, 2), default=0.6, help="loss to reach")
    target = parser.parse_args().target
    torch.set_num_threads(1)

    print(f"{'batch':>6} {'spread of its gradient':>23}")
    for batch in 1, 4, 16, 64, 256:
        print(f"{batch:>6} {gradient_spread(digits_network(), batch):>23.3f}")
    print("\nsimple noise scale on the way, from batches of 8 and of 64")
    for rate in 0.5, 1.0:
        squares = squared_norms_in_training(rate, target)
        scale = noise_scale_from_two_sizes(8, squares[0], 64, squares[1])
        print(f"  learning rate {rate}: {scale:.0f}")
    header = f"{'batch':>6} {'best rate':>10} {f'updates to a loss of {target}':>27}"
    print(f"\n{header}", flush=True)
    tuned = fewest_updates(target, (4, 16, 64, 256, 1415))
    for batch, (count, rate) in tuned.items():
        print(f"{batch:>6} {rate:>10} {count:>27.0f}")
    updates = {batch: count for batch, (count, _) in tuned.items()}
    print(f"the knee is at a batch of {fit_knee(updates)[1]:.0f}")


if __name__ == "__main__":
    run_program(main)
