"""Two laws of speedup, and a measurement on 1024 processors to hold them against.

Run:      python demos/performance/speedup_laws.py --serial 20
Look for: with a fixed amount of work (Amdahl) the speedup never exceeds the work over
          its serial part. With work that grows with the workers (Gustafson) there is no
          such limit. Nothing runs in parallel here: both are formulas. Below stand
          three speedups that were measured on 1024 processors, with growing work.
Try:      --serial 1. How much do 1024 workers gain now, by either law?
"""

from parallel_by_hand.performance.speedup_laws import (
    PROCESSORS,
    SCALED_SPEEDUPS,
    SERIAL_SHARES,
    amdahl,
    gustafson,
)
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--serial", type=at_least(0, 100), default=20, help="per cent, default: 20")
    share = parser.parse_args().serial / 100

    print(f"{100 * share:.0f} % is serial")
    print(f"{'workers':>7} {'Amdahl':>10} {'Gustafson':>10}")
    for workers in 1, 2, 4, 8, 16, 64, 256, PROCESSORS:
        fixed, grown = amdahl(share, workers), gustafson(share, workers)
        print(f"{workers:>7} {fixed:8.2f} × {grown:8.2f} ×")
    low, high = (f"{100 * share:.1f} %" for share in SERIAL_SHARES)
    print(f"\npublished: {PROCESSORS} processors, {low} to {high} serial")
    for program, speedup in SCALED_SPEEDUPS.items():
        print(f"  {program:<14} {speedup:>5} ×")


if __name__ == "__main__":
    run_program(main)
