"""Simulate one training step of a transformer on a cluster: time, memory, bytes, cost.

Run:      python demos/scale/simulate.py
Look for: where the step's time goes. Hardware utilisation counts what is computed
          twice, model utilisation does not. The first stage is the fullest: it keeps
          the activations of most micro-batches.
Try:      --shard-stage 1: the optimiser is shared out. --recomputation none: less time,
          and memory that no GPU has. --tensor 16 --pipeline 2: tensor ranks that talk
          across nodes. --trace step.json, and open it in https://ui.perfetto.dev.
          10,240 GPUs: --layers 80 --hidden 12288 --heads 96 --nodes 1280 --data 128
          --tensor 8 --pipeline 10 --micro-batch 1 --batch 3072.
"""

import argparse
from dataclasses import replace

from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale.known_gpus import KNOWN_GPUS
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.step_tables import print_step
from parallel_by_hand.scale.training_plan import RECOMPUTATIONS, Model, Strategy
from sidebyside import at_least, output_file, program_parser, run_program

MOST_LANES = 8  # stages in the text timeline


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """--layers, --hidden, --heads, --sequence, --vocabulary and --batch."""
    add, largest = parser.add_argument, at_least(1, 1_000_000)
    add("--layers", type=at_least(1, 1000), default=24, help="default: 24")
    add("--hidden", type=largest, default=2304, help="default: 2304")
    add("--heads", type=at_least(1, 10_000), default=24, help="default: 24")
    add("--sequence", type=largest, default=2048, help="tokens; default: 2048")
    add("--vocabulary", type=largest, default=51_200, help="default: 51200")
    add("--batch", type=largest, default=128, help="sequences; default: 128")


def add_strategy_arguments(parser: argparse.ArgumentParser) -> None:
    """The fields of `Strategy`."""
    add, degree = parser.add_argument, at_least(1, 100_000)
    add("--data", type=degree, default=4, help="default: 4")
    add("--tensor", type=degree, default=2, help="default: 2")
    add("--pipeline", type=at_least(1, 128), default=4, help="default: 4")
    add("--shard-stage", type=at_least(0, 3), default=0, help="of ZeRO; default: 0")
    add("--micro-batch", type=degree, default=4, help="sequences; default: 4")
    add("--schedule", choices=SCHEDULES_BY_NAME, default="1f1b", help="default: 1f1b")
    add("--recomputation", choices=RECOMPUTATIONS, default="full")
    add("--sequence-parallel", action="store_true")
    add("--overlap", action="store_true", help="gradients travel during backward")


def main() -> None:
    parser = program_parser(__doc__)
    add_model_arguments(parser)
    add_strategy_arguments(parser)
    add = parser.add_argument
    add("--gpu", choices=KNOWN_GPUS, default="A100")
    add("--nodes", type=at_least(1, 10_000), default=4, help="of 8 GPUs; default: 4")
    add("--trace", type=output_file, help="write a Chrome trace of the step")
    args = parser.parse_args()
    read = vars(args)
    model = Model(*(read[name] for name in Model.__dataclass_fields__))
    fields = Strategy.__dataclass_fields__.keys() & read.keys()
    strategy = Strategy(**{name: read[name] for name in fields})
    cluster = replace(KNOWN_GPUS[args.gpu], nodes=args.nodes)
    try:
        step = simulate_step(model, cluster, strategy, args.batch)
    except ValueError as problem:
        parser.error(str(problem))

    print_step(step)
    if args.trace or strategy.pipeline <= MOST_LANES:
        timeline = timeline_of_step(step)
    if strategy.pipeline <= MOST_LANES:
        print(f"\n{timeline.text(64)}")
    if args.trace:
        print(f"written: {timeline.save(args.trace)}")


if __name__ == "__main__":
    run_program(main)
