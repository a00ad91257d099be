"""Pieces are done once each, whatever the number of workers; a nap needs no core."""

import math

import pytest

from parallel_by_hand.overheads.pieces_of_work import (
    CONTEXT,
    ThreadWithExitcode,
    cpu_share_of_piece,
    nap_piece,
    share_out_pieces,
)
from sidebyside import Timeline


def test_a_nap_needs_next_to_no_core():
    with Timeline() as timeline:
        for piece in range(5):
            nap_piece(piece)
    lasted = sum(span.duration for span in timeline.spans)
    assert sum(span.cpu for span in timeline.spans) < 0.5 * lasted
    assert 0 <= cpu_share_of_piece(nap_piece) <= 1


def test_every_piece_is_done_once_whatever_the_number_of_workers():
    process, thread = CONTEXT.Process, ThreadWithExitcode
    for workers, kind in (1, process), (3, process), (3, thread):
        with Timeline() as timeline:
            share_out_pieces(nap_piece, 7, workers, kind)
        assert len(timeline.spans) == 7
        assert len(timeline.lanes) == workers
        threads = [str(lane).startswith("thread") for lane in timeline.lanes]
        assert all(threads) if kind is thread else not any(threads)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", [CONTEXT.Process, ThreadWithExitcode])
def test_a_piece_that_raises_ends_the_crew_with_an_error(kind):
    with pytest.raises(RuntimeError, match="a worker failed"):
        share_out_pieces(math.log, 3, 2, kind)  # of 0
