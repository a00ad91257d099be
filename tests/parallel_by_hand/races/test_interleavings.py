"""The game plays every order once, and refuses one that no program could take."""

from itertools import product
from math import comb

import pytest

from parallel_by_hand.races.interleavings import (
    LOCKED,
    UPDATE,
    every_interleaving,
    play,
)


@pytest.mark.parametrize("updates", [1, 2])
def test_every_order_is_tried_once(updates):
    program = UPDATE * updates
    orders = [order for order, _ in every_interleaving(program, program)]
    steps = len(program)
    letters = {
        "".join(order)
        for order in product("AB", repeat=2 * steps)
        if order.count("A") == steps
    }
    assert len(orders) == comb(2 * steps, steps)
    assert set(orders) == letters
    for order, ending in every_interleaving(program, program):
        assert play(order, program, program) == ending


def test_a_thread_that_cannot_move_is_refused():
    with pytest.raises(ValueError, match=r"A cannot move at place 3 .* has done all"):
        play("AAAA", UPDATE, UPDATE)
    with pytest.raises(ValueError, match=r"B cannot move at place 1 .* to take lock"):
        play("AB", LOCKED, LOCKED)
