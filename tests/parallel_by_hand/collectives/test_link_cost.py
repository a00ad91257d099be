"""A fit of alpha and beta finds them again."""

import numpy as np
import pytest

from parallel_by_hand.collectives import link_cost

SIZES = [4**k for k in range(3, 12)]


def test_the_fit_recovers_a_line_and_predicts_a_size_it_has_not_seen():
    random, alpha, beta = np.random.default_rng(0), 50e-6, 0.5e-9
    timed = {
        size: list((alpha + beta * size) * random.lognormal(0, 0.1, 12))
        for size in SIZES
        if size != 2**20
    }
    link = link_cost.fit_with_intervals(timed)
    assert link["alpha"] == pytest.approx(alpha, rel=0.1)
    assert link["alpha interval"][0] <= link["alpha"] <= link["alpha interval"][1]
    assert link["beta interval"][0] <= link["beta"] <= link["beta interval"][1]
    predicted = link["alpha"] + link["beta"] * 2**20
    assert predicted == pytest.approx(alpha + beta * 2**20, rel=0.1)


def test_errors_in_seconds_would_lose_the_latency():
    random, alpha, beta = np.random.default_rng(1), 50e-6, 0.5e-9
    worse = 0
    for _ in range(50):
        noisy = [(alpha + beta * s) * random.lognormal(0, 0.2) for s in SIZES]
        ours = link_cost.fit_link_cost(SIZES, noisy)[0]
        plain = np.polyfit(SIZES, noisy, 1)[1]
        worse += abs(plain - alpha) > abs(ours - alpha)
    assert worse > 40
