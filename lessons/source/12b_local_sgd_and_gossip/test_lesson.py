"""Local SGD talks H times less; gossip agrees as the eigenvalue says, and survives."""

import math
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.utils import vector_to_parameters

from demos.decentralised import own_local_sgd
from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    distances,
    gossip_in_pairs,
    gossip_values,
    pair_factor,
    random_neighbours,
    ring_mixing_matrix,
)
from parallel_by_hand.decentralised.gossip_training import train_by_gossip
from parallel_by_hand.decentralised.killed_peer import train_with_a_kill
from parallel_by_hand.decentralised.local_sgd import (
    LOCAL_RATE,
    OuterMomentum,
    average_models,
    drift,
    flat_parameters,
    local_batches,
    local_step,
    loss_of,
    train_local_sgd,
)
from parallel_by_hand.decentralised.out_of_step import in_step, out_of_step
from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from sidebyside import run_ranks

# Local SGD ----------------------------------------------------------------------------


def train_all_in_one_process(ranks: int, every: int, steps: int) -> torch.Tensor:
    """The oracle: the mean model after each step."""
    models = [digits_network() for _ in range(ranks)]
    batches = [local_batches(rank, ranks, steps) for rank in range(ranks)]
    means = []
    for step in range(steps):
        for model, own in zip(models, batches, strict=True):
            local_step(model, own[step])
        mean = torch.stack([flat_parameters(model) for model in models]).mean(0)
        if (step + 1) % every == 0 or step + 1 == steps:
            for model in models:
                vector_to_parameters(mean.clone(), model.parameters())
        means.append(mean)
    return torch.stack(means)


@pytest.mark.parametrize(("ranks", "every"), [(1, 3), (2, 1), (3, 4), (4, 7)])
def test_ranks_train_as_one_process_would_and_end_equal(ranks, every):
    runs = run_ranks(train_local_sgd, every, 10, world_size=ranks)
    oracle = train_all_in_one_process(ranks, every, 10)
    mean = torch.stack([run.history for run in runs]).mean(0)[1:]
    torch.testing.assert_close(mean, oracle, atol=1e-5, rtol=0)
    for run in runs:
        assert torch.equal(run.history[-1], runs[0].history[-1])


def test_with_a_meeting_after_each_step_it_is_data_parallel_training():
    runs = run_ranks(train_local_sgd, 1, 20, world_size=3)
    images, labels = digits_here("train")
    model = digits_network()
    for step, mine in enumerate(
        zip(*(local_batches(r, 3, 20) for r in range(3)), strict=True)
    ):
        gradients = [flat_gradient(model, images[m], labels[m]) for m in mine]
        flat = flat_parameters(model) - LOCAL_RATE * torch.stack(gradients).mean(0)
        vector_to_parameters(flat, model.parameters())
        here = runs[0].history[step + 1]
        torch.testing.assert_close(here, flat.cpu(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("every", [1, 5])
def test_the_traffic_falls_with_the_meetings(every):
    runs = run_ranks(train_local_sgd, every, 16, world_size=4)
    meetings = math.ceil(16 / every)
    sent = sum(run.meter.bytes_sent for run in runs)
    assert sent == meetings * 2 * 3 * 4 * 1210  # 2 (N - 1) S in all, 4 bytes each


def test_ranks_drift_apart_between_meetings_and_meet_at_the_end():
    runs = run_ranks(train_local_sgd, 6, 14, world_size=3)
    apart = drift(runs)
    at_meetings = [0, 6, 12, 14]
    assert apart[at_meetings].max() < 1e-6
    assert all(apart[step] > 1e-3 for step in range(15) if step not in at_meetings)


def test_no_rank_sees_more_than_four_digits_of_sorted_images():
    _, labels = digits_here("train")
    for rank in range(4):
        mine = torch.cat(local_batches(rank, 4, 128, in_order=True))
        assert len(labels[mine].unique()) <= 4


def losses_with(cases: list[tuple]) -> list[float]:
    """Runs in each rank: the last loss for each (every, in_order, outer, seed)."""
    runs = [train_local_sgd(every, 128, *options) for every, *options in cases]
    return [loss_of(run.history[-1]) for run in runs]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.everything)])
def test_rare_meetings_cost_more_with_shares_that_differ(seed):
    cases = [(e, in_order, False, seed) for in_order in (False, True) for e in (1, 64)]
    losses = run_ranks(losses_with, cases, world_size=4)[0]
    alike, differ = losses[1] - losses[0], losses[3] - losses[2]
    assert differ > 3 * abs(alike)
    assert losses[1] < 0.25 < 1 < losses[3]


def test_an_outer_step_with_momentum_helps_with_a_meeting_after_each_step_too():
    cases = [(1, False, False, 0), (1, False, True, 0)]
    plain, outer = run_ranks(losses_with, cases, world_size=4)[0]
    assert outer < 0.85 * plain


@pytest.mark.everything
def test_in_nine_runs_with_other_seeds_the_outer_step_helps_as_the_lesson_says():
    cases = [(16, False, o, seed) for seed in range(10) for o in (False, True)]
    losses = run_ranks(losses_with, cases, world_size=4)[0]
    shares = [outer / plain for plain, outer in zip(*[iter(losses)] * 2, strict=True)]
    first, *others = shares
    assert first < 0.5 and len(others) == 9
    assert all(0.4 < share < 0.8 for share in others)


def shares_read(flat: torch.Tensor) -> list[float]:
    """For each digit, the share of its training images that the model reads."""
    images, labels = digits_here("train")
    model = digits_network()
    vector_to_parameters(flat.to(images.device), model.parameters())
    right = model(images).argmax(1) == labels
    return [right[labels == digit].float().mean().item() for digit in range(10)]


def test_with_sorted_images_ranks_drift_twice_as_far_and_lose_a_digit():
    alike, differ, other = (
        run_ranks(train_local_sgd, 64, 128, *options, world_size=4)
        for options in ((False,), (True,), (True, False, 1))
    )
    assert drift(alike).max().item() == pytest.approx(2.4, abs=0.1)
    assert drift(differ).max().item() == pytest.approx(4.3, abs=0.1)
    read = shares_read(differ[0].history[-1])
    assert min(read) == read[8] == pytest.approx(0.1, abs=0.05)
    read = shares_read(other[0].history[-1])
    assert min(read) == read[9] < 0.2


def test_a_row_of_three_that_is_left_agrees_more_slowly_than_the_ring_of_four():
    row = torch.tensor([[2.0, 1, 0], [1, 1, 1], [0, 1, 2]], dtype=torch.float64) / 3
    assert agreement_factor(row) == pytest.approx(2 / 3)
    assert agreement_factor(ring_mixing_matrix(4)) == pytest.approx(1 / 3)


def outer_step_beside_mean() -> tuple:
    """Runs in each rank: ends of both, and whether start and model share storage."""
    ends = []
    for meeting in (average_models, None):
        model = digits_network()
        meet = meeting or OuterMomentum(model, rate=1.0, momentum=0.0)
        for step, mine in enumerate(local_batches(dist.get_rank(), 3, 9), start=1):
            local_step(model, mine)
            if step % 3 == 0:
                meet(model)
        ends.append(flat_parameters(model).cpu())
    parts = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return *ends, meet.start.untyped_storage().data_ptr() in parts


def test_an_outer_step_of_rate_1_without_momentum_is_the_mean_of_the_models():
    for mean, outer, shared in run_ranks(outer_step_beside_mean, world_size=3):
        torch.testing.assert_close(mean, outer, atol=1e-5, rtol=0)
        assert not shared


def average_with_torch(every: int, steps: int) -> torch.Tensor:
    model, averager = digits_network(), PeriodicModelAverager(every, every - 1)
    for mine in local_batches(dist.get_rank(), dist.get_world_size(), steps):
        local_step(model, mine)
        for parameter in model.parameters():  # it leaves out what has no gradient
            parameter.grad = torch.zeros_like(parameter)
        averager.average_parameters(list(model.parameters()))
    return flat_parameters(model).cpu()


def test_the_librarys_averager_meets_as_we_do():
    ours = run_ranks(train_local_sgd, 4, 12, world_size=2)
    for run, theirs in zip(
        ours, run_ranks(average_with_torch, 4, 12, world_size=2), strict=True
    ):
        torch.testing.assert_close(run.history[-1], theirs, atol=1e-5, rtol=0)


# Gossip -------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "own"), [(1, 1), (2, 0.7), (3, 0), (5, 1 / 3)])
def test_a_round_of_messages_is_a_product_with_the_mixing_matrix(ranks, own):
    weights = ring_mixing_matrix(ranks, own)
    held = run_ranks(gossip_values, 5, weights, world_size=ranks)
    start = torch.zeros(ranks, dtype=torch.float64)
    start[0] = ranks
    for turn in range(6):
        expected = torch.linalg.matrix_power(weights, turn) @ start
        here = torch.tensor([values[turn] for values in held], dtype=torch.float64)
        torch.testing.assert_close(here, expected)


@pytest.mark.parametrize(("ranks", "own"), [(4, 1 / 3), (8, 1 / 3), (7, 0), (6, 0.5)])
def test_the_distance_falls_by_the_second_largest_modulus_in_the_end(ranks, own):
    weights = ring_mixing_matrix(ranks, own)
    factor = agreement_factor(weights)
    held = torch.zeros(ranks, dtype=torch.float64)
    held[0] = ranks
    far = []
    for _ in range(200):
        far.append((held - 1).norm().item())
        held = weights @ held
    ratios = [b / a for a, b in pairwise(far) if b > 1e-6]
    assert all(ratio <= factor + 1e-6 for ratio in ratios), "never more slowly"
    assert ratios[-1] == pytest.approx(factor, rel=1e-3)
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    moduli = [abs(own + (1 - own) * cosine) for cosine in cosines]
    assert factor == pytest.approx(max(moduli))


@pytest.mark.parametrize(("ranks", "agrees"), [(2, False), (4, False), (5, True)])
def test_an_even_ring_without_self_weight_never_agrees(ranks, agrees):
    weights = ring_mixing_matrix(ranks, 0)
    assert (agreement_factor(weights) < 1 - 1e-9) == agrees
    held = run_ranks(gossip_values, 60, weights, world_size=ranks)
    assert (distances(held)[-1] < 0.1) == agrees


def test_twice_the_peers_need_four_times_the_rounds_on_a_long_ring():
    for ranks, near in ((8, 0.2), (32, 0.02), (128, 0.01)):
        few, many = (
            agreement_factor(ring_mixing_matrix(n)) for n in (ranks, 2 * ranks)
        )
        assert math.log(few) / math.log(many) == pytest.approx(4, abs=4 * near)


def test_pairs_keep_the_sum_and_agree_as_expected():
    pairs = random_neighbours(4, 60)
    held = torch.tensor(run_ranks(gossip_in_pairs, pairs, world_size=4))
    torch.testing.assert_close(held.mean(0), torch.ones(61))
    assert distances(held.tolist())[-1] < 0.05
    squares = []
    for seed in range(300):
        values = torch.tensor([4.0, 0, 0, 0])
        for one, other in random_neighbours(4, 12, seed):
            values[[one, other]] = values[[one, other]].mean()
        squares.append((values - 1).square().sum().item())
    assert sum(squares) / 300 <= 12 * pair_factor(4) ** 12


def test_gossip_trains_and_sends_two_models_per_step():
    runs = run_ranks(train_by_gossip, ring_mixing_matrix(4), 64, world_size=4)
    for run in runs:
        assert run.meter.bytes_sent == 64 * 2 * 4 * 1210
        assert run.meter.messages_sent == 64 * 2
        assert loss_of(run.history[-1]) < 0.6 * loss_of(run.history[0])
    assert 0 < drift(runs)[-1] < 1


@pytest.mark.parametrize("way", [in_step, out_of_step])
def test_in_step_or_out_of_it_the_sum_stays(way):
    ended = run_ranks(way, [0.01, 0.03, 0.01, 0.01], 0.15, world_size=4)
    assert sum(number for _, number in ended) == pytest.approx(1111, rel=1e-4)
    assert all(steps > 0 for steps, _ in ended)


def test_in_step_all_make_as_many_steps_as_the_slowest():
    ended = run_ranks(in_step, [0.01, 0.03, 0.01, 0.01], 0.15, world_size=4)
    assert {steps for steps, _ in ended} == {5}


def test_out_of_step_nobody_waits_for_a_slow_peer():
    seconds = [0.03, 0.09, 0.03, 0.03]
    for _ in range(5):
        steps = [made for made, _ in run_ranks(out_of_step, seconds, 0.9, world_size=4)]
        slow = steps.pop(1)
        assert slow <= 10  # that its naps make sure
        if min(steps) > 1.5 * slow:  # those who wait make as many
            return
    pytest.fail(f"the slow peer made {slow} steps, the others {steps}")


def test_gossip_survives_a_killed_peer_and_an_all_reduce_does_not():
    left = train_with_a_kill(killed=2, at=8, steps=40)
    assert {rank: peer["steps"] for rank, peer in left.items()} == {0: 40, 1: 40, 3: 40}
    start = loss_of(flat_parameters(digits_network()))
    assert all(loss_of(peer["model"]) < 0.8 * start for peer in left.values())
    left = train_with_a_kill(killed=2, at=8, steps=40, all_reduce=True)
    assert {rank: peer["steps"] for rank, peer in left.items()} == {0: 8, 1: 8, 3: 8}


# A script of your own -----------------------------------------------------------------


def own_training(every: int) -> tuple:
    """Runs in each rank: the script's model and its number of meetings."""
    ranks = dist.get_world_size()
    model, meetings = own_local_sgd.train(dist.get_rank(), ranks, "cpu", every)
    return flat_parameters(model).cpu(), meetings


def test_the_script_of_your_own_trains_one_model():
    (one, meetings), (other, _) = run_ranks(own_training, 8)
    assert torch.equal(one, other) and meetings == 10
