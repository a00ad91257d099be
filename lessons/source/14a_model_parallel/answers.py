"""Answers to the exercises of lesson 14a that people give, right and wrong."""

from functools import cache
from itertools import combinations, pairwise

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong

# 14a-send -----------------------------------------------------------------------------


class Sends(torch.autograd.Function):
    """Right; the others below change one thing."""

    @staticmethod
    def forward(ctx, leaving, target):
        ctx.target, ctx.shape, ctx.dtype = target, leaving.shape, leaving.dtype
        dist.send(leaving.contiguous(), target)
        return leaving.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        gradient = torch.empty(ctx.shape, dtype=ctx.dtype)
        dist.recv(gradient, ctx.target)
        return gradient, None


@wrong(
    "14a-send",
    advice="not one number of shape",
    note="Nobody can call backward() on many numbers without an argument.",
)
class ReturnsTheActivations(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        Sends.forward(ctx, leaving, target)
        return leaving.clone()


@wrong("14a-send", advice="not a tensor with one number")
class ReturnsNothing(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        Sends.forward(ctx, leaving, target)


@wrong(
    "14a-send",
    advice="one gradient for each input",
    note="`target` is an input, too: its gradient is None.",
)
class ForgetsTheSecondInput(Sends):
    @staticmethod
    def backward(ctx, one):
        return Sends.backward(ctx, one)[0]


@wrong(
    "14a-send",
    advice="who sends and who receives",
    note="The other rank sends its gradient, and nobody takes it.",
    state="HUNG",
)
class DoesNotReceive(Sends):
    @staticmethod
    def backward(ctx, one):
        return torch.ones(ctx.shape, dtype=ctx.dtype), None


@wrong("14a-send", advice="the type and the layout")
class AlwaysFloat32(Sends):
    @staticmethod
    def backward(ctx, _):
        gradient = torch.empty(ctx.shape)
        dist.recv(gradient, ctx.target)
        return gradient, None


@wrong("14a-send", advice="contiguous")
class SendsAsItLies(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        ctx.target, ctx.shape, ctx.dtype = target, leaving.shape, leaving.dtype
        dist.send(leaving, target)
        return leaving.new_zeros(())


@wrong("14a-send", advice="3 ranks|who sends|exactly one")
class AlwaysToRankOne(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        return Sends.forward(ctx, leaving, 1)


@wrong("14a-send", advice="nothing added")
class AddsTheGradientOfTheNumber(Sends):
    @staticmethod
    def backward(ctx, one):
        return Sends.backward(ctx, one)[0] + one, None


@wrong("14a-send", advice="divided")
class DividesByTheRanks(Sends):
    @staticmethod
    def backward(ctx, one):
        gradient = Sends.backward(ctx, one)[0]
        gradient.div_(dist.get_world_size())
        return gradient, None


@wrong("14a-send", advice="who else uses")
class SquashesTheActivations(Sends):
    """Changes in place what the layers in front need for their backward."""

    @staticmethod
    def forward(ctx, leaving, target):
        number = Sends.forward(ctx, leaving, target)
        leaving.data.zero_()
        return number


@wrong(
    "14a-send",
    advice="the shape, the type|mixed up",
    note="With one batch under way nobody notices.",
)
class NotesOnTheClass(Sends):
    """Notes belong to one call: the next call overwrites these."""

    @staticmethod
    def forward(ctx, leaving, target):
        NotesOnTheClass.noted = leaving.shape
        return Sends.forward(ctx, leaving, target)

    @staticmethod
    def backward(ctx, one):
        ctx.shape = NotesOnTheClass.noted
        return Sends.backward(ctx, one)


@wrong("14a-send", advice="the shape, the type|mixed up")
class NotesOnAStack(Sends):
    """Right only if the newest goes back first."""

    noted = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, leaving, target):
        NotesOnAStack.noted.append(leaving.shape)
        return Sends.forward(ctx, leaving, target)

    @staticmethod
    def backward(ctx, one):
        ctx.shape = NotesOnAStack.noted.pop()
        return Sends.backward(ctx, one)


@wrong("14a-send", advice="not one number of shape")
class ReturnsAListOfOne(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        Sends.forward(ctx, leaving, target)
        return leaving.new_zeros(1)


@wrong("14a-send", advice="from whom")
class TakesWhatComesFirst(Sends):
    @staticmethod
    def backward(ctx, _):
        gradient = torch.empty(ctx.shape, dtype=ctx.dtype)
        dist.recv(gradient)
        return gradient, None


@wrong(
    "14a-send",
    advice="until after the way back",
    note="Layers in front may still need them for their own backward.",
)
class ReceivesIntoTheActivations(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        ctx.message = leaving.detach().contiguous()
        return Sends.forward(ctx, leaving, target)

    @staticmethod
    def backward(ctx, _):
        dist.recv(ctx.message, ctx.target)
        return ctx.message, None


@right("14a-send")
class SavesTheActivations(torch.autograd.Function):
    """Right, if not thrifty; the number is their sum."""

    @staticmethod
    def forward(ctx, leaving, target):
        ctx.save_for_backward(leaving)
        ctx.target = target
        dist.isend(leaving.contiguous(), target).wait()
        return leaving.sum()

    @staticmethod
    def backward(ctx, gradient_of_sum):
        (leaving,) = ctx.saved_tensors
        gradient = torch.zeros_like(leaving, memory_format=torch.contiguous_format)
        dist.irecv(gradient, ctx.target).wait()
        return gradient * gradient_of_sum, None


@right("14a-send")
class WithASetUp(torch.autograd.Function):
    """Right: the newer form, with `setup_context`."""

    @staticmethod
    def forward(leaving, target):
        dist.send(leaving.detach().contiguous(), dst=target)
        return torch.ones((), dtype=leaving.dtype, device=leaving.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        leaving, ctx.target = inputs
        ctx.empty = lambda: torch.empty(leaving.shape, dtype=leaving.dtype)

    @staticmethod
    def backward(ctx, _):
        gradient = ctx.empty()
        dist.recv(gradient, src=ctx.target)
        return gradient, None


# 14a-balanced-cut ---------------------------------------------------------------------


def _parts(counts):
    return list(pairwise([sum(counts[:place]) for place in range(len(counts) + 1)]))


def _all_counts(layers, devices):
    for cuts in combinations(range(1, layers), devices - 1):
        yield [b - a for a, b in pairwise((0, *cuts, layers))]


def _table(times, sends, memory, devices, limit, last_sends=False):
    """The slowest time and the list for all layers, or None."""

    @cache
    def best(end, left):
        if left == 0:
            return (0, ()) if end == 0 else None
        found = []
        for start in range(end):
            before = best(start, left - 1)
            if before and sum(memory[start:end]) <= limit:
                own = sum(times[start:end])
                if last_sends or end < len(times):
                    own += sends[end - 1]
                found.append((max(before[0], own), (*before[1], end - start)))
        return min(found, default=None)

    return best(len(times), devices)


@right("14a-balanced-cut")
def by_recursion(times, sends, memory, devices, limit):
    """Right: from the end, with a memory; NumPy's numbers."""
    found = _table(times, sends, memory, devices, limit)
    return None if found is None else np.array(found[1])


@right("14a-balanced-cut")
def by_bisection_of_levels(times, sends, memory, devices, limit):
    """Right: for each level that a device could have, can the devices reach the end?"""
    n = len(times)
    own = {
        (a, b): sum(times[a:b]) + (sends[b - 1] if b < n else 0)
        for a, b in combinations(range(n + 1), 2)
        if sum(memory[a:b]) <= limit
    }

    def reach(level):
        ways = {0: []}
        for _ in range(devices):
            ways = {
                b: [*ways[a], b - a]
                for (a, b), t in own.items()
                if a in ways and t <= level
            }
        return ways.get(n)

    levels = sorted(set(own.values()))
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(levels[middle]) else (middle + 1, high)
    return tuple(reach(levels[low])) if low < len(levels) else None


@wrong(
    "14a-balanced-cut",
    advice="how many ways there are",
    note="Right for the short cases: then 60 layers on 10 devices.",
    state="HUNG",
)
def tries_them_all(times, sends, memory, devices, limit):
    def slowest(counts):
        return max(
            sum(times[a:b]) + (sends[b - 1] if b < len(times) else 0)
            for a, b in _parts(counts)
        )

    fitting = [
        counts
        for counts in _all_counts(len(times), devices)
        if all(sum(memory[a:b]) <= limit for a, b in _parts(counts))
    ]
    return min(fitting, key=slowest, default=None)


@wrong("14a-balanced-cut", advice="the messages|its message")
def forgets_the_sends(times, sends, memory, devices, limit):
    return by_recursion(times, [0] * len(times), memory, devices, limit)


@wrong("14a-balanced-cut", advice="memory of each|any way at all")
def forgets_the_limit(times, sends, memory, devices, limit):
    return by_recursion(times, sends, memory, devices, float("inf"))


@wrong("14a-balanced-cut", advice="the last device")
def the_last_sends_too(times, sends, memory, devices, limit):
    found = _table(times, sends, memory, devices, limit, last_sends=True)
    return None if found is None else list(found[1])


@wrong("14a-balanced-cut", advice="exactly the limit|limit included")
def below_the_limit_only(times, sends, memory, devices, limit):
    smaller = [m * (1 + 1e-12) + 1e-12 for m in memory]
    return by_recursion(times, sends, smaller, devices, limit)


@wrong("14a-balanced-cut", advice="any way at all|every way|messages")
def equal_numbers(times, sends, memory, devices, limit):
    n = len(times)
    return [n // devices + (d < n % devices) for d in range(devices)]


@wrong(
    "14a-balanced-cut",
    advice="every way|there is a way|the messages",
    note="Greedy: it fits, and the last device has hardly anything to do.",
)
def fills_each_device(times, sends, memory, devices, limit):
    """Greedy: as many layers as fit, while the others still get one each."""
    counts, held = [0], 0
    for layer, need in enumerate(memory):
        others = devices - len(counts)
        if (
            counts[-1]
            and others
            and (held + need > limit or len(times) - layer <= others)
        ):
            counts.append(0)
            held = 0
        counts[-1] += 1
        held += need
    edges = _parts(counts)
    fits = all(sum(memory[a:b]) <= limit for a, b in edges)
    return counts if fits and len(counts) == devices else None


@wrong("14a-balanced-cut", advice="one for each device|any way at all")
def as_few_devices_as_it_takes(times, sends, memory, devices, limit):
    found = [_table(times, sends, memory, d, limit) for d in range(1, devices + 1)]
    found = [one for one in found if one is not None]
    return list(min(found)[1]) if found else None


@wrong("14a-balanced-cut", advice="every way that fits|the last")
def the_sum_instead_of_the_largest(times, sends, memory, devices, limit):
    """The least time for all messages together; the devices are not balanced."""
    fitting = [
        counts
        for counts in (_all_counts(len(times), devices) if len(times) < 20 else ())
        if all(sum(memory[a:b]) <= limit for a, b in _parts(counts))
    ]
    return min(
        fitting,
        key=lambda counts: sum(sends[b - 1] for _, b in _parts(counts)[:-1]),
        default=None,
    )


@wrong("14a-balanced-cut", advice="If not, None")
def an_empty_list_for_no_way(times, sends, memory, devices, limit):
    found = _table(times, sends, memory, devices, limit)
    return [] if found is None else list(found[1])


@wrong("14a-balanced-cut", advice="who else uses")
def eats_the_lists(times, sends, memory, devices, limit):
    found = by_recursion(list(times), list(sends), list(memory), devices, limit)
    times.clear()
    return found


# 14a-tied -----------------------------------------------------------------------------


def _mine(weight):
    mine = torch.zeros_like(weight) if weight.grad is None else weight.grad
    return mine.detach().contiguous()


def _swap(mine, peer):
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, peer)
    dist.recv(theirs, peer)
    request.wait()
    return theirs


@right("14a-tied")
def begins_to_send_and_receives(weight, peer):
    """Right."""
    mine = _mine(weight)
    weight.grad = mine + _swap(mine, peer)


@right("14a-tied")
def the_lower_rank_sends_first(weight, peer):
    """Right: they take turns."""
    mine = _mine(weight)
    theirs = torch.empty_like(mine)
    if dist.get_rank() < peer:
        dist.send(mine, peer)
        dist.recv(theirs, peer)
    else:
        dist.recv(theirs, peer)
        dist.send(mine, peer)
    weight.grad = theirs.add_(mine)


@wrong("14a-tied", advice="while both send", state="HUNG")
def both_send_first(weight, peer):
    mine = _mine(weight)
    theirs = torch.empty_like(mine)
    dist.send(mine, peer)
    dist.recv(theirs, peer)
    weight.grad = mine + theirs


@wrong("14a-tied", advice="the sum, or the mean")
def takes_the_mean(weight, peer):
    mine = _mine(weight)
    weight.grad = (mine + _swap(mine, peer)) / 2


@wrong("14a-tied", advice="how often")
def takes_the_other_one(weight, peer):
    weight.grad = _swap(_mine(weight), peer)


@wrong(
    "14a-tied",
    advice="others hold no copy",
    note="Right on two ranks; the ranks in between would have to call it.",
)
def by_all_reduce(weight, peer):
    weight.grad = _mine(weight)
    dist.all_reduce(weight.grad)


@wrong("14a-tied", advice="gradients")
def adds_up_the_weights(weight, peer):
    with torch.no_grad():
        weight += _swap(weight.detach().clone(), peer)


@wrong("14a-tied", advice="is None")
def forgets_that_it_may_be_none(weight, peer):
    mine = weight.grad.contiguous()
    weight.grad = mine + _swap(mine, peer)


@wrong("14a-tied", advice="weight.grad")
def leaves_none_alone(weight, peer):
    mine = _mine(weight)
    theirs = _swap(mine, peer)
    if weight.grad is not None:
        weight.grad += theirs


@wrong("14a-tied", advice="how often")
def only_one_gets_the_sum(weight, peer):
    mine = _mine(weight)
    if dist.get_rank() < peer:
        theirs = torch.empty_like(mine)
        dist.recv(theirs, peer)
        weight.grad = mine + theirs
    else:
        dist.send(mine, peer)


@wrong("14a-tied", advice="your gradient, once")
def with_a_sum_sent_back(weight, peer):
    """The right sum, but one rank sends nothing and waits for the other."""
    mine = _mine(weight)
    if dist.get_rank() < peer:
        theirs = torch.empty_like(mine)
        dist.recv(theirs, peer)
        weight.grad = mine + theirs
        dist.send(weight.grad, peer)
        dist.send(weight.grad[:0], peer)
    else:
        dist.send(mine, peer)
        weight.grad = torch.empty_like(mine)
        dist.recv(weight.grad, peer)
        dist.recv(weight.grad[:0], peer)


@wrong("14a-tied", advice="type of what|each way")
def always_in_float32(weight, peer):
    mine = _mine(weight).float()
    weight.grad = (mine + _swap(mine, peer)).to(weight.dtype)


@wrong("14a-tied", advice="how often|weight.grad")
def returns_the_sum(weight, peer):
    mine = _mine(weight)
    return mine + _swap(mine, peer)
