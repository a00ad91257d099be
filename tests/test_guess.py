"""A guess is kept and set beside the measurement; without one everything works too."""

import numpy
import pytest
import torch

from sidebyside import guess, reveal
from sidebyside.course.record import read_record


def said(capsys) -> str:
    return capsys.readouterr().out


def test_the_guess_stands_beside_the_measurement(capsys):
    guess("03-threads", 2, "How many times faster?", "×")
    assert said(capsys) == "How many times faster?\nyour guess: 2 ×\n"
    reveal("03-threads", 1.0234)
    assert said(capsys) == "you guessed 2 ×, measured 1.02 ×: off by a factor 2\n"


def test_without_a_guess_only_the_measurement_is_shown(capsys):
    guess("03-threads", 2)  # and taken back
    said(capsys)
    guess("03-threads", None, "How many times faster?", "×")
    assert "no guess yet" in said(capsys)
    reveal("03-threads", 1.0234)
    assert said(capsys) == "no guess, measured 1.02 ×\n"
    reveal("never asked", 12, "bytes")
    assert said(capsys) == "no guess, measured 12 bytes\n"


def test_the_measurement_is_kept_beside_the_guess_until_the_next_guess():
    guess("03-threads", 2, "How many times faster?", "×")
    reveal("03-threads", numpy.float32(1.5))
    reveal("15-slots", 5, "slots", computed=True)
    kept = read_record()["guesses"]
    asked = {"value": 2, "question": "How many times faster?", "unit": "×"}
    of = {"computed": False, "simulated": False}
    assert kept["03-threads"] == asked | of | {"measured": 1.5}
    assert kept["15-slots"] == of | {"measured": 5, "computed": True, "unit": "slots"}
    guess("03-threads", 3, "How many times faster?", "×")
    assert "measured" not in read_record()["guesses"]["03-threads"]


def test_what_is_computed_is_not_called_measured(capsys):
    guess("15-slots", 6, unit="slots")
    said(capsys)
    reveal("15-slots", 5, computed=True)
    expected = "you guessed 6 slots, the answer is 5 slots: off by a factor 1.2\n"
    assert said(capsys) == expected
    reveal("never asked", 12, "bytes", computed=True)
    assert said(capsys) == "no guess, the answer is 12 bytes\n"
    reveal("of naps", 12, "s", simulated=True)
    assert said(capsys) == "no guess, simulated 12 s\n"


@pytest.mark.parametrize(
    ("guessed", "measured", "words"),
    [
        (6, 6, "exactly right"),
        (10, 10.9, "within 10 %"),
        (1, 1.9, "off by a factor 1.9"),
        (0, 3, "off by 3"),
    ],
)
def test_the_distance_is_put_into_words(guessed, measured, words, capsys):
    guess("00-distance", guessed)
    said(capsys)
    reveal("00-distance", measured)
    assert said(capsys).strip().endswith(f": {words}")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (2, "2"),
        (123456789, "123,456,789"),
        (0.012345, "0.0123"),
        (torch.tensor(2.5), "2.5"),
    ],
)
def test_any_kind_of_number_is_shown_in_few_digits(number, shown, capsys):
    reveal("00-number", number, "s")
    assert said(capsys) == f"no guess, measured {shown} s\n"


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        ((1, 8), "1.8"),
        (("1,8",), "1.8"),
        ((0, 125), "0.125"),
        (("-0,5",), "-0.5"),
        (("1e6",), "1,000,000"),
    ],
)
def test_a_number_is_understood_however_it_is_written(written, understood, capsys):
    guess("03-threads", *written, unit="s")
    assert said(capsys) == f"your guess: {understood} s\n"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (("two",), "'two'"),
        (("1,800",), "'1,800'"),
        ((1, 800), "1,800"),
        ((1, 0), "1,0"),  # 1,000 as Python reads it
        ((True,), "True"),
    ],
)
def test_who_guesses_no_number_is_told_what_to_write(written, shown, capsys):
    told = f"write a number in place of {shown}, such as 2 or 1.8, and thousands"
    with pytest.raises(ValueError, match=told) as raised:
        guess("03-threads", *written, "How many times faster?", "×")
    assert len(raised.value._render_traceback_()) == 1, "a notebook shows no frame"
    assert said(capsys) == ""
    assert read_record()["guesses"] == {}
