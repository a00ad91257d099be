# ---
# title: 15a Pipeline parallel: the schedule
# question: A model is split over four devices. How do all four work at once?
# needs: two CPU cores, no GPU
# minutes: 75
# ---

# %% [markdown]
# # 15a. Pipeline parallel: keep every stage busy
#
# In lesson 14a a model was too large for one device, so we put its layers on several.
# It fitted, but while one device computed, the other one waited.
#
# Here we make them work at the same time. We plan which rank does what and when, check
# and draw the plan, and run it on real processes.
#
# *You will be able to* read and write a pipeline schedule, say what it wastes before you
# run it, and write one that trains the same model.
#
# *Before this:* lessons 10a and 14a. *Time:* {reading} minutes to read, 30 for the exercises.
# *Needs:* two CPU cores, no GPU.

# %% [markdown]
# ## Words from earlier lessons
#
# | | | lesson |
# |---|---|---|
# | rank, world size | one of several processes and its number; how many there are | 9 |
# | `run_ranks(fn, world_size=4)` | calls `fn` in four ranks, returns four results | 9 |
# | `send`, `recv` | one rank sends a tensor, another one waits for it | 10a |
# | `isend`, `irecv` | the same, but Python goes on, and has to `wait()` later | 10a |
# | backend | what carries messages: gloo between CPUs, NCCL between GPUs | 10a |
# | micro-batch | a part of a batch; the parts' gradients are added up | 8 |
# | activations | what layers compute on the way forward, for the way back | 14a |

# %% [markdown] tags=["instructor"]
# ## Three samples, three stages: 6 minutes
#
# Three people in front, each with a pen of one colour; three sheets of paper that need
# all three colours in order. First one sheet at a time, then as they like. The class
# counts the claps. Nine, then five. Nobody worked faster.
#
# Keep the three people: they act out the way back, too.
#
# When late: act it out and skip the two cells.

# %% [markdown]
# ## Three samples on three stages
#
# A model is cut into three **stages**, and each stage lives on its own rank. A sample
# must pass stage 0, then 1, then 2. Each pass takes one slot of time.
#
# One sample after the other: sample $i$ is on stage $s$ at time $3i + s$. In the
# picture, F1 is the forward pass of sample 1. A `Slot` is one box: when it begins and
# ends, its rank and its instruction.

# %%
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import Slot

one_by_one = [
    Slot(3 * i + s, 3 * i + s + 1, rank=s, instruction=f"F{i}")
    for i in range(3)
    for s in range(3)
]
draw_schedule(one_by_one)

# %% [markdown]
# It takes nine slots, and each rank waits for six of them. But rank 0 could take the
# next sample as soon as it has handed on the first. Write your guess in place of
# `None`:

# %%
from sidebyside import guess

question = "How many slots, if each rank takes its next sample as early as it can?"
guess("15a-three-by-three", None, question, "slots")

# %%
from parallel_by_hand.pipeline.schedule_rules import timetable_length
from sidebyside import reveal

pipelined = [
    Slot(i + s, i + s + 1, rank=s, instruction=f"F{i}")
    for i in range(3)
    for s in range(3)
]
reveal("15a-three-by-three", timetable_length(pipelined), computed=True)
draw_schedule({"one by one": one_by_one, "pipelined": pipelined})

# %% [markdown]
# **Three samples on three stages take 9 slots one by one and 5 pipelined.** No sample
# got through faster: each still needs three slots. Ranks work side by side because they
# work on *different* samples. This is a **pipeline**.

# %% [markdown] tags=["instructor"]
# ## A plan is data: 9 minutes
#
# Let people write the instructions of one rank on a card and hold them up in order.
# Everyone may act only when what they need has arrived. A wrong card makes the whole
# row stand still: that is the deadlock of the second verdict, and they remember it.
#
# People ask why the backward starts at the last stage. Because the loss is there.
#
# When late: skip the verdicts; the bench of 15b gives them anyway.

# %% [markdown]
# ## And back again
#
# Training also goes back: the last stage knows the loss, and gradients flow from it to
# the first.
#
# Micro-batches flow through the pipeline. If they are equal, the gradient of the
# batch's mean loss is the mean of their gradients, as in lesson 8.

# %% [markdown]
# We write down what each rank does, and in which order, as a list of instructions. One
# list per rank is a **schedule**. Here two micro-batches go through three stages, all
# forward and then all back. B1 is the backward pass of micro-batch 1:

# %%
from parallel_by_hand.pipeline.schedules import gpipe

gpipe(3, 2)

# %% [markdown]
# A schedule says nothing about time. `timetable` adds it: everything happens as early
# as it can. Here four micro-batches pass four stages. At the top, each goes forward and
# back before the next one starts. Below it is the schedule that you have read,
# **GPipe**.

# %%
from parallel_by_hand.pipeline.schedule_rules import timetable
from parallel_by_hand.pipeline.schedules import naive

draw_schedule({"naive": timetable(naive(4, 4)), "GPipe": timetable(gpipe(4, 4))})

# %% [markdown]
# Same work, 32 slots or 14. Follow micro-batch 2 with your finger: down the blue
# stairs, up the orange ones.

# %% [markdown]
# ## What must happen before what
#
# A rank takes its list in order, one at a time. Beyond that, `needs` says what must be
# finished before a piece of work can start. W belongs to lesson 15b.

# %%
from parallel_by_hand.pipeline.schedule_rules import needs
from sidebyside import show

show(needs)

# %% [markdown]
# Below, three schedules for two ranks hold the same instructions in different orders.
# **Before you run it:** which one can work, and what goes wrong in the others?

# %%
from parallel_by_hand.pipeline.schedule_rules import verdict

candidates = {
    "A": [["F0", "F1", "B0", "B1"], ["F0", "B1", "F1", "B0"]],
    "B": [["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]],
    "C": [["F0", "F1", "B1", "B0"], ["F0", "F1", "B1", "B0"]],
}
for name, schedule in candidates.items():
    print(f"{name}: {verdict(schedule)}".replace("; ", ";\n   "))

# %% [markdown]
# In A, rank 1 wants to take micro-batch 1 back before it has been forward. In B each
# rank waits for something that the other will do later: a deadlock, as in lesson 4. C
# is unusual and fine: the order of the backwards is free. `verdict` starts no process:
# it moves a finger along each list, where it may.

# %% [markdown] tags=["instructor"]
# ## The bubble: 9 minutes
#
# Don't give the formula. Ask two questions about the GPipe picture and write the two
# answers on the board: how many slots does one rank work (2m), how long is the picture
# (2(m + p - 1)). The class does the rest.
#
# A common answer is (p - 1)/m. It is the waste compared with the work instead of with
# the whole time, and Megatron-LM's papers use it: right too, but say which you mean.
#
# When late: skip the check of 120 pictures, show the one that ranks have run.

# %% [markdown]
# ## The bubble
#
# The grey share of the picture is called the **bubble**. Look at GPipe above, with
# $p = 4$ stages and $m = 4$ micro-batches, and count:
#
# * for how many slots does one rank work?
# * how many slots long is the picture?
#
# Write both in terms of $p$ and $m$.

# %%
guess("15a-bubble", None, "How large is the bubble for 4 stages, 8 micro-batches?", "%")

# %%
from parallel_by_hand.pipeline.schedule_rules import bubble
from parallel_by_hand.pipeline.touch_schedule import touch_schedule

reveal("15a-bubble", 100 * bubble(timetable(gpipe(4, 8))), computed=True)
touch_schedule("gpipe", 4, 8, kinds=["naive", "gpipe"])

# %% [markdown]
# A rank works for $2m$ slots. The last rank starts $p - 1$ slots late, and the same is
# lost on the way back. So the picture is $2(m + p - 1)$ slots long, and the bubble is
#
# $$\frac{p - 1}{m + p - 1}.$$
#
# Does this hold for every size, and if a backward takes twice as long as a forward? Try
# it in the picture first. `timetable(order, 1, 2)` gives a forward one slot and a backward two.

# %%
agree = [
    abs(bubble(timetable(gpipe(p, m), 1, back)) - (p - 1) / (m + p - 1)) < 1e-9
    for p in range(1, 7)
    for m in range(1, 11)
    for back in (1, 2)
]
print(f"{sum(agree)} of {len(agree)} pictures agree")

# %% [markdown]
# **The bubble is $(p-1)/(m+p-1)$, however long a backward takes**, if all stages take
# equally long. More stages make it larger, more micro-batches smaller.

# %% [markdown]
# ## Exercise 1: how many micro-batches?
#
# Write `fewest_microbatches(stages, batch, waste)`: the smallest number of equal
# micro-batches of `batch` samples with which GPipe's bubble is at most `waste`, a share
# between 0 and 1. If even micro-batches of one sample are not enough, return `None`.
#
# By hand first: 4 stages, 64 samples, at most 0.2. The formula alone says 12. Can you cut
# 64 samples into 12 equal parts?
#
# Stuck? `hint("15a-microbatches")` gives one hint per call,
# `solution("15a-microbatches")` the code and why it works.
#
# <!-- exercise: 15a-microbatches -->
#
# <details><summary>Hint 1: a question</summary>
#
# Into which numbers of equal micro-batches can you cut 12 samples?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# More micro-batches make the bubble smaller. So try 1, 2, 3 and so on up to `batch`, skip
# those that do not divide it, and stop at the first one whose bubble is small enough.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In the loop over m, test both `batch % m == 0` and the formula for the bubble. After
# the loop, return `None`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, how many micro-batches: 10 minutes
#
# People solve the formula for m, round up, and forget that the batch must be cut into
# equal parts. Ask what a micro-batch of five and a third samples would be.


# %% exercise="15a-microbatches"
from sidebyside import forget, hint, progress, solution


def fewest_microbatches(stages: int, batch: int, waste: float) -> int | None:
    """The fewest equal micro-batches with which at most `waste` of the time is idle."""
    ### BEGIN SOLUTION
    for m in range(1, batch + 1):
        if batch % m == 0 and (stages - 1) / (m + stages - 1) <= waste:
            return m
    return None
    ### END SOLUTION


# %%
from sidebyside import check

check("15a-microbatches", fewest_microbatches)

# %% [markdown] tags=["why"]
# <!-- why: 15a-microbatches -->
# Why it works: the bubble shrinks as m grows, so the first m that is good enough is the
# smallest. Unequal micro-batches would spoil two things: the mean of their gradients is
# not the gradient of the batch, and a long one holds up the stages behind it. By hand:
# 16, the next divisor of 64 after 12.

# %% [markdown]
# ## Does the world agree?
#
# So far this is a plan. Now `rehearse` starts four ranks that pass real messages.
# Instead of computing, each stage sleeps for 0.05 seconds, forward and backward. Sleep
# needs no core, so four ranks can show a true picture on two cores.

# %% figure="a_pipeline_planned_and_measured"
from parallel_by_hand.pipeline.rehearsal import rehearse

plan = timetable(gpipe(4, 4))
done = rehearse(gpipe(4, 4), seconds=0.05)
draw_schedule({"planned": plan, "run": done}, stamp="simulated")

# %% [markdown]
# The two pictures should be hard to tell apart, though each message makes the ranks a
# little later. Now the bubble for more and more micro-batches:

# %%
from sidebyside import COLOURS, figure

sizes, ran = [1, 2, 4, 8], {}
for m in sizes:
    ran[m] = bubble(rehearse(gpipe(4, m), seconds=0.05))
    print(f"m = {m}: formula {300 / (m + 3):.1f}, run {100 * ran[m]:.1f} %")
alt = "the bubble against the number of micro-batches"
fig, ax = figure(height=2.4, stamp="simulated", alt=alt)
ax.plot(range(1, 33), [300 / (m + 3) for m in range(1, 33)], color="black")
ax.plot(sizes, [100 * ran[m] for m in sizes], "o", color=COLOURS[1], ms=8)
ax.text(8.7, 29, "run by four ranks", color=COLOURS[1])
ax.text(24, 14, "(p − 1) / (m + p − 1), p = 4")
ax.set_xlabel("micro-batches m")
ax.set_ylabel("bubble (%)")
ax.set_ylim(0, 80)
fig

# %% [markdown]
# The points lie on the line or a little above it. A rule of thumb follows from the
# formula: with $m \geq 4p$, less than a fifth is wasted.
#
# Then why not a thousand micro-batches? A micro-batch cannot be smaller than one sample
# (lesson 16c cuts a text into slices, too), and long before that its matrices are too small
# to keep a device busy.

# %% [markdown] tags=["instructor"]
# ## Real work: 10 minutes
#
# `_forward` and `_backward` are all that a pipeline adds to the training step of
# lesson 8. Ask what would have to change for another schedule. Nothing: neither knows
# which one it runs.
#
# The hang: give people a minute with the report alone. Which line, which rank, why?
#
# When late: skip batch norm, keep the hang.

# %% [markdown]
# ## Real work
#
# Now the ranks compute. The program that carries out the plan is an **executor**. Ours,
# `Pipeline`, goes through the slots of the timetable, calls one of the two methods
# below for each of its instructions, and passes on what they return.

# %%
from parallel_by_hand.pipeline.pipeline_stages import Pipeline

show(Pipeline._forward)
show(Pipeline._backward)

# %% [markdown]
# `entered` has come from the stage before, without autograd's graph there. So here it
# is a leaf, a tensor where the graph begins, and after the backward its `.grad` is what
# that stage waits for. `get_gradient_edge(output)` is where the way back begins,
# without keeping the output's numbers. `waiting` keeps both ends until then. Here `run`
# calls the module; `splits` and `recompute` belong to 15b.

# %% [markdown]
# ## The same gradients
#
# Is the result the gradient of the whole model? A network of eight layers, each 64
# wide, is cut into four stages and sees 64 samples. `step_through_pipeline` runs one
# step in each rank and returns its loss, its gradients, and counts of bytes.

# %%
from parallel_by_hand.pipeline.measured_step import gradients_by_layer as by_layer
from parallel_by_hand.pipeline.measured_step import step_through_pipeline
from sidebyside import run_ranks


def compare_with_whole(make, m: int) -> list[dict]:
    """One step on four real ranks beside the model in one piece."""
    ranks = run_ranks(step_through_pipeline, make(4, m), world_size=4)
    pairs = zip(by_layer(ranks), by_layer(whole), strict=True)
    equal = all(a.allclose(b, rtol=0, atol=1e-6) for a, b in pairs)
    print(f"{make.__name__} m = {m:2}  loss {ranks[-1]['loss']:.6f}", end="  ")
    print(f"gradients within 1e-6: {equal}")
    return ranks


whole = run_ranks(step_through_pipeline, gpipe(1, 1), world_size=1)
print(f"one piece     loss {whole[0]['loss']:.6f}")
for make, m in [(naive, 8), (gpipe, 4), (gpipe, 8), (gpipe, 16)]:
    compare_with_whole(make, m)

# %% [markdown]
# **The gradients are those of the unsplit model**, to within rounding in 32 bits, for
# both schedules. The weights change only when all backwards are done. So the plan
# changes when something is computed, and not what.

# %% [markdown]
# That holds if each sample is computed by itself. Below there is no pipeline: one
# process takes a batch whole and in four parts, from the same seed. By how much do the
# gradients differ?

# %%
import torch
from torch import nn


def gap_between_whole_and_parts(layer: nn.Module) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), layer, nn.Linear(64, 64), layer)
    batch, targets = torch.randn(2, 64, 64)
    gradients = []
    for parts in 1, 4:
        model.zero_grad()
        torch.manual_seed(1)  # dropout begins with the same random numbers
        for x, y in zip(batch.chunk(parts), targets.chunk(parts), strict=True):
            (nn.functional.mse_loss(model(x), y) / parts).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return (gradients[0] - gradients[1]).abs().max().item()


for layer in nn.LayerNorm(64), nn.BatchNorm1d(64), nn.Dropout(0.1):
    print(f"{type(layer).__name__:<12} {gap_between_whole_and_parts(layer):.3f}")

# %% [markdown]
# Layer norm looks at one sample at a time: no difference. **Batch norm computes its
# mean over a micro-batch instead of the batch, and dropout gives a sample other random
# numbers**: there the gradients are not those of the whole batch.

# %% [markdown]
# ## Legal, and still it hangs
#
# Messages have rules, too. Here is the beginning of a legal schedule, written the
# obvious way: compute, then `send` what the other rank needs. Rank 0 does F0, F1, B0.
# Rank 1 does F0, B0, F1. **Before you run it:** follow both with a finger. Where do
# they stop?

# %% tags=["raises-exception"]
import torch.distributed as dist

from sidebyside import device


def with_blocking_sends() -> None:
    """The messages only; the work between them is a comment."""
    message = torch.zeros(1, device=device())
    if dist.get_rank() == 0:
        dist.send(message, 1)  # I have done F0
        dist.send(message, 1)  # I have done F1
        dist.recv(message, 1)  # I need this for B0
    else:
        dist.recv(message, 0)  # I need this for F0
        dist.send(message, 0)  # I have done B0
        dist.recv(message, 0)  # I need this for F1


run_ranks(with_blocking_sends, world_size=2, timeout=2)

# %% [markdown]
# With gloo, a blocking `send` waits for its `recv`. Rank 0 sends the result of F1 while
# rank 1 sends the gradient of B0, and neither receives. The plan is legal, but running
# it adds a rule that the plan does not have.

# %% [markdown]
# So the executor starts all sends and receives of a slot together, with
# `batch_isend_irecv`, and goes on. It waits later, and only for what its next
# instruction needs. The same call is right with NCCL, where an `isend` followed by a
# `recv` can hang as well.

# %% [markdown]
# ## Exercise 2: write the pipeline
#
# GPipe's order is safe with blocking messages: nobody sends back before all have gone
# forward. Write `gpipe_step(stage, inputs, targets)`, which each rank calls with its
# own `stage`. Take all micro-batches forward, then all back. Afterwards the `grad` of
# each parameter is that of the mean loss over the batch.
#
# `inputs` and `targets` are lists of equal micro-batches. Only rank 0 may use the
# numbers in `inputs`, and only the last rank those in `targets`; its loss is
# `nn.functional.mse_loss`. Whatever enters or leaves a stage has the shape of
# `inputs[0]`. There are at least two ranks.
#
# By hand first: two ranks, two micro-batches. List what rank 0 does, its messages too.
#
# <!-- exercise: 15a-gpipe -->
#
# <details><summary>Hint 1: a question</summary>
#
# After a stage's forward, what does its rank need to keep, to call `backward` later?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# A tensor that arrives is a leaf: with `requires_grad_()` it collects the gradient that
# the rank before waits for. On all but the last rank, `output.backward(gradient)` goes
# on with a gradient that has arrived.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# First loop: `recv` unless you are rank 0, `stage(x)`, `send` unless you are last; keep
# `(x, output)`. The last rank's output is the loss, divided by the number of
# micro-batches. Second loop, in the same order: `recv` the gradient unless you are
# last, `backward`, `send` `x.grad` unless you are rank 0.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, write the pipeline: 20 minutes
#
# Let people write the two lists of rank 0 on paper before they touch the keyboard. Most
# forget one of three: `requires_grad_()`, the division by m, the second loop's order.


# %% exercise="15a-gpipe"
def gpipe_step(stage: nn.Module, inputs: list, targets: list) -> None:
    """All forwards, then all backwards: adds to the gradients of this rank's stage."""
    ### BEGIN SOLUTION
    rank, last, kept = dist.get_rank(), dist.get_world_size() - 1, []
    for x, target in zip(inputs, targets, strict=True):
        if rank > 0:
            x = torch.empty_like(x, requires_grad=True)
            dist.recv(x, rank - 1)
        output = stage(x)
        if rank < last:
            dist.send(output.detach(), rank + 1)
        else:
            output = nn.functional.mse_loss(output, target) / len(inputs)
        kept.append((x, output))
    for x, output in kept:
        gradient = torch.empty_like(output)
        if rank < last:
            dist.recv(gradient, rank + 1)
        output.backward(gradient if rank < last else None)
        if rank > 0:
            dist.send(x.grad, rank - 1)
    ### END SOLUTION


# %%
check("15a-gpipe", gpipe_step)

# %% [markdown] tags=["why"]
# <!-- why: 15a-gpipe -->
# Why it works: a message carries numbers and no graph. So each rank has a piece of the
# graph, from what entered to what left, and keeps both ends. The chain rule needs one
# tensor at each cut: the gradient of what left. By hand: F0, send, F1, send; then
# receive, B0, receive, B1. Rank 0 has nobody to send gradients to.

# %% [markdown] tags=["instructor"]
# ## A slow stage: 3 minutes
#
# Ask for the guess as a number of slots before the picture: 22 become how many? Most say
# 24 or 26, because one stage of four is slower. Let them count with the text: 2, 16, 2,
# 16, 2.
#
# When late: show the picture only.

# %% [markdown]
# ## When one stage is slower
#
# Now let stage 2 of four take two slots for each pass, in both directions; the others
# take one. With equal stages, GPipe with eight micro-batches took 22 slots.

# %% [markdown]
# Follow stage 2. When does F0 reach it? How long do its eight forwards take? After
# the last one, stage 3 does F7 and B0; only then can stage 2's backwards begin. And
# after its last backward, two stages are left.

# %%
guess("15a-slow-stage", None, "How many slots with stage 2 twice as slow?", "slots")

# %%
slow = timetable(gpipe(4, 8), forward=[1, 1, 2, 1], backward=[1, 1, 2, 1])
reveal("15a-slow-stage", timetable_length(slow), computed=True)
times = [1, 1, 2, 1]
for m in 8, 9, 10:
    print(f"m = {m:2}: {timetable_length(timetable(gpipe(4, m), times, times))} slots")
draw_schedule({"equal": timetable(gpipe(4, 8)), "one slow stage": slow})

# %% [markdown]
# It takes 2 + 16 + 2 + 16 + 2 = 38 slots. **A pipeline is as slow as its slowest
# stage**: each further micro-batch costs four slots, as much as that stage needs for
# it. So where a model is cut can matter more than the schedule.

# %% [markdown]
# ## The real thing: torch.distributed.pipelining
#
# torch comes with such schedules. In each rank:
#
# ```python
# stage = PipelineStage(module, rank, ranks, device)
# schedule = ScheduleGPipe(stage, n_microbatches=8, loss_fn=loss)
# if rank == 0:
#     schedule.step(inputs)
# elif rank == ranks - 1:
#     losses = []  # torch fills it
#     schedule.step(target=targets, losses=losses)
# else:
#     schedule.step()
# ```

# %% [markdown]
# `both_pipelines_in_turn` trains the same two stages with torch's executor and with
# ours, in alternating rounds. It is in
# [demos/pipeline/pipeline_beside_torch.py](../demos/pipeline/pipeline_beside_torch.py).

# %%
from statistics import median

from parallel_by_hand.pipeline.pipeline_beside_torch import both_pipelines_in_turn

found = run_ranks(both_pipelines_in_turn, gpipe, 8, world_size=2)[-1]
gaps = [abs(a - b) for a, b in zip(found["ours"], found["torch"], strict=True)]
print(f"{len(gaps)} steps, losses within 1e-6: {all(gap <= 1e-6 for gap in gaps)}")
ratio = median(found["ours seconds"]) / median(found["torch seconds"])
print(f"ours takes {ratio:.2f} × torch's time")

# %% [markdown]
# The losses are the same, and so is the time, more or less. For real work use torch's:
# it has more schedules, can split a model at the layers that you name, and combines with
# data parallel.

# %% [markdown] tags=["instructor"]
# ## What crosses a boundary, and the scorecard: 8 minutes
#
# Ask before the cell: do more micro-batches mean more bytes? No: more messages, each
# smaller. Then compare with the all-reduce of 10b, which moves the parameters' size.
#
# When late: give the numbers only.

# %% [markdown]
# ## What crosses a boundary
#
# At a cut, the activations of the whole batch go forward, and gradients of the same
# size come back: here 64 samples × 64 numbers × 4 bytes = 16,384 bytes each way. A
# meter in each rank has counted what it sent:

# %%
for m in 4, 16:
    ranks = run_ranks(step_through_pipeline, gpipe(4, m), world_size=4)
    print(f"m = {m:2}  bytes sent by each rank: {[rank['sent'] for rank in ranks]}")

# %% [markdown]
# Ranks in the middle send both ways. **How finely the batch is cut does not change
# the bytes.** The size of the layers inside a stage does not matter either, only what
# leaves it. So pipelines are used across slow links, between machines.

# %% [markdown]
# ## Pipeline times data parallel
#
# With more devices than stages, build the pipeline several times. If ranks 0 and 1 are
# one pipeline and ranks 2 and 3 another, each gets half of the batch. After the
# backwards, ranks that hold the same stage average their gradients, as in lesson 9.
# Lesson 16a shows the call that makes such groups, `init_device_mesh`.

# %% [markdown]
# ## A script of your own
#
# This script trains in a pipeline without this course's instruments. Its blocking
# messages cannot hang: in GPipe, all go forward before the first goes back. The cell
# runs it on one rank.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/pipeline/own_pipeline.py --save part
# ```

# %%
from demos.pipeline.own_pipeline import step_as_gpipe
from sidebyside import run_demo

show(step_as_gpipe)
run_demo("pipeline/own_pipeline.py")

# %% [markdown]
# ## If one rank dies
#
# Now rank 2 ends while the others are in their step:

# %%
import os

from sidebyside import RankFailed


def step_or_die() -> dict:
    if dist.get_rank() == 2:
        os._exit(1)  # as if its machine had lost power
    return step_through_pipeline(gpipe(4, 8))


try:
    run_ranks(step_or_die, world_size=4)
except RankFailed as problem:
    print(str(problem).splitlines()[0])

# %% [markdown]
# The others find their connection cut, or wait for a message that never comes;
# `run_ranks` stops them. The layers of rank 2 are gone. Training can continue only from
# a checkpoint.

# %% [markdown]
# ## The scorecard
#
# Measured in the step above: GPipe, four ranks, eight layers of 64 × 64, 64 samples,
# Adam.

# %%
ranks = compare_with_whole(gpipe, 8)
rows = "sent", "parameters", "gradient", "optimiser", "activations"
for row in rows:
    print(f"{row:<12}", *(f"{rank[row]:7}" for rank in ranks), " bytes")
print(f"idle share   {100 * bubble(timetable(gpipe(4, 8))):.1f} %, planned")

# %% [markdown]
# | | |
# |---|---|
# | equal to one process | loss and gradients to 10⁻⁶, if the loss is a mean over samples; not with batch norm or dropout |
# | bytes each rank sends per step | the activations at its cuts: the batch forward to the next rank, as much back to the rank before |
# | memory: parameters, gradients, optimiser | those of its own layers, $1/p$ |
# | memory: activations | of its own layers, for the whole batch |
# | idle share | $(p-1)/(m+p-1)$ with equal stages |
# | if one rank dies | its layers are gone; the others get an error or wait |

# %% [markdown]
# ## What we saw
#
# * A schedule is a list of instructions for each rank. A few rules say whether it can
#   run. More micro-batches make its bubble smaller.
# * A legal plan can still hang if the program waits where the plan does not.
# * One slow stage sets the pace.

# %% [markdown]
# To cut a network where you like, give `split_into_stages` the numbers of layers, inside
# a rank: `split_into_stages(model, schedule, [4, 1])`.
#
# In a terminal, `python demos/pipeline/plan_pipeline.py --help` draws and runs any
# schedule, and `python demos/pipeline/train_pipeline.py --help` trains a network on
# handwritten digits with it.
#
# ## Next
#
# GPipe fills the devices with work, and also with activations: those of the whole
# batch. Can we have a small bubble and keep less? Lesson 15b changes only the order.
