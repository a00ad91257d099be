"""Where the predictions for tree and ring cross."""

import pytest

from parallel_by_hand.collectives.all_reduce_costs import (
    WAYS,
    predicted_crossover,
    predicted_seconds,
)
from parallel_by_hand.collectives.all_reduce_four_ways import (
    found_crossover,
)


def test_tree_and_ring_cross_at_the_predicted_size():
    alpha, beta = 0.02, 40e-9
    assert predicted_crossover(4, alpha, beta) == pytest.approx(400_000)
    for ranks in (4, 5, 8, 100):
        size = predicted_crossover(ranks, alpha, beta)
        times = [predicted_seconds(w, ranks, size, alpha, beta) for w in WAYS[1:3]]
        assert times[0] == pytest.approx(times[1])
    for ranks in (2, 3):  # as many steps: a ring is never slower
        with pytest.raises(ValueError):
            predicted_crossover(ranks, alpha, beta)
    sizes = [100_000, 300_000, 500_000, 900_000]
    tree, ring = (
        [predicted_seconds(way, 4, size, alpha, beta) for size in sizes]
        for way in ("tree", "ring")
    )
    assert found_crossover(sizes, tree, ring) == pytest.approx(400_000)
    slower = [2 * seconds for seconds in tree]
    assert found_crossover(sizes, tree, slower) == 900_000, "never faster"
    assert found_crossover(sizes, slower, tree) == 100_000, "always faster"
