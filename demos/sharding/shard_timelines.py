"""Draw when gradients and parameters travel: ZeRO-1, ZeRO-2, and ZeRO-2 overlapped.

Run:      python demos/sharding/shard_timelines.py
Look for: ZeRO-1 sends all gradients after backward. ZeRO-2 sends each layer's as soon
          as they are ready; if backward goes on meanwhile, most of that time is hidden.
          The all-gather of the parameters comes last in all three. (Simulated: layers
          sleep instead of computing, and a slow link makes up the time by sleeping.)
Try:      --link 60. Now the link decides, and the overlap hides the backward instead.
"""

from parallel_by_hand.sharding.shard_timelines import WAYS, step_over_slow_link
from sidebyside import Timeline, between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument(
        "--link",
        type=between(1, 300),
        default=30,
        help="milliseconds for one layer's shards; default: 30",
    )
    link = parser.parse_args().link
    for way in WAYS:
        with Timeline() as timeline:
            seconds = run_ranks(step_over_slow_link, way, link)[0]
        print(f"{way}: {1e3 * seconds:.0f} ms for a step\n{timeline.text()}\n")


if __name__ == "__main__":
    run_program(main)
