"""Train over a slow link: gradients as they are, compressed, or sent less often.

Run:      python demos/machines/compressed_gradients.py --rate 200
Look for: bytes, seconds per step and loss, side by side. 16 bits halve the bytes and
          cost no loss here. PowerSGD and top-k send a few per cent. Top-k that forgets
          what it did not send learns less. Local SGD sends all, every eighth step.
Try:      --rate 2000 (Mbit/s): bytes cost a tenth, packing costs what it did.
          (It takes ten to twenty seconds.)
"""

from parallel_by_hand.machines.compressed_gradients import (
    EVERY,
    WAYS_TO_SEND,
    describe_training,
    train_over_link,
)
from parallel_by_hand.machines.two_machines import TwoMachines
from sidebyside import at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--rate", type=between(10, 10_000), default=200, help="Mbit/s")
    parser.add_argument("--steps", type=at_least(2 * EVERY, 1000), default=24)
    args = parser.parse_args()
    with TwoMachines(args.rate) as machines:
        print(f"{machines}; one rank on each, {args.steps} steps")
        print("gradients       bytes per step   time per step   loss")
        for way in WAYS_TO_SEND:
            work = way, args.steps
            found = machines.run_ranks(train_over_link, *work, per_machine=1)
            print(describe_training(way, found[0]), flush=True)


if __name__ == "__main__":
    run_program(main)
