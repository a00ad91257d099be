"""How often FSDP2 gathers a block and sends gradients in a step of several parts.

Run:      python demos/sharding/fsdp_switches.py
Look for: with four micro-batches a block is gathered 8 times, 5 if it stays whole after
          backward, 4 if after forward, once if after both. Fewer gathers cost memory:
          all blocks are whole at once. Gradients that are held back are sent once.
Try:      --ranks 3: the same numbers of gathers. --micro-batches 2: 4, 3, 2 and 1.
"""

from itertools import product

from parallel_by_hand.sharding.reshard_switches import SwitchesMeasured, count_gathers
from sidebyside import between, program_parser, run_program, run_ranks

SETTINGS = list(product((False, True), repeat=3))  # kept after which, sent in each


def measure_all(parts: int) -> list[SwitchesMeasured]:
    return [count_gathers(*setting, parts) for setting in SETTINGS]


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=between(1, 4), default=2)
    parser.add_argument("--micro-batches", type=between(1, 8), default=4)
    args = parser.parse_args()
    found = run_ranks(measure_all, args.micro_batches, world_size=args.ranks)[0]
    print("whole after            gradients  gathers of      reduce-    bytes whole")
    print("forward    backward    sent       a block, root   scatters   at the most")
    for setting, one in zip(SETTINGS, found, strict=True):
        forward, backward, each = ("yes" if on else "no" for on in setting)
        sent = "in each" if each == "yes" else "in last"
        most = max(held for _, held in one.entries)
        gathers = f"{one.gathers['1']:7}, {one.gathers['root']:4}"
        print(f"{forward:<10} {backward:<11} {sent:<10} {gathers:<15} ", end="")
        print(f"{one.scatters:8}   {most:11,}")


if __name__ == "__main__":
    run_program(main)
