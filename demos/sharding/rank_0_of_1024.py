"""One process poses as rank 0 of many, and shards a model that would not fit here.

Run:      python demos/sharding/rank_0_of_1024.py
Look for: FSDP2 cuts each parameter by its rows, for 1,024 ranks, and torch reports what
          rank 0 would keep. Times 16 bytes, that is the last row of the ZeRO paper's
          Table 1: 0.12 GB. No number is stored: the model is on the meta device,
          and the collectives of a fake group do nothing.
Try:      --vocabulary 50257. The embedding's rows no longer divide evenly, so rank 0
          gets some that the last ranks lack.
"""

from parallel_by_hand.sharding.rank_0_of_1024 import kept_by_rank_0
from sidebyside import at_least, program_parser, run_program

RANKS = 1024


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--vocabulary", type=at_least(1, 1_000_000), default=51_200)
    whole, kept = kept_by_rank_0(RANKS, vocabulary=parser.parse_args().vocabulary)
    share = whole / RANKS
    print(f"the model: {whole:,} numbers, {16e-9 * whole:.1f} GB at 16 bytes each")
    print(f"1/{RANKS} of them: {share:,.1f}")
    print(f"rank 0 keeps {kept:,} numbers, {16e-9 * kept:.2f} GB at 16 bytes each")
    print(f"more than its share by a factor of {kept / share:.5f}")


if __name__ == "__main__":
    run_program(main)
