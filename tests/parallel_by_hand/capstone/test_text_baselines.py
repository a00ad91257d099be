"""Tables of counts are chances, and are asked for the same characters."""

import pytest
import torch

from parallel_by_hand.capstone.text_baselines import (
    bits_of_counts,
    next_character_table,
    numbered_contexts,
)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("length", [0, 2, 500])
def test_the_chances_after_each_context_add_up_to_one(order, length):
    dice = torch.Generator().manual_seed(length)
    text = torch.randint(4, (length,), generator=dice)
    table = next_character_table(text, 5, order)
    assert table.shape == (5 ** max(0, order - 1), 5)
    assert (table > 0).all()
    torch.testing.assert_close(table.sum(1), torch.ones(len(table)).double())


def test_the_table_is_what_counting_by_hand_gives():
    text = torch.tensor([0, 0, 1, 0])  # a a b a
    singles = (torch.tensor([3.0, 1.0]) + 2 * 0.5) / (4 + 2)
    torch.testing.assert_close(
        next_character_table(text, 2, 1, 2.0)[0].float(), singles
    )
    after_a = (torch.tensor([1.0, 1.0]) + 2 * singles) / (2 + 2)
    torch.testing.assert_close(
        next_character_table(text, 2, 2, 2.0)[0].float(), after_a
    )


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_every_order_is_asked_for_the_same_characters(order):
    text, held_out = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([0, 1, 2, 0, 1])
    table = next_character_table(text, 3, order)
    chances = []
    for place in range(3, 5):
        context = held_out[place - max(0, order - 1) : place]
        row = numbered_contexts(context, 3, len(context))[0] if order > 1 else 0
        chances.append(table[row, held_out[place]])
    expected = -torch.stack(chances).log2().mean().item()
    assert bits_of_counts(text, held_out, 3, order) == pytest.approx(expected)
