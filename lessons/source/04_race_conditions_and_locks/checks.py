"""Checks of the exercises of lesson 04, Race conditions and locks."""

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise, permutations, product
from queue import Queue
from threading import Barrier, BrokenBarrierError, Event, Thread, get_ident
from time import sleep
from types import FrameType
from unittest.mock import patch

from demos.races.interleavings import UPDATE, play
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts, Expect

from .slow_device import SlowDevice, SlowEnergy, SlowEnergyInArrays
from .watched_bank import LongHolder, WatchedAccount, pair_of_watched_accounts

PATIENCE = 4  # seconds after which something that should take milliseconds has hung


@exercise("04-order")
def check_04_order(worst_order):
    attempt = Attempts(worst_order)
    for updates in 3, 2, 1, 4, 7, 30:
        attempt(_expect_worst_order, updates)


def _expect_worst_order(worst_order: Callable, updates: int) -> None:
    with trying(f"worst_order({updates})") as expect:
        got = worst_order(updates)
        text = "the form of the answer: one text, such as 'ABABAB'"
        expect(isinstance(got, str), got=got, think=text)
        names = "the names of the threads: there are two, A and B"
        if set(got) >= set("AB"):
            names = "what stands between the quotes: which characters name no thread?"
        expect(set(got) <= set("AB"), got=f"the text {got!r}", think=names)
        counts = got.count("A"), got.count("B")
        expect(
            counts == (3 * updates, 3 * updates),
            got=f"{got!r}, with {counts[0]} A and {counts[1]} B",
            think=f"the length of an update: load, add and store, so {3 * updates} "
            "steps for each thread",
        )
        x, least = play(got, UPDATE * updates, UPDATE * updates), min(updates, 2)
        seen = f"{got!r}, and x ends as {x}, not {least}"
        expect(x == least, got=seen, think=_how_to_lose_in_order(updates, x))


def _how_to_lose_in_order(updates: int, x: int) -> str:
    if updates == 1:
        return "one update each: both can load the same 0"
    if x == 2 * updates:
        return "who loads before the other has stored? Here nothing is lost"
    return "how long a thread may keep an old copy"


@exercise(
    "04-transfer",
    seconds=20,
    when_hung="who holds the lock that this line waits for, and what does that one "
    "wait for?",
    when_unsent="what your function uses that was made before the call. If it is one "
    "lock for all: which lock may two transfers between four different accounts have "
    "in common?",
)
def check_04_transfer(transfer):
    _expect_amount_to_move(transfer)
    _expect_transfer_to_wait_for_long(transfer)
    _expect_both_locks_during_transfer(transfer)
    _expect_no_transfer_to_itself(transfer)
    _expect_no_wait_for_other_locks(transfer)
    for one, other in (1, 2), (3, 4), (9, 10), (0, 5), (13, 3), (700, 1000), (8, 16):
        _expect_one_order_of_locks(transfer, one, other)
    for alike in 10**3, 10**9, 720_720:  # alike modulo many numbers
        _expect_one_order_of_locks(transfer, 7, 7 + alike)
    _expect_no_ring_of_waits(transfer, [1, 2, 3, 4, 7, 30, 200])
    _expect_all_transfers_to_end(transfer)


def _expect_amount_to_move(transfer: Callable) -> None:
    """Of equal balances, again and again, and of more than there is.

    Nobody else has the locks. A thread of the answer's own is late, so that a
    transfer that does not wait for it returns too early.
    """
    source, target = pair_of_watched_accounts(1, 2, 95, 35, refuses=0)
    here, looked = get_ident(), Event()
    source.meanwhile = target.meanwhile = lambda: (
        get_ident() == here or looked.wait(0.3)
    )
    for before in (95, 35), (65, 65), (35, 95), (5, 125):
        right = before[0] - 30, before[1] + 30
        call = "transfer(source, target, 30) with the balances {} and {}"
        with trying(call.format(*before)) as expect:
            transfer(source, target, 30)
            after = source.money, target.money
            looked.set()
            if after != right and _change_later(source, target):
                think = "the moment when transfer returns: what must be done by then?"
                expect(False, got=f"{after}; they changed later", think=think)
            think = "which balance must grow, which shrink, and by how much?"
            if after == before:
                think = "what decides in your function whether the amount moves?"
            expect(after == right, got=after, think=think)
            _expect_locks_to_be_free(expect, source, target)


def _change_later(*accounts: WatchedAccount) -> bool:
    """Whether the balances change when nobody should change them any more."""
    then = [account.money for account in accounts]
    return any(
        sleep(0.01) or [account.money for account in accounts] != then
        for _ in range(100)
    )


def _expect_locks_to_be_free(expect: Expect, *accounts: WatchedAccount) -> None:
    think = "who gives the locks back when the transfer is done?"
    free = not any(account.lock.locked() for account in accounts)
    expect(free, got="a lock that is still taken", think=think)


def _expect_transfer_to_wait_for_long(transfer: Callable) -> None:
    source, target = pair_of_watched_accounts(1, 2, 100, 50)
    source.lock.holder = target.lock.holder = LongHolder()
    tried = "transfer(source, target, 30) with the balances 100 and 50, while somebody "
    tried += "else has both locks for a long time"
    with trying(tried) as expect:
        transfer(source, target, 30)
        after = source.money, target.money
        think = "a lock that somebody else has: what does yours do then?"
        expect(after == (70, 80), got=after, think=think)
        _expect_locks_to_be_free(expect, source, target)


def _expect_both_locks_during_transfer(transfer: Callable) -> None:
    for amount, deposit in (30, 0), (7, 1000):
        source, target = pair_of_watched_accounts(1, 2, 100, 50, deposit=deposit)
        tried = f"transfer(source, target, {amount}) with the balances 100 and 50"
        with trying(f"{tried}, and looked at the locks at each change") as expect:
            transfer(source, target, amount)
            got = "a balance that changed while one of the two account locks was free"
            think = "the money, counted by somebody who holds both locks: when is some "
            think += "of it missing?"
            expect(not source.careless + target.careless, got=got, think=think)
            got = "two balances that changed, and between them the locks were free"
            expect(len(source.turns | target.turns) < 2, got=got, think=think)
        with trying(f"{tried}; while it waits for a lock, {deposit} come in") as expect:
            after = source.money, target.money
            right = 100 - amount + deposit, 50 + amount + deposit
            think = "the moment when you read a balance: may it still change then?"
            expect(after == right, got=f"{after}, not {right}", think=think)


def _expect_no_transfer_to_itself(transfer: Callable) -> None:
    tried = "transfer(ann, ann, 10), from an account to itself"
    with trying(tried) as expect:
        ann = WatchedAccount(6, 100, tried=tried)
        transfer(ann, ann, 10)
        got, think = f"the balance {ann.balance}, not 100", "a transfer to the same "
        think += "account: it changes nothing"
        expect(ann.balance == 100, got=got, think=think)
        _expect_locks_to_be_free(expect, ann)


def _expect_one_order_of_locks(transfer: Callable, one: int, other: int) -> None:
    """Of two accounts, one lock is always the first, whoever pays and has more."""
    pair = pair_of_watched_accounts(one, other, 50, 50)
    with trying(f"transfers between accounts {one} and {other}, there and back") as see:
        for money, swapped in product([(50, 50), (90, 20), (20, 90)], (False, True)):
            pair[0].money, pair[1].money = money
            transfer(*(pair[::-1] if swapped else pair), 10)
        waits = pair[0].waits | pair[1].waits
        both = [
            f"one holds the lock of {a} and waits for that of {b}" for a, b in waits
        ]
        think = "what happens if these two transfers run at the same time, and who "
        think += "should ask for which lock first?"
        see(len(waits) < 2, got="; ".join(sorted(both)), think=think)


def _expect_no_ring_of_waits(transfer: Callable, numbers: list[int]) -> None:
    """Where each pair has an order of its own, three transfers can still hang."""
    accounts = [WatchedAccount(number, 100) for number in numbers]
    with trying(f"transfers between accounts {numbers}, each to each") as expect:
        for source, target in permutations(accounts, 2):
            source.partner, target.partner = target, source
            transfer(source, target, 1)
        wanted = {number: set() for number in numbers}
        for held, waited_for in set().union(*(account.waits for account in accounts)):
            wanted[held].add(waited_for)
        try:
            TopologicalSorter(wanted).prepare()
            ring = []
        except CycleError as error:
            ring = error.args[1][::-1]
        got = "; ".join(
            f"one has lock {a} and waits for {b}" for a, b in pairwise(ring)
        )
        think = "three transfers at the same time: is there one order for all accounts?"
        expect(not ring, got=got, think=think)


def _ends_without_deadlock(work: Callable, *args) -> bool:
    """Whether work(*args) ends. What it raises, is raised here."""
    errors = []

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if errors:
        raise errors[0]
    return not thread.is_alive()


def _expect_no_wait_for_other_locks(transfer: Callable) -> None:
    one, two = pair_of_watched_accounts(12, 24, 10, 10)
    others, ended = pair_of_watched_accounts(36, 48, 10, 10), []
    one.meanwhile = two.meanwhile = lambda: ended.append(
        all(ended) and _ends_without_deadlock(transfer, *others, 1)
    )
    with trying(
        "a transfer from 36 to 48 in the middle of one from 12 to 24"
    ) as expect:
        transfer(one, two, 1)
        think = "which lock do these two transfers have in common?"
        expect(all(ended), got="it waits too", think=think)


def _expect_all_transfers_to_end(transfer: Callable) -> None:
    """Three threads pay each other. This one begins: a report names its line."""
    accounts = [WatchedAccount(number, 500, delays=4) for number in (30, 4, 200)]
    right = dict.fromkeys(accounts, 500)
    dice, lists = random.Random(4), []
    for _ in range(3):
        lists.append(
            [(*dice.sample(accounts, 2), dice.randint(1, 9)) for _ in range(8)]
        )
    for source, target, amount in chain(*lists):
        right[source] -= amount
        right[target] += amount

    def pay(orders: list) -> None:
        for order in orders:
            transfer(*order)

    with trying("24 transfers between three accounts, by three threads") as expect:
        threads = [Thread(target=pay, args=(part,), daemon=True) for part in lists[1:]]
        for thread in threads:
            thread.start()
        pay(lists[0])
        for thread in threads:
            thread.join()
        got = f"{[a.balance for a in accounts]}, not {list(right.values())}"
        think = "between which two moments may nobody else change the balances?"
        expect(all(a.balance == right[a] for a in accounts), got=got, think=think)


TWO_WRITE = (
    "which thread may write to which list? A count that two threads write to can be "
    "loaded by one before the other has stored"
)
WHO_NEEDS_A_LOCK = "what does it protect, and which threads write to that?"
MANY = [(0, event) for event in range(40)], 1, 4
CASES = [  # events, bins, workers
    ([(0, 0), (2, 1), (0, 2)], 4, 1),
    ([(0, 1), (2, 0), (1, 1)], 3, 1),  # an event in two pairs
    MANY,
    ([(event * event % 5, event) for event in range(61)], 5, 3),
    ([(1, 0)], 3, 4),
    ([], 2, 3),
    ([(event % 2, event) for event in range(70)], 3, 40),  # more than any default
]


@exercise(
    "04-histogram",
    seconds=25,
    when_unsent="what your function uses that was made before the call. If it is a "
    f"lock: {WHO_NEEDS_A_LOCK}",
)
def check_04_histogram(histogram):
    _expect_histogram_to_end_at_empty_queue(histogram)
    for events, bins, workers in CASES:
        _expect_histogram_sums(histogram, events, bins, workers)
    _expect_histogram_of_fast_device(histogram)
    _expect_histogram_of_empty_events(histogram)
    with suppress(TypeError):  # not every right answer can add such numbers
        _expect_histogram_sums(histogram, *MANY, kind=SlowEnergyInArrays)
    for bins in 5, 50:
        _expect_histogram_sums_by_bytecode(histogram, bins, range(2 * bins))
        halves = [number // 2 for number in range(2 * bins)]
        _expect_histogram_sums_by_bytecode(histogram, bins, halves)
    with trying("reading your code") as expect:
        locks = sorted(
            _names_in_histogram(histogram) & {"Lock", "RLock", "Semaphore", "Condition"}
        )
        got = f"the right sums, and a lock: {', '.join(locks)}"
        expect(not locks, got=got, think=f"the lock: {WHO_NEEDS_A_LOCK}")
    _expect_no_sum_of_several_threads(histogram)
    _expect_histogram_of_large_energies(histogram)


def _expect_histogram_sums(
    histogram: Callable, events: list, bins: int, workers: int, kind: type = SlowEnergy
) -> None:
    energies = [7 + event * event % 11 for event in range(len(events))]
    right = [sum(energies[e] for place, e in events if place == b) for b in range(bins)]
    exact = len(events) >= workers
    device, given = SlowDevice(energies, workers if exact else 0, kind), list(events)
    short = str(events) if len(events) < 4 else f"{len(events)} events"
    with trying(
        f"histogram({short}, {bins}, energy, workers={workers})", given
    ) as expect:
        got = histogram(given, bins, device.energy, workers)
        think = f"the form: a list of {bins} sums; a bin without an event has 0"
        expect(isinstance(got, list) and len(got) == bins, got=got, think=think)
        called = f"{got}, with {len(device.calls)} calls of energy"
        wanted = sorted(event for _, event in events)
        think = _why_calls_of_energy_differ(device.calls, wanted)
        expect(sorted(device.calls) == wanted, got=called, think=think)
        told = f"{got}; right is {right}"
        expect(got == right, got=told, think=_why_sums_differ(got, right, workers))
        together = f"the right sums, and {device.most} read at once, not {workers}"
        think = "what each worker does while the device is slow. Should not all of "
        think += "them wait for it at the same time?"
        if device.most > 1:
            think = "how many shares there are, and how many threads: does every "
            think += "worker of this call read?"
        if device.most > workers:
            think = "who reads: is it anybody besides the workers of this call?"
        expect(not exact or device.most == workers, got=together, think=think)


def _why_calls_of_energy_differ(calls: list[int], wanted: list[int]) -> str:
    each = "energy, called once per pair: "
    if Counter(calls) - Counter(wanted):
        return each + "which pair is read twice?"
    if set(calls) == set(wanted):
        return each + "what if two pairs have the same event?"
    return each + "which share does each worker get?"


def _expect_histogram_of_fast_device(histogram: Callable) -> None:
    """A thread ends before the next one begins, which gets its id on most systems.

    An event is a list here, which cannot be the key of a dictionary.
    """
    energies, asked, begin = [7, 0, 3, 4, -6], [], Thread.start

    def start(thread: Thread) -> None:
        begin(thread)
        sleep(0.01)

    def energy(event: list[int]) -> int:
        asked.append(event[0])
        return energies[event[0]]

    events = [(1, [0]), (0, [1]), (0, [2]), (2, [3]), (2, [4])]
    with trying(f"histogram({events}, 3, energy, workers=9), a fast device") as expect:
        with patch.object(Thread, "start", start):
            got = histogram(events, 3, energy, 9)
        right = [3, 7, -2]
        think = "energy, called once per pair, also if it is 0"
        once = f"{got}, with {len(asked)} calls of energy"
        expect(sorted(asked) == [0, 1, 2, 3, 4], got=once, think=think)
        both = enumerate(zip(got, right, strict=False))
        wrong = [place for place, (found, sure) in both if found != sure]
        think = "a worker that is done before the next begins: may what it leaves be "
        think += "lost then?"
        if wrong == [2] and got[2] != 0:
            think = f"the energies {energies[3:]}: what is their sum?"
        expect(got == right, got=f"{got}; right is {right}", think=think)


def _expect_histogram_of_empty_events(histogram: Callable) -> None:
    """Two events in each bin. None marks the end only where nobody records it."""
    kinds, asked = (None, False, (), ""), []

    def energy(event: object) -> int:
        asked.append(event)
        return 1

    events = [(place, event) for event in kinds for place in range(2)]
    with trying(f"histogram({events}, 2, energy, workers=2)", events) as expect:
        got = histogram(events, 2, energy, 2)
        read = [sum(event is kind for event in asked) for kind in kinds]
        told = f"{got}; of {kinds} it has read {read}"
        think = "an event that means nothing to you: what does your program do with it?"
        expect(read == [2] * 4, got=told, think=think)
        expect(got == [4, 4], got=got, think=think)


def _expect_histogram_of_large_energies(histogram: Callable) -> None:
    energies, events = [2**70 + 1, 2**70], [(0, 0), (0, 1)]
    with trying(f"histogram({events}, 1, {energies}.__getitem__, workers=2)") as expect:
        got = histogram(events, 1, energies.__getitem__, 2)
        think = "a large energy: which kind of number keeps each of its digits?"
        expect(got == [2**71 + 1], got=got, think=think)


def _expect_no_sum_of_several_threads(histogram: Callable) -> None:
    """Whatever makes them take turns at a sum is a lock by another name."""
    events, bins, workers = MANY
    energy = SlowDevice([1] * len(events), workers).energy
    tried = f"histogram(40 events, {bins}, energy, workers={workers})"
    with trying(f"{tried}, and looked at who adds") as expect:
        got = histogram(list(events), bins, energy, workers)
        writers = [getattr(number, "writers", ()) for number in got]
        in_turn = any(len(set(threads)) < len(threads) for threads in writers)
        think = "what lets one thread at a time add to a sum that others add to: how "
        think += "does it differ from a lock?"
        seen = "the right sum, and several threads have added to it in turn"
        expect(not in_turn, got=seen, think=think)


def _why_sums_differ(got: list, right: list[int], workers: int) -> str:
    sums = [as_number(number) for number in got]
    if None not in sums and sum(sums) > sum(right):
        return (
            "what is too much: is an energy added twice, or is something of an "
            "earlier call in your lists when a call begins?"
        )
    return TWO_WRITE if workers > 1 else "each energy: to which bin does it belong?"


def _expect_histogram_sums_by_bytecode(
    histogram: Callable, bins: int, places: Iterable[int]
) -> None:
    """Two workers end at the same time, and take turns at each of their bytecodes.

    Those who add up what they have met do so in the order of `places`.
    """
    meeting, events = Barrier(2), [(b % bins, n) for n, b in enumerate(places)]

    def energy(event: int) -> int:
        with suppress(BrokenBarrierError):
            meeting.wait(0.5)
        return 1

    tried = f"histogram({2 * bins} events, {bins}, energy, workers=2)"
    with trying(f"{tried}; the threads take turns at each bytecode") as expect:
        before = threading.gettrace()
        threading.settrace(_pause_at_each_bytecode)
        try:
            got = histogram(events, bins, energy, 2)
        finally:
            threading.settrace(before)
        expect(got == [2] * bins, got=got, think=TWO_WRITE)


def _pause_at_each_bytecode(frame: FrameType, event: str, _) -> Callable | None:
    """For threading.settrace: only the answer's own code is slow."""
    module = frame.f_globals.get("__name__", "").partition(".")[0]
    if module in sys.stdlib_module_names or frame.f_globals is globals():
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        sleep(1e-5)
    return _pause_at_each_bytecode


def _expect_histogram_to_end_at_empty_queue(histogram: Callable) -> None:
    """Between `empty` and `get` another thread may take what was there."""
    asked, empty = [], Queue.empty

    def slow_empty(self) -> bool:
        asked.append(1)
        answer = empty(self)
        sleep(0.1)
        return answer

    events, energy = [(0, event) for event in range(9)], SlowDevice([1] * 9, 0).energy
    with (
        trying(
            "histogram(9 events, 1, energy, workers=4) and a queue that is slow"
        ) as expect,
        patch.object(Queue, "empty", slow_empty),
    ):
        ended = _ends_without_deadlock(histogram, events, 1, energy, 4)
        think = "what happens when two workers see that one item is left, and both get "
        think += "it?"
        expect(ended or not asked, got="nothing: it had not ended", think=think)


def _names_in_histogram(answer: Callable) -> set[str]:
    """The names used by a function or object and by what it calls, and their types."""
    found, names, parts = set(), set(), [answer, *vars(type(answer)).values()]
    around = getattr(answer, "__globals__", {})  # also of functions in functions
    while parts:
        part = parts.pop()
        kind, code = type(part).__name__, getattr(part, "__code__", part)
        names.add({"lock": "Lock"}.get(kind, kind))
        if hasattr(code, "co_names") and code not in found:
            found.add(code)
            names |= {*code.co_names, *code.co_varnames}
            parts += getattr(part, "__defaults__", None) or ()
            known = getattr(part, "__globals__", around)
            parts += [*code.co_consts, *(known.get(name) for name in code.co_names)]
    return names
