"""Average the models once at the end, or the gradients at each step?

Run:      python demos/sgd/parallel_sgd.py --workers 4
Look for: on the convex problem one message per worker at the end is nearly as good as
          one at every step. For networks that start differently the average is worse
          than the best of them by far. The last lines show why: numbering the hidden
          units in another order changes no answer of a network, and spoils the average.
Try:      --workers 16. Each share is smaller, and the convex average holds.
"""

import torch
from torch import nn

from parallel_by_hand.sgd.digits_network import digits_network, digits_softmax
from parallel_by_hand.sgd.parallel_sgd import (
    average_gradients_each_step,
    average_models_once,
    best_model_of,
    held_out,
    in_another_order,
    mean_of_models,
    worker_batches,
)
from sidebyside import at_least, program_parser, run_program


def print_held_out(name: str, model: nn.Module, messages: object = "") -> None:
    loss, wrong = held_out(model)
    print(f"{name:<44} {messages:>9} {loss:>7.3f} {100 * wrong:>7.1f}")


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--workers", type=at_least(2, 64), default=4)
    parser.add_argument("--steps", type=at_least(1, 2000), default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)

    workers, batches = range(args.workers), worker_batches(args.workers, args.steps)
    print(f"{'':<44} {'messages':>9} {'held-out loss, wrong in %':>25}")
    starts = {
        "convex": (digits_softmax, [digits_softmax() for _ in workers]),
        "network, one start": (digits_network, [digits_network() for _ in workers]),
        "network, own starts": (digits_network, [digits_network(w) for w in workers]),
    }
    for name, (make, models) in starts.items():
        average = average_models_once(models, batches, make)
        print_held_out(f"{name}: the best worker alone", best_model_of(models), 0)
        print_held_out(f"{name}: models averaged once", average, 1)
        each = average_gradients_each_step(make(), batches)
        print_held_out(f"{name}: gradients at each step", each, args.steps)
    trained = models[0]
    other = in_another_order(trained)
    print_held_out("a network", trained)
    print_held_out("the same, its units in another order", other)
    print_held_out(
        "the average of the two", mean_of_models([trained, other], digits_network)
    )


if __name__ == "__main__":
    run_program(main)
