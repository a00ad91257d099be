"""Answers to the exercises of lesson 18c that people give, and that are not right."""

import re
from collections import Counter, defaultdict
from statistics import mean

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
right("18c-hung", name="another_order")(REPAIRED)


def _with(**changed) -> dict:
    return REPAIRED | changed


right("18c-hung", name="another_way")(
    {
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
)
MEAN_DECIDES = (
    "mean = gradient.clone()\ndist.all_reduce(mean)\nif mean.norm() > LIMIT * ranks:"
)

wrong(
    "18c-hung",
    advice="which rank does",
    name="blames_who_has_finished",
    note="They blame a rank that has left, not the one that does what no other does.",
)(_with(ada=(1, REPAIRED["ada"][1])))
wrong(
    "18c-hung",
    advice="mean of means",
    name="mean_of_means",
    note="They average the ranks' means though ranks have different numbers of rows.",
)(
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
wrong(
    "18c-hung",
    advice=r"with \[3, 3, 3\] batches.*some rank does not come to",
    state="HUNG",
    name="barrier_for_the_others",
    note="A barrier is a collective, too, and not the one that rank 0 waits for.",
)(_with(ada=(0, {12: "if rank:\n    dist.barrier()\nreturn weight, loss"})))
wrong(
    "18c-hung",
    advice="whose losses are in it",
    name="without_the_report",
    note="They cure the hang by leaving the loss of the other ranks out.",
)(_with(ada=(0, {9: "", 10: "", 11: ""})))
wrong(
    "18c-hung",
    advice="unexpected indent.*gets the indentation",
    name="if_out_and_the_rest_stays",
    note="They take the `if` out and leave its lines indented.",
)(_with(ada=(0, {9: ""})))
wrong(
    "18c-hung",
    advice="which gradient each step",
    name="the_mean_decides",
    note="They let the mean gradient decide, whose length is that of no rank.",
)(_with(ben=(2, {6: MEAN_DECIDES})))


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
right("18c-silent", name="sorted_names")(CURED)


def _cured(**changed) -> dict:
    return CURED | changed


right("18c-silent", name="another_cure")(
    {
        "cleo": (1, {2: "", 3: "for name in reversed(gradients):"}),
        "eve": (
            1,
            {
                4: "counts = [None] * ranks\n"
                "dist.all_gather_object(counts, len(batches))\n"
                "for step in range(min(counts)):\n    x = batches[step]"
            },
        ),
        "finn": (2, {4: "for _ in numbers:", 5: "received += os.read(server, 8)"}),
    }
)

wrong(
    "18c-silent",
    advice="which numbers are in the sum",
    name="forgets_the_eight",
    note="They compare bytes with numbers.",
)(_cured(finn=(2, {4: "while len(received) < len(numbers):"})))
wrong(
    "18c-silent",
    advice="is the order the same on all ranks",
    name="smallest_first",
    note="They sort the other way round, still by each rank's own numbers.",
)(
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
    name="in_a_set",
    note="The order of a set of texts depends on their hashes, which differ from "
    "process to process.",
)(_cured(cleo=(1, {2: "largest_first = set(gradients)"})))
wrong(
    "18c-silent",
    advice="whose numbers are in this sum",
    name="the_mean",
    note="They average, as in training, where sums are asked for.",
)(
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
wrong(
    "18c-silent",
    advice="not in the same order",
    state="HUNG",
    name="the_largest_number",
    note="They let all go on to the largest number of batches, which the others do "
    "not have.",
)(_cured(eve=(1, {4: FEWEST.format("MAX") + LOOP})))
wrong(
    "18c-silent",
    advice="which batches are used",
    name="no_collective_in_the_loop",
    note="They leave the all-reduce out: nothing hangs, and nobody learns from the "
    "others.",
)(_cured(eve=(1, {6: ""})))

# 18c-straggler ------------------------------------------------------------------------


def _kind(name: str) -> str:
    return re.sub(r"\s*\d+$", "", name)


def _seconds(spans) -> dict:
    seconds = defaultdict(float)
    for span in spans:
        seconds[span.lane, _kind(span.name)] += span.end - span.start
    return seconds


def _by_waits(seconds, of=min) -> str:
    return of({lane for lane, _ in seconds}, key=lambda lane: seconds[lane, "wait"])


def _answer(seconds, slow, usual=mean) -> tuple:
    """The lane, and its kind that most exceeds what is usual among the others."""
    others = {lane for lane, _ in seconds} - {slow}
    kinds = {kind for _, kind in seconds} - {"wait"}

    def excess(kind: str) -> float:
        return seconds[slow, kind] - usual([seconds[lane, kind] for lane in others])

    return slow, max(kinds, key=excess)


@wrong(
    "18c-straggler",
    advice="which lane waits least",
    note="Everybody else waits for the straggler.",
)
def who_waits_most(spans):
    seconds = _seconds(spans)
    return _answer(seconds, _by_waits(seconds, of=max))


@wrong(
    "18c-straggler",
    advice="not what takes longest",
    note="They take the kind with the most seconds, which takes long on all ranks.",
)
def what_takes_longest(spans):
    seconds = _seconds(spans)
    return _answer(seconds, _by_waits(seconds), usual=lambda others: 0)


@wrong(
    "18c-straggler",
    advice="clocks of different lanes",
    note="They compare ends, which come from different clocks.",
)
def who_ends_last(spans):
    return _answer(_seconds(spans), max(spans, key=lambda span: span.end).lane)


@wrong(
    "18c-straggler",
    advice="A lane without a wait counts",
    note="They look only at lanes that wait, and overlook the one that never does.",
)
def of_those_that_wait(spans):
    seconds = _seconds(spans)
    waits = {lane: time for (lane, kind), time in seconds.items() if kind == "wait"}
    return _answer(seconds, min(waits, key=waits.get))


@wrong(
    "18c-straggler",
    advice="the mean of the others",
    note="They compare with the quickest lane, not with the mean of the others.",
)
def beyond_the_best(spans):
    seconds = _seconds(spans)
    return _answer(seconds, _by_waits(seconds), usual=min)


@wrong(
    "18c-straggler",
    advice="2.80 s beyond the mean",
    note="They leave lanes without this kind out of the mean.",
)
def beyond_the_mean_of_lanes_with_that_kind(spans):
    seconds = _seconds(spans)

    def usual(others) -> float:
        return mean(list(filter(None, others)) or [0])

    return _answer(seconds, _by_waits(seconds), usual)


@wrong(
    "18c-straggler",
    advice="without the number",
    note="They return a span's name with its number.",
)
def name_with_its_number(spans):
    slow, kind = by_counters(spans)
    return slow, next(s.name for s in spans if s.lane == slow and _kind(s.name) == kind)


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
    kinds = sorted({_kind(span.name) for span in spans})
    table = np.zeros((len(lanes), len(kinds)))
    for span in spans:
        row, column = lanes.index(span.lane), kinds.index(_kind(span.name))
        table[row, column] += span.end - span.start
    waits = kinds.index("wait")
    slow = table[:, waits].argmin()
    excess = table[slow] - table.mean(0)  # (N - 1) / N of that beyond the others
    excess[waits] = -np.inf
    return [lanes[slow], kinds[excess.argmax()]]
