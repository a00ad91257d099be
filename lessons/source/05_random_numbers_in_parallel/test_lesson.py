"""What lesson 05 says about random numbers is so, on the versions that it names."""

import math
import multiprocessing
import os
import random
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset

from demos.random_numbers import forked_random_numbers
from parallel_by_hand.random_numbers import monte_carlo_pi
from parallel_by_hand.random_numbers.loader_workers import (
    Noise,
    NoiseByItem,
    make_loader,
    start_method,
    stream,
)
from sidebyside import run_ranks
from tests.process_state import said_by

DEMO = Path(forked_random_numbers.__file__)
METHODS = [
    method
    for method in ("fork", "forkserver", "spawn")
    if method in multiprocessing.get_all_start_methods()
]
ANNOTATIONS_RUN = sys.version_info < (3, 14)  # from then on only when asked for
METHOD = "forkserver" if "forkserver" in METHODS else "spawn"
needs_all_methods = pytest.mark.skipif(len(METHODS) < 3, reason="no fork on Windows")

SENT = "np Generator, sent by the parent"
TABLE = {  # the start methods under which two workers draw the same
    "np.random, first used by the worker": set(),
    "random, used by the parent": set(),
    "np.random, used by the parent": {"fork"},
    SENT: {"fork", "forkserver", "spawn"},
    "np Generator, made by the worker": set(),
    "torch, used by the parent": {"fork"},
}


@pytest.fixture(autouse=True, scope="module")
def _forkserver_imports_torch_once():
    assert start_method() == METHOD


def equal_entries(*arguments: str) -> dict[str, set[str]]:
    """The demo's table: for each row the start methods that say EQUAL."""
    lines = said_by(DEMO, *arguments).splitlines()
    rows = {row: line for line in lines for row in TABLE if line.startswith(row)}
    assert list(rows) == list(TABLE), lines
    found = {}
    for row, line in rows.items():
        words = line.removeprefix(row).split()
        assert len(words) == len(METHODS)
        assert set(words) <= {"EQUAL", "different"}
        found[row] = {m for m, w in zip(METHODS, words, strict=True) if w == "EQUAL"}
    return found


@pytest.mark.everything
@needs_all_methods
def test_the_table_is_as_the_lesson_explains_it():
    assert equal_entries() == TABLE


@pytest.mark.everything
@needs_all_methods
def test_a_server_with_a_past_hands_out_copies():
    found = equal_entries("--preload", "torch", "numpy.random", "--workers", "3")
    new = {row: found[row] - TABLE[row] for row in TABLE if found[row] != TABLE[row]}
    assert new == {
        "np.random, first used by the worker": {"forkserver"},
        "np.random, used by the parent": {"forkserver"},
        "torch, used by the parent": {"forkserver"},
    }


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("import numpy, torch", False),
        ("import numpy\nnumpy.random.default_rng", True),
        ("import numpy\ndef f(x: numpy.random.Generator): pass", ANNOTATIONS_RUN),
    ],
)
def test_numpy_loads_its_random_module_when_it_is_named(code, loaded):
    code += "\nimport sys\nprint('numpy.random' in sys.modules)"
    assert said_by("-c", code).split() == [str(loaded)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on Windows")
def test_python_reseeds_its_global_generator_in_a_fork_and_only_that():
    code = """
import os, random
random.seed(0)
own = random.Random(0)
expected, state = own.getstate(), random.getstate()
child = os.fork()
if child == 0:
    os._exit(own.getstate() == expected and random.getstate() != state)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert said_by("-c", code).split() == ["1"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_spawned_streams_follow_the_theory(seed):
    points, repeats = 500, 400
    of_each = [
        monte_carlo_pi.circle_hits(one, points, repeats)
        for one in monte_carlo_pi.spawned(seed, 16)
    ]
    error = monte_carlo_pi.pi_errors(of_each, points)
    for k in 1, 4, 16:
        theory = math.sqrt(math.pi * (4 - math.pi) / (points * k))
        assert error[k - 1] == pytest.approx(theory, rel=0.15)


def test_a_number_of_numpy_has_53_random_bits():
    words = [float(number) * 2**53 for number in stream(0).random(1000)]
    assert all(word == int(word) for word in words)
    assert any(word % 2 for word in words)


def test_torch_uses_32_bits_of_a_seed():
    def first(seed: int) -> float:
        return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()

    assert first(5) == first(5 + 2**32) != first(6)


def test_one_seed_in_the_parent_fixes_what_a_dataloader_seeds():
    def rows() -> list:
        torch.manual_seed(3)
        random.seed()
        loader = make_loader(Noise(4), 2, METHOD)
        loader.generator = None  # then the seed comes from torch's global generator
        return list(loader)

    assert rows() == rows()


def test_workers_that_persist_keep_their_copy_of_the_dataset():
    dataset = NoiseByItem(4)
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context=METHOD,
    )
    first = list(loader)
    dataset.epoch = 1
    assert list(loader) == first


def items_of_rank() -> list[float]:
    """Every second item, made by two workers, as a sampler deals them to two ranks."""
    share = range(dist.get_rank(), 8, 2)
    loader = make_loader(Subset(NoiseByItem(8), share), 2, start_method())
    return list(loader)


@pytest.mark.everything
def test_items_with_a_stream_each_depend_neither_on_the_rank_nor_on_the_worker():
    first, second = run_ranks(items_of_rank, world_size=2)
    alone = [NoiseByItem(8)[item] for item in range(8)]
    assert (first, second) == (alone[::2], alone[1::2])
