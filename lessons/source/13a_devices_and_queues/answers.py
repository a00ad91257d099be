"""Wrong answers to the exercises of lesson 13a, and unusual right ones."""

import math
import threading
from itertools import pairwise
from time import perf_counter

import numpy as np

from lessons.source.sample_answers import right, wrong

# 13a-pays -----------------------------------------------------------------------------


def _count_up(pays, host, device):
    if device <= host:
        return None
    n = 1
    while not pays(n):
        n += 1
    return n


@wrong("13a-pays", advice="how many messages")
def pays_one_message(host, device, alpha, beta):
    def pays(n):
        return alpha + 12 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host

    return _count_up(pays, host, device)


@wrong(
    "13a-pays",
    advice="there and back",
    note="The product travels, too: 12 bytes for each place, not 8.",
)
def pays_no_way_back(host, device, alpha, beta):
    def pays(n):
        return 2 * alpha + 8 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host

    return _count_up(pays, host, device)


@wrong("13a-pays", advice="messages and bytes")
def pays_numbers_for_bytes(host, device, alpha, beta):
    def pays(n):
        return 2 * alpha + 3 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host

    return _count_up(pays, host, device)


@wrong("13a-pays", advice="device itself|not faster")
def pays_free_device(host, device, alpha, beta):
    def pays(n):
        return 2 * alpha + 12 * n**2 * beta < 2 * n**3 / host

    return _count_up(pays, host, device)


@wrong("13a-pays", advice="messages and bytes")
def pays_latency_only(host, device, alpha, beta):
    if device <= host:
        return None
    return max(1, math.ceil((alpha / (1 / host - 1 / device)) ** (1 / 3)))


@wrong(
    "13a-pays",
    advice="no size is large enough",
    note="A device that is not faster never pays.",
    state="HUNG",
)
def pays_never_ends(host, device, alpha, beta):
    n = 1
    while 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device >= 2 * n**3 / host:
        n += 1
    return n


@wrong("13a-pays", advice="it does pay")
def pays_up_to_a_thousand(host, device, alpha, beta):
    for n in range(1, 1000):
        if 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host:
            return n
    return None


@wrong("13a-pays", advice="a smaller n would do")
def pays_powers_of_two(host, device, alpha, beta):
    if device <= host:
        return None
    n = 1
    while 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device >= 2 * n**3 / host:
        n *= 2
    return n


@wrong("13a-pays", advice="not faster than the host")
def pays_zero_for_never(host, device, alpha, beta):
    return pays_by_halving(host, device, alpha, beta) or 0


@wrong("13a-pays", advice="how many messages")
def pays_last_that_does_not(host, device, alpha, beta):
    n = pays_by_halving(host, device, alpha, beta)
    return n if n is None else n - 1


@right("13a-pays")
def pays_by_halving(host, device, alpha, beta):
    """Doubles until it pays, and halves the interval."""
    if device <= host:
        return None

    def pays(n):
        return 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device < 2 * n**3 / host

    high = 1
    while not pays(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


@right("13a-pays")
def pays_in_numpy(host, device, alpha, beta):
    """All sizes at once, up to more than a million."""
    if host >= device:
        return None
    n = np.arange(1.0, 1_100_000.0)
    operations = 2 * n * n * n
    away = 2 * alpha + 12 * n * n * beta + operations / device
    return np.int64(np.argmax(away < operations / host) + 1)


# 13a-timing ---------------------------------------------------------------------------


@wrong(
    "13a-timing",
    advice="the launch, or the work",
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


@wrong("13a-timing", advice="the unit")
def timing_in_milliseconds(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return [a.elapsed_time(b) for a, b in pairwise(events)]


@wrong("13a-timing", advice="which two moments")
def timing_from_first_event(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return [events[0].elapsed_time(event) / 1e3 for event in events[1:]]


@wrong("13a-timing", advice="else was in the queue")
def timing_from_host_start(device, orders):
    began, ends = perf_counter(), []
    for order in orders:
        device.launch(order)
        ends.append(device.record_event())
    device.synchronize()
    times = [began, *(event.time for event in ends)]
    return [b - a for a, b in pairwise(times)]


@wrong("13a-timing", advice="line|happened|synchronize")
def timing_without_waiting(device, orders):
    events = _events(device, orders)
    return [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]


@wrong("13a-timing", advice="launch, or the work|two moments|in the queue")
def timing_mean(device, orders):
    events = _events(device, orders)
    device.synchronize()
    total = events[0].elapsed_time(events[-1]) / 1e3
    return [total / len(orders) for _ in orders]


@wrong("13a-timing", advice="while the host waits")
def timing_calls_itself(device, orders):
    seconds = []
    for order in orders:
        began = perf_counter()
        order()
        seconds.append(perf_counter() - began)
    return seconds


@wrong("13a-timing", advice="a number for each order")
def timing_total_only(device, orders):
    events = _events(device, orders)
    device.synchronize()
    return events[0].elapsed_time(events[-1]) / 1e3


@wrong("13a-timing", advice="host waits")
def timing_waits_for_each_event(device, orders):
    seconds, before = [], device.record_event()
    for order in orders:
        device.launch(order)
        after = device.record_event()
        after.synchronize()
        seconds.append(before.elapsed_time(after) / 1e3)
        before = after
    return seconds


@wrong("13a-timing", advice="a number for each order")
def timing_by_name_of_order(device, orders):
    """An order that is in the list twice has one place in the dictionary."""
    events = {}
    for order in orders:
        before = device.record_event()
        device.launch(order)
        events[order] = before, device.record_event()
    device.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in events.values()]


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
    return np.array([a.elapsed_time(b) for a, b in pairs]) / 1e3


# 13a-ahead ----------------------------------------------------------------------------


@wrong("13a-ahead", advice="a compute has to wait")
def ahead_without_any_event(batches, buffers, copy, compute, copier, computer):
    for k, batch in enumerate(batches):
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.launch(compute, buffers[k % len(buffers)])


@wrong(
    "13a-ahead",
    advice="what a copy has to wait for",
    note="Right for as many buffers as batches, as in the text above.",
)
def ahead_overwrites(batches, buffers, copy, compute, copier, computer):
    for k, batch in enumerate(batches):
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[k % len(buffers)])


@wrong("13a-ahead", advice="a compute has to wait")
def ahead_does_not_wait_for_copies(batches, buffers, copy, compute, copier, computer):
    computed = []
    for k, batch in enumerate(batches):
        if k >= len(buffers):
            copier.wait_event(computed[k - len(buffers)])
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.launch(compute, buffers[k % len(buffers)])
        computed.append(computer.record_event())


@wrong(
    "13a-ahead",
    advice="the same buffer",
    note="Every result is right, and nothing overlaps.",
)
def ahead_waits_for_the_last_compute(batches, buffers, copy, compute, copier, computer):
    computed = None
    for k, batch in enumerate(batches):
        if computed is not None:
            copier.wait_event(computed)
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[k % len(buffers)])
        computed = computer.record_event()


@wrong("13a-ahead", advice="copy has|same buffer")
def ahead_two_buffers_always(batches, buffers, copy, compute, copier, computer):
    computed = []
    for k, batch in enumerate(batches):
        if k >= 2:
            copier.wait_event(computed[k - 2])
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[k % len(buffers)])
        computed.append(computer.record_event())


@wrong("13a-ahead", advice="launch, and not wait")
def ahead_host_waits(batches, buffers, copy, compute, copier, computer):
    for k, batch in enumerate(batches):
        copier.launch(copy, batch, buffers[k % len(buffers)])
        copier.synchronize()
        computer.launch(compute, buffers[k % len(buffers)])
        computer.synchronize()


@wrong("13a-ahead", advice="and not wait")
def ahead_synchronizes_at_the_end(batches, buffers, copy, compute, copier, computer):
    ahead_right(batches, buffers, copy, compute, copier, computer)
    computer.synchronize()


@wrong("13a-ahead", advice="which queue copies")
def ahead_all_on_one_queue(batches, buffers, copy, compute, copier, computer):
    for k, batch in enumerate(batches):
        computer.launch(copy, batch, buffers[k % len(buffers)])
        computer.launch(compute, buffers[k % len(buffers)])


@wrong("13a-ahead", advice="same buffer|later")
def ahead_waits_for_all_copies(batches, buffers, copy, compute, copier, computer):
    """Copies a round of buffers, and then computes them all."""
    rounds = range(0, len(batches), len(buffers))
    for start in rounds:
        for k in range(start, min(start + len(buffers), len(batches))):
            copier.launch(copy, batches[k], buffers[k - start])
        computer.wait_event(copier.record_event())
        for k in range(start, min(start + len(buffers), len(batches))):
            computer.launch(compute, buffers[k - start])
        copier.wait_event(computer.record_event())


@wrong("13a-ahead", advice="which buffer batch k")
def ahead_first_buffer_only(batches, buffers, copy, compute, copier, computer):
    computed = []
    for batch in batches:
        if computed:
            copier.wait_event(computed[-1])
        copier.launch(copy, batch, buffers[0])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[0])
        computed.append(computer.record_event())


@wrong("13a-ahead", advice="a compute has to wait")
def ahead_records_too_early(batches, buffers, copy, compute, copier, computer):
    """The event stands before the copy, not after it."""
    computed = []
    for k, batch in enumerate(batches):
        if k >= len(buffers):
            copier.wait_event(computed[k - len(buffers)])
        ready = copier.record_event()
        copier.launch(copy, batch, buffers[k % len(buffers)])
        computer.wait_event(ready)
        computer.launch(compute, buffers[k % len(buffers)])
        computed.append(computer.record_event())


@wrong(
    "13a-ahead",
    advice="for the first time",
    note="Right, and late where the computer is busy with something else.",
)
def ahead_frees_each_buffer_first(batches, buffers, copy, compute, copier, computer):
    """Even an unused buffer waits for what the computer had to do before."""
    free = [computer.record_event() for _ in buffers]
    for k, batch in enumerate(batches):
        place = k % len(buffers)
        copier.wait_event(free[place])
        copier.launch(copy, batch, buffers[place])
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffers[place])
        free[place] = computer.record_event()


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
