"""Measure how long 1, 2, 3 ... workers take, and find out how many are best.

Run:      python demos/overheads/how_many_workers.py --function busy
Look for: the time falls as 1/k up to the number of cores, the knee, and then no more.
          Beyond it every worker costs its start and brings nothing. The fitted costs
          say how much, and what more cores would bring: that part is predicted.
Try:      --function nap. Waiting needs no core: more workers than cores are best.
          --function draw. So little work that one worker is best.
          --function math:factorial --pieces 2000. Any function of one whole number,
          written module:name; a module of your own is looked for in this folder.
          --threads. They start sooner, and take turns: only a free-threaded Python,
          such as python3.14t, lets them compute at the same time.
          --plot knee.png. Writes the figure to a file.
          (It takes ten to twenty seconds.)
"""

import argparse
import importlib
import os
import pickle
import sys
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from parallel_by_hand.overheads.pieces_of_work import (
    BUILT_IN_PIECES,
    CONTEXT,
    ThreadWithExitcode,
    cpu_share_of_piece,
)
from sidebyside import at_least, machine, picture_file, program_parser, run_program

if TYPE_CHECKING:
    from parallel_by_hand.overheads.cost_model import (
        Costs,  # each worker would import NumPy
    )

from parallel_by_hand.overheads.how_many_workers import (
    Times,
    plot_crews,
    time_crews,
    time_without_workers,
)


def function_for_workers(text: str) -> Callable[[int], object]:
    """An argparse type: a function of one whole number that workers can find."""
    if text in BUILT_IN_PIECES:
        return BUILT_IN_PIECES[text]
    choices = f"{', '.join(BUILT_IN_PIECES)} or module:name"
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise argparse.ArgumentTypeError(f"must be {choices}, not {text!r}")
    if os.getcwd() not in sys.path:  # as for `python -m`; workers inherit the path
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
        function(0)
        pickle.dumps(function)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise argparse.ArgumentTypeError(
            f"must be {choices}, a function that can be called with 0, not {text!r} "
            f"({why})"
        ) from None
    return function


def print_worker_costs(times: Times, costs: "Costs", at_once: float, most: int) -> None:
    first = median(next(iter(times.values())))
    print(f"{'workers':>7} {'median':>10} {'speedup':>9} {'fitted':>10}")
    for workers, seconds in times.items():
        time, fitted = median(seconds), costs.seconds(workers, at_once)
        print(
            f"{workers:>7} {1000 * time:7.0f} ms {first / time:7.2f} × "
            f"{1000 * fitted:7.0f} ms"
        )
    print(f"costs: a = {1000 * costs.a:.1f} ms in any case")
    print(f"       b = {1000 * costs.b:.1f} ms of work to share out, measured here")
    print(f"       c = {1000 * costs.c:.1f} ms for each worker")
    print(f"best here: {costs.best(most, at_once)} of up to {most} workers;", end=" ")
    print(f"predicted, with a core for each: {costs.best(most)}")


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add(
        "--function",
        type=function_for_workers,
        default="busy",
        help="busy, nap, draw or module:name",
    )
    add("--threads", action="store_true", help="instead of processes")
    add("--pieces", type=at_least(1, 1_000_000), default=48)
    add("--most", type=at_least(4, 64), help="workers tried (default: cores + 2)")
    add("--rounds", type=at_least(1, 100), default=3)
    add("--plot", type=picture_file, help="a file to write, .png")
    args = parser.parse_args()

    from parallel_by_hand.overheads.cost_model import fit_costs

    here = machine()
    most = args.most or max(4, here.usable_cores + 2)
    share = cpu_share_of_piece(args.function)
    capacity = here.capacity(here.usable_cores)
    at_once = max(1.0, capacity / max(share, 0.001))
    print(f"{args.pieces} pieces, up to {most} workers, rounds: {args.rounds}")
    print(f"a piece uses a core for {100 * share:.0f} % of its time; ", end="")
    print(f"usable cores: {here.usable_cores}, capacity: {capacity:.2f}")
    sys.stdout.flush()
    kind = ThreadWithExitcode if args.threads else CONTEXT.Process
    crews = range(1, most + 1)
    times = time_crews(args.function, args.pieces, crews, args.rounds, kind)
    costs = fit_costs(
        times, at_once, time_without_workers(args.function, args.pieces, args.rounds)
    )
    print_worker_costs(times, costs, at_once, most)
    if args.plot:
        plot_crews(times, costs, at_once, max(most, 8)).savefig(args.plot, dpi=110)
        print(f"plot written to {args.plot}")


if __name__ == "__main__":
    run_program(main)
