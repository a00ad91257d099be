"""Answers to the exercises of lesson 02 that people give: wrong, and unusual."""

import os
from multiprocessing import connection
from queue import Queue
from threading import Thread
from time import monotonic

from demos.processes.parts.squares_in_children import (
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


def four_children_at_most(parts):
    first, others = through_pipes(parts[:4]), parts[4:]
    return first + (four_children_at_most(others) if others else [])


def through_a_queue(parts):
    queue, children = spawn.Queue(), []
    for number, part in enumerate(parts):
        children.append(spawn.Process(target=put_squares, args=(queue, number, part)))
        children[-1].start()
    messages = sorted(queue.get() for _ in parts)
    for child in children:
        child.join()
    return [(pid, squares) for _, pid, squares in messages]


def through_shared_memory(parts):
    return _shared_memory(parts)


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


def waits_before_it_starts_the_next(parts):
    return [through_pipes([part])[0] for part in parts]


def works_in_the_parent(parts):
    return [(os.getpid(), [n * n for n in part]) for part in parts]


def uses_one_child_for_all(parts):
    if not parts:
        return []
    everything = [n for part in parts for n in part]
    [(pid, squares)] = through_pipes([everything])
    rest = iter(squares)
    return [(pid, [next(rest) for _ in part]) for part in parts]


def forgets_the_process_id(parts):
    return [squares for _, squares in through_pipes(parts)]


def takes_the_order_of_arrival(parts):
    queue, children = spawn.Queue(), []
    for number, part in enumerate(parts):
        children.append(spawn.Process(target=put_squares, args=(queue, number, part)))
        children[-1].start()
    messages = [queue.get() for _ in parts]
    for child in children:
        child.join()
    return [(pid, squares) for _, pid, squares in messages]


def leaves_the_part_number_in(parts):
    queue = spawn.Queue()
    found = []
    for number, part in enumerate(parts):
        child = spawn.Process(target=put_squares, args=(queue, number, part))
        child.start()
        found.append(queue.get())
        child.join()
    return found


def reads_before_it_joins(parts):
    return _shared_memory(parts, wait=False)


def has_one_signature_for_all(parts):
    return _shared_memory(parts, one_for_all=True)


def takes_numbers_that_are_too_small(parts):
    return _shared_memory(parts, kind="i")


def takes_numbers_without_sign(parts):
    return _shared_memory(parts, kind="I")


def expects_the_list_to_change(parts):
    found = []
    for part in parts:
        signature = spawn.RawValue("i")
        child = spawn.Process(target=square_in_place, args=(part, signature))
        child.start()
        child.join()
        found.append((signature.value, part))
    return found


def leaves_its_children(parts):
    queue = spawn.Queue()
    for number, part in enumerate(parts):
        spawn.Process(target=put_squares, args=(queue, number, part)).start()
    messages = sorted(queue.get() for _ in parts)
    return [(pid, squares) for _, pid, squares in messages]


def has_a_queue_for_each(parts):
    queues, children = [spawn.Queue() for _ in parts], []
    for number, part in enumerate(parts):
        arguments = queues[number], number, part
        children.append(spawn.Process(target=put_squares, args=arguments))
        children[-1].start()
    found = [queue.get()[1:] for queue in queues]
    for child in children:
        child.join()
    return found


def asks_until_the_first_has_ended(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    for block in blocks:
        child = spawn.Process(target=square_in_place, args=block)
        child.start()
        while child.is_alive():
            pass
    return [(signature.value, list(shared)) for shared, signature in blocks]


class RemembersParts:
    def __init__(self):
        self.known = {}

    def __call__(self, parts):
        key = str(parts)
        if key not in self.known:
            self.known[key] = through_pipes(parts)
        return self.known[key]


def waits_ten_seconds_at_most(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    for child in children:
        child.join(timeout=10)
    return [(signature.value, list(shared)) for shared, signature in blocks]


def has_one_pipe_for_all(parts):
    (ours, theirs), children = spawn.Pipe(), []
    for part in parts:
        children.append(spawn.Process(target=send_squares, args=(theirs, part)))
        children[-1].start()
    found = dict(ours.recv() for _ in parts)
    for child in children:
        child.join()
    return [(child.pid, found[child.pid]) for child in children]


def reads_squares_before_it_joins(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    found = [list(shared) for shared, _ in blocks]
    for child in children:
        child.join()
    return [(child.pid, part) for child, part in zip(children, found, strict=True)]


def returns_what_is_shared(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [(signature, shared) for shared, signature in blocks]


def pipes_by_keywords(parts):
    ends, children = [], []
    for part in parts:
        ours, theirs = spawn.Pipe(duplex=False)
        given = {"numbers": part, "connection": theirs}
        children.append(spawn.Process(target=send_squares, kwargs=given))
        children[-1].start()
        ends.append(ours)
    results = [ours.recv() for ours in ends]
    while any(child.exitcode is None for child in children):
        children[-1].join(0.01)
    return results


def queue_by_keywords(parts):
    queue, children = spawn.SimpleQueue(), []
    for number, part in enumerate(parts):
        given = {"part": number, "numbers": part, "queue": queue}
        children.append(spawn.Process(target=put_squares, kwargs=given))
        children[-1].start()
    messages = sorted(queue.get() for _ in parts)
    for child in children:
        while child.is_alive():
            child.join(0.01)
    return [(pid, squares) for _, pid, squares in messages]


def waits_for_sentinels(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    at_work = {child.sentinel for child in children}
    while at_work:
        at_work -= set(connection.wait(at_work))
    return [(signature.value, list(shared)) for shared, signature in blocks]


def pipes_in_the_order_of_arrival(parts):
    found = _pipes_as_they_come(parts)
    return [found[place] for place in range(len(parts))]


def pipes_as_they_come(parts):
    return list(_pipes_as_they_come(parts).values())


def _pipes_as_they_come(parts):
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
    return found


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


def shared_memory_with_a_lock(parts):
    blocks = [(spawn.Array("q", part), spawn.Value("q")) for part in parts]
    children = [spawn.Process(target=square_in_place, args=block) for block in blocks]
    for child in children:
        child.start()
    while any(child.is_alive() for child in children):
        children[0].join(0.01)
    return [(signature.value, shared[:]) for shared, signature in blocks]


def joins_one_after_the_first_message(parts):
    queue, children = spawn.Queue(), []
    for number, part in enumerate(parts):
        children.append(spawn.Process(target=put_squares, args=(queue, number, part)))
        children[-1].start()
    messages = []
    while children:
        messages.append(queue.get())
        children.pop().join()
    return [(pid, squares) for _, pid, squares in sorted(messages)]


def squares_in_the_parent_too(parts):
    signed = _shared_memory([[0] for _ in parts])
    return [
        (pid, [n * n for n in part])
        for (pid, _), part in zip(signed, parts, strict=True)
    ]


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


def waits_without_a_limit(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join()
    return job.promise()


def waits_as_long_as_it_likes(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(1)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


def ends_threads_too(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    if worker.is_alive():
        worker.terminate()
        worker.join()
    return job.promise()


def looks_at_the_promise_only(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    worker.join(job.seconds)
    return job.promise()


def does_not_wait(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    return job.promise()


def calls_the_work_itself(kind, job):
    worker = kind(target=job.work(*job.args))
    worker.start()
    worker.join(job.seconds)
    return job.promise()


def runs_instead_of_starting(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.run()
    return job.promise()


def does_not_end_the_worker(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    return not worker.is_alive() and job.promise()


def always_agrees(kind, job):
    return True


def leaves_the_worker_to_itself(kind, job):
    worker = kind(target=job.work, args=job.args, daemon=True)
    worker.start()
    worker.join(job.seconds)
    can_be_ended = hasattr(worker, "terminate")
    return (can_be_ended or not worker.is_alive()) and job.promise()


def waits_whole_seconds(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(int(job.seconds))
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


def tries_twice(kind, job):
    return try_job(kind, job) or try_job(kind, job)


def catches_what_start_raises(kind, job):
    try:
        return try_job(kind, job)
    except Exception:
        return False


def asks_before_the_end(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    kept = job.promise()
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return kept and not worker.is_alive()


def hands_over_one_argument(kind, job):
    return _waits_for(job.seconds, kind, job, job.args[:1])


def waits_two_seconds_at_least(kind, job):
    return _waits_for(max(2, job.seconds), kind, job, job.args)


def waits_half_a_second_at_most(kind, job):
    return _waits_for(min(0.5, job.seconds), kind, job, job.args)


def waits_a_second_time(kind, job):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
    worker.join(job.seconds)
    return not worker.is_alive() and job.promise()


def sleeps_a_bit_more(kind, job):
    from time import sleep

    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    sleep(0.5)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


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


def _waits_for(seconds, kind, job, args):
    worker = kind(target=job.work, args=args)
    worker.start()
    worker.join(seconds)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()


PIPES, QUEUE, SHARED = through_pipes, through_a_queue, through_shared_memory


wrong(
    "02-firm",
    advice="can a thread be the parent of a process",
    note="Nearly everybody, at first: the helper starts the courier. Ask for "
    "the helper's process id.",
    name="the_thread_is_a_parent",
)(FIRM | {"courier": "helper"})
wrong(
    "02-firm",
    advice="the line that starts apprentice: which process runs it",
    note="People take the boss for the owner of all processes. Who runs the "
    "line with start()?",
    name="all_are_children_of_the_boss",
)(dict.fromkeys(FIRM, "boss"))
wrong(
    "02-firm",
    advice="the line that starts foreman",
    note="People read the order of the lines as a chain of command.",
    name="the_first_process_is_the_parent",
)(FIRM | {"foreman": "secretary"})
wrong(
    "02-firm",
    advice="who is in the firm besides the boss",
    note="The function in which start() stands is not a process.",
    name="names_functions",
)(FIRM | {"apprentice": "work_together"})
wrong(
    "02-firm",
    advice="missing names: helper",
    note="A thread is in a process, too.",
    name="leaves_out_the_thread",
)({name: where for name, where in FIRM.items() if name != "helper"})
wrong(
    "02-firm",
    advice="unknown names: boss",
    note="The boss's parent is no part of the firm: it is your notebook.",
    name="has_the_boss_as_well",
)(FIRM | {"boss": "boss"})
wrong(
    "02-firm",
    advice="whose parent does an entry give, or whose children",
    name="has_children_as_values",
)(
    {
        "boss": ["secretary", "foreman"],
        "foreman": ["apprentice", "helper", "courier"],
    }
)
wrong(
    "02-firm",
    advice="the helper: in which process",
    note="Turned round: the helper starts the courier.",
    name="the_thread_is_in_its_child",
)(FIRM | {"helper": "courier"})
wrong(
    "02-three-ways",
    advice="children|child|join",
    note="The most frequent one, and it works as long as results are small. "
    "Draw the child that waits for a reader and the parent that waits for it.",
    state="HUNG",
    name="joins_before_it_receives",
)((joins_before_it_receives, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="A pool has so many workers at most. Here each part has a child.",
    name="four_children_at_most",
)((four_children_at_most, QUEUE, SHARED))
wrong("02-three-ways", advice="who was first to arrive", name="pipes_as_they_come")(
    (pipes_as_they_come, QUEUE, SHARED)
)
wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="The natural first try: start, receive, join, and then the next. Ask "
    "how many cores are busy.",
    name="waits_before_it_starts_the_next",
)((waits_before_it_starts_the_next, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="is it put_squares that your children do",
    note="A copy of the first function, to begin with, and then forgotten.",
    name="goes_the_same_way_twice",
)((PIPES, PIPES, SHARED))
wrong(
    "02-three-ways",
    advice="does the parent have to compute any",
    note="Rare, and a good sign that someone has read the check.",
    name="works_in_the_parent",
)((works_in_the_parent, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="has each part a child process of its own",
    note="One child does not use more cores than none.",
    name="uses_one_child_for_all",
)((uses_one_child_for_all, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="a pair .process id, squares.",
    note="Read the contract aloud.",
    name="forgets_the_process_id",
)((forgets_the_process_id, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="who was first to arrive",
    note="It often passes by chance, so the check makes the first child wait.",
    name="takes_the_order_of_arrival",
)((PIPES, takes_the_order_of_arrival, SHARED))
wrong(
    "02-three-ways",
    advice="a pair .process id, squares., and nothing more",
    note="Also waits for each child before it starts the next: ask how many "
    "are at work at the same time.",
    name="leaves_the_part_number_in",
)((PIPES, leaves_the_part_number_in, SHARED))
wrong(
    "02-three-ways",
    advice="had the child written everything by then",
    note="What is right for the pipe is wrong here. Ask what tells the parent "
    "that the numbers are complete.",
    name="reads_before_it_joins",
)((PIPES, QUEUE, reads_before_it_joins))
wrong(
    "02-three-ways",
    advice="do they belong to both processes",
    note="A list sent as an argument is a copy. Only the RawArray is shared.",
    name="expects_the_list_to_change",
)((PIPES, QUEUE, expects_the_list_to_change))
wrong(
    "02-three-ways",
    advice="has a large square room",
    note='"i" is for the signature; 70,000 squared needs "q". Shared memory '
    "holds what fits, and says nothing of the rest.",
    name="takes_numbers_that_are_too_small",
)((PIPES, QUEUE, takes_numbers_that_are_too_small))
wrong(
    "02-three-ways",
    advice="has a large square room",
    note="Enough for 65,535 squared, and no further.",
    name="takes_numbers_without_sign",
)((PIPES, QUEUE, takes_numbers_without_sign))
wrong(
    "02-three-ways",
    advice="has one of them been written by all",
    note="One place for all: the last child to write is the one to be read.",
    name="has_one_signature_for_all",
)((PIPES, QUEUE, has_one_signature_for_all))
wrong(
    "02-three-ways",
    advice="children for whose end nobody has waited",
    note="Has all results, and forgets who brought them.",
    name="leaves_its_children",
)((PIPES, leaves_its_children, SHARED))
wrong(
    "02-three-ways",
    advice="how many queues do all children together need",
    note="Then it is a pipe with another name, and the part number is no use.",
    name="has_a_queue_for_each",
)((PIPES, has_a_queue_for_each, SHARED))
wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="To ask again and again is to wait.",
    name="asks_until_the_first_has_ended",
)((PIPES, QUEUE, asks_until_the_first_has_ended))
wrong(
    "02-three-ways",
    advice="has each part a child process of its own",
    name="remembers_parts",
)((RemembersParts(), QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="had the child written everything by then",
    note="join with a limit does not say whether the child has ended.",
    name="waits_ten_seconds_at_most",
)((PIPES, QUEUE, waits_ten_seconds_at_most))
wrong(
    "02-three-ways",
    advice="a pipe, or an array, of its own",
    note="Two children that send at the same time write into each other's messages.",
    name="has_one_pipe_for_all",
)((has_one_pipe_for_all, QUEUE, SHARED))
wrong(
    "02-three-ways",
    advice="had the child written everything by then",
    name="reads_squares_before_it_joins",
)((PIPES, QUEUE, reads_squares_before_it_joins))
wrong(
    "02-three-ways",
    advice="is it a number, and a list of numbers",
    name="returns_what_is_shared",
)((PIPES, QUEUE, returns_what_is_shared))
wrong(
    "02-three-ways",
    advice="who waits for that child's end",
    note="Whose message was it? The one waited for may still be sending.",
    state="HUNG",
    name="joins_one_after_the_first_message",
)((PIPES, joins_one_after_the_first_message, SHARED))
wrong(
    "02-three-ways",
    advice="does the parent have to compute any",
    note="The children only sign.",
    name="squares_in_the_parent_too",
)((PIPES, QUEUE, squares_in_the_parent_too))
wrong(
    "02-choose",
    advice="'count': what must its worker share",
    note="People have learned that processes are for speed. The dictionary is "
    "the parent's.",
    name="a_process_to_count",
)((CHOICE | {"count": "process"}, try_job))
wrong(
    "02-choose",
    advice="'search': which kind of worker can be ended",
    note="People expect a method to stop a thread. There is none.",
    name="a_thread_to_search",
)((CHOICE | {"search": "thread"}, try_job))
wrong(
    "02-choose",
    advice="'unpack': what must its worker not",
    note="The current folder belongs to the process, as do environment "
    "variables and signal handlers.",
    name="a_thread_to_unpack",
)((CHOICE | {"unpack": "thread"}, try_job))
wrong(
    "02-choose",
    advice="how long does it wait for a worker",
    note="join() without a number waits for ever.",
    name="waits_without_a_limit",
)((CHOICE, waits_without_a_limit))
wrong(
    "02-choose",
    advice="how long does it wait for a worker",
    note="The job says how long it may take, not the proof.",
    name="waits_as_long_as_it_likes",
)((CHOICE, waits_as_long_as_it_likes))
wrong(
    "02-choose",
    advice="raised AttributeError.*the line that raised this",
    note="A thread has no terminate(). The exception is no proof that the "
    "thread is the wrong kind.",
    name="ends_threads_too",
)((CHOICE, ends_threads_too))
wrong(
    "02-choose",
    advice="a worker of the wrong kind passes it",
    note="daemon=True hides a worker that is left, it does not end it.",
    name="looks_at_the_promise_only",
)((CHOICE, looks_at_the_promise_only))
wrong(
    "02-choose",
    advice="your proof",
    note="start() returns at once, before anything has been done.",
    name="does_not_wait",
)((CHOICE, does_not_wait))
wrong(
    "02-choose",
    advice="your proof: ",
    note="target=job.work(...) does the work first and then starts a worker "
    "that has nothing to do.",
    name="calls_the_work_itself",
)((CHOICE, calls_the_work_itself))
wrong(
    "02-choose",
    advice="your proof: ",
    note="run() calls the function here; start() calls it in the worker.",
    name="runs_instead_of_starting",
)((CHOICE, runs_instead_of_starting))
wrong(
    "02-choose",
    advice="the worker ended",
    note="Waiting no longer is not ending it.",
    name="does_not_end_the_worker",
)((CHOICE, does_not_end_the_worker))
wrong(
    "02-choose",
    advice="a worker of the wrong kind passes it",
    note="A proof that cannot fail proves nothing.",
    name="always_agrees",
)((CHOICE, always_agrees))
wrong(
    "02-choose",
    advice="who ends a worker that still works",
    note="A daemon ends with its program; here the program goes on.",
    name="leaves_the_worker_to_itself",
)((CHOICE, leaves_the_worker_to_itself))
wrong(
    "02-choose",
    advice="does the worker get all of this time",
    note="int(0.5) is 0: it does not wait at all.",
    name="waits_whole_seconds",
)((CHOICE, waits_whole_seconds))
wrong(
    "02-choose",
    advice="how many workers do the work",
    note="What is to be proved is that one is enough.",
    name="tries_twice",
)((CHOICE, tries_twice))
wrong(
    "02-choose",
    advice="who is to hear of it",
    note="The exception is the proof: an open connection cannot be sent.",
    name="catches_what_start_raises",
)((CHOICE, catches_what_start_raises))
wrong(
    "02-choose",
    advice="what does the promise say once the worker has ended",
    name="asks_before_the_end",
)((CHOICE, asks_before_the_end))
wrong("02-choose", advice="an error above", name="hands_over_one_argument")(
    (CHOICE, hands_over_one_argument)
)
wrong(
    "02-choose",
    advice="how long does it wait, all in all",
    note="A process needs time to start. But the job says how long.",
    name="waits_two_seconds_at_least",
)((CHOICE, waits_two_seconds_at_least))
wrong(
    "02-choose",
    advice="does the worker get all of this time",
    note="Enough for the job in the table. The next one may take longer.",
    name="waits_half_a_second_at_most",
)((CHOICE, waits_half_a_second_at_most))
wrong(
    "02-choose",
    advice="how long does it wait, all in all",
    note="The second join is for the process that has been ended, and waits "
    "for the thread again.",
    name="waits_a_second_time",
)((CHOICE, waits_a_second_time))
wrong(
    "02-choose",
    advice="how long does it wait, all in all",
    note="To be on the safe side. So is the job's number.",
    name="sleeps_a_bit_more",
)((CHOICE, sleeps_a_bit_more))
right("02-firm", name="in_another_order")(dict(reversed(FIRM.items())))
right("02-firm", name="by_words")(dict(**FIRM))
right("02-three-ways", name="in_the_order_of_arrival")(
    (pipes_in_the_order_of_arrival, QUEUE, shared_memory_with_a_lock)
)
right("02-three-ways", name="a_thread_reads")(
    (PIPES, a_simple_queue_and_a_thread, SHARED)
)
right("02-three-ways", name="by_keywords_and_sentinels")(
    (pipes_by_keywords, queue_by_keywords, waits_for_sentinels)
)
right("02-choose", name="kills_what_can_be_killed")((CHOICE, kills_what_can_be_killed))
right("02-choose", name="looks_at_the_kind")((CHOICE, looks_at_the_kind))
right("02-choose", name="asks_again_and_again")((CHOICE, asks_again_and_again))
