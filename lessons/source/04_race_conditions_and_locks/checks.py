"""Checks of the exercises of lesson 04, Race conditions and locks."""

import random
import sys
from contextlib import contextmanager
from queue import Queue
from threading import Condition, Lock, Thread
from time import perf_counter, sleep

from demos.races.interleavings import UPDATE, play
from sidebyside.exercises import exercise, expect


@exercise("04-order")
def check_order(worst_order):
    for updates in 3, 2, 1, 4, 7:
        tried = f"worst_order({updates})"
        got = worst_order(updates)
        if not isinstance(got, str):
            expect(False, tried, got, "the answer is one text, such as 'ABABAB'")
        strangers = set(got) - set("AB")
        expect(not strangers, tried, got, "there are two threads, named A and B")
        counts = got.count("A"), got.count("B")
        expect(
            counts == (3 * updates, 3 * updates),
            tried,
            f"{got!r}, with {counts[0]} A and {counts[1]} B",
            f"each thread takes {3 * updates} steps: load, add and store, per update",
        )
        x = play(got, UPDATE * updates, UPDATE * updates)
        smallest = min(updates, 2)
        seen = f"{got!r}, and x ends as {x}"
        if updates == 1:
            think = "one update each: both can load the same 0"
        elif x == 2 * updates:
            think = "who loads before the other has stored? Here nothing is lost"
        else:
            think = f"how long a thread may keep an old copy; {smallest} can be reached"
        expect(x == smallest, tried, seen, think)


class _Account:
    """An account that notes whether its lock is held while its balance changes.

    Getting at the lock takes a millisecond: two threads that take two locks in two
    orders then meet for certain.
    """

    def __init__(self, number: int, balance: int):
        self.number = number
        self.careless = 0  # changes of the balance without the lock
        self._lock, self._balance, self._partner = Lock(), balance, None

    @property
    def lock(self) -> Lock:
        sleep(0.001)
        return self._lock

    @property
    def balance(self) -> int:
        return self._balance

    @balance.setter
    def balance(self, balance: int) -> None:
        partner = self._partner
        held = self._lock.locked() and (partner is None or partner._lock.locked())
        self.careless += not held
        sleep(0)
        self._balance = balance

    def __repr__(self) -> str:
        return f"account {self.number}"


def _accounts(*balances: int) -> list[_Account]:
    return [_Account(number, balance) for number, balance in enumerate(balances, 1)]


def _ends(work, *args, seconds: float = 3) -> bool:
    """Whether work(*args) ends. What it raises, is raised here."""
    errors = []

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    return not thread.is_alive()


@contextmanager
def _frequent_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


@exercise(
    "04-transfer",
    seconds=10,
    when_hung="who holds the lock that this line waits for, and what does that one "
    "wait for?",
    when_unsent="what of the notebook your function uses. If it is one lock for all: "
    "which lock may two transfers between four different accounts have in common?",
)
def check_transfer(transfer):
    dice = random.Random(4)
    ann, bob = _accounts(100, 100)
    for source, target in (ann, bob), (bob, ann):
        source._partner, target._partner = target, source
        before, amount = (source.balance, target.balance), dice.randint(1, 50)
        transfer(source, target, amount)
        after = source.balance, target.balance
        tried = f"transfer(source, target, {amount}) with the balances {before}"
        think = "which balance must grow, and by how much"
        expect(after == (before[0] - amount, before[1] + amount), tried, after, think)
        free = not (source._lock.locked() or target._lock.locked())
        think = "who gives the locks back when the transfer is done"
        expect(free, tried, "a lock that is still taken", think)
    expect(
        ann.careless + bob.careless == 0,
        "a transfer, and looked at the locks whenever a balance changed",
        "a balance that changed while one of the two account locks was free",
        "somebody who holds both locks counts the money: when is some of it missing?",
    )

    ended = _ends(transfer, ann, ann, 10)
    expect(
        ended,
        "transfer(ann, ann, 10), from an account to itself",
        "nothing: it waits for ever",
        "a Lock can be taken once, even by the thread that has it",
    )
    total = ann.balance + bob.balance
    think = "a transfer to the same account changes nothing"
    expect(
        total == 200, "transfer(ann, ann, 10)", f"balances that sum to {total}", think
    )

    one, two, three, four = _accounts(10, 10, 10, 10)
    with one._lock:
        waiting = Thread(target=transfer, args=(one, two, 1), daemon=True)
        waiting.start()
        sleep(0.05)
        tried = "transfer(3 to 4) while another thread waits for the lock of account 1"
        think = "which lock do these two transfers have in common?"
        expect(_ends(transfer, three, four, 1, seconds=2), tried, "it waits too", think)
    waiting.join()

    with _frequent_switches():
        _transfer_from_both_sides(transfer)
        _transfer_in_a_ring(transfer, dice)


def _transfer_from_both_sides(transfer) -> None:
    """One thread pays from 1 to 2, the other from 2 to 1. A deadlock hangs here."""
    ann, bob = _accounts(1000, 1000)

    def pay(source: _Account, target: _Account, amount: int) -> None:
        for _ in range(100):
            transfer(source, target, amount)

    other = Thread(target=pay, args=(bob, ann, 3), daemon=True)
    other.start()
    pay(ann, bob, 1)  # in this thread, for the report names the line it hangs on
    other.join()
    got = ann.balance, bob.balance
    tried = "100 transfers of 1 from ann to bob, and at the same time 100 of 3 back"
    think = "between which two moments may nobody else change the balances?"
    expect(got == (1200, 800), tried, f"the balances {got}, not (1200, 800)", think)


def _transfer_in_a_ring(transfer, dice: random.Random) -> None:
    """Three threads pay round a ring of accounts whose numbers are in no order."""
    accounts = _accounts(500, 500, 500)
    dice.shuffle(accounts)

    def pay(place: int) -> None:
        for _ in range(30):
            transfer(accounts[place], accounts[(place + 1) % 3], 1)

    others = [Thread(target=pay, args=(place,), daemon=True) for place in (1, 2)]
    for thread in others:
        thread.start()
    pay(0)
    for thread in others:
        thread.join()
    total = sum(account.balance for account in accounts)
    tried = "three threads that pay each other in a ring"
    think = "between which two moments may nobody else change the balances?"
    expect(total == 1500, tried, f"{total} of 1500 in all", think)


class _Energy(int):
    """A number that takes its time to be added.

    `counts[b] += energy` loads, adds and stores. Here the adding lasts so long that two
    threads which share a count do both load it before one of them has stored.
    """

    def __add__(self, other):
        sleep(0.001)
        return int.__add__(self, other)

    def __radd__(self, other):
        sleep(0.001)
        return int.__radd__(self, other)


class _OwnEnergy(_Energy):
    """The same for counts in a NumPy array: it does not let NumPy do the adding."""

    __array_ufunc__ = None

    def __radd__(self, other):
        sleep(0.001)
        return other + int(self)


class _Device:
    """Reads the energy of an event, slowly, and knows who reads at the same time.

    It waits, though not for ever, until as many read as are expected: a busy machine
    may be late in starting a thread.
    """

    def __init__(self, energies: list[int], expected: int, kind: type = _Energy):
        self.energies, self.expected, self.kind = energies, expected, kind
        self.calls: list[int] = []
        self.now = self.most = 0
        self._changed, self._patience = Condition(), 2.0

    def energy(self, event: int) -> int:
        with self._changed:
            self.calls.append(event)
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
            began = perf_counter()
            self._changed.wait_for(self._all_here, self._patience)
            self._patience = max(0.0, self._patience - (perf_counter() - began))
        sleep(0.002)
        with self._changed:
            self.now -= 1
        return self.kind(self.energies[event])

    def _all_here(self) -> bool:
        return self.most >= self.expected


TWO_WRITE = (
    "which thread may write to which list. A count that two threads write to can be "
    "loaded by one before the other has stored"
)


@exercise(
    "04-histogram",
    seconds=25,
    when_unsent="what of the notebook your function uses. If it is a lock: what do you "
    "protect with it? Give each worker a list of its own instead",
)
def check_histogram(histogram):
    dice = random.Random(44)
    cases = [
        ([(0, 0), (2, 1), (0, 2)], 4, 1),
        ([(0, event) for event in range(40)], 1, 4),
        ([(dice.randrange(5), event) for event in range(60)], 5, 3),
        ([(1, 0)], 3, 4),
        ([], 2, 3),
        ([(event % 3, event) for event in range(80)], 3, 40),  # more than any default
    ]
    _ends_though_others_take_the_last(histogram)
    for events, bins, workers in cases:
        enough = workers > 1 and len(events) >= 2 * workers
        energies = [dice.randint(1, 9) for _ in events]
        device = _Device(energies, workers if enough else 0)
        short = str(events) if len(events) < 4 else f"{len(events)} events"
        tried = f"histogram({short}, bins={bins}, energy, workers={workers})"
        got = histogram(list(events), bins, device.energy, workers)
        right = _sums(events, bins, energies)
        expect(
            isinstance(got, list) and len(got) == bins,
            tried,
            got,
            f"the answer is a list of {bins} sums; a bin without an event has 0",
        )
        missing = sorted(event for _, event in events) != sorted(device.calls)
        think = "energy is called once per event: which share does each worker get?"
        called = f"{got}, with {len(device.calls)} calls of energy"
        expect(not missing, tried, called, think)
        expect(got == right, tried, f"{got}; right is {right}", TWO_WRITE)
        if enough:
            think = "all workers should wait for the device at the same time"
            together = f"the right sums, but at most {device.most} read at once"
            expect(device.most >= workers, tried, together, think)
    _has_no_array_for_all(histogram)
    locks = sorted(_names(histogram.__code__) & {"Lock", "RLock", "lock", "Semaphore"})
    expect(
        not locks,
        "reading your code",
        f"the right sums, and a lock: {', '.join(locks)}",
        "what do you protect with it? Give each worker a list of its own instead",
    )


def _has_no_array_for_all(histogram) -> None:
    """Arrays shared without a lock are right by luck only, so we take the luck away.

    Not every right answer can add such numbers; one that cannot has passed already.
    """
    events, energies = [(0, event) for event in range(40)], list(range(40))
    device = _Device(energies, 0, _OwnEnergy)
    try:
        got = histogram(list(events), 1, device.energy, 4)
    except TypeError:
        return
    tried, right = "histogram(40 events, bins=1, energy, workers=4)", [sum(energies)]
    expect(list(got) == right, tried, f"{got}; right is {right}", TWO_WRITE)


def _sums(events: list, bins: int, energies: list[int]) -> list[int]:
    right = [0] * bins
    for place, event in events:
        right[place] += energies[event]
    return right


def _ends_though_others_take_the_last(histogram) -> None:
    """Between `empty` and `get` another thread may take what was there."""
    asked, empty = [], Queue.empty

    def slow_empty(self) -> bool:
        asked.append(1)
        answer = empty(self)
        sleep(0.01)
        return answer

    events, energy = [(0, event) for event in range(9)], _Device([1] * 9, 0).energy
    Queue.empty = slow_empty
    try:
        ended = _ends(histogram, events, 1, energy, 4)
    finally:
        Queue.empty = empty
    think = "what happens when two workers see that one item is left, and both get it?"
    expect(
        ended or not asked,
        "histogram(9 events, bins=1, energy, workers=4) and a queue that is slow",
        "nothing: it had not ended after 3 s",
        think,
    )


def _names(code) -> set[str]:
    """The names that a function and the functions in it use."""
    inner = [part for part in code.co_consts if hasattr(part, "co_names")]
    return set(code.co_names).union(code.co_varnames, *map(_names, inner))
