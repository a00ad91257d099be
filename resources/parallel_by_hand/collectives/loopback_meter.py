"""What really goes through the wire: the byte counter of the loopback interface.

Ranks on one machine talk through the loopback interface, as gloo sets it up, and the
system counts its bytes, whoever sends them. So it sees what a library does inside.
"""

from collections.abc import Callable
from time import sleep

import torch.distributed as dist


def loopback_bytes() -> int:
    """All bytes that have gone through this machine's loopback interface so far."""
    import psutil

    counters = psutil.net_io_counters(pernic=True, nowrap=True)
    found = [counters[name] for name in ("lo", "lo0") if name in counters]
    return found[0].bytes_sent if found else 0


def megabytes_per_rank(call: Callable[[], None], rounds: int = 5) -> float:
    """Runs in each rank: MB on the loopback for one `call` of all ranks, divided by
    their number; the least of some rounds, for other programs may send as well."""
    least = float("inf")
    for _ in range(rounds):
        dist.barrier()
        sleep(0.02)  # until the barrier's own bytes have been counted
        before = loopback_bytes()
        dist.barrier()
        call()
        dist.barrier()
        least = min(least, loopback_bytes() - before)
    return least / dist.get_world_size() / 1e6
