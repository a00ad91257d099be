"""What lesson 06 says about the cost of workers is so, where it needs no clock."""

import math
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import pytest
import torch

from lessons.props.overheads_and_how_many_workers import (
    four_timelines,
    heavy_tailed_naps,
)
from parallel_by_hand.overheads.cost_model import Costs


def test_the_best_number_is_beside_the_square_root_and_a_has_no_say():
    dice = random.Random(3)
    for _ in range(200):
        costs = Costs(
            dice.uniform(0, 1), dice.uniform(0.1, 10), dice.uniform(0.01, 0.5)
        )
        best, root = costs.best(most=1000), math.sqrt(costs.b / costs.c)
        assert best in (max(1, math.floor(root)), math.ceil(root))
        assert costs._replace(a=0.0).best(most=1000) == best
        share = costs.b / root, costs.c * root
        assert share[0] == pytest.approx(share[1]), "equal where the sum is smallest"


def done(lengths: list[float], chunk: int, workers: int = 4) -> float:
    """When the last is done, if whoever is free takes the next chunk."""
    free = [0.0] * workers
    for start in range(0, len(lengths), chunk):
        free.sort()
        free[0] += sum(lengths[start : start + chunk])
    return max(free)


def test_small_chunks_balance_the_job_of_the_lesson():
    lengths = heavy_tailed_naps(48, total=1.2)
    assert sum(lengths) == pytest.approx(1.2)
    assert done(lengths, 1) < 0.34 < 0.5 < done(lengths, 12)


def test_the_four_crews_have_the_four_faults():
    timelines = four_timelines()
    spans = {name: timeline.spans for name, timeline in timelines.items()}
    for name in "ABCD":
        assert sum(s.name == "work" for s in spans[name]) == 8, "the same work"
    turns = sorted(spans["A"], key=lambda span: span.start)
    assert all(a.end <= b.start for a, b in pairwise(turns)), "a lock: they take turns"
    handed = [s for s in spans["B"] if s.name == "hand out"]
    assert len(handed) == 4, "small pieces: main hands out again and again"
    lanes = [s.lane for s in spans["C"]]
    assert sorted(map(lanes.count, set(lanes))) == [1, 7], "uneven shares"
    main = [s for s in spans["D"] if s.lane == "main"]
    others = [s for s in spans["D"] if s.lane != "main"]
    assert len(main) == 1
    assert main[0].end <= min(s.start for s in others), "a serial part"


@pytest.mark.everything
def test_the_cure_gives_each_worker_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # what a worker has without the cure
    cure = {"initializer": torch.set_num_threads, "initargs": (1,)}
    spawn = multiprocessing.get_context("spawn")
    for expected, how in (2, {}), (1, cure):
        with ProcessPoolExecutor(1, spawn, **how) as pool:
            assert pool.submit(torch.get_num_threads).result() == expected
