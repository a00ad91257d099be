"""Train a network on handwritten digits, cut into stages, and compare with one process.

Run:      python demos/pipeline/train_pipeline.py --schedule 1f1b --stages 2
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/pipeline/train_pipeline.py   (one line)
Look for: whatever the schedule, the losses are those of the process that trains the
          whole network alone; in the end all weights agree to within rounding.
Try:      --schedule gpipe: the same losses, more micro-batches kept.
          --microbatches 1: two ranks, but only one works at a time.
          The network is small: do not expect two ranks to be faster than one process.
          --file plan.txt: a schedule of your own, one line per rank.
"""

import os
from time import perf_counter

import torch
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.cut_training import make_layers_to_cut
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedule_arguments import (
    add_schedule_arguments,
    schedule_from_arguments,
)
from parallel_by_hand.pipeline.schedule_rules import schedule_size
from parallel_by_hand.pipeline.schedules import Schedule
from sidebyside import (
    device,
    load_digits,
    positive_float,
    positive_int,
    program_parser,
    run_program,
    run_ranks,
)

WIDTH, LAYERS = 256, 8


def train_pipeline_by_steps(step, parameters, args) -> list[float]:
    """The mean loss of each epoch. `step` adds to the gradients of one batch."""
    images, labels = load_digits("train")
    optimizer = torch.optim.SGD(parameters, lr=args.lr)
    losses = []
    for epoch in range(args.epochs):
        order = torch.randperm(
            len(images), generator=torch.Generator().manual_seed(epoch)
        )
        batches = order.split(args.batch)
        full = [batch for batch in batches if len(batch) == args.batch]
        total = 0.0
        for batch in full:
            optimizer.zero_grad()
            loss = step(images[batch], labels[batch])
            optimizer.step()
            total += loss or 0.0  # only the last stage knows the loss
        losses.append(total / len(full))
    return losses


def train_pipeline_stages(schedule: Schedule, args) -> dict:
    """Runs in each rank: its losses, seconds, micro-batches kept, and its weights."""
    stages = split_into_stages(make_layers_to_cut(WIDTH, LAYERS), schedule)
    pipeline = Pipeline(schedule, stages, F.cross_entropy)
    parameters = [p for module in stages.values() for p in module.parameters()]
    start = perf_counter()
    losses = train_pipeline_by_steps(pipeline.step, parameters, args)
    return {
        "losses": losses,
        "seconds": perf_counter() - start,
        "kept": pipeline.kept,
        "stages": {stage: module.cpu() for stage, module in stages.items()},
    }


def train_pipeline_in_one_process(args) -> tuple[nn.Sequential, list[float], float]:
    """The same in one process, the network in one piece."""
    model = make_layers_to_cut(WIDTH, LAYERS).to(device())

    def step(images, labels) -> float:
        loss = F.cross_entropy(model(images.to(device())), labels.to(device()))
        loss.backward()
        return loss.item()

    start = perf_counter()
    losses = train_pipeline_by_steps(step, model.parameters(), args)
    return model.cpu(), losses, perf_counter() - start


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add_schedule_arguments(parser, int(os.environ.get("WORLD_SIZE", 2)), microbatches=4)
    add("--epochs", type=positive_int, default=5, help="default: 5")
    add("--batch", type=positive_int, default=128, help="images; default: 128")
    add("--lr", type=positive_float, default=0.05, help="default: 0.05")
    args = parser.parse_args()
    schedule = schedule_from_arguments(parser, args)
    stages, microbatches = schedule_size(schedule)
    images = len(load_digits("train")[0])
    if args.batch % microbatches or args.batch > images:
        parser.error(
            f"argument --batch: must be a multiple of the {microbatches} micro-batches "
            f"and at most {images}, not {args.batch}"
        )
    if stages > LAYERS:
        parser.error(
            f"argument --stages: the network has {LAYERS} layers, not {stages}"
        )
    started = int(os.environ.get("WORLD_SIZE", len(schedule)))  # by torchrun
    if started != len(schedule):
        parser.error(f"argument --stages: torchrun has started {started} ranks")

    first = os.environ.get("RANK", "0") == "0"
    if first:
        print(f"{len(schedule)} ranks train {microbatches} micro-batches at a time ...")
    ranks = run_ranks(train_pipeline_stages, schedule, args, world_size=len(schedule))
    if not first:
        return
    print("... and one process trains the same network alone:", flush=True)
    torch.set_num_threads(1)  # as in a rank
    alone, losses, seconds = train_pipeline_in_one_process(args)
    last = ranks[(stages - 1) % len(schedule)]
    for epoch, (ours, theirs) in enumerate(zip(last["losses"], losses, strict=True)):
        print(f"epoch {epoch + 1:2}  loss {ours:.6f}  alone {theirs:.6f}")

    pieces = {s: module for rank in ranks for s, module in rank["stages"].items()}
    whole = nn.Sequential(*(layer for s in sorted(pieces) for layer in pieces[s]))
    pairs = zip(whole.parameters(), alone.parameters(), strict=True)
    gap = torch.stack([(a - b).abs().max() for a, b in pairs]).max().item()
    test_images, test_labels = load_digits("test")
    right = (whole(test_images).argmax(1) == test_labels).float().mean().item()
    kept = [rank["kept"] for rank in ranks]
    print(f"largest difference of any weight {gap:.1e}, held-out accuracy {right:.4f}")
    print(f"micro-batches kept, by rank: {kept}")
    print(f"time: {len(ranks)} ranks {last['seconds']:.2f} s, alone {seconds:.2f} s")


if __name__ == "__main__":
    run_program(main)
