"""Kill a rank, a host's agent or the link while digits are trained, and go on.

Run:      python demos/failures/kill_and_resume.py --ranks 2
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2 --max-restarts 3
              demos/failures/kill_and_resume.py --folder .   (one line; with
              TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, as own_resumable.py says)
Look for: the last rank is killed after step 25. The agent, ours or torchrun's, starts
          all ranks again, and they go on from the last checkpoint. In the end every
          parameter is that of a training that nobody interrupted, bit for bit.
Try:      --elastic: one rank fewer goes on, equal up to rounding. On Linux, with two
          hosts made of namespaces (a minute each): --failure agent, rendezvous, link.
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch

from parallel_by_hand.failures.own_agent import run_with_restarts
from parallel_by_hand.failures.resumed_digits import (
    Run,
    train_through_accidents,
    trained_parameters,
)
from sidebyside import at_least, between, program_parser, run_program

FAILURES = "worker", "agent", "rendezvous", "link"


def compare_with_uninterrupted(ranks: int, run: Run, elastic: bool) -> None:
    """Train twice, with and without the accident, and print what became of it."""
    found = []
    for accidents in {}, run.accidents:
        with tempfile.TemporaryDirectory() as folder:
            tried = run._replace(folder=Path(folder), accidents=accidents)
            train = train_through_accidents
            restarts = run_with_restarts(train, ranks, tried, elastic=elastic)
            print("with a kill" if accidents else "without a kill")
            print(*(f"  {life}" for life in tried.lives), sep="\n")
            found.append(trained_parameters(tried))
    gap = (found[0] - found[1]).abs().max().item()
    lost = min(run.accidents.values())[1] % run.every
    print(f"{restarts} restart, {lost} steps lost and made again")
    equal = "equal, bit for bit" if gap == 0 else f"at most {gap:.0e} apart"
    print(f"parameters of both: {equal}")


def be_a_rank(args: argparse.Namespace) -> None:
    from parallel_by_hand.failures.failing_hosts import be_a_rank_of_torchrun

    last = int(os.environ["WORLD_SIZE"]) - 1
    accidents = {} if args.failure != "worker" else {0: (last, args.kill_at)}
    be_a_rank_of_torchrun(run_of(args)._replace(accidents=accidents), args.limit)


def run_of(args: argparse.Namespace) -> Run:
    nap = 0 if args.failure == "worker" else 0.2
    run = Run(args.folder, args.steps, args.every, dropout=0.2 * (not args.elastic))
    return run._replace(accidents={0: (args.ranks - 1, args.kill_at)}, nap=nap)


def existing_folder(text: str) -> Path:
    if not text or not Path(text).is_dir():
        raise argparse.ArgumentTypeError("must be a folder that exists")
    return Path(text)


def parse_arguments() -> argparse.Namespace:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--failure", choices=list(FAILURES), default="worker")
    add("--ranks", type=at_least(1, 16), default=2)
    add("--steps", type=at_least(1, 10_000), default=40)
    add("--every", type=at_least(1, 10_000), default=10, help="steps to a checkpoint")
    add("--kill-at", type=at_least(0, 10_000), default=25, metavar="STEP")
    add("--elastic", action="store_true", help="go on with one rank fewer, no dropout")
    add("--limit", type=between(1, 600), default=10, help="seconds of a collective")
    add("--heal", type=between(0, 600), default=0, help="seconds until a link is back")
    add("--folder", type=existing_folder, help="under torchrun: for checkpoint and log")
    args = parser.parse_args()
    if args.kill_at >= args.steps:
        parser.error("argument --kill-at: must be smaller than --steps")
    if args.elastic and args.ranks == 1:
        parser.error("argument --ranks: must be 2 or more with --elastic")
    started = "TORCHELASTIC_RUN_ID" in os.environ
    if started and args.folder is None:
        parser.error("argument --folder: torchrun's ranks need one")
    return args


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(1)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return be_a_rank(args)
    if args.failure == "worker":
        return compare_with_uninterrupted(args.ranks, run_of(args), args.elastic)
    from parallel_by_hand.failures.failing_hosts import train_on_failing_hosts
    from parallel_by_hand.machines.hosts import why_no_hosts

    if problem := why_no_hosts():
        return print(f"no two hosts here: {problem}")
    with tempfile.TemporaryDirectory() as folder:
        args.folder = Path(folder)
        options = "--failure", args.failure, "--folder", folder, "--limit", args.limit
        options += "--steps", args.steps, "--every", args.every
        mend = args.heal if args.failure == "link" else 0
        train_on_failing_hosts(__file__, args.failure, mend, run_of(args), *options)


if __name__ == "__main__":
    run_program(main)
