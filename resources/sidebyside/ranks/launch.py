"""Run a function in several connected processes; their side is process.py."""

import atexit
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from sidebyside.ranks.crew import Crew
from sidebyside.ranks.failures import interrupted_ranks
from sidebyside.ranks.outcomes import Outcome

LARGEST_WORLD = 128  # each rank takes 20 MB and five open files here
LONGEST = 1_000_000  # seconds: eleven days


def run_ranks(
    fn: Callable,
    *args,
    world_size: int = 2,
    timeout: float = 60,
    start_method: str | None = None,
) -> list:
    """The results of `fn(*args)` in `world_size` connected processes, in rank order.

    `fn` may be defined in a notebook cell. In each rank torch.distributed is
    initialised (NCCL with a GPU each where there are enough, else gloo), and torch
    computes with one thread. What the ranks print is shown afterwards, rank by rank.

    Raises `RankFailed` as soon as a rank raises, exits or is killed, `RanksHung` when
    the ranks are not done after `timeout` seconds, and `ValueError` for an argument
    that is not allowed. Either way every rank has ended when `run_ranks` returns. Only
    while somebody has stopped their forkserver (SIGSTOP) does it wait longer.

    `start_method` is "forkserver" where that exists, else "spawn". Under `torchrun`
    this process is one of the ranks: `fn` runs here, in as many ranks as torchrun
    started, and every rank gets all results.
    """
    check_number_of_processes("world_size", world_size)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _check_timeout_of_ranks(timeout)
        return _run_ranks_under_torchrun(fn, args, timeout)
    return call_in_processes(
        fn, [args] * world_size, timeout, connect=True, start_method=start_method
    )


def call_in_processes(
    fn: Callable,
    args_of_each: Sequence[tuple],
    timeout: float = 60,
    connect: bool = False,
    start_method: str | None = None,
    name: str = "rank",
) -> list:
    """Call `fn` once with each tuple of arguments, each in a process of its own.

    What `run_ranks` does, without torch.distributed unless `connect` is true.
    """
    if not callable(fn):
        raise ValueError(f"fn must be a function, not {type(fn).__name__}")
    _check_timeout_of_ranks(timeout)
    methods = _start_methods_of_ranks()
    if start_method not in (None, *methods):
        allowed = " or ".join(f'"{method}"' for method in methods)
        raise ValueError(f"start_method must be {allowed}, not {start_method!r}")
    _check_that_ranks_can_start()
    if len(set(map(id, args_of_each))) == 1:  # the same for all: pickle it once
        work = [_pickle_work_for_ranks(fn, args_of_each[0])] * len(args_of_each)
    else:
        work = [_pickle_work_for_ranks(fn, args) for args in args_of_each]
    outcome = Outcome(name, len(work), timeout)
    crew = Crew(context_of_ranks(start_method), work, connect, outcome)
    try:
        crew.start()
        return crew.collect(time.monotonic() + timeout)
    except KeyboardInterrupt:
        raise interrupted_ranks() from None
    finally:
        crew.stop()
        crew.show_output()


def check_number_of_processes(name: str, number: Any) -> None:
    """`ValueError`, naming the argument, if nobody should start that many."""
    if not (_is_whole_number(number) and 1 <= number <= LARGEST_WORLD):
        raise ValueError(
            f"{name} must be a whole number from 1 to {LARGEST_WORLD}, "
            f"not {number!r:.40}"
        )


def _is_whole_number(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _check_timeout_of_ranks(timeout: Any) -> None:
    is_number = _is_whole_number(timeout) or isinstance(timeout, float)
    if not (is_number and 0 < timeout <= LONGEST):
        raise ValueError(
            f"timeout must be above 0 and at most {LONGEST:,} (seconds), "
            f"not {timeout!r:.40}"
        )


def _check_that_ranks_can_start() -> None:
    """Else multiprocessing would fail, with an error that nobody understands."""
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        raise RuntimeError(
            'a script that starts ranks must do so below `if __name__ == "__main__":`'
        )
    if process.daemon:
        raise RuntimeError(
            "a worker of a multiprocessing.Pool, or another daemonic process, cannot "
            "start ranks: use concurrent.futures.ProcessPoolExecutor"
        )
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script and not os.path.exists(script):  # python < script.py
        raise RuntimeError(
            "a script that starts ranks must be a file, not standard input"
        )


def context_of_ranks(start_method: str | None = None) -> Any:
    """multiprocessing's context whose processes begin as ranks do, torch imported."""
    start_method = start_method or _start_methods_of_ranks()[0]
    if start_method != "forkserver":
        return multiprocessing.get_context(start_method)
    from sidebyside.ranks.forkserver import ForkServerContext

    return ForkServerContext()


def _start_methods_of_ranks() -> list[str]:
    known = multiprocessing.get_all_start_methods()
    return [method for method in ("forkserver", "spawn") if method in known]


def _pickle_work_for_ranks(fn: Callable, args: tuple) -> bytes:
    from sidebyside.ranks.by_value import packed

    try:
        return packed((fn, args))
    except Exception as error:
        raise ValueError(
            f"{getattr(fn, '__name__', fn)} cannot be sent to other processes, with "
            f"its arguments and the variables it uses: {error}"
        ) from None


def _run_ranks_under_torchrun(fn: Callable, args: tuple, timeout: float) -> list:
    import torch
    import torch.distributed as dist

    from sidebyside.ranks.meeting import rank_joins_group

    if not dist.is_initialized():
        torch.set_num_threads(1)
        try:
            rank, world_size = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE"))
            rank_joins_group(rank, world_size, timeout)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise RuntimeError(
                "TORCHELASTIC_RUN_ID is set, so torchrun should have started this "
                f"program as one of several ranks, but they do not meet ({why:.200}). "
                "If it was not torchrun, remove that variable from the environment."
            ) from None
        # a group that something still holds, as DDP does, keeps its threads, and one
        # of them frees the last message a moment later with the interpreter's help
        atexit.register(time.sleep, 0.5)
    results = [None] * dist.get_world_size()
    dist.all_gather_object(results, fn(*args))
    return results
