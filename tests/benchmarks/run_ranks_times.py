"""Time and memory of run_ranks, beside torch.multiprocessing.spawn, on this machine.

Run:      python tests/benchmarks/run_ranks_times.py --rounds 5
Look for: the first call of a program pays for importing torch once; the later ones do
          not. spawn pays for it in every rank of every call.
"""

import os
import statistics
import subprocess
import sys
import time
from functools import partial

import psutil
import torch
import torch.distributed as dist
import torch.multiprocessing

from sidebyside import Timeline, positive_int, program_parser, run_ranks, span

SIZES = (2, 4, 8)


def one_all_reduce() -> float:
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return tensor.item()


def spawned(rank: int, world_size: int, port: int) -> None:
    """What a rank does under torch.multiprocessing.spawn: the same piece of work."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    one_all_reduce()
    dist.destroy_process_group()


def spawn(world_size: int) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torch.multiprocessing.spawn(spawned, (world_size, store.port), world_size)


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def cold(world_size: int) -> float:
    """The first call in a new interpreter that has imported torch already."""
    code = (
        "import time, torch; from sidebyside import run_ranks\n"
        "from tests.benchmarks.run_ranks_times import one_all_reduce\n"
        "t = time.perf_counter()\n"
        f"run_ranks(one_all_reduce, world_size={world_size})\n"
        "print(time.perf_counter() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return float(done.stdout)


def private_megabytes() -> float:
    """Memory that this rank shares with no other process, after one all-reduce."""
    one_all_reduce()
    return psutil.Process(os.getpid()).memory_full_info().uss / 1e6


def span_microseconds(repeats: int = 20_000) -> float:
    with Timeline():
        began = time.perf_counter()
        for _ in range(repeats):
            with span("step"):
                pass
        return (time.perf_counter() - began) / repeats * 1e6


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--rounds", type=positive_int, default=5)
    rounds = parser.parse_args().rounds

    print(f"{rounds} rounds in turn, medians; {os.cpu_count()} cores")
    print("ranks   first call   later calls   spawn     private memory per rank")
    for size in SIZES:
        ours = partial(run_ranks, one_all_reduce, world_size=size)
        ours()
        times = [(cold(size), seconds(ours), seconds(partial(spawn, size)))
                 for _ in range(rounds)]  # fmt: skip
        first, later, other = map(statistics.median, zip(*times, strict=True))
        memory = statistics.median(run_ranks(private_megabytes, world_size=size))
        print(f"{size:5}   {first:8.2f} s   {later:9.3f} s   {other:5.2f} s   ", end="")
        print(f"{memory:6.0f} MB")
    print(f"a span costs {span_microseconds():.1f} µs")


if __name__ == "__main__":
    main()
