"""All four ways give the library's sum; what they send, and what it costs, is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from lessons.props.all_reduce_and_its_cost import who_holds_what
from parallel_by_hand.collectives import link_cost
from parallel_by_hand.collectives.all_reduces import ALL_REDUCES, ring_all_reduce
from parallel_by_hand.collectives.published_all_reduces import H100_MICROSECONDS
from sidebyside import device, run_ranks
from sidebyside.course.lesson_format import read_lesson

# Rounding -----------------------------------------------------------------------------


def test_the_ways_add_in_different_orders():
    def sums() -> dict[str, torch.Tensor]:
        seed = torch.Generator().manual_seed(dist.get_rank())
        numbers = torch.rand(1000, generator=seed)
        totals = {way: numbers.clone() for way in ALL_REDUCES}
        for way, total in totals.items():
            ALL_REDUCES[way](total)
        return totals

    found = run_ranks(sums, world_size=4)[0]
    for way in ("tree", "ring", "halving-doubling"):
        assert not torch.equal(found[way], found["root"])
        torch.testing.assert_close(found[way], found["root"])


def test_trainings_on_two_ranks_and_on_four_drift_apart():
    names = {"__name__": "__main__", "torch": torch, "dist": dist}  # as in a notebook
    names |= {"device": device, "ring_all_reduce": ring_all_reduce}
    cells = read_lesson(Path(__file__).parent).code_cells
    exec(next(c.source for c in cells if "def train_round_ring" in c.source), names)
    two, four = (run_ranks(names["train_round_ring"], world_size=n)[0] for n in (2, 4))
    differ = (two != four).sum(1)
    assert 0 < differ[0] < differ[-1], "after the first step and after the last"
    torch.testing.assert_close(two, four, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("way", "steps"), [("ring", 6), ("tree", 4)])
def test_in_the_picture_all_ranks_hold_the_whole_sum_after_the_last_step(way, steps):
    at_first, *after = who_holds_what(way, 4)
    assert {count for chunks in at_first for count in chunks} == {1}
    whole = [{count for chunks in held for count in chunks} == {4} for held in after]
    assert whole == [False] * (steps - 1) + [True]


# What it costs ------------------------------------------------------------------------


def test_the_published_table_has_the_bus_bandwidths_that_were_printed_with_it():
    printed = {8_589_934_592: 467.54, 16_777_216: 149.56, 1_048_576: 22.58}
    carried, seconds, _ = link_cost.gpu_link()
    table = dict(
        zip(H100_MICROSECONDS, zip(carried, seconds, strict=True), strict=True)
    )
    for size, bandwidth in printed.items():
        bytes_on_link, time = table[size]
        assert bytes_on_link / time / 1e9 == pytest.approx(bandwidth, rel=1e-3)


def test_the_published_residuals_have_a_shape():
    carried, seconds, fitted = link_cost.gpu_link()
    ratios = np.array(seconds) / np.array(fitted)
    middle = (np.array(carried) > 2e5) & (np.array(carried) < 2e8)
    assert ratios[middle].min() > 1.1, "slower than the line, one and all"
    assert ratios[middle].max() == pytest.approx(2.5, abs=0.01)
    ends = ratios[~middle][1:]
    assert ends.min() > 0.8 and ends.max() < 1.2, "off by a fifth or less"
