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
          --micro-batch 2 --recomputation full: the best of those that have both.
"""

import argparse
import json
from contextlib import nullcontext, redirect_stdout
from functools import partial
from io import StringIO

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
    arguments_of_strategy,
    cluster_from_arguments,
    model_from_arguments,
    strategy_from_arguments,
)
from parallel_by_hand.scale.plan_facts import (
    facts_of_step,
    flags_of_plan,
    print_facts,
    print_training,
    print_what_would_fit,
    what_would_fit,
)
from parallel_by_hand.scale.plan_figures import draw_step, draw_sweep
from parallel_by_hand.scale.plan_pictures import (
    best_of_kinds,
    print_best_plans,
    print_kinds,
    why_best,
)
from parallel_by_hand.scale.plan_search import fastest_strategies, survey_strategies
from parallel_by_hand.scale.plan_sweep import print_sweep, sweep_gpus
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from sidebyside import at_least, picture_file, program_parser, run_program

ALWAYS_SAID = {"fused_attention", "state"}  # of a strategy


def ways_of(said: dict) -> Ways:
    fused, state = said["fused_attention"], said["state"]
    return TODAY._replace(fused_attention=fused, state=state)


def is_asked(strategy: Strategy, said: dict) -> bool:
    return all(getattr(strategy, name) == value for name, value in said.items())


def read_arguments() -> tuple[argparse.Namespace, Model, Cluster, dict]:
    """What was asked; what was said of a strategy is a dict of its fields."""
    parser = program_parser(__doc__)
    add_model_arguments(parser, Model(36, 4096, 32, 2048, 51_200))
    add_strategy_arguments(parser)
    add_cluster_arguments(parser)
    add = parser.add_argument
    add("--batch", type=at_least(1, 10**5), default=512,
        help="sequences in a step; default: 512")  # fmt: skip
    add("--gpus", type=at_least(1, 16_384), default=128, help="default: 128")
    fewer = "plan for --gpus, for half of them, and so on"
    add("--sweep", choices=["gpus"], help=fewer)
    add("--json", action="store_true", help="print JSON and nothing else")
    add("--output", type=picture_file, help="draw the first, or the sweep: plan.png")
    args = parser.parse_args()
    model = model_from_arguments(args)
    cluster = cluster_from_arguments(parser, args, args.gpus)
    said = strategy_from_arguments(args)
    names = ["tensor", "pipeline"] + ["data"] * (model.sequence <= SHORT)
    degrees = {name: said[name] for name in names if name in said}
    if problem := why_no_strategy(model, cluster, args.batch, degrees):
        parser.error(problem)
    legal = legal_strategies(model, cluster, args.batch, ways_of(said))
    if not any(is_asked(strategy, said) for strategy in legal):
        words = ", ".join(f"{n} {v}" for n, v in said.items() if n not in ALWAYS_SAID)
        parser.error(f"the search tries nothing with {words}; simulate.py may")
    return args, model, cluster, said


def print_question(args: argparse.Namespace, model: Model, cluster: Cluster) -> None:
    """The model, the GPUs and their links, as they were understood."""
    unfitted = ", unfitted" if args.gpu in UNFITTED else ""
    within, between = cluster.link_within, cluster.link_between
    print(
        f"{model.numbers / 1e9:.3g} billion parameters on {args.gpus:,} {args.gpu}"
        f"{unfitted}, {args.batch:,} sequences of {model.sequence:,}\n"
        f"what rings reach for each GPU: {within.bandwidth / 1e9:.3g} GB/s in a node, "
        f"{between.bandwidth / 1e9:.3g} GB/s between nodes"
    )


def sweep(args: argparse.Namespace, model: Model, cluster: Cluster, said: dict) -> dict:
    """Print and draw the best plan for ever fewer GPUs."""
    tokens = args.tokens or 1e12
    asked = partial(is_asked, said=said)
    found = sweep_gpus(model, cluster, args.batch, ways_of(said), asked)
    steps = print_sweep(found, tokens)
    if args.output and steps:
        draw_sweep(steps, tokens).savefig(args.output, dpi=150)
    return {"sweep": [facts_of_step(step, tokens) for step in steps]}


def plan(args: argparse.Namespace, model: Model, cluster: Cluster, said: dict) -> dict:
    """Print and draw the best plans, and what the others lose."""
    asked, ways = partial(is_asked, said=said), ways_of(said)
    survey = survey_strategies(model, cluster, args.batch, print, ways)
    best = fastest_strategies(survey, among=asked, tell=print)
    facts: dict = {"plans": [facts_of_step(step, args.tokens) for step in best]}
    print_best_plans(survey, best, asked)
    if not best:
        needs = what_would_fit(model, cluster, args.batch, ways)
        print_what_would_fit(needs, cluster)
        return facts | {"would_fit_gb": needs}
    first = best[0]
    print("\nthe first:")
    print_facts(first)
    print_training(first, args.tokens)
    flags = flags_of_plan(first)
    flags["simulate.py"] = arguments_of_strategy(first.strategy)
    for program, text in flags.items():
        print(f"{program}: {text}")
    if args.output:
        draw_step(first).savefig(args.output, dpi=150)
    if said.keys() - ALWAYS_SAID:
        return facts | {"flags": flags}
    kinds = best_of_kinds(survey)
    why = why_best(first, kinds)
    print(f"why: {why}")
    print_kinds(kinds, first)
    return facts | {"flags": flags, "why": why}


def main() -> None:
    args, model, cluster, said = read_arguments()
    answer = sweep if args.sweep else plan
    with redirect_stdout(StringIO()) if args.json else nullcontext():
        print_question(args, model, cluster)
        facts = answer(args, model, cluster, said)
    if args.json:
        print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    run_program(main)
