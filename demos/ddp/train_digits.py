"""Train a network on handwritten digits: alone, with torch's DDP, or with ours.

Run:      python demos/ddp/train_digits.py --mode ddp --ranks 2
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/ddp/train_digits.py --mode ours   (one line)
Look for: all modes and all numbers of ranks learn the same: each batch is dealt to the
          ranks, and the weights make up for shares of different size.
Try:      --epochs 500 --checkpoint digits.pt, interrupt it, and run it again: it goes
          on where it stopped, also in another mode and with other ranks.
          Under torchrun, a rank that gets the signal SIGUSR1 warns them all: they
          finish their epoch, save, and end. resources/slurm has a job that uses it.
"""

import argparse
import os

from parallel_by_hand.ddp.train_digits import (
    WRAPPERS,
    report_digits_training,
    train_digits_replica,
    why_not_train_digits_on,
)
from sidebyside import (
    at_least,
    positive_float,
    positive_int,
    program_parser,
    run_program,
    run_ranks,
)
from sidebyside.programs.arguments import output_file


def parse_digits_arguments() -> argparse.Namespace:
    """The arguments, once everything that can be wrong with them is ruled out."""
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--mode", choices=WRAPPERS, default="ours", help="default: ours")
    add("--ranks", type=at_least(1, 64), help="default: 2, and 1 for --mode single")
    add("--epochs", type=positive_int, default=20, help="default: 20")
    add("--batch", type=positive_int, default=64, help="of all ranks; default: 64")
    add("--lr", type=positive_float, default=0.1, help="default: 0.1")
    add("--checkpoint", type=output_file, metavar="FILE", help="to go on from")
    add("--save-every", type=positive_int, default=1, metavar="EPOCHS")
    args = parser.parse_args()
    started = int(os.environ.get("WORLD_SIZE", 0))  # by torchrun
    if started and args.ranks not in (None, started):
        parser.error(f"argument --ranks: torchrun has started {started}, leave it out")
    args.ranks = started or args.ranks or (1 if args.mode == "single" else 2)
    if args.mode == "single" and args.ranks != 1:
        parser.error("argument --ranks: must be 1 with --mode single")
    if problem := why_not_train_digits_on(args):
        parser.error(f"argument --checkpoint: {problem}")
    return args


def main() -> None:
    args = parse_digits_arguments()
    with report_digits_training(args.checkpoint) as report:
        results = run_ranks(
            train_digits_replica, args, report, world_size=args.ranks, timeout=3600
        )
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank is here
        last = results[0]
        if last["epoch"] < args.epochs:
            print("warned; the same command goes on from the checkpoint")
            return
        print(
            f"{args.mode}, ranks: {args.ranks}, epochs: {last['epoch']}, "
            f"loss {last['loss']:.6f}, held-out accuracy {last['accuracy']:.4f}"
        )


if __name__ == "__main__":
    run_program(main)
