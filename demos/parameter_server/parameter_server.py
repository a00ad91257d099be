"""A server holds the parameters; workers pull them, compute, and push gradients.

Run:      python demos/parameter_server/parameter_server.py --design at-once
Look for: in step, all wait for the slow worker at every update. At once, nobody waits,
          and the slow worker's gradients are stale: made for parameters that others
          have changed since. The timeline in letters shows both. (A gradient takes as
          long as a nap of its worker, so the times are simulated.)
Try:      --bound 1: a worker that is more than one gradient ahead of the slowest waits.
          --servers 2: each holds half of the parameters, and gets half of the bytes.
"""

from functools import partial

from parallel_by_hand.parameter_server.digits_server import (
    digits_server_loss,
    digits_start,
    train_digits_with_server,
)
from parallel_by_hand.parameter_server.server_and_workers import (
    everyone_may_go_on,
    staleness_of_workers,
    within_bound,
)
from sidebyside import (
    Timeline,
    at_least,
    between,
    program_parser,
    run_program,
    run_ranks,
)

NAP = 0.02  # seconds that a worker needs for a gradient; the last one needs four times


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--design", choices=["in-step", "at-once"], default="at-once")
    add("--workers", type=at_least(1, 6), default=3)
    add("--servers", type=at_least(1, 4), default=1)
    add("--updates", type=at_least(1, 500), default=20)
    add("--rate", type=between(0, 10), default=0.1)
    add(
        "--bound", type=at_least(0, 500), help="at once: gradients ahead of the slowest"
    )
    args = parser.parse_args()
    if args.bound is not None and args.design == "in-step":
        parser.error("argument --bound: only with --design at-once")
    goes = (
        everyone_may_go_on
        if args.bound is None
        else partial(within_bound, bound=args.bound)
    )
    design = args.design.replace("-", " ")
    naps = [NAP] * (args.workers - 1) + [4 * NAP]
    with Timeline() as timeline:
        ranks = run_ranks(
            train_digits_with_server, design, naps, args.rate, args.updates,
            args.servers, goes, world_size=args.servers + args.workers, timeout=900,
        )  # fmt: skip
    diary = ranks[0]
    print(timeline.text(width=70))
    print(f"{len(diary)} updates at server 0 in {diary[-1].seconds:.2f} s")
    if design == "at once":
        for worker, counts in staleness_of_workers(diary).items():
            row = ", ".join(f"{n} × {s}" for s, n in sorted(counts.items()))
            print(f"staleness of worker {worker}: {row}")
    if args.servers == 1:
        losses = digits_server_loss(digits_start()), digits_server_loss(diary[-1].share)
        print("loss {:.3f} before, {:.3f} after".format(*losses))


if __name__ == "__main__":
    run_program(main)
