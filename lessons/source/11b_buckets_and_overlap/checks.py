"""The checks of lesson 11b: buckets, and accumulation without traffic."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from sidebyside import RankFailed, run_ranks
from sidebyside.exercises import exercise, trying

from .buckets_and_no_sync import (
    SHAPES,
    TRIED,
    Buckets,
    try_buckets,
    try_no_sync,
)

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))


# The mean over the ranks --------------------------------------------------------------


def _expect_mean_gradient(
    expect, where: str, got, own: torch.Tensor, mean, ranks: int
) -> None:
    """`got` must be the mean of all ranks' gradients; say what it is otherwise."""
    close = 1e-9 if mean.dtype == torch.float64 else 1e-5
    off = (got - mean).abs().max().item()
    if off < close:
        return
    expect(
        not torch.equal(got, own),
        got=f"{where} still has its own gradient",
        think="which tensor holds the sum in the end: is it `parameter.grad`?",
    )
    expect(
        ranks == 1 or not torch.allclose(ranks * got, own, rtol=0, atol=close),
        got=f"{where} has its own gradient, divided by {ranks}",
        think="the moment when you divide: is the sum there by then, and in this "
        "tensor?",
    )
    flat_mean = mean.flatten()
    times = (got.flatten() @ flat_mean / (flat_mean @ flat_mean)).item()
    if abs(times - 1) > 1e-3 and (got - times * mean).abs().max() < close:
        think = "by how many ranks you divide, and how often"
        if abs(times - ranks) < 1e-6:
            think = "the difference between the sum that all_reduce gives and the mean"
        expect(False, got=f"{where} has {times:.2f} times the mean", think=think)
    expect(
        False,
        got=f"{where} differs from the mean of all ranks' gradients by {off:.1e}",
        think="which numbers were added up: the same gradient of every rank, once",
    )


def _expect_all_reduces_awaited(expect, forgotten: int) -> None:
    expect(
        not forgotten,
        got=f"{forgotten} all-reduces that nobody has waited for",
        think="what async_op=True gives back, and when the sum is there",
    )


# 11b-buckets --------------------------------------------------------------------------

BYTES = [4 * torch.Size(shape).numel() for shape in SHAPES]  # in 32 bits
ALL = tuple(range(len(SHAPES)))


@exercise("11b-buckets", in_ranks=True)
def check_11b_buckets(average_gradients):
    plain = "what this line gets for each bucket, from the first to the last"
    none = "what a parameter without a gradient holds: None"
    nothing = "what is left to send when no parameter has a gradient"
    limits = 2000, sum(BYTES[-2:]), 1, sum(BYTES)  # the second is met exactly
    for ranks, cases, think in [
        (2, [Buckets(limit) for limit in limits], plain),
        (3, [Buckets(4000, torch.float64, w) for w in [(0, 3, 10), (3, 4)]], none),
        (2, [Buckets(4000, without=ALL)], nothing),
        (5, [Buckets(3000, without=(4,))], plain),
        (1, [Buckets(3000)], plain),
    ]:
        with trying(_call_for_buckets(cases, ranks), think=think):
            args = average_gradients, cases
            found = run_ranks(try_buckets, *args, world_size=ranks, timeout=PATIENCE)
        for case, notes in zip(cases, zip(*found, strict=True), strict=True):
            with trying(_call_for_buckets([case], ranks)) as expect:
                if ranks > 1:
                    _expect_last_bucket_sent(expect, notes[0], case.bucket_bytes)
                _expect_buckets_averaged(expect, notes)
                if ranks > 1:
                    right = _right_buckets(notes[0], case.bucket_bytes)
                    _expect_only_all_reduces(expect, notes, right)
                    _expect_buckets(expect, notes[0], right, case.bucket_bytes)


def _call_for_buckets(cases: list[Buckets], ranks: int) -> str:
    limits = " or ".join(dict.fromkeys(str(case.bucket_bytes) for case in cases))
    tried = f"average_gradients({len(SHAPES)} parameters, {limits}) in {ranks} ranks"
    if cases[0].dtype == torch.float64:
        tried += ", in 64-bit numbers"
    if cases[0].without == ALL:
        return tried + "; no parameter has a gradient"
    names = ", then ".join(" and ".join(map(str, c.without)) for c in cases)
    without = cases[0].without
    return tried + (f"; parameters without a gradient: {names}" if without else "")


def _expect_no_gradient_left_out(expect, notes: tuple[dict]) -> None:
    """Where some gradients have changed, the others were in no bucket, or not put back.

    If none has, that is another mistake.
    """
    for number, rank in enumerate(notes):
        pairs = zip(ALL, rank["before"], rank["after"], strict=True)
        changed = {
            place: not (after is not None and torch.equal(before, after))
            for place, before, after in pairs
            if before is not None
        }
        kept = [place for place in changed if not changed[place]]
        expect(
            not (kept and any(changed.values())),
            got=f"parameters of rank {number} that still have their own gradients: "
            f"{', '.join(map(str, kept))}",
            think="which gradients were in a bucket in this call, and which of them "
            "got their mean back?",
        )


def _expect_buckets_averaged(expect, notes: tuple[dict]) -> None:
    _expect_all_reduces_awaited(expect, notes[0]["forgotten"])
    expect(
        not any(rank["moved"] for rank in notes),
        got="parameters that have moved",
        think="what is to be averaged: the gradients, not the parameters",
    )
    expect(
        all(rank["list"] for rank in notes),
        got="the list of parameters has changed",
        think="who else uses what your function was given",
    )
    if len(notes) > 1:
        _expect_no_gradient_left_out(expect, notes)
    for place in ALL:
        own = [rank["before"][place] for rank in notes]
        for number, rank in enumerate(notes):
            got, where = rank["after"][place], f"parameter {place} of rank {number}"
            if own[0] is None:
                expect(
                    got is None,
                    got=f"{where} had no gradient, and has one now",
                    think="what None tells the optimizer: leave this parameter alone. "
                    "Zeros are a gradient; with weight decay they move a parameter",
                )
                continue
            expect(
                got is not None and got.shape == own[0].shape,
                got=f"{where} has a gradient of shape {getattr(got, 'shape', None)}",
                think="how a piece of the flat bucket gets its shape back",
            )
            mean = torch.stack(own).mean(0)
            _expect_mean_gradient(expect, where, got, own[number], mean, len(notes))


def _in_buckets(sizes: list[int], is_full: Callable[[int], bool]) -> list[int]:
    """The buckets, when a new one is opened as soon as the last one is full."""
    buckets = []
    for size in sizes:
        if not buckets or is_full(buckets[-1]):
            buckets.append(0)
        buckets[-1] += size
    return buckets


def _in_buckets_below(sizes: list[int], limit: int) -> list[int]:
    """The buckets of someone who lets none of them grow beyond the limit."""
    buckets = []
    for size in sizes:
        if not buckets or buckets[-1] + size > limit:
            buckets.append(0)
        buckets[-1] += size
    return buckets


def _in_buckets_with_holes(gradients: list, width: int, limit: int) -> list[int]:
    """The buckets of someone who counts parameters that have no gradient, too."""
    buckets, counted = [], limit
    for place in reversed(ALL):
        gradient = gradients[place]
        if counted >= limit and gradient is not None:
            buckets.append(0)
            counted = 0
        counted += width * BYTES[place] // 4
        if gradient is not None:
            buckets[-1] += gradient.nbytes
    return buckets


def _bytes_in_backward(notes: dict) -> list[int]:
    """The bytes of all gradients that there are, the last one first."""
    return [grad.nbytes for grad in reversed(notes["before"]) if grad is not None]


def _all_reduced_bytes(notes: dict) -> list[int]:
    return [size for name, size in notes["messages"] if name == "all_reduce"]


def _right_buckets(notes: dict, limit: int) -> list[int]:
    return _in_buckets(_bytes_in_backward(notes), lambda held: held >= limit)


def _expect_last_bucket_sent(expect, notes: dict, limit: int) -> None:
    right = _right_buckets(notes, limit)
    expect(
        len(right) < 2 or _all_reduced_bytes(notes) != right[:-1],
        got=f"all buckets but the last, whose {sum(right[-1:])} bytes are never sent",
        think="the last bucket: who sends it, if it never gets full?",
    )


def _expect_only_all_reduces(expect, notes: tuple[dict], right: list[int]) -> None:
    """No other message, unless the all-reduces themselves are not right."""
    names = {name for rank in notes for name, _ in rank["messages"]} - {"all_reduce"}
    others, sent = " and ".join(sorted(names)), _all_reduced_bytes(notes[0])
    expect(
        not others or sent != right,
        got=f"the right all-reduces, and other messages: {others}",
        think="who needs these other messages: what would go wrong without them?",
    )
    expect(
        not others or sent,
        got=f"the right means, by {others}",
        think="which collective the text asks for. How many numbers does this one give "
        "each rank, when all it needs is their sum?",
    )


def _expect_buckets(expect, notes: dict, right: list[int], limit: int) -> None:
    grads = [gradient for gradient in notes["before"] if gradient is not None]
    sizes = _bytes_in_backward(notes)
    width = grads[0].element_size() if grads else 1
    sent = _all_reduced_bytes(notes)
    likely = [
        (sizes, "why gradients share a bucket: each message costs time of its own"),
        (_in_buckets(sizes, lambda held: held > limit), "whether a bucket with exactly "
         f"{limit} bytes is full"),
        (_in_buckets(sizes, lambda held: held >= limit * width), "what `bucket_bytes` "
         "counts. Do you count bytes or numbers?"),
        (_in_buckets(sizes, lambda held: held >= limit * width / 4), "how many bytes a "
         "number has. Is it always 4?"),
        (_in_buckets_below(sizes, limit), "whether a bucket may hold more than "
         f"{limit} bytes: when is it full?"),
        (_in_buckets_with_holes(notes["before"], width, limit), "what a parameter "
         "without a gradient adds to a bucket: nothing"),
        ([sum(sizes)], "when a bucket is full. A bucket that waits for all gradients "
         "cannot leave before backward has ended"),
        (_in_buckets(sizes[::-1], lambda held: held >= limit), "which parameter's "
         "gradient is ready first in backward"),
        (right[::-1], "which bucket is filled first: it is to leave first"),
    ]  # fmt: skip
    think = f"which gradients share a bucket: right are {right} bytes"
    think = next((advice for buckets, advice in likely if sent == buckets), think)
    if 0 in sent:
        think = (
            "whether a bucket can be empty when it is sent, the last one for instance"
        )
    got = f"{len(sent)} all-reduces for {len(grads)} gradients, of {sent} bytes"
    expect(sent == right, got=got, think=think)


# 11b-no-sync --------------------------------------------------------------------------


@exercise("11b-no-sync", in_ranks=True)
def check_11b_no_sync(average_with_hooks):
    trials = {
        "hang_hooks": _expect_no_sync,
        "backward_outside": _expect_sync_outside_no_sync,
        "first_block": _expect_quiet_first_block,
        "second_block": _expect_quiet_second_block,
        "forward_before": _expect_quiet_after_forward_outside,
        "backward_of_another": _expect_own_switch_of_no_sync,
        "after_error": _expect_sync_after_error,
        "after_stop_button": _expect_sync_after_stop_button,
        "accumulate": _expect_accumulated_with_no_sync,
        "train": _expect_training_with_no_sync,
    }
    for ranks, some_frozen in (2, False), (3, True), (5, False), (1, False):
        where = f" in {ranks} ranks"
        where += ", where one parameter is frozen" if some_frozen else ""
        found = _no_sync_in_ranks(average_with_hooks, ranks, some_frozen, where)
        for trial, expected in trials.items():
            with trying(TRIED[trial] + where) as expect:
                expected(expect, found)


def _no_sync_in_ranks(answer, ranks: int, some_frozen: bool, where: str) -> list[dict]:
    """What the ranks note. Of an exception they tell where: what was tried there?"""
    args = answer, some_frozen
    try:
        return run_ranks(try_no_sync, *args, world_size=ranks, timeout=PATIENCE)
    except RankFailed as failed:
        raised = failed.outcome.raised.get(failed.rank)
        frames = raised.frames if raised else []
        tried = [
            f.function for f in frames if f.file == try_no_sync.__code__.co_filename
        ]
        trial = next((name for name in tried if name in TRIED), "")
        in_hook = any("autograd" in Path(frame.file).parts for frame in frames)
        failed.tried = (
            TRIED.get(trial, "average_with_hooks(model) and after it") + where
        )
        failed.think = _advice_after_exception(trial, some_frozen, in_hook)
        raise


def _advice_after_exception(trial: str, some_frozen: bool, in_hook: bool) -> str:
    if some_frozen:
        return (
            "which parameters get a gradient: a frozen one does not, and takes no hook"
        )
    if in_hook:
        return (
            "what this line gets: a hook added by register_post_accumulate_grad_hook "
            "is called with the parameter, one added by register_hook with a gradient"
        )
    if trial == "hang_hooks":
        return "which parameters there are: the model's own, and those of its layers"
    return "what `no_sync()` gives each time, when a block begins and when it ends"


def _expect_no_sync(expect, found: list[dict]) -> None:
    notes = found[0]
    expect(
        "returned" not in notes,
        got=notes.get("returned"),
        think="what is to be returned: a function no_sync, for `with no_sync():`"
        + notes.get("think", ""),
    )


def _expect_sync_outside_no_sync(expect, found: list[dict]) -> None:
    loud = [rank["backward_outside"] for rank in found]
    expect(
        _collectives(loud[0]) or len(found) == 1,
        got="no collective at all",
        think="who averages the gradients: a hook on every parameter, called by "
        "backward",
    )
    expect(
        not any(rank["moved"] for rank in loud),
        got="parameters that have moved, before any step",
        think="what is to be averaged: the gradients, not the parameters",
    )
    _expect_all_reduces_awaited(expect, loud[0]["forgotten"])
    _expect_a_hook_on_every_parameter(expect, loud)
    _expect_means_of_own_gradients(expect, loud)
    expect(
        all(rank["frozen"] for rank in found),
        got="a gradient of the frozen parameter",
        think="what None tells the optimizer: leave this parameter alone",
    )
    expect(
        not any(rank["hooks on frozen"] for rank in found),
        got="a hook on the frozen parameter",
        think="which parameters get a hook: only those that are trained",
    )
    sent, trained = _collectives(loud[0]), found[0]["trained"]
    expect(
        sent <= trained,
        got=f"{sent} collectives for {trained} parameters",
        think="how often the gradient of one parameter has to travel in one backward",
    )


def _collectives(notes: dict) -> int:
    return sum(name != "barrier" for name, _ in notes["messages"])


def _expect_a_hook_on_every_parameter(expect, notes: list[dict]) -> None:
    """Some gradients are means, and others the rank's own: those have no hook."""
    mean = torch.stack([rank["own"] for rank in notes]).mean(0)
    for number, rank in enumerate(notes):
        to_change = (rank["own"] - mean).abs() >= 1e-9
        kept = to_change & (rank["gradient"] == rank["own"])
        averaged = to_change & ((rank["gradient"] - mean).abs() < 1e-9)
        expect(
            not (kept.any() and averaged.any()),
            got=f"rank {number} has the means of some gradients, and others of its own",
            think="the parameters whose gradients are still the rank's own: has each "
            "of them a hook?",
        )


def _expect_means_of_own_gradients(expect, notes: list[dict]) -> None:
    mean = torch.stack([rank["own"] for rank in notes]).mean(0)
    for number, rank in enumerate(notes):
        args = rank["gradient"], rank["own"], mean, len(notes)
        _expect_mean_gradient(expect, f"rank {number}", *args)


def _expect_own_switch_of_no_sync(expect, found: list[dict]) -> None:
    expect(
        _collectives(found[0]["backward_of_another"]) or len(found) == 1,
        got="no collective at all",
        think="where your switch is kept: has each module one of its own?",
    )


def _expect_quiet_first_block(expect, found: list[dict]) -> None:
    for number, rank in enumerate(found):
        quiet = rank["first_block"]
        think = "how backward learns that it is inside no_sync: does what `no_sync` "
        think += "changes reach the hooks?"
        local = torch.allclose(quiet["gradient"], quiet["own"], rtol=0, atol=1e-9)
        if local:
            think = "the line of your hook that sends: is it run inside no_sync, too?"
        names = {name for name, _ in quiet["messages"]}
        if names == {"barrier"}:
            think = "what a barrier is made of: how do the ranks learn of each other?"
        expect(not names, got=_messages_in_words(quiet["messages"]), think=think)
        expect(
            local,
            got=f"rank {number} does not hold its own gradient",
            think="what a backward inside no_sync leaves in `.grad`: the sum of what "
            "this rank has computed, not divided by anything",
        )


def _expect_quiet_second_block(expect, found: list[dict]) -> None:
    for number, rank in enumerate(found):
        quiet = rank["second_block"]
        think = "what the first block has left behind: does the second one begin as "
        think += "the first one did?"
        sent = quiet["messages"]
        expect(not sent, got=_messages_in_words(sent), think=think)
        local = torch.allclose(quiet["gradient"], quiet["own"], rtol=0, atol=1e-9)
        expect(local, got=f"rank {number} does not hold its own gradient", think=think)


def _messages_in_words(messages: list[tuple]) -> str:
    by_name = Counter(name for name, _ in messages)
    return "messages: " + ", ".join(f"{n} by {name}" for name, n in by_name.items())


def _expect_quiet_after_forward_outside(expect, found: list[dict]) -> None:
    sent = found[0]["forward_before"]
    expect(
        not sent,
        got=_messages_in_words(sent),
        think="the moment at which your code looks whether to send: in forward, or in "
        "backward?",
    )


def _expect_sync_after_error(
    expect, found: list[dict], trial: str = "after_error"
) -> None:
    raised, came_out = (found[0][trial][name] for name in ("raised", "came out"))
    expect(
        came_out is not None,
        got="the exception did not come out of the with block",
        think="who is to hear of the exception: is it caught by no_sync?",
    )
    expect(
        came_out == raised,
        got=f"{came_out} came out of the with block, in which {raised} was raised",
        think="who is to hear of the exception: does no_sync let it go on its way?",
    )
    notes = [rank[trial] for rank in found]
    expect(
        all(torch.allclose(n["kept"], n["own"], rtol=0, atol=1e-9) for n in notes),
        got="other gradients than had accumulated before the exception",
        think="the gradients that have accumulated when a block ends: are they still "
        "there?",
    )
    expect(
        _collectives(notes[0]) or len(found) == 1,
        got="no collective at all",
        think="what happens at the end of a with block whatever ended it, the stop "
        "button, too: try ... finally",
    )


def _expect_sync_after_stop_button(expect, found: list[dict]) -> None:
    _expect_sync_after_error(expect, found, "after_stop_button")


def _expect_accumulated_with_no_sync(expect, found: list[dict]) -> None:
    notes = [rank["accumulate"] for rank in found]
    newest = torch.stack([r["own"] - r["before the last"] for r in notes]).mean(0)
    for number, rank in enumerate(notes):
        only_newest = rank["before the last"] + newest
        expect(
            len(found) == 1
            or not torch.allclose(rank["gradient"], only_newest, rtol=0, atol=1e-9),
            got=f"rank {number} holds its own first two gradients, and the mean of the "
            "last",
            think="what has to be averaged after the last micro-batch: its gradient "
            "only, or all that has been accumulated. Which of the two does your hook "
            "get?",
        )
    _expect_all_reduces_awaited(expect, notes[0]["forgotten"])
    _expect_means_of_own_gradients(expect, notes)
    sent, trained = _collectives(notes[0]), found[0]["trained"]
    expect(
        sent <= trained,
        got=f"{sent} collectives for {trained} parameters",
        think="who sends: the next backward outside. Does anything leave before it?",
    )


def _expect_training_with_no_sync(expect, found: list[dict]) -> None:
    histories = [rank["train"]["together"] for rank in found]
    apart = max((histories[0] - other).abs().max().item() for other in histories)
    expect(
        apart < 1e-6,  # the mean may be rounded in another way on each rank
        got="replicas that differ from each other after a step",
        think="what your hooks keep from one step for the next",
    )
    off = (histories[0] - found[0]["train"]["alone"]).abs().max().item()
    expect(
        off < 1e-9,
        got=f"parameters that are up to {off:.1e} away from the single process's",
        think="whether every micro-batch counts once, in every step",
    )
