"""How far is the bubble of a real pipeline from (p - 1) / (m + p - 1)?

Run:      python tests/benchmarks/pipeline_bubble.py
          Four ranks on any machine: their stages sleep for a known time. Each bubble
          comes from the spans of real ranks that run the schedule and pass messages.
Look for: the last line; the goal is a difference of at most 0.03.
Try:      --seconds 0.01. Now the messages take a visible share of a slot.
"""

import argparse
from statistics import median

from parallel_by_hand.pipeline.rehearsal import rehearse
from parallel_by_hand.pipeline.schedule_rules import bubble
from parallel_by_hand.pipeline.schedules import gpipe, one_f_one_b
from sidebyside import machine, positive_float, positive_int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", type=positive_int, default=4)
    parser.add_argument("--rounds", type=positive_int, default=3)
    parser.add_argument("--seconds", type=positive_float, default=0.05, help="a slot")
    args = parser.parse_args()
    stages = args.stages

    print(machine(), "\n")
    print(f"{stages} stages, slots of {args.seconds} s, {args.rounds} rounds each")
    print("schedule  backward   m  formula  measured (median, all rounds)   difference")
    worst = 0.0
    for backward in 1, 2:
        for make in gpipe, one_f_one_b:
            for m in 1, 2, 4, 8:
                formula = (stages - 1) / (m + stages - 1)
                rounds = sorted(
                    bubble(rehearse(make(stages, m), 1, backward, args.seconds))
                    for _ in range(args.rounds)
                )
                off = max((r - formula for r in rounds), key=abs)
                worst = max(worst, off, key=abs)
                name = "GPipe" if make is gpipe else "1F1B"
                every = " ".join(f"{r:.4f}" for r in rounds)
                print(
                    f"{name:<9} {backward} slot(s) {m:2}  {formula:.4f}   "
                    f"{median(rounds):.4f}  ({every})  {off:+.4f}",
                    flush=True,
                )
    print(f"largest difference: {worst:+.4f}")


if __name__ == "__main__":
    main()
