"""The arguments by which both demos are told which schedule to use."""

import argparse
import os

from parallel_by_hand.pipeline.schedule_rules import why_illegal
from parallel_by_hand.pipeline.schedules import (
    SCHEDULES_BY_NAME,
    Schedule,
    read_schedule,
)
from sidebyside import at_least


def _schedule_file(name: str) -> Schedule:
    """An argparse type: a file that holds a legal schedule, one line per rank."""
    try:
        if not os.path.isfile(name):  # a pipe or a device would be read for ever
            raise OSError
        with open(name, encoding="utf-8") as file:
            schedule = read_schedule(file.read())
    except (OSError, UnicodeDecodeError):
        raise argparse.ArgumentTypeError(
            f"must be a text file with one line of instructions per rank, not {name}"
        ) from None
    if problem := why_illegal(schedule):
        raise argparse.ArgumentTypeError(
            f"must be a legal schedule; in {name} {problem}"
        )
    return schedule


def add_schedule_arguments(
    parser: argparse.ArgumentParser, stages: int, microbatches: int
) -> None:
    """--schedule, --stages, --microbatches (with these defaults) and --file."""
    add = parser.add_argument
    add("--schedule", choices=SCHEDULES_BY_NAME, default="1f1b", help="default: 1f1b")
    add("--stages", type=at_least(1, 64), default=stages, help=f"default: {stages}")
    add(
        "--microbatches", type=at_least(1, 512), default=microbatches,
        help=f"default: {microbatches}",
    )  # fmt: skip
    add(
        "--file",
        type=_schedule_file,
        help="a schedule of your own, one line per rank",
    )


def schedule_from_arguments(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> Schedule:
    """The schedule that `args` ask for; ends the program if there is none."""
    if args.file:
        return args.file
    try:
        return SCHEDULES_BY_NAME[args.schedule](args.stages, args.microbatches)
    except ValueError as problem:
        parser.error(f"argument --microbatches: {problem}")
