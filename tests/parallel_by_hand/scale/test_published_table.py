"""Published runs beside the simulator, and what their tables may contain."""

import csv
from statistics import mean

import pytest

from parallel_by_hand.scale.published_table import (
    OPTIONAL,
    OWN_RUNS,
    hold_rows,
    mean_misses,
    read_published_rows,
)
from sidebyside.course.datasets import DATA


@pytest.fixture(scope="module")
def held():
    return hold_rows(read_published_rows())


@pytest.fixture(scope="module")
def own():
    return hold_rows(read_published_rows(OWN_RUNS))


def test_published_runs_are_met_better_than_by_one_utilisation(held):
    known = [one for one in held if one.row.family != "ZeRO-3 of 2021"]
    assert len(held) - len(known) == 3
    assert mean(abs(one.miss) for one in known) < 0.04
    for _, ours, constant in mean_misses(held).values():
        assert ours < constant and (ours < 0.04 or constant > 1)


def test_our_own_runs_are_met_within_a_tenth(own):
    assert len(own) == 24 and mean(abs(one.miss) for one in own) < 0.1
    # torch.cuda.max_memory_allocated of the last row, in GiB
    assert sum(own[-1].step.memory) / 2**30 == pytest.approx(53.64, rel=0.02)


def test_every_run_that_ran_fits(held, own):
    assert all(one.step.fits for one in held + own)


@pytest.fixture
def table(tmp_path):
    """A file with the course's first row, changed."""

    def write(**changes):
        with open(DATA / "published_runs.csv", encoding="utf-8", newline="") as file:
            row = next(csv.DictReader(file)) | changes
        path = tmp_path / "rows.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [c for c in row if row[c] is not None])
            writer.writeheader()
            writer.writerow({c: v for c, v in row.items() if v is not None})
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": "4"}, "unknown columns: batch_size; a table has source"),
        ({"layers": None}, "columns that are missing: layers;"),
        ({"layers": "many"}, "row 1: layers is no number: many"),
        ({"layers": ""}, "row 1: layers is empty"),
        ({"gpu": "V100"}, "row 1: gpu must be one of A100, .*, not V100"),
        ({"gpus": "12"}, "row 1: gpus must be a multiple of gpus_per_node"),
        ({"precision": "int8"}, "row 1: precision must be one of bf16, fp8"),
        ({"tensor": "3"}, "row 1: data x tensor x pipeline is 1 x 3 x 1 = 3"),
        ({"context": "3"}, "row 1: data x tensor x pipeline x context is"),
    ],
)
def test_a_table_that_is_not_understood_is_refused_in_a_sentence(changes, said, table):
    with pytest.raises(ValueError, match=said):
        hold_rows(read_published_rows(table(**changes)))


def test_further_columns_are_optional(table):
    plain, *more = (
        hold_rows(read_published_rows(table(**changes)))[0].tokens_per_second
        for changes in (
            {},
            {name: str(value) for name, value in OPTIONAL.items()},
            {"kv_heads": "8"},
            {"precision": "fp8"},
            {"mlp_width": "8192", "gated_mlp": "1"},
        )
    )
    assert more[0] == plain
    assert all(rate > plain for rate in more[1:])
