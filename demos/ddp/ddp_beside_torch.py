"""Set our DistributedDataParallel beside torch's: buckets, messages, and time.

Run:      python demos/ddp/ddp_beside_torch.py
Look for: in both, the first message sets out before the last gradient is ready: there
          the bar of backward ends, and what is left of the call is waiting, W. Torch
          learns in its first step which gradients it gets in which order: all of them
          travel in one bucket then, and in several from the second step on.
Try:      --bucket-mb 25. All gradients fit into one bucket, and nothing leaves early.
"""

from parallel_by_hand.ddp.ddp_beside_torch import (
    bytes_of_messages,
    draw_sixth_step,
    ratio_of_steps,
)
from sidebyside import Timeline, between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--bucket-mb", type=between(1, 1000), default=1, help="default: 1")
    bucket_mb = parser.parse_args().bucket_mb
    for kind in "ours", "torch's":
        first, second, _ = run_ranks(bytes_of_messages, kind, bucket_mb)[0]
        for step, sizes in ("1", first), ("2", second):
            sent = " + ".join(f"{size:,}" for size in sizes)
            print(f"{kind}: step {step} sends messages of {sent} bytes")
        with Timeline() as timeline:
            run_ranks(draw_sixth_step, kind, bucket_mb)
        print(timeline.text() + "\n")
    print(f"our step takes {run_ranks(ratio_of_steps)[0]:.2f} × as long as torch's")


if __name__ == "__main__":
    run_program(main)
