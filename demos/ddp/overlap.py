"""Draw when gradients travel: after backward, or while it still computes.

Run:      python demos/ddp/overlap.py --link 30
Look for: the same four messages in both pictures. After backward, a rank waits for all
          four of them: W. When they set out during backward, it waits for the last one.
          (Simulated: the layers sleep instead of computing, and after each all-reduce
          the link sleeps for as long as a slow cable would need.)
Try:      --link 60. Now the cable decides: the wire is busy from the first gradient on.
"""

from parallel_by_hand.ddp.overlap import step_after_backward, step_during_backward
from sidebyside import Timeline, between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument(
        "--link",
        type=between(0.1, 1000),
        default=30,
        help="milliseconds for each message; default: 30",
    )
    milliseconds = parser.parse_args().link
    for title, step in (
        ("after backward", step_after_backward),
        ("during backward", step_during_backward),
    ):
        with Timeline() as timeline:
            seconds = run_ranks(step, milliseconds)[0]
        print(f"{title}: {1e3 * seconds:.0f} ms for a step\n{timeline.text()}\n")


if __name__ == "__main__":
    run_program(main)
