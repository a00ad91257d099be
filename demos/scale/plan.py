"""Find the fastest way to train a model on the GPUs that there are.

Run:      python demos/scale/plan.py
Look for: the five fastest ways to split the work, each with the best that can be made
          of it in memory, and where the time goes. Below: why the first is first, the
          best of each kind, and what it loses by. All times are simulated.
Try:      --between 1: a slow network between the machines. --model llama3-70b --gpus
          256 --gpu H100 --tokens 1e12: days, money and energy. --model llama3-8b
          --sequence 131072 --gpus 8 --batch 8 --gpu H100: long texts. --pipeline 64:
          more stages than layers. --model llama2-13b --gpu RTX4090 --gpus 2: nothing
          fits, and what would. --sweep gpus --output sweep.png: what fewer GPUs cost.
"""

import argparse
import json
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from typing import NamedTuple

from parallel_by_hand.scale.best_plans import draw_step, print_best_plans, print_why
from parallel_by_hand.scale.known_gpus import UNFITTED
from parallel_by_hand.scale.legal_strategies import (
    SHORT,
    TODAY,
    Ways,
    legal_strategies,
    why_no_strategy,
)
from parallel_by_hand.scale.plan_arguments import (
    add_cluster_arguments,
    add_model_arguments,
    add_strategy_arguments,
    cluster_from_arguments,
    model_from_arguments,
    strategy_from_arguments,
)
from parallel_by_hand.scale.plan_facts import (
    facts_of_step,
    flags_of_plan,
    print_facts,
    what_would_fit,
)
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.plan_sweep import draw_sweep, print_sweep, sweep_gpus
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from sidebyside import at_least, picture_file, program_parser, run_program


class Question(NamedTuple):
    """What is to be planned; what was `said` of a strategy is by field."""

    model: Model
    cluster: Cluster
    batch: int
    ways: Ways
    said: dict

    def asked(self, strategy: Strategy) -> bool:
        return all(getattr(strategy, n) == value for n, value in self.said.items())


def read_arguments() -> tuple[argparse.Namespace, Question]:
    """What was asked, if it is possible."""
    parser = program_parser(__doc__)
    add_model_arguments(parser, Model(36, 4096, 32, 2048, 51_200))
    add_strategy_arguments(parser)
    add_cluster_arguments(parser)
    add = parser.add_argument
    add("--batch", type=at_least(1, 10**5), default=512,
        help="sequences in a step; default: 512")  # fmt: skip
    add("--gpus", type=at_least(1, 16_384), default=128, help="default: 128")
    add("--sweep", choices=["gpus"], help="plan for half of --gpus, and so on, too")
    add("--json", action="store_true", help="print JSON and nothing else")
    add("--output", type=picture_file, help="draw the first, or the sweep: plan.png")
    args = parser.parse_args()
    model = model_from_arguments(args)
    cluster = cluster_from_arguments(parser, args, args.gpus)
    said = strategy_from_arguments(args)
    fused, state = said.pop("fused_attention"), said.pop("state")
    ways = TODAY._replace(fused_attention=fused, state=state)
    question = Question(model, cluster, args.batch, ways, said)
    names = ["tensor", "pipeline"] + ["data"] * (model.sequence <= SHORT)
    degrees = {name: said[name] for name in names if name in said}
    if problem := why_no_strategy(model, cluster, args.batch, degrees):
        parser.error(problem)
    if not any(map(question.asked, legal_strategies(*question[:4]))):
        words = ", ".join(f"{name} {value}" for name, value in said.items())
        parser.error(f"the search tries nothing with {words}; simulate.py may")
    return args, question


def sweep(args: argparse.Namespace, question: Question) -> dict:
    """Print and draw the best plan for ever fewer GPUs."""
    tokens = args.tokens or 1e12
    steps = print_sweep(sweep_gpus(*question[:4], question.asked), tokens)
    if args.output and steps:
        draw_sweep(steps, tokens).savefig(args.output, dpi=150)
    return {"sweep": [facts_of_step(step, tokens) for step in steps]}


def plan(args: argparse.Namespace, question: Question) -> dict:
    """Print and draw the best plans, and what the others lose."""
    model, cluster, batch, ways, said = question
    survey = survey_strategies(model, cluster, batch, print, ways)
    best = fastest_strategies(survey, among=question.asked, tell=print)
    print_best_plans(survey, best, question.asked)
    if not best:
        needs = what_would_fit(model, cluster, batch, ways, question.asked)
        room = f"{cluster.memory / 1e9:.1f} ({cluster.memory / 2**30:.1f} GiB)"
        print(f"\nThe least GB a GPU needs, of its {room}:")
        for name, size in needs.items():
            fits = ": fits" if 1e9 * size <= cluster.memory else ""
            print(f"{size:10,.1f}  {name}{fits}")
        return {"plans": [], "would_fit_gb": needs}
    print("\nthe first:")
    print_facts(best[0], args.tokens)
    if not said:
        print_why(survey, best[0])
    if args.output:
        draw_step(best[0]).savefig(args.output, dpi=150)
    plans = [facts_of_step(step, args.tokens) for step in best]
    return {"plans": plans, "flags": flags_of_plan(best[0])}


def main() -> None:
    args, question = read_arguments()
    model, cluster, *_ = question
    unfitted = ", from the data sheet only" if args.gpu in UNFITTED else ""
    links = (cluster.link_within, args.within), (cluster.link_between, args.between)
    within, between = (
        f"{link.bandwidth / 1e9:.3g}" + (f" of {said:g}" if said else "")
        for link, said in links
    )
    with redirect_stdout(StringIO()) if args.json else nullcontext():
        print(
            f"{model.numbers / 1e9:.3g} billion parameters on {args.gpus:,} {args.gpu}"
            f"{unfitted}, {args.batch:,} sequences of {model.sequence:,}: "
            f"{args.batch * model.sequence:,} tokens a step\n"
            f"rings reach {within} GB/s for each GPU in a node, {between} between nodes"
        )
        facts = (sweep if args.sweep else plan)(args, question)
    if args.json:
        asked = {"gpu": args.gpu, "gpus": args.gpus, "batch": args.batch}
        print(json.dumps({"model": vars(model)} | asked | facts, indent=1))


if __name__ == "__main__":
    run_program(main)
