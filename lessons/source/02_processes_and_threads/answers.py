"""Answers to the exercises of lesson 02 that people give: wrong, and unusual."""

from multiprocessing import connection
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
    advice="can it be a parent",
    note="They make the helper, a thread, the courier's parent: nearly everybody, at "
    "first. Ask for the helper's process id.",
    name="the_thread_is_a_parent",
)(FIRM | {"courier": "helper"})


wrong(
    "02-firm",
    advice="the line that starts apprentice: which process runs it",
    note="They take the boss for the owner of all. Which process runs start()?",
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


right("02-firm", name="in_another_order")(dict(reversed(FIRM.items())))


right("02-firm", name="by_words")(dict(**FIRM))


# 02-three-ways


def _start(target, arguments):
    children = [spawn.Process(target=target, args=args) for args in arguments]
    for child in children:
        child.start()
    return children


def _join(children):
    for child in children:
        child.join()


def through_pipes(parts, join_first=False):
    pipes = [spawn.Pipe() for _ in parts]
    ends = [theirs for _, theirs in pipes]
    children = _start(send_squares, zip(ends, parts, strict=True))
    if join_first:
        _join(children)
    results = [ours.recv() for ours, _ in pipes]
    _join(children)
    return results


def through_a_queue(parts, in_order=sorted, join=_join):
    queue = spawn.Queue()
    arguments = [(queue, number, part) for number, part in enumerate(parts)]
    children = _start(put_squares, arguments)
    messages = in_order(queue.get() for _ in parts)
    join(children)
    return [(pid, squares) for _, pid, squares in messages]


def through_shared_memory(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    _join(_start(square_in_place, blocks))
    return [(signature.value, list(shared)) for shared, signature in blocks]


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
    return through_pipes(parts, join_first=True)


@wrong(
    "02-three-ways",
    advice="are those before it still at work then",
    note="They start, receive and join one by one. Ask how many cores are busy.",
    given=lambda answer: (answer, QUEUE, SHARED),
)
def waits_before_it_starts_the_next(parts):
    return [through_pipes([part])[0] for part in parts]


@wrong(
    "02-three-ways",
    advice="who was first to arrive",
    note="They take the messages as they come. It often passes by chance, so the check"
    " makes the first child wait.",
    given=lambda answer: (PIPES, answer, SHARED),
)
def takes_the_order_of_arrival(parts):
    return through_a_queue(parts, in_order=list)


@wrong(
    "02-three-ways",
    advice="when you read it",
    note="It is right for a pipe. Ask what tells the parent that all is written.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def reads_before_it_joins(parts):
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    children = _start(square_in_place, blocks)
    found = [(signature.value, list(shared)) for shared, signature in blocks]
    _join(children)
    return found


@wrong(
    "02-three-ways",
    advice="do they belong to both processes",
    note="They think that a list sent as an argument is shared. Only the RawArray is.",
    given=lambda answer: (PIPES, QUEUE, answer),
)
def expects_the_list_to_change(parts):
    blocks = [(part, spawn.RawValue("i")) for part in parts]
    _join(_start(square_in_place, blocks))
    return [(signature.value, part) for part, signature in blocks]


@wrong(
    "02-three-ways",
    advice="children that have not ended",
    note="They have all results, and forget who brought them.",
    given=lambda answer: (PIPES, answer, SHARED),
)
def leaves_its_children(parts):
    return through_a_queue(parts, join=lambda children: None)


def pipes_in_the_order_of_arrival(parts):
    pipes, found = [spawn.Pipe(duplex=False) for _ in parts], {}
    children = _start(send_squares, [(pipes[n][1], p) for n, p in enumerate(parts)])
    place_of = {ours: place for place, (ours, _) in enumerate(pipes)}
    while len(found) < len(parts):
        for ours in connection.wait([c for c, p in place_of.items() if p not in found]):
            found[place_of[ours]] = ours.recv()
    for child in children:
        child.join()
        child.close()
    return [found[place] for place in range(len(parts))]


def shared_memory_with_a_lock(parts):
    blocks = [(spawn.Array("q", part), spawn.Value("q")) for part in parts]
    children = _start(square_in_place, blocks)
    while any(child.is_alive() for child in children):
        children[0].join(0.01)
    return [(signature.value, shared[:]) for shared, signature in blocks]


right("02-three-ways", name="in_the_order_of_arrival")(
    (pipes_in_the_order_of_arrival, QUEUE, shared_memory_with_a_lock)
)


def a_simple_queue_and_a_thread(parts):
    queue, results = spawn.SimpleQueue(), {}

    def read():
        for _ in parts:
            part, *results[part] = queue.get()

    children = _start(put_squares, [(queue, n, p) for n, p in enumerate(parts)])
    reader = Thread(target=read)
    reader.start()
    _join([*children, reader])
    return [results[number] for number in range(len(parts))]


right("02-three-ways", name="a_thread_reads")(
    (PIPES, a_simple_queue_and_a_thread, SHARED)
)


# 02-choose


def try_job(kind, job, limited=True):
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds if limited else None)
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
    advice="'unpack': what must its worker not",
    note="They overlook that the current folder belongs to the process.",
    name="a_thread_to_unpack",
)((CHOICE | {"unpack": "thread"}, try_job))


wrong(
    "02-choose",
    advice="'count': what must its worker share",
    note="They know that processes are for speed. The dictionary is the parent's.",
    name="a_process_to_count",
)((CHOICE | {"count": "process"}, try_job))


wrong(
    "02-choose",
    advice="'search': which kind of worker can be ended",
    note="They expect a method to stop a thread. There is none.",
    name="a_thread_to_search",
)((CHOICE | {"search": "thread"}, try_job))


@wrong(
    "02-choose",
    advice="how long does it wait for its worker",
    note="They call join() without a number, which waits for ever.",
    given=lambda answer: (CHOICE, answer),
)
def waits_without_a_limit(kind, job):
    return try_job(kind, job, limited=False)


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
    advice="in which process is the work done|how long does it wait",
    note="They write target=job.work(...): the worker has nothing left to do.",
    given=lambda answer: (CHOICE, answer),
)
def calls_the_work_itself(kind, job):
    worker = kind(target=job.work(*job.args))
    worker.start()
    worker.join(job.seconds)
    return job.promise()


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
