"""Wrong answers to the exercises of lesson 11b, as people give them."""

from contextlib import ExitStack, contextmanager

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.ddp.ddp_from_scratch import fill_buckets

# 11b-buckets --------------------------------------------------------------------------


def _average(buckets, divide=True, put_back=True):
    for bucket in buckets:
        flat = torch.cat([p.grad.flatten() for p in bucket])
        dist.all_reduce(flat)
        if divide:
            flat /= dist.get_world_size()
        for p, piece in zip(
            bucket, flat.split([p.numel() for p in bucket]), strict=True
        ):
            if put_back:
                p.grad = piece.view_as(p)


@wrong(
    "11b-buckets",
    advice="when it is sent",
    note="The last bucket is never full, so it is never sent.",
)
def buckets_without_the_last(parameters, bucket_bytes):
    bucket = []
    for parameter in reversed(parameters):
        bucket.append(parameter)
        if sum(p.nbytes for p in bucket) >= bucket_bytes:
            _average([bucket])
            bucket = []


@wrong(
    "11b-buckets",
    advice="2 times the mean.*sum that all_reduce gives",
    note="all_reduce sums. With Adam it goes unnoticed for a long time.",
)
def buckets_sum(parameters, bucket_bytes):
    _average(fill_buckets(parameters, bucket_bytes), divide=False)


@wrong(
    "11b-buckets",
    advice="each message costs time of its own",
    note="The result is right, and each small message pays the full latency.",
)
def buckets_of_one(parameters, bucket_bytes):
    _average([[p] for p in reversed(parameters)])


@wrong(
    "11b-buckets",
    advice="cannot leave before backward has ended",
    note="The result is right, and nothing can overlap.",
)
def buckets_all_in_one(parameters, bucket_bytes):
    _average([parameters[::-1]])


@wrong(
    "11b-buckets",
    advice="ready first in backward",
    note="The bucket that is sent first is then the one that is ready last.",
)
def buckets_in_forward_order(parameters, bucket_bytes):
    _average(fill_buckets(parameters[::-1], bucket_bytes))


@wrong(
    "11b-buckets",
    advice="which tensor holds the sum",
    note="torch.cat copies: the bucket is averaged, the gradients are not.",
)
def buckets_not_put_back(parameters, bucket_bytes):
    _average(fill_buckets(parameters, bucket_bytes), put_back=False)


@wrong(
    "11b-buckets",
    advice="not waited for.*async_op=True",
    note="Right or wrong, as it happens: the sum may not be there yet.",
)
def buckets_not_awaited(parameters, bucket_bytes):
    for bucket in fill_buckets(parameters, bucket_bytes):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        dist.all_reduce(flat, async_op=True)
        _unpack(flat / dist.get_world_size(), bucket)


def _unpack(flat, bucket):
    pieces = flat.split([p.numel() for p in bucket])
    for parameter, piece in zip(bucket, pieces, strict=True):
        parameter.grad.copy_(piece.view_as(parameter))


@right("11b-buckets")
def buckets_all_under_way(parameters, bucket_bytes):
    """Start every message, then wait for them."""
    waiting = []
    for bucket in fill_buckets(parameters, bucket_bytes):
        flat = torch.cat([p.grad.flatten() for p in bucket]) / dist.get_world_size()
        waiting.append((dist.all_reduce(flat, async_op=True), flat, bucket))
    for work, flat, bucket in waiting:
        work.wait()
        _unpack(flat, bucket)


@right("11b-buckets")
def buckets_as_they_fill(parameters, bucket_bytes):
    """No list of buckets, and no message where there is only one rank."""
    if dist.get_world_size() == 1:
        return
    bucket, left = [], list(parameters)
    while left:
        bucket.insert(0, left.pop())
        if not left or sum(p.grad.nbytes for p in bucket) >= bucket_bytes:
            flat = torch.nn.utils.parameters_to_vector([p.grad for p in bucket])
            dist.all_reduce(flat)
            _unpack(flat.div_(dist.get_world_size()), bucket)
            bucket = []


# 11b-no-sync --------------------------------------------------------------------------


class _Averaging:
    """A right answer, one method for each decision: the wrong ones override one."""

    def __init__(self, module):
        self.quiet = False
        for parameter in module.parameters():
            if parameter.requires_grad:
                self.hang(parameter)

    def hang(self, parameter):
        parameter.register_post_accumulate_grad_hook(self.hook)

    def hook(self, parameter):
        if not self.quiet:
            self.average(parameter.grad)

    def average(self, gradient):
        gradient /= dist.get_world_size()
        dist.all_reduce(gradient)

    @contextmanager
    def no_sync(self):
        self.quiet = True
        try:
            yield
        finally:
            self.quiet = False


def _no_sync_of(kind):
    return lambda module: kind(module).no_sync


@wrong(
    "11b-no-sync",
    advice="its gradient only, or all that has been accumulated",
    note="register_hook sees the newest gradient only: the replicas drift apart.",
    given=_no_sync_of,
)
class HooksOnTheNewestGradient(_Averaging):
    def hang(self, parameter):
        parameter.register_hook(self.hook)

    def hook(self, gradient):
        gradient = gradient.clone()
        if not self.quiet:
            self.average(gradient)
        return gradient


@wrong(
    "11b-no-sync",
    advice="try ... finally",
    note="A switch turned on again below the `yield` stays off after an exception.",
    given=_no_sync_of,
)
class HooksQuietAfterAnException(_Averaging):
    @contextmanager
    def no_sync(self):
        self.quiet = True
        yield
        self.quiet = False


@wrong(
    "11b-no-sync",
    advice="the sum that all_reduce gives",
    note="all_reduce sums; that the mean was asked for is forgotten.",
    given=_no_sync_of,
)
class HooksSum(_Averaging):
    def average(self, gradient):
        dist.all_reduce(gradient)


@wrong(
    "11b-no-sync",
    advice="how your hook learns that it is inside no_sync",
    note="The result is right, and every micro-batch pays for an all-reduce.",
    given=_no_sync_of,
)
class HooksNeverQuiet(_Averaging):
    def hook(self, parameter):
        self.average(parameter.grad)


@wrong(
    "11b-no-sync",
    advice="does what `no_sync` changes reach",
    note="Without nonlocal, `quiet = True` in no_sync makes a new variable.",
    given=_no_sync_of,
)
class HooksOnAnotherVariable(_Averaging):
    @contextmanager
    def no_sync(self):
        quiet = True  # noqa: F841
        yield


@wrong(
    "11b-no-sync",
    advice="not divided by anything",
    note="The division stands before the question whether to send.",
    given=_no_sync_of,
)
class HooksThatDivideInSilence(_Averaging):
    def hook(self, parameter):
        parameter.grad /= dist.get_world_size()
        if not self.quiet:
            dist.all_reduce(parameter.grad)


right("11b-no-sync", name="hooks_of_a_class")(_no_sync_of(_Averaging))


@right("11b-no-sync")
def hooks_taken_off(module):
    """Inside no_sync there are no hooks at all."""
    handles = []

    def hang():
        for parameter in filter(lambda p: p.requires_grad, module.parameters()):
            hook = parameter.register_post_accumulate_grad_hook(
                lambda parameter: _Averaging.average(None, parameter.grad)
            )
            handles.append(hook)

    def no_sync():
        while handles:
            handles.pop().remove()
        stack = ExitStack()
        stack.callback(hang)
        return stack

    hang()
    return no_sync
