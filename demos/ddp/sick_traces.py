"""Profile two steps of training, well or sick, and say what is exposed.

Run:      python demos/ddp/sick_traces.py --illness straggler
Look for: each rank's computing, and its messages below it. No message ends before the
          later rank has joined it, so the straggler's first messages are the shorter
          ones. Exposed is the time in which messages travel and nothing is computed.
          The straggler and the late batch are naps of 60 ms.
Try:      --save trace.json, and open that file in Perfetto, https://ui.perfetto.dev.
          Where is the call that starts a message, and where is the message?
"""

import json

from parallel_by_hand.ddp.sick_traces import ILLNESSES, trace_of_program
from parallel_by_hand.ddp.step_traces import (
    events_of_ranks,
    exposed,
    timeline_of_traces,
)
from sidebyside import output_file, program_parser, run_program, run_ranks
from sidebyside.timeline.picture import write_timeline


def main() -> None:
    parser = program_parser(__doc__)
    choices = ["none", *(illness.replace(" ", "-") for illness in ILLNESSES)]
    add = parser.add_argument
    add("--illness", choices=choices, default="none", help="default: none")
    add("--save", type=output_file, metavar="FILE", help="a file for both traces")
    args = parser.parse_args()
    traces = run_ranks(trace_of_program, args.illness.replace("-", " "))
    ranks = events_of_ranks(traces)
    print(write_timeline(timeline_of_traces(ranks)))
    for rank, events in enumerate(ranks):
        sent = sum(event.kind == "message" for event in events)
        print(f"rank {rank}: {sent} messages, exposed for {exposed(events):.1f} ms")
    if args.save:
        together = [
            event
            for trace in traces
            for event in trace["traceEvents"]
            if event["ph"] not in "sf"  # arrows, whose ids both ranks use
        ]
        text = json.dumps(traces[0] | {"traceEvents": together})
        args.save.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_program(main)
