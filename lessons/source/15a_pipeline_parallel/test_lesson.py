"""Lesson 15a: the bubble has the size of its formula, in both schedules."""

import pytest

from parallel_by_hand.pipeline.schedule_rules import bubble, timetable, timetable_length
from parallel_by_hand.pipeline.schedules import gpipe, one_f_one_b


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
@pytest.mark.parametrize("backward", [1, 2, 0.5])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)])
def test_the_bubble_has_the_textbook_size(make, backward, p, m):
    slots = timetable(make(p, m), 1, backward)
    assert bubble(slots) == pytest.approx((p - 1) / (m + p - 1))
    assert timetable_length(slots) == pytest.approx((1 + backward) * (m + p - 1))
