"""Lesson 08: what it says of shards, memory, noise and averages holds.

Trainings are held to one another by numbers of updates and by losses, never by time.
"""

import pytest
import torch
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from parallel_by_hand.sgd.gradient_noise import (
    fewest_updates,
    fit_knee,
    noise_scale_from_two_sizes,
    squared_norms_in_training,
)
from parallel_by_hand.sgd.large_batch import errors_after_epochs, large_batch_rates

pytestmark = pytest.mark.usefixtures("one_torch_thread")  # as in the lesson


def test_no_images_have_a_loss_of_nan_and_gradients_of_zero():
    model, (images, labels) = digits_network(), digits_here("train")
    loss = F.cross_entropy(model(images[:0]), labels[:0])
    loss.backward()
    assert loss.isnan()
    assert not any(parameter.grad.any() for parameter in model.parameters())


def test_each_update_needs_the_one_before():
    """Two steps from the same weights are not two steps in a row."""
    images, labels = digits_here("train")
    model = digits_network()
    first = flat_gradient(model, images, labels)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()) - 0.5 * first
    torch.nn.utils.vector_to_parameters(weights.detach(), model.parameters())
    assert not torch.allclose(flat_gradient(model, images, labels), first, atol=1e-3)


@pytest.mark.everything
def test_knee_and_noise_scale_agree_within_a_factor_of_five():
    """With the lesson's loss, batches, rates and starts."""
    tuned = fewest_updates(0.4, sizes=(1, 4, 16, 64, 1415))
    updates = {batch: count for batch, (count, _) in tuned.items()}
    knee = fit_knee(updates)[1]
    for rate, seed in [(rate, seed) for rate in (0.5, 1.0) for seed in range(3)]:
        squares = squared_norms_in_training(rate, 0.4, seed)
        scale = noise_scale_from_two_sizes(8, squares[0], 64, squares[1])
        assert knee / 5 < scale < 5 * knee
        assert 10 < scale < 70


def errors_of_large_batches(base: float) -> dict[str, torch.Tensor]:
    rows = large_batch_rates(base).items()
    return {name: errors_after_epochs(b, [r], seeds=12)[0] for name, (b, r) in rows}


@pytest.mark.everything
def test_near_the_edge_of_stability_warm_up_and_scaling_pay():
    found = errors_of_large_batches(0.15)
    warm = found["large, scaled, warm-up"].mean()
    assert warm < found["large, scaled"].mean()
    assert warm < found["large, unscaled"].mean()


@pytest.mark.everything
def test_far_from_the_edge_scaling_pays_and_warm_up_brings_nothing():
    found = errors_of_large_batches(0.1)
    scaled, warm = found["large, scaled"], found["large, scaled, warm-up"]
    assert scaled.max() < found["large, unscaled"].mean()
    assert warm.mean() == pytest.approx(scaled.mean(), abs=2)  # percent
