"""Six sick programs, and five tools that look into their ranks.

Run:      python demos/clinic/patients.py
Look for: four hang, one is ended by the operating system, and one ends without any
          complaint. No tool says anything about that one: only its sums do.
Try:      --patient eve --tool recorder. Which entry has only one of the ranks?
          --patient finn --tool stacks says which line of which rank it is.
          --patient ben --code shows the program.
"""

from parallel_by_hand.clinic.examinations import TOOLS, examine_patient, ward_round
from parallel_by_hand.clinic.sick_programs import PATIENTS
from parallel_by_hand.clinic.ward import show_patients
from sidebyside import program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--patient", choices=PATIENTS, help="default: all")
    parser.add_argument("--tool", choices=TOOLS, default="report")
    parser.add_argument("--code", action="store_true", help="show the program, too")
    args = parser.parse_args()
    if args.code and not args.patient:
        parser.error("argument --code: needs --patient")

    if not args.patient:
        print("three ranks each, with gloo, after a second")
        ward_round()
        return
    if args.code:
        show_patients(args.patient)
    examine_patient(args.patient, args.tool)


if __name__ == "__main__":
    run_program(main)
