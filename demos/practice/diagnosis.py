"""Why is it not faster? Six measurements, in the order in which to look.

Run:      python demos/practice/diagnosis.py --program search
Look for: LOOK marks what keeps this program from being faster in a pool. Answer the six
          questions in their order: the first LOOK is where to begin.
Try:      --program all. Predict first, from programs_to_diagnose.py, where each
          of them will say LOOK.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from parallel_by_hand.practice.diagnosis import diagnose, findings_table
from sidebyside import program_parser
from sidebyside.programs.run_program import end_with_parent, run_program


def main() -> None:
    from parallel_by_hand.practice.programs_to_diagnose import programs

    known = programs()
    parser = program_parser(__doc__)
    parser.add_argument("--program", choices=[*known, "all"], default="search")
    chosen = parser.parse_args().program
    # "spawn" is the one start method that Linux, macOS and Windows have in common.
    with ProcessPoolExecutor(2, get_context("spawn"), end_with_parent) as pool:
        for name in known if chosen == "all" else [chosen]:
            print(f"{name}: {len(known[name][1])} tasks, two workers", flush=True)
            print(findings_table(diagnose(*known[name], pool, workers=2)))


if __name__ == "__main__":
    run_program(main)
