"""Answers to the exercises of lesson 18c that people give, and that are not right."""

import math
import re
from collections import Counter, defaultdict

import numpy as np

from lessons.source.sample_answers import right, wrong

# 18c-hung -----------------------------------------------------------------------------

REDUCED = "dist.all_reduce(loss)\nloss /= ranks"
COUNTED = "dist.all_reduce(total)\nreturn (total[0] / total[1]).item()"
TOTAL = "total = torch.tensor([errors.sum(), len(errors)], dtype=torch.float64)\n"
REPAIRED = {
    "ada": (0, {9: REDUCED, 10: "", 11: ""}),
    "ben": (
        2,
        {
            6: "longest = gradient.norm()\n"
            "dist.all_reduce(longest, op=dist.ReduceOp.MAX)\n"
            "if longest > LIMIT:"
        },
    ),
    "dan": (2, {4: TOTAL + COUNTED, 5: ""}),
}


def _with(**changed) -> dict:
    return REPAIRED | changed


ANOTHER_WAY = {
    "ada": [0, {9: "dist.reduce(loss, dst=0)\nif rank == 0:", 10: ""}],
    "ben": (
        2,
        {
            6: "lengths = [None] * ranks\n"
            "dist.all_gather_object(lengths, gradient.norm().item())\n"
            "if max(lengths) > LIMIT:"
        },
    ),
    "dan": (
        2,
        {
            4: "of_all = [None] * ranks\ndist.all_gather_object(of_all, errors)",
            5: "return torch.cat(of_all).mean()",
        },
    ),
}
THIRD_WAY = {  # the others answer rank 0 later; both collectives in every step
    "ada": (0, {12: "if rank:\n    dist.all_reduce(loss)\nreturn weight, loss"}),
    "ben": (
        np.int64(2),
        {
            6: "clean, wild = gradient.clone(), (gradient.norm() > LIMIT).int()\n"
            "dist.broadcast(clean, src=0)\ndist.all_reduce(wild)\nif wild:",
            7: "gradient = clean",
        },
    ),
    "dan": (
        2,
        {
            3: "count = torch.tensor(len(rows))\ndist.all_reduce(count)\n"
            "errors = (rows - 1).square().sum()",
            5: "return errors / count",
        },
    ),
}
MEAN_DECIDES = (
    "mean = gradient.clone()\ndist.all_reduce(mean)\nif mean.norm() > LIMIT * ranks:"
)
RANK_0_DECIDES = (
    "wild = (gradient.norm() > LIMIT).int()\ndist.broadcast(wild, src=0)\nif wild:"
)
PADDED = (
    "errors = torch.cat([errors, torch.zeros(8 - len(errors))])\n"
    "dist.all_reduce(errors)"
)

wrong(
    "18c-hung",
    advice="some rank does not come to",
    note="A barrier is a collective, too, and not the one that rank 0 waits for.",
    state="HUNG",
    name="barrier_for_the_others",
)(_with(ada=(0, {12: "if rank:\n    dist.barrier()\nreturn weight, loss"})))
wrong("18c-hung", advice="whose losses are in it", name="without_the_report")(
    _with(ada=(0, {9: "", 10: "", 11: ""}))
)
wrong("18c-hung", advice="by what their sum is divided", name="the_sum_of_the_losses")(
    _with(ada=(0, {9: "dist.all_reduce(loss)", 10: "", 11: ""}))
)
wrong("18c-hung", advice="which rank does", name="blames_who_has_finished")(
    _with(ada=(1, REPAIRED["ada"][1]))
)
wrong(
    "18c-hung",
    advice="unexpected indent.*gets the indentation",
    name="if_out_and_the_rest_stays",
)(_with(ada=(0, {9: ""})))
wrong("18c-hung", advice="May this block be empty", name="an_empty_block")(
    _with(ada=(0, {10: "", 11: ""}))
)
wrong("18c-hung", advice="which gradient each step", name="the_mean_decides")(
    _with(ben=(2, {6: MEAN_DECIDES}))
)
wrong("18c-hung", advice="which gradient each step", name="rank_0_decides")(
    _with(ben=(2, {6: RANK_0_DECIDES}))
)
wrong("18c-hung", advice="which gradient each step", name="always_the_mean")(
    _with(ben=(2, {6: "if False:"}))
)
wrong("18c-hung", advice="which gradient each step", name="all_must_be_wild")(
    _with(ben=(2, {6: REPAIRED["ben"][1][6].replace("MAX", "MIN")}))
)
wrong("18c-hung", advice="mean of means", name="mean_of_means")(
    _with(
        dan=(
            2,
            {
                3: "errors = (rows - 1).square().sum(1).mean()",
                5: "return errors.item() / ranks",
            },
        )
    )
)
wrong("18c-hung", advice="the rows of all ranks", name="as_many_as_we_have")(
    _with(
        dan=(
            2,
            {
                3: "errors = (rows - 1).square().sum()",
                5: "return errors.item() / (len(rows) * ranks)",
            },
        )
    )
)
wrong("18c-hung", advice="dan, repaired, in", name="filled_up_with_zeros")(
    _with(dan=(2, {4: PADDED}))
)
wrong("18c-hung", advice="ben, dan to go", name="some_are_left")(
    {"ada": REPAIRED["ada"]}
)
wrong("18c-hung", advice="the form of the answer", name="without_the_rank")(
    _with(ada=REPAIRED["ada"][1])
)
wrong("18c-hung", advice="2 to 5", name="a_line_that_is_none")(
    _with(dan=(2, {6: "pass"}))
)
wrong("18c-hung", advice="the form of the answer", name="not_a_dictionary")(
    ["ada", 0, 9]
)
wrong("18c-hung", advice="each is a text", name="a_number_for_a_line")(
    _with(dan=(2, {4: 0}))
)
wrong("18c-hung", advice="names of the patients", name="another_patient")(
    _with(eve=(1, {4: "pass"}))
)

# 18c-silent ---------------------------------------------------------------------------

FEWEST = (
    "fewest = torch.tensor(len(batches))\n"
    "dist.all_reduce(fewest, op=dist.ReduceOp.{})\n"
)
LOOP = "for x in batches[:fewest]:"
CURED = {
    "cleo": (1, {2: "largest_first = sorted(gradients)"}),
    "eve": (1, {4: FEWEST.format("MIN") + LOOP}),
    "finn": (2, {4: "while len(received) < 8 * len(numbers):"}),
}


def _cured(**changed) -> dict:
    return CURED | changed


ANOTHER_CURE = {
    "cleo": (1, {2: "", 3: "for name in reversed(gradients):"}),
    "eve": (
        1,
        {
            4: "counts = [None] * ranks\ndist.all_gather_object(counts, len(batches))\n"
            "for step in range(min(counts)):\n    x = batches[step]"
        },
    ),
    "finn": (2, {4: "for _ in numbers:", 5: "received += os.read(server, 8)"}),
}
THIRD_CURE = {
    "cleo": (
        1,
        {
            2: "flat = torch.stack(list(gradients.values()))\ndist.all_reduce(flat)",
            3: "for gradient, sums in zip(gradients.values(), flat):",
            4: "gradient.copy_(sums)",
        },
    ),
    "eve": (
        1,
        {
            4: "for step in range(10**6):\n"
            "    left = torch.tensor(int(step < len(batches)))\n"
            "    dist.all_reduce(left)\n    if left < ranks:\n        break\n"
            "    x = batches[step]"
        },
    ),
    "finn": (
        2,
        {
            4: "while missing := 8 * len(numbers) - len(received):",
            5: "received += os.read(server, missing)",
        },
    ),
}

wrong("18c-silent", advice="is the order the same on all ranks", name="smallest_first")(
    _cured(
        cleo=(
            1,
            {
                2: "largest_first = sorted(gradients, key=lambda name: "
                "gradients[name].norm())"
            },
        )
    )
)
wrong(
    "18c-silent",
    advice="is the order the same on all ranks",
    note="The order of a set of texts depends on their hashes, which differ from "
    "process to process.",
    name="in_a_set",
)(_cured(cleo=(1, {2: "largest_first = set(gradients)"})))
wrong(
    "18c-silent",
    advice="is the order the same on all ranks",
    note="All do the same wrong thing, one after the other.",
    name="with_a_barrier",
)(_cured(cleo=(1, {4: "dist.barrier()\ndist.all_reduce(gradients[name])"})))
wrong("18c-silent", advice="whose numbers are in this sum", name="the_mean")(
    _cured(
        cleo=(
            1,
            {
                3: "for name in gradients:",
                4: "dist.all_reduce(gradients[name])\n"
                "gradients[name] /= dist.get_world_size()",
            },
        )
    )
)
wrong("18c-silent", advice="cleo, repaired", name="two_by_name")(
    _cured(cleo=(1, {2: 'largest_first = ["weight", "bias"]'}))
)
wrong("18c-silent", advice="in which order each rank", name="blames_rank_0")(
    _cured(cleo=(0, CURED["cleo"][1]))
)
wrong("18c-silent", advice="", state="HUNG", name="three_batches")(
    _cured(eve=(1, {4: "for x in batches[:3]:"}))
)
wrong(
    "18c-silent",
    advice="not in the same order",
    state="HUNG",
    name="the_largest_number",
)(_cured(eve=(1, {4: FEWEST.format("MAX") + LOOP})))
wrong("18c-silent", advice="which batches are used", name="without_the_first")(
    _cured(eve=(1, {4: FEWEST.format("MIN") + "for x in batches[1:fewest]:"}))
)
wrong("18c-silent", advice="which batches are used", name="the_last_ones")(
    _cured(
        eve=(
            1,
            {4: FEWEST.format("MIN") + "for x in batches[len(batches) - fewest:]:"},
        )
    )
)
wrong("18c-silent", advice="which batches are used", name="no_collective_in_the_loop")(
    _cured(eve=(1, {6: ""}))
)
wrong("18c-silent", advice="which numbers are in the sum", name="a_single_read")(
    _cured(finn=(2, {4: "if not received:"}))
)
wrong(
    "18c-silent",
    advice="which numbers are in the sum",
    note="With our pipe it gets everything. A network need not send all at once.",
    name="one_large_read",
)(_cured(finn=(2, {4: "if True:", 5: "received = os.read(server, 10**6)"})))
wrong("18c-silent", advice="which numbers are in the sum", name="forgets_the_eight")(
    _cured(finn=(2, {4: "while len(received) < len(numbers):"}))
)
wrong(
    "18c-silent",
    advice="all of them come from the server",
    name="leaves_the_server_alone",
)(_cured(finn=(2, {4: "if True:", 5: "pass", 6: "total = numbers.sum()"})))
wrong(
    "18c-silent",
    advice="which numbers are in the sum",
    note="Right as long as no read returns less than was asked for.",
    name="a_read_for_each_two_numbers",
)(_cured(finn=(2, {4: "for _ in range(0, 8 * len(numbers), 16):"})))
wrong("18c-silent", advice="which numbers are in the sum", name="only_if_it_is_full")(
    _cured(
        finn=(
            2,
            {
                4: "while len(received) < 8 * NUMBERS "
                "and len(received) < 8 * len(numbers):"
            },
        )
    )
)
wrong("18c-silent", advice="cleo, eve to go", name="some_are_left")(
    {"finn": CURED["finn"]}
)

# 18c-straggler ------------------------------------------------------------------------


def _kind(name: str) -> str:
    return re.sub(r"\s*\d+$", "", name)


def _seconds(spans) -> dict:
    seconds = defaultdict(float)
    for span in spans:
        seconds[span.lane, _kind(span.name)] += span.end - span.start
    return seconds


def _answer(spans, slow, excess) -> tuple:
    kinds = {_kind(span.name) for span in spans} - {"wait"}
    return slow, max(kinds, key=excess)


def _beyond_mean(seconds: dict, slow: str):
    lanes = {lane for lane, _ in seconds} - {slow}

    def excess(kind: str) -> float:
        others = sum(seconds.get((lane, kind), 0.0) for lane in lanes)
        return seconds.get((slow, kind), 0.0) - others / len(lanes)

    return excess


def _slowest(seconds: dict) -> str:
    return min({lane for lane, _ in seconds}, key=lambda n: seconds.get((n, "wait"), 0))


@wrong("18c-straggler", advice="without the number")
def names_without_digits(spans):
    names = [re.sub(r"\d+", "", span.name).strip() for span in spans]
    pairs = zip(spans, names, strict=True)
    return right_straggler([span._replace(name=name) for span, name in pairs])


def right_straggler(spans):
    seconds = dict(_seconds(spans))
    return _answer(spans, _slowest(seconds), _beyond_mean(seconds, _slowest(seconds)))


@wrong("18c-straggler", advice="in all .* together")
def by_averages(spans):
    seconds, number = dict(_seconds(spans)), Counter()
    for span in spans:
        number[span.lane, _kind(span.name)] += 1
    each = {key: total / number[key] for key, total in seconds.items()}
    return _answer(spans, _slowest(each), _beyond_mean(each, _slowest(each)))


@wrong("18c-straggler", advice="the mean of the others")
def beyond_the_median(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    others = {lane for lane, _ in seconds} - {slow}

    def excess(kind):
        usual = np.median([seconds.get((lane, kind), 0.0) for lane in others])
        return seconds.get((slow, kind), 0.0) - usual

    return _answer(spans, slow, excess)


@wrong("18c-straggler", advice="longer than the mean")
def as_a_multiple_of_the_mean(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    others = {lane for lane, _ in seconds} - {slow}

    def times(kind):
        own = seconds.get((slow, kind), 0.0)
        mean = sum(seconds.get((lane, kind), 0.0) for lane in others) / len(others)
        return own / mean if mean else own * math.inf if own else 0.0

    return _answer(spans, slow, times)


@wrong(
    "18c-straggler",
    advice="who waits least",
    note="Everybody else waits for the straggler.",
)
def who_waits_most(spans):
    seconds = dict(_seconds(spans))
    slow = max({n for n, _ in seconds}, key=lambda n: seconds.get((n, "wait"), 0))
    return _answer(spans, slow, _beyond_mean(seconds, slow))


@wrong("18c-straggler", advice="clocks of different lanes")
def who_ends_last(spans):
    seconds, slow = dict(_seconds(spans)), max(spans, key=lambda span: span.end).lane
    return _answer(spans, slow, _beyond_mean(seconds, slow))


@wrong("18c-straggler", advice="not what takes longest")
def what_takes_longest(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    return _answer(spans, slow, lambda kind: seconds.get((slow, kind), 0.0))


@wrong("18c-straggler", advice="A lane without a wait counts")
def of_those_that_wait(spans):
    seconds = dict(_seconds(spans))
    waits = {lane: time for (lane, kind), time in seconds.items() if kind == "wait"}
    slow = min(waits, key=waits.get)
    return _answer(spans, slow, _beyond_mean(seconds, slow))


@wrong("18c-straggler", advice="the mean of the others")
def beyond_the_best(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    lanes = {lane for lane, _ in seconds} - {slow}

    def excess(kind):
        return seconds.get((slow, kind), 0) - min(
            seconds.get((n, kind), 0) for n in lanes
        )

    return _answer(spans, slow, excess)


@wrong("18c-straggler", advice="the mean of the others")
def beyond_the_worst(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    lanes = {lane for lane, _ in seconds} - {slow}

    def excess(kind):
        return seconds.get((slow, kind), 0) - max(
            seconds.get((n, kind), 0) for n in lanes
        )

    return _answer(spans, slow, excess)


@wrong("18c-straggler", advice="0 for each lane that lacks a kind")
def of_those_that_have_the_kind(spans):
    seconds = dict(_seconds(spans))
    slow = _slowest(seconds)
    lanes = {lane for lane, _ in seconds} - {slow}

    def excess(kind):
        others = [seconds[lane, kind] for lane in lanes if (lane, kind) in seconds]
        return seconds.get((slow, kind), 0) - sum(others) / max(len(others), 1)

    return _answer(spans, slow, excess)


@wrong(
    "18c-straggler",
    advice="is another kind",
    note="Who waits for data is late; the others then wait in the all-reduce.",
)
def whatever_begins_with_wait(spans):
    named = [
        span._replace(name="wait") if span.name.startswith("wait") else span
        for span in spans
    ]
    return by_counters(named)


@wrong("18c-straggler", advice="in all .* together")
def the_last_span_alone(spans):
    seconds = {(span.lane, _kind(span.name)): span.end - span.start for span in spans}
    slow = _slowest(seconds)
    return _answer(spans, slow, _beyond_mean(seconds, slow))


@wrong("18c-straggler", advice="without the number")
def name_with_its_number(spans):
    slow, kind = by_counters(spans)
    return slow, next(s.name for s in spans if s.lane == slow and _kind(s.name) == kind)


@wrong("18c-straggler", advice="a name without the number at its end")
def first_word_only(spans):
    slow, kind = by_counters(spans)
    return slow, kind.split()[0]


@wrong("18c-straggler", advice=r"a pair \(lane, kind\)")
def the_lane_alone(spans):
    return _slowest(dict(_seconds(spans)))


@wrong("18c-straggler", advice="in all its waits together")
def shortest_single_wait(spans):
    seconds = dict(_seconds(spans))
    waits = [span for span in spans if _kind(span.name) == "wait"]
    slow = min(waits, key=lambda span: span.end - span.start).lane
    return _answer(spans, slow, _beyond_mean(seconds, slow))


@wrong("18c-straggler", advice="who else uses")
def sorts_the_list(spans):
    spans.sort(key=lambda span: span.name)
    return by_counters(spans)


@wrong("18c-straggler", advice="without return")
def prints_it(spans):
    print(*by_counters(spans))


@right("18c-straggler")
def by_counters(spans):
    """A Counter of seconds for each lane."""
    lanes = defaultdict(Counter)
    for span in spans:
        lanes[span.lane][_kind(span.name)] += span.end - span.start
    slow = min(lanes, key=lambda lane: lanes[lane]["wait"])
    rest = [counter for lane, counter in lanes.items() if lane != slow]
    kinds = {kind for counter in lanes.values() for kind in counter} - {"wait"}
    return slow, max(
        kinds, key=lambda k: lanes[slow][k] - sum(c[k] for c in rest) / len(rest)
    )


@right("18c-straggler")
def with_a_table(spans):
    """Lanes are rows and kinds columns; against the mean of all, in proportion."""
    lanes = sorted({span.lane for span in spans})
    kinds = sorted(
        {span.name.rstrip("0123456789").rstrip() for span in spans} | {"wait"}
    )
    table = np.zeros((len(lanes), len(kinds)))
    for span in spans:
        kind = span.name.rstrip("0123456789").rstrip()
        table[lanes.index(span.lane), kinds.index(kind)] += span.end - span.start
    waits = kinds.index("wait")
    slow = table[:, waits].argmin()
    excess = table[slow] - table.mean(0)  # (N - 1) / N of that beyond the others
    excess[waits] = -np.inf
    return [lanes[slow], kinds[excess.argmax()]]


right("18c-hung", name="another_order")(REPAIRED)
right("18c-hung", name="another_way")(ANOTHER_WAY)
right("18c-hung", name="a_third_way")(THIRD_WAY)
right("18c-silent", name="sorted_names")(CURED)
right("18c-silent", name="another_cure")(ANOTHER_CURE)
right("18c-silent", name="a_third_cure")(THIRD_CURE)
