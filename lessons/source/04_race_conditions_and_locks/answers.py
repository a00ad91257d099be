"""Answers to the exercises of lesson 04 that people give, and that are not right."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from queue import Queue
from threading import Lock, Thread

import numpy as np

from lessons.source.sample_answers import right, wrong

# 04-order


@wrong(
    "04-order",
    advice="x ends as 3.*how long may a thread keep an old copy",
    note="They lose every second update. A copy may grow older than that.",
)
def in_turn(updates):
    return "AB" * (3 * updates)


@wrong(
    "04-order",
    advice="x ends as 3, not 2",
    note="They wipe out all of B, and nothing of A. Ask whether B can do the same.",
)
def keeps_one_old_copy_only(updates):
    return "A" + "BBB" * updates + "AA" + "AAA" * (updates - 1)


@wrong(
    "04-order",
    advice="nothing is lost",
    note="They write the right program, not the worst.",
)
def one_after_the_other(updates):
    return "AAA" * updates + "BBB" * updates


@wrong(
    "04-order",
    advice="both can load the same 0",
    note="They are right for two updates and more. With one, the pattern is AAABBB.",
)
def forgets_that_one_update_is_special(updates):
    rest = 3 * (updates - 1)
    return "A" + "B" * rest + "AA" + "B" + "A" * rest + "BB"


@wrong(
    "04-order",
    advice="the length of an update",
    note="They order updates, not steps: then nothing can come between.",
)
def one_letter_per_update(updates):
    return "A" + "B" * (updates - 1) + "A" * (updates - 1) + "B"


@wrong("04-order", advice="one text", note="They forget ''.join.")
def gives_a_list_of_letters(updates):
    return list("ABABAB") if updates == 1 else list(mirrored(updates))


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


def _move(source, target, amount, locks):
    """With the locks of these accounts; nothing for a transfer to the same account."""
    if source is not target:
        with locks[0].lock, locks[1].lock:
            source.balance -= amount
            target.balance += amount


def _by_number(*accounts):
    return sorted(accounts, key=lambda account: account.number)


@wrong(
    "04-transfer",
    advice="may the thread that has it take it again",
    note="They wait for themselves. An RLock would allow it; here it is not needed.",
)
def forgets_transfers_to_itself(source, target, amount):
    first, second = _by_number(source, target)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount


@wrong(
    "04-transfer",
    advice="run at the same time",
    note="They write the lesson's program. The check sees that without hanging.",
)
def source_first(source, target, amount):
    _move(source, target, amount, (source, target))


@wrong(
    "04-transfer",
    advice="when is some of it missing",
    note="They never hang, and for a moment the money is nowhere.",
)
def one_lock_after_the_other(source, target, amount):
    with source.lock:
        source.balance -= amount
    with target.lock:
        target.balance += amount


@wrong(
    "04-transfer",
    advice="may it still change",
    note="They keep the old copy of exercise 1, with locks around the store only.",
)
def reads_before_it_locks(source, target, amount):
    if source is target:
        return
    less, more = source.balance - amount, target.balance + amount
    first, second = _by_number(source, target)
    with first.lock, second.lock:
        source.balance, target.balance = less, more


@wrong(
    "04-transfer",
    advice="have in common",
    note="They avoid the deadlock, and all transfers of the bank wait in one line.",
)
def holds_a_gate_as_well(source, target, amount, gate=Lock()):  # noqa: B008
    with gate:
        _move(source, target, amount, (source, target))


holds_a_gate_as_well.__module__ = "__main__"  # as if defined in a notebook


@wrong(
    "04-transfer",
    advice="gives the locks back",
    note="They acquire without release. `with` cannot forget it.",
)
def keeps_the_locks(source, target, amount):
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number)
    first.lock.acquire()
    second.lock.acquire()
    source.balance -= amount
    target.balance += amount


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
    _move(source, target, amount, sorted([source, target], key=id))


# 04-histogram


def _with_locks(events, bins, energy, workers, around_reading, around_adding):
    counts = [0] * bins

    def add(pair):
        with around_reading:
            read = energy(pair[1])
        with around_adding:
            counts[pair[0]] += read

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


@wrong(
    "04-histogram",
    advice="loaded by one before the other has stored",
    note="They overlook that the old count is loaded before energy is called.",
)
def one_list_for_all(events, bins, energy, workers):
    counts = [0] * bins

    def add(pair):
        counts[pair[0]] += energy(pair[1])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(add, events))
    return counts


@wrong(
    "04-histogram",
    advice="read at once",
    note="They write ThreadPoolExecutor(), which chooses by the cores.",
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
    advice="1 read at once, not 4",
    note="They have the right sums, and are no faster than one thread.",
)
def lock_around_the_reading(events, bins, energy, workers):
    return _with_locks(events, bins, energy, workers, Lock(), Lock())


@wrong(
    "04-histogram",
    advice="which threads write to that",
    note="They are right, and read at the same time; the exercise is to do without.",
)
def with_a_lock(events, bins, energy, workers):
    lock = Lock()
    return _with_locks(events, bins, energy, workers, nullcontext(), lock)


@wrong(
    "04-histogram",
    advice="which share does each worker get",
    note="They lose the last events when the workers do not divide them evenly.",
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
    advice="item of a queue",
    note="They overlook that another worker may take the last item between empty() and"
    " get(). get_nowait, or one end mark per worker, cannot hang.",
    state="HUNG",
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
