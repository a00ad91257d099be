"""Find the fastest way to train a model on the GPUs that there are.

Run:      python demos/scale/plan.py
Look for: the five fastest ways to split the work, each with the best that can be made
          of it in memory, and where the time goes. Below: the best of each kind, and
          what it loses by. All times are simulated.
Try:      --between 1: a slow network between the machines. Then --hidden 12288
          --layers 96 --heads 96 --batch 1536 --gpus 1024: GPT-3's size.
          --pipeline 64: more stages than layers. --data 64 --batch 500: a batch that
          cannot be cut. --memory 1: what is the least that a GPU needs?
"""

from dataclasses import replace

from parallel_by_hand.scale.known_gpus import KNOWN_GPUS
from parallel_by_hand.scale.legal_strategies import why_no_strategy
from parallel_by_hand.scale.plan_pictures import (
    OTHER_KINDS,
    print_best_plans,
    print_why_others_lose,
)
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.published_runs import EFFICIENCY
from parallel_by_hand.scale.training_plan import Cluster, Model
from sidebyside import at_least, between, program_parser, run_program


def cluster_from_arguments(parser, args) -> Cluster:
    """Machines of eight GPUs, or one machine with fewer."""
    if args.gpus > 8 and args.gpus % 8:
        allowed = "must be up to 8, or a multiple of 8"
        parser.error(f"argument --gpus: {allowed}, not {args.gpus}")
    cluster = replace(
        KNOWN_GPUS["A100"],
        gpus_per_node=min(8, args.gpus),
        nodes=max(1, args.gpus // 8),
        efficiency=EFFICIENCY,
        memory=1e9 * args.memory,
    )
    if args.between:
        link = cluster.link_between._replace(bandwidth=1e9 * args.between)
        cluster = replace(cluster, link_between=link)
    return cluster


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--layers", type=at_least(1, 1000), default=36)
    add("--hidden", type=at_least(1, 10**5), default=4096)
    add("--heads", type=at_least(1, 1000), default=32)
    add("--sequence", type=at_least(1, 10**6), default=2048, help="tokens")
    add("--vocabulary", type=at_least(1, 10**6), default=51_200)
    add("--batch", type=at_least(1, 10**5), default=512, help="sequences in a step")
    add("--gpus", type=at_least(1, 16_384), default=128)
    add("--memory", type=between(0.001, 1000), default=80, help="GB of a GPU")
    add("--between", type=between(0.001, 10**4), help="GB/s of a GPU to other machines")
    for degree in "data", "tensor", "pipeline":
        add(f"--{degree}", type=at_least(1, 16_384), help=f"only this {degree} degree")
    args = parser.parse_args()
    model = Model(args.layers, args.hidden, args.heads, args.sequence, args.vocabulary)
    cluster = cluster_from_arguments(parser, args)
    wanted = {d: getattr(args, d) for d in ("data", "tensor", "pipeline")}
    wanted = {degree: count for degree, count in wanted.items() if count}
    if problem := why_no_strategy(model, cluster, args.batch, wanted):
        parser.error(problem)

    def asked(strategy) -> bool:
        return all(getattr(strategy, d) == count for d, count in wanted.items())

    print(f"{model.numbers / 1e9:.1f} billion parameters on {args.gpus:,} "
          f"A100, {args.batch:,} sequences of {args.sequence:,}")  # fmt: skip
    survey = survey_strategies(model, cluster, args.batch, tell=print)
    best = fastest_strategies(survey, among=asked, tell=print)
    print_best_plans(survey, best, asked)
    if best and not wanted:
        print_why_others_lose(survey, best[0], OTHER_KINDS)


if __name__ == "__main__":
    run_program(main)
