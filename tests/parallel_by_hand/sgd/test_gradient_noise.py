"""The noise scale and the knee are found where they are known."""

import pytest
import torch

from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from parallel_by_hand.sgd.gradient_noise import fit_knee, noise_scale_from_two_sizes


def test_the_noise_scale_of_noise_that_is_known():
    """|g|² is |G|² + tr(Σ)/B on average: the two equations give both back."""
    square, trace = 3.0, 60.0
    at = {batch: square + trace / batch for batch in (8, 64)}
    assert noise_scale_from_two_sizes(8, at[8], 64, at[64]) == pytest.approx(20)


def test_the_noise_scale_from_shards_agrees_with_all_single_gradients():
    images, labels = digits_here("train")
    model = digits_network()
    each = torch.stack(
        [flat_gradient(model, images[i : i + 1], labels[i : i + 1]) for i in range(600)]
    )
    true = each.var(0).sum() / each.mean(0).square().sum()
    dice = torch.Generator().manual_seed(0)
    rows = each[torch.randint(600, (400, 8, 8), generator=dice)].mean(2)
    small, large = rows.square().sum(2).mean(), rows.mean(1).square().sum(1).mean()
    found = noise_scale_from_two_sizes(8, small.item(), 64, large.item())
    assert found == pytest.approx(true.item(), rel=0.2)


def test_the_knee_of_a_known_curve_is_found():
    updates = {batch: 30 * (1 + 20 / batch) for batch in (1, 4, 16, 64, 256, 1415)}
    assert fit_knee(updates) == pytest.approx((30, 20), rel=0.01)
