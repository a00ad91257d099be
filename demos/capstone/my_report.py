"""Write your report: one HTML page with your guesses, exercises and measurements.

Run:      python demos/capstone/my_report.py
Look for: the page that it names at the end. A browser opens it without a network:
          machine, guesses beside measurements, exercises, constants, timelines, ladder.
Try:      on another machine --name workstation --to workstation.html; then here
          --beside workstation.html: both reports on one page, row by row.
"""

import argparse
from datetime import date
from pathlib import Path

from parallel_by_hand.capstone.report_facts import (
    exercises_section,
    guesses_section,
    machine_section,
)
from parallel_by_hand.capstone.report_measurements import (
    constants_section,
    ladder_section,
    timelines_section,
)
from parallel_by_hand.capstone.report_page import (
    KIND,
    NoReport,
    read_report,
    write_report_page,
)
from parallel_by_hand.capstone.strategies import STRATEGIES
from sidebyside import at_least, program_parser, run_program
from sidebyside.course.record import record_file
from sidebyside.programs.arguments import output_file

FEW = ["DDP (ours)", "ZeRO-3", "tensor", "1F1B"]
NAME = "this machine"


def short_name_for_report(text: str) -> str:
    if not 0 < len(text.strip()) <= 60:
        raise argparse.ArgumentTypeError("must be a name of 1 to 60 characters")
    return text.strip()


def report_file(text: str) -> Path:
    """A file to write which is not that of the learner's progress."""
    record_file().parent.mkdir(parents=True, exist_ok=True)
    path = output_file(text)
    if path.resolve() == record_file().resolve():
        raise argparse.ArgumentTypeError("must be another file than your progress")
    return path


def parse_report_arguments() -> argparse.Namespace:
    parser = program_parser(__doc__)
    add, names = parser.add_argument, [*STRATEGIES, "all"]
    add(
        "--name",
        type=short_name_for_report,
        default=NAME,
        help="of this machine, on the page",
    )
    usual = record_file().with_name("my_report.html")
    add("--to", type=report_file, default=str(usual), metavar="FILE",
        help="default: my_report.html, beside your progress")  # fmt: skip
    add("--beside", metavar="FILE", help="another report, to lay beside this one")
    add("--rungs", nargs="+", choices=names, default=FEW, metavar="RUNG",
        help=f"of the ladder: {', '.join(names)}")  # fmt: skip
    add("--steps", type=at_least(3, 1000), default=4, help="of each rung; default: 4")
    args = parser.parse_args()
    if "all" in args.rungs:
        args.rungs = list(STRATEGIES)
    args.other = None
    if args.beside is not None:
        try:
            args.other = read_report(Path(args.beside))
        except NoReport as error:
            parser.error(f"argument --beside: {error}")
    return args


def main() -> None:
    args = parse_report_arguments()
    parts = {
        "machine": machine_section,
        "guesses": guesses_section,
        "exercises": exercises_section,
        "constants": constants_section,
        "timelines": timelines_section,
        "the ladder": lambda: ladder_section(args.rungs, args.steps),
    }
    sections = []
    for name, section in parts.items():
        sections.append(section())
        rows = len(sections[-1].get("rows", sections[-1].get("pictures")))
        print(f"{name:<10}  {rows} {'pictures' if name == 'timelines' else 'rows'}")
    report = {"kind": KIND, "name": args.name, "sections": sections}
    report["written"] = date.today().isoformat()
    reports = [report, args.other] if args.other else [report]
    write_report_page(args.to, *reports)
    print(f"written to {args.to}")


if __name__ == "__main__":
    run_program(main)
