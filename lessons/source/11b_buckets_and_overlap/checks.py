"""The checks of lesson 11b: buckets, and accumulation without traffic."""

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import in_ranks, run_trial

from .buckets_and_no_sync import SHAPES, small_ddp_model, try_buckets, try_no_sync


def _expect_mean_gradient(expect, where: str, got, own: torch.Tensor, mean) -> None:
    """`got` must be the mean of all ranks' gradients."""
    close = 1e-9 if mean.dtype == torch.float64 else 1e-5
    off = (got - mean).abs().max().item()
    if off < close:
        return
    expect(
        not torch.equal(got, own),
        got=f"{where} still has its own gradient",
        think="is it sent at all, and which tensor holds the sum in the end: is it "
        "`parameter.grad`?",
    )
    factor = ((got * mean).sum() / mean.square().sum()).item()
    expect(
        mean.numel() == 1 or not torch.allclose(got, factor * mean, rtol=0, atol=close),
        got=f"{where} has {factor:.3g} times the mean",
        think="the sum that all_reduce gives: by what is it divided?",
    )
    expect(
        False,
        got=f"{where} differs from the mean of all ranks' gradients by {off:.1e}",
        think="which numbers end up in this gradient: its own of every rank, once?",
    )


def _expect_all_reduces_awaited(expect, forgotten: int) -> None:
    expect(
        not forgotten,
        got=f"{forgotten} all-reduces that were not waited for",
        think="what async_op=True gives back, and when the sum is there",
    )


# 11b-buckets --------------------------------------------------------------------------

BYTES = [4 * torch.Size(shape).numel() for shape in SHAPES]


@exercise("11b-buckets", in_ranks=True)
def check_11b_buckets(average_gradients):
    limits = 2000, sum(BYTES[-2:]), 1, sum(BYTES)  # the second is met exactly
    for ranks, cases in [
        (2, limits),
        (3, [2000]),
        (1, [3000]),
    ]:
        think = "what this line gets for each bucket, from the first to the last"
        with trying(_call_for_buckets(cases, ranks), think=think):
            args = average_gradients, cases
            found = run_trial(try_buckets, *args, ranks=ranks)
        for case, notes in zip(cases, zip(*found, strict=True), strict=True):
            with trying(_call_for_buckets([case], ranks)) as expect:
                _expect_all_reduces_only(expect, notes[0])
                _expect_last_bucket_sent(expect, notes[0], case)
                _expect_buckets_averaged(expect, notes)
                if ranks > 1:
                    _expect_buckets(expect, notes[0], case)


def _call_for_buckets(limits: list[int], ranks: int) -> str:
    shown = " or ".join(map(str, limits))
    return f"average_gradients({len(SHAPES)} parameters, {shown}) {in_ranks(ranks)}"


def _expect_buckets_averaged(expect, notes: tuple[dict]) -> None:
    _expect_all_reduces_awaited(expect, notes[0]["forgotten"])
    owns = list(zip(*(rank["before"] for rank in notes), strict=True))
    means = [torch.stack(own).mean(0) for own in owns]
    for place, (own, mean) in enumerate(zip(owns, means, strict=True)):
        for number, rank in enumerate(notes):
            got, where = rank["after"][place], f"parameter {place} of rank {number}"
            expect(
                got is not None and got.shape == own[0].shape,
                got=f"{where} has a gradient of shape {getattr(got, 'shape', None)}",
                think="how a piece of the flat bucket gets its shape back",
            )
            first = got.flatten()[0]
            others = [k for k, m in enumerate(means) if (m - first).abs().min() < 1e-6]
            expect(
                place in others or not others,
                got=f"{where} begins with the mean of parameter {others and others[0]}",
                think="the pieces of a bucket: do they come out in the order in which "
                "they went in?",
            )
            _expect_mean_gradient(expect, where, got, own[number], mean)


def _in_buckets(sizes: list[int], limit: int) -> list[int]:
    """The buckets, when a new one is opened as soon as the last one is full."""
    buckets = []
    for size in sizes:
        if not buckets or buckets[-1] >= limit:
            buckets.append(0)
        buckets[-1] += size
    return buckets


def _all_reduced_bytes(notes: dict) -> list[int]:
    return [size for name, size in notes["messages"] if name == "all_reduce"]


def _bytes_in_backward(notes: dict) -> list[int]:
    """The bytes of all gradients, the last one first."""
    return [grad.nbytes for grad in reversed(notes["before"])]


def _expect_all_reduces_only(expect, notes: dict) -> None:
    others = sorted({name for name, _ in notes["messages"]} - {"all_reduce"})
    expect(
        not others,
        got=f"messages by {' and '.join(others)}",
        think="which collective the text asks for",
    )


def _expect_last_bucket_sent(expect, notes: dict, limit: int) -> None:
    *full, last = _in_buckets(_bytes_in_backward(notes), limit)
    expect(
        not full or _all_reduced_bytes(notes) != full,
        got=f"all buckets but the last, whose {last} bytes are never sent",
        think="the last bucket: when it is sent, if it never gets full",
    )


def _expect_buckets(expect, notes: dict, limit: int) -> None:
    """One all-reduce for each bucket, in order."""
    sizes = _bytes_in_backward(notes)
    right, sent = _in_buckets(sizes, limit), _all_reduced_bytes(notes)
    likely = [
        (sizes, "why gradients share a bucket: each message costs time of its own"),
        (_in_buckets(sizes, limit + 1), f"whether a bucket of exactly {limit} bytes is "
         "full"),
        ([sum(sizes)], "when a bucket is full. A bucket that waits for all gradients "
         "cannot leave before backward has ended"),
        (_in_buckets(sizes[::-1], limit), "which parameter's gradient is ready first "
         "in backward"),
    ]  # fmt: skip
    same = [a == b for a, b in zip(sent, right, strict=False)]
    think = f"message {[*same, False].index(False)}: gradients join it, the last "
    think += f"parameter's first, until it holds {limit} bytes or more. Right are "
    think += str(right)
    think = next((advice for buckets, advice in likely if sent == buckets), think)
    got = f"{len(sent)} all-reduces for {len(sizes)} gradients, of {sent} bytes"
    expect(sent == right, got=got, think=think)


# 11b-no-sync --------------------------------------------------------------------------

HOOK = "what this line gets: a hook added by register_post_accumulate_grad_hook is "
HOOK += "called with the parameter, one added by register_hook with a gradient. And "
HOOK += "what `no_sync()` gives each time: can it stand after `with`?"


@exercise("11b-no-sync", in_ranks=True)
def check_11b_no_sync(average_with_hooks):
    trials = {
        "loss.backward()": _expect_sync_outside,
        "loss.backward() inside `with no_sync():`": _expect_quiet_inside,
        "3 micro-batches, two of them inside no_sync,": _expect_all_accumulated,
        "loss.backward() after a `with no_sync():` that ended in an exception":
            _expect_sync_after_error,
    }  # fmt: skip
    for ranks in 2, 3, 1:
        where = f" {in_ranks(ranks)}"
        call = "no_sync = average_with_hooks(model), and backward" + where
        with trying(call, think=HOOK):
            found = run_trial(try_no_sync, average_with_hooks, ranks=ranks)
        for tried, expected in trials.items():
            with trying(tried + where) as expect:
                expected(expect, found)


def _expect_sent(expect, found: list[dict], trial: str, think: str) -> None:
    sent = found[0][trial]["messages"]
    expect(sent or len(found) == 1, got="no collective at all", think=think)


def _expect_means(expect, found: list[dict], trial: str) -> None:
    notes = [rank[trial] for rank in found]
    _expect_all_reduces_awaited(expect, notes[0]["forgotten"])
    mean = torch.stack([rank["own"] for rank in notes]).mean(0)
    names, parameters = zip(*small_ddp_model().named_parameters(), strict=True)
    sizes = [p.numel() for p in parameters]
    for number, rank in enumerate(notes):
        flat = rank["gradient"], rank["own"], mean
        pieces = zip(names, *(one.split(sizes) for one in flat), strict=True)
        for name, *args in pieces:
            _expect_mean_gradient(expect, f"{name} of rank {number}", *args)
    sent, trained = len(notes[0]["messages"]), found[0]["trained"]
    expect(
        sent <= trained,
        got=f"{sent} messages for {trained} parameters",
        think="who sends, and how often the gradient of one parameter has to travel. "
        "Does anything leave before the backward outside?",
    )


def _expect_sync_outside(expect, found: list[dict]) -> None:
    think = "who averages the gradients: a hook on every parameter, called by backward"
    _expect_sent(expect, found, "outside", think)
    _expect_means(expect, found, "outside")


def _expect_quiet_inside(expect, found: list[dict]) -> None:
    for number, rank in enumerate(found):
        quiet = rank["inside"]
        expect(
            not quiet["messages"],
            got=f"{len(quiet['messages'])} messages",
            think="how your hook learns that it is inside no_sync: does what `no_sync` "
            "changes reach the line that sends?",
        )
        expect(
            torch.allclose(quiet["gradient"], quiet["own"], rtol=0, atol=1e-9),
            got=f"rank {number} does not hold its own gradient",
            think="what a backward inside no_sync leaves in `.grad`: the sum of what "
            "this rank has computed, not divided by anything",
        )


def _expect_sync_after_error(expect, found: list[dict]) -> None:
    think = "what happens at the end of a with block whatever ended it: try ... finally"
    _expect_sent(expect, found, "after", think)


def _expect_all_accumulated(expect, found: list[dict]) -> None:
    think = "the end of the block: do the hooks work again?"
    _expect_sent(expect, found, "accumulate", think)
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
    _expect_means(expect, found, "accumulate")
