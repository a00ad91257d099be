"""Train digits with several replicas in threads: the design of nn.DataParallel.

Run:      python demos/data_parallel/data_parallel_threads.py --replicas 2
Look for: after every step the weights are off from one model with the whole batch by
          rounding only. All bytes go through device 0: each further replica adds the
          same amount to its traffic. It alone holds the whole batch and all outputs.
Try:      --replicas 8. Or --shared, which "copies" with model.to(device): that makes
          no second model, and each step of two replicas is twice as long.
"""

import torch
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    largest_difference,
    make_digit_model,
    replica_places,
)
from sidebyside import at_least, load_digits, program_parser, run_program

STEPS = 8


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--replicas", type=at_least(1, 64), default=2)
    parser.add_argument("--shared", action="store_true", help="one model for all")
    args = parser.parse_args()

    torch.set_num_threads(1)  # one thread for each replica
    places = replica_places(args.replicas)
    model, alone = make_digit_model().to(places[0]), make_digit_model()
    together = ThreadedReplicas(model, places)
    if args.shared:
        together.replicas = [model.to(place) for place in places]
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
    images, labels = load_digits("train")
    for step in range(STEPS):
        batch = (torch.arange(64) + 64 * step) % len(images)
        sgd.zero_grad()
        F.cross_entropy(alone(images[batch]), labels[batch]).backward()
        sgd.step()
        loss = together.step(images[batch], labels[batch])
        distance = largest_difference(alone, model)
        print(f"step {step + 1:3}  loss {loss:.4f}  off by {distance:.0e}")
    for what, moved in together.traffic.items():
        print(f"{what:>9}: {moved // STEPS:9,} bytes per step at device 0")


if __name__ == "__main__":
    run_program(main)
