"""Answers to the exercises of lesson 04 that people give, and that are not right."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from operator import call
from queue import Empty, Queue
from threading import Lock, Thread
from time import sleep

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong

# 04-order


@wrong(
    "04-order",
    advice="x ends as 3.*how long a thread may keep an old copy",
    note="Loses every second update. That a copy may grow old while many "
    "updates pass is the step still to make.",
)
def in_turn(updates):
    return "AB" * (3 * updates)


@wrong("04-order", advice="nothing is lost", note="The right program, not the worst.")
def one_after_the_other(updates):
    return "AAA" * updates + "BBB" * updates


@wrong(
    "04-order",
    advice="both can load the same 0",
    note="Right for two updates and more. With one, the pattern is AAABBB.",
)
def forgets_that_one_update_is_special(updates):
    rest = 3 * (updates - 1)
    return "A" + "B" * rest + "AA" + "B" + "A" * rest + "BB"


@wrong(
    "04-order",
    advice="x ends as 3, not 2",
    note="Wipes out all of B, and nothing of A. Ask whether B can do the same.",
)
def keeps_one_old_copy_only(updates):
    return "A" + "BBB" * updates + "AA" + "AAA" * (updates - 1)


@wrong(
    "04-order",
    advice="the length of an update",
    note="Orders updates, not steps: then nothing can come between.",
)
def one_letter_per_update(updates):
    return "A" + "B" * (updates - 1) + "A" * (updates - 1) + "B"


@wrong(
    "04-order",
    advice="x ends as 4, not 2",
    note="B loads only when A is done, so nothing of A is lost.",
)
def sits_on_one_copy_and_a_half(updates):
    rest = "BBB" * (updates - 1)
    return "A" + rest + "AA" + "AAA" * (updates - 1) + "BBB"


@wrong("04-order", advice="one text", note="''.join is missing.")
def gives_a_list_of_letters(updates):
    return list("ABABAB") if updates == 1 else list(mirrored(updates))


@wrong("04-order", advice="which characters name no thread")
def with_spaces(updates):
    return " ".join(mirrored(updates))


@wrong(
    "04-order",
    advice="keeps from its earlier calls",
    note="A default value is made once, and stays from call to call.",
)
def keeps_growing(updates, letters=[]):  # noqa: B006
    letters.append(mirrored(updates))
    return "".join(letters)


keeps_growing.__module__ = "__main__"  # as if defined in a notebook


@right("04-order")
def mirrored(updates):
    if updates == 1:
        return "BABBAA"
    return "B" + "AAA" * (updates - 1) + "BBA" + "BBB" * (updates - 1) + "AA"


@right("04-order")
def joins_the_steps(updates):
    if updates == 1:
        return "AABBAB"
    steps = ["A", "B" * 3 * (updates - 2), "BBB", "AA", "B"]
    steps += ["AAA" for _ in range(updates - 1)] + ["BB"]
    return "".join(steps)


# 04-transfer


@wrong(
    "04-transfer",
    advice="run at the same time",
    note="The program of the lesson. The check sees who waits for what with "
    "what in hand, and need not hang itself.",
)
def source_first(source, target, amount):
    if source is target:
        return
    with source.lock, target.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="may the thread that has it take it again",
    note="Waits for itself. An RLock would allow it; here it is not needed.",
)
def forgets_transfers_to_itself(source, target, amount):
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="when is some of it missing",
    note="Never hangs, and for a moment the money is nowhere.",
)
def one_lock_after_the_other(source, target, amount):
    with source.lock:
        source.balance -= amount
    with target.lock:
        target.balance += amount


@wrong(
    "04-transfer",
    advice="one of the two account locks was free",
    note="A lock that nobody else can have protects nothing.",
)
def makes_a_new_lock(source, target, amount):
    with Lock():
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="gives the locks back",
    note="acquire without release. `with` cannot forget it.",
)
def keeps_the_locks(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number)
    first.lock.acquire()
    second.lock.acquire()
    source.balance -= amount
    target.balance += amount


@wrong(
    "04-transfer",
    advice="four different accounts have in common|account locks was free",
    note="Never hangs, but all transfers of the bank wait in one line, which "
    "the contract forbids. The check stops at the lock outside the function.",
    given=call,
)
def one_lock_for_the_bank():
    """As in a notebook: the answer uses a lock of its own, outside the function."""
    names = {"bank_lock": Lock()}
    code = """
def transfer(source, target, amount):
    if source is target:
        return
    with bank_lock:
        source.balance -= amount
        target.balance += amount
"""
    exec(code, names)
    return names["transfer"]


@wrong(
    "04-transfer",
    advice="run at the same time",
    note="An order that changes is no order. Ask for something that both "
    "threads see alike at any time.",
)
def sorts_by_balance(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.balance)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="account.* 3 and 13|accounts 13 and 3",
    note="Equal keys: sorted() keeps the order of who pays.",
)
def sorts_by_the_last_digit(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number % 10)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="one order for all accounts",
    note="Each pair has one order, and three accounts still make a circle.",
)
def sorts_each_pair_in_its_own_way(source, target, amount):
    """1 before 2 and 2 before 3, but 3 before 1: two never hang, and three can."""
    if source is target:
        return
    odd = (source.number + target.number) % 2
    first, second = sorted((source, target), key=lambda a: a.number, reverse=not odd)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="may it still change",
    note="The old copy of exercise 1, with locks around the store only.",
)
def reads_before_it_locks(source, target, amount):
    if source is target:
        return
    less, more = source.balance - amount, target.balance + amount
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock, second.lock:
        source.balance, target.balance = less, more


@wrong(
    "04-transfer",
    advice="these two transfers have in common",
    note="No deadlock, and whoever waits in the gate stops the bank.",
)
def one_gate_before_the_locks(source, target, amount):
    gate = vars(one_gate_before_the_locks).setdefault("gate", Lock())
    if source is target:
        return
    with gate:
        locks = sorted([source, target], key=lambda account: account.number)
        locks[0].lock.acquire()
        locks[1].lock.acquire()
    source.balance -= amount
    target.balance += amount
    source.lock.release()
    target.lock.release()


@wrong(
    "04-transfer",
    advice="what does yours do then",
    note="It always ends, and sometimes without the money.",
)
def gives_up(source, target, amount):
    if source is target or not source.lock.acquire(timeout=0.1):
        return
    if target.lock.acquire(timeout=0.1):
        source.balance -= amount
        target.balance += amount
        target.lock.release()
    source.lock.release()


@wrong(
    "04-transfer",
    advice="has both locks for a long time.*what does yours do then",
    note="A tenth of a second is long, until somebody is slower.",
)
def gives_up_after_100_tries(source, target, amount):
    locks = sorted([source, target], key=lambda account: account.number)
    for _ in range(100 if source is not target else 0):
        with locks[0].lock:
            if locks[1].lock.acquire(blocking=False):
                source.balance -= amount
                target.balance += amount
                locks[1].lock.release()
                return
        sleep(0.001)


@wrong(
    "04-transfer",
    advice="balances 5 and 125.*whether the amount moves",
    note="Sensible in a bank, and not in this contract.",
)
def does_not_pay_what_is_not_there(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock, second.lock:
        if source.balance >= amount:
            source.balance -= amount
            target.balance += amount


@wrong("04-transfer", advice="balances 65 and 65.*whether the amount moves")
def takes_equal_balances_for_one_account(source, target, amount):
    if source.balance != target.balance:
        sorts_by_address(source, target, amount)


@wrong("04-transfer", advice="accounts 7 and 1007")
def sorts_by_the_last_three_digits(source, target, amount):
    if source is target:
        return
    key = source.number % 1000, target.number % 1000
    first, second = (target, source) if key[1] < key[0] else (source, target)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="the moment when transfer returns",
    note="It begins the transfer, and does not wait for its end.",
)
def moves_in_the_background(source, target, amount):
    Thread(target=sorts_by_address, args=(source, target, amount)).start()


@wrong(
    "04-transfer",
    advice="have in common",
    note="No deadlock, and all transfers of the bank wait in one line.",
)
def holds_a_gate_as_well(source, target, amount, gate=Lock()):  # noqa: B008
    if source is target:
        return
    with gate, source.lock, target.lock:
        source.balance -= amount
        target.balance += amount


holds_a_gate_as_well.__module__ = "__main__"  # as if defined in a notebook


@right("04-transfer")
def steps_back_and_tries_again(source, target, amount):
    moved = source is target
    while not moved:
        with source.lock:
            if target.lock.acquire(blocking=False):
                source.balance -= amount
                target.balance += amount
                target.lock.release()
                moved = True


@right("04-transfer")
def sorts_by_address(source, target, amount):
    locks = {id(account): account.lock for account in (source, target)}
    with ExitStack() as stack:
        for _, lock in sorted(locks.items()):
            stack.enter_context(lock)
        source.balance -= amount
        target.balance += amount


# 04-histogram


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="The old count is loaded before energy is called. Show it with dis.",
)
def one_list_for_all(events, bins, energy, workers):
    counts = [0] * bins

    def add(pair):
        counts[pair[0]] += energy(pair[1])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


def all_add_to(counts, events, energy, workers):
    def share(worker):
        for place, event in events[worker::workers]:
            read = energy(event)
            counts[place] += read

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    return counts


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="Reads first, and adds to a shared list: right by luck only. The "
    "check hands out numbers that take their time to be added.",
)
def one_list_read_first(events, bins, energy, workers):
    return all_add_to([0] * bins, events, energy, workers)


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="A NumPy array is shared as a list is: `counts[b] += read` loads, "
    "adds and stores.",
)
def one_array_for_all(events, bins, energy, workers):
    return all_add_to(np.zeros(bins, dtype=int), events, energy, workers).tolist()


@wrong(
    "04-histogram",
    advice="read at once",
    note="ThreadPoolExecutor() without `workers` chooses by the cores.",
)
def as_many_workers_as_the_pool_likes(events, bins, energy, workers):
    counts = [0] * bins
    with ThreadPoolExecutor() as pool:
        energies = list(pool.map(lambda pair: energy(pair[1]), events))
    for (place, _), read in zip(events, energies, strict=True):
        counts[place] += read
    return counts


@wrong(
    "04-histogram",
    advice="one item is left, and both get it",
    note="Between empty() and get() another worker may take the last item. "
    "get_nowait, or one end mark per worker, cannot hang.",
)
def asks_whether_the_queue_is_empty(events, bins, energy, workers):
    todo, done = Queue(), Queue()
    for pair in events:
        todo.put(pair)

    def work():
        counts = [0] * bins
        while not todo.empty():
            place, event = todo.get()
            counts[place] += energy(event)
        done.put(counts)

    crew = [Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return [sum(column) for column in zip(*done.queue, strict=True)]


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="Sums of its own, and at its end each thread adds them to one list. "
    "Some are lost only if two threads end within microseconds.",
)
def adds_its_sums_to_one_list(events, bins, energy, workers):
    total = [0] * bins

    def share(first):
        own = [0] * bins
        for b, event in events[first::workers]:
            own[b] += energy(event)
        for b, amount in enumerate(own):
            total[b] = total[b] + int(amount)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    return total


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="The same with a Counter, in the order in which bins were met.",
)
def adds_what_it_has_met_to_one_list(events, bins, energy, workers):
    total = [0] * bins

    def share(first):
        own = Counter()
        for b, event in events[first::workers]:
            own[b] += int(energy(event))
        for b, amount in own.items():
            total[b] += amount

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    return total


@wrong("04-histogram", advice="what is their sum")
def leaves_out_what_is_negative(events, bins, energy, workers):
    counts = [0] * bins
    readings = _readings(events, energy, workers)
    for (b, _), reading in zip(events, readings, strict=True):
        counts[b] += max(0, reading)
    return counts


@wrong("04-histogram", advice="two pairs have the same")
def reads_an_event_once(events, bins, energy, workers):
    return histogram_of_shares(events, bins, cache(energy), workers)


@wrong(
    "04-histogram",
    advice="how does it differ from a lock",
    note="A Queue with one item is a lock by another name.",
)
def hands_a_token_round(events, bins, energy, workers):
    counts, token = [0] * bins, Queue()
    token.put("one thread at a time")

    def add(pair):
        read = energy(pair[1])
        mine = token.get()
        counts[pair[0]] += read
        token.put(mine)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


@wrong("04-histogram", advice="OverflowError")
def adds_in_64_bits(events, bins, energy, workers):
    sums = histogram_of_shares(events, bins, energy, workers)
    return np.array(sums, dtype=np.int64).tolist()


@wrong(
    "04-histogram",
    advice="an event that means nothing to you",
    note="None marks the end only where nobody records it.",
)
def ends_at_none(events, bins, energy, workers):
    todo, own = Queue(), [[0] * bins for _ in range(workers)]
    for pair in [*events, *[(0, None)] * workers]:
        todo.put(pair)

    def work(counts):
        while (pair := todo.get())[1] is not None:
            counts[pair[0]] += energy(pair[1])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, own))
    return [sum(column) for column in zip(*own, strict=True)]


@wrong(
    "04-histogram",
    advice="which threads write to that",
    note="Right, and it reads at the same time; the exercise is to do without.",
)
def with_a_lock(events, bins, energy, workers):
    counts, lock = [0] * bins, Lock()

    def add(pair):
        read = energy(pair[1])
        with lock:
            counts[pair[0]] += read

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


@wrong(
    "04-histogram",
    advice="1 read at once, not 4",
    note="Right sums, and no faster than one thread.",
)
def lock_around_the_reading(events, bins, energy, workers):
    counts, lock = [0] * bins, Lock()

    def add(pair):
        with lock:
            counts[pair[0]] += energy(pair[1])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


@wrong(
    "04-histogram",
    advice="wait for it at the same time",
    note="Ask what the worker does while it waits.",
)
def no_thread_at_all(events, bins, energy, workers):
    counts = [0] * bins
    for place, event in events:
        counts[place] += energy(event)
    return counts


@wrong(
    "04-histogram",
    advice="which share does each worker get",
    note="Loses the last events when the workers do not divide them evenly.",
)
def drops_the_remainder(events, bins, energy, workers):
    size = len(events) // workers

    def share(worker):
        counts = [0] * bins
        for place, event in events[worker * size : (worker + 1) * size]:
            counts[place] += energy(event)
        return counts

    with ThreadPoolExecutor(workers) as pool:
        histograms = list(pool.map(share, range(workers)))
    return [sum(column) for column in zip(*histograms, strict=True)]


@wrong(
    "04-histogram",
    advice="which pair is read twice",
    note="Parallel, and each worker does all of the work.",
)
def everyone_reads_everything(events, bins, energy, workers):
    def share(worker):
        counts = [0] * bins
        for place, event in events:
            counts[place] += energy(event)
        return counts

    with ThreadPoolExecutor(workers) as pool:
        first, *_ = pool.map(share, range(workers))
    return first


@wrong(
    "04-histogram",
    advice="right is",
    note="Counts the events instead of adding their energies.",
)
def counts_the_events(events, bins, energy, workers):
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda pair: energy(pair[1]), events))
    return [sum(place == wanted for place, _ in events) for wanted in range(bins)]


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="A tensor is shared as a list is, and adds without the GIL.",
)
def one_tensor_for_all(events, bins, energy, workers):
    counts = torch.zeros(bins, dtype=torch.long)
    return all_add_to(counts, events, energy, workers).tolist()


@wrong(
    "04-histogram",
    advice="2 read at once, not 1.*besides the workers",
    note="The main thread counted in, or a pool with a default of its own.",
)
def one_worker_too_many(events, bins, energy, workers):
    return histogram_of_shares(events, bins, energy, workers + 1)


def histogram_of_shares(events, bins, energy, workers):
    def share(worker):
        counts = [0] * bins
        for place, event in events[worker::workers]:
            counts[place] += energy(event)
        return counts

    with ThreadPoolExecutor(workers) as pool:
        histograms = list(pool.map(share, range(workers)))
    return [sum(column) for column in zip(*histograms, strict=True)]


@wrong(
    "04-histogram",
    advice="35 read at once, not 40.*how many shares",
    note="Shares of two for 70 events: five workers get none.",
)
def rounds_the_shares_up(events, bins, energy, workers):
    size = max(1, -(-len(events) // workers))
    shares = [events[start : start + size] for start in range(0, len(events), size)]

    def one(share):
        return histogram_of_shares(share, bins, energy, 1)

    with ThreadPoolExecutor(workers) as pool:
        return [sum(column) for column in zip([0] * bins, *pool.map(one, shares))]  # noqa: B905


@wrong(
    "04-histogram",
    advice="who else uses what",
    note="Right sums, and the caller's list is empty.",
)
def takes_the_events_away(events, bins, energy, workers):
    def share(worker):
        counts = [0] * bins
        while True:
            try:
                place, event = events.pop()
            except IndexError:
                return counts
            counts[place] += energy(event)

    with ThreadPoolExecutor(workers) as pool:
        histograms = list(pool.map(share, range(workers)))
    return [sum(column) for column in zip(*histograms, strict=True)]


@right("04-histogram")
def a_row_of_one_array_each(events, bins, energy, workers):
    counts = np.zeros((workers, bins), dtype=object)

    def share(worker):
        for place, event in events[worker::workers]:
            counts[worker, place] += energy(event)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    return counts.sum(axis=0).tolist()


@right("04-histogram")
def reads_in_threads_and_adds_in_numpy(events, bins, energy, workers):
    counts = np.zeros(bins, dtype=object)
    with ThreadPoolExecutor(workers) as pool:
        energies = list(pool.map(lambda pair: energy(pair[1]), events))
    for (place, _), read in zip(events, energies, strict=True):
        np.add.at(counts, place, read)  # cannot add what refuses NumPy
    return counts.tolist()


@right("04-histogram")
def takes_from_a_queue(events, bins, energy, workers):
    todo, own = Queue(), [[0] * bins for _ in range(workers)]
    for pair in events:
        todo.put(pair)

    def work(counts):
        while True:
            try:
                place, event = todo.get_nowait()
            except Empty:
                return
            counts[place] += energy(event)

    crew = [Thread(target=work, args=(counts,)) for counts in own]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return [sum(column) for column in zip(*own, strict=True)]


@wrong("04-transfer", advice="when is some of it missing")
def gives_the_locks_back_in_between(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number)
    for account, change in (source, -amount), (target, amount):
        with first.lock, second.lock:
            account.balance += change


def _readings(events, energy, workers):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(energy, [event for _, event in events]))


@wrong("04-histogram", advice="also if it is 0")
def reads_again_what_is_zero(events, bins, energy, workers):
    counts = [0] * bins
    readings = _readings(events, energy, workers)
    for (b, event), reading in zip(events, readings, strict=True):
        counts[b] += reading or energy(event)
    return counts


@wrong("04-histogram", advice="keeps each of its digits")
def adds_up_in_floats(events, bins, energy, workers):
    places = np.array([b for b, _ in events], dtype=np.int64)
    weights = np.array(_readings(events, energy, workers), dtype=np.float64)
    return [int(x) for x in np.bincount(places, weights=weights, minlength=bins)]
