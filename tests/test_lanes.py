"""Lanes say who works and who waits, in one colour for each kind of work."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_hex

from sidebyside import draw_timelines
from sidebyside.timeline.figures import (
    CARD,
    COLOURS,
    IDLE,
    PALE,
    colours_of,
    contrast_of_colours,
    ink_colour,
    light_colour,
)
from sidebyside.timeline.lanes import WAIT, Bar, idle_share_of_lane
from sidebyside.timeline.lanes_picture import draw_lanes
from sidebyside.timeline.picture import write_timeline
from sidebyside.timeline.spans import Span


def timeline(*spans: tuple) -> SimpleNamespace:
    """What a Timeline would hold: each span is (name, lane, start, end, cpu)."""
    made = [Span(*span) for span in spans]
    return SimpleNamespace(spans=made, lanes=list(dict.fromkeys(s.lane for s in made)))


def bars(fig) -> list[tuple[str, float, float]]:
    """Colour, start and end of each bar that is drawn, without the idle ones."""
    found = [
        (to_hex(p.get_facecolor()).upper(), p.get_x(), p.get_x() + p.get_width())
        for p in fig.axes[0].patches
    ]
    return [bar for bar in found if bar[0] != IDLE]


def written(fig) -> list[str]:
    return [text.get_text() for text in fig.axes[0].texts]


# Colours


def test_a_kind_of_work_has_one_colour_in_all_figures():
    both = timeline(("compute", "main", 0, 1, 1), ("fetch", "thread", 0, 1, 0))
    other_order = timeline(("fetch 7", "a", 0, 1, 0), ("compute", "b", 2, 3, 1))
    alone = timeline(("fetch", "main", 0, 1, 0))
    compute, fetch = (colour for colour, *_ in bars(draw_timelines({"": both})))
    assert compute != fetch
    assert [c for c, *_ in bars(draw_timelines({"": other_order}))] == [fetch, compute]
    assert [c for c, *_ in bars(draw_timelines({"": alone}))] == [fetch]


def test_forward_and_backward_have_the_same_colours_in_every_lesson():
    remembered = {}
    colours_of(["update", "all-reduce"], remembered)
    chosen = colours_of(["backward", "update", "forward"], remembered)
    assert (chosen["forward"], chosen["backward"]) == (COLOURS[0], COLOURS[1])
    assert remembered["update"] == COLOURS[0], "it came first, and stays"


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_stand_out_from_the_page_and_letters_from_colours(colour):
    assert contrast_of_colours(colour, CARD) >= 4.5, "letters in the colour of a line"
    for face in colour, light_colour(colour), PALE:
        assert contrast_of_colours(ink_colour(face), face) >= 4.5


def test_colour_never_stands_alone():
    fig = draw_timelines({"": timeline(("a", "main", 0, 1, 1), ("b", "main", 1, 2, 1))})
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert {"a", "b"} <= set(written(fig))


# Waiting


def test_waiting_is_not_work():
    work, wait = Bar(0, 4, "work"), Bar(1, 3, WAIT)
    assert idle_share_of_lane([work], 8) == 0.5
    assert idle_share_of_lane([wait], 8) == 1
    assert idle_share_of_lane([work, wait], 8) == 0.75, "waiting inside work"
    assert idle_share_of_lane([Bar(0, 4, "work"), Bar(4, 8, WAIT)], 8) == 0.5
    assert idle_share_of_lane([], 0) == 0


@pytest.mark.parametrize("name", ["wait", "wait for rank 1", "wait 3"])
def test_a_wait_is_pale_and_says_its_name(name):
    fig = draw_timelines({"": timeline((name, "main", 0, 1, 0))})
    assert bars(fig) == [(PALE, 0, 1)]
    assert {name, "idle 100 %"} <= set(written(fig))


def test_no_bar_of_work_contains_waiting():
    waits = timeline(
        ("epoch", "main", 0, 9, 5),
        ("step", "main", 1, 8, 4),
        ("wait", "main", 2, 4, 0),
        ("wait for it", "main", 3, 4, 0),
        ("wait", "main", 5, 8, 0),
    )
    drawn = bars(draw_timelines({"": waits}))
    epoch, step = (
        drawn[0][0],
        next(c for c, *_ in drawn if c not in (drawn[0][0], PALE)),
    )
    assert sorted(b[1:] for b in drawn if b[0] == epoch) == [(0, 2), (4, 5), (8, 9)]
    assert sorted(b[1:] for b in drawn if b[0] == step) == [(1, 2), (4, 5)]


def test_a_message_travels_on_while_its_thread_waits():
    step = timeline(
        ("backward", "main", 0, 4, 2),
        ("all-reduce", "main", 1, 4, None),  # it ended in another thread
        ("wait", "main", 2, 3, 0),
    )
    drawn = [bar[1:] for bar in bars(draw_timelines({"": step}))]
    assert sorted(drawn) == [(0, 2), (1, 4), (2, 3), (3, 4)]


def test_the_text_says_who_waits():
    lanes, _, key = write_timeline(
        timeline(("work", "main", 0, 2, 2), ("wait for x", "main", 1, 2, 0)), 8
    ).splitlines()
    assert lanes == "main |OoooWwww| idle 50 %"
    assert key.endswith("O = work, W = wait (counts as idle)")


# CPU time inside the bars

HALF = ("compute", "main", 0, 2, 1)


def heights(fig) -> list[float]:
    """How high each bar of work is, as a share of its lane's."""
    lane, *others = fig.axes[0].patches
    faces = {light_colour(colour) for colour in COLOURS}
    solid = [p for p in others if to_hex(p.get_facecolor()).upper() not in faces]
    return [round(p.get_height() / lane.get_height(), 3) for p in solid]


def test_a_bar_is_filled_as_high_as_its_share_of_cpu_time():
    full, none = ("compute", "main", 2, 3, 1.1), ("compute", "main", 3, 4, -0.1)
    fig = draw_timelines({"": timeline(HALF, full, none)}, cpu=True)
    assert heights(fig) == [0.5, 1, 0]
    bottoms = {round(p.get_y(), 3) for p in fig.axes[0].patches}
    assert len(bottoms) == 1, "from below"
    assert "idle 0 %, core 50 %" in written(fig)


def test_waiting_is_never_filled_and_does_not_thin_the_work_around_it():
    wait = ("wait", "main", 1, 2, 0.0)
    fig = draw_timelines({"": timeline(HALF, wait)}, cpu=True)
    assert heights(fig) == [1, 1]
    assert "idle 50 %, core 50 %" in written(fig)


def test_unknown_cpu_time_is_striped_and_neither_full_nor_empty():
    message = ("all-reduce", "wire", 0, 2, None)
    fig = draw_timelines({"": timeline(HALF, message)}, cpu=True)
    assert [p.get_hatch() for p in fig.axes[0].patches if p.get_hatch()] == ["////"]
    assert {"idle 0 %, core 50 %", "idle 0 %"} <= set(written(fig))
    assert "striped: unknown" in [t.get_text() for t in fig.legends[0].get_texts()]
    alone = draw_timelines({"": timeline(message)}, cpu=True)
    assert not any(p.get_hatch() for p in alone.axes[0].patches), "nothing to compare"


# Drawings


def test_each_panel_begins_at_its_first_bar_and_has_its_title():
    late = {"main": [Bar(5, 6, "a", ("a long name", "a"))]}
    fig = draw_lanes({"one": late, "two": {"main": [Bar(0, 9, "a")]}}, "s")
    assert [bar[1:] for bar in bars(fig)] == [(0, 1), (0, 9)]
    assert {"one", "two", "a"} <= set(written(fig)), "the label that fits"
    assert "a long name" not in written(fig)


def test_letters_need_no_picture_and_none_of_its_slow_imports():
    code = (
        "import sys; from sidebyside import Timeline, span\n"
        "with Timeline() as timeline, span('work'): pass\n"
        "timeline.text(); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
