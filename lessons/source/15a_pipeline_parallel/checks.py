"""Checks of the exercises of lesson 15a, Pipeline parallel: the schedule."""

import random

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, run_trial

from .gpipe_steps import gradients_in_one_piece, try_gpipe_step


@exercise("15a-microbatches", seconds=20)
def check_15a_microbatches(fewest_microbatches):
    dice = random.Random(15)
    cases = [(4, 64, 0.2), (4, 64, 0.1), (4, 72, 0.15), (1, 8, 0), (1, 5, 0.3)]
    cases += [(3, 7, 0.25), (3, 7, 0.5), (3, 7, 0.2), (8, 1, 0.9), (8, 1, 0.5)]
    cases += [(4, 6, 0.3333)]
    for _ in range(30):
        waste = round(dice.uniform(0.05, 0.9), 3) + 1e-5  # no bubble is just that
        cases.append((dice.randint(1, 9), dice.randint(1, 60), round(waste, 5)))
    # In these a bubble is equal to the waste, in floats and however it is computed.
    cases += [(4, 72, 0.2), (4, 24, 0.2), (2, 8, 0.5), (4, 12, 0.75)]
    for case in cases:
        _try_fewest_microbatches(fewest_microbatches, *case)


def _try_fewest_microbatches(fewest_microbatches, stages, batch, waste) -> None:
    idle = {m: (stages - 1) / (m + stages - 1) for m in range(1, batch + 1)}
    enough = [m for m in idle if batch % m == 0 and idle[m] <= waste]
    with trying(f"fewest_microbatches({stages}, {batch}, {waste})") as expect:
        answer = fewest_microbatches(stages, batch, waste)
        if enough:
            think = _missed_number_of_microbatches(enough[0], idle[enough[0]], waste)
            got = "None, and there is a number that is enough"
            expect(answer is not None, got=got, think=think)
            _expect_fewest_microbatches(expect, answer, idle, waste, enough[0])
        else:
            think = "what to return when even with one sample in each micro-batch "
            think += f"{100 * idle[batch]:.6g} % is idle"
            expect(answer is None, got=answer, think=think)


def _missed_number_of_microbatches(m: int, bubble: float, waste: float) -> str:
    if bubble == waste > 0:
        think = f"m = {m}, whose bubble is exactly {waste}: what does your answer say "
        return think + f"of it, and is it at most {waste}?"
    if bubble == 0:
        return f"the bubble of a single stage: is it at most {waste}?"
    return f"m = {m}: does your answer try it, and what is its bubble?"


def _expect_fewest_microbatches(expect, m, idle, waste, fewest: int) -> None:
    think = f"equal micro-batches: which numbers divide {len(idle)}?"
    expect(m in idle and len(idle) % m == 0, got=m, think=think)
    got = f"{m}, whose bubble is {100 * idle[m]:.6g} %"
    think = f"how your answer makes sure that its bubble is at most {waste}"
    if 1 < m == len(idle) / fewest:
        think = "what is asked for: how many micro-batches, or how many samples in each"
    expect(idle[m] <= waste, got=got, think=think)
    think = _missed_number_of_microbatches(fewest, idle[fewest], waste)
    expect(m == fewest, got=got, think=think)


MICROBATCHES = 3


@exercise(
    "15a-gpipe",
    in_ranks=True,
    when_hung="each send and its recv: do both ranks have them in the same order?",
)
def check_15a_gpipe(gpipe_step):
    for ranks in 2, 3:
        where = f"gpipe_step in {ranks} ranks"
        think = "what each rank receives and sends: does autograd follow what arrives?"
        with trying(f"{where}, {MICROBATCHES} micro-batches", think=think) as expect:
            found = run_trial(try_gpipe_step, gpipe_step, MICROBATCHES, ranks=ranks)
            right = gradients_in_one_piece(MICROBATCHES, ranks)
            for rank in reversed(range(ranks)):
                is_last = rank == ranks - 1
                _expect_gpipe(expect, rank, *found[rank], right[rank], is_last)


def _expect_gpipe(expect, rank: int, got, order: str, right, is_last: bool) -> None:
    where = f"the gradient of rank {rank}'s stage"
    think = "which tensor `backward` begins from: does its graph reach the stage?"
    expect(got is not None, got=f"{where} is None", think=think)
    factor = ((got * right).sum() / right.square().sum()).item()
    if torch.allclose(got, factor * right):
        where = f"{where}, {factor:.3g} times the right one"
        think = f"what share of the batch's mean is one of {MICROBATCHES} means, and "
        think += "which rank takes it"
    elif is_last:
        think = "what enters the stage, and is it still there on the way back? Which "
        think += "target goes with it, and do the gradients add up?"
    else:
        think = (
            f"what rank {rank + 1} sends and `backward` begins from: which tensor's "
        )
        think += "gradient, and of which micro-batch?"
    expect_tensor(expect, where, got, right, think, close=1e-5)
    think = "the order: every micro-batch forward, and only then the first one back"
    got = f"rank {rank} did {order}, F forward and B back"
    expect(order.find("B") >= MICROBATCHES, got=got, think=think)
