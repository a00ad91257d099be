"""Run one training step of a small network as a graph of operations on devices.

Run:      python demos/dataflow/dataflow.py --placement branch
Look for: the loss and the gradients are autograd's under every placement. What differs
          is which device works when, and how many values cross between devices.
          In letters: f forward, b backward, t transfer; dots are idle.
          Times are of this machine; --simulated counts slots instead.
Try:      --placement round-robin sends ten values; --devices 1 sends none.
          --simulated --link 4 shows what slow links cost each placement.
"""

from parallel_by_hand.dataflow.operations import placed, transfers_in, with_transfers
from parallel_by_hand.dataflow.placement_heuristics import HEURISTICS
from parallel_by_hand.dataflow.simulated_devices import (
    dataflow_letters,
    makespan,
    simulate_dataflow,
)
from parallel_by_hand.dataflow.two_branch_network import (
    by_branch,
    graph_of_two_branches,
    largest_gap,
    make_two_branches,
    plain_gradients,
    run_two_branches,
)
from sidebyside import at_least, between, load_digits, program_parser, run_program

RULES = {name.replace(" ", "-"): rule for name, rule in HEURISTICS.items()}


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--placement", choices=["branch", *RULES, "all"], default="all")
    add("--devices", type=at_least(1, 16), default=2, help="default: 2")
    add("--simulated", action="store_true", help="count slots, measure nothing")
    add(
        "--link",
        type=between(0, 1000),
        default=1,
        help="simulated slots of a transfer",
    )
    args = parser.parse_args()

    weights, (images, labels) = make_two_branches(512), load_digits("train")
    graph = graph_of_two_branches(weights, images, labels)
    expected = plain_gradients(weights, images, labels)
    names = ["branch", *RULES] if args.placement == "all" else [args.placement]
    for name in names:
        if name == "branch":
            placement = {op: d % args.devices for op, d in by_branch(graph).items()}
        else:
            placement = RULES[name](graph, args.devices)
        sent = transfers_in(with_transfers(placed(graph, placement)))
        print(f"{name}: values that cross: {len(sent)}", end="")
        if args.simulated:
            crossed = with_transfers(placed(graph, placement), args.link)
            ran = simulate_dataflow(crossed)
            print(f"; simulated: {makespan(ran):g} slots")
        else:
            machine = run_two_branches(weights, images, labels, placement)
            ran, gap = machine.ran, largest_gap(machine.values, expected)
            print(f"; equal to autograd within 1e-6: {gap <= 1e-6}")
        print(dataflow_letters(ran) + "\n")


if __name__ == "__main__":
    run_program(main)
