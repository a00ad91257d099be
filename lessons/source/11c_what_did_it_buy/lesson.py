# ---
# title: 11c What did it buy?
# question: How many more samples per second do two ranks train, and what takes the rest?
# needs: two CPU cores, no GPU
# minutes: 75
# ---

# %% [markdown]
# # 11c. What did it buy?
#
# Lesson 11b asked: is it a faster way? We count samples per second on one rank and on
# two, for a network that should gain and for one that should not. We predict a step
# from its parts, and look for what is missing with torch's profiler.
#
# *You will be able to* time a step, predict what more ranks would bring, read a trace,
# and tell from it what slows a training down.
#
# *Before this:* lessons 10b and 11b. *Time:* {reading} minutes to read, 35 for the
# exercises. *Needs:* two CPU cores, no GPU. With two GPUs the same cells use them; this
# is untested.

# %% [markdown] tags=["instructor"]
# ## Samples per second: 12 minutes
#
# Ask for a guess for each network by show of hands, and write the ratio of operations
# to bytes beside it: that ratio decides. On a busy machine run the cell twice.
#
# Expected: "two ranks, twice as fast", for both. When late: show the picture only.

# %% [markdown]
# ## Two networks
#
# Both learn the digits. The first is made of convolutions: few parameters, nearly all of
# them used at each of 64 pixels. The second is deep: twelve linear layers, each
# parameter used once for a sample. A rank gets half of each batch and sends all
# gradients. How much does it compute for each byte of them?

# %%
from parallel_by_hand.ddp.step_speed import NETWORKS, operations_per_byte
from sidebyside import machine

for name, (make, batch) in NETWORKS.items():
    gradients = sum(p.nbytes for p in make().parameters())
    print(f"{name:<12} batches of {batch}, {gradients:,} bytes of gradients, ", end="")
    print(f"{operations_per_byte(name):,.0f} operations per byte")
print(f"this machine: {machine().usable_cores} × one core")

# %% [markdown]
# **A rank of the convolutions computes five hundred times as much for each byte as one
# of the deep network.** With one core nothing below can be faster than one process: two
# ranks would take turns.

# %% [markdown]
# ## Time it right
#
# * **Warm up.** The first step allocates memory and loads code: we drop it.
# * **Synchronise.** A GPU's call returns before the work is done. `now` notes a moment
#   that the GPU itself passes; on the CPU it reads the clock.
# * **Take turns and medians.** Other programs come and go. If all ways take turns, a
#   busy moment hits all of them.
#
# Four ways: one process with one thread, one with two threads, two ranks that split the
# batch, and two ranks with a whole batch each. A rank has one thread.

# %%
from parallel_by_hand.ddp.step_speed import now, seconds_between
from sidebyside import guess, show

show(now)
show(seconds_between)
guess(
    "11c-deep",
    None,
    "The deep network, its batch split over two ranks: how many times as fast?",
    "×",
)

# %%
from statistics import median

from parallel_by_hand.ddp.step_speed import samples_per_second
from sidebyside import reveal, run_ranks

speeds = {name: run_ranks(samples_per_second, name)[0] for name in NETWORKS}
for name, found in speeds.items():
    one = median(found["1 process"])
    for way, rounds in found.items():
        speed = median(rounds)
        print(f"{name:<12} {way:<22} {speed:8,.0f} samples/s  {speed / one:.2f} ×")
split = {name: found["2 ranks, batch split"] for name, found in speeds.items()}
reveal("11c-deep", median(split["deep"]) / median(speeds["deep"]["1 process"]))

# %% [markdown]
# Strong scaling keeps the batch (lesson 1): each of two ranks gets half. Weak scaling
# grows it: each rank keeps a whole one. The dashed line leads to what two busy
# processes get done on this machine: its capacity, as in lesson 0, measured just now.

# %%
from lessons.props.what_did_it_buy import draw_scaling

draw_scaling(speeds, machine().capacity(2))

# %% [markdown]
# On two quiet cores we expect a gain for the convolutions, and a loss for the deep
# network, whose messages are as long with half the samples. A batch that grows gives a
# rank more to compute for the same messages, but is another training, with fewer and
# larger steps. Threads meet after each operation that they share, so a busy machine
# can slow them down most.

# %% [markdown]
# ### And the learning rate?
#
# More ranks with a whole batch each mean a batch that is $k$ times as large. For SGD
# the rate grows $k$ times, too (lesson 8, Goyal et al. 2017), for Adam and AdamW
# usually $\sqrt k$ times (Malladi et al. 2022, who change Adam's β and ε as well). Why?
# Below the noise scale a gradient is mostly noise, and $k$ times the batch divides the
# noise by $\sqrt k$. Adam divides by the gradient's typical size, so the true gradient's
# part of its step has grown $\sqrt k$ times already. The rate adds the other $\sqrt k$.

# %% [markdown] tags=["instructor"]
# ## The step from its parts: 10 minutes
#
# Draw backward as a bar with marks where gradients are ready, and let people hang the
# messages below it. Then do it by number: that is exercise 1.

# %% [markdown]
# ## A step has four parts
#
# Forward, backward, update, and what is left of the messages. The first three can be
# measured without sending: `measure_parts` lets both ranks compute at once, and each
# hook only notes the moment at which its gradient is ready. For the messages we fit
# lesson 10b's line to whole all-reduces: α + β · bytes.

# %%
from parallel_by_hand.collectives.link_cost import fit_link_cost, typical_seconds
from parallel_by_hand.ddp.step_speed import measure_parts, time_all_reduces

parts = {name: run_ranks(measure_parts, name)[0] for name in NETWORKS}
for name, (forward, ready, sizes, update) in parts.items():
    print(f"{name}: forward {1e3 * forward:.1f} ms, backward {1e3 * ready[-1]:.1f} ms,")
    print(f"  {len(sizes)} gradients, update {1e3 * update:.1f} ms")
timed = run_ranks(time_all_reduces, [4**n for n in range(6, 13)])[0]
alpha, beta = fit_link_cost(list(timed), [typical_seconds(t) for t in timed.values()])
print(f"an all-reduce: {1e3 * alpha:.2f} ms, and {1e-6 / beta:.0f} MB/s")

# %% [markdown]
# ## Exercise 1: what is left to wait for
#
# Write `wait_for_messages(ready, travel)`. Both lists have a number for each message,
# in the order of sending. Message i can leave when its gradient is ready, `ready[i]`
# after backward began, and then needs the wire for `travel[i]`. The wire carries one
# message at a time. Return how long after `ready[-1]`, the end of backward, the last
# message has arrived.
#
# *By hand first:* lesson 11b's four layers and a slow cable: gradients are ready at 30,
# 60, 90 and 120 ms, and each message takes 60 ms.
#
# <!-- exercise: 11c-wait -->
# <details><summary>Hint 1: a question</summary>
#
# Two things must be true before a message can leave. Which?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Go through the messages once, and keep one number: when the wire is free again.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# A message leaves at `max(free, ready[i])`; `travel[i]` later the wire is free. At the
# end subtract `ready[-1]`.
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the wait: 10 minutes
#
# Expected: the rule of thumb "messages minus backward", which lets the wire start at 0.


# %% exercise="11c-wait"
from sidebyside import forget, hint, progress, solution


def wait_for_messages(ready: list[float], travel: list[float]) -> float:
    """The time from the end of backward until the last message has arrived."""
    ### BEGIN SOLUTION
    free = 0
    for leaves, takes in zip(ready, travel, strict=True):
        free = max(free, leaves) + takes
    return free - ready[-1]
    ### END SOLUTION


# %%
from sidebyside import check

check("11c-wait", wait_for_messages)

# %% [markdown] tags=["why"]
# <!-- why: 11c-wait -->
# Why it works: the wire is a queue with one server. It starts a message as soon as the
# message is there and the one before has arrived. By hand: the
# messages arrive at 90, 150, 210 and 270 ms, so 150 ms are left after backward. With
# 40 ms of forward the step takes 310 ms, which is what the demo of 11b shows.

# %% [markdown]
# ## Predicted and measured
#
# What overlap does not hide is **exposed**: your function computes it. Our step has
# buckets of 1 MiB. One is enough for the convolutions, and nothing can hide it.
# `predict` adds up the parts: once with every message exposed, and once with overlap.

# %%
for name, found in parts.items():
    plain, overlapped = found.in_buckets(2**20).predict(alpha, beta)
    measured = NETWORKS[name][1] / median(split[name])
    miss = 100 * (measured / overlapped - 1)
    print(f"{name:<12} all exposed {1e3 * plain:.1f} ms, ", end="")
    print(f"with overlap {1e3 * overlapped:.1f} ms, ", end="")
    print(f"measured {1e3 * measured:.1f} ms: {miss:+.0f} %")

# %% [markdown]
# The percentage is the miss of the prediction with overlap. What does it leave out?
# With gloo, the cores that compute also move and add up messages, so overlap hides
# waiting and not that work. Two messages can travel at once. Ranks wait for each other,
# most of all on a busy machine. With NCCL, messages take a small part of a GPU. Lesson
# 19b prints its misses for published runs.

# %% [markdown]
# ## Choose the bucket
#
# Small buckets pay α often. One bucket for all cannot leave before backward ends. The
# parts predict what each limit would cost, and then we try all four:

# %%
from parallel_by_hand.ddp.step_speed import time_buckets

limits = [100_000, 2_000_000, 5_000_000, 100_000_000]
tried = run_ranks(time_buckets, "deep", limits)[0]
costs = {}
for limit in limits:
    bucketed = parts["deep"].in_buckets(limit)
    costs[limit] = bucketed.predict(alpha, beta)[1]
    print(f"messages: {len(bucketed.sizes):2}", end="  ")
    print(f"predicted {1e3 * costs[limit]:.1f} ms", end="  ")
    print(f"measured {1e3 * median(tried[limit]):.1f} ms")
print(f"the prediction chooses buckets of {min(costs, key=costs.get) / 1e6:.1f} MB")

# %% [markdown]
# A prediction needs no trial for each size, and its parts say why one is better. Does
# the measured order agree? With gloo on two cores we saw the opposite: the fewer
# messages, the faster. Each message interrupts the cores that compute, and overlap
# hides little there. A prediction that misses the order has left out a cause. Where
# something else carries the bytes, as on 11b's paced link, overlap does hide them.

# %% [markdown] tags=["instructor"]
# ## Seven billion parameters: 6 minutes
#
# Fill in one row at the board, with units. Expected guess: 280 ms, 14 GB over one card
# without the factor of the ring, by people who forget that a machine has eight.
#
# When late: ask only which of the two numbers grows with the batch.

# %% [markdown]
# ## Seven billion parameters
#
# The same arithmetic for a size that we cannot run: computed, not measured.
# Gradients in bf16 are 14 GB. A ring carries 2 (N − 1)/N times that (lesson 10b), and:
#
# * an H100 does 4 · 10¹⁴ operations per second, about what Llama 3 405B reached
#   (Grattafiori et al. 2024, table 4). Backward needs four per parameter and token;
# * NVLink in a machine of eight carries 450 GB/s each way (half of the 900 on NVIDIA's
#   data sheet);
# * a network card carries 400 Gb/s, so 50 GB/s. With one for each GPU, eight rings
#   share the gradients, and each leaves a machine by its own card.

# %%
from parallel_by_hand.ddp.step_speed import predicted_wait

guess("11c-h100", None, "64 GPUs, a card for each: how long is the all-reduce?", "ms")


def step_of_7b(ranks: int, bandwidth: float, tokens: int, layers: int = 32) -> list:
    """Milliseconds of all-reduce, of backward, and of what overlap leaves exposed."""
    sending = 2 * (ranks - 1) / ranks * 14e9 / bandwidth
    backward = 4 * 7e9 * tokens / 4e14
    ready = [backward * layer / layers for layer in range(1, layers + 1)]
    wait = predicted_wait(ready, [sending / layers] * layers)
    return [1e3 * seconds for seconds in (sending, backward, wait)]


# %%
wires = {"8 GPUs, NVLink": (8, 450e9), "64 GPUs, a card for each": (64, 400e9)}
wires["64 GPUs, a card per machine"] = (64, 50e9)
reveal(
    "11c-h100", step_of_7b(*wires["64 GPUs, a card for each"], 8192)[0], computed=True
)
print(f"{'in milliseconds':<28} tokens  all-reduce  backward  exposed")
for where, wire in wires.items():
    for tokens in 8192, 1024:
        sending, backward, wait = step_of_7b(*wire, tokens)
        print(f"{where:<28} {tokens:6} {sending:11.0f} {backward:9.0f} {wait:8.0f}")

# %% [markdown]
# `predicted_wait` is your function. **With 8,192 tokens for each GPU, backward hides
# all messages but the last, even through one card. With 1,024, one card leaves
# seven eighths exposed.** The computing for each byte decides, as in our two networks.
# Latency is left out, and memory: with Adam's state 7 billion parameters take 112 GB,
# more than an H100 has. Lesson 17a shards them.

# %% [markdown] tags=["instructor"]
# ## The profiler: 12 minutes
#
# Save a trace with the demo and open it in Perfetto on the projector: zoom into one
# layer of backward, then look for the messages. They are on threads of their own, and
# our spans have a row of their own.

# %% [markdown]
# ## The profiler
#
# Our timeline shows what we marked. A **profiler** notes every operation, with its
# thread, in a trace. Here are torch's and our timeline of the same step; the phases are
# marked in both:
#
# ```python
# with profile(activities=[ProfilerActivity.CPU]) as profiler, Timeline() as timeline:
#     with record_function("forward"), span("forward"):
#         loss = cross_entropy(model(images), labels)
#     ...
# profiler.export_chrome_trace("trace.json")
# ```
#
# Two steps of the deep network, with buckets of 2 MiB, send twelve messages. How many
# of them does the trace show on the thread that computes?

# %%
guess("11c-thread", None, "How many of the twelve are on the thread that computes?")

# %%
from parallel_by_hand.ddp.sick_traces import trace_of_program
from parallel_by_hand.ddp.step_traces import events_of_ranks

well = events_of_ranks(run_ranks(trace_of_program))
computing = {event.thread for event in well[0] if event.kind == "compute"}
messages = [event for event in well[0] if event.kind == "message"]
reveal("11c-thread", sum(event.thread in computing for event in messages))
names = "aten::linear", "aten::addmm", "aten::mm", "c10d::allreduce_", "gloo:all_reduce"
for name in names:
    found = [event for event in well[0] if event.name == name]
    together = sum(event.end - event.start for event in found)
    print(f"{name:<17} {len(found)} events, together {together:.1f} ms")

# %% [markdown]
# **The call that starts a message is not the message.** `c10d::allreduce_` hands the
# bucket over, on the thread that computes. The message, `gloo:all_reduce`, is on one of
# gloo's two threads, from the moment when that thread is free for it until it has
# arrived. So it contains the waiting for the other rank. `aten::` events are computing,
# and may lie inside each other: `aten::linear` contains `aten::addmm`. The products of
# backward are `aten::mm`. `profiler.key_averages().table()` is such a table of all names.
#
# We draw each rank's spans, below them what it computed, in the same colours, and its
# messages:

# %%
from parallel_by_hand.ddp.step_traces import timeline_of_traces
from sidebyside import draw_timelines

for kind in ("span", "record_function"):
    backward = [e for e in well[0] if e.kind == kind and e.name == "backward"]
    inside = [m for m in messages for b in backward if b.start < m.start < b.end]
    print(f"{kind}: backward {len(backward)} times", end=", ")
    print(f"{len(inside)} messages begin inside", end=", ")
    print(f"the first ends after {min(b.end for b in backward):.2f} ms")
draw_timelines({"two steps": timeline_of_traces(well, spans=True)})

# %% [markdown]
# `record_function` marks the same spans in the trace as our `span`: backward, without a
# gap. **Only the trace shows the twelve messages inside backward, on other threads**,
# and when nothing is computed. A message is hidden while its rank computes above it,
# and exposed while its rank is grey. A profiler costs time: take speeds from a step
# without one, and causes from a trace.

# %% [markdown]
# ## Exercise 2: what is exposed
#
# Write `exposed_time(events)`: for how many milliseconds does at least one message
# travel while nothing is computed? Each event of a rank has a `kind`, a `start` and an
# `end`. Those of the kind `"message"` travel and those of the kind `"compute"` compute;
# others do not matter. Events lie inside others, or overlap on several threads, in any
# order.
#
# *By hand first:* computing from 0 to 10 ms, inside it from 2 to 4, and again from 16
# to 17; messages from 8 to 14 and from 12 to 20.
#
# <!-- exercise: 11c-exposed -->
# <details><summary>Hint 1: a question</summary>
#
# Which moments count twice if you add up the lengths of all events of one kind?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Between two neighbouring starts or ends nothing changes. Cut the time axis there, and
# ask of each piece whether a message covers it, and whether computing does.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `times = sorted({...})` of all starts and ends. For each pair of neighbours `a`, `b`
# collect the kinds of the events with `start <= a` and `b <= end`; add `b - a` if
# "message" is among them and "compute" is not.
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, exposed: 15 minutes
#
# Expected: totals subtracted from each other, and `aten::linear` and `aten::addmm` both
# subtracted.


# %% exercise="11c-exposed"
def exposed_time(events: list) -> float:
    """Milliseconds in which messages travel and nothing is computed."""
    ### BEGIN SOLUTION
    from itertools import pairwise

    times = sorted({time for event in events for time in (event.start, event.end)})
    total = 0.0
    for a, b in pairwise(times):
        kinds = {event.kind for event in events if event.start <= a and b <= event.end}
        if "message" in kinds and "compute" not in kinds:
            total += b - a
    return total
    ### END SOLUTION


# %%
check("11c-exposed", exposed_time)

# %% [markdown] tags=["why"]
# <!-- why: 11c-exposed -->
# Why it works: each piece of time counts once, however many events cover it. By hand:
# messages cover 8 to 20, computing covers 8 to 10 and 16 to 17 of that, so 12 − 3 = 9
# ms are exposed.

# %% [markdown]
# How much of our two steps is exposed? The library's `exposed` is the same function.

# %%
from parallel_by_hand.ddp.step_traces import exposed

for rank, events in enumerate(well):
    whole = max(e.end for e in events) - min(e.start for e in events)
    print(f"rank {rank}: {exposed(events):.1f} ms of {whole:.1f} ms are exposed")

# %% [markdown] tags=["instructor"]
# ## Exercise 3, four traces: 10 minutes
#
# In pairs, one pair for each trace; each says what is missing in its picture, compared
# with the healthy one. On a busy machine let them run the cell again.

# %% [markdown]
# ## Exercise 3: four sick traces
#
# Four programs train the deep network, each with one illness:
#
# * `"straggler"`: a **straggler** is a rank that is late at every step;
# * `"one bucket"` for all gradients;
# * `"waits for each message"` before backward goes on;
# * `"starving loader"`: the next batch comes too late.
#
# Here are two steps of each. A late rank or batch is late by a nap of 60 ms.

# %%
from parallel_by_hand.ddp.sick_traces import trace_patients

ranks = run_ranks(trace_patients)
sick = {letter: events_of_ranks([rank[letter] for rank in ranks]) for letter in "ABCD"}
pictures = {letter: timeline_of_traces(both) for letter, both in sick.items()}
draw_timelines(pictures, stamp="simulated")

# %% [markdown]
# Name them: `diagnoses` is a dict with one of the four names for each letter.
#
# *By hand first:* how many messages has a step in each trace?
#
# <!-- exercise: 11c-traces -->
# <details><summary>Hint 1: a question</summary>
#
# In which traces does the rank compute while messages travel?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# No message ends before the later rank has joined it. Compare the lengths of the same
# message on both ranks.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# Long first messages on one rank only: the other is late. Gaps without messages on both
# ranks: no data. One message per step: one bucket.
# </details>

# %% exercise="11c-traces"
diagnoses = ...
### BEGIN SOLUTION
diagnoses = {
    "A": "straggler",
    "B": "one bucket",
    "C": "waits for each message",
    "D": "starving loader",
}
### END SOLUTION

# %%
check("11c-traces", diagnoses)

# %% [markdown] tags=["why"]
# <!-- why: 11c-traces -->
# Why it works: A: in each step rank 0's first messages set out long before rank 1
# computes; rank 1's are shorter. B: a single message, which sets out when backward has
# ended. C: backward stops for each message, on both ranks. D: between the steps both
# ranks stand still, and no message travels.

# %% [markdown]
# ## The same on GPUs
#
# A GPU's operation is a *kernel*. With NCCL a message is one, too:
# `ncclDevKernel_AllReduce...`. A GPU works through several queues (lesson 13a); messages
# have one of their own, and the trace a row for each queue. A starving loader is a gap
# in both rows, a straggler a long NCCL kernel on every *other* rank. A synchronisation
# in each step, such as `loss.item()`, shows on the CPU's row as
# `cudaStreamSynchronize`, after which the GPU has nothing to do until new kernels come.
#
# NVIDIA's Nsight Systems (`nsys profile`) records the same from outside the program.
# Meta's Holistic Trace Analysis reads the profiler's traces of all ranks, and says how
# long each GPU computed, did nothing but send or copy, or was idle.
#
# What to look at first when your own job is slow: [one page](../resources/checklists/slow.md).

# %% [markdown]
# ## What we saw
#
# * The more a rank computes for each byte that it sends, the more two ranks buy. A
#   batch that grows helps, and is another training.
# * A step is forward, backward, update, and the wait that overlap leaves. The parts
#   predict it; the miss says how much the prediction left out.
# * A trace shows each operation and each message on its thread. While messages are
#   exposed, the rank only waits for them.
# * Four common illnesses can be told apart by their traces.
#
# **The scorecard** of N ranks and P bytes of parameters, after 11b's:
#
# | | |
# |---|---|
# | equal to one process | as in 11b if the batch is split; a batch that grows is another training |
# | bytes each rank sends per step | 2 (N − 1)/N · P in a ring, however many samples it has |
# | memory of each rank | as in 11b; with a batch that grows, activations of a whole batch |
# | idle share | exposed messages, the waiting for later ranks included |
# | if one rank dies | as in 11b |
#
# **Elsewhere:**
#
# | here | torch |
# |---|---|
# | `now`, `seconds_between` | `torch.cuda.Event`, or `torch.utils.benchmark` |
# | `span` | `torch.profiler.record_function` |
# | buckets of 1 MiB | `DistributedDataParallel(model, bucket_cap_mb=1)` |
# | the last of four steps traced | `profile(schedule=schedule(wait=1, warmup=2, active=1, repeat=1))`, and `profiler.step()` after each step |
#
# In a terminal, `python demos/ddp/sick_traces.py --save trace.json` writes both ranks'
# traces into one file, which Perfetto, https://ui.perfetto.dev, opens. And
# `python demos/ddp/speed_by_ranks.py` counts samples per second of one, two, four, … and
# all ranks, on CPUs or GPUs.

# %% [markdown]
# ## Next
#
# A straggler makes everyone wait, at every step. Must it? Lesson 12a lets the ranks run
# free, with a server in the middle, and 12b without one.
