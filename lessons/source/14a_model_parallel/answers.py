"""Answers to the exercises of lesson 14a that people give, right and wrong."""

from itertools import combinations, pairwise

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong

# 14a-send -----------------------------------------------------------------------------


class Sends(torch.autograd.Function):
    """Right; the others below change one thing."""

    @staticmethod
    def forward(ctx, leaving, target):
        ctx.target, ctx.shape = target, leaving.shape
        dist.send(leaving, target)
        return leaving.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        gradient = torch.empty(ctx.shape)
        dist.recv(gradient, ctx.target)
        return gradient, None


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
    advice="not one number of shape",
    note="Nobody can call backward() on many numbers without an argument.",
)
class ReturnsTheActivations(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        Sends.forward(ctx, leaving, target)
        return leaving.clone()


@wrong(
    "14a-send",
    advice="which rank sends and which receives",
    note="The other rank sends its gradient, and nobody takes it.",
    state="HUNG",
)
class DoesNotReceive(Sends):
    @staticmethod
    def backward(ctx, one):
        return torch.ones(ctx.shape), None


@wrong(
    "14a-send",
    advice="nothing added",
    note="They believe that the gradient of the returned number belongs to the chain "
    "rule. It says nothing: nobody uses the number.",
)
class AddsTheGradientOfTheNumber(Sends):
    @staticmethod
    def backward(ctx, one):
        return Sends.backward(ctx, one)[0] + one, None


@wrong(
    "14a-send",
    advice="until backward has ended",
    note="To save memory. Layers in front may still need the activations for their own "
    "backward.",
)
class ReceivesIntoTheActivations(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        ctx.message = leaving.detach()
        return Sends.forward(ctx, leaving, target)

    @staticmethod
    def backward(ctx, _):
        dist.recv(ctx.message, ctx.target)
        return ctx.message, None


@wrong(
    "14a-send",
    advice="given as `target`",
    note="Written for the two ranks of the lesson, where rank 0 sends.",
)
class AlwaysToRankOne(Sends):
    @staticmethod
    def forward(ctx, leaving, target):
        return Sends.forward(ctx, leaving, 1)


@wrong(
    "14a-send",
    advice="shape of what travels",
    note="`ctx` belongs to one call, the class to all: the next call overwrites it.",
)
class NotesOnTheClass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, leaving, target):
        return Sends.forward(NotesOnTheClass, leaving, target)

    @staticmethod
    def backward(ctx, one):
        return Sends.backward(NotesOnTheClass, one)


@right("14a-send")
class SavesTheActivations(torch.autograd.Function):
    """Right, if not thrifty; the number is their sum."""

    @staticmethod
    def forward(ctx, leaving, target):
        ctx.save_for_backward(leaving)
        ctx.target = target
        dist.isend(leaving, target).wait()
        return leaving.sum()

    @staticmethod
    def backward(ctx, gradient_of_sum):
        (leaving,) = ctx.saved_tensors
        gradient = torch.zeros_like(leaving)
        dist.irecv(gradient, ctx.target).wait()
        return gradient * gradient_of_sum, None


@right("14a-send")
class WithASetUp(torch.autograd.Function):
    """Right: the newer form, with `setup_context`."""

    @staticmethod
    def forward(leaving, target):
        dist.send(leaving.detach(), dst=target)
        return torch.ones((), dtype=leaving.dtype, device=leaving.device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        leaving, ctx.target = inputs
        ctx.empty = lambda: torch.empty_like(leaving)

    @staticmethod
    def backward(ctx, _):
        gradient = ctx.empty()
        dist.recv(gradient, src=ctx.target)
        return gradient, None


# 14a-balanced-cut ---------------------------------------------------------------------


@right("14a-balanced-cut")
def by_recursion(times, sends, memory, devices, limit, last_sends=False):
    """Right: from the end, with a memory."""
    known = {}

    def best(end, left):
        if left == 0:
            return (0, ()) if end == 0 else None
        if (end, left) not in known:
            found = []
            for start in range(end):
                before = best(start, left - 1)
                if before and sum(memory[start:end]) <= limit:
                    own = sum(times[start:end])
                    if last_sends or end < len(times):
                        own += sends[end - 1]
                    found.append((max(before[0], own), (*before[1], end - start)))
            known[end, left] = min(found, default=None)
        return known[end, left]

    found = best(len(times), devices)
    return None if found is None else list(found[1])


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
    return reach(levels[low]) if low < len(levels) else None


def _parts(counts):
    return list(pairwise([sum(counts[:place]) for place in range(len(counts) + 1)]))


@wrong(
    "14a-balanced-cut",
    advice="One slow layer",
    note="As many layers each: balanced in number, not in time.",
)
def equal_numbers(times, sends, memory, devices, limit):
    n = len(times)
    return [n // devices + (d < n % devices) for d in range(devices)]


@wrong(
    "14a-balanced-cut",
    advice="the last device",
    note="There is nobody behind the last device, so it sends nothing.",
)
def the_last_sends_too(times, sends, memory, devices, limit):
    return by_recursion(times, sends, memory, devices, limit, last_sends=True)


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

    ways = (
        [b - a for a, b in pairwise((0, *cuts, len(times)))]
        for cuts in combinations(range(1, len(times)), devices - 1)
    )
    fitting = [
        counts
        for counts in ways
        if all(sum(memory[a:b]) <= limit for a, b in _parts(counts))
    ]
    return min(fitting, key=slowest, default=None)


@wrong(
    "14a-balanced-cut",
    advice="time to send its last output",
    note="They balance the layers, and forget that a large message may cross there.",
)
def forgets_the_sends(times, sends, memory, devices, limit):
    return by_recursion(times, [0] * len(times), memory, devices, limit)


@wrong(
    "14a-balanced-cut",
    advice="memory of each",
    note="The fastest cut need not fit.",
)
def forgets_the_limit(times, sends, memory, devices, limit):
    return by_recursion(times, sends, memory, devices, float("inf"))


@wrong(
    "14a-balanced-cut",
    advice="If not, None",
    note="The loop finds nothing, and what it began with is returned.",
)
def an_empty_list_for_no_way(times, sends, memory, devices, limit):
    return by_recursion(times, sends, memory, devices, limit) or []


@wrong(
    "14a-balanced-cut",
    advice="every way that fits was compared",
    note="For each cap, a device takes as many layers as it can. A shorter piece may "
    "end in a smaller message.",
)
def greedy_up_to_a_cap(times, sends, memory, devices, limit):
    n = len(times)
    own = {
        (a, b): sum(times[a:b]) + (sends[b - 1] if b < n else 0)
        for a, b in combinations(range(n + 1), 2)
        if sum(memory[a:b]) <= limit
    }
    for cap in sorted(set(own.values())):
        counts, start = [], 0
        for left in range(devices - 1, -1, -1):
            ends = [b for a, b in own if a == start and b <= n - left]
            end = max((b for b in ends if own[start, b] <= cap), default=start)
            counts, start = [*counts, end - start], end
        if start == n and min(counts) >= 1:
            return counts
    return None


# 14a-tied -----------------------------------------------------------------------------


def _swap(mine, peer):
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, peer)
    dist.recv(theirs, peer)
    request.wait()
    return theirs


@right("14a-tied")
def begins_to_send_and_receives(weight, peer):
    """Right."""
    weight.grad = weight.grad + _swap(weight.grad, peer)


@right("14a-tied")
def one_adds_and_sends_the_sum_back(weight, peer):
    """Right: one message each way, if one after the other."""
    if dist.get_rank() < peer:
        theirs = torch.empty_like(weight.grad)
        dist.recv(theirs, peer)
        weight.grad += theirs
        dist.send(weight.grad, peer)
    else:
        dist.send(weight.grad, peer)
        dist.recv(weight.grad, peer)


@wrong(
    "14a-tied",
    advice="both in send",
    note="On the CPU a send waits until somebody receives. Neither does.",
    state="HUNG",
)
def both_send_first(weight, peer):
    theirs = torch.empty_like(weight.grad)
    dist.send(weight.grad, peer)
    dist.recv(theirs, peer)
    weight.grad += theirs


@wrong(
    "14a-tied",
    advice="2 instead of 4",
    note="As for replicas in lesson 9. But here both uses belong to one network.",
)
def takes_the_mean(weight, peer):
    weight.grad = (weight.grad + _swap(weight.grad, peer)) / 2


@wrong(
    "14a-tied",
    advice="3 instead of 4",
    note="The gradient of the own use is overwritten instead of added to.",
)
def takes_the_other_one(weight, peer):
    weight.grad = _swap(weight.grad, peer)


@wrong(
    "14a-tied",
    advice="the ranks that need them",
    note="Right on two ranks; the ranks in between would have to call it.",
)
def by_all_reduce(weight, peer):
    dist.all_reduce(weight.grad)


@wrong(
    "14a-tied",
    advice="The optimiser steps later",
    note="They add up the copies themselves. What has to be equal on both is the step.",
)
def adds_up_the_weights(weight, peer):
    with torch.no_grad():
        weight += _swap(weight.detach().clone(), peer)


@wrong(
    "14a-tied",
    advice="where the sum is to be",
    note="The optimiser looks into `weight.grad`, not at what was returned.",
)
def returns_the_sum(weight, peer):
    return weight.grad + _swap(weight.grad, peer)
