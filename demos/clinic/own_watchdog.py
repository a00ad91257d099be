"""A training that says where it is when it gets stuck, with nothing but torch.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/clinic/own_watchdog.py --stuck 1   (one line)
Look for: each rank writes its stacks and ends, two seconds after its last step. Rank 0
          is in all_reduce; rank 1 is on the line where it is stuck.
Try:      no --stuck: all is well, and the watchdog says nothing.
"""

import argparse
import faulthandler
import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist

ENOUGH = 2  # seconds for a step; minutes, where steps and checkpoints take longer


def rank_number(text: str) -> int:
    if not (text.isdigit() and len(text) < 5):
        raise argparse.ArgumentTypeError("must be the number of a rank, 0 to 9999")
    return int(text)


def train(stuck: int | None, steps: int = 5) -> float:
    """What all ranks have summed up; rank `stuck` hangs in the fourth step."""
    total = torch.zeros(1)
    for step in range(steps):
        faulthandler.dump_traceback_later(ENOUGH, exit=True)  # from now on again
        if step == 3 and dist.get_rank() == stuck:
            time.sleep(60)  # as if it read from a server that does not answer
        ours = torch.ones(1)
        dist.all_reduce(ours)
        total += ours
    faulthandler.cancel_dump_traceback_later()
    return total.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stuck", type=rank_number, help="this rank hangs")
    stuck = parser.parse_args().stuck
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    if hasattr(signal, "SIGUSR1"):  # kill -USR1 <process id> asks a rank where it is
        faulthandler.register(signal.SIGUSR1)

    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo", timeout=timedelta(minutes=2))
    total = train(stuck)
    if dist.get_rank() == 0:
        print(f"the ranks have summed up {total:.0f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
