"""Rings of two ranks and of four train apart; a published table is copied well."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives import link_cost
from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.collectives.published_all_reduces import H100_MICROSECONDS
from sidebyside import device, run_ranks
from sidebyside.course.lesson_format import read_lesson


def test_trainings_on_two_ranks_and_on_four_drift_apart():
    names = {"__name__": "__main__", "torch": torch, "dist": dist}  # as in a notebook
    names |= {"device": device, "ring_all_reduce": ring_all_reduce}
    cells = read_lesson(Path(__file__).parent).code_cells
    exec(next(c.source for c in cells if "def train_round_ring" in c.source), names)
    two, four = (run_ranks(names["train_round_ring"], world_size=n)[0] for n in (2, 4))
    differ = (two != four).sum(1)
    assert 0 < differ[0] < differ[-1], "after the first step and after the last"
    torch.testing.assert_close(two, four, atol=1e-6, rtol=0)


def test_the_published_table_has_the_bus_bandwidths_that_were_printed_with_it():
    printed = {8_589_934_592: 467.54, 16_777_216: 149.56, 1_048_576: 22.58}
    carried, seconds, _ = link_cost.gpu_link()
    table = dict(
        zip(H100_MICROSECONDS, zip(carried, seconds, strict=True), strict=True)
    )
    for size, bandwidth in printed.items():
        bytes_on_link, time = table[size]
        assert bytes_on_link / time / 1e9 == pytest.approx(bandwidth, rel=1e-3)
