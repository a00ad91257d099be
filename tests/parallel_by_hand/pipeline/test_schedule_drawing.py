"""A schedule is drawn in letters as in boxes, and read as it is written."""

from parallel_by_hand.pipeline.schedule_drawing import draw_schedule, schedule_text
from parallel_by_hand.pipeline.schedule_rules import timetable, timetable_length
from parallel_by_hand.pipeline.schedules import gpipe, interleaved, read_schedule


def test_a_schedule_is_read_as_it_is_written():
    for schedule in gpipe(3, 12), interleaved(2, 4):
        lines = "\n".join(" ".join(order) for order in schedule)
        assert read_schedule(f"# mine\n\n{lines}  # end\n") == schedule


def test_the_drawing_in_letters():
    assert schedule_text(timetable(gpipe(2, 2), 1, [1, 2])).splitlines() == [
        "rank 0 | F0 F1 .  .  .  B0 .  B1",
        "rank 1 | .  F0 F1 B0 B0 B1 B1 .",
        "bubble 37.5 %",
    ]


def test_drawings_in_letters_side_by_side_have_one_time_axis():
    thick, thin = timetable(gpipe(2, 2), 2, 2), timetable(interleaved(2, 2))
    assert (timetable_length(thick), timetable_length(thin)) == (12, 10)
    assert draw_schedule({"thick": thick, "thin": thin}).alt.splitlines()[2:7] == [
        "rank 0 | F0  F0  F1  F1  .   .   .   .   B0  B0  B1  B1",
        "rank 1 | .   .   F0  F0  F1  F1  B0  B0  B1  B1  .   .",
        "bubble 33.3 %",
        "thin",
        "rank 0 | 0F0 0F1 2F0 2F1 .   2B0 .   2B1 0B0 0B1",
    ]


def test_the_drawing_says_what_it_shows():
    planned = draw_schedule({"GPipe": timetable(gpipe(2, 2))})
    assert "rank 0 | F0 F1 .  .  B0 B1" in planned.alt
    assert planned._repr_png_().startswith(b"\x89PNG")
    measured = draw_schedule(timetable(gpipe(2, 2)), stamp="measured here")
    assert measured.alt == "schedule, measured here"
