"""Four ranks train, and one of them is late at every step: which one, and with what?

Run:      python demos/clinic/straggler.py
Look for: in the picture all ranks are in step, however late one of them is. Of the
          seconds that each rank reports, those of waiting give the late one away: it
          waits least. What it does for longer than the others is what makes it late.
          (Loading and computing are naps, so the picture is simulated.)
Try:      --late 0. Then nobody is to blame, and what is left of waiting is noise.
"""

from parallel_by_hand.clinic.straggler import RANKS, print_reports, train_and_report
from sidebyside import Timeline, between, program_parser, run_program, run_ranks

STRAGGLER = 2


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--late", type=between(0, 500), default=50, help="ms per step")
    late = parser.parse_args().late / 1000
    with Timeline() as timeline:
        reports = run_ranks(train_and_report, STRAGGLER, late, world_size=RANKS)
    print(timeline.text(), end="\n\n")
    print_reports(reports)


if __name__ == "__main__":
    run_program(main)
