"""Wrong answers to the exercises of lesson 13a, and unusual right ones."""

import threading
from bisect import bisect_left
from itertools import count, pairwise
from operator import le, lt
from time import perf_counter

import numpy as np

from lessons.source.sample_answers import right, wrong

# 13a-pays -----------------------------------------------------------------------------


def _pays(messages=2, pays=lt, free=False, sizes=None):
    """By the formulas of the text, with something wrong in them."""

    def smallest_size(host, device, alpha, beta):
        if device <= host and sizes is None:
            return None
        for n in sizes or count(1):
            away = messages * alpha + 12 * n**2 * beta
            away += 0 if free else 2 * n**3 / device
            if pays(away, 2 * n**3 / host):
                return n
        return None

    return smallest_size


wrong(
    "13a-pays",
    advice="8; n = 8 takes .*are they these",
    note="The product has to come back: a second message with its own latency.",
    name="pays_one_message",
)(_pays(messages=1))
wrong(
    "13a-pays",
    advice="2; n = 2 takes 16 s by sending, 16 s here",
    note="They take as fast for faster.",
    name="pays_when_as_fast",
)(_pays(pays=le))

wrong(
    "13a-pays",
    advice="first size that pays|not faster",
    note="They take the device for infinitely fast.",
    name="pays_free_device",
)(_pays(free=True))
wrong(
    "13a-pays",
    advice="no size is large enough",
    note="A device that is not faster never pays.",
    state="HUNG",
    name="pays_never_ends",
)(_pays(sizes=range(1, 10**15)))
wrong(
    "13a-pays",
    advice="it does pay",
    note="A largest n was made up.",
    name="pays_up_to_a_thousand",
)(_pays(sizes=range(1, 1000)))
wrong(
    "13a-pays",
    advice="16; n = 15 takes.*first size that pays",
    note="They double n, as in the table above, and return what they meet.",
    name="pays_powers_of_two",
)(_pays(sizes=[2**k for k in range(21)]))


@right("13a-pays")
def pays_by_halving(host, device, alpha, beta):
    if device <= host:
        return None

    def pays(n):
        return 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host

    return 1 + bisect_left(range(1, 1_000_001), True, key=pays)


@right("13a-pays")
def pays_in_numpy(host, device, alpha, beta):
    """All sizes at once, up to more than a million."""
    if host >= device:
        return None
    n = np.arange(1.0, 1_100_000.0)
    operations = 2 * n * n * n
    away = 2 * alpha + 12 * n * n * beta + operations / device
    return int(np.argmax(away < operations / host)) + 1


# 13a-timing ---------------------------------------------------------------------------


@wrong(
    "13a-timing",
    advice="neither its launch",
    note="The clock on the host that does not wait: nearly everybody's first.",
)
def timing_of_launches(device, orders):
    seconds = []
    for order in orders:
        began = perf_counter()
        device.launch(order)
        seconds.append(perf_counter() - began)
    device.synchronize()
    return seconds


@wrong(
    "13a-timing",
    advice="the unit",
    note="`elapsed_time` gives milliseconds, as CUDA's does.",
)
def timing_in_milliseconds(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return [a.elapsed_time(b) for a, b in pairwise(events)]


@wrong(
    "13a-timing",
    advice="while the host waits",
    note="The numbers are right, and the device stands still in between.",
)
def timing_synchronizes_each(device, orders):
    seconds = []
    device.synchronize()
    for order in orders:
        began = perf_counter()
        device.launch(order)
        device.synchronize()
        seconds.append(perf_counter() - began)
    return seconds


def _events(device, orders):
    events = [device.record_event()]
    for order in orders:
        device.launch(order)
        events.append(device.record_event())
    return events


@wrong(
    "13a-timing",
    advice="which two moments",
    note="Each time is counted from the start: the orders before are in it.",
)
def timing_from_first_event(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return [events[0].elapsed_time(event) / 1e3 for event in events[1:]]


@wrong(
    "13a-timing",
    advice="line|happened|synchronize",
    note="The events have been recorded, they think; but only launched.",
)
def timing_without_waiting(device, orders):
    events = _events(device, orders)
    return [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]


@wrong(
    "13a-timing",
    advice="a number for each of 5 orders",
    note="The time of the whole list instead of one for each order.",
)
def timing_total_only(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return events[0].elapsed_time(events[-1]) / 1e3


@wrong(
    "13a-timing",
    advice="0 orders carried out on the device",
    note="`order()` is called on the host, and its result is launched.",
)
def timing_calls_the_orders(device, orders):
    return timing_waits_for_last_event(device, [str(order()) for order in orders])


@right("13a-timing")
def timing_by_clocks_in_the_queue(device, orders):
    """The device reads the clock itself, without events."""
    moments = []
    for order in orders:
        device.launch(lambda: moments.append(perf_counter()))
        device.launch(order)
        device.launch(lambda: moments.append(perf_counter()))
    device.synchronize()
    return [b - a for a, b in zip(moments[::2], moments[1::2], strict=True)]


@right("13a-timing")
def timing_waits_for_last_event(device, orders):
    pairs = []
    for order in orders:
        before = device.record_event()
        device.launch(order)
        pairs.append((before, device.record_event()))
    for _, after in reversed(pairs):
        after.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in pairs]


# 13a-ahead ----------------------------------------------------------------------------


def _ahead(for_copy=True, for_buffer=len, place=lambda k, buffers: k % len(buffers)):
    """The loop of the solution; a copy waits for the compute `for_buffer(buffers)` ago.

    With `for_buffer=None` it does not wait.
    """

    def launch_all(batches, buffers, copy, compute, copier, computer):
        computed = []
        for k, batch in enumerate(batches):
            buffer = buffers[place(k, buffers)]
            ago = for_buffer(buffers) if for_buffer else k + 1
            if k >= ago:
                copier.wait_event(computed[k - ago])
            copier.launch(copy, batch, buffer)
            if for_copy:
                computer.wait_event(copier.record_event())
            computer.launch(compute, buffer)
            computed.append(computer.record_event())

    return launch_all


wrong(
    "13a-ahead",
    advice="what a copy has to wait for",
    note="Right for as many buffers as batches, as in the text above.",
    name="ahead_overwrites",
)(_ahead(for_buffer=None))
wrong(
    "13a-ahead",
    advice="the same buffer",
    note="Every result is right, and nothing overlaps.",
    name="ahead_waits_for_the_last_compute",
)(_ahead(for_buffer=lambda buffers: 1))
wrong(
    "13a-ahead",
    advice="a compute has to wait",
    note="Two queues, and nobody tells the one how far the other is.",
    name="ahead_without_any_event",
)(_ahead(for_copy=False, for_buffer=None))
wrong(
    "13a-ahead",
    advice="which buffer batch k",
    note="All batches go through the first buffer; the others stay empty.",
    name="ahead_first_buffer_only",
)(_ahead(for_buffer=lambda buffers: 1, place=lambda k, buffers: 0))


@wrong(
    "13a-ahead",
    advice="launch, and not wait",
    note="Right results: but the host stands between the queues, and nothing overlaps.",
)
def ahead_host_waits(batches, buffers, copy, compute, copier, computer):
    for k, batch in enumerate(batches):
        copier.launch(copy, batch, buffers[k % len(buffers)])
        copier.synchronize()
        computer.launch(compute, buffers[k % len(buffers)])
        computer.synchronize()


@wrong(
    "13a-ahead",
    advice="which queue copies",
    note="In one queue the order is right by itself, and nothing overlaps.",
)
def ahead_all_on_one_queue(batches, buffers, copy, compute, copier, computer):
    _ahead()(batches, buffers, copy, compute, computer, computer)


@right("13a-ahead")
def ahead_right(batches, buffers, copy, compute, copier, computer):
    """Two loops: the events of the copies are made by hand."""
    copied = [threading.Event() for _ in batches]
    computed = [threading.Event() for _ in batches]
    for k, batch in enumerate(batches):
        if k >= len(buffers):
            copier.launch(computed[k - len(buffers)].wait)
        copier.launch(copy, batch, buffers[k % len(buffers)])
        copier.launch(copied[k].set)
    for k, _ in enumerate(batches):
        computer.launch(copied[k].wait)
        computer.launch(compute, buffers[k % len(buffers)])
        computer.launch(computed[k].set)


@right("13a-ahead")
def ahead_by_free_buffers(batches, buffers, copy, compute, copier, computer):
    """A dictionary: when each buffer is free."""
    free = {}
    for k, batch in enumerate(batches):
        place = k % len(buffers)
        if place in free:
            copier.wait_event(free[place])
        copier.launch(copy, batch, buffers[place])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[place])
        free[place] = computer.record_event()
