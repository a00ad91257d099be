"""Lesson 08: what it says of shards, memory, noise and averages holds.

Trainings are held to one another by numbers of updates and by losses, never by time.
"""

from math import inf

import pytest
import torch
from torch.nn import functional as F

from parallel_by_hand.sgd import parallel_sgd
from parallel_by_hand.sgd.batch_size import kept_for_backward, loss_along_updates
from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    digits_softmax,
    flat_gradient,
)
from parallel_by_hand.sgd.fleets import updates_to_reach
from parallel_by_hand.sgd.gradient_noise import (
    fewest_updates,
    fit_knee,
    gradient_spread,
    noise_scale_from_two_sizes,
    squared_norms_in_training,
)
from parallel_by_hand.sgd.gradient_shards import (
    cut_into_shards,
    weighted_by_size,
)
from parallel_by_hand.sgd.large_batch import errors_after_epochs, large_batch_rates

pytestmark = pytest.mark.usefixtures("one_torch_thread")  # as in the lesson

NEAR = {torch.float32: 1e-6, torch.float64: 1e-13}


def parts_and_whole(sizes, number):
    model, (images, labels) = digits_network().to(number), digits_here("train")
    shards = cut_into_shards(images.to(number), labels, sizes)
    whole = [torch.cat(part) for part in zip(*shards, strict=True)]
    parts = [flat_gradient(model, *shard) for shard in shards]
    return parts, flat_gradient(model, *whole)


@pytest.mark.parametrize("number", NEAR)
@pytest.mark.parametrize("sizes", [[16] * 4, [32, 32], [8] * 8, [64], [1] * 5])
def test_the_mean_of_equal_shards_gradients_is_the_batch_gradient(sizes, number):
    parts, batch = parts_and_whole(sizes, number)
    assert (torch.stack(parts).mean(0) - batch).abs().max() <= NEAR[number]


@pytest.mark.parametrize("number", NEAR)
@pytest.mark.parametrize("sizes", [[48, 16], [61, 1, 1, 1]])
def test_for_unequal_shards_only_the_weighted_mean_is_the_batch_gradient(sizes, number):
    parts, batch = parts_and_whole(sizes, number)
    assert (weighted_by_size(parts, sizes) - batch).abs().max() <= NEAR[number]
    assert (torch.stack(parts).mean(0) - batch).abs().max() > 0.01


def test_no_images_have_a_loss_of_nan_and_gradients_of_zero():
    model, (images, labels) = digits_network(), digits_here("train")
    loss = F.cross_entropy(model(images[:0]), labels[:0])
    loss.backward()
    assert loss.isnan()
    assert not any(parameter.grad.any() for parameter in model.parameters())


def test_memory_is_a_straight_line_with_an_intercept():
    images, labels = digits_here("train")
    kept = {
        batch: kept_for_backward(digits_network(), images[:batch], labels[:batch])
        for batch in (1, 2, 7, 100, 1000)
    }
    assert all(size == 368 * batch + 644 for batch, size in kept.items())


def test_with_ten_times_the_rate_batches_of_16_catch_up_with_single_images():
    def last_loss(batch: int, rate: float) -> float:
        return loss_along_updates(digits_network(), batch, epochs=2, rate=rate)[-1][2]

    assert round(last_loss(1, 0.1), 1) == round(last_loss(16, 1.0), 1) == 0.3


def test_each_update_needs_the_one_before():
    """Two steps from the same weights are not two steps in a row."""
    images, labels = digits_here("train")
    model = digits_network()
    first = flat_gradient(model, images, labels)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()) - 0.5 * first
    torch.nn.utils.vector_to_parameters(weights.detach(), model.parameters())
    assert not torch.allclose(flat_gradient(model, images, labels), first, atol=1e-3)


def test_the_spread_falls_as_one_over_the_root_of_the_batch():
    one = gradient_spread(digits_network(), 1)
    for batch in 4, 16, 64:
        found = gradient_spread(digits_network(), batch) * batch**0.5
        assert found == pytest.approx(one, rel=0.15)


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


@pytest.mark.everything
def test_with_one_rate_for_all_sizes_the_knee_says_more_about_the_rate():
    def updates_at(rate: float) -> dict[int, float]:
        return {b: updates_to_reach(0.4, b, [rate])[rate] for b in (4, 16, 256)}

    low, high = updates_at(1 / 8), updates_at(1 / 2)
    assert low[256] > 0.9 * low[16], "the small rate holds both back"
    assert fit_knee(high)[1] > 2 * fit_knee(low)[1]


@pytest.mark.everything
def test_the_best_learning_rate_is_none_at_the_edge_of_those_tried():
    for batch in 16, 256:
        found = updates_to_reach(0.6, batch)
        best = min(found, key=found.get)
        assert min(found) < best < max(found)
        assert found[best] < inf


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


def test_one_average_beats_each_worker_on_the_convex_problem_and_none_from_own_starts():
    batches = parallel_sgd.worker_batches(4, 200)
    convex = [digits_softmax() for _ in range(4)]
    once = parallel_sgd.average_models_once(convex, batches, digits_softmax)
    each = parallel_sgd.average_gradients_each_step(digits_softmax(), batches)
    once, each = parallel_sgd.held_out(once)[0], parallel_sgd.held_out(each)[0]
    assert once == pytest.approx(each, abs=0.03)
    assert once < min(parallel_sgd.held_out(model)[0] for model in convex)
    own = [digits_network(worker) for worker in range(4)]
    average = parallel_sgd.average_models_once(own, batches)
    worst = max(parallel_sgd.held_out(model)[0] for model in own)
    assert parallel_sgd.held_out(average)[0] > worst
