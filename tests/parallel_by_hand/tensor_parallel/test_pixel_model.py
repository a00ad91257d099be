"""The small language model in parts: what it sends, and what a missing part does."""

from unittest import mock

import pytest
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel import (
    pixel_model,
    split_block,
    vocabulary,
)
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, run_ranks


def numbers_sent_by_model(way: str) -> float:
    """Runs in each rank: what one step's forward and backward send, in numbers."""
    split = pixel_model.SplitPixelModel(pixel_model.PixelModel(), way)
    tokens, labels = pixel_model.pixel_batches(16, 1)[0]
    with messages_of_ours(), MessageMeter() as meter:
        split(tokens, labels).backward()
    return meter.bytes_sent / 4


@pytest.mark.parametrize(
    "way, block, words", [("tensor", 8, 4), ("sequence", 8, 4), ("gather twice", 10, 5)]
)
def test_the_model_sends_what_the_scorecard_says(way, block, words):
    s, h = 16 * 32, 32
    sent = run_ranks(numbers_sent_by_model, way, world_size=4)
    assert set(sent) == {3 / 4 * ((block + words) * s * h + 6 * s)}


def train_with_fault(fault: str) -> float:
    """Runs in each rank: the gap after two steps, with one thing left out."""
    plain = split_block.ENDS["tensor"]
    faults = {
        "no sum of norms": mock.patch.object(
            pixel_model, "sum_whole_parameters", lambda model: None
        ),
        "own maximum": mock.patch.object(
            vocabulary, "maximum_over_ranks", lambda logits: logits.detach().amax(-1)
        ),
        "no copy": mock.patch.dict(
            split_block.ENDS, {"tensor": plain._replace(enter=F.linear)}
        ),
    }
    with faults[fault]:
        way = "sequence" if fault == "no sum of norms" else "tensor"
        gaps, _ = pixel_model.train_beside_whole(way, steps=2)
    return gaps[-1]


@pytest.mark.everything
@pytest.mark.parametrize("fault", ["no sum of norms", "own maximum", "no copy"])
def test_what_is_left_out_is_seen_at_once(fault):
    assert max(run_ranks(train_with_fault, fault)) > 1e-4


def words_of_ranks() -> int:
    return len(
        pixel_model.SplitPixelModel(pixel_model.PixelModel(), "tensor").words.table
    )


def test_the_words_of_the_model_are_not_shared_evenly():
    assert run_ranks(words_of_ranks, world_size=4) == [5, 4, 4, 4]
