"""The checks of lesson 13a: what pays, right timing, two queues that overlap."""

import time
from collections.abc import Callable

import numpy as np

from demos.devices.parts.queue_device import QueueDevice
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying

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
    (1e9, 1e12, 10e-6, 1e-9),
    (1e11, 1e13, 20e-6, 4e-11),
    (1e6, 1e7, 0.0, 1e-6),
    (1e6, 1e7, 0.0, 0.0),
    (3.0, 5.0, 0.01, 0.001),
    (1e10, 2e10, 1e-3, 1e-9),
    (1.0, 1.5, 1e6, 0.0),
    (1e11, 1.01e11, 1e-5, 1.6e-8),  # nearly a million rows
]
NEVER = [(1e9, 1e9, 1e-5, 1e-9), (1e9, 1e8, 0.0, 0.0), (5, 5, 0, 0), (2e9, 1e9, 1, 1)]


@exercise("13a-pays", seconds=30, when_hung="for which devices no size is large enough")
def check_13a_pays(smallest_size):
    for link in LINKS:
        _expect_smallest_for_device(smallest_size, *link)
    for link in NEVER:
        with trying(_call_of_device_link(link)) as expect:
            got = smallest_size(*link)
            think = "what a device that is not faster than the host can gain"
            expect(got is None, got=got, think=think)
    random = np.random.default_rng(13)
    for _ in range(60):
        host = 10 ** random.uniform(3, 10)
        device = host * 10 ** random.uniform(0.3, 4)
        # scaled so that the answer is between 1 and some thousands
        scale = 2 * 10 ** random.uniform(0, 8) / host
        alpha, beta = random.uniform(0, 1, 2) * scale / (2, 12 * 500)
        _expect_smallest_for_device(
            smallest_size, float(host), float(device), float(alpha), float(beta)
        )


def _call_of_device_link(link: tuple) -> str:
    return f"smallest_size({', '.join(f'{value:.6g}' for value in link)})"


def _gain_by_device(
    n: int, host: float, device: float, alpha: float, beta: float
) -> float:
    """Seconds here over seconds away."""
    away = 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device
    return (2 * n**3 / host) / away


def _smallest_size_for_device(*link: float) -> int:
    high = 1
    while _gain_by_device(high, *link) <= 1:
        high *= 2
    low = high // 2  # does not pay, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _gain_by_device(middle, *link) > 1 else (middle, high)
        )
    return high


def _expect_smallest_for_device(smallest_size: Callable, *link: float) -> None:
    with trying(_call_of_device_link(link)) as expect:
        got = smallest_size(*link)
        expect(
            got is not None,
            got="None, which says that it never pays",
            think="how many rows it takes here: from some size on it does pay",
        )
        number = as_number(got)
        expect(
            number is not None and number.is_integer() and number >= 1,
            got=got,
            think="what is to be returned: a whole number of rows, 1 or more",
        )
        right, n = _smallest_size_for_device(*link), int(got)
        ties = [
            k
            for k in (right - 1, right)
            if k and abs(_gain_by_device(k, *link) - 1) < 1e-9
        ]
        if n == right or (ties and n in (right - 1, right, right + 1)):
            return
        times = f"{_gain_by_device(n, *link):.6g} times as long here as away"
        before = (
            f"for n = {n - 1} it takes {_gain_by_device(n - 1, *link):.6g}"
            if n > 1
            else ""
        )
        if _gain_by_device(n, *link) <= 1:
            think = "how many messages and bytes there are, there and back, and what "
            think += "the device itself takes"
        else:
            think = f"whether a smaller n would do: {before} times as long"
        expect(False, got=f"{n}: there it takes {times}", think=think)


# 13a-timing ---------------------------------------------------------------------------

MILLISECONDS = [8, 3, 14, 5, 10]
TWICE = [8, 3, 8]


@exercise("13a-timing", seconds=20, when_hung="what the host waits for")
def check_13a_timing(seconds_of_orders):
    for earlier in (0, 40):
        for lengths in (MILLISECONDS, MILLISECONDS[:1], [], TWICE):
            with CountingDevice("device") as device:
                _expect_device_timing(seconds_of_orders, device, lengths, earlier)


def _expect_device_timing(
    answer: Callable, device: CountingDevice, lengths: list, earlier: float
) -> None:
    def all_launched() -> bool:
        return device.launched >= before + len(orders)

    log, earlier_log = [], []
    if earlier:
        device.launch(TimedQueueOrder(earlier / 1e3, earlier_log))
    before = device.launched
    kinds = {ms: TimedQueueOrder(ms / 1e3, log, all_launched) for ms in lengths}
    orders = [kinds[ms] for ms in lengths]  # equal lengths: the same order again
    behind = f" behind one of {earlier} ms" if earlier else ""
    with trying(f"seconds_of_orders(device, orders) of {lengths} ms{behind}") as expect:
        given = list(orders)
        began = time.perf_counter()
        try:
            with host_may_not_wait(all_launched):
                got = answer(device, given)
        except HostWaited:
            _say_host_waited(expect)
        ended = time.perf_counter()
        first_ends = began
        if earlier:
            device.synchronize()
            first_ends = earlier_log[0][2]
        expect(
            not any(order.held_up for order in orders),
            got="orders that were not launched while others were carried out",
            think="what the device does while the host waits for one order",
        )
        expect(
            given == orders,
            got="a list of orders that has changed",
            think="who else uses the list",
        )
        _expect_queue_runs(expect, orders, [order for order, *_ in log])
        edges = [first_ends]
        edges += [moment for _, *moments in log for moment in moments] + [ended]
        _expect_queue_seconds(expect, got, edges, len(orders))


def _say_host_waited(expect) -> None:
    expect(
        False,
        got="the host waited before it had launched all orders",
        think="what the device does while the host waits for one order",
    )


def _expect_queue_runs(
    expect, orders: list[TimedQueueOrder], carried_out: list
) -> None:
    times = [carried_out.count(order) for order in orders]
    expect(
        times == [orders.count(order) for order in orders]
        and len(carried_out) == len(orders),
        got=f"orders that were carried out {times} times, when the function returned",
        think="what has to have happened before you return: each order, once",
    )
    expect(
        carried_out == orders,
        got="orders carried out in another order",
        think="in which order they are launched",
    )


def _expect_queue_seconds(expect, got: object, edges: list[float], count: int) -> None:
    """`edges`: the end before the first, then each begin and end, and the return.

    What stands between two neighbours in the queue lasts at least as long as the order
    itself, and at most from the end of the one before to the begin of the one after.
    """
    listed = isinstance(got, list | tuple | np.ndarray)
    listed = listed and None not in map(as_number, got) and len(got) == count
    expect(listed, got=got, think="what is to be returned: a number for each order")
    numbers = [float(value) for value in got]
    for k, seconds in enumerate(numbers):
        least = edges[2 * k + 2] - edges[2 * k + 1]
        most = edges[2 * k + 3] - edges[2 * k]
        think = "which two moments your time lies between: order by order, on the "
        think += "device"
        if least <= seconds / 1e3 <= most:
            think = "the unit: seconds"
        elif seconds < least:
            think = "what your clock has measured: the launch, or the work"
        elif k == 0:
            think = "what else was in the queue before your first order"
        expect(
            least - 1e-6 <= seconds <= most + 1e-6,
            got=f"{seconds:.6f} s for order {k}, which took {least:.6f} s",
            think=think,
        )


# 13a-ahead ----------------------------------------------------------------------------

SIZES = [(4, 2), (7, 2), (5, 1), (7, 3), (1, 2), (0, 2), (2, 3), (9, 8)]
HOLDS = {
    "copies": "while no copy can begin yet",
    "computes": "while no compute can begin yet",
    "prompt": "where each copy goes on until the compute before it has begun",
    "ahead": "where each compute goes on until the copies ahead have ended",
    "busy": "while the computer is busy with an order of somebody else",
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
        "what a compute has to wait for",
    ),
    "overwritten": (
        "a buffer that was overwritten before its batch had been computed",
        "what a copy has to wait for, when its buffer has been used before",
    ),
    "not ahead": (
        "a copy that waited although its buffer was free",
        "which compute was the last one that used the same buffer",
    ),
    "held up": (
        "a copy that waited although its buffer had not been used before",
        "what a copy into a buffer that is used for the first time must wait for",
    ),
    "late": (
        "a compute that waited although its batch had been copied",
        "what a compute needs: its own copy, and no later one",
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
    given, room = list(batches), list(buffers)
    copier, computer = QueueDevice("copier"), QueueDevice("computer")
    course = QueueCourse(batches, buffers, copier, computer, hold)
    think = "what the host has to do: launch, and not wait"
    try:
        with host_may_not_wait():
            got = launch_all(given, room, course.copy, course.compute, copier, computer)
    except HostWaited:
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
    expect(got is None, got=got, think="what is to be returned: nothing")
    expect(
        given == batches and all(a is b for a, b in zip(room, buffers, strict=False)),
        got="lists that have changed",
        think="who else uses what your function was given",
    )
    expect(len(room) == rooms, got="fewer buffers than before", think="who uses them")
    copier.close()
    computer.close()
