"""The checks of lesson 18c: two sets of repaired programs, and the straggler."""

import random

import torch

from parallel_by_hand.clinic.patient_data import result_when_well
from parallel_by_hand.clinic.ward import on_cpus, patient_lines, repaired_patient
from parallel_by_hand.data_parallel.changed_lines import syntax_complaint
from sidebyside import RankFailed
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial
from sidebyside.timeline.spans import Span

from .treatment import cases_for_treatment, treat_in_rank

SEVERAL = 3, 2, 5, 1  # ranks
MOST = 4  # lines that may change
GUILTY = {"ada": 0, "ben": 2, "dan": 2, "cleo": 1, "eve": 1, "finn": 2}
WHEN_HUNG = "a collective that some rank does not come to, or not in the same order, "
WHEN_HUNG += "or bytes that nobody sends"

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
        found = _treated_patients(codes, ranks)
        for name in codes:
            with trying(f"{name}, repaired, {_in_clinic_ranks(ranks)}") as expect:
                for number, given in enumerate(cases_for_treatment(name, ranks)):
                    results = [rank[name][number] for rank in found]
                    _expect_patient_well(expect, name, given, results)
    with trying(variable) as expect:
        missing = [name for name in wanted if name not in repairs]
        got = f"right repairs of {', '.join(codes)}; {', '.join(missing)} to go"
        expect(not missing, got=got, think="the next patient: what does its tool say")


def _in_clinic_ranks(ranks: int) -> str:
    return f"in {ranks} ranks" if ranks > 1 else "in one rank"


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
        think = f"which lines are wrong: {MOST} at most may change"
        expect(len(changes) <= MOST, got=f"{len(changes)} changed lines", think=think)
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


def _treated_patients(codes: dict, ranks: int) -> list[dict]:
    """All in one launch; if a rank fails, one by one, to know in which program."""
    with on_cpus():  # as their tensors are
        try:
            return run_trial(treat_in_rank, list(codes.items()), ranks, ranks=ranks)
        except RankFailed:
            for name, code in codes.items():
                think = "what the new lines do, each in its place, and on each rank"
                with trying(
                    f"{name}, repaired, {_in_clinic_ranks(ranks)}", think=think
                ):
                    run_trial(treat_in_rank, [(name, code)], ranks, ranks=ranks)
            raise


def _expect_patient_well(expect, name: str, given: list, results: list[dict]) -> None:
    for rank, (right, result) in enumerate(
        zip(result_when_well(name, given), results, strict=True)
    ):
        got = result["returned"]
        if name == "cleo":
            _expect_patient_sums(expect, rank, got, right)
        elif name in ("dan", "finn"):
            _expect_patient_number(expect, name, rank, got, right, given)
        else:
            _expect_patient_training(expect, name, rank, got, right)
        think = "who has to bring the numbers: all of them come from the server"
        expect(not result["unread"], got="numbers that nobody has read", think=think)


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
    number = as_number(got)
    expect(
        number is not None, got=got, think="what is returned: a number, on each rank"
    )
    thoughts = {
        "finn": "which numbers are in the sum: all of each rank's, and all ranks'",
        "dan": "by what the sum of all errors is divided: the rows of all ranks",
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


WITHOUT_WAIT = {
    "a": {"load images": 2.0, "wait": 1.5},
    "b": {"load images": 2.1, "save": 1.0},
    "c": {"load images": 2.2, "wait": 1.0},
}
NOT_THE_BEST = {  # the straggler is compared with the mean of the others
    "rank 0": {"x": 4.0, "y": 4.0, "wait": 1.0},
    "rank 1": {"x": 0.5, "y": 2.0, "wait": 6.5},
    "rank 2": {"x": 3.9, "y": 2.2, "wait": 2.9},
}
WAITS_FOR_DATA = {  # which is work that is late, and no waiting for the others
    "rank 0": {"wait for data": 6.0, "compute": 4.0, "wait": 0.5},
    "rank 1": {"wait for data": 0.5, "compute": 4.1, "wait": 5.9},
    "rank 2": {"wait for data": 0.6, "compute": 4.2, "wait": 5.7},
}
SOME_LACK_A_KIND = {
    "rank 0": {"load": 4.0, "save": 4.0, "wait": 0.5},
    "rank 1": {"load": 2.0, "save": 2.9, "wait": 3.6},
    "rank 2": {"load": 2.0, "send": 0.5, "wait": 6.0},
}

ONE_HAS_LONG_STEPS = {  # its averages are large, and its sums are not
    "rank 0": {"load": 3.0, "compute": 6.0, "wait": 2.0},
    "rank 1": {"load": 1.0, "compute": 5.5, "wait": 4.5},
    "rank 2": {"load": 1.0, "compute": 5.5, "wait": 4.5},
}
STEPS_OF_EACH = {"rank 0": 2, "rank 1": 12, "rank 2": 12}

MEAN_AND_MEDIAN_DIFFER = {
    "rank 0": {"x": 5.0, "y": 5.0, "wait": 0.5},
    "rank 1": {"x": 1.0, "y": 2.0, "wait": 7.5},
    "rank 2": {"x": 1.0, "y": 2.0, "wait": 7.5},
    "rank 3": {"x": 7.0, "y": 2.0, "wait": 1.5},
}
SMALL_AND_DOUBLED = {
    "rank 0": {"save": 0.2, "compute": 6.0, "wait": 0.1},
    "rank 1": {"save": 0.1, "compute": 4.0, "wait": 2.2},
    "rank 2": {"save": 0.1, "compute": 4.0, "wait": 2.2},
}


def spans_with_straggler(rows: dict[str, dict[str, float]], steps, dice) -> list[Span]:
    """For each lane the seconds of each kind, in so many steps; each has its clock.

    Steps are not equally long, so one of them does not stand for all. `steps` is one
    number, or one for each lane.
    """
    spans = []
    for lane, kinds in rows.items():
        now = dice.uniform(-1000, 1000)
        number = steps[lane] if isinstance(steps, dict) else steps
        shares = {
            kind: [dice.uniform(0.2, 1.8) for _ in range(number)] for kind in kinds
        }
        for step in range(number):
            for kind, total in kinds.items():
                name = kind if number == 1 else f"{kind} {step}"
                end = now + total * shares[kind][step] / sum(shares[kind])
                spans.append(Span(name, lane, now, end, None))
                now = end
    dice.shuffle(spans)
    return spans


def _straggler_cases() -> list[tuple[list[Span], tuple[str, str]]]:
    """Spans, each with the right answer; the first are those of the case by hand."""
    dice = random.Random(18)
    by_hand = {"rank 0": {"load": 1.0, "compute": 8.0, "wait": 5.0},
               "rank 1": {"load": 5.0, "compute": 9.0}}  # fmt: skip
    cases = [(spans_with_straggler(by_hand, 1, dice), ("rank 1", "load"))]
    cases.append(
        (spans_with_straggler(WAITS_FOR_DATA, 3, dice), ("rank 0", "wait for data"))
    )
    for lanes, kinds in [(2, 2), (3, 1), (4, 3), (5, 2), (8, 4), (11, 3)]:
        cases.append(_made_up_straggler(lanes, kinds, dice))
    cases.append((spans_with_straggler(WITHOUT_WAIT, 12, dice), ("b", "save")))
    cases.append((spans_with_straggler(NOT_THE_BEST, 4, dice), ("rank 0", "y")))
    cases.append((spans_with_straggler(SOME_LACK_A_KIND, 3, dice), ("rank 0", "save")))
    uneven = spans_with_straggler(ONE_HAS_LONG_STEPS, STEPS_OF_EACH, dice)
    cases.append((uneven, ("rank 0", "load")))
    cases.append(
        (spans_with_straggler(MEAN_AND_MEDIAN_DIFFER, 3, dice), ("rank 0", "y"))
    )
    cases.append(
        (spans_with_straggler(SMALL_AND_DOUBLED, 3, dice), ("rank 0", "compute"))
    )
    return cases


def _made_up_straggler(
    lanes: int, kinds: int, dice
) -> tuple[list[Span], tuple[str, str]]:
    names = dice.sample(["load", "compute", "save", "send", "wait for data"], kinds)
    usual = {name: dice.uniform(1, 9) for name in names}
    late, why = f"rank {dice.randrange(lanes)}", dice.choice(names)
    rows = {}
    for number in range(lanes):
        lane = f"rank {number}"
        rows[lane] = {n: s + dice.uniform(-0.1, 0.1) for n, s in usual.items()}
        rows[lane][why] += 2.0 * (lane == late)
    longest = max(sum(row.values()) for row in rows.values())
    for row in rows.values():
        row["wait"] = longest - sum(row.values()) + 0.01
    return spans_with_straggler(rows, dice.choice([1, 3, 12]), dice), (late, why)


@exercise("18c-straggler")
def check_18c_straggler(find_straggler):
    for spans, (lane, kind) in _straggler_cases():
        _try_straggler(find_straggler, spans, lane, kind)


def _try_straggler(find_straggler, spans: list[Span], lane: str, kind: str) -> None:
    lanes = len({span.lane for span in spans})
    with trying(
        f"find_straggler({len(spans)} spans in {lanes} lanes)", spans
    ) as expect:
        got = find_straggler(spans)
        pair = isinstance(got, tuple | list) and len(got) == 2
        expect(pair, got=got, think="the form of the answer: a pair (lane, kind)")
        think = (
            "who waits least, in all its waits together? A lane without a wait counts, "
        )
        think += '"wait for data" is another kind, '
        think += "and clocks of different lanes cannot be compared"
        expect(got[0] == lane, got=f"{got}, where {lane} is the straggler", think=think)
        think = "the kind: a name without the number at its end, and not the waiting"
        known = {s.name.rstrip("0123456789 ") for s in spans} - {"wait"}
        expect(got[1] in known, got=got, think=think)
        think = (
            "what this lane does for longer than the mean of the others, in all steps "
        )
        think += (
            "together: not what takes longest, and 0 for each lane that lacks a kind"
        )
        expect(got[1] == kind, got=f"{got}, where {kind!r} makes it late", think=think)
