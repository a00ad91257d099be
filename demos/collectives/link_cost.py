"""Measure what a message costs, fit alpha + beta * bytes, and predict an unseen size.

Run:      python demos/collectives/link_cost.py
Look for: below some tens of KB all messages take about as long: that time is alpha.
          Above, ten times the bytes take ten times as long: that is beta. Two numbers,
          fitted to the other sizes, predict the one that was left out.
Try:      --gpus. The same two numbers for a published table of 16 GPUs. And
          --unseen 64: small messages are the ones that the line predicts worst.
"""

from parallel_by_hand.collectives.link_cost import (
    LINK_SIZES,
    describe_link,
    fit_link_cost,
    fit_with_intervals,
    gpu_link,
    time_messages,
    typical_seconds,
)
from parallel_by_hand.collectives.published_all_reduces import (
    H100_MICROSECONDS,
    H100_RANKS,
    H100_SOURCE,
)
from sidebyside import at_least, program_parser, run_program, run_ranks


def print_gpu_link() -> None:
    carried, seconds, fitted = gpu_link()
    print(f"{H100_RANKS} GPUs, {H100_SOURCE}")
    print("        bytes    published       fitted  published / fitted")
    for size, time, line in zip(H100_MICROSECONDS, seconds, fitted, strict=True):
        print(
            f"{size:13,} {1e6 * time:9.1f} µs {1e6 * line:9.1f} µs {time / line:8.2f}"
        )
    alpha, beta = fit_link_cost(carried, seconds)
    print(f"alpha {1e6 * alpha:.1f} µs for all messages, {1e-9 / beta:.0f} GB/s")


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--unseen", type=at_least(1, 64_000_000), default=1_000_000, help="bytes")
    add("--gpus", action="store_true", help="a published table instead")
    args = parser.parse_args()
    if args.gpus:
        return print_gpu_link()

    sizes = [size for size in LINK_SIZES if size != args.unseen]
    timed = run_ranks(time_messages, [*sizes, args.unseen])[0]
    unseen = typical_seconds(timed.pop(args.unseen))
    fitted = fit_with_intervals(timed)
    print("        bytes     measured       fitted")
    for size, seconds in timed.items():
        line = fitted["alpha"] + fitted["beta"] * size
        print(
            f"{size:13,} {1e6 * typical_seconds(seconds):9.0f} µs {1e6 * line:9.0f} µs"
        )
    print(describe_link(fitted))
    line = fitted["alpha"] + fitted["beta"] * args.unseen
    print(f"{args.unseen:,} bytes, left out: predicted {1e6 * line:.0f} µs", end=", ")
    print(f"measured {1e6 * unseen:.0f} µs")


if __name__ == "__main__":
    run_program(main)
