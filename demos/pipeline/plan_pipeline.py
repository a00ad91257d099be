"""Draw a pipeline schedule and say what it costs in time and in memory.

Run:      python demos/pipeline/plan_pipeline.py --schedule 1f1b
Look for: GPipe and 1F1B wait for equally long, but 1F1B keeps the activations of at
          most as many micro-batches as there are stages. naive lets one rank work at
          a time.
Try:      --schedule gpipe --microbatches 16, then interleaved: smaller bubbles.
          --schedule zero-bubble: each backward is B and then W; 1f1b --backward 2 does
          the same work in one part.
          --times 1 1 2 1: one slow stage, and all others wait for it.
          --run: four real ranks that sleep for a slot carry the schedule out.
          --output plan.png draws a picture. --file plan.txt reads a schedule of your
          own, such as these two lines:   F0 F1 B0 B1
                                          F0 B0 F1 B1
"""

from parallel_by_hand.pipeline.schedule_arguments import (
    add_schedule_arguments,
    schedule_from_arguments,
)
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule, schedule_text
from parallel_by_hand.pipeline.schedule_rules import (
    bubble,
    peak_activations,
    schedule_size,
    timetable,
    timetable_length,
)
from sidebyside import between, picture_file, program_parser, run_program

SLOT = 0.05  # seconds, of --run


def main() -> None:
    parser = program_parser(__doc__)
    add_schedule_arguments(parser, stages=4, microbatches=8)
    add = parser.add_argument
    add(
        "--times", type=between(0.1, 10), nargs="+", help="slots of a forward, by stage"
    )
    add(
        "--backward",
        type=between(0.1, 10),
        default=1,
        help="in forwards; of B and of W each (default: 1)",
    )
    add("--run", action="store_true", help="run it on real ranks, too")
    add("--output", type=picture_file, help="a picture, such as plan.png")
    args = parser.parse_args()
    schedule = schedule_from_arguments(parser, args)
    stages, microbatches = schedule_size(schedule)
    forward = args.times or [1] * stages
    if len(forward) != stages:
        parser.error(f"argument --times: must be {stages} numbers, one for each stage")
    backward = [time * args.backward for time in forward]
    weights = backward  # where a schedule has W, --backward is each of the two parts

    slots = timetable(schedule, forward, backward, weights)
    panels = {"planned": slots}
    name = "your own" if args.file else args.schedule
    print(f"{name}: {len(schedule)} ranks, {microbatches} micro-batches")
    print(schedule_text(slots))
    print(f"time from first to last: {timetable_length(slots):g} slots")
    print(f"micro-batches kept, by rank: {peak_activations(schedule)}")
    if args.run:
        from parallel_by_hand.pipeline.rehearsal import (
            rehearse,  # the plan alone needs no torch
        )

        done = rehearse(schedule, forward, backward, weights, SLOT)
        panels["run"] = done
        seconds = timetable_length(done) * SLOT
        share = 100 * bubble(done)
        print(f"run by real ranks: {seconds:.2f} s, bubble {share:.1f} %")
    if args.output:
        drawn = draw_schedule(panels, stamp="simulated" if args.run else "planned")
        drawn.savefig(args.output, dpi=150)
        print(f"drawn: {args.output}")


if __name__ == "__main__":
    run_program(main)
