"""All-reduce over a slow link: one flat ring of all ranks, or hierarchical.

Run:      python demos/machines/hierarchical_all_reduce.py --rate 200
Look for: a flat ring of four ranks sends one and a half tensors across the link in each
          direction, hierarchical all-reduce one. The times follow the bytes. Where this
          system allows two hosts, the link joins their networks, and its own counter
          stands beside ours: headers and acknowledgements take 6 or 7 per cent.
          Otherwise it is simulated.
Try:      --order dealt: neighbours in the ring never sit on one machine, and it sends
          twice the bytes. --per-machine 1: nothing is left to gain.
          (It takes ten to twenty seconds.)
"""

from parallel_by_hand.machines.hierarchical_all_reduce import bytes_across, time_across
from parallel_by_hand.machines.two_machines import TwoMachines
from sidebyside import at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--rate", type=between(10, 2000), default=200, help="Mbit/s")
    parser.add_argument("--megabytes", type=between(0.01, 64), default=16)
    parser.add_argument("--per-machine", type=at_least(1, 8), default=2, help="ranks")
    parser.add_argument("--order", choices=("numbered", "dealt"), default="numbered")
    args = parser.parse_args()
    elements = round(args.megabytes * 250_000)
    ring = "flat ring" if args.order == "numbered" else "dealt ring"
    with TwoMachines(args.rate) as machines:
        print(machines)
        print(
            "                 bytes across   bytes / rate   measured   link's counter"
        )
        for way in (ring, "hierarchical"):
            work = way, elements, args.per_machine
            found = machines.run_ranks(time_across, *work, per_machine=args.per_machine)
            crossed = bytes_across(found, args.per_machine)
            predicted = crossed * 8e-6 / args.rate
            counted = f"{found[0].counted:11.1f} MB" if found[0].counted else "none"
            print(f"{way:<14} {crossed:14,} {predicted:12.2f} s", end=" ")
            print(f"{found[0].seconds:8.2f} s   {counted:>14}")


if __name__ == "__main__":
    run_program(main)
