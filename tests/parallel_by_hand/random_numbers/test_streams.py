"""A stream is the child that NumPy gives by the same key."""

import numpy as np

from parallel_by_hand.random_numbers.loader_workers import stream


def test_a_stream_is_the_child_that_spawn_gives():
    for place, child in enumerate(np.random.SeedSequence(2026).spawn(5)):
        assert np.random.default_rng(child).random() == stream(2026, place).random()
        grandchild = child.spawn(3)[2]
        expected = np.random.default_rng(grandchild).random()
        assert stream(2026, place, 2).random() == expected


def test_keys_of_different_length_are_different_streams():
    keys = [(), (0,), (0, 0), (1,), (1, 0), (0, 1)]
    assert len({stream(0, *key).random() for key in keys}) == len(keys)


def test_keys_are_words_of_32_bits():
    assert stream(0, 2**32).random() == stream(0, 0, 1).random()
