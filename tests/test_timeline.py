"""One timeline holds threads, processes and ranks, and loses no finished span."""

import json
import multiprocessing
import os
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch.distributed as dist

from demos.gil.sleeping_threads import doze_in_thread  # it is quick to import
from sidebyside import RankFailed, Timeline, draw_timelines, run_ranks, span


def work(name: str = "work", seconds: float = 0.01) -> None:
    with span(name):
        time.sleep(seconds)


def test_spans_know_their_name_order_and_lane():
    with Timeline() as timeline:
        work("first")
        work("second")
    first, second = timeline.spans
    assert (first.name, second.name) == ("first", "second")
    assert 0 <= first.start < first.end <= second.start < second.end
    assert first.cpu < first.duration  # it slept
    assert timeline.lanes == ["main"]


def test_each_thread_has_a_lane_though_threads_may_reuse_an_id():
    with Timeline() as timeline:
        for _ in range(3):  # one after the other
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        named = threading.Thread(target=work, name="loader")
        named.start()
        named.join()
    assert timeline.lanes == ["loader", "thread 1", "thread 2", "thread 3"]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_every_start_method_are_recorded(method):
    context = multiprocessing.get_context(method)
    with Timeline() as timeline:
        work()
        crew = [context.Process(target=doze_in_thread, args=(0.01,)) for _ in range(2)]
        for process in crew:
            process.start()
        for process in crew:
            process.join()
    assert timeline.lanes == ["main", "process 1", "process 2"]
    assert len(timeline.spans) == 3


def test_ranks_and_their_threads_have_their_own_lanes():
    def fn():
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with Timeline() as timeline:
        run_ranks(fn)
    assert timeline.lanes == ["rank 0", "rank 0 thread 1", "rank 1", "rank 1 thread 1"]


def test_the_clock_is_the_same_in_all_ranks():
    def fn():
        for turn in range(3):
            if dist.get_rank() == turn % 2:
                work(f"turn {turn}")
            dist.barrier()

    with Timeline() as timeline:
        run_ranks(fn)
    turns = sorted(timeline.spans, key=lambda s: s.name)
    for earlier, later in pairwise(turns):
        assert earlier.end <= later.start


def test_a_killed_worker_keeps_its_finished_spans():
    def fn():
        work("finished")
        with span("cut short"):
            os.kill(os.getpid(), signal.SIGKILL)

    with Timeline() as timeline, pytest.raises(RankFailed):
        run_ranks(fn, world_size=1)
    assert [s.name for s in timeline.spans] == ["finished"]


def test_a_span_outside_a_timeline_costs_nothing_and_breaks_nothing():
    with span("nowhere"):
        pass
    with Timeline() as timeline:
        pass
    assert timeline.spans == []
    assert "no span" in timeline.text()
    with pytest.raises(ValueError, match="nothing to draw"):
        timeline.plot()


def test_the_timeline_outside_continues_after_the_one_inside():
    with Timeline() as outer:
        work("a")
        with Timeline() as inner:
            work("b")
        work("c")
    assert [s.name for s in outer.spans] == ["a", "c"]
    assert [s.name for s in inner.spans] == ["b"]


def test_work_may_change_threads_and_its_cpu_time_is_unknown_and_not_zero(tmp_path):
    with Timeline() as timeline:
        transfer = span("all_reduce").start()
        thread = threading.Thread(target=transfer.stop)
        thread.start()
        thread.join()
    (recorded,) = timeline.spans
    assert (recorded.lane, recorded.cpu) == ("main", None)
    trace = json.loads(Path(timeline.save(tmp_path / "trace.json")).read_text())
    assert trace["traceEvents"][-1]["args"] == {}


def test_the_text_has_a_line_per_lane_and_shows_who_waits():
    with Timeline() as timeline:
        work("forward 1")
        took = timeline.spans[0].duration  # the other takes as long, or longer
        thread = threading.Thread(target=work, args=("backward 1", took))
        thread.start()
        thread.join()
    main, thread, _, key = timeline.text(width=20).splitlines()
    assert main.startswith("main     |F") and "." in main
    assert thread.endswith("%") and "b|" in thread.lower()
    assert "F = forward, B = backward" in key


def test_the_picture_shows_every_lane():
    with Timeline() as one:
        work()
    with Timeline() as two:
        run_ranks(work)
    picture = draw_timelines({"alone": one, "in ranks": two})
    labels = [label.get_text() for label in picture.axes[0].get_yticklabels()]
    assert labels == ["main", "rank 0", "rank 1"]
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert "rank 1" in repr(picture)


def test_the_saved_file_is_a_chrome_trace(tmp_path):
    with Timeline() as timeline:
        run_ranks(work)
    path = timeline.save(tmp_path / "trace.json")
    trace = json.loads(Path(path).read_text())
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    bars = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert names == {"rank 0", "rank 1"}
    for bar, recorded in zip(bars, timeline.spans, strict=True):
        assert bar["name"] == "work"
        assert bar["ts"] == pytest.approx(recorded.start * 1e6)
        assert bar["dur"] == pytest.approx(recorded.duration * 1e6)
