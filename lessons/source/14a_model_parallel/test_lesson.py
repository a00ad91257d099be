"""Lesson 14a: a cut network is the same training, and what its text says is so.

The oracle is the unsplit network, after every step, with SGD. Bytes are counted, never
timed. Each mistake that the lesson shows is tested to misbehave.
"""

import ast
from itertools import combinations
from pathlib import Path

import pytest

from parallel_by_hand.model_parallel.cut_training import gap_of_histories, train_part
from parallel_by_hand.model_parallel.networks_to_cut import (
    meter_every_cut,
)
from sidebyside import Timeline, run_ranks
from sidebyside.course.lesson_format import read_lesson

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


def test_the_peak_of_one_device_is_less_than_the_sum_of_its_bar():
    memory = run_ranks(train_part, [8], 10, world_size=1)[0].memory
    assert round(memory["peak"] / 1e6, 1) == 20.4
    assert memory["peak"] < sum(memory.values()) - memory["peak"]


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
