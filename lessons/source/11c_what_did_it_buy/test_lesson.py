"""Lesson 11c: what two ranks buy, what a trace shows, and the cases done by hand.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here;
that a call is not its message is held in tests/parallel_by_hand/ddp.
"""

from lessons.props.what_did_it_buy import draw_scaling
from parallel_by_hand.ddp import step_speed
from parallel_by_hand.ddp.step_traces import TraceEvent, exposed


def test_the_traces_done_by_hand_have_9_milliseconds_exposed():
    compute, messages = [(0, 10), (2, 4), (16, 17)], [(8, 14), (12, 20)]
    events = [TraceEvent("compute", "aten::mm", 1, *c) for c in compute]
    events += [TraceEvent("message", "gloo:all_reduce", 2, *m) for m in messages]
    assert exposed(events) == 9


def test_the_picture_shows_every_way_beside_the_capacity():
    speeds = {way: [100.0, 120.0, 90.0] for way in step_speed.WAYS}
    picture = draw_scaling({"one": speeds, "other": speeds}, capacity=1.8)
    for ax in picture.axes:
        ends = [tuple(line.get_ydata()) for line in ax.lines]
        assert ends == [(100, 100)] * 3 + [(100, 180)]
