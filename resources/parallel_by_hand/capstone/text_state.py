"""Train the language model with Adam, stop, and go on under any strategy.

No random state is saved: which excerpts a step reads follows from its number.
"""

from functools import partial

import torch
import torch.distributed as dist

from parallel_by_hand.capstone.language_model import ModelSize, make_language_model
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.text_batches import text_batch
from parallel_by_hand.capstone.trainer import Strategy, Training, train
from parallel_by_hand.capstone.whole_state import (
    WholeState,
    collect_whole_state,
    load_whole_model,
)
from sidebyside import device

TEXT_MODEL = ModelSize(width=64, heads=4, blocks=1, length=32)


def prepare_text_training(
    strategy: Strategy, state: WholeState | None = None
) -> Training:
    """A training of the text, at its beginning or where `state` stands."""
    adam = partial(torch.optim.Adam, lr=0.005, foreach=False)
    return train(strategy, 0, TEXT_MODEL, make_optimizer=adam, start=state)


def take_text_step(training: Training, step: int, batch: int, length: int):
    """From a state, step number `step`; the loss over this rank's rows, or None."""
    inputs, targets = text_batch(step, batch=batch, length=length)
    return training.step(inputs.to(device()), targets.to(device()))


def train_text_states(
    name: str, steps: int, every: int, state: WholeState | None = None, batch: int = 32
) -> list[WholeState]:
    """Runs in each rank: train from `state` to step `steps`, and keep the state after
    each `every` steps on rank 0."""
    training, kept = prepare_text_training(STRATEGIES[name], state), []
    for step in range(state.step if state else 0, steps):
        take_text_step(training, step, batch, TEXT_MODEL.length)
        if (step + 1) % every == 0:
            kept.append(collect_whole_state(training, step + 1))
    return kept if dist.get_rank() == 0 else []


def whole_text_model(state: WholeState, size: ModelSize = TEXT_MODEL):
    """The language model of a state, on the CPU of the rank that asks."""
    model = make_language_model(size)
    load_whole_model(model, state)
    return model
