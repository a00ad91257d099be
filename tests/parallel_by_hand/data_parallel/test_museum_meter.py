"""A repair takes the place of its line, with its indentation."""

import pytest

from parallel_by_hand.data_parallel import museum_meter


def test_a_repair_takes_the_place_of_its_line():
    code = museum_meter.repaired_exhibit("B", {9: "one\ntwo", 11: ""})
    lines = code.splitlines()
    assert lines[8:11] == ["            one", "            two", "        sgd.step()"]
    assert "zero_grad" not in code
    indented = museum_meter.repaired_exhibit("B", {9: "one\n            two"})
    assert indented.splitlines()[8:10] == lines[8:10]
    with pytest.raises(ValueError, match="lines 1 to 12"):
        museum_meter.repaired_exhibit("B", {13: "pass"})
