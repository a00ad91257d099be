"""Lesson 14a: a cut network is the same training, and what its text says is so.

The oracle is the unsplit network, after every step, with SGD. Bytes are counted, never
timed. Each mistake that the lesson shows is tested to misbehave.
"""

import ast
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from lessons.props.model_parallel_cuts import idle_share_of_lanes
from parallel_by_hand.model_parallel.broken_cuts import (
    SKIPS,
    train_tied,
    train_with_skip,
)
from parallel_by_hand.model_parallel.cut_training import gap_of_histories, train_part
from parallel_by_hand.model_parallel.networks_to_cut import (
    meter_cut_in_time,
    meter_every_cut,
)
from sidebyside import RankFailed, Timeline, run_ranks
from sidebyside.course.lesson_format import read_lesson

# The budget ---------------------------------------------------------------------------


def test_the_whole_network_fails_in_the_update():
    with pytest.raises(RankFailed, match=r"has 16.00 MB.*clone") as failed:
        run_ranks(train_part, [8], 1, 16_000_000, world_size=1)
    frames = failed.value.outcome.raised[0].frames
    assert "step" in [frame.function for frame in frames]


# The same training --------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[4, 4], [1, 7], [3, 2, 3]])
def test_every_cut_is_the_unsplit_training_after_every_step(counts):
    options = 6, None, 48, 32  # steps, budget, width, batch
    whole = run_ranks(train_part, [8], *options, world_size=1)[0]
    parts = run_ranks(train_part, counts, *options, world_size=len(counts))
    assert len(whole.history) == 6
    assert gap_of_histories(parts, whole) <= 1e-6
    assert parts[-1].losses == pytest.approx(whole.losses, abs=1e-6)
    sent = 6 * 32 * 48 * 4  # steps, images, numbers, bytes
    for rank, part in enumerate(parts):
        neighbours = [r for r in (rank - 1, rank + 1) if 0 <= r < len(parts)]
        assert part.meter.sent_to == dict.fromkeys(neighbours, sent)


def test_memory_goes_with_the_layers_and_the_activations_of_the_cut_are_kept_twice():
    whole = run_ranks(train_part, [8], 2, world_size=1)[0].memory
    parts = [part.memory for part in run_ranks(train_part, [4, 4], 2)]
    for kind in "parameters", "gradients", "optimiser":
        assert sum(part[kind] for part in parts) == whole[kind]
        assert all(part[kind] == part["parameters"] for part in parts)
    crossing = 128 * 512 * 4
    assert sum(p["activations"] for p in parts) == whole["activations"] + crossing


def test_the_peak_of_one_device_is_less_than_the_sum_of_its_bar():
    memory = run_ranks(train_part, [8], 10, world_size=1)[0].memory
    assert round(memory["peak"] / 1e6, 1) == 20.4
    assert memory["peak"] < sum(memory.values()) - memory["peak"]


def test_a_cut_in_time_is_cheaper_for_eight_rows_and_dearer_for_four():
    """Between two LSTM layers each row costs; a cut in time costs the same for all."""
    front, _ = run_ranks(meter_every_cut)
    between = {c.after: c.sent for c in front}["LSTM 1"]
    in_time = run_ranks(meter_cut_in_time)[0]
    assert (between, in_time) == (65_536, 49_152)
    assert between // 8 * 4 < in_time


def test_while_one_rank_computes_the_other_waits():
    """In the lesson's own steps, by hand: no tolerance, for messages set the order."""
    with Timeline() as timeline:
        run_ranks(_defined_in_lesson("three_steps"))
    work = [s for s in timeline.spans if s.name in ("forward", "backward")]
    assert len(work) == 12
    for one, other in combinations(work, 2):
        apart = one.end <= other.start or other.end <= one.start
        assert apart or one.lane == other.lane


def _defined_in_lesson(wanted: str):
    """A function of the lesson, with the imports and functions above it."""
    names = {"__name__": "__main__"}  # as in a notebook
    for cell in read_lesson(Path(__file__).parent).code_cells:
        for part in ast.parse(cell.source).body:
            if isinstance(part, ast.Import | ast.ImportFrom | ast.FunctionDef):
                exec(compile(ast.Module([part], []), "<lesson>", "exec"), names)
        if wanted in names:
            break
    return names[wanted]


def test_the_idle_share_counts_waiting_as_idle():
    names = ["forward", "wait", "wait", "backward"]
    spans = [
        SimpleNamespace(name=name, lane=k // 2, start=k % 2, end=k % 2 + 1, duration=1)
        for k, name in enumerate(names)
    ]
    drawn = SimpleNamespace(spans=spans)
    assert idle_share_of_lanes(drawn) == pytest.approx(0.5)


# Where to cut -------------------------------------------------------------------------


def test_what_crosses_grows_with_the_batch_and_goes_both_ways():
    small, twice = run_ranks(meter_every_cut, 4), run_ranks(meter_every_cut, 8)
    assert [c.sent for c in small[0]] == [c.sent for c in small[1]]
    assert [2 * c.sent for c in small[0]] == [c.sent for c in twice[0]]
    numbers = {(c.network, c.after): c.sent // (4 * 4) for c in small[0]}
    assert numbers["fully connected", "512"] == 512
    assert numbers["convolutional", "conv 1"] == 16 * 8 * 8
    assert numbers["convolutional", "pool 2"] == 32 * 2 * 2
    assert numbers["recurrent", "LSTM 3"] == 8 * numbers["recurrent", "last step"]


def test_the_cheapest_cuts_are_those_of_the_text_and_none_halves_the_parameters():
    found, shares = {}, {}
    for before, behind in zip(*run_ranks(meter_every_cut), strict=True):
        found.setdefault(before.network, {})[before.after] = before.sent
        whole = before.parameters + behind.parameters
        shares[before.network, before.after] = before.parameters / whole
    cheapest = {
        (network, after)
        for network, cuts in found.items()
        for after, sent in cuts.items()
        if sent == min(cuts.values())
    }
    assert cheapest == {
        ("fully connected", "64"),
        ("convolutional", "pool 2"),
        ("convolutional", "128"),
        ("recurrent", "last step"),
    }
    assert not [cut for cut in cheapest if 0.4 < shares[cut] < 0.6]
    assert round(100 * (1 - shares["convolutional", "pool 2"])) == 71
    assert round(100 * shares["convolutional", "128"]) == 95
    assert shares["recurrent", "last step"] > 0.99


# What breaks silently -----------------------------------------------------------------


def test_a_skip_sent_as_data_has_the_right_first_loss_and_wrong_weights():
    whole = run_ranks(train_with_skip, world_size=1)[0]
    for way in SKIPS:
        front, back = run_ranks(train_with_skip, way)
        gaps = [
            abs(a - b).max() for a, b in zip(front.weights, whole.weights, strict=True)
        ]
        assert back.losses[0] == pytest.approx(whole.losses[0], abs=1e-6)
        if way == "as data":
            assert gaps[0] > 1e-3
            assert abs(back.losses[1] - whole.losses[1]) > 1e-3
            assert front.sent == 2 * back.sent
        else:
            assert max(gaps) <= 1e-6
            assert back.losses == pytest.approx(whole.losses, abs=1e-6)
            assert front.sent == back.sent


def test_copies_of_a_tied_weight_drift_apart_unless_gradients_are_added():
    whole = run_ranks(train_tied, world_size=1)[0]
    apart = run_ranks(train_tied)
    assert apart[1].losses[0] == pytest.approx(whole.losses[0], abs=1e-6)
    gaps = [abs(a - b).max() for a, b in zip(*(r.weights for r in apart), strict=True)]
    assert min(gaps) > 1e-3
    added = run_ranks(train_tied, True)
    for step, weight in enumerate(whole.weights):
        assert (added[0].weights[step] == added[1].weights[step]).all()
        assert abs(added[0].weights[step] - weight).max() <= 1e-5
    assert added[0].sent - apart[0].sent == 40 * 16 * 64 * 4
