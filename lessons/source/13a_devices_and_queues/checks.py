"""The checks of lesson 13a: what pays, right timing, two queues that overlap."""

import random
import time
from collections.abc import Callable

from parallel_by_hand.devices.queue_device import QueueDevice
from sidebyside.exercises.check import exercise, trying

from .watched_queues import (
    CountingDevice,
    HostWaited,
    QueueCourse,
    TimedQueueOrder,
    host_may_not_wait,
)

# 13a-pays -----------------------------------------------------------------------------

# host, device (operations per second), alpha (s), beta (s per byte)
LINKS = [
    (2e3, 2e6, 0.5, 0.0),  # by hand
    (4e7, 1e11, 60e-6, 1e-10),
    (1e11, 1e13, 20e-6, 4e-11),
    (1, 2, 4, 0),  # at n = 2 both take 16 s
    (1e6, 1e7, 0.0, 0.0),
]
NEVER = [(1e9, 1e9, 1e-5, 1e-9), (1e9, 1e8, 0.0, 0.0)]


@exercise("13a-pays", seconds=30, when_hung="for which devices no size is large enough")
def check_13a_pays(smallest_size):
    for link in LINKS:
        _expect_smallest_for_device(smallest_size, *link)
    for link in NEVER:
        with trying(_call_of_device_link(link)) as expect:
            got = smallest_size(*link)
            think = "what is returned where no size pays: can a device that is not "
            think += "faster than its host gain anything?"
            expect(got is None, got=got, think=think)
    dice = random.Random(13)
    for _ in range(30):
        host = 10 ** dice.uniform(3, 10)
        device = host * 10 ** dice.uniform(0.3, 4)
        # scaled so that the answer is between 1 and some thousands
        scale = 2 * 10 ** dice.uniform(0, 8) / host
        alpha, beta = scale * dice.random() / 2, scale * dice.random() / (12 * 500)
        _expect_smallest_for_device(smallest_size, host, device, alpha, beta)


def _call_of_device_link(link: tuple) -> str:
    return f"smallest_size({', '.join(f'{value:.6g}' for value in link)})"


def _away_and_here(n, host, device, alpha, beta) -> tuple[float, float]:
    return 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device, 2 * n**3 / host


def _expect_smallest_for_device(smallest_size: Callable, *link: float) -> None:
    with trying(_call_of_device_link(link)) as expect:
        n = smallest_size(*link)
        expect(
            n is not None,
            got="None, which says that it never pays",
            think="the device, which does more operations per second than its host: "
            "from some size on it does pay",
        )
        think = "what is to be returned: a whole number of rows, 1 or more"
        expect(n >= 1 and n == int(n), got=n, think=think)
        think = "your own seconds at this size: are they these? If so, which is the "
        think += "first size that pays?"
        for size, pays in (n, True), (n - 1, False):
            away, here = _away_and_here(size, *link)
            if away == here:
                think = "two equal times: is one of them less?"
            got = f"{n}; n = {size} takes {away:.6g} s by sending, {here:.6g} s here"
            expect((away < here) == pays, got=got, think=think)


# 13a-timing ---------------------------------------------------------------------------

MILLISECONDS = [8, 3, 14, 5, 10]


@exercise("13a-timing", seconds=20, when_hung="what the host waits for")
def check_13a_timing(seconds_of_orders):
    for earlier in (0, 40):
        for lengths in (MILLISECONDS, MILLISECONDS[:1]):
            with CountingDevice("device") as device:
                _expect_device_timing(seconds_of_orders, device, lengths, earlier)


def _expect_device_timing(
    answer: Callable, device: CountingDevice, lengths: list, earlier: float
) -> None:
    def all_launched() -> bool:
        return device.launched >= before + len(orders)

    log, earlier_log = [], []
    if earlier:
        device.launch(TimedQueueOrder(earlier / 1e3, earlier_log, device.thread))
    before = device.launched
    orders = [TimedQueueOrder(ms / 1e3, log, device.thread) for ms in lengths]
    behind = f" behind one of {earlier} ms" if earlier else ""
    call = f"seconds_of_orders(device, orders) of {lengths} ms{behind}"
    think = "what is launched, a function, and which events the device has reached"
    with trying(call, think=think) as expect:
        first_ends = time.perf_counter()
        try:
            with host_may_not_wait(all_launched):
                got = answer(device, list(orders))
        except HostWaited:
            think = "what the device does while the host waits, and the events: do "
            think += "they need an empty queue?"
            expect(False, got="the host waited before all were launched", think=think)
        ended = time.perf_counter()
        if earlier:
            device.synchronize()
            first_ends = earlier_log[0][2]
        expect(
            [order for order, *_ in log] == orders,
            got=f"{len(log)} orders carried out on the device when the function "
            "returned, or in another order",
            think="what has to have happened before you return: each order, once, as "
            "they stand in the list",
        )
        edges = [first_ends]
        edges += [moment for _, *moments in log for moment in moments] + [ended]
        _expect_queue_seconds(expect, got, edges, len(orders))


def _expect_queue_seconds(expect, got: object, edges: list[float], count: int) -> None:
    """`edges`: the end before the first, then each begin and end, and the return.

    What stands between two neighbours in the queue lasts at least as long as the order
    itself, and at most from the end of the one before to the begin of the one after.
    """
    listed = hasattr(got, "__len__") and len(got) == count
    think = f"what is to be returned: a number for each of {count} orders"
    expect(listed, got=got, think=think)
    for k, seconds in enumerate(got):
        least = edges[2 * k + 2] - edges[2 * k + 1]
        most = edges[2 * k + 3] - edges[2 * k]
        think = "which two moments on the device your time lies between: the work of "
        think += "one order, neither its launch nor what else was in the queue"
        if any(least <= seconds / unit <= most for unit in (1e3, 1e6)):
            think = "the unit: seconds"
        expect(
            least - 1e-6 <= seconds <= most + 1e-6,
            got=f"{seconds:.6f} s for order {k}, which took {least:.6f} s",
            think=think,
        )


# 13a-ahead ----------------------------------------------------------------------------

SIZES = [(4, 2), (5, 1), (7, 3), (2, 3)]  # batches and buffers
HOLDS = {
    "copies": "while no copy can begin yet",
    "computes": "while no compute can begin yet",
    "ahead": "where each compute goes on until the copies ahead have ended",
}
FAULTS = {
    "queue": (
        "work on another thread than its queue's",
        "which queue copies, and which one computes",
    ),
    "batch": (
        "another batch than the next one, or one too many",
        "which batches are copied and computed, and in which order",
    ),
    "buffer": (
        "another buffer than the batch's own",
        "which buffer batch k uses: `buffers[k % len(buffers)]`",
    ),
    "not copied": (
        "a batch that was computed before it had been copied",
        "what a compute has to wait for: where in the copier's queue does its event "
        "stand, before or behind the copy?",
    ),
    "overwritten": (
        "a buffer that was overwritten before its batch had been computed",
        "what a copy has to wait for, when its buffer has been used before: where in "
        "the computer's queue does that event stand, before or behind the compute?",
    ),
    "not ahead": (
        "a copy that waited although its buffer was free",
        "which compute was the last one that used the same buffer",
    ),
}


@exercise("13a-ahead", seconds=25, when_hung="which event an order waits for, and when")
def check_13a_ahead(launch_all):
    for batches, buffers in SIZES:
        for hold, how in HOLDS.items():
            call = f"launch_all(...) of {batches} batches in {buffers} buffers"
            with trying(f"{call}, {how}") as expect:
                _expect_queue_course(expect, launch_all, batches, buffers, hold)


def _expect_queue_course(expect, launch_all, count: int, rooms: int, hold: str) -> None:
    batches = [f"batch {k}" for k in range(count)]
    buffers = [[None] for _ in range(rooms)]
    copier, computer = QueueDevice("copier"), QueueDevice("computer")
    course = QueueCourse(batches, buffers, copier, computer, hold)
    try:
        with host_may_not_wait():
            launch_all(batches, buffers, course.copy, course.compute, copier, computer)
    except HostWaited:
        think = "what the host has to do: launch, and not wait"
        expect(False, got="the host waited", think=think)
    course.open_gate()
    copier.synchronize()
    computer.synchronize()
    for fault in FAULTS:
        if fault in course.faults:
            got, think = FAULTS[fault]
            expect(False, got=got, think=think)
    expect(
        course.ended == {"copy": count, "compute": count},
        got=f"{course.ended['copy']} copies and {course.ended['compute']} computes",
        think="what is to be launched: one copy and one compute for each batch",
    )
    copier.close()
    computer.close()
