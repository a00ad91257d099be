"""Answers to the exercises of lesson 02 that people give: wrong, and unusual."""

import os
from multiprocessing import connection
from queue import Queue
from threading import Thread
from time import monotonic

from lessons.props.processes_and_threads import (
    put_squares,
    send_squares,
    spawn,
    square_in_place,
)
from lessons.source.sample_answers import right, wrong

# 02-firm


FIRM = {
    "secretary": "boss",
    "foreman": "boss",
    "apprentice": "foreman",
    "helper": "foreman",
    "courier": "foreman",
}


wrong(
    "02-firm",
    advice="can a thread be the parent of a process",
    note="They make the helper, a thread, the courier's parent: nearly everybody, at "
    "first. Ask for the helper's process id.",
    name="the_thread_is_a_parent",
)(FIRM | {"courier": "helper"})


wrong(
    "02-firm",
    advice="the line that starts apprentice: which process runs it",
    note="They take the boss for the owner of all processes. Who runs the line with "
    "start()?",
    name="all_are_children_of_the_boss",
)(dict.fromkeys(FIRM, "boss"))


wrong(
    "02-firm",
    advice="the line that starts foreman",
    note="They read the order of the lines as a chain of command.",
    name="the_first_process_is_the_parent",
)(FIRM | {"foreman": "secretary"})


wrong(
    "02-firm",
    advice="who is in the firm besides the boss",
    note="They take the function in which start() stands for a process.",
    name="names_functions",
)(FIRM | {"apprentice": "work_together"})


wrong(
    "02-firm",
    advice="missing names: helper",
    note="They think that a thread is in no process.",
    name="leaves_out_the_thread",
)({name: where for name, where in FIRM.items() if name != "helper"})


wrong(
    "02-firm",
    advice="a parent, or children",
    note="They turn the tree round: an entry gives the children, not the parent.",
    name="has_children_as_values",
)(
    {
        "boss": ["secretary", "foreman"],
        "foreman": ["apprentice", "helper", "courier"],
    }
)


wrong(
    "02-firm",
    advice="the line that starts helper",
    note="They turn it round: the helper starts the courier.",
    name="the_thread_is_in_its_child",
)(FIRM | {"helper": "courier"})


right("02-firm", name="in_another_order")(dict(reversed(FIRM.items())))


right("02-firm", name="by_words")(dict(**FIRM))


# 02-three-ways


def through_pipes(parts):
    ends, children = [], []
    for part in parts:
        ours, theirs = spawn.Pipe()
        children.append(spawn.Process(target=send_squares, args=(theirs, part)))
        children[-1].start()
        ends.append(ours)
    results = [ours.recv() for ours in ends]
    for child in children:
        child.join()
    return results


def through_a_queue(parts):
    queue, children = spawn.Queue(), []
    for number, part in enumerate(parts):
        children.append(spawn.Process(target=put_squares, args=(queue, number, part)))
        children[-1].start()
    messages = sorted(queue.get() for _ in parts)
    for child in children:
        child.join()
    return [(pid, squares) for _, pid, squares in messages]


def _shared_memory(parts, wait=True, kind="q", one_for_all=False):
    blocks, children = [], []
    signature = spawn.RawValue("i")
    for part in parts:
        mine = signature if one_for_all else spawn.RawValue("i")
        blocks.append((spawn.RawArray(kind, part), mine))
        children.append(spawn.Process(target=square_in_place, args=blocks[-1]))
        children[-1].start()
    found = [(signature.value, list(shared)) for shared, signature in blocks]
    for child in children:
        child.join()
    if wait:
        found = [(signature.value, list(shared)) for shared, signature in blocks]
    return found


def through_shared_memory(parts):
    return _shared_memory(parts)


PIPES, QUEUE, SHARED = through_pipes, through_a_queue, through_shared_memory


@wrong(
    "02-three-ways",
    advice="children|child|join",
    note="They join before they receive, which works as long as results are small. "
    "Draw the child that waits for a reader and the parent that waits for it.",
    state="HUNG",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def joins_before_it_receives(parts):
    ends, children = [], []
    for part in parts:
        ours, theirs = spawn.Pipe()
        children.append(spawn.Process(target=send_squares, args=(theirs, part)))
        children[-1].start()
        ends.append(ours)
    for child in children:
        child.join()
    return [ours.recv() for ours in ends]


@wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="They think of a pool, which has so many workers at most. Here each part has "
    "a child.",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def four_children_at_most(parts):
    first, others = through_pipes(parts[:4]), parts[4:]
    return first + (four_children_at_most(others) if others else [])


@wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="They start, receive and join, and then start the next. Ask how many cores "
    "are busy.",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def waits_before_it_starts_the_next(parts):
    return [through_pipes([part])[0] for part in parts]


wrong(
    "02-three-ways",
    advice="is it put_squares that your children do",
    note="They copied the first function, to begin with, and forgot it.",
    name="goes_the_same_way_twice",
)((PIPES, PIPES, SHARED))


@wrong(
    "02-three-ways",
    advice="a child of its own",
    note="They overlook that the children are to do the work.",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def works_in_the_parent(parts):
    return [(os.getpid(), [n * n for n in part]) for part in parts]


@wrong(
    "02-three-ways",
    advice="one pair .process id, squares.",
    note="They return the squares alone. Read the contract aloud.",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def forgets_the_process_id(parts):
    return [squares for _, squares in through_pipes(parts)]


@wrong(
    "02-three-ways",
    advice="who was first to arrive",
    note="They take the messages as they come. It often passes by chance, so the check"
    " makes the first child wait.",
    given=lambda answer: (PIPES, answer, SHARED),
)
def takes_the_order_of_arrival(parts):
    queue, children = spawn.Queue(), []
    for number, part in enumerate(parts):
        children.append(spawn.Process(target=put_squares, args=(queue, number, part)))
        children[-1].start()
    messages = [queue.get() for _ in parts]
    for child in children:
        child.join()
    return [(pid, squares) for _, pid, squares in messages]


@wrong(
    "02-three-ways",
    advice="when you read it",
    note="They do what is right for a pipe. Ask what tells the parent that the numbers"
    " are complete.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def reads_before_it_joins(parts):
    return _shared_memory(parts, wait=False)


@wrong(
    "02-three-ways",
    advice="do they belong to both processes",
    note="They think that a list sent as an argument is shared. Only the RawArray is.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def expects_the_list_to_change(parts):
    found = []
    for part in parts:
        signature = spawn.RawValue("i")
        child = spawn.Process(target=square_in_place, args=(part, signature))
        child.start()
        child.join()
        found.append((signature.value, part))
    return found


@wrong(
    "02-three-ways",
    advice="has a large square room",
    note='They take "i", as for the signature; 70,000 squared needs "q". Shared memory'
    " holds what fits, and says nothing of the rest.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def takes_numbers_that_are_too_small(parts):
    return _shared_memory(parts, kind="i")


@wrong(
    "02-three-ways",
    advice="in a place of its own",
    note="They have one place for all ids, in which the last child to write is read.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def has_one_signature_for_all(parts):
    return _shared_memory(parts, one_for_all=True)


@wrong(
    "02-three-ways",
    advice="children that have not ended",
    note="They have all results, and forget who brought them.",
    given=lambda answer: (PIPES, answer, SHARED),
)
def leaves_its_children(parts):
    queue = spawn.Queue()
    for number, part in enumerate(parts):
        spawn.Process(target=put_squares, args=(queue, number, part)).start()
    messages = sorted(queue.get() for _ in parts)
    return [(pid, squares) for _, pid, squares in messages]


def pipes_in_the_order_of_arrival(parts):
    place_of, found, children = {}, {}, []
    for place, part in enumerate(parts):
        ours, theirs = spawn.Pipe(duplex=False)
        place_of[ours] = place
        children.append(spawn.Process(target=send_squares, args=(theirs, part)))
        children[-1].start()
        theirs.close()
    while len(found) < len(parts):
        for ours in connection.wait([c for c, p in place_of.items() if p not in found]):
            found[place_of[ours]] = ours.recv()
    for child in children:
        child.join()
        child.close()
    return [found[place] for place in range(len(parts))]


def shared_memory_with_a_lock(parts):
    blocks = [(spawn.Array("q", part), spawn.Value("q")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    while any(child.is_alive() for child in children):
        children[0].join(0.01)
    return [(signature.value, shared[:]) for shared, signature in blocks]


right("02-three-ways", name="in_the_order_of_arrival")(
    (pipes_in_the_order_of_arrival, QUEUE, shared_memory_with_a_lock)
)


def a_simple_queue_and_a_thread(parts):
    queue, found = spawn.SimpleQueue(), Queue()
    reader = Thread(target=lambda: [found.put(queue.get()) for _ in parts])
    children = [
        spawn.Process(target=put_squares, args=(queue, number, part), daemon=True)
        for number, part in enumerate(parts)
    ]
    for child in reversed(children):
        child.start()
    reader.start()
    for worker in *children, reader:
        worker.join()
    results = {part: [pid, squares] for part, pid, squares in found.queue}
    return [results[number] for number in range(len(parts))]


right("02-three-ways", name="a_thread_reads")(
    (PIPES, a_simple_queue_and_a_thread, SHARED)
)


# 02-choose


def try_job(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


CHOICE = {
    "count": "thread",
    "old library": "process",
    "search": "process",
    "unpack": "process",
    "store": "thread",
}


wrong(
    "02-choose",
    advice="'count': what must its worker share",
    note="They have learned that processes are for speed. The dictionary is the "
    "parent's.",
    name="a_process_to_count",
)((CHOICE | {"count": "process"}, try_job))


wrong(
    "02-choose",
    advice="'search': which kind of worker can be ended",
    note="They expect a method to stop a thread. There is none.",
    name="a_thread_to_search",
)((CHOICE | {"search": "thread"}, try_job))


wrong(
    "02-choose",
    advice="'unpack': what must its worker not",
    note="They overlook that the current folder belongs to the process, as do "
    "environment variables and signal handlers.",
    name="a_thread_to_unpack",
)((CHOICE | {"unpack": "thread"}, try_job))


@wrong(
    "02-choose",
    advice="how long does it wait for its worker",
    note="They call join() without a number, which waits for ever.",
    given=lambda answer: (CHOICE, answer),
)
def waits_without_a_limit(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join()
    return job.promise()


@wrong(
    "02-choose",
    advice="which number of the job",
    note="They choose a time themselves; the job says how long it may take.",
    given=lambda answer: (CHOICE, answer),
)
def waits_as_long_as_it_likes(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(2)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


@wrong(
    "02-choose",
    advice="raised AttributeError.*the line that raised this",
    note="They think that a thread has terminate(), too.",
    given=lambda answer: (CHOICE, answer),
)
def ends_threads_too(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    if worker.is_alive():
        worker.terminate()
        worker.join()
    return job.promise()


@wrong(
    "02-choose",
    advice="whether the worker has ended",
    note="They hide a worker that is left with daemon=True, which does not end it.",
    given=lambda answer: (CHOICE, answer),
)
def looks_at_the_promise_only(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    worker.join(job.seconds)
    return job.promise()


@wrong(
    "02-choose",
    advice="how long does it wait",
    note="They overlook that start() returns at once, before anything has been done.",
    given=lambda answer: (CHOICE, answer),
)
def does_not_wait(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    return job.promise()


@wrong(
    "02-choose",
    advice="in which process is the work done|how long does it wait",
    note="They write target=job.work(...), which does the work first and then starts a"
    " worker that has nothing to do.",
    given=lambda answer: (CHOICE, answer),
)
def calls_the_work_itself(kind, job):
    worker = kind(target=job.work(*job.args))
    worker.start()
    worker.join(job.seconds)
    return job.promise()


@wrong(
    "02-choose",
    advice="has the worker ended",
    note="They think that waiting no longer is ending it.",
    given=lambda answer: (CHOICE, answer),
)
def does_not_end_the_worker(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    return not worker.is_alive() and job.promise()


@wrong(
    "02-choose",
    advice="how long does it wait|passes it",
    note="They write a proof that cannot fail, which proves nothing.",
    given=lambda answer: (CHOICE, answer),
)
def always_agrees(kind, job):
    return True


@wrong(
    "02-choose",
    advice="who ends a worker that still works",
    note="They think that a daemon has ended; it ends with its program, and the "
    "program goes on.",
    given=lambda answer: (CHOICE, answer),
)
def leaves_the_worker_to_itself(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    worker.join(job.seconds)
    can_be_ended = hasattr(worker, "terminate")
    return (can_be_ended or not worker.is_alive()) and job.promise()


@right("02-choose", given=lambda answer: (CHOICE, answer))
def kills_what_can_be_killed(kind, job):
    worker = kind(target=job.work, args=job.args, name="trial", daemon=True)
    worker.start()
    deadline = monotonic() + job.seconds
    while worker.is_alive() and monotonic() < deadline:
        worker.join(0.01)
    try:
        worker.kill()
        worker.join()
    except AttributeError:
        pass
    return False if worker.is_alive() else bool(job.promise())


@right("02-choose", given=lambda answer: (CHOICE, answer))
def looks_at_the_kind(kind, job):
    worker = kind(None, job.work, None, job.args)
    worker.start()
    worker.join(timeout=job.seconds)
    still_at_work = worker.is_alive()
    if still_at_work and kind is not Thread:
        worker.terminate()
        worker.join()
        still_at_work = worker.exitcode is None
    return job.promise() and not still_at_work


@right("02-choose", given=lambda answer: (CHOICE, answer))
def asks_again_and_again(kind, job):
    from time import sleep

    worker = kind(target=job.work, args=job.args)
    worker.start()
    deadline = monotonic() + job.seconds
    while worker.is_alive() and monotonic() < deadline:
        sleep(0.005)
    if worker.is_alive() and kind is Thread:
        return False
    if kind is not Thread:
        worker.terminate()
        worker.join(5)
        worker.close()
    return job.promise()
