"""Each rank says where it is, and what torchrun has told it. It needs no torch.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/machines/roll_call.py
Look for: RANK counts all ranks, LOCAL_RANK those of one machine, GROUP_RANK the
          machines. All ranks have the same WORLD_SIZE, and the same address to meet at.
Try:      python demos/machines/two_hosts.py --program demos/machines/roll_call.py
          Now LOCAL_RANK 0 is there twice, and RANK 0 once.
"""

import os
import socket

from sidebyside import program_parser, run_program

SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
MEETING = ("MASTER_ADDR", "MASTER_PORT")


def main() -> None:
    parser = program_parser(__doc__)
    parser.parse_args()
    words = [f"{name} {os.environ.get(name, '-')}" for name in SET_BY_TORCHRUN]
    meeting = ":".join(os.environ.get(name, "-") for name in MEETING)
    line = f"{socket.gethostname()}: {', '.join(words)}, meet at {meeting}\n"
    if "RANK" not in os.environ:
        line += "This is one process alone: start it with torchrun, as --help says.\n"
    os.write(1, line.encode())  # in one piece, for several ranks share the output


if __name__ == "__main__":
    run_program(main)
