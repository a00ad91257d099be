"""A round of gossip is a product with the mixing matrix."""

import math
from itertools import pairwise

import pytest
import torch

from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    distances,
    gossip_in_pairs,
    gossip_values,
    pair_factor,
    random_neighbours,
    ring_mixing_matrix,
)
from sidebyside import run_ranks


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
