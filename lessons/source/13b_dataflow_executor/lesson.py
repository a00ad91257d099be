# ---
# title: 13b A dataflow executor
# question: Operations wait for one another, and there are several devices. Who starts what, and when?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 13b. A dataflow executor
#
# In 13a a device was a queue, and we launched its work by hand. But a training step has
# a few dozen operations. Some need the results of others, and some could run side by
# side.
#
# Here we write the program that decides what runs when. It is about twenty lines long,
# and TensorFlow and torch's backward pass have one like it inside. Then we ask how good
# its decisions are, and which operation belongs on which device.
#
# *You will be able to* run any graph of operations on several devices, give an upper
# limit on how long it takes, and place operations better than three rules of thumb.
#
# *Before this:* lesson 13a. *Time:* {reading} minutes, and 40 for three exercises. *Needs:* two
# CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## A program as a graph: 10 minutes
#
# Six cards with the operations, pinned to the wall with strings between them. Two people
# are the devices. On each card a number: how many strings arrive from operations that
# are not done. Whenever an operation is finished, take one off each card at the other
# end. Cards
# at 0 may be taken. That is the whole executor, and they have just been it.
#
# Expected: "5 slots, for there are 10 slots of work and two devices."

# %% [markdown]
# ## A program as a graph
#
# Here are six **operations**. Each names the operations whose results it reads, the
# device it runs on, and how long it takes, in slots. Nothing says in which order they
# run. Operations and what they read form a **dataflow graph**.

# %%
from parallel_by_hand.dataflow.operations import Operation

graph = [
    Operation("f", ("d", "e"), device=1, takes=1),
    Operation("a", (), device=0, takes=1),
    Operation("b", ("a",), device=0, takes=2),
    Operation("c", ("a",), device=1, takes=3),
    Operation("d", ("b", "c"), device=0, takes=1),
    Operation("e", ("c",), device=1, takes=2),
]

# %% [markdown]
# Give each operation a counter: how many of its inputs are still missing. For `a` it is
# 0, for `d` and `f` it is 2, for the others 1. When an operation finishes, the counters
# of those that read it go down by one. **An operation is ready when nothing is
# missing.**
#
# Ready operations wait in their device's *ready queue*, and an idle device takes the
# first. There are ten slots of work. How many slots do the six operations take
# together?

# %%
from sidebyside import forget, guess, hint, progress, solution

guess("13b-six", None, "How many slots do the six operations take?", "slots")

# %%
from parallel_by_hand.dataflow.simulated_devices import (
    draw_dataflow,
    makespan,
    simulate_dataflow,
)
from sidebyside import reveal

ran = simulate_dataflow(graph)
reveal("13b-six", makespan(ran), computed=True)
draw_dataflow(ran)

# %% [markdown]
# Seven slots, from the first start to the last end: the **makespan**. The chain `a`,
# `c`, `e`, `f` takes seven slots by itself: it is the **longest path**.

# %% [markdown]
# ## A machine with two functions
#
# The picture is *simulated*: its clock is only counted. An *executor* has put the
# operations there: a program that talks to the devices through two functions, `launch`
# and `wait`.

# %%
from parallel_by_hand.dataflow.simulated_devices import SimulatedDevices
from sidebyside import show

show(SimulatedDevices)

# %% [markdown]
# `launch` returns at once, as in 13a: the device is busy, and the executor goes on.
# `wait` returns the operation that finishes next. Real devices make it block; here the
# clock jumps.

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the executor: 20 minutes
#
# Let people write the four tables on paper first: readers, missing, ready, idle. Most
# get stuck on when to look for work: after *every* `wait`, on *every* device, because
# what has finished on one device may free work for another.
#
# The usual mistake is a loop of waves: start all that is ready, wait for all, again. It
# gives right results, so only the idle time tells.

# %% [markdown]
# ## Exercise 1: the executor
#
# Write `execute(graph, machine)`, which runs every operation of `graph`, and returns
# when all have finished. `machine.devices` lists the devices,
# `machine.launch(device, operation)` starts an operation, and `machine.wait()` returns
# the next finished pair `(device, operation)`. Four rules:
#
# 1. an operation is launched once, on its own device;
# 2. only after `wait` has returned all its inputs;
# 3. only if nothing runs on that device;
# 4. whenever you call `wait`, no idle device has a ready operation.
#
# By hand first: which counters of our six operations are 0 when `c` has finished, and
# what is then in the ready queues?
#
# <!-- exercise: 13b-executor -->
#
# <details><summary>Hint 1: a question</summary>
#
# Before the first `wait`: which operations are ready? After each `wait`: whose counters
# change, and which devices may have something new to do?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Four tables: `readers[name]`, the operations that read it; `missing[name]`, a number;
# `ready[device]`, a queue; `idle`, the devices without work. Put operations without
# inputs into the queues. Then, once for each operation: give work to every idle device
# whose queue has some, wait once, count down.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `missing = {op.name: len(set(op.inputs)) for op in graph}`. In a loop
# `for _ in graph:`, each device in `list(idle)` launches the first operation of its
# ready queue, if there is one, and leaves `idle`. Then `device, done = machine.wait()`,
# add the device to `idle`, and count down for each reader; at 0 it goes into `ready` of
# its own device.
#
# </details>


# %% exercise="13b-executor"
def execute(graph: list[Operation], machine) -> None:
    """Run every operation once, as early as its inputs and its device allow."""
    ### BEGIN SOLUTION
    missing = {op.name: len(set(op.inputs)) for op in graph}
    ready = {device: [] for device in machine.devices}
    idle = set(machine.devices)
    for op in graph:
        if missing[op.name] == 0:
            ready[op.device].append(op)
    for _ in graph:
        for device in list(idle):
            if ready[device]:
                machine.launch(device, ready[device].pop(0))
                idle.remove(device)
        device, done = machine.wait()
        idle.add(device)
        for op in graph:
            if done.name in op.inputs:
                missing[op.name] -= 1
                if missing[op.name] == 0:
                    ready[op.device].append(op)
    ### END SOLUTION


# %%
from sidebyside import check

check("13b-executor", execute)

# %% [markdown] tags=["why"]
# <!-- why: 13b-executor -->
# Why it works: an operation enters a ready queue at the moment its counter reaches 0,
# which happens once, and leaves it when it is launched: so each runs once, after its
# inputs. A device is in `idle` from `wait` to `launch`: so it has one at a time. All
# idle devices look for work before each `wait`: so no device idles that could work. By
# hand: `b` has finished at 3, `c` at 4. Then `a`, `b`, `c`, `d` and `e` are at 0; `d`
# waits in the queue of device 0, `e` in that of device 1, and `f` still misses two. Our
# own is in resources/parallel_by_hand/dataflow/dataflow_executor.py. It makes the list
# of readers once, instead of looking through the graph each time.

# %% [markdown] tags=["instructor"]
# ## Real work, and transfers: 15 minutes
#
# Draw the two branches and their way back on the board before you show the thirteen
# lines; let the class say which two values must cross.
#
# Expected: "four: each branch has two layers", or "one, the loss".
#
# When late: skip the training loop.

# %% [markdown]
# ## Real work
#
# Now real operations: a network for the digits with two branches, forward and backward.
# One branch sees the upper half of each image, the other the lower half. `A` and `B`
# are the first layers' weights, `C` and `D` the second layers'. A function's parameters
# say what it reads:
#
# ```python
# "h_a": lambda upper, A: torch.tanh(upper @ A),
# "h_b": lambda lower, B: torch.tanh(lower @ B),
# "y_a": lambda h_a, C: h_a @ C,
# "y_b": lambda h_b, D: h_b @ D,
# "y": lambda y_a, y_b: y_a + y_b,
# "loss": lambda y, labels: F.cross_entropy(y, labels),
# "dy": lambda y, labels: (y.softmax(1) - F.one_hot(labels, 10)) / len(labels),
# "dC": lambda h_a, dy: h_a.T @ dy,
# "dh_a": lambda dy, C, h_a: (dy @ C.T) * (1 - h_a**2),
# "dA": lambda upper, dh_a: upper.T @ dh_a,
# ```
#
# The gradients `dD`, `dh_b` and `dB` look like the last three.

# %% [markdown]
# The **placement** says which operation runs on which device. Here the upper half's
# branch is on device 0, and all the rest, with `y`, the loss and `dy`, on device 1. A
# GPU cannot read what lies on another one. Where an edge crosses, two operations are
# inserted: a `send`, which occupies the link between the two, and a `recv` on the other
# side.

# %%
from parallel_by_hand.dataflow.operations import with_transfers

show(with_transfers)

# %% [markdown]
# To the executor, a link is a device like others: it carries one value at a time, while
# the devices compute.
#
# Follow the two branches in the list above, forward and backward.

# %%
guess(
    "13b-cross", None, "How many values cross from one device to the other?", "values"
)

# %%
from parallel_by_hand.dataflow.operations import placed, transfers_in
from parallel_by_hand.dataflow.two_branch_network import (
    by_branch,
    graph_of_two_branches,
    make_two_branches,
)
from sidebyside import load_digits

weights, (images, labels) = make_two_branches(), load_digits("train")
network = graph_of_two_branches(weights, images, labels)
cross = transfers_in(with_transfers(placed(network, by_branch(network))))
reveal("13b-cross", len(cross), computed=True)
print(cross)

# %% [markdown]
# Only two: `y_a` on its way to the sum, and `dy` back. Two operations of device 0 read
# `dy`, but it is sent once.

# %% [markdown]
# `ThreadDevices` is a machine like the simulated one, but each device and each link is
# a thread, and an operation computes. The executor is the same as before; with
# `execute=execute`, `run_two_branches` and `simulate_dataflow` use yours.

# %%
from parallel_by_hand.dataflow.two_branch_network import (
    largest_gap,
    plain_gradients,
    run_two_branches,
)

machine = run_two_branches(weights, images, labels, by_branch(network))
gap = largest_gap(machine.values, plain_gradients(weights, images, labels))
sent = sum(machine.values[f"send {name}"].nbytes for name in cross)
print(f"within 1e-6 of autograd: {gap <= 1e-6}, bytes that crossed: {sent}")
draw_dataflow(machine.ran, stamp="measured here", unit="ms")

# %% [markdown]
# **The loss and the gradients are those of the plain network, to within 1e-6, whatever
# the placement.** The order of independent operations may change from run to run; the
# results do not.

# %% [markdown]
# In the picture the branches overlap. Bars too thin for a name are the inputs and weights
# at the left, and `y`, the loss and `dy` in the middle; green ones are transfers. Is the
# step faster for the overlap? The same step on two devices and on one, in turn:

# %%
from statistics import median

one_device, took = dict.fromkeys(by_branch(network), 0), {"two devices": [], "one": []}
for _ in range(7):
    for which, place in ("two devices", by_branch(network)), ("one", one_device):
        ran = run_two_branches(weights, images, labels, place).ran
        took[which].append(ran[-1].end - min(run.start for run in ran))
for which, milliseconds in took.items():
    print(f"{which}: {median(milliseconds):.0f} ms")

# %% [markdown]
# Even with a free core for each, two devices are not twice as fast: `y`, the loss and
# `dy` run alone.
#
# Eight steps of training, with four placements. After each step the weights are
# compared with those of plain SGD:

# %%
from parallel_by_hand.dataflow.placement_heuristics import HEURISTICS

rules = {"by branch": by_branch}
rules |= {name: lambda g, rule=rule: rule(g, 2) for name, rule in HEURISTICS.items()}
plain, mine = weights, dict.fromkeys(rules, weights)
for _ in range(8):
    expected = plain_gradients(plain, images, labels)
    plain = {name: plain[name] - 0.5 * expected[f"d{name}"] for name in plain}
    for rule, place in rules.items():
        found = run_two_branches(mine[rule], images, labels, place(network)).values
        found = {name: value.cpu() for name, value in found.items()}
        mine[rule] = {name: found[name] - 0.5 * found[f"d{name}"] for name in plain}
        assert largest_gap(mine[rule], plain) <= 1e-6
for rule, place in rules.items():
    crossing = transfers_in(with_transfers(placed(network, place(network))))
    print(f"{rule:20} equal after 8 steps, values that cross: {len(crossing)}")

# %% [markdown]
# The last three placements are explained below. Two of them send far more than two
# values: they also place the images, labels and weights, which are operations that read
# nothing. The last sends none, because it leaves device 1 without work.

# %% [markdown] tags=["instructor"]
# ## How bad can it be: 8 minutes
#
# The proof takes three sentences and one drawing: colour the times at which some device
# idles. At each of them somebody works on the longest chain. Do it on the board with the
# first picture of this section.
#
# When late: the proof may be read at home; keep the example with three operations.

# %% [markdown]
# ## How bad can it be?
#
# The executor takes ready operations in any order, and does not look ahead. How much
# can it lose by that? We take a simpler machine: *one* ready queue for all devices, and
# transfers that cost nothing.

# %%
from parallel_by_hand.dataflow.operations import placed_anywhere

short, also_short = Operation("short", takes=1), Operation("also short", takes=1)
long = Operation("long", takes=2)
orders = {
    "long last": [short, also_short, long],
    "long first": [long, short, also_short],
}
draw_dataflow(
    {
        name: simulate_dataflow(placed_anywhere(order), devices=[0, 1])
        for name, order in orders.items()
    }
)

# %% [markdown]
# Three slots or two, by the order alone. Here are the six operations of the beginning
# with one shared queue:

# %%
from lessons.props.dataflow_pictures import draw_idle_beside_path

draw_idle_beside_path(simulate_dataflow(placed_anywhere(graph), [0, 1]), "acef")

# %% [markdown]
# When a device idles, nothing is ready: every operation that has not started waits for
# a running one. So the longest chain of unfinished operations begins with a running one,
# and it gets shorter for as long as the device idles. At the start its length is that of
# the longest path, $L$. So the striped moments add up to at most $L$, and in each of
# them at most $p-1$ of $p$ devices idle.

# %% [markdown]
# Add up the time of all devices: with $W$ slots of work, $p \cdot T \leq W + (p-1) L$.
# Both $W/p$ and $L$ are at most the larger of the two, so
#
# $$T \leq \left(2 - \tfrac{1}{p}\right) \cdot \max\left(\tfrac{W}{p}, L\right).$$
#
# This is *Graham's bound* of 1966. The order with `long` last reaches it: three slots,
# where $W/p$ and $L$ are 2. No executor can take less than $\max(W/p, L)$.

# %%
question = "2 devices, 16 slots of work, longest path 8: at most how many slots?"
guess("13b-graham", None, question, "slots")

# %%
reveal("13b-graham", (2 - 1 / 2) * max(16 / 2, 8), computed=True)

# %% [markdown]
# We take 2,000 random graphs, each with 2 to 4 devices, and divide the makespan by the
# bound. Then we give each operation of the same graphs a random device of its own.

# %%
import random

from parallel_by_hand.dataflow.operations import (
    longest_path,
    random_operations,
    total_work,
)

dice, shared, own = random.Random(13), [], []
for _ in range(2000):
    p = dice.randint(2, 4)
    work = random_operations(dice, dice.randint(4, 16), p)
    bound = (2 - 1 / p) * max(total_work(work) / p, longest_path(work))
    shared.append(makespan(simulate_dataflow(placed_anywhere(work), range(p))) / bound)
    own.append(makespan(simulate_dataflow(work, range(p))) / bound)
for name, shares in ("one shared queue", shared), ("random placements", own):
    print(f"{name:17}  worst {max(shares):.2f} of the bound", end=", ")
    print(f"above it: {sum(share > 1 for share in shares)} of {len(shares)}")

# %% [markdown]
# **With one shared ready queue and free transfers, the makespan is never above
# $(2 - 1/p) \cdot \max(W/p, L)$.** With placements it can be: an idle device may have
# nothing to do while another has a full queue, and the proof breaks. What is left is
# $T \leq W$, since something always runs: up to $p$ times $W/p$.
#
# Is the reason only that one device got most of the work?

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the counterexample: 10 minutes
#
# Everyone finds "all on one device" first; the exercise forbids it. Ask: when must a
# device idle although the work is dealt fairly? When its share becomes ready late.

# %% [markdown]
# ## Exercise 2: beyond the bound
#
# Write `beyond`, a list of at most eight operations on devices 0 and 1, so that
#
# * both devices get the same amount of work, the sum of `takes`,
# * and the makespan is above Graham's bound, $1.5 \cdot \max(W/2, L)$, in whatever
#   order a device takes its ready operations.
#
# Transfers are free, and each operation takes from 1 to 10 slots.
#
# By hand first: two operations of one slot and without inputs are both on device
# 0. What are $W$, $L$, the bound and the makespan?
#
# <!-- exercise: 13b-beyond -->
#
# <details><summary>Hint 1: a question</summary>
#
# In your two operations the work is not shared at all. With half the work each, the
# makespan is at least $W/2$. What must happen for it to become nearly $W$?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Device 1 must not be able to begin before device 0 has finished. And yet no chain may
# be long: so device 0 has several operations that do not need one another.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Put two operations without inputs on device 0. On device 1, which inputs must two
# operations have, so that neither can begin before both of the others have finished?
#
# </details>

# %% exercise="13b-beyond"
beyond = ...
### BEGIN SOLUTION
first = [Operation(f"first {i}", (), device=0) for i in range(4)]
names = tuple(op.name for op in first)
beyond = first + [Operation(f"then {i}", names, device=1) for i in range(4)]
### END SOLUTION

# %%
check("13b-beyond", beyond)

# %% [markdown] tags=["why"]
# <!-- why: 13b-beyond -->
# Why it works: there are eight slots of work, four for each device, and no chain is
# longer than two. The bound is 1.5 · 4 = 6. But device 1 begins when device 0 has
# finished, in any order: 8 slots. Two and two operations are enough: 4 slots, and the
# bound is 3. With p devices in a row it takes p times as long as W/p. The executor did
# nothing wrong: no device was idle while it had a ready operation. The placement is to
# blame. By hand: W = 2, L = 1, the bound is 1.5 and the makespan 2.

# %% [markdown] tags=["instructor"]
# ## Placing well: 7 minutes
#
# Have the class vote on which rule wins before the table appears, for each column.
#
# When late: show the table without reading the rules.

# %% [markdown]
# ## Placing well
#
# So the placement decides. To find the best one is hard: 20 operations on two devices
# have a million placements. Here are three rules of thumb, *heuristics*:
#
# * **round robin**: deal the operations like cards;
# * **longest path first**: the operation that begins the longest chain goes next, to the
#   device that could start it first if transfers were free;
# * **least communication**: each goes where most of its inputs are; if both devices
#   have as many, to the one with less work.

# %% [markdown]
# We try all three on 200 random graphs of 16 operations, which take 5 slots on average,
# and let a transfer take 0, 4 or 16 slots. The numbers are means of the makespan
# divided by $\max(W/p, L)$; 1 is the least possible.

# %%
from statistics import mean

from parallel_by_hand.dataflow.placement_heuristics import run_placement

dice = random.Random(13)
graphs = [random_operations(dice, 16, 2) for _ in range(200)]
floors = [max(total_work(g) / 2, longest_path(g)) for g in graphs]
for name, rule in HEURISTICS.items():
    print(f"{name:20}", end="")
    for link in 0, 4, 16:
        times = [makespan(run_placement(g, rule(g, 2), link)) for g in graphs]
        ratio = mean(t / floor for t, floor in zip(times, floors, strict=True))
        print(f"  transfer {link:2}: {ratio:.2f}", end="")
    print()

# %% [markdown]
# **In the mean over these graphs, longest path first is the best of the three when
# transfers are free or cheap, and least communication when they are expensive.** No
# rule is right for every graph.

# %% [markdown] tags=["instructor"]
# ## Exercise 3, eight operations: 15 minutes
#
# A competition: the smallest number on the board wins. Ask the winner why 19 cannot be
# beaten. A proof is not needed: a computer can try all 256 placements.

# %% [markdown]
# ## Exercise 3: place eight operations
#
# Here are eight operations, two branches forward and back, and how the three rules
# place them. A transfer takes three slots. For which transfer do both devices wait?

# %%
from parallel_by_hand.dataflow.placement_heuristics import EIGHT_OPERATIONS, LINK_TAKES

for op in EIGHT_OPERATIONS:
    print(f"{op.name:4} takes {op.takes}, reads {' and '.join(op.inputs) or 'nothing'}")
three = {
    name: run_placement(EIGHT_OPERATIONS, rule(EIGHT_OPERATIONS, 2), LINK_TAKES)
    for name, rule in HEURISTICS.items()
}
print({name: makespan(ran) for name, ran in three.items()})
draw_dataflow(three["longest path first"])

# %% [markdown]
# Write `by_hand`, a dictionary from each of the eight names to its device, 0 or 1, so
# that the operations take 21 slots or fewer. The best rule takes 22.
# `run_placement(EIGHT_OPERATIONS, by_hand, LINK_TAKES)` runs it, and `draw_dataflow`
# draws what it returns.
#
# By hand first: everything on device 0 takes 26 slots. If `g2` alone moves to device 1,
# which values cross, and when can `g2` start?
#
# <!-- exercise: 13b-place -->
#
# <details><summary>Hint 1: a question</summary>
#
# A value that crosses costs three slots, unless its reader has to wait anyway. Which
# value could cross without delaying its reader?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# In the picture, each branch is on one device, there and back: keep that. But `x` and the
# loss belong to both branches. Move one of them to the other device: which transfers come
# earlier, or no longer hold anyone up?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The branch with `x` gets its input three slots earlier. And the branch on whose device
# the loss is need not wait for it to cross: which of `g1` and `g2` is longer?
#
# </details>

# %% exercise="13b-place"
by_hand = ...
### BEGIN SOLUTION
by_hand = {"x": 0, "h2": 0, "y2": 0, "g2": 0}
by_hand |= {"h1": 1, "y1": 1, "loss": 1, "g1": 1}
### END SOLUTION

# %%
check("13b-place", by_hand)

# %% [markdown] tags=["why"]
# <!-- why: 13b-place -->
# Why it works: in the picture both devices wait for `y2`, from 11 to 14: branch 2 is
# late, because it got its `x` late. Here each branch stays on one device, too, and only
# `x`, `y2` and the loss cross. But branch 2 has `x` beside it and is ready early: `y2`
# crosses while device 1 still computes `h1`. The loss is beside `g1`, the longer of the
# two, which starts at once; `g2` is shorter by two slots and can wait for the loss to
# cross. That makes 19 slots, the best of all 256 placements. Ten of them beat the
# rules. Longest path first found the branches as well, but it believes that transfers
# are free. By hand: `h2` and the loss cross. `h2` does so early and hurts nobody, but
# the loss crosses from 16 to 19. Then `g2` runs beside `g1`, and ends at 23 instead of
# 26.

# %% [markdown] tags=["instructor"]
# ## Torch's own, and other names: 5 minutes
#
# Ask before the cell: for how many gradients does the node of `tanh` wait? The class has
# all it needs to count them.
#
# When late: leave the table of words to the reader.

# %% [markdown]
# ## You have used one all along
#
# `loss.backward()` runs a dataflow executor, too. Torch's forward pass writes down the
# graph of the backward. Here it is, with the counters that its engine starts from:
# `missing` counts how many gradients each node waits for, and a `reader` is a node that
# gets a gradient from another.

# %%
from collections import Counter

import torch

from lessons.props.dataflow_pictures import draw_backward_graph

w = {name: value.clone().requires_grad_() for name, value in weights.items()}
h = torch.tanh(images[:, :32] @ w["A"])
loss = (h @ w["C"] + (h * h).sum()).sum()
missing, nodes = Counter(), [loss.grad_fn]
for node in nodes:
    for reader, _ in node.next_functions:
        if reader is not None:
            nodes += [reader] if reader not in missing else []
            missing[reader] += 1
for node in nodes:
    print(missing[node], node.name())
draw_backward_graph(nodes, missing)

# %% [markdown]
# `Mm` is the matrix product, and `AccumulateGrad` adds to the `.grad` of a weight. The
# node of `tanh` waits for three gradients, since `h` is used three times: once in
# `h @ C`, and twice in `h * h`. Torch's engine counts these down, and has one ready
# queue for each device. A GPU's has a thread of its own; the CPU's is served by the
# thread that calls `backward`. In the words of 13a, our thread for each device is an
# inter-op thread, and computes with one intra-op thread.

# %% [markdown]
# | here | torch | TensorFlow |
# |---|---|---|
# | dataflow graph | the graph behind `grad_fn`; `torch.fx.Graph` for a forward | `tf.Graph`, behind `tf.function` |
# | executor, counters | the autograd engine, its `dependencies` | the executor, its pending counts |
# | placement | `tensor.to(device)`: where the inputs are | `with tf.device(…)` |
# | send, recv | a copy between devices | `_Send` and `_Recv` |
# | threads that run operations side by side | `torch.set_num_interop_threads`, for the deprecated `torch.jit.fork`, not for `backward` | `inter_op_parallelism_threads` |
# | threads within an operation | `torch.set_num_threads` | `intra_op_parallelism_threads` |
#
# Under `jax.jit`, JAX hands the whole graph to its compiler, XLA. For GPUs XLA largely
# fixes the order beforehand; on the CPU it has a ready queue, too.

# %% [markdown]
# ## The scorecard
#
# The two-branch network by branch, one process, two devices:
#
# | | |
# |---|---|
# | equal to the plain network | loss, gradients, and weights after each of 8 steps, to 10⁻⁶ |
# | bytes each device sends per step | `y_a` or `dy`: 4 bytes · 10 classes · 1,415 images |
# | memory of each device | its branch's weights and gradients, and every result: our executor frees nothing before the end |
# | idle share | at the right of the picture: the crossing; `y`, the loss and `dy` on device 1 alone; and waiting for a core |
# | if one operation fails | its error reaches `wait`, and the step ends |

# %% [markdown]
# ## What we saw
#
# * An executor needs a counter of missing inputs for each operation and a ready queue
#   for each device. Torch's `backward` runs one, too.
# * With one shared queue, any order is at most $2 - 1/p$ times as long as the larger of
#   $W/p$ and $L$. With placements it can take up to $p$ times as long.
# * Cheap transfers reward spreading the work, expensive ones keeping it together.
#
# In a terminal, `python demos/dataflow/dataflow.py --help` runs the network under any
# placement, on real threads or simulated.
#
# ## Next
#
# We cut this network by hand, so that two values cross. Lesson 14a asks where to cut a
# model that is too large for one device.
