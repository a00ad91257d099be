"""Blocks cover the product once, in processes too, and the bytes are as computed."""

import os

import numpy as np
import pytest

from parallel_by_hand.practice.block_matmul import (
    BlockProduct,
    matrix_blocks,
    matrix_strips,
)


@pytest.mark.parametrize(("size", "cuts"), [(5, 1), (7, 3), (8, 8), (10, 4)])
def test_blocks_cover_the_product_once(size, cuts):
    counts = np.zeros((size, size), dtype=int)
    for place in matrix_blocks(size, cuts):
        counts[place] += 1
    assert (counts == 1).all()
    lengths = [strip.stop - strip.start for strip in matrix_strips(size, cuts)]
    assert max(lengths) - min(lengths) <= 1


def test_blocks_in_processes_give_the_library_s_product():
    with BlockProduct(size=30, cuts=4, workers=2) as work:
        expected = work.by_library()
        np.testing.assert_allclose(work.by_sending(), expected, atol=1e-12)
        assert not work.C.any(), "sending does not touch the shared product"
        np.testing.assert_allclose(work.by_sharing(), expected, atol=1e-12)
    with work:
        np.testing.assert_allclose(work.by_sending(), expected, atol=1e-12)


def test_sending_moves_each_factor_once_per_cut_and_the_product_once():
    moved = BlockProduct(size=200, cuts=4, workers=1).bytes_moved()
    matrix = 200 * 200 * 8
    least = (4 + 4 + 1) * matrix
    assert least < moved["blocks sent"] < least + 16 * 1000
    assert moved["blocks shared"] < 16 * 100


def test_workers_of_the_block_product_compute_with_one_thread_and_we_as_before():
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    with BlockProduct(size=4, cuts=1, workers=1) as work:
        seen = work.pool.apply_async(os.getenv, (name,)).get(60)
    assert (seen, os.environ.get(name)) == ("1", before)
