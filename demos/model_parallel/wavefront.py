"""Let time steps flow through a recurrent network with one layer on each rank.

Run:      python demos/model_parallel/wavefront.py
Look for: layer after layer, 2 sleeping layers take 2 T slots for T time steps; step by
          step they take T + 1. Real layers learn what the unsplit network learns. A
          narrow one is faster alone; with wide ones and two free cores, two ranks gain.
Try:      --layers 4: T + 3 slots instead of 4 T.
          --chunk 4: fewer messages, and a longer way until the last layer begins.
"""

from parallel_by_hand.model_parallel.wavefront import (
    gap_of_flow,
    time_flow_and_alone,
    train_layer_of_rank,
    train_unsplit_layers,
)
from parallel_by_hand.model_parallel.wavefront_flow import (
    rehearse_wavefront,
    slots_of_naps,
)
from sidebyside import at_least, between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--layers", type=at_least(1, 6), default=2, help="and ranks; default: 2")
    add("--steps", type=at_least(1, 20), default=8, help="of the naps; default: 8")
    add("--chunk", type=at_least(1, 20), default=1, help="time steps in a message")
    add("--seconds", type=between(0.01, 0.2), default=0.05, help="of a nap")
    args = parser.parse_args()
    layers, steps = args.layers, args.steps
    for name, chunk in (
        ("layer after layer", steps),
        (f"chunk {args.chunk}", args.chunk),
    ):
        chunk = min(chunk, steps)
        timeline = rehearse_wavefront(layers, steps, chunk, args.seconds)
        slots = slots_of_naps(timeline, args.seconds)
        planned = steps + chunk * (layers - 1)
        print(f"{name}: {planned} slots planned, {slots:.1f} slept")
        print(timeline.text(), flush=True)

    chunk = min(args.chunk, 8)
    notes = run_ranks(train_layer_of_rank, chunk, world_size=layers)
    gap = gap_of_flow(notes, train_unsplit_layers(layers))
    print(f"trained on digits: after each of 10 steps within {gap:.0e} of one process")
    sent = f"{notes[0].sent:,} bytes in {notes[0].messages} messages"
    print(f"in each step rank 0 sends {sent}")
    print("time of a step with sequences of 64, alone and with chunks of 64, 8 and 1:")
    for width in (16, 128):
        ranks = run_ranks(
            time_flow_and_alone, width, [64, 8, 1], 64, 2, world_size=layers
        )
        times = ", ".join(f"{1e3 * took:.0f} ms" for took in ranks[0].values())
        print(f"width {width:3}: {times}")


if __name__ == "__main__":
    run_program(main)
