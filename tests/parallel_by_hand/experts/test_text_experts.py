"""A router left alone prefers few experts; a loss or a bias keeps all of them busy."""

import pytest
import torch

from parallel_by_hand.experts.hot_expert import loads_of_ranks
from parallel_by_hand.experts.text_experts import (
    TextExperts,
    TextRun,
    moby_dick_tokens,
    share_dropped,
    shares_of_experts,
    text_excerpts,
    train_all_ways,
)


@pytest.fixture(scope="module")
def runs() -> dict[str, TextRun]:
    return train_all_ways()


def test_without_balance_two_experts_get_most_choices(runs):
    assert shares_of_experts(runs["nothing"]).topk(2).values.sum() > 0.5
    for way in ("loss", "bias", "V3"):
        shares = shares_of_experts(runs[way])
        assert shares.min() > 0.06 and shares.max() < 0.2


def test_balanced_experts_share_each_text_nearly_as_by_chance(runs):
    assert runs["nothing"].busiest > 0.4
    assert all(0.17 < runs[way].busiest < 0.25 for way in ("loss", "bias", "V3"))


def test_balanced_experts_drop_less_at_each_capacity(runs):
    for factor in (1, 1.25, 2):
        dropped = {way: share_dropped(run, factor) for way, run in runs.items()}
        assert max(dropped["loss"], dropped["bias"]) < 0.5 * dropped["nothing"]


def test_without_balance_one_rank_has_most_of_the_work(runs):
    loads = loads_of_ranks(runs["nothing"], 4)
    assert sum(loads) == pytest.approx(4)
    assert max(loads) > 1.5
    assert max(loads_of_ranks(runs["bias"], 4)) < 1.3


def test_dropped_choices_are_those_above_the_capacity_of_their_step():
    choices = torch.tensor([[6, 2], [4, 4]])
    run = TextRun([], choices, choices, busiest=0.5)
    assert share_dropped(run, 1) == pytest.approx(2 / 16)
    assert share_dropped(run, 1.25) == pytest.approx(1 / 16)


def test_each_character_is_counted_with_its_k_experts(runs):
    by_character = runs["bias"].by_character
    assert by_character.sum() == runs["bias"].choices[-20:].sum() == 20 * 1024
    assert by_character.topk(2).values.sum() > 0.6 * 20 * 1024  # by chance 0.25
    alphabet, tokens = moby_dick_tokens()
    assert by_character.shape == (len(alphabet), 8)
    x, y = text_excerpts(3)
    assert x.shape == y.shape == (16, 32) and torch.equal(x[:, 1:], y[:, :-1])
    assert int(tokens.max()) < len(alphabet) == len(TextExperts().words)
