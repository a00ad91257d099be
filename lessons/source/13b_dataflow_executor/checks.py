"""Checks of the exercises of lesson 13b, A dataflow executor."""

import random
from collections.abc import Mapping

from parallel_by_hand.dataflow.operations import (
    Operation,
    longest_path,
    random_operations,
    total_work,
)
from parallel_by_hand.dataflow.placement_heuristics import (
    EIGHT_OPERATIONS,
    HEURISTICS,
    LINK_TAKES,
    operations_in_order_of_inputs,
    run_placement,
)
from parallel_by_hand.dataflow.simulated_devices import (
    SimulatedDevices,
    dataflow_text,
    makespan,
    simulate_dataflow,
)
from sidebyside.exercises.check import exercise, trying

# The executor ------------------------------------------------------------------------

SMALL = [
    Operation("f", ("d", "e"), 1, 1),
    Operation("a", (), 0, 1),
    Operation("b", ("a",), 0, 2),
    Operation("c", ("a",), 1, 3),
    Operation("d", ("b", "c"), 0, 1),
    Operation("e", ("c",), 1, 2),
]


class BrokenExecutorRule(Exception):
    """An executor did what it must not."""


class DevicesWatchingExecutor(SimulatedDevices):
    """A machine that remembers the first rule that an executor breaks."""

    def __init__(self, devices, graph: list[Operation]):
        super().__init__(devices)
        self.graph = list(graph)
        self.broken = ("", "")  # what came back, what to think of
        self.busy: dict = {}
        self.launched: set[str] = set()
        self.finished: set[str] = set()

    def launch(self, device, operation) -> None:
        name, late = operation.name, "when does an operation become ready?"
        missing = [i for i in operation.inputs if i not in self.finished]
        if device != operation.device:
            self.stop(
                f"{name} of device {operation.device!r} was launched on {device!r}",
                "each operation on its own device (rule 1)",
            )
        if name in self.launched:
            self.stop(f"{name} was launched twice", "rule 1: each once; " + late)
        if missing:
            self.stop(
                f"{name} was launched before wait() had returned its input "
                f"{missing[0]}",
                "rule 2: " + late,
            )
        if device in self.busy:
            self.stop(
                f"{name} was launched on device {device!r}, which is still busy with "
                f"{self.busy[device]}",
                "rule 3: where must a ready operation wait?",
            )
        self.launched.add(name)
        self.busy[device] = name
        super().launch(device, operation)

    def wait(self):
        for op in self.graph:
            ready = op.name not in self.launched and self.finished >= set(op.inputs)
            if ready and op.device not in self.busy:
                think = "rule 4: which devices look for work before each wait()?"
                if len(set(op.inputs)) < len(op.inputs):
                    think = "its counter: how often does one input count it down?"
                self.stop(
                    f"wait() was called while device {op.device!r} was idle and "
                    f"{op.name} ready",
                    think,
                )
        if not self.busy:
            self.stop(
                "wait() was called and nothing was running: nothing can finish",
                "do you wait once for each launch, and does each counter reach 0?",
            )
        device, operation = super().wait()
        del self.busy[device]
        self.finished.add(operation.name)
        return device, operation

    def stop(self, broken: str, think: str) -> None:
        if self.broken == ("", ""):
            self.broken = broken, think
        raise BrokenExecutorRule(broken)


def _devices_and_dataflows():
    yield [0, 1], SMALL
    yield [0, 1], SMALL[::-1]
    dice = random.Random(13)
    for number in range(30):
        devices = (1, 2, 3, 5, 8)[number % 5]
        graph = random_operations(dice, 3 + number, devices)  # a short one fails first
        numbers = dice.sample(range(len(graph)), len(graph))  # names tell no order
        names = {op.name: f"n{n}" for op, n in zip(graph, numbers, strict=True)}
        graph = [
            op._replace(
                name=names[op.name],
                inputs=tuple(names[i] for i in op.inputs),
            )
            for op in graph
        ]
        dice.shuffle(graph)
        yield list(range(devices)), graph
    yield [0], [Operation("x", (), 0, 1), Operation("x * x", ("x", "x"), 0, 1)]


def _words_for_dataflow(graph: list[Operation]) -> str:
    if len(graph) > 6:
        return f"{len(graph)} operations in random order"
    return "; ".join(
        f"{op.name} on {op.device!r} reads {', '.join(op.inputs) or 'nothing'}"
        for op in graph
    )


@exercise(
    "13b-executor",
    seconds=20,
    when_hung="what ends your loop? Each turn should call wait() once",
)
def check_13b_executor(execute):
    for devices, graph in _devices_and_dataflows():
        _try_executor(execute, devices, graph)
    _try_executor_on_threads(execute)


def _try_executor(execute, devices: list, graph: list[Operation]) -> None:
    with trying(
        f"execute(graph, machine), devices {devices}, {_words_for_dataflow(graph)}",
        graph,
    ) as expect:
        machine = DevicesWatchingExecutor(devices, graph)
        try:
            execute(graph, machine)
        except Exception:
            broken, think = machine.broken
            if not broken:
                raise
            expect(False, got=broken, think=think)
        broken, think = machine.broken
        expect(not broken, got=broken, think=think)
        left = [op.name for op in machine.graph if op.name not in machine.launched]
        expect(
            not left,
            got=f"it returned, and {len(left)} operations were never launched: "
            f"{', '.join(left[:5])}",
            think="which operations become ready last, and which line launches them?",
        )
        expect(
            not machine.busy,
            got=f"it returned while {', '.join(machine.busy.values())} still ran",
            think="is an operation done when it has been launched?",
        )


def _try_executor_on_threads(execute) -> None:
    """The learner's executor runs the network of the lesson, on threads."""
    import torch

    from parallel_by_hand.dataflow import two_branch_network as network

    dice = torch.Generator().manual_seed(13)
    images, labels = torch.rand(24, 64, generator=dice), torch.arange(24) % 10
    weights = network.make_two_branches(hidden=16)
    placement = network.by_branch(
        network.graph_of_two_branches(weights, images, labels)
    )
    with trying("execute on real threads: forward and backward") as expect:
        machine = network.run_two_branches(weights, images, labels, placement, execute)
        expected = network.plain_gradients(weights, images, labels)
        gap = network.largest_gap(machine.values, expected)
        expect(
            gap <= 1e-6,
            got=f"gradients that differ from autograd's by {gap:.3g}",
            think="was every input there when an operation was launched?",
        )


# Beyond the bound --------------------------------------------------------------------


@exercise("13b-beyond")
def check_13b_beyond(beyond):
    with trying("your list of operations", beyond) as expect:
        graph = _expect_dataflow_operations(expect, beyond)
        work = [
            sum(op.takes for op in graph if op.device == device) for device in (0, 1)
        ]
        think = "how the work is dealt: deal it fairly, half to each device"
        expect(
            abs(work[0] - work[1]) <= 1e-9 * sum(work),
            got=f"device 0 has {work[0]} slots of work, device 1 {work[1]}",
            think=think,
        )
        longest = longest_path(graph)
        bound = 1.5 * max(total_work(graph) / 2, longest)
        orders, dice = [graph, graph[::-1]], random.Random(13)
        orders += [dice.sample(graph, len(graph)) for _ in range(200)]
        runs = [simulate_dataflow(order, devices=[0, 1]) for order in orders]
        best = min(runs, key=makespan)
        think = "what could keep device 1 idle until device 0 is nearly through?"
        if 2 * longest > total_work(graph):
            think = "the long chain that makes the bound large: who needs whom?"
        elif makespan(runs[0]) > bound * (1 + 1e-9):
            think = "this order, unlike yours within the bound: on which of the others "
            think += "should a late operation depend, so that no order helps?"
        expect(
            makespan(best) > bound * (1 + 1e-9),
            got=f"W = {total_work(graph)}, L = {longest}, the bound is {bound}, and "
            f"this order takes {makespan(best)}:\n{dataflow_text(best)}",
            think=think,
        )


def _expect_dataflow_operations(expect, answer) -> list[Operation]:
    """The answer as a list of proper operations, or advice on its form."""
    form = 'a list such as [Operation("a", (), device=0, takes=1), …]'
    is_list = isinstance(answer, list | tuple) and not isinstance(answer, Operation)
    expect(is_list, got=answer, think=form)
    graph = list(answer)
    size = 0 < len(graph) <= 8
    expect(size, got=f"{len(graph)} operations", think="one to eight operations")
    names = {op.name for op in graph}
    unique = len(names) == len(graph)
    expect(unique, got=graph, think="whether each operation has a name of its own")
    for op in graph:
        inputs = not isinstance(op.inputs, str) and set(op.inputs) <= names
        think = 'what it reads: a tuple of names of your own list; ("a",) has a comma'
        expect(inputs, got=op, think=think)
        right = op.device in (0, 1) and 1 <= op.takes <= 10
        think = "on which devices (0 and 1) and how long (1 to 10 slots) it may run"
        expect(right, got=op, think=think)
    think = "the one that starts first: which operations wait for each other?"
    expect(_dataflow_has_no_cycle(graph), got=answer, think=think)
    return graph


def _dataflow_has_no_cycle(graph: list[Operation]) -> bool:
    left, done = list(graph), set()
    while free := [op for op in left if set(op.inputs) <= done]:
        done |= {op.name for op in free}
        left = [op for op in left if op.name not in done]
    return not left


# Eight operations --------------------------------------------------------------------


@exercise("13b-place")
def check_13b_place(by_hand):
    names = {op.name for op in EIGHT_OPERATIONS}
    with trying("your placement", by_hand) as expect:
        form = 'a dictionary such as {"x": 0, "h1": 1, …}'
        expect(isinstance(by_hand, Mapping), got=by_hand, think=form)
        missing = names - set(by_hand)
        expect(
            not missing,
            got=f"without {', '.join(sorted(missing))}",
            think="the keys: the names of all eight operations, each with its device",
        )
        known = set(by_hand.values()) <= {0, 1}
        expect(known, got=by_hand, think="which devices there are: 0 and 1")
        placement = {name: int(by_hand[name]) for name in names}
        ran = run_placement(EIGHT_OPERATIONS, placement, LINK_TAKES)
        best = min(
            makespan(run_placement(EIGHT_OPERATIONS, rule(EIGHT_OPERATIONS, 2), 3))
            for rule in HEURISTICS.values()
        )
        expect(
            makespan(ran) < best,
            got=f"{makespan(ran)} slots, and a rule takes {best}:\n"
            + dataflow_text(ran),
            think=_advice_on_dataflow_placement(placement),
        )


def _advice_on_dataflow_placement(placement: dict[str, int]) -> str:
    if len(set(placement.values())) == 1:
        return "the idle device, though nothing crosses: which branch could move?"
    crossing = [
        f"{name} to {op.name}"
        for op in operations_in_order_of_inputs(EIGHT_OPERATIONS)
        for name in op.inputs
        if placement[name] != placement[op.name]
    ]
    if len(crossing) > 4:
        return f"what crosses: {', '.join(crossing)}. What belongs together?"
    if placement["h1"] == placement["h2"]:
        return "h1 and h2, which are long: what keeps them from running side by side?"
    return f"what crosses: {', '.join(crossing)}. For which of them does anyone wait?"
