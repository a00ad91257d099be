"""Find the fastest way to train a model on the GPUs that there are.

Run:      python demos/scale/plan.py
Look for: the five fastest ways to split the work, each with the best that can be made
          of it in memory, and where the time goes. Below: the best of each kind, and
          what it loses by. All times are simulated.
Try:      --between 1: a slow network between the machines. --model llama3-70b --gpus
          256 --gpu H100 --tokens 1e12: days, money and energy. --model llama3-8b
          --sequence 131072 --gpus 8 --batch 8 --gpu H100: long texts. --pipeline 64:
          more stages than layers. --model llama2-13b --gpu RTX4090 --gpus 2: nothing
          fits, and what would.
"""

import json

from parallel_by_hand.scale.known_gpus import UNFITTED
from parallel_by_hand.scale.legal_strategies import TODAY, why_no_strategy
from parallel_by_hand.scale.plan_arguments import (
    add_cluster_arguments,
    add_model_arguments,
    cluster_from_arguments,
    model_from_arguments,
)
from parallel_by_hand.scale.plan_facts import (
    OPTIMISERS,
    facts_of_step,
    flags_of_plan,
    print_facts,
    what_would_fit,
)
from parallel_by_hand.scale.plan_pictures import (
    OTHER_KINDS,
    print_best_plans,
    print_why_others_lose,
)
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.training_plan import Model
from sidebyside import at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add_model_arguments(parser, Model(36, 4096, 32, 2048, 51_200))
    add_cluster_arguments(parser)
    add = parser.add_argument
    add("--batch", type=at_least(1, 10**5), default=512,
        help="sequences in a step; default: 512")  # fmt: skip
    add("--gpus", type=at_least(1, 16_384), default=128, help="default: 128")
    add("--tokens", type=between(1, 1e15), default=0, help="of the whole training")
    kept = "what a GPU keeps of it; its time is Adam's; default: adam"
    add("--optimizer", choices=OPTIMISERS, default="adam", help=kept)
    add("--json", action="store_true", help="print JSON and nothing else")
    for degree in "data", "tensor", "pipeline":
        add(f"--{degree}", type=at_least(1, 16_384), help=f"only this {degree} degree")
    args = parser.parse_args()
    model = model_from_arguments(args)
    cluster = cluster_from_arguments(parser, args, args.gpus)
    state = OPTIMISERS[args.optimizer]
    ways = TODAY._replace(fused_attention=args.attention == "fused", state=state)
    wanted = {d: getattr(args, d) for d in ("data", "tensor", "pipeline")}
    wanted = {degree: count for degree, count in wanted.items() if count}
    if problem := why_no_strategy(model, cluster, args.batch, wanted):
        parser.error(problem)

    def asked(strategy) -> bool:
        return all(getattr(strategy, d) == count for d, count in wanted.items())

    def tell(line: str) -> None:
        if not args.json:
            print(line)

    unfitted = ", unfitted" if args.gpu in UNFITTED else ""
    what = f"{model.numbers / 1e9:.1f} billion parameters on {args.gpus:,} {args.gpu}"
    tell(f"{what}{unfitted}, {args.batch:,} sequences of {model.sequence:,}")
    survey = survey_strategies(model, cluster, args.batch, tell, ways)
    best = fastest_strategies(survey, among=asked, tell=tell)
    if args.json:
        plans = [facts_of_step(step, args.tokens) for step in best]
        print(json.dumps({"plans": plans}, indent=1))
        return
    print_best_plans(survey, best, asked)
    if not best:
        print(f"\nGB that a GPU needs at the least, of {cluster.memory / 1e9:.1f}:")
        for name, size in what_would_fit(model, cluster, args.batch, ways).items():
            print(f"{size:10,.1f}  {name}")
        return
    print("\nthe first:")
    print_facts(best[0], args.tokens)
    for program, flags in flags_of_plan(best[0]).items():
        print(f"{program}: {flags}")
    if not wanted:
        print_why_others_lose(survey, best[0], OTHER_KINDS)


if __name__ == "__main__":
    run_program(main)
