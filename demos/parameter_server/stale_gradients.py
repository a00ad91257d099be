"""How large may a step be when the gradient is old? A theorem, found by trying.

Run:      python demos/parameter_server/stale_gradients.py --curvature 2
Look for: found and predicted agree within 1 %. A delay of one halves the largest stable
          step, and from then on it falls about as 1 / delay.
Try:      --delays 32 64: is the step halved again when the delay doubles?
"""

from parallel_by_hand.parameter_server.stale_gradients import (
    found_stable_step,
    predicted_stable_step,
)
from sidebyside import at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--curvature", type=between(0.001, 1000), default=1.0)
    add("--delays", type=at_least(0, 64), nargs="+", default=[0, 1, 2, 4, 8, 16])
    args = parser.parse_args()
    print("delay   found  predicted   apart")
    for delay in args.delays:
        found = found_stable_step(args.curvature, delay)
        predicted = predicted_stable_step(args.curvature, delay)
        apart = 100 * (found / predicted - 1)
        print(f"{delay:5} {found:7.4f} {predicted:10.4f} {apart:+6.2f} %")


if __name__ == "__main__":
    run_program(main)
