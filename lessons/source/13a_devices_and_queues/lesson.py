# ---
# title: 13a Devices and queues
# question: What belongs on a faster device, and what does the host do meanwhile?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 13a. Devices and queues: the host runs ahead
#
# So far all our ranks were alike. Here there are two sides: a *host*, which runs your
# Python program, and a *device*, which computes what the host tells it to. Usually the
# device is a GPU. Without one, a process or a thread plays its part.
#
# Which work is worth sending to a device? And what does the host do while the device
# works? The second answer explains why so many timings are wrong.
#
# *You will be able to* predict whether arithmetic or memory limits an operation, say
# when sending data away pays, time a device correctly, and let it copy and compute at
# the same time.
#
# *Before this:* lesson 10b. *Time:* {reading} minutes, and 35 for the exercises. *Needs:* two
# CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## The roofline: 11 minutes
#
# Ask: how often is each number used that `add` fetches? Once. And in a product of two
# matrices with 400 rows? 400 times. Write both on the board, divide by the bytes, and
# the table is done before it runs.
#
# The measured points may lie a little above the roof: a copy is not the fastest thing
# that a memory can do. They lie below it where other programs use the memory, too.
#
# When late: skip the cell about missing kernels, tell its bold sentence.

# %% [markdown]
# ## Bytes and arithmetic
#
# An operation fetches numbers from memory, computes, and puts numbers back. Here are
# three, on 32-bit numbers: adding two vectors, a matrix times a vector, and a matrix
# times a matrix. How many additions and multiplications are there for each byte that is
# moved, if each input is read once and each output written once?

# %%
import torch

from parallel_by_hand.devices.roofline import add_vectors, multiply_matrix

torch.set_num_threads(1)  # one core, so that other programs disturb less
operations = [add_vectors(), multiply_matrix(2048, 1), multiply_matrix(400, 400)]
for operation in operations:
    print(f"{operation.name:<17} {operation.intensity:7.3f}")

# %% [markdown]
# `add` moves 12 bytes for each addition. In the product of two matrices each number is
# used 400 times. This ratio is the **arithmetic intensity** of an operation.
#
# Two measurements say what one core of this machine can do, or its GPU, if there is
# one. A copy computes nothing: it shows the *bandwidth*. A product of matrices hardly
# waits for bytes: it shows the *peak*. Other programs only add to a time, so we take
# the shortest of 20 rounds.
#
# Moving and computing go on at the same time. So an operation takes at least as long as
# the longer of the two: $\max(\text{bytes} / \text{bandwidth},\ \text{operations} /
# \text{peak})$. The cell prints what a byte and an operation cost. What share of the
# peak can `add` reach at most, with 12 bytes for each addition?

# %%
from parallel_by_hand.devices.roofline import copy_vector, least_seconds
from sidebyside import device, guess

size = 512 if device().type == "cpu" else 4096
copy, product = copy_vector(), multiply_matrix(size, size)
seconds = least_seconds([copy, product, *operations])
bandwidth, peak = copy.bytes / seconds[copy], product.flops / seconds[product]
print(f"moving a byte: {1e9 / bandwidth:.3f} ns")
print(f"an addition or multiplication: {1e9 / peak:.3f} ns")
guess("13a-share", None, "Which share of the peak can `add` reach?", "%")

# %%
from parallel_by_hand.devices.roofline import draw_roofline, seconds_under_roof
from sidebyside import reveal

add = operations[0]
reveal("13a-share", 100 * add.intensity * bandwidth / peak, computed=True)
print(f"it has reached {100 * add.flops / seconds[add] / peak:.2f} %")
for operation in operations:
    predicted = 1e3 * seconds_under_roof(operation, peak, bandwidth)
    measured = 1e3 * seconds[operation]
    print(f"{operation.name:<17} predicted {predicted:.2f} ms", end=", ")
    print(f"measured {measured:.2f} ms")
draw_roofline(peak, bandwidth, {each: seconds[each] for each in operations})

# %% [markdown]
# The black line is the **roofline** of Williams and others. On its slope the bytes
# decide, on its flat part the arithmetic. **`add` is limited by memory, the product of
# matrices by arithmetic.** Points near the line are as fast as this core allows.
#
# A layer applied to one sample, a matrix times a vector, mostly waits for its weights.
# A batch uses each weight many times. This is why devices like large batches, and why
# small operations are best joined into one.

# %% [markdown]
# A GPU has the same picture. An H100 moves 3,350 billion bytes per second and does 67,000 billion operations in 32
# bits: its roof becomes flat at 20 operations for each byte. In 16 bits its *tensor
# cores*, made for products of matrices, do 989,000 billion: flat only at 295.

# %% [markdown]
# An operation cannot run on a device that has no *kernel* for it, no program that
# computes it there. torch's *meta device* shows it without a GPU. It has no memory and
# knows only shapes. The shape of what `nonzero` returns depends on the values, so the
# meta device cannot run it:

# %%
pretend = torch.ones(3, device="meta")
print((pretend + 1).device)
try:
    pretend.nonzero()
except NotImplementedError as error:
    print(type(error).__name__)
print(torch.ones(3).nonzero().device)

# %% [markdown]
# torch raises an error, and by default moves nothing by itself. **What has no kernel on
# a device has to be done on the CPU**, and you move its data. Reading files stays on the
# CPU for the same reason.

# %% [markdown] tags=["instructor"]
# ## Away and back: 7 minutes
#
# Draw a cube beside a square. Arithmetic is the cube, bytes are the square, and the
# latency is a line that does not grow at all. Then ask for an operation where both are
# squares: adding two matrices. It pays at no size if the link is slow.
#
# When late: skip the measurement, do the exercise.

# %% [markdown]
# ## Away and back
#
# Rank 0 is the host now, and rank 1 the device. To multiply two $n \times n$ matrices on
# the device, the host sends both, and the device sends the product back: 2 messages, $12
# n^2$ bytes and $2 n^3$ operations. With $\alpha$ and $\beta$ of lesson 10b, that takes
#
# $$2\alpha + 12 n^2 \beta + 2n^3 / \text{device}, \qquad \text{here: } 2n^3 /
# \text{host}.$$
#
# A device is much faster than its host. Our two cores are equally fast, so our host
# multiplies with Python loops, some thousand times slower than torch.

# %%
from parallel_by_hand.devices.copy_or_compute import measure_constants

costs = measure_constants()
print(f"host: {1e9 / costs['host']:.3g} ns for an operation")
print(f"device: {1e9 / costs['device']:.3g} ns for an operation")
print(f"a message: {1e6 * costs['alpha']:.3g} µs", end=", ")
print(f"and {1e9 * costs['beta']:.3g} ns for each byte")
sizes = [2, 4, 8, 12, 16, 24, 32, 64]
guess("13a-away", None, f"From which of {sizes} on is sending quicker?", "rows")

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.devices.copy_or_compute import (
    first_that_pays,
    predict_here_and_away,
    time_here_and_away,
)
from sidebyside import run_ranks

times = run_ranks(time_here_and_away, sizes, "python", 15)[0]  # shortest of 15
for n, measured in times.items():
    both = zip(predict_here_and_away(n, costs), measured, strict=True)
    here, away = (f"{1e3 * p:6.2f} ({1e3 * m:6.2f}) ms" for p, m in both)
    print(f"{n:2} rows, predicted (measured): here {here}, away {away}")
pays = first_that_pays({n: predict_here_and_away(n, costs) for n in sizes})
print("by the prediction sending is quicker from", pays or "no number of", "rows on")
reveal("13a-away", first_that_pays(times) or 0)

# %% [markdown]
# For small matrices, sending takes as long as the two messages. **In a matrix product,
# arithmetic grows faster than bytes, so from some size on sending it away pays**, if
# the device is faster at all. Data that stay on the device between operations lower
# that size.

# %% [markdown]
# A GPU's copy engine needs memory that the system will not move meanwhile: **pinned
# memory**, as `pin_memory=True` gives. From ordinary, *pageable* memory the driver
# first makes a pinned copy. With a GPU,
# [devices/copy_or_compute.py](../demos/devices/copy_or_compute.py) shows from which
# size on a product pays with each.

# %% [markdown]
# ## Exercise 1: the size from which it pays
#
# Write `smallest_size(host, device, alpha, beta)`: the smallest $n \geq 1$ for which,
# by the two formulas above, multiplying two $n \times n$ matrices takes less time by
# sending than here. If there is none, return `None`. `host` and `device` are operations
# per second, `alpha` is in seconds, `beta` in seconds per byte.
#
# By hand first: the host does 2,000 operations per second, the device 2,000,000, a
# message takes 0.5 s, and bytes cost nothing. What is $n$?
# <!-- exercise: 13a-pays -->
#
# <details><summary>Hint 1: a question</summary>
#
# If sending away pays for some n, does it pay for n + 1 as well? And when does it pay
# for no n at all?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# It pays at some size exactly if the device is faster than the host. In this case count
# n up until it pays. Otherwise counting would never end.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# If `device <= host`, return `None`. Otherwise begin with `n = 1`, and add 1 while the
# first formula is not below the second.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, what pays: 10 minutes


# %% exercise="13a-pays"
from sidebyside import forget, hint, progress, solution


def smallest_size(host: float, device: float, alpha: float, beta: float) -> int | None:
    """The smallest n for which sending takes strictly less time, or None."""
    ### BEGIN SOLUTION
    if device <= host:
        return None
    n = 1
    while 2 * alpha + 12 * n**2 * beta + 2 * n**3 / device >= 2 * n**3 / host:
        n += 1
    return n
    ### END SOLUTION


# %%
from sidebyside import check

check("13a-pays", smallest_size)

# %% [markdown] tags=["why"]
# <!-- why: 13a-pays -->
# Why it works: divide both times by n³. Here a constant is left; away, two terms shrink
# towards 2 / device. So the difference changes its sign once at most, and it does if 2 /
# device is below 2 / host. A million steps take a second; doubling n and then halving
# the interval takes 40.
#
# By hand: here n³ / 1,000 s, away 1 s and n³ / 1,000,000 s. For n = 10 that is 1 s
# against 1.001 s, for n = 11 it is 1.331 s against 1.001 s: 11.

# %% [markdown] tags=["instructor"]
# ## A device is a queue: 10 minutes
#
# Let one person be the device: slips of paper are put on a pile in front of them, and
# they work through it from the bottom. The host writes slips, and never looks up. "How
# long did it take?" asks somebody with a watch. Of whom?
#
# Experienced people recognise the profile in which `loss.item()` takes all the time.

# %% [markdown]
# ## A device is a queue
#
# The host does not wait for its device. It puts an *order* into a queue and goes on.
# The device carries the orders out one by one. As a program, that is a thread with a
# queue:

# %%
from parallel_by_hand.devices.queue_device import QueueDevice
from sidebyside import show

show(QueueDevice.__init__)
show(QueueDevice.launch)
show(QueueDevice._work)

# %% [markdown]
# `launch` returns at once. GPUs do the same: in torch, `a @ b` on a GPU returns a
# tensor whose numbers are not there yet. The host waits only where it needs such a
# number itself, as in `.item()`.

# %% [markdown]
# Below, the host launches five orders of 30 ms. A launch costs microseconds; we stretch
# it to 5 ms so that you can see it. A clock on the host starts before the first launch
# and stops after the last. What does it say?

# %%
guess("13a-clock", None, "What does the clock on the host say?", "ms")

# %%
from time import perf_counter, sleep

from sidebyside import Timeline, span


def work(k: int) -> None:
    with span(f"work {k}"):
        sleep(0.03)


with Timeline() as timeline, QueueDevice("device") as device:
    began = perf_counter()
    for k in range(5):
        with span(f"launch {k}"):
            device.launch(work, k)
            sleep(0.005)
    clock = perf_counter() - began
reveal("13a-clock", 1e3 * clock, simulated=True)
timeline.plot(height=1.8, stamp="simulated")

# %% [markdown]
# The host has launched everything long before the device has done it: **the host runs
# ahead**. So **a clock that does not wait measures the launching, not the work**.
#
# `synchronize` waits until the queue is empty. But the queue may hold more than our
# work. Next, it already contains four other orders of 30 ms before we launch our five.

# %%
from parallel_by_hand.devices.host_runs_ahead import print_clocks, three_clocks

with Timeline() as timeline:
    clocks = three_clocks(orders=5, seconds=0.03, waiting=4)
print_clocks(clocks)
timeline.plot(height=1.8, stamp="simulated")

# %% [markdown]
# The second clock has measured nine orders. The third puts an **event** into the queue
# before our orders and another one after them. An event records when the device reaches
# it. **Events measure what is between them in the queue, and nothing else.** With a GPU,
# `python demos/devices/host_runs_ahead.py` shows the same three clocks for products on it.

# %% [markdown]
# ## Exercise 2: find the wrong timing
#
# A training step with a GPU was timed line by line, on the host:
#
# ```
# loss = model(batch)      0.4 ms
# loss.backward()          0.6 ms
# optimiser.step()         0.2 ms
# print(loss.item())      61.3 ms
# ```
#
# By hand first: which timings are wrong, and why is the last so long?

# %% [markdown]
# Now do it right. `seconds_of_orders(device, orders)` launches the functions in the
# list `orders` on the `QueueDevice`, and returns the *seconds* that each took, without
# earlier work in the queue. The host waits once, after all launches.
#
# `event = device.record_event()` puts an event into the queue.
# `before.elapsed_time(after)` is the time between two events in *milliseconds*, once
# the device has reached both.
# <!-- exercise: 13a-timing -->
#
# <details><summary>Hint 1: a question</summary>
#
# Between which two moments does the device work on order k? What could record these
# moments?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Put an event before the first order and one after each. Neighbouring events enclose
# one order. Wait once, after all launches.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `events = [device.record_event()]`, and append another event after each
# launch. Then synchronise, and take the elapsed times of the pairs in
# `zip(events, events[1:])`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the wrong timing: 15 minutes
#
# All four are wrong: the first three are launches, and the last waits for all of them.
# The advice that people took from such a profile was to print the loss less often.


# %% exercise="13a-timing"
def seconds_of_orders(device: QueueDevice, orders: list) -> list[float]:
    """Seconds on the device, for each order; the host waits only at the end."""
    ### BEGIN SOLUTION
    from itertools import pairwise

    events = [device.record_event()]
    for order in orders:
        device.launch(order)
        events.append(device.record_event())
    device.synchronize()
    pairs = pairwise(events)
    return [before.elapsed_time(after) / 1e3 for before, after in pairs]
    ### END SOLUTION


# %%
check("13a-timing", seconds_of_orders)

# %% [markdown] tags=["why"]
# <!-- why: 13a-timing -->
# Why it works: events stand in the same queue as the orders, so the device reaches them
# just before and just after the work. The host does not wait in between, so the device
# goes from order to order as it would without a clock.
#
# By hand: all four timings are wrong. The first three lines only launch. The fourth
# needs the number itself and therefore waits for everything launched before it: 61 ms is
# about the time of the whole step on the device, and not of its last line.

# %% [markdown] tags=["instructor"]
# ## Two queues: 11 minutes
#
# Two people at two piles. The second may not begin order k before the first has done
# theirs: a slip saying "wait until your neighbour says k" goes into the pile. That slip
# is an event. Ask what the host must wait for now. Nothing.
#
# When late: skip the loader, or the wrong sum.

# %% [markdown]
# ## A loader one batch ahead
#
# Before a device can train, the CPU has to prepare a batch. Let preparing and training
# take 40 ms each, for six batches. The host asks for the loss after each step, so it
# waits for the device. How long do the six batches take if a worker of torch's
# `DataLoader` prepares one batch ahead?

# %%
from lessons.props.devices_and_queues import load_slow_batches


def train(k: int) -> None:
    with span(f"train {k}"):
        sleep(0.04)


def epoch(workers: int) -> None:
    with QueueDevice("the device") as device:
        for k, _ in enumerate(load_slow_batches(6, 0.04, workers)):
            device.launch(train, k)
            device.synchronize()  # as loss.item() does


guess("13a-loader", None, "From starting batch 0 to the end: how long?", "ms")

# %%
from sidebyside import draw_timelines

timelines = {"without a worker": Timeline(), "one worker, one batch ahead": Timeline()}
for workers, timeline in enumerate(timelines.values()):
    with timeline:
        epoch(workers)
spans = timeline.spans
began, ended = min(s.start for s in spans), max(s.end for s in spans)
reveal("13a-loader", 1e3 * (ended - began), simulated=True)
draw_timelines(timelines, stamp="simulated")

# %% [markdown]
# Without a worker the twelve pieces follow one another: 480 ms. **With a loader one
# batch ahead, preparing and training overlap**: seven pieces, 280 ms, and the time it
# takes to pass a batch on.

# %% [markdown]
# ## Copy and compute side by side
#
# The batch still has to travel to the device. One queue would copy, compute, copy,
# compute. Real GPUs have several queues, called **CUDA streams**, and a copy engine
# that works beside the processor. We take a `QueueDevice` for each. Where an order on
# one queue must wait for an order on another, an event says so:

# %%
show(QueueDevice.record_event)
show(QueueDevice.wait_event)

# %% [markdown]
# `copier.record_event()` marks a place in the copier's queue; `computer.wait_event`
# puts an order into the other queue that waits for that mark. The host waits for
# neither. Here each batch has its own memory:


# %%
def copy_batch(k: int, buffer: torch.Tensor) -> None:
    with span(f"copy {k}"):
        sleep(0.03)
        buffer.fill_(k)


def compute_batch(k: int, buffer: torch.Tensor, sums: list) -> None:
    with span(f"compute {k}"):
        sums.append(buffer.sum().item())
        sleep(0.03)


def copy_and_compute(copier: QueueDevice, computer: QueueDevice, sums: list) -> None:
    for k in range(5):
        buffer = torch.zeros(3)
        copier.launch(copy_batch, k, buffer)
        computer.wait_event(copier.record_event())
        computer.launch(compute_batch, k, buffer, sums)


# %%
one_queue, two_queues, sums = Timeline(), Timeline(), []
with one_queue, QueueDevice("device") as both:
    copy_and_compute(both, both, sums)
with two_queues, QueueDevice("queue 1") as one, QueueDevice("queue 2") as other:
    copy_and_compute(one, other, sums)
print("one queue:", sums[:5], "two queues:", sums[5:])
lanes = {"one queue": one_queue, "two queues": two_queues}
draw_timelines(lanes, stamp="simulated")

# %% [markdown]
# **Two queues overlap copying with computing, and the results are the same.** What if
# we leave the event out?

# %%
old, wrong = torch.zeros(3), []
with QueueDevice("copier") as one, QueueDevice("computer") as other:
    one.launch(sleep, 0.3)  # the copier has something else to do first
    one.launch(copy_batch, 7, old)
    other.launch(compute_batch, 7, old, wrong)
print("the batch is full of", old[0].item(), "and its sum was", wrong[0])

# %% [markdown]
# It computed with the old numbers. **Between two queues there is no order unless an
# event makes one**, or a host that waits. It is a race condition, as in lesson 4, and
# no error is reported.

# %% [markdown]
# ## Exercise 3: two buffers
#
# Write `launch_all(batches, buffers, copy, compute, copier, computer)`: for each batch
# k, launch `copy(batch, buffer)` on the queue `copier` and `compute(buffer)` on the
# queue `computer`, with the buffer `buffers[k % len(buffers)]`.
#
# A batch is computed after its copy, and a buffer is overwritten only after its batch
# has been computed. No order waits for more than that, so two buffers overlap copying
# and computing. The host does not wait.
#
# By hand first: copying and computing take 1 s each. How long do four batches take with
# one, two and three buffers?
# <!-- exercise: 13a-ahead -->
#
# <details><summary>Hint 1: a question</summary>
#
# With two buffers, which orders must be done before batch 2 may be copied? On which
# queues are they?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# There are two waits for each batch: the computer waits for the copy of the same batch,
# as above; and the copier waits for an earlier compute. So keep an event after each
# compute.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Keep a list `computed` of the events after each compute. From batch `len(buffers)` on,
# the copier waits for the event of the batch that used the same buffer before. The rest
# is the loop above.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, two buffers: 20 minutes
#
# Have people draw the three timelines of "by hand" first: 8, 5 and 5 s.


# %% exercise="13a-ahead"
def launch_all(batches, buffers, copy, compute, copier, computer) -> None:
    """Copy each batch into its buffer and compute it, on two queues that overlap."""
    ### BEGIN SOLUTION
    computed = []
    for k, batch in enumerate(batches):
        buffer = buffers[k % len(buffers)]
        if k >= len(buffers):
            copier.wait_event(computed[k - len(buffers)])
        copier.launch(copy, batch, buffer)
        computer.wait_event(copier.record_event())
        computer.launch(compute, buffer)
        computed.append(computer.record_event())
    ### END SOLUTION


# %%
check("13a-ahead", launch_all)

# %% [markdown] tags=["why"]
# <!-- why: 13a-ahead -->
# Why it works: there are two reasons to wait. A compute needs its copy, and a copy needs
# its buffer free. Each is one event, recorded on one queue and waited for on the other.
# Everything else is free to overlap. The host only writes the plan down, and could write
# down a thousand batches ahead.
#
# By hand: 8 s, 5 s, 5 s. With one buffer nothing overlaps. With two, only the first
# copy and the last compute are alone. A third buffer helps only if the times vary.

# %% [markdown] tags=["instructor"]
# ## Threads, and the same words elsewhere: 6 minutes
#
# The measured times depend on what else the machine does. Ask for the number of threads
# in each row instead, and compare it with the cores.
#
# When late: the table of words is for reading at home.

# %% [markdown]
# ## Threads within an operation, and between operations
#
# A CPU can be used as several queues, too. Two independent chains of matrix products
# can run at the same time: **inter-op threads**, one for each queue. And one product
# can be cut up among **intra-op threads**, as in lesson 6. Their numbers multiply.

# %%
matrices = [torch.rand(512, 512) for _ in range(2)]


def multiply(matrix: torch.Tensor) -> None:
    for _ in range(10):
        matrix @ matrix


def two_chains(inter: int, intra: int) -> None:
    queues = [QueueDevice() for _ in range(inter)]
    for queue in queues:  # each thread has a number of its own
        queue.launch(torch.set_num_threads, intra)
    for k, matrix in enumerate(matrices):
        queues[k % inter].launch(multiply, matrix)
    for queue in queues:
        queue.synchronize()
        queue.close()


# %%
from sidebyside import compare

layouts = {f"queues: {q}, threads in each: {t}": (q, t) for q in (1, 2) for t in (1, 2)}
compare(
    rounds=3,
    **{name: lambda sizes=sizes: two_chains(*sizes) for name, sizes in layouts.items()},
)

# %% [markdown]
# On a quiet machine with two cores, rows two and three use both. The fourth has four
# threads on two cores: *oversubscription*. Here it costs nothing, because these
# products are large. It costs time where threads wait for another thread, which has no
# core at that moment. **So as a rule of thumb, inter-op times intra-op threads do not exceed the
# cores, and a measurement decides.** Use cores within large operations, and between
# small independent ones.

# %% [markdown]
# ## The same words elsewhere
#
# | here | torch with CUDA | TensorFlow | JAX |
# |---|---|---|---|
# | launch | most operations on a GPU | the executor does it | most operations |
# | queue | `torch.cuda.Stream` | stream, inside the executor | inside XLA |
# | `synchronize` | `torch.cuda.synchronize()`; `.item()` and `nonzero` wait, too | `.numpy()` | `block_until_ready()` |
# | event | `torch.cuda.Event` | inside | inside |
# | intra-op | `torch.set_num_threads` | `set_intra_op_parallelism_threads` | XLA's pool |
# | inter-op | threads that you start | `set_inter_op_parallelism_threads` | – |
# | one batch ahead | `DataLoader(num_workers=, prefetch_factor=)` | `dataset.prefetch(1)` | the loader's |

# %% [markdown]
# In torch, copy by `batch.to("cuda", non_blocking=True)` inside
# `with torch.cuda.stream(copier):`. Then
# `torch.cuda.current_stream().wait_stream(copier)` records the event and waits for it,
# and `batch.record_stream(torch.cuda.current_stream())` keeps the batch's memory from
# being used again too early. The batch has to be in pinned memory: otherwise the host
# waits while the driver makes its pinned copy, and does not run ahead.

# %% [markdown]
# If you have a GPU, the next cell times eight batches in one stream, and with a second
# stream that copies ahead:

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.devices.gpu_streams import copy_one_ahead, time_streams

show(copy_one_ahead)
if torch.cuda.is_available():
    batches = [torch.rand(2048, 2048).pin_memory() for _ in range(8)]
    weight = torch.rand(2048, 2048, device="cuda")
    for way, seconds in time_streams(batches, weight).items():
        print(f"{way}: {1e3 * seconds:.2f} ms")
else:
    print("no GPU here, so nothing is timed")

# %% [markdown]
# *Published* by us, not measured here: what this lesson's programs said on one NVIDIA H200,
# with torch 2.11, from [the table of all programs](../resources/gpu_paths.txt).
#
# | | |
# |---|---|
# | five products, by the host's clock: without waiting, after `synchronize` | 0.30 ms, 13.53 ms |
# | the same, by events | 13.50 ms |
# | bytes to the GPU: from pageable memory, from pinned memory | 15 GB/s, 61 GB/s |
# | batches copied and computed: in one stream, in two | 32.2 ms, 23.8 ms |
#

# %% [markdown]
# ## What we saw
#
# * Arithmetic intensity says whether bytes or operations limit an operation, and why
#   sending a matrix product away pays from some size on.
# * A device is a queue, and the host runs ahead of it. A clock must wait, or stand in
#   the queue as an event.
# * Two queues overlap; unless the host waits, only an event puts them in order.
#
# In a terminal, `python demos/devices/host_runs_ahead.py --waiting 10` and
# `python demos/devices/copy_or_compute.py --host torch` show more.
#
# ## Next
#
# We have launched every order by hand, and said ourselves what waits for what. But a
# network is a graph, which says that. In 13b you write the program that reads the graph
# and keeps all devices busy.
