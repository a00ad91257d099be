"""Answers to the exercises of lesson 13b that people give, and that are not right."""

import heapq
from collections import defaultdict, deque

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.dataflow.operations import Operation
from parallel_by_hand.dataflow.placement_heuristics import EIGHT_OPERATIONS, HEURISTICS

# 13b-executor


@wrong(
    "13b-executor",
    advice="rule 4: which devices look for work",
    note="The usual one: waits for all that was started before it goes on.",
)
def in_waves(graph, machine):
    done, left = set(), list(graph)
    while left:
        wave, taken = [], set()
        for op in left:
            if set(op.inputs) <= done and op.device not in taken:
                wave.append(op)
                taken.add(op.device)
        for op in wave:
            machine.launch(op.device, op)
        for _ in wave:
            done.add(machine.wait()[1].name)
        left = [op for op in left if op not in wave]


@wrong(
    "13b-executor",
    advice="still busy with.*rule 3: where must a ready operation wait",
    note="As with the queue of 13a, which takes everything.",
)
def launches_whatever_is_ready(graph, machine):
    missing = {op.name: len(set(op.inputs)) for op in graph}
    for op in graph:
        if not missing[op.name]:
            machine.launch(op.device, op)
    for _ in graph:
        _, done = machine.wait()
        for op in graph:
            if done.name in op.inputs:
                missing[op.name] -= 1
                if not missing[op.name]:
                    machine.launch(op.device, op)


@wrong(
    "13b-executor",
    advice="rule 2: when does an operation become ready",
    note="They take the list for sorted; the text says that it is in any order.",
)
def launches_in_the_order_of_the_list(graph, machine):
    for op in graph:
        machine.launch(op.device, op)
        machine.wait()


def _with_counters(graph, machine, missing, look="all"):
    """The solution, with something wrong."""
    ready, idle = defaultdict(deque), list(machine.devices)
    for op in graph:
        if missing[op.name] == 0:
            ready[op.device].append(op)
    looking = list(idle)
    for _ in graph:
        for device in [d for d in looking if d in idle]:
            if ready[device]:
                idle.remove(device)
                machine.launch(device, ready[device].popleft())
        device, done = machine.wait()
        idle.append(device)
        looking = list(machine.devices) if look == "all" else [device]
        for op in graph:
            if done.name in op.inputs:
                missing[op.name] -= 1
                if missing[op.name] == 0:
                    ready[op.device].append(op)


@wrong(
    "13b-executor",
    advice="how often does one input count it down",
    note="x * x has one input, named twice: the counter starts at 2 and ends at 1.",
)
def counts_an_input_twice(graph, machine):
    _with_counters(graph, machine, {op.name: len(op.inputs) for op in graph})


@wrong(
    "13b-executor",
    advice="rule 4",
    note="What has finished here may have made something ready elsewhere.",
)
def only_the_device_that_finished(graph, machine):
    missing = {op.name: len(set(op.inputs)) for op in graph}
    _with_counters(graph, machine, missing, look="finished")


@wrong(
    "13b-executor",
    advice="still ran.*is an operation done when it has been launched",
    note="Stops when the last operation has been launched.",
)
def forgets_the_last_wait(graph, machine):
    missing = {op.name: len(set(op.inputs)) for op in graph}
    done = 0
    while done < len(graph):
        for op in graph:
            if missing[op.name] == 0 and op.device not in _busy(machine):
                machine.launch(op.device, op)
                missing[op.name] = -1
                done += 1
        if done < len(graph):
            _, finished = machine.wait()
            for op in graph:
                if finished.name in op.inputs:
                    missing[op.name] -= 1


def _busy(machine):
    return [device for _, _, device, _ in machine._running]


@wrong(
    "13b-executor",
    advice="what ends your loop",
    note="Polls: never waits, so nothing ever finishes.",
    state="HUNG",
)
def asks_again_and_again(graph, machine):
    done = set()
    launched = set()
    while len(done) < len(graph):
        for op in graph:
            free = op.name not in launched and op.device not in _busy(machine)
            if free and set(op.inputs) <= done:
                machine.launch(op.device, op)
                launched.add(op.name)


@right("13b-executor")
def without_counters(graph, machine):
    """Looks through all operations each time: slow for large graphs, and right."""
    done, launched, busy = set(), set(), set()
    while len(done) < len(graph):
        for op in reversed(graph):
            free = op.device not in busy and op.name not in launched
            if free and set(op.inputs) <= done:
                machine.launch(op.device, op)
                launched.add(op.name)
                busy.add(op.device)
        device, finished = machine.wait()
        busy.discard(device)
        done.add(finished.name)


@right("13b-executor")
def most_urgent_first(graph, machine):
    """Heaps, and recursion in place of a loop."""
    heaps = {device: [] for device in machine.devices}
    waiting = {op.name: set(op.inputs) for op in graph}
    busy = set()

    def feed(device):
        if device not in busy and heaps[device]:
            busy.add(device)
            machine.launch(device, heapq.heappop(heaps[device])[-1])

    def enter(op):
        heapq.heappush(heaps[op.device], (-op.takes, op.name, op))

    for op in graph:
        if not waiting[op.name]:
            enter(op)
    any(map(feed, machine.devices))
    while busy:
        device, finished = machine.wait()
        busy.remove(device)
        for op in graph:
            if finished.name in waiting[op.name]:
                waiting[op.name].remove(finished.name)
                if not waiting[op.name]:
                    enter(op)
        for other in machine.devices:
            feed(other)


# 13b-beyond


def _op(name, inputs=(), device=0, takes=1):
    return Operation(name, inputs, device, takes)


BOTH = [
    _op("a"),
    _op("b"),
    _op("c", ("a", "b"), 1),
    _op("d", ("a", "b"), 1),
]
right("13b-beyond", name="two_and_two")(BOTH)
right("13b-beyond", name="three_layers")(
    [
        _op("a"),
        _op("b", ("a",)),
        _op("c", ("a",)),
        _op("d", ("b", "c"), 1),
        _op("e", ("b", "c"), 1),
        _op("f", ("b", "c"), 1),
    ]
)
wrong(
    "13b-beyond",
    advice="device 1 0.*deal it fairly",
    note="What everyone finds first; it shows only that one must share.",
    name="one_device",
)([_op("a"), _op("b")])
wrong(
    "13b-beyond",
    advice="what could keep device 1 idle",
    note="Without edges both devices are busy from the first slot to the last.",
    name="no_edges",
)([_op("a"), _op("b"), _op("c", device=1), _op("d", device=1)])
wrong(
    "13b-beyond",
    advice="the long chain",
    note="A chain is as slow on any number of devices: the bound knows it.",
    name="chain",
)([_op("a"), _op("b", ("a",), 1), _op("c", ("b",)), _op("d", ("c",), 1)])
wrong(
    "13b-beyond",
    advice="so that no order helps",
    note="Slow only if device 0 begins with the wrong one.",
    name="in_this_order_only",
)([_op("a"), _op("b"), _op("c", ("b",), 1), _op("d", ("b",), 1)])
wrong(
    "13b-beyond",
    advice="wait for each other",
    note="Two that wait for each other: slower than any bound, for nothing starts.",
    name="cycle",
)([_op("a", ("b",)), _op("b", ("a",), 1)])
wrong(
    "13b-beyond",
    advice="has a comma",
    note='("a") is a text and no tuple.',
    name="name_as_text",
)([_op("a"), _op("b"), _op("c", "ab", 1), _op("d", "ab", 1)])

# 13b-place


def _places(devices):
    """ "01…" as a placement: one digit for each name."""
    names = ["x", "h1", "h2", "y1", "y2", "loss", "g1", "g2"]
    return {name: int(d) for name, d in zip(names, devices, strict=True)}


right("13b-place", name="mirrored")(_places("10101001"))
right("13b-place", name="second_best")(_places("00101110"))
wrong(
    "13b-place",
    advice="which branch could move",
    note="Nothing crosses, and nobody helps.",
    name="all_on_one",
)(_places("00000000"))
wrong(
    "13b-place",
    advice="26|h1 and h2, which are long",
    note="As one cuts a model into stages: nobody works side by side.",
    name="cut_in_the_middle",
)(_places("00000111"))
wrong(
    "13b-place",
    advice="a rule takes 22",
    note="One of the three rules itself.",
    name="longest_path_first",
)(HEURISTICS["longest path first"](EIGHT_OPERATIONS, 2))
wrong(
    "13b-place",
    advice="much crosses|what crosses",
    note="Both devices are busy, and each value has to travel.",
    name="alternates",
)(_places("01010101"))
wrong(
    "13b-place",
    advice="without x",
    note="x needs a device, too, though it takes hardly any time.",
    name="forgets_x",
)({name: 0 for name in _places("00000000") if name != "x"})
wrong(
    "13b-place",
    advice="which devices there are",
    note="A third device would help; there are two.",
    name="third_device",
)(_places("01010120"))
