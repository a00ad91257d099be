"""Sixteen times the batch: scale the learning rate, and warm up, or not?

Run:      python demos/sgd/large_batch.py --base-rate 0.15
Look for: with the small batch's rate the large batch makes too few steps to get far.
          With sixteen times the rate it gets as far, as long as that rate is stable.
          Near the edge a warm-up decides; well below it, it makes no difference.
Try:      --base-rate 0.1. A milder rate: is the warm-up worth anything?
          --base-rate 0.3. Scaled, that is too much: not even the warm-up helps.
"""

import torch

from parallel_by_hand.sgd.digits_network import digits_here
from parallel_by_hand.sgd.large_batch import (
    EPOCHS,
    errors_after_epochs,
    large_batch_rates,
    mean_and_interval,
)
from sidebyside import at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--base-rate", type=between(0.001, 10), default=0.15)
    parser.add_argument("--seeds", type=at_least(2, 100), default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)

    print(f"held-out images answered wrongly after {EPOCHS} epochs, {args.seeds} seeds")
    print(f"{'':<24} {'batch':>6} {'updates':>8} {'wrong in %':>18}")
    for name, (batch, rate) in large_batch_rates(args.base_rate).items():
        mean, half = mean_and_interval(
            errors_after_epochs(batch, [rate], args.seeds)[0]
        )
        updates = EPOCHS * (len(digits_here("train")[0]) // batch)
        print(f"{name:<24} {batch:>6} {updates:>8} {mean:>11.1f} ± {half:.1f}")


if __name__ == "__main__":
    run_program(main)
