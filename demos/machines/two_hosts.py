"""Two hosts on this Linux machine, without root, and torchrun on both.

Run:      python demos/machines/two_hosts.py --rate 200
Look for: host-a and host-b have names and addresses of their own, and nothing but the
          link between them. The same program, unchanged, trains on both, and learns
          what it learns on one machine. Afterwards nothing is left of the hosts.
Try:      --program demos/machines/roll_call.py --ranks-per-host 2: who is who.
          --latency 2 (ms): an answer now takes 4 ms more, and an epoch has hundreds.
          (It takes ten to twenty seconds.)
"""

import argparse
from pathlib import Path

from parallel_by_hand.machines.hosts import HostsForbidden, two_hosts
from parallel_by_hand.machines.torchrun_on_hosts import (
    TorchrunFailed,
    run_torchrun,
    torchrun_command,
)
from sidebyside import at_least, between, program_parser, run_program

TRAIN = Path(__file__).parents[1] / "ddp" / "train_digits.py"


def existing_program(text: str) -> Path:
    if not text.endswith(".py") or len(text) > 1000 or not Path(text).is_file():
        raise argparse.ArgumentTypeError("must be a Python program that exists")
    return Path(text).resolve()


def main() -> int | None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--rate", type=between(1, 100_000), default=200, help="Mbit/s; default: 200")
    add("--latency", type=between(0, 1000), default=0, help="ms one way; default: 0")
    add("--ranks-per-host", type=at_least(1, 8), default=1)
    add("--program", type=existing_program, help="default: train_digits, one epoch")
    args = parser.parse_args()
    words = [args.program] if args.program else [TRAIN, "--epochs", "1"]
    how = {"ranks_per_host": args.ranks_per_host}
    try:
        with two_hosts(args.rate, args.latency) as hosts:
            for node, host in enumerate(hosts):
                print(f"{host.name} ({host.address}) starts", flush=True)
                command = torchrun_command(hosts, node, *words, **how)
                print("  torchrun " + " ".join(command[3:]))
            for host, said in zip(
                hosts, run_torchrun(hosts, *words, **how), strict=True
            ):
                print(f"{host.name} says")
                print("".join(f"  {line}\n" for line in said.splitlines()), end="")
    except HostsForbidden as problem:
        print(f"no two hosts here: {problem}")
    except TorchrunFailed as problem:
        print(problem)
        return 1
    return None


if __name__ == "__main__":
    run_program(main)
