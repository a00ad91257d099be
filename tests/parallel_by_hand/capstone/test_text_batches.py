"""The text is the one whose source is named, and tokens and batches follow from it."""

import hashlib
import math

import pytest
import torch

from parallel_by_hand.capstone.language_model import make_language_model, text_loss
from parallel_by_hand.capstone.text_batches import (
    decode_text,
    encode_text,
    text_alphabet,
    text_batch,
    text_batches,
    text_tokens,
)
from sidebyside import load_moby_dick
from sidebyside.course.record import ROOT

SHA_256 = "f436a622e4aa3c6681bb6b263d968fa073b8cf612898b3a36bc1407e7e9cc540"


def test_the_text_is_the_one_whose_source_is_named():
    text = load_moby_dick()
    assert hashlib.sha256(text.encode()).hexdigest() == SHA_256
    note = (ROOT / "resources/data/moby_dick.LICENSE.txt").read_text(encoding="utf-8")
    assert SHA_256 in note and "public domain" in note and "CC0" in note
    assert len(text) == 405_090 and len(text_alphabet()) == 80
    assert "stdlib" not in text and "Gutenberg" not in text


def test_nobody_trains_on_what_is_held_out():
    train_part, held_out = load_moby_dick("train"), load_moby_dick("test")
    assert train_part + held_out == load_moby_dick()
    assert held_out.startswith("CHAPTER 41.") and 0.1 < len(held_out) / 405_090 < 0.12
    with pytest.raises(ValueError, match="one of all, train, test"):
        load_moby_dick("whale")


def test_tokens_are_characters_and_targets_follow_their_inputs():
    text = load_moby_dick("train")
    assert decode_text(encode_text(text[:500])) == text[:500]
    assert len(text_tokens("train")) == len(text)
    inputs, targets = text_batch(step=3, seed=1)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert all(decode_text(row) in text for row in inputs)


def test_a_batch_depends_on_the_seed_and_on_its_number_only():
    third = list(zip(range(4), text_batches(seed=7), strict=False))[3][1]
    again = next(text_batches(seed=7, first=3))
    assert all(torch.equal(a, b) for a, b in zip(third, again, strict=True))
    other = text_batch(3, seed=8)
    assert not torch.equal(third[0], other[0])


def test_the_untrained_model_guesses_and_each_position_sees_only_what_is_before():
    model = make_language_model(dtype=torch.float64)
    inputs, targets = text_batch(0)
    loss = text_loss(model(inputs), targets).item()
    assert abs(loss - math.log(80)) < 0.4
    changed = inputs.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 80
    gap = (model(changed) - model(inputs)).detach().view(8, 16, 80).abs().amax((0, 2))
    assert not gap[:9].any() and gap[9:].min() > 0
