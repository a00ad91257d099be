"""The checks of lesson 11b: buckets, and accumulation without traffic."""

import os
from collections.abc import Callable

import torch

from sidebyside import run_ranks
from sidebyside.exercises import exercise, trying

from .buckets_and_no_sync import (
    SHAPES,
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
        think="which tensor holds the sum in the end: is it `parameter.grad`",
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
                    _expect_buckets(expect, notes[0], case.bucket_bytes)
                    _expect_only_all_reduces(expect, notes[0]["names"])


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


def _expect_last_bucket_sent(expect, notes: dict, limit: int) -> None:
    right = _in_buckets(_bytes_in_backward(notes), lambda held: held >= limit)
    expect(
        len(right) < 2 or notes["sent"] != right[:-1],
        got=f"all buckets but the last, whose {sum(right[-1:])} bytes are never sent",
        think="the last bucket: who sends it, if it never gets full?",
    )


def _expect_buckets(expect, notes: dict, limit: int) -> None:
    grads = [gradient for gradient in notes["before"] if gradient is not None]
    sizes = _bytes_in_backward(notes)
    width = grads[0].element_size() if grads else 1
    right = _in_buckets(sizes, lambda held: held >= limit)
    sent = notes["sent"]
    likely = [
        (sizes, "why gradients share a bucket: each message costs time of its own"),
        (_in_buckets(sizes, lambda held: held > limit), "whether a bucket with exactly "
         f"{limit} bytes is full"),
        (_in_buckets(sizes, lambda held: held >= limit * width), "what `bucket_bytes` "
         "counts. Do you count bytes or numbers"),
        (_in_buckets(sizes, lambda held: held >= limit * width / 4), "how many bytes a "
         "number has. Is it always 4"),
        (_in_buckets_below(sizes, limit), "whether a bucket may hold more than "
         f"{limit} bytes: when is it full"),
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
    got = f"{len(sent)} collectives for {len(grads)} gradients, of {sent} bytes"
    expect(sent == right, got=got, think=think)


def _expect_only_all_reduces(expect, names: list[str]) -> None:
    others = {name for name in names if "allreduce" not in name.replace("_", "")}
    expect(
        not others,
        got=f"the right means, by {' and '.join(sorted(others))}",
        think="which collective the text asks for. How many numbers does this one give "
        "each rank, when all it needs is their sum?",
    )


# 11b-no-sync --------------------------------------------------------------------------


@exercise("11b-no-sync", in_ranks=True)
def check_11b_no_sync(average_with_hooks):
    hook = "what this line gets: a hook added by register_post_accumulate_grad_hook "
    hook += "is called with the parameter, one added by register_hook with a gradient"
    frozen = "which parameters get a gradient: a frozen one does not, and takes no hook"
    for ranks, some_frozen in (2, False), (3, True), (5, False), (1, False):
        where = f" in {ranks} ranks"
        where += ", where one parameter is frozen" if some_frozen else ""
        begin = f"average_with_hooks(model), then loss.backward(){where}"
        with trying(begin, think=frozen if some_frozen else hook) as expect:
            args = average_with_hooks, some_frozen
            found = run_ranks(try_no_sync, *args, world_size=ranks, timeout=PATIENCE)
            _expect_no_sync(expect, found[0])
        with trying(f"loss.backward(){where}") as expect:
            _expect_sync_outside_no_sync(expect, found)
        with trying(f"loss.backward() inside `with no_sync():`{where}") as expect:
            _expect_quiet_inside_no_sync(expect, found)
            _expect_quiet_after_forward_outside(expect, found)
        other = f"another model's loss.backward() inside `with no_sync():`{where}"
        with trying(other) as expect:
            _expect_own_switch_of_no_sync(expect, found)
        for error in "ValueError", "KeyboardInterrupt":
            after = f"loss.backward() after a `with no_sync():` that ended in {error}"
            with trying(after + where) as expect:
                _expect_sync_after_error(expect, found, error)
        with trying(f"3 micro-batches, two of them inside no_sync,{where}") as expect:
            _expect_accumulated_with_no_sync(expect, found)
        with trying(f"3 such steps{where}") as expect:
            _expect_training_with_no_sync(expect, found)


def _expect_no_sync(expect, notes: dict) -> None:
    expect(
        "returned" not in notes,
        got=notes.get("returned"),
        think="what is to be returned: a function no_sync, for `with no_sync():`"
        + notes.get("think", ""),
    )


def _expect_sync_outside_no_sync(expect, found: list[dict]) -> None:
    loud, ranks = [rank["plain"] for rank in found], len(found)
    expect(
        loud[0]["sent"] or ranks == 1,
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
    sent, trained = len(loud[0]["sent"]), found[0]["trained"]
    expect(
        sent <= trained,
        got=f"{sent} collectives for {trained} parameters",
        think="how often the gradient of one parameter has to travel in one backward",
    )


def _expect_means_of_own_gradients(expect, notes: list[dict]) -> None:
    mean = torch.stack([rank["own"] for rank in notes]).mean(0)
    for number, rank in enumerate(notes):
        args = rank["gradient"], rank["own"], mean, len(notes)
        _expect_mean_gradient(expect, f"rank {number}", *args)


def _expect_own_switch_of_no_sync(expect, found: list[dict]) -> None:
    expect(
        found[0]["other's"] or len(found) == 1,
        got="no collective at all",
        think="where your switch is kept: has each module one of its own?",
    )


def _expect_quiet_inside_no_sync(expect, found: list[dict]) -> None:
    for number, rank in enumerate(found):
        quiet = rank["quiet"]
        think = "how a hook learns that it is called inside no_sync: does `no_sync` "
        think += "change the same variable"
        local = torch.allclose(quiet["gradient"], quiet["own"], rtol=0, atol=1e-9)
        if local:
            think = "the line of your hook that sends: is it run inside no_sync, too?"
        sent = f"{len(quiet['sent'])} collectives"
        expect(not quiet["sent"], got=sent, think=think)
        expect(
            local,
            got=f"rank {number} does not hold its own gradient",
            think="what a backward inside no_sync leaves in `.grad`: the sum of what "
            "this rank has computed, not divided by anything",
        )


def _expect_quiet_after_forward_outside(expect, found: list[dict]) -> None:
    sent = found[0]["sent after a forward outside"]
    expect(
        not sent,
        got=f"{len(sent)} collectives, where the forward came before the with block",
        think="the moment at which your code looks whether to send: in forward, or in "
        "backward",
    )


def _expect_sync_after_error(expect, found: list[dict], error: str) -> None:
    notes = found[0][error]
    expect(
        "swallowed" not in notes,
        got="the exception did not come out of the with block",
        think="who is to hear of the exception: is it caught by no_sync",
    )
    expect(
        notes["sent"] or len(found) == 1,
        got="no collective at all",
        think="what happens at the end of a with block whatever ended it, the stop "
        "button, too: try ... finally",
    )


def _expect_accumulated_with_no_sync(expect, found: list[dict]) -> None:
    notes = [rank["accumulated"] for rank in found]
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
            "get",
        )
    _expect_all_reduces_awaited(expect, notes[0]["forgotten"])
    _expect_means_of_own_gradients(expect, notes)
    sent, trained = len(notes[0]["sent"]), found[0]["trained"]
    expect(
        sent <= trained,
        got=f"{sent} collectives for {trained} parameters",
        think="who sends: the next backward outside. Does anything leave before it",
    )


def _expect_training_with_no_sync(expect, found: list[dict]) -> None:
    histories = [rank["together"] for rank in found]
    expect(
        all(torch.equal(histories[0], other) for other in histories),
        got="replicas that differ from each other after a step",
        think="what your hooks keep from one step for the next",
    )
    off = (histories[0] - found[0]["alone"]).abs().max().item()
    expect(
        off < 1e-9,
        got=f"parameters that are up to {off:.1e} away from the single process's",
        think="whether every micro-batch counts once, in every step",
    )
