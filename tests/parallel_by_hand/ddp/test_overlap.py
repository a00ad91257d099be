"""Through the slow link, both ways give the same gradients."""

import torch

from parallel_by_hand.ddp import overlap
from sidebyside import run_ranks


def gradients_of_sleeping_layers(step) -> list[torch.Tensor]:
    """The gradients that the optimiser would get in each rank."""
    kept = []
    layers = overlap.four_sleeping_layers
    model = layers()
    model.zero_grad = lambda: kept.append([p.grad.clone() for p in model.parameters()])
    overlap.four_sleeping_layers = lambda: model
    step(1)
    overlap.four_sleeping_layers = layers
    return kept[0]


def test_both_ways_through_the_slow_link_give_the_same_gradients():
    steps = overlap.step_after_backward, overlap.step_during_backward
    after, during = (run_ranks(gradients_of_sleeping_layers, step) for step in steps)
    for one, other in zip(after + after[::-1], during + during, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
