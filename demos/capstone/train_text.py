"""Train the language model under any strategy, stop, go on, and read what it writes.

Run:      python demos/capstone/train_text.py --strategy ddp-ours
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/capstone/train_text.py --strategy zero-2   (one line)
Look for: bits per character of held-out text, beside what counting single characters,
          pairs and triples achieves; and the text that the model writes at the end.
Try:      --steps 3000 --checkpoint whale.pt, interrupt it, and run it again, also with
          another strategy: it goes on where it stopped.
"""

import argparse
import os
import re
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.capstone.language_model import make_language_model
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.text_baselines import NAMES, bits_of_counts
from parallel_by_hand.capstone.text_batches import text_alphabet, text_tokens
from parallel_by_hand.capstone.text_state import (
    TEXT_MODEL,
    WholeState,
    collect_whole_state,
    prepare_text_training,
    take_text_step,
    whole_text_model,
)
from parallel_by_hand.capstone.whole_state import MODEL
from parallel_by_hand.capstone.written_text import held_out_bits, write_text
from parallel_by_hand.checkpoints.atomic_file import save_atomically
from parallel_by_hand.checkpoints.resuming import why_not_resume
from parallel_by_hand.ddp.train_digits import report_digits_training
from sidebyside import at_least, positive_int, program_parser, run_program, run_ranks
from sidebyside.programs.arguments import output_file

BY_OPTION = {
    re.sub(r"\W+", "-", name.lower()).strip("-"): strategy
    for name, strategy in STRATEGIES.items()
}
ROWS = 8  # two ranks, with four micro-batches each


def train_text(args: argparse.Namespace, report: str) -> WholeState:
    """Runs in each rank; rank 0 saves and reports, every `args.every` steps."""
    state = load_text_state(args.checkpoint) if args.checkpoint else None
    training = prepare_text_training(BY_OPTION[args.strategy], state)
    first, began, in_steps = state.step if state else 0, perf_counter(), 0.0
    for step in range(first, args.steps):
        started = perf_counter()
        take_text_step(training, step, args.batch, TEXT_MODEL.length)
        in_steps += perf_counter() - started
        done = step + 1
        if done % args.every and done < args.steps:
            continue
        state = collect_whole_state(training, done)  # by all ranks alike
        if dist.get_rank() == 0:
            if args.checkpoint:
                saved = state._asdict() | {"batch": args.batch}
                save_atomically(saved, args.checkpoint)
            each = in_steps / (done - first)
            left = (perf_counter() - began) / (done - first) * (args.steps - done)
            with open(report, "a", encoding="utf-8") as file:
                file.write(text_progress(state, args.steps, each, left))
    return state


def text_progress(state: WholeState, steps: int, each: float, left: float) -> str:
    bits = held_out_bits(whole_text_model(state), TEXT_MODEL.length)
    return (
        f"step {state.step:5} of {steps}  held-out text {bits:.3f} bits per character"
        f"  {1e3 * each:.1f} ms for a step, {left:.0f} s left\n"
    )


def load_text_state(path) -> WholeState | None:
    """What a run has saved; None where there is no such file yet."""
    if not path.exists():
        return None
    saved = torch.load(path, map_location="cpu", weights_only=True)
    return WholeState(saved["step"], saved["numbers"])


def print_text_baselines() -> None:
    texts = text_tokens("train"), text_tokens("test")
    words = len(text_alphabet())
    bits = [bits_of_counts(*texts, words, order) for order in range(4)]
    told = [f"{name} {b:.2f}" for name, b in zip(NAMES, bits, strict=True)]
    print(f"bits per character: {', '.join(told)}")


def parse_text_arguments() -> argparse.Namespace:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--strategy", choices=BY_OPTION, default="ddp-ours", help="default: ddp-ours")
    add("--steps", type=positive_int, default=100, help="in all; default: 100")
    add("--batch", type=at_least(ROWS, 4096), default=32, help="rows; default: 32")
    add("--every", type=positive_int, default=50, help="steps between two reports")
    add("--write", type=at_least(0, 10_000), default=200, help="characters to write")
    add("--checkpoint", type=output_file, metavar="FILE", help="to save and go on")
    args = parser.parse_args()
    if args.batch % ROWS:
        parser.error(f"argument --batch: must be a multiple of {ROWS}")
    ranks, started = (
        BY_OPTION[args.strategy].ranks,
        int(os.environ.get("WORLD_SIZE", 0)),
    )
    if started not in (0, ranks):
        parser.error(f"argument --strategy: {args.strategy} takes {ranks} ranks")
    if args.checkpoint and (problem := why_not_train_text_on(args)):
        parser.error(f"argument --checkpoint: {problem}")
    return args


def why_not_train_text_on(args: argparse.Namespace) -> str:
    """What keeps this run from going on where the checkpoint stopped, or nothing."""
    parameters = make_language_model(TEXT_MODEL).parameters()
    flat = torch.nn.utils.parameters_to_vector(parameters)
    numbers = dict.fromkeys((MODEL, "exp_avg", "exp_avg_sq"), flat)
    settings = {"batch": args.batch}
    like = {"numbers": numbers, "step": 1} | settings
    return why_not_resume(args.checkpoint, like, settings, "step", args.steps)


def main() -> None:
    args = parse_text_arguments()
    ranks = BY_OPTION[args.strategy].ranks
    first = os.environ.get("RANK", "0") == "0"  # under torchrun every rank is here
    if first:
        print_text_baselines()
    with report_digits_training(args.checkpoint) as report:
        states = run_ranks(
            train_text, args, report, world_size=ranks, timeout=24 * 3600
        )
    if first and args.write:
        model = whole_text_model(states[0])
        print(write_text(model, TEXT_MODEL.length, args.write))


if __name__ == "__main__":
    run_program(main)
