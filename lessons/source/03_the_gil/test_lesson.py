"""What lesson 03 says about the GIL is so: shown by the order of events."""

import asyncio
import os
import sys
from threading import Thread
from time import perf_counter

import pytest
import torch

from demos.gil import sleeping_threads
from sidebyside import Timeline
from sidebyside.programs.free_threaded import run_without_gil

NO_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()


def others_ran_during(work) -> bool:
    """Whether this thread ran while another was in the middle of `work`."""
    times = []

    def timed() -> None:
        times.append(perf_counter())
        work()
        times.append(perf_counter())

    worker, stamps = Thread(target=timed), []
    worker.start()
    while worker.is_alive():
        stamps.append(perf_counter())
    start, end = times
    quarter = (end - start) / 4  # at the edges, the worker runs Python code as well
    return any(start + quarter < stamp < end - quarter for stamp in stamps)


def test_a_matrix_product_lets_others_run(one_torch_thread):
    matrix = torch.rand(2500, 2500)
    assert others_ran_during(lambda: matrix @ matrix)


@pytest.mark.skipif(NO_GIL, reason="this Python has no GIL")
def test_nobody_runs_python_code_during_a_sort():
    numbers = torch.randperm(1_000_000).tolist()
    # A busy machine may stop the sorting thread for long just before it sorts.
    assert not all(others_ran_during(lambda: sorted(numbers)) for _ in range(3))


def test_an_open_span_is_not_a_busy_core():
    with Timeline() as timeline:
        sleeping_threads.doze_all_at_once(2, 0.05)
    assert all(s.cpu < s.duration for s in timeline.spans)


def test_a_coroutine_that_does_not_await_makes_all_others_wait():
    events = []

    async def fetch() -> None:
        await asyncio.sleep(0)
        events.append("the page is there")

    async def compute() -> None:
        for step in range(1000):
            events.append(step)

    async def both() -> None:
        await asyncio.gather(fetch(), compute())

    asyncio.run(both())
    assert events == [*range(1000), "the page is there"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_free_threaded_python_needs_no_package(tmp_path, monkeypatch, capsys):
    """There is seldom one. -S: nor has the Python that stands in for it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    demo = "gil/threads_vs_processes.py"
    run_without_gil(demo)
    python = tmp_path / "python3.14t"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    run_without_gil(demo, "--steps", 9)
    run_without_gil("overheads/how_many_workers.py")
    none, *_, processes, _, no_package = capsys.readouterr().out.splitlines()
    assert none.startswith("There is no python3.14t")
    assert processes.startswith("  processes ")
    assert no_package.startswith(f"{python} cannot run it. ModuleNotFoundError: ")
