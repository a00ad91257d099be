"""The small language model in parts: what it sends, and what a missing part does."""

import pytest

from parallel_by_hand.tensor_parallel import (
    pixel_model,
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
