"""How long does lesson 19b's planner search, and where do published choices stand?

Run:      python tests/benchmarks/planner_times.py
Look for: the search over all legal strategies of 1,024 GPUs takes less than 30 s, and
          one strategy of 10,240 less than 1 s. Below them the place of the published
          splits, and the miss of every published row. The last lines say whether the
          two goals are met.
Try:      --gpus 4096.
"""

import argparse
from time import perf_counter

from parallel_by_hand.scale.held_to_the_world import print_held_runs, simulate_run
from parallel_by_hand.scale.plan_pictures import print_place
from parallel_by_hand.scale.plan_search import (
    fastest_strategies,
    split_of,
    survey_strategies,
)
from parallel_by_hand.scale.published_runs import (
    fixed_batch_runs,
    gpt,
    known_in_2021,
    llama_runs,
    megatron_runs,
    selene,
)
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Strategy
from sidebyside import at_least

BATCH = 1536
GOAL_OF_ONE, GOAL_OF_SEARCH = 1.0, 30.0  # seconds; a search over 1,024 GPUs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=at_least(8, 16_384), default=1024)
    args = parser.parse_args()
    if args.gpus % 8:
        parser.error(f"argument --gpus: must be a multiple of 8, not {args.gpus}")
    model = gpt(layers=96, hidden=12_288, heads=96)

    began = perf_counter()
    strategy = Strategy(data=80, tensor=8, pipeline=16, recomputation="full")
    simulate_step(model, selene(10_240), strategy, 80 * 64)
    one = perf_counter() - began
    print(f"one strategy of 10,240 GPUs: {one:.2f} s")
    began = perf_counter()
    survey = survey_strategies(model, selene(args.gpus), BATCH, tell=print)
    fastest_strategies(survey, tell=print)
    search = perf_counter() - began
    print(f"search over {args.gpus:,} GPUs: {search:.1f} s")

    runs = [*megatron_runs(), *fixed_batch_runs()[3:4], *llama_runs()[:1]]
    for run in runs:
        survey = survey_strategies(run.model, run.cluster, run.batch)
        for name, among in (
            (run.name, lambda strategy: True),
            ("  as known in 2021", known_in_2021),
        ):
            try:
                print_place(name, survey, split_of(run.strategy), among)
            except ValueError as problem:
                print(f"{name:<27} {problem}")
    for make in (megatron_runs, fixed_batch_runs, llama_runs):
        print_held_runs([simulate_run(run) for run in make()])
    print_verdict("one strategy of 10,240 GPUs", one, GOAL_OF_ONE)
    if args.gpus == 1024:
        print_verdict("search over 1,024 GPUs", search, GOAL_OF_SEARCH)


def print_verdict(what: str, seconds: float, goal: float) -> None:
    verdict = "goal met" if seconds <= goal else "goal not met"
    print(f"{what}: {seconds:.2f} s, at most {goal:.0f} s wanted: {verdict}")


if __name__ == "__main__":
    main()
