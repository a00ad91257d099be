"""Time two LSTM layers on two ranks, in chunks, against torch's own on one rank.

Run:      python tests/benchmarks/wavefront_beside_one_device.py
Look for: the smallest number of each row. Narrow layers are fastest alone; wide ones
          in chunks of 8 or 16, if there are two free cores.
Try:      --rounds 20 on a machine that others use too.
"""

import torch

from parallel_by_hand.model_parallel.wavefront import time_flow_and_alone
from sidebyside import positive_int, program_parser, run_ranks

WIDTHS, CHUNKS = [16, 64, 128, 256], [64, 16, 8, 4, 1]


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--rounds", type=positive_int, default=5, help="default: 5")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, sequences of 64, forward and backward, ms")
    print("width   alone" + "".join(f"  k = {chunk:2}" for chunk in CHUNKS))
    for width in WIDTHS:
        seconds = run_ranks(
            time_flow_and_alone, width, CHUNKS, 64, args.rounds, timeout=600
        )[0]
        shown = "".join(f"{1e3 * took:8.0f}" for took in seconds.values())
        print(f"{width:5}{shown}", flush=True)


if __name__ == "__main__":
    main()
