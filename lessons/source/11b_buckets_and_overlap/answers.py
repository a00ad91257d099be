"""Wrong answers to the exercises of lesson 11b, as people give them."""

from contextlib import ExitStack, contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch.autograd import Variable

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


def _with_gradient(parameters):
    return [p for p in parameters if p.grad is not None]


@wrong(
    "11b-buckets",
    advice="2 times the mean.*sum that all_reduce gives",
    note="all_reduce sums. With Adam nobody would notice for a long time.",
)
def buckets_sum(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes), divide=False)


@wrong(
    "11b-buckets",
    advice="each message costs time of its own",
    note="The result is right, and each small message pays the full latency.",
)
def buckets_of_one(parameters, bucket_bytes):
    _average([[p] for p in reversed(_with_gradient(parameters))])


@wrong(
    "11b-buckets",
    advice="cannot leave before backward has ended",
    note="The result is right, and nothing can overlap.",
)
def buckets_all_in_one(parameters, bucket_bytes):
    _average([_with_gradient(parameters)[::-1]])


@wrong(
    "11b-buckets",
    advice="ready first in backward",
    note="The bucket that is sent first is then the one that is ready last.",
)
def buckets_in_forward_order(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters)[::-1], bucket_bytes))


@wrong(
    "11b-buckets",
    advice="which tensor holds the sum",
    note="torch.cat copies: the bucket is averaged, the gradients are not.",
)
def buckets_not_put_back(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes), put_back=False)


@wrong(
    "11b-buckets",
    advice="who sends it",
    note="The last bucket is never full, so nobody sends it.",
)
def buckets_without_the_last(parameters, bucket_bytes):
    bucket = []
    for parameter in reversed(_with_gradient(parameters)):
        bucket.append(parameter)
        if sum(p.nbytes for p in bucket) >= bucket_bytes:
            _average([bucket])
            bucket = []


@wrong(
    "11b-buckets",
    advice="what None tells the optimizer",
    note="Then nothing raises, and weight decay moves what should stay.",
)
def buckets_with_zeros(parameters, bucket_bytes):
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    _average(fill_buckets(parameters, bucket_bytes))


def _fill(parameters, is_full):
    buckets = []
    for parameter in reversed(_with_gradient(parameters)):
        if not buckets or is_full(buckets[-1]):
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


@wrong(
    "11b-buckets",
    advice="exactly 420 bytes is full",
    note="`>` stands where `>=` belongs.",
)
def buckets_more_than_full(parameters, bucket_bytes):
    def is_full(bucket):
        return sum(p.nbytes for p in bucket) > bucket_bytes

    _average(_fill(parameters, is_full))


@wrong(
    "11b-buckets",
    advice="bytes or numbers",
    note="numel() for nbytes: the buckets are four times too large.",
)
def buckets_counted_in_numbers(parameters, bucket_bytes):
    def is_full(bucket):
        return sum(p.numel() for p in bucket) >= bucket_bytes

    _average(_fill(parameters, is_full))


@wrong(
    "11b-buckets",
    advice="NoneType.*a parameter without a gradient",
    note="A frozen parameter has no gradient.",
)
def buckets_with_frozen_parameters(parameters, bucket_bytes):
    _average(fill_buckets(parameters, bucket_bytes))


@wrong(
    "11b-buckets",
    advice="rank 0 waits.*rank 1 has finished",
    state="HUNG",
    note="A collective ends only when every rank has called it.",
)
def buckets_only_on_rank_0(parameters, bucket_bytes):
    if dist.get_rank() == 0:
        _average(fill_buckets(_with_gradient(parameters), bucket_bytes))


@wrong(
    "11b-buckets",
    advice="nobody has waited for.*async_op=True",
    note="Right or wrong, as it happens: the sum may not be there yet.",
)
def buckets_not_awaited(parameters, bucket_bytes):
    for bucket in _fill_some(parameters, bucket_bytes):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        dist.all_reduce(flat, async_op=True)
        _unpack(flat / dist.get_world_size(), bucket)


def _fill_some(parameters, bucket_bytes):
    return _fill(
        parameters, lambda bucket: sum(p.nbytes for p in bucket) >= bucket_bytes
    )


def _unpack(flat, bucket):
    pieces = flat.split([p.numel() for p in bucket])
    for parameter, piece in zip(bucket, pieces, strict=True):
        parameter.grad.copy_(piece.view_as(parameter))


@right(
    "11b-buckets",
)
def buckets_all_under_way(parameters, bucket_bytes):
    """Start every message, then wait for them."""
    waiting = []
    for bucket in _fill_some(parameters, bucket_bytes):
        flat = torch.cat([p.grad.flatten() for p in bucket]) / dist.get_world_size()
        waiting.append((dist.all_reduce(flat, async_op=True), flat, bucket))
    for work, flat, bucket in waiting:
        work.wait()
        _unpack(flat, bucket)


@right(
    "11b-buckets",
)
def buckets_as_they_fill(parameters, bucket_bytes):
    """No list of buckets, and no message where there is only one rank."""
    if dist.get_world_size() == 1:
        return
    bucket, left = [], _with_gradient(parameters)
    while left:
        bucket.insert(0, left.pop())
        if not left or sum(p.grad.nbytes for p in bucket) >= bucket_bytes:
            flat = torch.nn.utils.parameters_to_vector([p.grad for p in bucket])
            dist.all_reduce(flat)
            _unpack(flat.div_(dist.get_world_size()), bucket)
            bucket = []


# 11b-no-sync --------------------------------------------------------------------------


def _hooks(module, average, after_exceptions=True, quiet=True, switch=None):
    switch = switch or {"on": True}

    def hook(parameter):
        if switch["on"]:
            average(parameter)

    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(hook)

    @contextmanager
    def no_sync():
        switch["on"] = not quiet
        try:
            yield
        except BaseException:
            switch["on"] = after_exceptions
            raise
        switch["on"] = True

    return no_sync


def _average_gradient(parameter):
    parameter.grad /= dist.get_world_size()
    dist.all_reduce(parameter.grad)


@wrong(
    "11b-no-sync",
    advice="the sum that all_reduce gives and the mean",
    note="all_reduce sums; that the mean was asked for is forgotten.",
)
def hooks_sum(module):
    return _hooks(module, lambda parameter: dist.all_reduce(parameter.grad))


@wrong(
    "11b-no-sync",
    advice="how your hook learns that it is inside no_sync",
    note="The result is right, and every micro-batch pays for an all-reduce.",
)
def hooks_never_quiet(module):
    return _hooks(module, _average_gradient, quiet=False)


@wrong(
    "11b-no-sync",
    advice="try ... finally",
    note="A switch that is turned on again below the `yield` stays off when the "
    "block raises.",
)
def hooks_quiet_after_an_exception(module):
    return _hooks(module, _average_gradient, after_exceptions=False)


@wrong(
    "11b-no-sync",
    advice="its gradient only, or all that has been accumulated",
    note="register_hook sees the new micro-batch's gradient; what was "
    "accumulated inside no_sync stays different in each rank, and the replicas "
    "drift apart. Published code did this: 1.5e-3 apart after 10 steps.",
)
def hooks_on_the_newest_gradient(module):
    """Diverges under accumulation: what no_sync has accumulated is never averaged."""
    switch = {"on": True}

    def hook(gradient):
        if not switch["on"]:
            return gradient
        gradient = gradient / dist.get_world_size()
        dist.all_reduce(gradient)
        return gradient

    for parameter in module.parameters():
        parameter.register_hook(hook)

    @contextmanager
    def no_sync():
        switch["on"] = False
        try:
            yield
        finally:
            switch["on"] = True

    return no_sync


@wrong(
    "11b-no-sync",
    advice="does what `no_sync` changes reach",
    note="Without nonlocal, `quiet = True` in no_sync makes a new variable.",
)
def hooks_on_another_variable(module):
    quiet = False

    def hook(parameter):
        if not quiet:
            _average_gradient(parameter)

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(hook)

    @contextmanager
    def no_sync():
        quiet = True  # noqa: F841
        yield

    return no_sync


_one_switch = {"on": True}


@wrong(
    "11b-no-sync",
    advice="has each module one of its own",
    note="A global variable is one switch for all modules.",
)
def hooks_with_one_switch_for_all(module):
    return _hooks(module, _average_gradient, switch=_one_switch)


@wrong(
    "11b-no-sync",
    advice="a function no_sync, not called",
    note="They return the result of no_sync() instead of the function.",
)
def hooks_called(module):
    return _hooks(module, _average_gradient)()


@wrong(
    "11b-no-sync",
    advice="`@contextmanager` there",
    note="A generator function alone cannot stand after `with`.",
)
def hooks_bare_generator(module):
    return _hooks(module, _average_gradient).__wrapped__


@wrong(
    "11b-no-sync",
    advice="register_post_accumulate_grad_hook is called with the parameter",
    note="Written for another kind of hook: this one gets the parameter only.",
)
def hooks_that_expect_a_gradient(module):
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda gradient, _: gradient / 2)
    return nullcontext


@wrong(
    "11b-no-sync",
    advice="a frozen one does not, and takes no hook",
    note="Every parameter gets a hook; torch refuses one on a parameter that is "
    "frozen.",
)
def hooks_on_frozen_parameters(module):
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: None)
    return _hooks(module, _average_gradient)


@wrong(
    "11b-no-sync",
    advice="not divided by anything",
    note="The division stands before the question whether to send, so inside "
    "no_sync the gradient is divided as well.",
)
def hooks_that_divide_in_silence(module):
    quiet = []

    def hook(parameter):
        parameter.grad /= dist.get_world_size()
        if not quiet:
            dist.all_reduce(parameter.grad)

    return _with_switch(module, hook, quiet)


def _with_switch(module, hook, quiet):
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(hook)

    @contextmanager
    def no_sync():
        quiet.append(True)
        try:
            yield
        finally:
            quiet.clear()

    return no_sync


@right(
    "11b-no-sync",
)
def hooks_and_a_class(module):
    class Quiet:
        on = False

        def __enter__(self):
            Quiet.on = True

        def __exit__(self, *error):
            Quiet.on = False

    def average(parameter):
        if not Quiet.on:
            _average_gradient(parameter)

    for parameter in filter(lambda p: p.requires_grad, module.parameters()):
        parameter.register_post_accumulate_grad_hook(average)
    return Quiet


@right(
    "11b-no-sync",
)
def hooks_taken_off(module):
    """Inside no_sync there are no hooks at all."""
    handles = []

    def hang():
        for parameter in filter(lambda p: p.requires_grad, module.parameters()):
            hook = parameter.register_post_accumulate_grad_hook(_average_gradient)
            handles.append(hook)

    def no_sync():
        while handles:
            handles.pop().remove()
        stack = ExitStack()
        stack.callback(hang)
        return stack

    hang()
    return no_sync


@right(
    "11b-no-sync",
)
def hooks_that_wait_at_the_end(module):
    """Every all-reduce is started during backward, and awaited at its end."""
    under_way = []

    def finish():
        for work, parameter in under_way:
            work.wait()
            parameter.grad /= dist.get_world_size()
        under_way.clear()

    def start(parameter):
        if quiet:
            return
        if not under_way:
            Variable._execution_engine.queue_callback(finish)
        under_way.append((dist.all_reduce(parameter.grad, async_op=True), parameter))

    quiet = []
    return _with_switch(module, start, quiet)
