"""The checks of lesson 18c: two sets of repaired programs, and the straggler."""

import random
from statistics import mean
from typing import NamedTuple

import torch

from parallel_by_hand.clinic.patient_data import result_when_well
from parallel_by_hand.clinic.ward import on_cpus, patient_lines, repaired_patient
from parallel_by_hand.data_parallel.changed_lines import syntax_complaint
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import in_ranks, run_trial
from sidebyside.timeline.spans import Span

from .treatment import DATA, cases_for_treatment, treat_in_rank

SEVERAL = 3, 2, 5, 1  # ranks
GUILTY = {"ada": 0, "ben": 2, "dan": 2, "cleo": 1, "eve": 1, "finn": 2}
WHEN_HUNG = "a collective that some rank does not come to, or not in the same order, "
WHEN_HUNG += "or bytes that nobody sends: does the repair hold for all these data? "
WHEN_HUNG += "Lines are counted in the repaired program"

# Repairs ------------------------------------------------------------------------------


@exercise("18c-hung", in_ranks=True, when_hung=WHEN_HUNG)
def check_18c_hung(repairs):
    _try_repairs("repairs", repairs, ["ada", "ben", "dan"])


@exercise("18c-silent", in_ranks=True, when_hung=WHEN_HUNG)
def check_18c_silent(cures):
    _try_repairs("cures", cures, ["cleo", "eve", "finn"])


def _try_repairs(variable: str, repairs, wanted: list[str]) -> None:
    with trying(variable) as expect:
        think = (
            f'the form of the answer: {{"{wanted[0]}": (rank, {{line: "new"}}), ...}}'
        )
        expect(isinstance(repairs, dict) and repairs, got=repairs, think=think)
        strangers = [name for name in repairs if name not in wanted]
        think = f"the names of the patients: {', '.join(wanted)}"
        expect(not strangers, got=f"the names {strangers}", think=think)
    codes = {
        n: _repaired_in_clinic(variable, n, repairs[n]) for n in wanted if n in repairs
    }
    for ranks in SEVERAL:
        for name, code in codes.items():
            _treat_patient(name, code, ranks)
    with trying(variable) as expect:
        missing = [name for name in wanted if name not in repairs]
        got = f"right repairs of {', '.join(codes)}; {', '.join(missing)} to go"
        expect(not missing, got=got, think="the next patient: what does its tool say")


def _repaired_in_clinic(variable: str, name: str, answer) -> str:
    """The repaired program, if the answer has its form and names the guilty rank."""
    lines = patient_lines(name)
    with trying(f'{variable}["{name}"]') as expect:
        pair = isinstance(answer, tuple | list) and len(answer) == 2
        think = 'the form of the answer: (rank, {line: "new text"})'
        expect(
            pair and isinstance(answer[1], dict) and answer[1], got=answer, think=think
        )
        rank, changes = answer
        number = as_number(rank)
        expect(
            number in (0, 1, 2), got=f"rank {rank}", think="which of ranks 0, 1 and 2"
        )
        text = all(isinstance(new, str) for new in changes.values())
        expect(text, got=changes, think="the new lines: each is a text")
        think = f"the numbers of its lines: 2 to {len(lines)}"
        known = all(line in range(2, len(lines) + 1) for line in changes)
        expect(known, got=f"lines {', '.join(map(repr, changes))}", think=think)
        _expect_repair_in_python(expect, name, lines, changes)
        think = (
            "which rank does what the two others do not do: compare the three lines "
        )
        think += f'of a tool\'s report, such as examine_patient("{name}", "recorder")'
        if name == "cleo":
            think = (
                "in which order each rank sorts its own gradients: 1 and 2 on rank 0"
            )
        if name == "dan":
            think = "whose shape is not that of the others: "
            think += 'examine_patient("dan", "detail")'
        expect(number == GUILTY[name], got=f"rank {rank}", think=think)
    return repaired_patient(name, changes)


def _expect_repair_in_python(expect, name: str, lines: list, changes: dict) -> None:
    said = syntax_complaint(name, lines, changes)
    think = f"what Python says of the repaired program: {said}"
    if "expected an indented block" in said:
        think += ". May this block be empty"
    elif "indent" in said:
        think += ". A new line gets the indentation of the one that it replaces"
    which = ", ".join(map(str, changes))
    expect(not said, got=f"a program that is not Python (lines {which})", think=think)


def _treat_patient(name: str, code: str, ranks: int) -> None:
    cases = cases_for_treatment(name, ranks)
    counts = ", ".join(str([len(mine) for mine in given]) for given in cases)
    where = in_ranks(ranks)
    think = "what the new lines do, each in its place, and on each rank"
    call = f"{name}, repaired, {where}, with {counts} {DATA[name]}"
    with trying(call, think=think) as expect:
        with on_cpus():  # as their tensors are
            found = run_trial(treat_in_rank, name, code, ranks, ranks=ranks)
        for given, *results in zip(cases, *found, strict=True):
            _expect_patient_well(expect, name, given, results)


def _expect_patient_well(expect, name: str, given: list, results: list) -> None:
    for rank, (right, got) in enumerate(
        zip(result_when_well(name, given), results, strict=True)
    ):
        if name == "cleo":
            _expect_patient_sums(expect, rank, got, right)
        elif name in ("dan", "finn"):
            _expect_patient_number(expect, name, rank, got, right, given)
        else:
            _expect_patient_training(expect, name, rank, got, right)


def _expect_patient_sums(expect, rank: int, got, right: dict) -> None:
    form = isinstance(got, dict) and set(got) == set(right)
    form = form and all(
        _is_like_patient_tensor(got[name], right[name]) for name in right
    )
    think = "what is returned in every rank: a dictionary with the sum for each name"
    expect(form, got=got, think=think)
    for name, sums in right.items():
        first = (got[name].flatten()[0].item(), sums.flatten()[0].item())
        shown = f"{first[0]:.2f} for {name!r} on rank {rank}, "
        shown += f"where the sum is {first[1]:.2f}"
        think = "whose numbers are in this sum: is the order the same on all ranks, "
        think += "whatever the gradients are"
        expect(torch.allclose(got[name], sums, atol=1e-9), got=shown, think=think)


def _is_like_patient_tensor(tensor, other: torch.Tensor) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.shape == other.shape
        and tensor.dtype == other.dtype
    )


def _expect_patient_number(
    expect, name, rank: int, got, right: float, given: list
) -> None:
    number = expect.number(got, "a number, on each rank")
    thoughts = {
        "finn": "which numbers are in the sum: all of each rank's, and all ranks'",
        "dan": "which errors are added, and by how many divided: all rows of all ranks",
    }
    think, counts = thoughts[name], [len(rows) for rows in given]
    if name == "dan":
        means = [(rows - 1).square().sum(1).mean().item() for rows in given]
        if abs(number - sum(means) / len(means)) < 1e-9:
            think = (
                "the mean of means, which is not the mean: how many rows has each rank"
            )
    shown = (
        f"{number:.6g} on rank {rank}, where {right:.6g} is right (ranks with {counts})"
    )
    expect(abs(number - right) <= 1e-6 * abs(right), got=shown, think=think)


def _expect_patient_training(expect, name: str, rank: int, got, right) -> None:
    weight, loss = got, None
    if name == "ada":
        pair = isinstance(got, tuple | list) and len(got) == 2
        think = "what is returned in every rank: the weights and a loss"
        expect(pair, got=got, think=think)
        (weight, loss), (right, right_loss) = got, right
    like = _is_like_patient_tensor(weight, right)
    expect(like, got=weight, think="what is returned in every rank: the two weights")
    thoughts = {
        "ada": "what belongs to the training, and what to the report about it",
        "ben": "which gradient each step uses, on all ranks alike: rank 0's if that of "
        "any rank is too long, else the mean",
        "eve": "which batches are used: as many of each rank as the shortest list has",
    }
    off = (weight - right).abs().max().item()
    got = f"weights on rank {rank} that are off by {off:.1e}"
    expect(off < 1e-9, got=got, think=thoughts[name])
    if name == "ada" and rank == 0:
        number = as_number(loss)
        shown = f"the loss {loss}, where {right_loss.item():.6f} is right"
        think = "whose losses are in it, and by what their sum is divided"
        right_one = number is not None and abs(number - right_loss.item()) < 1e-6
        expect(right_one, got=shown, think=think)


# The straggler ------------------------------------------------------------------------


class Late(NamedTuple):
    """The right answer; the number of steps; each lane's seconds of each kind."""

    lane: str
    kind: str
    steps: int
    rows: dict[str, dict[str, float]]


def _late(lane: str, kind: str, steps: int, **rows: dict[str, float]) -> Late:
    return Late(lane, kind, steps, rows)


MADE_BY_HAND = [
    _late(  # the case of the text; the straggler has no wait
        "b", "load", 1,
        a={"load": 1.0, "compute": 8.0, "wait": 5.0},
        b={"load": 5.0, "compute": 9.0},
    ),
    _late(  # not the longest kind, and not the one beyond all others by most
        "b", "save", 12,
        a={"load images": 1.9, "save": 0.1, "wait": 1.2},
        b={"load images": 2.1, "save": 1.1},
        c={"load images": 1.9, "save": 1.0, "wait": 0.3},
    ),
    _late(  # the straggler is compared with the mean of the others, not with the best
        "a", "y", 4,
        a={"x": 6.0, "y": 4.0, "wait": 1.0},
        b={"x": 0.5, "wait": 10.5},
        c={"x": 5.9, "y": 2.0, "wait": 3.1},
    ),
    _late(  # what is twice as long need not be what is longer by most
        "a", "compute", 3,
        a={"save": 0.2, "compute": 6.0, "wait": 0.1},
        b={"save": 0.1, "compute": 4.0, "wait": 2.2},
    ),
]  # fmt: skip


def _made_up_straggler(lanes: int, kinds: int, dice) -> Late:
    names = dice.sample(["load", "compute", "save", "send", "fetch data"], kinds)
    usual = {name: dice.uniform(1, 9) for name in names}
    late, why = f"rank {dice.randrange(lanes)}", dice.choice(names)
    rows = {}
    for number in range(lanes):
        lane = f"rank {number}"
        rows[lane] = {n: s + dice.uniform(-0.1, 0.1) for n, s in usual.items()}
        rows[lane][why] += 2.0 * (lane == late)
    longest = max(sum(row.values()) for row in rows.values())
    for row in rows.values():
        row["wait"] = longest - sum(row.values()) + 0.4
    return _late(late, why, dice.choice([1, 3, 12]), **rows)


def _spans_with_straggler(late: Late, dice) -> list[Span]:
    """In any order; each lane has its own clock, and lacks some kinds in some steps."""
    spans = []
    for lane, kinds in late.rows.items():
        now = dice.uniform(-1000, 1000)
        for kind, total in kinds.items():
            only = (lane, kind) == (late.lane, "wait")  # a short wait may be one
            steps = range(1 if only else dice.randint(1, late.steps))
            shares = [dice.expovariate(1) for _ in steps]
            for step in steps:
                end = now + total * shares[step] / sum(shares)
                spans.append(Span(f"{kind} {step}", lane, now, end, None))
                now = end
    dice.shuffle(spans)
    return spans


@exercise("18c-straggler")
def check_18c_straggler(find_straggler):
    dice = random.Random(18)
    sizes = [(2, 2), (3, 1), (4, 3), (5, 4), (8, 4), (11, 3)]
    made_up = [_made_up_straggler(*size, dice) for size in sizes]
    for late in [MADE_BY_HAND[0], *made_up, *MADE_BY_HAND[1:]]:
        _try_straggler(find_straggler, _spans_with_straggler(late, dice), late)


def _try_straggler(find_straggler, spans: list[Span], late: Late) -> None:
    call = f"find_straggler({len(spans)} spans in {len(late.rows)} lanes)"
    with trying(call, spans) as expect:
        got = find_straggler(spans)
        pair = isinstance(got, tuple | list) and len(got) == 2
        pair = pair and got[0] in list(late.rows)
        expect(pair, got=got, think="the form of the answer: a pair (lane, kind)")
        think = (
            "which lane waits least, in all its waits together. A lane without a wait "
            "counts, and clocks of different lanes cannot be compared"
        )
        shown = f"{got}, where {late.lane} is the straggler"
        expect(got[0] == late.lane, got=shown, think=think)
        think = "the kind: a name without the number at its end, and not the waiting"
        known = {s.name.rstrip("0123456789 ") for s in spans} - {"wait"}
        expect(got[1] in known, got=got, think=think)
        think = (
            "what this lane does for longer than the mean of the others, in all steps "
            "together: not what takes longest. A lane without this kind counts, with 0"
        )
        shown = []
        for kind in got[1], late.kind:
            seconds = {lane: row.get(kind, 0) for lane, row in late.rows.items()}
            beyond = seconds.pop(late.lane) - mean(seconds.values())
            shown.append(f"{kind!r}, {beyond:.2f} s beyond the mean")
        expect(got[1] == late.kind, got=" instead of ".join(shown), think=think)
