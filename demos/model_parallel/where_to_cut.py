"""Count the bytes that cross each possible cut of three networks.

Run:      python demos/model_parallel/where_to_cut.py
Look for: as many bytes go back as go forward. A cut is cheap after a layer whose
          output is small, however many parameters that layer has.
Try:      --batch 64: twice the bytes at every cut.
"""

from parallel_by_hand.model_parallel.networks_to_cut import (
    meter_cut_in_time,
    meter_every_cut,
)
from sidebyside import at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--batch", type=at_least(1, 1024), default=32, help="default: 32")
    args = parser.parse_args()
    front, back = run_ranks(meter_every_cut, args.batch)
    print("network          cut after  parameters before  bytes forward     back")
    for a, b in zip(front, back, strict=True):
        share = 100 * a.parameters / (a.parameters + b.parameters)
        print(f"{a.network:<16} {a.after:<10} {share:16.0f} % {a.sent:14,} {b.sent:8,}")
    forth, home = run_ranks(meter_cut_in_time, args.batch)
    print(
        f"{'recurrent':<16} {'4 rows':<10} {'on both ranks':>18} {forth:14,} {home:8,}"
    )


if __name__ == "__main__":
    run_program(main)
