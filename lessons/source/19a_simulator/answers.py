"""Wrong answers to the exercises of lesson 19a."""

from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np

from lessons.source.sample_answers import right, wrong

# 19a-bytes ----------------------------------------------------------------------------


def ring(ranks):
    return Fraction(2 * (ranks - 1), ranks)


def bytes_by(all_layers=False, whole=False, neighbours=None, number=2, once=False):
    """A function that counts bytes, with one of several mistakes."""

    def sent(layers, hidden, tokens, micro_batches, data, tensor, pipeline):
        own = layers if all_layers else Fraction(layers, pipeline)
        message = number * tokens * hidden
        gradients = number * 12 * hidden**2 * own / (1 if whole else tensor)
        hops = neighbours if neighbours is not None else min(pipeline - 1, 2)
        count = 1 if once else micro_batches
        return (
            4 * own * count * ring(tensor) * message,
            hops * micro_batches * message,
            ring(data) * gradients,
        )

    return sent


wrong(
    "19a-bytes",
    advice="whose layers",
    name="all_layers",
    note="The layers of the whole model, where the GPU has those of its stage.",
)(bytes_by(all_layers=True))
wrong(
    "19a-bytes",
    advice="whose gradients travel",
    name="whole_gradients",
    note="A tensor rank has a part of each layer, and of its gradients.",
)(bytes_by(whole=True))
wrong(
    "19a-bytes",
    advice="how many neighbours",
    name="two_neighbours",
    note="They give every stage two neighbours, though there may be two stages, or "
    "one.",
)(bytes_by(neighbours=2))


wrong(
    "19a-bytes",
    advice="how many bytes",
    name="float32",
    note="They count 4 bytes for each number; here it has 2.",
)(bytes_by(number=4))
wrong(
    "19a-bytes",
    advice="each micro-batch",
    name="one_micro_batch",
    note="They forget that every micro-batch sends its activations.",
)(bytes_by(once=True))
right("19a-bytes", name="fractions")(bytes_by())


@wrong(
    "19a-bytes",
    advice="once in a step",
    note="Gradients are added up locally, and travel once.",
)
def bytes_of_gradients_for_each_micro_batch(*case):
    to_tensor, to_pipeline, to_data = bytes_by()(*case)
    return to_tensor, to_pipeline, case[3] * to_data


@right("19a-bytes")
def bytes_by_walking(layers, hidden, tokens, micro_batches, data, tensor, pipeline):
    """Send chunk by chunk, and look at every stage."""
    message, busiest = 2 * tokens * hidden, 0
    for stage in range(pipeline):
        sends = [s for s in (stage - 1, stage + 1) if 0 <= s < pipeline]
        busiest = max(busiest, len(sends) * micro_batches * message)
    to_tensor = to_data = Fraction(0)
    for _ in range(layers // pipeline):
        for _ in range(2 * (tensor - 1)):
            to_tensor += 4 * micro_batches * Fraction(message, tensor)
        for _ in range(2 * (data - 1)):
            to_data += Fraction(24 * hidden**2, tensor * data)
    return [to_tensor, busiest, to_data]


# 19a-pipeline -------------------------------------------------------------------------


def play(schedule, forward, backward, travel, back=None, busy=False, late=0):
    """The schedule with `travel` forward and `back` on the way back."""
    back = travel if back is None else back
    ranks = len(schedule)
    done, free, place = {}, [0] * ranks, [0] * ranks
    while sum(place) < sum(map(len, schedule)):
        for rank, order in enumerate(schedule):
            while place[rank] < len(order):
                work = order[place[rank]]
                sender = rank - 1 if work[0] == "F" else rank + 1
                arrived = 0
                if 0 <= sender < ranks:
                    if (sender, work) not in done:
                        break
                    arrived = done[sender, work] + (travel if work[0] == "F" else back)
                takes = (forward if work[0] == "F" else backward)[rank]
                done[rank, work] = max(free[rank], arrived) + takes
                goal = rank + 1 if work[0] == "F" else rank - 1
                pause = travel if busy and 0 <= goal < ranks else late
                free[rank] = done[rank, work] + pause
                place[rank] += 1
    return max(done.values())


@wrong("19a-pipeline", advice="time without it", note="They forget the travel.")
def without_travel(schedule, forward, backward, travel):
    return play(schedule, forward, backward, 0)


@wrong("19a-pipeline", advice="on the way back", note="Gradients travel, too.")
def travel_forward_only(schedule, forward, backward, travel):
    return play(schedule, forward, backward, travel, back=0)


@wrong(
    "19a-pipeline",
    advice="who is busy while",
    note="The sender waits, as with a blocking send.",
)
def travel_and_a_busy_sender(schedule, forward, backward, travel):
    return play(schedule, forward, backward, travel, busy=True)


@wrong(
    "19a-pipeline",
    advice="who is busy|time without it",
    note="They use the formula for equal stages.",
)
def by_formula(schedule, forward, backward, travel):
    ranks, count = len(schedule), len(schedule[0]) // 2
    slot = max(forward) + max(backward)
    return (count + ranks - 1) * slot + 2 * (ranks - 1) * travel


@wrong(
    "19a-pipeline",
    advice="the one before it in its rank's list",
    note="Each rank does the first instruction that is ready, not the next one.",
)
def whatever_is_ready(schedule, forward, backward, travel):
    left, done, free = list(map(list, schedule)), {}, [0] * len(schedule)
    while any(left):
        for rank, order in enumerate(left):
            for work in order:
                sender = rank - 1 if work[0] == "F" else rank + 1
                first = work[0] == "F" or (rank, "F" + work[1:]) in done
                sent = (sender, work) in done or sender not in range(len(left))
                if first and sent:
                    arrived = done.get((sender, work), -travel) + travel
                    takes = (forward if work[0] == "F" else backward)[rank]
                    free[rank] = done[rank, work] = max(free[rank], arrived) + takes
                    order.remove(work)
                    break
    return max(free)


@wrong(
    "19a-pipeline",
    advice="may not be done yet",
    note="They read the end of an instruction that has not been done.",
)
def with_a_key_error(schedule, forward, backward, travel):
    done, free = {}, [0] * len(schedule)
    for rank, order in enumerate(schedule):
        for work in order:
            sender = rank - 1 if work[0] == "F" else rank + 1
            arrived = 0
            if 0 <= sender < len(schedule):
                arrived = done[sender, work] + travel
            takes = (forward if work[0] == "F" else backward)[rank]
            free[rank] = done[rank, work] = max(free[rank], arrived) + takes
    return max(free)


@wrong(
    "19a-pipeline",
    advice="no rank can do",
    state="HUNG",
    note="Rank 0 waits for a message in backward; the last rank waits for one that "
    "nobody sends.",
)
def waits_for_ever(schedule, forward, backward, travel):
    done, place = {}, [0] * len(schedule)
    while sum(place) < sum(map(len, schedule)):
        for rank, order in enumerate(schedule):
            work = order[place[rank]] if place[rank] < len(order) else None
            if work and (rank == 0 or (rank - 1, work) in done):
                if work[0] == "B" and (rank + 1, work) not in done:
                    continue
                done[rank, work] = True
                place[rank] += 1
    return 0


@right("19a-pipeline")
def by_recursion(schedule, forward, backward, travel):
    """Each end is asked for once; the order of a rank is one more thing to wait for."""
    ranks = len(schedule)
    before = [dict(zip(order[1:], order, strict=False)) for order in schedule]

    @cache
    def end(rank, work):
        start = end(rank, before[rank][work]) if work in before[rank] else 0
        sender = rank - 1 if work[0] == "F" else rank + 1
        if 0 <= sender < ranks:
            start = max(start, end(sender, work) + travel)
        return start + (forward if work[0] == "F" else backward)[rank]

    return max(end(rank, order[-1]) for rank, order in enumerate(schedule))


@right("19a-pipeline")
def by_relaxing(schedule, forward, backward, travel):
    """Longest paths, found by going over all edges until nothing changes."""
    ends = {(r, w): Fraction(0) for r, order in enumerate(schedule) for w in order}
    for _ in range(len(ends)):
        earlier = dict(ends)
        for rank, order in enumerate(schedule):
            last = Fraction(0)
            for work in order:
                other = rank + (-1 if work[0] == "F" else 1), work
                start = max(last, ends[other] + travel) if other in ends else last
                takes = (forward if work[0] == "F" else backward)[rank]
                last = ends[rank, work] = start + takes
        if earlier == ends:
            break
    return np.float64(max(ends.values()))


# 19a-overlap --------------------------------------------------------------------------


@wrong(
    "19a-overlap",
    advice="when a message can leave",
    note="The first message waits for the first layer.",
)
def overlap_of_sums(computing, sending):
    return max(sum(computing), sum(sending))


@wrong(
    "19a-overlap",
    advice="when a message can leave",
    note="They take the larger of the two for each layer.",
)
def overlap_layer_by_layer(computing, sending):
    return sum(map(max, computing, sending))


@wrong(
    "19a-overlap", advice="at the same time", note="They add both: nothing overlaps."
)
def no_overlap(computing, sending):
    return sum(computing) + sum(sending)


@wrong(
    "19a-overlap",
    advice="one at a time",
    note="They forget that the link carries one message at a time.",
)
def link_without_a_queue(computing, sending):
    ready = accumulate(computing)
    return max((r + s for r, s in zip(ready, sending, strict=True)), default=0)


@wrong(
    "19a-overlap",
    advice="from when the seconds",
    note="They return what sticks out of backward, not the whole time.",
)
def only_what_sticks_out(computing, sending):
    ready = free = 0
    for seconds, message in zip(computing, sending, strict=True):
        ready += seconds
        free = max(free, ready) + message
    return free - ready


@wrong(
    "19a-overlap",
    advice="a layer for no message|at the same time",
    note="Backward does not wait for the link.",
)
def computing_waits_for_the_link(computing, sending):
    ready = free = 0
    for seconds, message in zip(computing, sending, strict=True):
        ready = max(ready + seconds, free)
        free = ready + message
    return free


@right("19a-overlap")
def overlap_by_the_longest_path(computing, sending):
    return max(
        (sum(computing[: i + 1]) + sum(sending[i:]) for i in range(len(computing))),
        default=0.0,
    )


@right("19a-overlap")
def overlap_by_waiting(computing, sending):
    """What the link waits is added to what it sends."""
    ready = np.cumsum(np.array(computing, float))
    idle = sent = 0.0
    for done, message in zip(ready, sending, strict=True):
        idle += max(0.0, done - idle - sent)
        sent += float(message)
    return np.array(idle + sent)
