"""An agent starts killed ranks again, and their training ends as if they had lived."""

from pathlib import Path

import pytest
import torch

from parallel_by_hand.failures.own_agent import TooManyRestarts, run_with_restarts
from parallel_by_hand.failures.resumed_digits import (
    Run,
    train_through_accidents,
    trained_parameters,
)
from sidebyside import Timeline

pytestmark = pytest.mark.everything


def trained(folder: Path, ranks=2, elastic=False, **options) -> tuple:
    """All parameters of a run, and its log."""
    folder.mkdir()
    run = Run(folder, options.pop("steps", 24), options.pop("every", 10), **options)
    run_with_restarts(train_through_accidents, ranks, run, elastic=elastic)
    return trained_parameters(run), list(map(str, run.lives))


@pytest.mark.parametrize(("ranks", "victim", "at"), [(2, 1, 15), (3, 0, 20), (2, 1, 9)])
def test_a_killed_training_ends_as_the_uninterrupted_one(tmp_path, ranks, victim, at):
    whole, _ = trained(tmp_path / "whole", ranks)
    accidents = {0: (victim, at)}
    resumed, log = trained(tmp_path / "resumed", ranks, accidents=accidents)
    assert torch.equal(whole, resumed)
    first = at // 10 * 10
    begun = [f"{ranks} ranks begin after step {step}" for step in (0, first)]
    assert log == [f"life {life}: {line}" for life, line in enumerate(begun)]


def test_with_dropout_another_world_size_is_another_training(tmp_path):
    """One rank draws other numbers than two."""
    whole, _ = trained(tmp_path / "whole", ranks=2)
    fewer, _ = trained(tmp_path / "f", ranks=2, elastic=True, accidents={0: (1, 15)})
    assert (whole - fewer).abs().max() > 1e-3


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_elastic_restart_agrees_up_to_rounding_without_dropout(tmp_path, ranks):
    options = {"ranks": ranks, "dropout": 0, "elastic": True}
    whole, _ = trained(tmp_path / "whole", **options)
    fewer, log = trained(tmp_path / "fewer", accidents={0: (1, 15)}, **options)
    torch.testing.assert_close(whole, fewer, rtol=0, atol=1e-5)
    left = f"{ranks - 1} ranks begin" if ranks > 2 else "1 rank begins"
    assert log[1] == f"life 1: {left} after step 10"


def test_the_agent_gives_up_when_ranks_die_again_and_again(tmp_path):
    accidents = dict.fromkeys(range(9), (0, 5))
    run = Run(tmp_path, 24, 10, accidents)
    with pytest.raises(TooManyRestarts, match="3 times"):
        run_with_restarts(train_through_accidents, 2, run, max_restarts=2)


def test_the_timeline_shows_lost_steps_twice(tmp_path):
    with Timeline() as timeline:
        trained(tmp_path / "a", accidents={0: (1, 13)}, nap=0.005)
    assert timeline.lanes == ["rank 0", "rank 1"]
    of_rank_1 = [s.name for s in timeline.spans if s.lane == "rank 1"]
    twice = {f"step {n}" for n in (11, 12, 13)}
    assert {name for name in of_rank_1 if of_rank_1.count(name) > 1} - {"save"} == twice
