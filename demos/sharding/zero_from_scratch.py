"""Train digits with ZeRO-1, 2 and 3 of our own beside data parallel, step by step.

Run:      python demos/sharding/zero_from_scratch.py
Look for: with two ranks all four have the same losses and the same parameters, bit for
          bit. ZeRO-1 and 2 send what data parallel sends; ZeRO-3 sends half as much
          again, and keeps only its share of everything.
Try:      --ranks 3. Sums of three numbers depend on their order: parameters now differ
          by rounding. --accumulate 4: each stage sends other things more often.
"""

import torch

from parallel_by_hand.sharding.zero_from_scratch import WAYS, train_in_stage
from sidebyside import at_least, program_parser, run_program, run_ranks

STEPS = 8


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 8), default=2)
    parser.add_argument("--accumulate", type=at_least(1, 4), default=1)
    args = parser.parse_args()
    found = {
        way: run_ranks(
            train_in_stage, way, STEPS, args.accumulate, world_size=args.ranks
        )[0]
        for way in WAYS[:4]
    }
    alike = found["DDP"]["parameters"]
    print("step  loss " + "".join(f"{way:>12}" for way in WAYS[:4]))
    for step in range(STEPS):
        losses = (f"{found[way]['losses'][step]:12.6f}" for way in WAYS[:4])
        print(f"{step + 1:4}       " + "".join(losses))
    print("\nrank 0, in bytes      kept   gathered  gradients  optimiser       sent")
    for way, one in found.items():
        numbers = (one[k] for k in ("kept", "gathered", "gradients", "optimiser"))
        columns = "".join(f"{number:11,}" for number in (*numbers, one["sent"]))
        print(f"{way:<15}{columns}")
    for way in WAYS[1:4]:
        pairs = zip(found[way]["parameters"], alike, strict=True)
        gap = torch.stack([(one - other).abs().max() for one, other in pairs]).max()
        print(f"{way}: parameters differ from DDP's by {gap:.0e} at most")


if __name__ == "__main__":
    run_program(main)
