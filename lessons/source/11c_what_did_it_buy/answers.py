"""Wrong answers to the exercises of lesson 11c, as people give them."""

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.ddp.sick_traces import PATIENTS
from parallel_by_hand.ddp.step_traces import joined

# 11c-wait -----------------------------------------------------------------------------


@wrong(
    "11c-wait",
    advice="moment at which the first message",
    note="The rule of thumb max(0, messages - backward): nothing leaves at 0.",
)
def wait_by_rule_of_thumb(ready, travel):
    return max(0, sum(travel) - ready[-1])


@wrong(
    "11c-wait",
    advice="is it waited for",
    note="Nothing is hidden: that is lesson 11a.",
)
def wait_for_all(ready, travel):
    return sum(travel)


@wrong(
    "11c-wait",
    advice="messages before the last",
    note="True only if the wire keeps up with backward.",
)
def wait_for_the_last_only(ready, travel):
    return travel[-1]


@wrong(
    "11c-wait",
    advice="one message at a time",
    note="All messages at once, each at full speed.",
)
def wait_side_by_side(ready, travel):
    return max(r + t for r, t in zip(ready, travel, strict=True)) - ready[-1]


@wrong(
    "11c-wait",
    advice="before its own gradient is ready",
    note="Once begun, the wire never rests: too early by its gaps.",
)
def wait_without_gaps(ready, travel):
    return max(0, ready[0] + sum(travel) - ready[-1])


@wrong(
    "11c-wait",
    advice="from which moment on",
    note="When the last message arrives, counted from the start of backward.",
)
def wait_from_the_start(ready, travel):
    arrived = 0
    for leaves, takes in zip(ready, travel, strict=True):
        arrived = max(arrived, leaves) + takes
    return arrived


@right("11c-wait")
def wait_from_the_back(ready, travel):
    """The longest of all chains: from one gradient on, the wire never rests."""
    chains = [ready[i] + sum(travel[i:]) for i in range(len(ready))]
    return max(chains) - ready[-1]


@right("11c-wait")
def wait_by_what_is_left(ready, travel):
    """What the wire still has to carry, at each gradient."""
    left = travel[0]
    for i in range(1, len(ready)):
        left = max(0, left - (ready[i] - ready[i - 1])) + travel[i]
    return left


# 11c-exposed --------------------------------------------------------------------------


def _of(events, kind):
    return sorted((e.start, e.end) for e in events if e.kind == kind)


def _shared(some, others):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


def _total(intervals):
    return sum(end - start for start, end in intervals)


@wrong(
    "11c-exposed",
    advice="while no message travels",
    note="Two totals cannot tell what happened at the same time.",
)
def exposed_difference_of_totals(events):
    messages, work = (joined(_of(events, kind)) for kind in ("message", "compute"))
    return max(0, _total(messages) - _total(work))


@wrong(
    "11c-exposed",
    advice="how often is a moment subtracted",
    note="aten::linear contains aten::addmm: both are subtracted.",
)
def exposed_without_nesting(events):
    messages = joined(_of(events, "message"))
    return _total(messages) - _shared(messages, _of(events, "compute"))


@wrong(
    "11c-exposed",
    advice="travel while something is computed",
    note="The time of all messages, hidden or not.",
)
def exposed_all_messages(events):
    return _total(joined(_of(events, "message")))


@wrong(
    "11c-exposed",
    advice="two messages that travel at the same time",
    note="Each message by itself: what two share is counted twice.",
)
def exposed_by_message(events):
    work = joined(_of(events, "compute"))
    messages = _of(events, "message")
    return _total(messages) - _shared(messages, work)


@wrong(
    "11c-exposed",
    advice="a span only names a part",
    note="Counts the span `backward`, waiting included, as computing.",
)
def exposed_with_spans(events):
    work = joined(sorted(_of(events, "compute") + _of(events, "span")))
    messages = joined(_of(events, "message"))
    return _total(messages) - _shared(messages, work)


@wrong(
    "11c-exposed",
    advice="with a message and without computing",
    note="Computing has gaps: its first start and last end are not all of it.",
)
def exposed_after_the_last_operation(events):
    work = _of(events, "compute")
    end = max((end for _, end in work), default=0)
    return sum(max(0, b - max(a, end)) for a, b in joined(_of(events, "message")))


@wrong(
    "11c-exposed",
    advice="moments with a message",
    note="Sets of whole milliseconds: real events begin and end between them.",
)
def exposed_in_whole_milliseconds(events):
    messages, work = (
        {ms for a, b in _of(events, kind) for ms in range(int(a), int(b))}
        for kind in ("message", "compute")
    )
    return len(messages - work)


@right("11c-exposed")
def exposed_by_intervals(events):
    """Messages without what they share with computing, each joined first."""
    messages, work = (joined(_of(events, kind)) for kind in ("message", "compute"))
    return _total(messages) - _shared(messages, work)


@right("11c-exposed")
def exposed_by_a_sweep(events):
    """Two counters that go up and down along the time axis."""
    open_now, total, before = {"message": 0, "compute": 0, "span": 0}, 0.0, 0.0
    changes = [(e.start, 1, e.kind) for e in events]
    changes += [(e.end, -1, e.kind) for e in events]
    for time, change, kind in sorted(changes):
        if open_now["message"] and not open_now["compute"]:
            total += time - before
        before = time
        open_now[kind] += change
    return total


# 11c-traces ---------------------------------------------------------------------------

WRONG_TRACES = {
    "loader_for_straggler": ({"A": "starving loader"}, "trace A again.*rank 0 wait for",
        "Rank 0 does stand still. But its messages travel: it waits for rank 1."),
    "bucket_for_waits": ({"B": "waits for each message"}, "trace B.*how many messages",
        "In both, nothing is hidden. Count the messages."),
    "waits_for_bucket": ({"C": "one bucket"}, "trace C.*computes while one",
        "There are many messages, so many buckets."),
    "straggler_for_waits": ({"C": "straggler"}, "trace C.*computes while one",
        "Both ranks stop at each message, neither is late."),
    "straggler_for_loader": ({"D": "straggler"}, "trace D.*gap between the steps",
        "Both ranks are late: nobody waits for the other."),
    "another_name": ({"A": "slow network"}, "names to choose from",
        "No message ends before the later rank has joined it."),
}  # fmt: skip


for _name, (_other, _advice, _note) in WRONG_TRACES.items():
    _answer = PATIENTS | _other
    wrong("11c-traces", advice=_advice, note=_note, name=_name)(_answer)

wrong("11c-traces", advice="the form", note="The letters by name.", name="by_name")(
    {illness: letter for letter, illness in PATIENTS.items()}
)
right("11c-traces", name="in_another_order")(dict(reversed(PATIENTS.items())))
right("11c-traces", name="with_capitals")(
    {letter: illness.capitalize() for letter, illness in PATIENTS.items()}
)
