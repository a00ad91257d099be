"""Simulate one training step of a transformer on a cluster: time, memory, bytes, cost.

Run:      python demos/scale/simulate.py
Look for: where the step's time goes. Hardware utilisation counts what is computed
          twice, model utilisation does not. The first stage is the fullest: it keeps
          the activations of most micro-batches.
Try:      --shard-stage 1: the optimiser is shared out. --recomputation none: less time,
          and more memory. --tensor 16 --pipeline 2: tensor ranks that talk across
          nodes. --trace step.json, and open it in https://ui.perfetto.dev.
          --rows resources/data/published_runs.csv: what published runs measured,
          beside the simulator and beside the best constant. --ranks: and the planner.
          10,240 GPUs: --layers 80 --hidden 12288 --heads 96 --data 128 --tensor 8
          --pipeline 10 --micro-batch 1 --batch 3072.
"""

import argparse
import json
from math import prod
from pathlib import Path

from parallel_by_hand.scale.best_plans import draw_step, print_place
from parallel_by_hand.scale.legal_strategies import TODAY
from parallel_by_hand.scale.plan_arguments import (
    add_cluster_arguments,
    add_model_arguments,
    add_strategy_arguments,
    cluster_from_arguments,
    model_from_arguments,
    strategy_from_arguments,
)
from parallel_by_hand.scale.plan_facts import facts_of_step, print_training
from parallel_by_hand.scale.plan_search import split_of, survey_strategies
from parallel_by_hand.scale.published_table import (
    HeldRow,
    facts_of_rows,
    hold_rows,
    print_rows,
    read_published_rows,
)
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.step_tables import print_step
from parallel_by_hand.scale.training_plan import Model, Strategy
from sidebyside import (
    at_least,
    output_file,
    picture_file,
    program_parser,
    run_program,
)

MOST_LANES = 8  # stages in the text timeline


def hold(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Every row of a table of published runs, simulated, or its split ranked."""
    option, path = ("ranks", args.ranks) if args.ranks else ("rows", args.rows)
    try:
        held = hold_rows(read_published_rows(path))
    except OSError as problem:
        parser.error(f"argument --{option}: {path}: {problem.strerror}")
    except ValueError as problem:
        parser.error(f"argument --{option}: {problem}")
    if args.ranks:
        print_ranks(held)
    elif args.json:
        print(json.dumps(facts_of_rows(held), indent=1))
    else:
        print_rows(held)


def print_ranks(held: list[HeldRow]) -> None:
    """Where the planner sees each split (data, tensor, pipeline) that was chosen."""
    rows = [one.row for one in held]
    chosen = {(row.name, row.cluster, split_of(row.strategy)): row for row in rows}
    for (name, _, split), row in chosen.items():
        ways = TODAY._replace(fused_attention=row.strategy.fused_attention)
        survey = survey_strategies(row.model, row.cluster, row.batch, ways=ways)
        try:
            print_place(f"{name} {row.family}", survey, split)
        except ValueError as problem:
            print(f"{name:<27} {problem}")


def main() -> None:
    parser = program_parser(__doc__)
    add_model_arguments(parser, Model(24, 2304, 24, 2048, 51_200))
    add_strategy_arguments(parser, Strategy(4, 2, 4, 0, 4, "1f1b", "full"))
    add_cluster_arguments(parser)
    add = parser.add_argument
    add("--batch", type=at_least(1, 10**6), default=128, help="sequences; default: 128")
    add("--gpus", type=at_least(1, 10**6), help="default: what the degrees multiply to")
    add("--rows", type=Path, help="simulate a CSV of published runs instead")
    add("--ranks", type=Path, help="of such a CSV: how the planner ranks its splits")
    add("--json", action="store_true", help="print JSON and nothing else")
    add("--trace", type=output_file, help="write a Chrome trace of the step")
    add("--output", type=picture_file, help="draw it, such as step.png")
    args = parser.parse_args()
    if args.rows or args.ranks:
        hold(parser, args)
        return
    degrees = args.data, args.tensor, args.pipeline, args.context
    cluster = cluster_from_arguments(parser, args, args.gpus or prod(degrees))
    strategy = Strategy(**strategy_from_arguments(args))
    try:
        step = simulate_step(model_from_arguments(args), cluster, strategy, args.batch)
    except ValueError as problem:
        parser.error(str(problem))

    timeline = timeline_of_step(step)
    if args.json:
        asked = {"gpu": args.gpu, "gpus": cluster.gpus, "batch": args.batch}
        asked["model"] = vars(step.model)
        print(json.dumps(asked | facts_of_step(step, args.tokens), indent=1))
    else:
        print_step(step)
        print_training(step, args.tokens)
        if strategy.pipeline <= MOST_LANES:
            print(f"\n{timeline.text(64)}")
    if args.trace:
        timeline.save(args.trace)
    if args.output:
        draw_step(step).savefig(args.output, dpi=150)


if __name__ == "__main__":
    run_program(main)
