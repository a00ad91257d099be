# ---
# title: 19a From two cores to ten thousand GPUs: the simulator
# question: How long does a step take on ten thousand GPUs, if we have two cores to find out?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 19a. From two cores to ten thousand GPUs: the simulator
#
# Many lessons ended with a price: what a message costs, how long a pipeline waits, what a
# rank holds. Each was a few lines of arithmetic, and most were checked against a
# measurement. Here they become a *simulator*: from a model, a cluster and a strategy it
# computes what a training step would cost, before anybody has paid for a GPU.
#
# *You will be able to* work out the operations, bytes, memory and idle time of a step;
# to tell hardware utilisation from model utilisation; and to say how far such a
# prediction can be trusted, because you have checked it against your own machine.
#
# *Before this:* lessons 10b, 11b, 13a, 15b, 16b and 17b. *Time:* {reading} minutes, and 50 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Throughput: 9 minutes
#
# Write the three descriptions on the board and leave them there: model, cluster, strategy.
# Every number of the lesson comes from them.
#
# Let the class find the 72 and the 96: 24 h² forward, twice as much backward, once more
# if the forward is repeated.

# %% [markdown]
# ## Three descriptions
#
# A transformer of 22 billion parameters has the shape of the 22 B model of Korthikanti
# et al., 2022:

# %%
from parallel_by_hand.scale.training_plan import Model

model = Model(layers=48, hidden=6144, heads=64, sequence=2048, vocabulary=51_200)
print(f"{model.numbers:,} parameters")

# %% [markdown]
# It is to be trained on 64 GPUs: eight machines, called *nodes*, of eight A100 each.
# Peak, memory bandwidth and power come from the data sheet. What programs make of them
# is fitted on published trainings, as lesson 19b shows. NCCL's share of a card was
# measured by others; the rest, such as α and the price, is assumed. What is sold as 80
# GB is a little more, 85 · 10⁹ bytes.

# %%
from dataclasses import replace
from pprint import pprint

from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.training_plan import Strategy

cluster = replace(GPUS["A100"], nodes=8)
strategy = Strategy(
    data=2, tensor=8, pipeline=4, recomputation="full", fused_attention=True
)
pprint(cluster)

# %% [markdown]
# A *strategy* says how many GPUs share what. The degrees multiply: 2 replicas × 8 tensor
# ranks × 4 stages = 64 GPUs. The attention is lesson 16b's *fused* one.
#
# ## Throughput
#
# How much arithmetic is a step? A product of two matrices has two operations, a
# multiplication and an addition, for each pair of numbers. We count products only, as
# the Megatron-LM papers do, with hidden size $h$ and sequence $s$. For each product of
# forward, backward has two, one for the gradient of each factor. Torch's
# `FlopCounterMode` counts the products of a block of lessons 14 to 17:

# %%
import torch
from torch.utils.flop_counter import FlopCounterMode

from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.scale.step_arithmetic import layer_flops, step_flops
from sidebyside import show

show(layer_flops)
show(step_flops)
one_layer = Model(layers=1, hidden=64, heads=4, sequence=16, vocabulary=0)
x = torch.randn(2, 16, 64, requires_grad=True)
with FlopCounterMode(display=False) as counter:
    make_transformer_block(64, heads=4)(x).sum().backward()
print(f"torch {counter.get_total_flops():,}, ours {step_flops(one_layer, batch=2):,}")

# %% [markdown]
# **Both counts are equal.** Operations become seconds under lesson 13a's roofline. Large products reach only a share
# of the peak, `cluster.efficiency`, and those of the scores another, `attention`. Between
# the products lie norms, GELU and the like. They move what the layer keeps `passes`
# times, at the memory's bandwidth. Starting kernels takes time, too: no layer's forward
# is faster than `launch`. **The narrower the layer, the less of the peak it reaches.** At
# h = 1536 it is `launch` that decides:

# %%
from parallel_by_hand.scale.step_arithmetic import layer_seconds

for hidden, heads in ((1536, 16), (6144, 64), (24576, 256)):
    shape = replace(model, hidden=hidden, heads=heads)
    forward, backward = layer_seconds(shape, cluster, strategy)
    flops = 4 * 2048 * layer_flops(shape) / strategy.tensor  # forward is repeated
    share = flops / (forward + backward) / cluster.peak_flops
    print(f"h = {hidden:6}: {100 * share:.1f} % of the peak while computing")

# %% [markdown]
# Utilisation is the operations of a step, divided by its seconds and by the peak of all
# GPUs. There are two kinds. **Hardware utilisation** counts everything that is computed;
# **model utilisation** counts what the model needs, which excludes the forward that
# lesson 15b repeats to save memory. With full recomputation, Megatron-LM reached 163 of
# 312 TF/s, 52 % of the hardware. How large is model utilisation, for our model?

# %%
from sidebyside import guess

guess("19a-utilisation", None, "Model utilisation, if 52 % is hardware's?", "%")

# %%
from sidebyside import reveal

needed = step_flops(model, batch=16)
done = step_flops(model, batch=16, recomputation="full")
reveal("19a-utilisation", 52 * needed / done, computed=True)

# %% [markdown]
# Forward, forward again, and two for backward: three of four are needed, and a little
# more, since the logits are not repeated. Papers report either kind: ask which one it is
# before you compare.

# %% [markdown] tags=["instructor"]
# ## Links: 4 minutes
#
# Draw two nodes of eight dots. Let people colour a tensor group, a data group and the
# neighbours of one GPU in the pipeline. Which colour crosses the gap?

# %% [markdown]
# ## Links
#
# The simulator uses lesson 10b's costs: a link has an α and a bandwidth, and a collective
# is a ring. What matters is where the ring lies. The ranks of a tensor group have
# consecutive numbers, replicas are farther apart, and stages farthest. In a ring that
# leaves a node, each member there adds its own network card, as with NCCL, up to the
# speed of NVLink. Below, 16 tensor ranks use eight cards, and a data group uses one.

# %%
from parallel_by_hand.scale.step_messages import link_cost_of, link_of

wide = replace(strategy, tensor=16, pipeline=2)
for name, choice in ((" tensor 8", strategy), ("tensor 16", wide)):
    for group in ("tensor", "data", "pipeline"):
        speed = link_cost_of(group, cluster, choice).bandwidth / 1e9
        print(f"{name}: {group:<8} {link_of(group, cluster, choice):<7} {speed:g} GB/s")

# %% [markdown]
# ## Exercise 1: bytes per link
#
# Write `bytes_sent(layers, hidden, tokens, micro_batches, data, tensor, pipeline)`: the
# bytes that a GPU of the busiest stage sends in a step, as `(to_tensor, to_pipeline,
# to_data)`.
#
# | to | numbers, of 2 bytes | how often |
# |---|---|---|
# | its tensor group, a ring | `tokens * hidden` | 4 for each own layer and micro-batch |
# | each neighbouring stage | `tokens * hidden` | for each micro-batch |
# | the replicas, a ring | its gradients | once |
#
# A stage has `layers / pipeline` layers of `12 * hidden**2` parameters, split over the
# tensor ranks. A ring sends $2(N-1)/N$ of a tensor.
#
# By hand first: 4 layers, hidden 10, 5 tokens, 2 micro-batches, data 2, tensor 2,
# pipeline 4. And with pipeline 2?
# <!-- exercise: 19a-bytes -->
#
# <details><summary>Hint 1: a question</summary>
#
# To how many neighbours does a stage send, if there are one, two, or four stages?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Write down the two sizes first: the tensor between layers, and the gradients of this GPU.
# Then count how often each of them travels.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `message = 2 * tokens * hidden`; to the tensor group
# `4 * own_layers * micro_batches * 2 * (tensor - 1) / tensor * message`; to the pipeline
# `min(pipeline - 1, 2) * micro_batches * message`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, bytes per link: 15 minutes


# %% exercise="19a-bytes"
from sidebyside import forget, hint, progress, solution


def bytes_sent(layers, hidden, tokens, micro_batches, data, tensor, pipeline):
    """Bytes of one GPU in a step: to its tensor group, to the pipeline, to replicas."""
    ### BEGIN SOLUTION
    own_layers, message = layers // pipeline, 2 * tokens * hidden
    gradients = 2 * 12 * hidden**2 * own_layers / tensor
    to_tensor = 4 * own_layers * micro_batches * 2 * (tensor - 1) / tensor * message
    to_pipeline = min(pipeline - 1, 2) * micro_batches * message
    return to_tensor, to_pipeline, 2 * (data - 1) / data * gradients
    ### END SOLUTION


# %%
from sidebyside import check

check("19a-bytes", bytes_sent)

# %% [markdown] tags=["why"]
# <!-- why: 19a-bytes -->
# Why it works: messages inside the model grow with the tokens, and happen for every
# micro-batch; gradients depend on the parameters alone, and travel once. So the strategy
# decides which of the two a GPU sends.
#
# By hand: a message is 100 bytes. The tensor group gets 4 · 1 layer · 2 micro-batches ·
# 100 = 800. A stage in the middle sends 2 · 2 · 100 = 400; with two stages it would be
# 200, since each has one neighbour. The gradients are 1,200 bytes, and a ring of two
# sends as many.

# %% [markdown]
# For the 22 B model: the batch has 16 sequences, so each replica has 8 micro-batches of
# one. Full recomputation repeats the two all-reduces of forward: six for each layer. How
# many bytes does a GPU send to its tensor group for each byte to its replicas?

# %%
guess("19a-tensor", None, "Bytes to the tensor group, divided by those to data?", "×")

# %%
from parallel_by_hand.scale.simulated_step import simulate_step

step = simulate_step(model, cluster, strategy, batch=16)
print({group: f"{size:,.0f}" for group, size in step.sent.items()})
reveal("19a-tensor", step.sent["tensor"] / step.sent["data"], computed=True)

# %% [markdown]
# **Here tensor parallel sends most, so it gets the fastest link**: its group stays within
# a node. These are the bytes of the first stage, which sends most. It has one neighbour,
# but also the word table, whose gradients go to the replicas and to the last stage.

# %% [markdown] tags=["instructor"]
# ## The pipeline: 6 minutes
#
# The formula assumes equal stages and messages that cost nothing. Ask what a slow last
# stage does to everybody else: it sets the pace (lesson 15a).

# %% [markdown]
# ## The pipeline
#
# One replica is enough: the other does the same at the same time. Each stage has a time
# for forward and one for backward. Lesson 15's timetable plays the
# schedule with these times, beside the formula for equal stages. Here a stage goes on
# while its message travels; in Megatron-LM's 1F1B it waits.

# %%
from parallel_by_hand.pipeline.schedule_rules import bubble

for words in (51_200, 512_000):
    one = simulate_step(replace(model, vocabulary=words), cluster, strategy, batch=16)
    stages = [s.forward.total + s.backward.total for s in one.stages]
    longest = f"longest stage {max(stages) / min(stages):.2f} times the shortest"
    print(f"{words:,} words: {longest}", end=", ")
    print(f"bubble {bubble(one.slots):.3f}, formula {(4 - 1) / (8 + 4 - 1):.3f}")

# %% [markdown]
# **Here, where stages are unequal, the bubble is larger than the formula says.** The last
# stage computes the logits as well, and all others wait for it. The timetable shows that,
# for any schedule. Here are two schedules, as the links between nodes get slower:

# %%
from parallel_by_hand.scale.training_plan import Link

for bandwidth in (22.5e9, 5e9, 1e9):
    linked = replace(cluster, link_between=Link(10e-6, bandwidth))
    print(f"{bandwidth / 1e9:4.1f} GB/s: bubble", end=" ")
    for name in ("gpipe", "1f1b"):
        plan = replace(strategy, schedule=name)
        print(f"{name} {simulate_step(model, linked, plan, 16).bubble:.2f}", end=" ")
    print()

# %% [markdown]
# **Here 1F1B's bubble is larger than GPipe's over slow links**: its stages take turns, so
# each waits again and again for an answer. With GPipe all messages go one way first, and
# most of them travel while stages work.

# %% [markdown]
# ## Exercise 2: messages that take their time
#
# Write `pipeline_seconds(schedule, forward, backward, travel)`: when are all ranks done,
# if messages arrive `travel` seconds later and keep no rank busy?
#
# * `schedule` is lesson 15's: each rank's list of instructions, such as `"F0"` or
#   `"B12"`, done in this order, each as early as possible.
# * On rank `r`, F takes `forward[r]` seconds, B `backward[r]`.
# * An F waits for the message of the same F on the rank before, a B for the same B on the
#   rank after.
#
# By hand first: `[["F0", "F1", "B0", "B1"]] * 2`; forward 1, backward 2, travel 1. When
# does rank 0 end?
# <!-- exercise: 19a-pipeline -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which two times decide when an instruction can start? Take the later one.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Keep when each (rank, instruction) was done, and when each rank is free again. Go
# through the ranks again and again; let each do its next instruction if what it needs
# is done already.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `sender = rank - 1 if work[0] == "F" else rank + 1`. If there is such a rank and
# `(sender, work)` is not done yet, this rank has to wait for a later turn. Otherwise
# `free[rank] = done[rank, work] = max(free[rank], done[sender, work] + travel) + seconds`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, messages that take their time: 20 minutes


# %% exercise="19a-pipeline"
def pipeline_seconds(schedule, forward, backward, travel) -> float:
    """When the last instruction ends, if messages arrive `travel` seconds later."""
    ### BEGIN SOLUTION
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
                    arrived = done[sender, work] + travel
                seconds = (forward if work[0] == "F" else backward)[rank]
                free[rank] = done[rank, work] = max(free[rank], arrived) + seconds
                place[rank] += 1
    return max(free)
    ### END SOLUTION


# %%
check("19a-pipeline", pipeline_seconds)

# %% [markdown] tags=["why"]
# <!-- why: 19a-pipeline -->
# Why it works: an instruction starts as soon as its rank is free and its message is there,
# whichever is later. The order in which the loop visits the ranks does not matter, since
# each start is computed from times that no longer change.
#
# By hand: rank 0 does F0 and F1 until 2. F0 reaches rank 1 at 2. Rank 1 does F0 and F1
# until 4, B0 until 6, B1 until 8. B0's gradient reaches rank 0 at 7; rank 0 ends B0 at
# 9, B1 at 11. Without travel it would be 9. Travel is paid twice, not once for each
# message: later ones arrive while the rank is busy.

# %% [markdown] tags=["instructor"]
# ## Memory: 4 minutes
#
# Ask which stage is the fullest, before the figure. 1F1B's first stage runs ahead
# (15b). Then ask what recomputation buys, and who pays for it: the table says both.

# %% [markdown]
# ## Memory
#
# Lesson 17's ledger gives the state of each stage, lesson 16b's formula the activations
# of a layer, and lesson 15's schedule the number of micro-batches whose activations a
# stage keeps. Here is *plain* attention, which keeps all scores, and nothing is computed
# again. Hatched is what CUDA and NCCL take for themselves:

# %%
from parallel_by_hand.scale.step_tables import draw_memory

keep_all = replace(strategy, recomputation="none", fused_attention=False)
draw_memory(simulate_step(model, cluster, keep_all, batch=16))

# %% [markdown]
# The first stage runs ahead by three micro-batches, so it is the fullest, and its
# activations count most. Lesson 16b's sequence parallel splits what tensor ranks keep
# whole. *Selective recomputation* repeats the scores and the mixing of the values, full
# recomputation the whole layer. Fused attention keeps no scores. What does each cost?


# %%
def in_short(step) -> str:
    kept = f"{step.memory.activations / 1e9:4.1f} GB kept"
    shares = step.hardware_utilisation, step.model_utilisation
    return "{}, {:.1%} hardware, {:.1%} model".format(kept, *shares)


for name in ("plain none", "plain selective", "plain full", "fused full", "fused none"):
    attention, again = name.split()
    now = replace(strategy, recomputation=again, fused_attention=attention == "fused")
    print(f"{name:<15}", in_short(simulate_step(model, cluster, now, batch=16)))
split = replace(now, sequence_parallel=True)
print("  and split    ", in_short(simulate_step(model, cluster, split, batch=16)))

# %% [markdown]
# **Here, with either attention, the recomputation that keeps the hardware busiest is
# the slowest.** Before the split, full recomputation has the highest hardware utilisation
# and, with either attention, the lowest model utilisation. For one model, batch and
# number of GPUs, model utilisation ranks strategies by their speed.
#
# **Fused attention is faster than selective recomputation.** It keeps less mostly because
# our fused models, like today's, have no dropout, and so no masks.

# %% [markdown] tags=["instructor"]
# ## Overlap: 5 minutes
#
# Two people: one computes layers, one carries letters, one letter at a time. Ask when the
# second person ends if letters are slow, and if they are fast.

# %% [markdown]
# ## Overlap
#
# So far the messages of data parallel come after backward. Lesson 11b sends each
# gradient as soon as it is ready. Write the rule yourself.

# %% [markdown]
# ## Exercise 3: add overlap
#
# Write `backward_with_overlap(computing, sending)`: the seconds from the start of
# backward until all messages have arrived. `computing[i]` is the time of the $i$-th layer
# that backward computes. When it ends, its gradients are ready, and their message takes
# `sending[i]`. The link carries one message at a time, in this order, while computing
# goes on.
#
# By hand first: layers of 2, 1 and 1 seconds, messages of 1, 3 and 1.
# <!-- exercise: 19a-overlap -->
#
# <details><summary>Hint 1: a question</summary>
#
# What two things must have happened before the second message can leave?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Two clocks go through the layers: one for computing, one for the link.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In the loop: `ready += seconds`. The message starts at the later of `ready` and `free`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, add overlap: 10 minutes


# %% exercise="19a-overlap"
def backward_with_overlap(computing, sending) -> float:
    """Seconds until backward and all its messages are done."""
    ### BEGIN SOLUTION
    ready = free = 0
    for seconds, message in zip(computing, sending, strict=True):
        ready += seconds
        free = max(free, ready) + message
    return free
    ### END SOLUTION


# %%
check("19a-overlap", backward_with_overlap)

# %% [markdown] tags=["why"]
# <!-- why: 19a-overlap -->
# Why it works: a message leaves when its gradients are ready and the link is free. The
# last message is not sent before the last layer is done, so the link's clock ends last.
#
# By hand: gradients are ready at 2, 3 and 4. The link is busy from 2 to 3, from 3 to 6
# and from 6 to 7. So 7 seconds, where one after the other would take 9.

# %% [markdown]
# Take 12 equal layers, and messages that take as long as the layers. By how many percent
# do they lengthen backward?

# %%
guess("19a-overlap", None, "How much longer than backward alone?", "%")

# %%
from parallel_by_hand.scale.stage_times import side_by_side

reveal("19a-overlap", 100 * (side_by_side(1.0, 1.0, units=12) - 1), computed=True)

# %% [markdown]
# One message of twelve sticks out, and all others are hidden. Below, a model of 1.7
# billion parameters trains on two nodes joined by slow links, each GPU a replica:

# %%
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from sidebyside import draw_timelines

small = Model(layers=24, hidden=2304, heads=24, sequence=2048, vocabulary=51_200)
link = Link(20e-6, 2e9)
slow = replace(GPUS["A100"], nodes=2, link_between=link, contention=0.0)
plan = Strategy(data=16, micro_batch=4, fused_attention=True)
plans = plan, replace(plan, overlap=True)
steps = [simulate_step(small, slow, plan, batch=64) for plan in plans]
names = "after backward", "overlapped"
real = replace(slow, contention=GPUS["A100"].contention)
print(f"with contention {simulate_step(small, real, plans[1], batch=64).seconds:.2f} s")
drawn = dict(zip(names, map(timeline_of_step, steps), strict=True))
draw_timelines(drawn, stamp="simulated")

# %% [markdown]
# **Here messages take longer than backward, so overlap can hide no more than backward,
# less one layer of it.** The step takes 0.60 s instead of 0.88 s. With faster links, or
# more work between two messages, overlap would hide a larger part of them.
#
# But hiding is not free. The link's kernels take multiprocessors and memory bandwidth
# from the products. Fitted on published trainings, mostly with sharded parameters, hidden
# messages slow computing down by four fifths of their time, our `contention`. The line
# above the figure is the step with it. **If that held on this link, overlap would save
# less than a fifth of what it could.**

# %% [markdown] tags=["instructor"]
# ## Assembled: 5 minutes
#
# Read the table line by line, and ask for each number which lesson it comes from.
#
# When late: skip the 10,240 GPUs.

# %% [markdown]
# ## Assembled
#
# `simulate_step` does all of this. Cost and energy are the step's seconds times the price
# and the power of all GPUs.
#
# *Idle* is all time without computing: messages, and waiting for other stages. The *bubble*
# is lesson 15's: waiting for other stages as a share of the pipeline's time, which ends
# before the gradients are exchanged.
#
# The figure shows 8 micro-batches in four stages. Each link shows the gradients' messages
# only. In a pale bar, "wait", a stage waits for its own messages; in a grey gap, for
# another stage.

# %%
from parallel_by_hand.scale.step_tables import print_step

print_step(step)
timeline_of_step(step).plot()

# %% [markdown]
# The demo does this for any model; with `--trace step.json` it writes a Chrome trace.
# Here are 145.6 billion parameters on 10,240 GPUs:

# %%
from sidebyside import run_demo

shape = "--layers 80 --hidden 12288 --heads 96 --batch 3072 --micro-batch 1"
split = "--data 128 --tensor 8 --pipeline 10 --overlap"
run_demo("scale/simulate.py", *shape.split(), *split.split())

# %% [markdown]
# With the same batch, more replicas leave fewer micro-batches for each: here 24, for ten
# stages, and more than a quarter of the step is waiting.

# %% [markdown] tags=["instructor"]
# ## Checked against this machine: 10 minutes
#
# Before the cell: which of the numbers must be exact, and which may be wrong? Bytes are
# counted, so they have no excuse. Let the class look for reasons for the largest miss.
#
# A busy machine makes the misses large, in both directions.

# %% [markdown]
# ## Checked against this machine
#
# Are the predictions right? Two ranks of this machine are a small cluster. `calibrate`
# measures its constants: lesson 13a's operations per second and memory bandwidth, lesson
# 10b's α and bandwidth of an all-reduce, and the efficiency, from one step of a small
# model that sends nothing. It is not the 0.78 of large products: it absorbs all that the
# simulator leaves out.
#
# Then we predict steps of another width, with more layers, under four strategies. The
# meter counts the bytes. *Miss* is the prediction over the measurement, minus 1:

# %%
from parallel_by_hand.scale.calibration import calibrate, print_constants
from parallel_by_hand.scale.held_to_this_machine import hold_to_this_machine, print_held

here = calibrate()
print_constants(here)
unseen = Model(layers=4, hidden=192, heads=4, sequence=32, vocabulary=0)
print_held(hold_to_this_machine(here, unseen, batch=16))

# %% [markdown]
# **Every rank sends exactly the bytes that were predicted**, on a busy machine as well. The
# seconds are another matter. In our quiet runs three strategies missed by less than 15 %,
# and tensor parallel by up to half. On a busy machine all four may: then the seconds say
# little, and the bytes are what counts.
#
# Products of other sizes have another efficiency, and the ranks of a tensor group wait for
# each other in every layer. A prediction of time needs a measurement beside it.

# %% [markdown]
# A planner needs less: which strategy is faster? We compare the order of three strategies
# for two models, on lesson 10b's paced link with 2 MB/s, which sleeps:

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.scale.held_to_this_machine import fastest_first

paced = Link(0.002, 2e6)
for layers, hidden, sequence, batch in ((2, 96, 16, 4), (4, 64, 64, 8)):
    shape = Model(layers, hidden, heads=4, sequence=sequence, vocabulary=0)
    ways = "data", "tensor", "pipeline"
    held = hold_to_this_machine(here, shape, batch, ways, rounds=2, slow=paced)
    print(f"width {hidden}, {batch * sequence} tokens")
    print("  predicted:", ", ".join(fastest_first(held, measured=False)))
    print("  measured: ", ", ".join(fastest_first(held, measured=True)))

# %% [markdown]
# With few tokens and wide layers, tensor parallel sends less than data parallel; with many
# tokens and narrow layers it sends more. The pipeline sends least. The predicted and the
# measured order agree both times: **on this link the messages decide.**

# %% [markdown] tags=["instructor"]
# ## The scorecard: 2 minutes
#
# Ask which lines the simulator cannot fill: whether the training is the same one, and what
# happens when a rank dies.

# %% [markdown]
# **The scorecard** of a step, as the simulator predicts it:
#
# | | |
# |---|---|
# | equal to one process | it does not know: lessons 11 to 17 tested that |
# | bytes each rank sends per step | exact, on two ranks, for the four strategies above |
# | memory: parameters, gradients, optimiser | lesson 17's ledger, exact; activations by formula |
# | idle share | 15's timetable, and messages that nothing hides |
# | seconds | from one calibrated efficiency: expect misses of tens of percent on busy cores |
# | if one rank dies | not simulated here: lesson 18's clock, and 19b's goodput |
#
# The simulator leaves out much: rings that disturb each other, slow ranks, loading data,
# kernels that start late, fragmented memory.
#
# Others do the same, in more detail:
#
# | | |
# |---|---|
# | torch | `torch.utils.flop_counter.FlopCounterMode` counts products; 17b's `fake` backend poses as one rank of a thousand |
# | Calculon | formulas for one step of a language model on a described system, and a search |
# | ASTRA-sim | simulates the collectives on a described network, from recorded traces |
# | vTrain | replays profiled kernels of one GPU |
#
# ## What we saw
#
# * Model utilisation leaves out what is computed twice: 39 % where hardware says 52 %.
# * On two ranks, the predicted bytes are the counted ones. Time is a prediction with a miss.
#
# ## Next
#
# The misses were those of two cores. Lesson 19b checks the same simulator against
# published tables of thousands of GPUs, and lets it search: which strategy for this
# model and this cluster?
