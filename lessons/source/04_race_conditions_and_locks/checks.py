"""Checks of the exercises of lesson 04, Race conditions and locks."""

from collections.abc import Callable
from itertools import product
from queue import Queue
from threading import Thread
from time import sleep
from types import CodeType
from unittest.mock import patch

from parallel_by_hand.races.interleavings import UPDATE, play
from sidebyside.exercises.check import exercise, trying

from .slow_device import SlowDevice
from .watched_bank import WatchedAccount, pair_of_watched_accounts

PATIENCE = 4  # seconds after which something that should take milliseconds has hung


@exercise("04-order")
def check_04_order(worst_order):
    for updates in 3, 2, 1, 4, 7, 30:
        _expect_worst_order(worst_order, updates)


def _expect_worst_order(worst_order: Callable, updates: int) -> None:
    with trying(f"worst_order({updates})") as expect:
        got = worst_order(updates)
        text = "the form of the answer: one text of A and B, such as 'ABABAB'"
        expect(isinstance(got, str) and set(got) <= set("AB"), got=got, think=text)
        counts = got.count("A"), got.count("B")
        expect(
            counts == (3 * updates, 3 * updates),
            got=f"{got!r}, with {counts[0]} A and {counts[1]} B",
            think=f"the length of an update: load, add and store, so {3 * updates} "
            "steps for each thread",
        )
        x, least = play(got, UPDATE * updates, UPDATE * updates), min(updates, 2)
        think = f"the last store, which makes {x} of a copy of {x - 1}: which copy is "
        think += "best there, and how long may a thread keep an old copy?"
        if updates == 1:
            think = "one update each: both can load the same 0"
        elif x == 2 * updates:
            think = "who loads before the other has stored? Here nothing is lost"
        expect(x == least, got=f"{got!r}, and x ends as {x}, not {least}", think=think)


@exercise(
    "04-transfer",
    seconds=20,
    when_hung="who holds the lock that this line waits for, and what does that one "
    "wait for?",
)
def check_04_transfer(transfer):
    for balances in (95, 35), (65, 65):
        _expect_amount_to_move(transfer, *balances)
    _expect_both_locks_during_transfer(transfer)
    _expect_no_transfer_to_itself(transfer)
    _expect_no_wait_for_other_locks(transfer)
    for one, other in (1, 2), (9, 10), (13, 3), (7, 1007):
        _expect_one_order_of_locks(transfer, one, other)


def _expect_amount_to_move(transfer: Callable, *before: int) -> None:
    source, target = pair_of_watched_accounts(1, 2, *before)
    tried = "transfer(source, target, 30) with the balances {} and {}"
    with trying(tried.format(*before)) as expect:
        transfer(source, target, 30)
        after = source.money, target.money
        think = "which balance must grow, which shrink, and by how much?"
        if after == before:
            think = "what decides in your function whether the amount moves? If it is "
            think += "a lock that somebody else has: what does yours do then?"
        expect(after == (before[0] - 30, before[1] + 30), got=after, think=think)
        think = "who gives the locks back when the transfer is done?"
        free = source.lock.owner is target.lock.owner is None
        expect(free, got="a lock that is still taken", think=think)


def _expect_both_locks_during_transfer(transfer: Callable) -> None:
    source, target = pair_of_watched_accounts(1, 2, 100, 50)
    tried = "transfer(source, target, 7) with the balances 100 and 50"
    with trying(f"{tried}, and looked at the locks at each change") as expect:
        transfer(source, target, 7)
        think = "the money, counted by somebody who holds both locks: when is some of "
        think += "it missing?"
        got = "a balance that changed while one of the two account locks was free"
        expect(not source.careless + target.careless, got=got, think=think)
    source, target = pair_of_watched_accounts(1, 2, 100, 50, deposit=1000)
    with trying(f"{tried}; while it waits for a lock, 1000 come in") as expect:
        transfer(source, target, 7)
        think = "the moment when you read a balance: may it still change then?"
        after = source.money, target.money
        expect(after == (1093, 1057), got=after, think=think)


def _expect_no_transfer_to_itself(transfer: Callable) -> None:
    with trying("transfer(ann, ann, 10), from an account to itself") as expect:
        ann = WatchedAccount(6, 100)
        transfer(ann, ann, 10)
        think = "a transfer to the same account: it changes nothing"
        expect(ann.balance == 100, got=f"the balance {ann.balance}", think=think)


def _expect_one_order_of_locks(transfer: Callable, one: int, other: int) -> None:
    """Of two accounts, one lock is always the first, whoever pays and has more."""
    pair, waits = pair_of_watched_accounts(one, other, 50, 50), {}
    with trying(f"transfers between accounts {one} and {other}, there and back") as see:
        for money, swapped in product([(50, 50), (90, 20), (20, 90)], (False, True)):
            pair[0].money, pair[1].money = money
            transfer(*(pair[::-1] if swapped else pair), 10)
            way = "from {} to {}".format(*((other, one) if swapped else (one, other)))
            for held, wanted in pair[0].waits | pair[1].waits:
                told = f"{way}, balances {money}: holds lock {held}, waits for {wanted}"
                waits.setdefault((held, wanted), told)
        think = "what happens if these two transfers run at the same time, and who "
        think += "should ask for which lock first?"
        see(len(waits) < 2, got="; ".join(waits.values()), think=think)


def _expect_no_wait_for_other_locks(transfer: Callable) -> None:
    one, two = pair_of_watched_accounts(12, 24, 10, 10)
    others, waited = pair_of_watched_accounts(36, 48, 10, 10), []

    def transfer_meanwhile() -> None:
        if not waited:
            other = Thread(target=transfer, args=(*others, 1), daemon=True)
            other.start()
            other.join(PATIENCE)
            waited.extend([True] if other.is_alive() else [])

    one.meanwhile = two.meanwhile = transfer_meanwhile
    with trying("a transfer from 36 to 48 in the middle of one from 12 to 24") as see:
        transfer(one, two, 1)
        think = "which lock do these two transfers have in common?"
        see(not waited, got="it waits too", think=think)


TWO_WRITE = (
    "which thread may write to which list? A count that two threads write to can be "
    "loaded by one before the other has stored"
)
CASES = [  # events, bins, workers
    ([(0, 0), (2, 1), (0, 2)], 4, 1),
    ([(0, event) for event in range(40)], 1, 4),
    ([(event * event % 5, event) for event in range(61)], 5, 3),
]
LOCKS = {"lock", "rlock", "semaphore", "condition"}


@exercise(
    "04-histogram",
    seconds=25,
    when_hung="what this line waits for: if it is an item of a queue, who else may "
    "have seen that one is left, and taken it?",
)
def check_04_histogram(histogram):
    with patch.object(Queue, "empty", _slow_empty):
        for events, bins, workers in CASES:
            _expect_sums(histogram, events, bins, workers)
    with trying("reading your code") as expect:
        names = _names(getattr(histogram, "__code__", None))
        locks = ", ".join(name for name in names if name.lower() in LOCKS)
        think = "the lock: what does it protect, and which threads write to that?"
        expect(not locks, got=f"the right sums, and a lock: {locks}", think=think)


def _slow_empty(queue: Queue) -> bool:
    """Between `empty` and `get` another thread may take what was there."""
    empty = not queue.qsize()
    sleep(0.05)
    return empty


def _names(code: object) -> set[str]:
    """The names in a function's code, and in that of the functions inside it."""
    if not isinstance(code, CodeType):
        return set()
    return {*code.co_names, *code.co_varnames}.union(*map(_names, code.co_consts))


def _expect_sums(histogram: Callable, events: list, bins: int, workers: int) -> None:
    energies = [event * event % 11 - 3 for event in range(len(events))]
    right = [sum(energies[e] for place, e in events if place == b) for b in range(bins)]
    device = SlowDevice(energies, workers)
    short = str(events) if len(events) < 4 else f"{len(events)} events"
    tried = f"histogram({short}, {bins}, energy, workers={workers})"
    with trying(tried, events) as expect:
        got = histogram(events, bins, device.energy, workers)
        think = f"the form: a list of {bins} sums; a bin without an event has 0"
        expect(isinstance(got, list) and len(got) == bins, got=got, think=think)
        expect(
            sorted(device.calls) == sorted(event for _, event in events),
            got=f"{got}, with {len(device.calls)} calls of energy",
            think="energy, called once per pair: which share does each worker get?",
        )
        think = "each energy: to which bin does it belong, with its sign?"
        if workers > 1:
            think = TWO_WRITE
        expect(got == right, got=f"{got}; right is {right}", think=think)
        think = "what each worker does while the device is slow. Should not all of "
        think += "them wait for it at the same time, and nobody else?"
        together = f"the right sums, and {device.most} read at once, not {workers}"
        expect(device.most == workers, got=together, think=think)
