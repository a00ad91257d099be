"""A number is a number, whoever made it; a text or a truth value is none."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from sidebyside.exercises.any_number import as_number

HALVES = 0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.array(0.5)


@pytest.mark.parametrize("half", [*HALVES, torch.tensor(0.5)], ids=repr)
def test_numbers_of_any_kind_are_numbers(half):
    assert as_number(half) == 0.5


@pytest.mark.parametrize("value", [None, "1", True, torch.tensor(True), [1]], ids=repr)
def test_other_things_are_not(value):
    assert as_number(value) is None
