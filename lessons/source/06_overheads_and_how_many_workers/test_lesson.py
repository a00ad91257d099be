"""What lesson 06 says about the cost of workers is so, where it needs no clock."""

import inspect
import math
import multiprocessing
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from demos.overheads import how_many_workers
from lessons.props.overheads_and_how_many_workers import (
    four_timelines,
    heavy_tailed_naps,
    timeline_of_chunks,
)
from parallel_by_hand.overheads.cost_model import Costs, fit_costs
from parallel_by_hand.overheads.pieces_of_work import (
    CONTEXT,
    cpu_share_of_piece,
    nap_piece,
    share_out_pieces,
)
from sidebyside import Timeline


def random_costs(dice: random.Random) -> Costs:
    return Costs(dice.uniform(0, 1), dice.uniform(0.1, 10), dice.uniform(0.01, 0.5))


@pytest.mark.parametrize("at_once", [1.7, 3.0, math.inf])
def test_the_fit_finds_the_costs_that_made_the_times(at_once):
    dice = random.Random(1)
    for _ in range(50):
        costs = random_costs(dice)
        times = {k: [costs.seconds(k, at_once)] * 3 for k in (1, 2, 3, 4, 8)}
        assert fit_costs(times, at_once) == pytest.approx(costs, abs=1e-8)


def test_with_one_core_a_and_c_are_found_if_b_is_known():
    costs = Costs(0.3, 0.4, 0.02)
    times = {k: [costs.seconds(k, at_once=1)] for k in (1, 2, 3, 4)}
    assert fit_costs(times, 1, b=0.4) == pytest.approx(costs, abs=1e-8)
    assert fit_costs(times, 1) != pytest.approx(costs, abs=1e-2), "b goes into a"


def test_no_fitted_cost_is_below_zero():
    dice = random.Random(2)
    for _ in range(50):
        times = {k: [dice.uniform(0.5, 1)] for k in (1, 2, 4, 8)}
        assert min(fit_costs(times)) >= 0


def test_the_best_number_is_beside_the_square_root_and_a_has_no_say():
    dice = random.Random(3)
    for _ in range(200):
        costs = random_costs(dice)
        best, root = costs.best(most=1000), math.sqrt(costs.b / costs.c)
        assert best in (max(1, math.floor(root)), math.ceil(root))
        assert costs._replace(a=0.0).best(most=1000) == best
        share = costs.b / root, costs.c * root
        assert share[0] == pytest.approx(share[1]), "equal where the sum is smallest"


def test_more_workers_than_can_work_at_once_only_cost():
    costs = Costs(0.0, 1.0, 0.01)
    times = [costs.seconds(k, at_once=2) for k in range(2, 9)]
    assert times == sorted(times)
    assert costs.best(8, at_once=2) == 2


def test_a_nap_needs_next_to_no_core():
    with Timeline() as timeline:
        for piece in range(5):
            nap_piece(piece)
    assert sum(s.cpu for s in timeline.spans) < 0.5 * sum(
        s.duration for s in timeline.spans
    )
    assert 0 <= cpu_share_of_piece(nap_piece) <= 1


def test_every_piece_is_done_once_whatever_the_number_of_workers():
    for workers in 1, 3:
        with Timeline() as timeline:
            share_out_pieces(nap_piece, pieces=7, workers=workers)
        assert len(timeline.spans) == 7
        assert len(timeline.lanes) == workers


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


def test_a_pool_hands_out_chunks_as_they_are_counted():
    with_spans = timeline_of_chunks([0.001] * 12, 6, workers=4)
    assert len(with_spans.spans) == 12
    assert len(with_spans.lanes) <= 2, "two chunks: no more than two have work"


def overlaps(spans) -> bool:
    """Whether spans of two lanes were open at the same moment."""
    return any(
        a.lane != b.lane and a.start < b.end and b.start < a.end
        for a in spans
        for b in spans
    )


def test_the_four_crews_have_the_four_faults():
    timelines = four_timelines()
    spans = {name: timeline.spans for name, timeline in timelines.items()}
    for name in "ABCD":
        assert sum(s.name == "work" for s in spans[name]) == 8, "the same work"
    assert not overlaps(spans["A"]), "a lock: they take turns"
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


class Threads(torch.utils.data.Dataset):
    """Each item is the number of torch's threads where it was made."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, item: int) -> int:
        return torch.get_num_threads()


@pytest.mark.everything
def test_a_data_loader_gives_its_workers_one_thread():
    loader = torch.utils.data.DataLoader(
        Threads(), num_workers=2, multiprocessing_context=CONTEXT
    )
    assert torch.cat(list(loader)).tolist() == [1, 1]


def test_an_executor_sends_pieces_one_by_one_unless_told():
    assert (
        inspect.signature(ProcessPoolExecutor.map).parameters["chunksize"].default == 1
    )


def test_workers_of_the_demo_import_neither_numpy_nor_matplotlib():
    """Each worker imports the demo again: its imports would be part of c."""
    code = (
        "import sys, parallel_by_hand.overheads.how_many_workers; print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sidebyside" in run.stdout.split(), run.stderr
    assert not {"numpy", "matplotlib", "torch"} & set(run.stdout.split())


@pytest.mark.everything
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_kind", "must be busy, nap, draw or module:name"),
        ("math:", "must be busy, nap, draw or module:name"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("math:no_such_function", "AttributeError"),
        ("math:log", "ValueError"),
        ("math:pi", "not callable"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_in_one_line(name, why):
    command = [sys.executable, how_many_workers.__file__, "--function", name]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert why in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


@pytest.mark.everything
def test_the_demo_takes_any_function_and_writes_its_plot(tmp_path):
    (tmp_path / "mine.py").write_text("def cube(piece):\n    return piece**3\n")
    command = [sys.executable, how_many_workers.__file__, "--function", "mine:cube"]
    command += ["--pieces", "4", "--rounds", "1", "--plot", "knee.png"]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert "best here" in run.stdout
    assert (tmp_path / "knee.png").read_bytes().startswith(b"\x89PNG")
