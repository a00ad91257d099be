"""How often should a training save? Simulated failures, formulas, and five real kills.

Run:      python demos/failures/checkpoint_interval.py --mean 0.8 --save 0.08
Look for: saving too often costs time; saving too rarely loses much at each failure.
          Young's interval is close to the best, and around it the goodput hardly
          changes. Five real kills give what the clock says for the same five moments;
          another five could give nearly anything, as the last line shows.
Try:      --mean 11134 --save 60 --restart 300 --real 0: Llama 3's 16,384 GPUs, with a
          minute for a checkpoint. Then --mean 1824, as if there were 100,000.
"""

from itertools import islice

from parallel_by_hand.failures.checkpoint_interval import (
    Machine,
    best_interval,
    daly_interval,
    expected_goodput,
    goodput_spread_of_few_failures,
    random_failures,
    simulated_goodput,
    young_interval,
)
from parallel_by_hand.failures.real_kills import survive_kills
from sidebyside import at_least, between, program_parser, run_program


def print_intervals(machine: Machine) -> None:
    young = young_interval(machine)
    print("interval, s   goodput simulated, %   by the formula, %")
    for times in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
        every = young * times
        simulated = simulated_goodput(every, machine)
        expected = expected_goodput(every, machine)
        print(f"{every:11.4g} {100 * simulated:16.1f} {100 * expected:20.1f}")
    print(f"best interval by search {best_interval(machine):.4g} s, ", end="")
    print(f"Young's {young:.4g} s, Daly's {daly_interval(machine):.4g} s")


def print_real_kills(machine: Machine, kills: int) -> None:
    every = young_interval(machine)
    failures = list(islice(random_failures(machine.mean, seed=8), kills))
    survived = survive_kills(every, machine, failures)
    print(f"{kills} real kills, saving every {every:.4g} s: ", end="")
    print(f"goodput {100 * survived.goodput:.1f} %, ", end="")
    print(f"the clock with the same kills {100 * survived.predicted:.1f} %")
    low, high = goodput_spread_of_few_failures(every, machine, kills)
    print(f"{kills} failures, a thousand simulations: 80 of 100 lie from ", end="")
    print(f"{100 * low:.0f} % to {100 * high:.0f} %")


def main() -> None:
    parser = program_parser(__doc__)
    add, seconds = parser.add_argument, between(0.001, 1e9)
    add("--mean", type=seconds, default=0.8, help="seconds between failures")
    add("--save", type=seconds, default=0.08, help="seconds of a checkpoint")
    add("--restart", type=between(0, 1e9), default=0.25, help="seconds")
    add("--real", type=at_least(0, 100), default=5, help="real kills; default: 5")
    args = parser.parse_args()
    machine = Machine(args.mean, args.save, args.restart)
    if args.restart > 5 * args.mean or args.save > 5 * args.mean:
        parser.error("argument --mean: must be a fifth of --save and --restart")
    if args.real and args.real * args.mean > 600:
        parser.error("argument --real: must be fewer: these kills take ten minutes")
    print_intervals(machine)
    if args.real:
        print_real_kills(machine, args.real)


if __name__ == "__main__":
    run_program(main)
