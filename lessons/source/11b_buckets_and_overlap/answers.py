"""Wrong answers to the exercises of lesson 11b, as people give them."""

from contextlib import ExitStack, contextmanager, nullcontext, suppress
from operator import call

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable

from demos.ddp.ddp_from_scratch import fill_buckets
from lessons.source.sample_answers import right, wrong

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
    advice="2.00 times the mean.*sum that all_reduce gives",
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
    advice="by how many ranks you divide",
    note="2 stands where dist.get_world_size() belongs.",
)
def buckets_divided_by_two(parameters, bucket_bytes):
    _average(fill_buckets(_with_gradient(parameters), bucket_bytes))
    for parameter in _with_gradient(parameters):
        parameter.grad *= dist.get_world_size() / 2


@wrong("11b-buckets", advice="not the parameters")
def buckets_of_parameters(parameters, bucket_bytes):
    for bucket in fill_buckets(parameters, bucket_bytes):
        for parameter in bucket:
            dist.all_reduce(parameter.data.fill_(1.0))


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
    advice="gets for each bucket, from the first to the last",
    note="A new bucket is opened as soon as one is full, even if nothing is "
    "left to put into it.",
)
def buckets_with_an_empty_last(parameters, bucket_bytes):
    buckets = [[]]
    for parameter in reversed(_with_gradient(parameters)):
        buckets[-1].append(parameter)
        if sum(p.nbytes for p in buckets[-1]) >= bucket_bytes:
            buckets.append([])
    _average(buckets)


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
    note="A collective ends only when every rank has called it.",
    state="HUNG",
)
def buckets_only_on_rank_0(parameters, bucket_bytes):
    if dist.get_rank() == 0:
        _average(fill_buckets(_with_gradient(parameters), bucket_bytes))


@wrong("11b-buckets", advice="still has its own gradient")
def buckets_nothing(parameters, bucket_bytes):
    pass


@wrong(
    "11b-buckets",
    advice="whether a bucket may hold more than",
    note="A bucket that is closed before it is full. Torch fills first, too.",
)
def buckets_never_overfull(parameters, bucket_bytes):
    buckets = []
    for parameter in reversed(_with_gradient(parameters)):
        held = sum(p.nbytes for p in buckets[-1]) if buckets else bucket_bytes
        if held + parameter.nbytes > bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    _average(buckets)


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


@wrong(
    "11b-buckets",
    advice="64-bit numbers.*differs from the mean",
    note="torch.zeros makes 32-bit numbers, whatever the gradients are.",
)
def buckets_in_32_bits(parameters, bucket_bytes):
    for bucket in _fill_some(parameters, bucket_bytes):
        flat = torch.zeros(sum(p.numel() for p in bucket))
        torch.cat([p.grad.flatten().float() for p in bucket], out=flat)
        dist.all_reduce(flat)
        _unpack(flat.to(bucket[0]) / dist.get_world_size(), bucket)


@wrong("11b-buckets", advice="no parameter has a gradient.*what is left to send")
def buckets_with_an_empty_first(parameters, bucket_bytes):
    buckets = [[]]
    for parameter in reversed(_with_gradient(parameters)):
        if sum(p.nbytes for p in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    _average(buckets)


@wrong(
    "11b-buckets",
    advice="whether a bucket can be empty when it is sent",
    note="Opened as soon as the last one is full, and sent with nothing in it.",
)
def buckets_and_an_empty_message(parameters, bucket_bytes):
    buckets = _fill_some(parameters, bucket_bytes)
    _average(buckets)
    if buckets and sum(p.nbytes for p in buckets[-1]) >= bucket_bytes:
        dist.all_reduce(torch.empty(0, device=buckets[0][0].device))


@wrong("11b-buckets", advice="it is to leave first")
def buckets_last_one_first(parameters, bucket_bytes):
    _average(_fill_some(parameters, bucket_bytes)[::-1])


@wrong("11b-buckets", advice="who else uses")
def buckets_turn_the_list(parameters, bucket_bytes):
    parameters.reverse()
    _average(_fill_some(parameters[::-1], bucket_bytes))


@wrong("11b-buckets", advice="still has its own|same gradient of every rank")
def buckets_of_rank_0(parameters, bucket_bytes):
    for bucket in _fill_some(parameters, bucket_bytes):
        flat = torch.cat([p.grad.flatten() for p in bucket])
        dist.broadcast(flat, src=0)
        _unpack(flat, bucket)


def _fill_some(parameters, bucket_bytes):
    return _fill(
        parameters, lambda bucket: sum(p.nbytes for p in bucket) >= bucket_bytes
    )


def _unpack(flat, bucket):
    pieces = flat.split([p.numel() for p in bucket])
    for parameter, piece in zip(bucket, pieces, strict=True):
        parameter.grad.copy_(piece.view_as(parameter))


@right("11b-buckets")
def buckets_all_under_way(parameters, bucket_bytes):
    """Start every message, then wait for them."""
    waiting = []
    for bucket in _fill_some(parameters, bucket_bytes):
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
    bucket, left = [], _with_gradient(parameters)
    while left:
        bucket.insert(0, left.pop())
        if not left or sum(p.grad.nbytes for p in bucket) >= bucket_bytes:
            flat = torch.nn.utils.parameters_to_vector([p.grad for p in bucket])
            dist.all_reduce(flat)
            _unpack(flat.div_(dist.get_world_size()), bucket)
            bucket = []


@wrong(
    "11b-buckets",
    advice="which collective the text asks for",
    note="The right means. Each rank gets every rank's bucket, to add them itself.",
)
def gathers_each_bucket(parameters, bucket_bytes):
    for bucket in fill_buckets(_with_gradient(parameters), bucket_bytes):
        message = torch.cat([p.grad.flatten() for p in bucket])
        everyones = [torch.empty_like(message) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, message)
        pieces = torch.stack(everyones).mean(0).split([p.numel() for p in bucket])
        for p, piece in zip(bucket, pieces, strict=True):
            p.grad = piece.view_as(p)


@wrong(
    "11b-buckets",
    advice="other messages: barrier.*what would go wrong without",
    note="A barrier is made of messages, and an all-reduce waits anyway.",
)
def buckets_and_a_barrier(parameters, bucket_bytes):
    dist.barrier()
    _average(_fill_some(parameters, bucket_bytes))


@wrong("11b-buckets", advice="other messages: all_gather.*what would go wrong without")
def buckets_and_their_number(parameters, bucket_bytes):
    buckets = _fill_some(parameters, bucket_bytes)
    lengths = [None] * dist.get_world_size()
    dist.all_gather_object(lengths, len(buckets))
    assert len(set(lengths)) == 1
    _average(buckets)


@wrong(
    "11b-buckets", advice="which gradients were in a bucket in this call", given=call
)
class KeepsThePlanOfTheFirstCall:
    """It keeps the places of the parameters that had a gradient then."""

    def __init__(self):
        self.plans = {}

    def __call__(self, parameters, bucket_bytes):
        key = len(parameters), bucket_bytes
        place = {id(parameter): n for n, parameter in enumerate(parameters)}
        if key not in self.plans:
            buckets = _fill_some(parameters, bucket_bytes)
            self.plans[key] = [[place[id(p)] for p in bucket] for bucket in buckets]
        kept = [[parameters[n] for n in places] for places in self.plans[key]]
        _average(list(filter(None, map(_with_gradient, kept))))


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


@wrong("11b-no-sync", advice="the sum that all_reduce gives and the mean")
def hooks_sum(module):
    return _hooks(module, lambda parameter: dist.all_reduce(parameter.grad))


@wrong(
    "11b-no-sync",
    advice="inside no_sync",
    note="The result is right, and every micro-batch pays for an all-reduce.",
)
def hooks_never_quiet(module):
    return _hooks(module, _average_gradient, quiet=False)


@wrong("11b-no-sync", advice="try ... finally")
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


@wrong("11b-no-sync", advice="in the end: is it")
def hooks_that_average_parameters(module):
    def average(parameter):
        parameter.data /= dist.get_world_size()
        dist.all_reduce(parameter.data)

    return _hooks(module, average)


@wrong(
    "11b-no-sync",
    advice="which tensor holds the sum in the end",
    note="The sum is in a tensor that nobody reads.",
)
def hooks_on_a_copy(module):
    return _hooks(module, lambda parameter: dist.all_reduce(parameter.grad.clone()))


@wrong(
    "11b-no-sync",
    advice="does what `no_sync` changes reach the hooks",
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
    advice="another model's.*has each module one of its own",
    note="A global variable is one switch for all modules.",
)
def hooks_with_one_switch_for_all(module):
    return _hooks(module, _average_gradient, switch=_one_switch)


@wrong("11b-no-sync", advice="return the function, without calling it")
def hooks_called(module):
    return _hooks(module, _average_gradient)()


@wrong(
    "11b-no-sync",
    advice="is `@contextmanager` there",
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
    advice="nobody has waited for.*async_op=True",
    note="Right or wrong, as it happens: the sum may not be there yet.",
)
def hooks_not_awaited(module):
    def average(parameter):
        parameter.grad /= dist.get_world_size()
        dist.all_reduce(parameter.grad, async_op=True)

    return _hooks(module, average)


@wrong(
    "11b-no-sync",
    advice="in 3 ranks.*by how many ranks you divide",
    note="2 stands where dist.get_world_size() belongs.",
)
def hooks_divided_by_two(module):
    def average(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2

    return _hooks(module, average)


@wrong("11b-no-sync", advice="a frozen one does not, and takes no hook")
def hooks_on_frozen_parameters(module):
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: None)
    return _hooks(module, _average_gradient)


@wrong("11b-no-sync", advice="not divided by anything")
def hooks_that_divide_in_silence(module):
    quiet = []

    def hook(parameter):
        parameter.grad /= dist.get_world_size()
        if not quiet:
            dist.all_reduce(parameter.grad)

    return _with_switch(module, hook, quiet)


@wrong("11b-no-sync", advice="is it caught by no_sync")
def hooks_that_swallow(module):
    no_sync = _hooks(module, _average_gradient)

    @contextmanager
    def quietly():
        with no_sync(), suppress(Exception):
            yield

    return quietly


@wrong("11b-no-sync", advice="keep from one step for the next")
def hooks_that_work_once(module):
    handles, quiet = [], []

    def hook(parameter):
        if not quiet:
            _average_gradient(parameter)
            calls.append(parameter)
        if len(calls) > 5 * len(handles):
            for handle in handles:
                handle.remove()

    calls = []
    for parameter in module.parameters():
        if parameter.requires_grad:
            handles.append(parameter.register_post_accumulate_grad_hook(hook))
    return _with_switch(torch.nn.Module(), hook, quiet)


@wrong(
    "11b-no-sync",
    advice="still the rank's own: has each of them a hook",
    note="`children()` are the modules one level down; `parameters()` are all.",
)
def hooks_on_layers_only(module):
    """Not on the module's own parameters, and not on those of layers in layers."""
    layers = nn.ModuleList()
    for layer in module.children():
        if not list(layer.children()):
            layers.append(layer)
    return _hooks(layers, _average_gradient)


@wrong(
    "11b-no-sync",
    advice="Does anything leave before it",
    note="The gradients are right, and no message has been saved.",
)
def hooks_and_a_last_word(module):
    """When the block ends, it averages what has accumulated; so all is sent twice."""
    loud = _hooks(module, _average_gradient)

    @contextmanager
    def no_sync():
        with loud():
            yield
        for parameter in module.parameters():
            if parameter.grad is not None:
                _average_gradient(parameter)

    return no_sync


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


@wrong(
    "11b-no-sync",
    advice="only those that are trained",
    note="torch refuses such a hook, so each is thawed for a moment.",
)
def hooks_on_frozen_ones_too(module):
    thawed = [p for p in module.parameters() if not p.requires_grad]
    for parameter in thawed:
        parameter.requires_grad_(True)
    no_sync = _hooks(module, _average_gradient)
    for parameter in thawed:
        parameter.requires_grad_(False)
    return no_sync


@wrong(
    "11b-no-sync",
    advice="the stop button, too",
    note="`except Exception` does not catch KeyboardInterrupt.",
)
def hooks_quiet_if_no_stop_button(module):
    quiet = []

    def average(parameter):
        if not quiet:
            _average_gradient(parameter)

    for parameter in filter(lambda p: p.requires_grad, module.parameters()):
        parameter.register_post_accumulate_grad_hook(average)

    @contextmanager
    def no_sync():
        quiet.append(True)
        try:
            yield
        except Exception:
            quiet.pop()
            raise
        quiet.pop()

    return no_sync


@right("11b-no-sync")
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


@right("11b-no-sync")
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


@right("11b-no-sync")
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


@wrong(
    "11b-no-sync",
    advice="a hook on every parameter",
    note="A no_sync that is always right, because nothing ever travels.",
)
def hooks_none(module):
    return nullcontext


@wrong("11b-no-sync", advice="what is to be returned")
def hooks_nothing(module):
    pass


@wrong("11b-buckets", advice="what a parameter without a gradient holds", given=call)
class KeepsTheFirstBuckets:
    """It fills buckets once: another step may have other gradients."""

    def __init__(self):
        self.buckets = {}

    def __call__(self, parameters, bucket_bytes):
        key = (*map(id, parameters), bucket_bytes)
        if key not in self.buckets:
            with_gradient = [p for p in parameters if p.grad is not None]
            self.buckets[key] = fill_buckets(with_gradient, bucket_bytes)
        _average(self.buckets[key])


@wrong("11b-no-sync", advice="by barrier.*what a barrier is made of")
def hooks_that_wait_for_the_others(module):
    """Inside no_sync nothing is averaged, and the ranks stay together all the same."""
    quiet = []

    def hook(parameter):
        if quiet:
            dist.barrier()
        else:
            _average_gradient(parameter)

    return _with_switch(module, hook, quiet)


@wrong(
    "11b-no-sync", advice="are they still there", note="What had accumulated is gone."
)
def hooks_that_tidy_up_after_an_exception(module):
    no_sync = _hooks(module, _average_gradient)

    @contextmanager
    def tidy():
        try:
            with no_sync():
                yield
        except BaseException:
            module.zero_grad()
            raise

    return tidy


@wrong(
    "11b-no-sync",
    advice=r"inside a second `with no_sync.*what `no_sync\(\)` gives each time",
    note="A generator's context can be entered once.",
)
def hooks_and_one_context(module):
    context = _hooks(module, _average_gradient)()
    return lambda: context


@wrong(
    "11b-no-sync",
    advice="inside a second `with no_sync.*what the first block has left behind",
)
def hooks_with_old_handles(module):
    """Each block hangs new hooks when it ends; the next takes the first ones off."""

    def hang():
        trained = filter(lambda p: p.requires_grad, module.parameters())
        return [
            p.register_post_accumulate_grad_hook(_average_gradient) for p in trained
        ]

    handles = hang()

    @contextmanager
    def no_sync():
        for handle in handles:
            handle.remove()
        try:
            yield
        finally:
            hang()

    return no_sync


@right("11b-no-sync")
def hooks_before_the_gradient_is_added(module):
    """Each hook returns what is to be added, so that the mean of all is there then."""
    quiet = []

    def hang(parameter):
        def hook(new):
            if quiet:
                return None
            old = torch.zeros_like(new) if parameter.grad is None else parameter.grad
            total = old + new
            dist.all_reduce(total)
            return total / dist.get_world_size() - old

        parameter.register_hook(hook)

    for parameter in module.parameters():
        if parameter.requires_grad:
            hang(parameter)
    return _with_switch(nn.Module(), None, quiet)


@wrong(
    "11b-no-sync",
    advice="in forward, or in backward",
    note="As torch's DDP does: there the forward belongs inside, too.",
)
def no_sync_looks_in_forward(module):
    on = send = True

    def look(*_):
        nonlocal send
        send = on

    def average(parameter):
        if send:
            parameter.grad /= dist.get_world_size()
            dist.all_reduce(parameter.grad)

    module.register_forward_pre_hook(look)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)

    @contextmanager
    def no_sync():
        nonlocal on
        on = False
        try:
            yield
        finally:
            on = True

    return no_sync
