"""Held-out bits and written text follow from the model and the seed."""

import math

import pytest
import torch

from parallel_by_hand.capstone.language_model import make_language_model, text_loss
from parallel_by_hand.capstone.text_baselines import next_character_table
from parallel_by_hand.capstone.text_batches import text_alphabet, text_tokens
from parallel_by_hand.capstone.text_state import TEXT_MODEL
from parallel_by_hand.capstone.written_text import (
    BEGINNING,
    held_out_bits,
    write_from_counts,
    write_text,
)

WORDS = len(text_alphabet())


def test_held_out_bits_are_the_mean_over_all_characters_of_the_excerpts():
    model, tokens = make_language_model(TEXT_MODEL), text_tokens("test")[:1000]
    nats = [
        text_loss(model(tokens[None, i : i + 32]), tokens[None, i + 1 : i + 33]).item()
        for i in range(0, 31 * 32, 32)
    ]
    expected = sum(nats) / len(nats) / math.log(2)
    assert held_out_bits(model, 32, tokens) == pytest.approx(expected, rel=1e-5)


def test_text_goes_on_from_its_beginning_and_follows_from_the_seed():
    model = make_language_model(TEXT_MODEL)
    table = next_character_table(text_tokens("train"), WORDS, 3)
    for written in (
        lambda seed: write_text(model, 32, 20, seed=seed),
        lambda seed: write_from_counts(table, 20, seed=seed),
    ):
        first = written(1)
        assert first.startswith(BEGINNING)
        assert len(first) == len(BEGINNING) + 20
        assert first == written(1) != written(2)


def test_at_a_low_temperature_the_likeliest_character_is_written():
    model = make_language_model(TEXT_MODEL)
    cold = write_text(model, 32, 5, temperature=0.001, seed=1)
    assert cold == write_text(model, 32, 5, temperature=0.001, seed=2)
    tokens = torch.tensor([text_alphabet().index(c) for c in BEGINNING])
    likeliest = model(tokens[None])[-1].argmax().item()
    assert cold[len(BEGINNING)] == text_alphabet()[likeliest]
