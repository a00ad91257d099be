# ---
# title: 03 The GIL
# question: Why do two threads not run twice as fast?
# needs: two CPU cores, no GPU
# minutes: 85
# ---

# %% [markdown]
# # 3. The GIL: one thread at a time
#
# A thread is cheap to start and shares your variables. A process costs more, and
# everything it needs has to be sent. So why does anyone compute in processes?
#
# We give the same work to two threads and to two processes, and draw what happens. Then
# we find out for which work threads are good.
#
# *You will be able to* read a timeline, tell CPU time from wall time, and predict whether
# threads will make a program faster.
#
# *Before this:* lesson 2. *Time:* {reading} minutes to read, 35 for four exercises. *Needs:*
# two CPU cores, no GPU. With one core everything runs, and the text says what you will
# not see.

# %% [markdown] tags=["instructor"]
# ## Two kinds of work, and how to read a timeline: 7 minutes
#
# Draw the first timeline on the board before you run the cell, with the class telling
# you where each bar goes. Ask: who waits for whom, and when? People who can draw it by
# hand read all later ones without help.
#
# When late: skip nothing here. This picture returns in every lesson.

# %% [markdown]
# ## Two kinds of work
#
# `compute` keeps a core busy in pure Python. `span` notes when it begins and ends.

# %%
from sidebyside import span


def compute(steps: int = 4_000_000) -> int:
    """Keep one core busy in pure Python."""
    with span("compute"):
        return sum(step * step for step in range(steps))


# %% [markdown]
# `fetch` waits, like a program that has asked for a web page. A `Timeline` collects
# the spans of all threads and processes that run inside it. Here a second thread
# fetches while the main thread computes, waits for the page, and computes again.

# %% tags=["nbval-ignore-output"]
from threading import Thread
from time import sleep

from sidebyside import Timeline


def fetch(seconds: float = 0.3) -> None:
    with span("fetch"):
        sleep(seconds)


with Timeline() as first_timeline:
    fetcher = Thread(target=fetch, args=(0.6,))
    fetcher.start()
    compute()
    with span("wait"):
        fetcher.join()
    compute()
print(first_timeline.text())
first_timeline.plot(stamp="simulated")

# %% [markdown]
# ### How to read a timeline
#
# * Time runs to the right. Each worker has a lane: `main`, in which every Python
#   program begins, and `thread 1`.
# * A coloured bar is a span: work with a name, from its start to its end.
# * In a pale bar, a span with the name `wait`, a worker waits for another; where a lane
#   is grey, it has nothing to do. The share of both stands at the right, as idle time.
#
# The letters above say the same, for a terminal or a screen reader: a capital begins a
# span, a dot is grey.

# %% [markdown]
# Read it aloud once: *main computes; it waits for thread 1; the fetch ends; main computes
# again, and thread 1 is done.* If you can say that, you can read every picture of this
# course.

# %% [markdown]
# ## Exercise 1: how many at once?
#
# A figure shows what runs at once; a number can be tested. Write `overlap(spans)`: the
# largest number of spans that are open at the same moment. A span is a pair `(start,
# end)`. The pairs come in any order; leave the list as it is. A span that ends at 2 is no
# longer open at 2.
#
# By hand first: for (0, 2), (1, 3), (2, 4) and (5, 6) the answer is 2.
# <!-- exercise: 03-overlap -->
#
# <details><summary>Hint 1: a question</summary>
#
# Walk along the time axis from left to right. At which moments does the number of open
# spans change, and by how much?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Only starts and ends matter. Make one list of events: a start adds one, an end takes
# one away. Sort it by time and keep count. What must come first when a start and an end
# fall on the same moment?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The events are `(start, 1)` and `(end, -1)` for each span. Sorted as pairs, an end
# comes before a start of the same time, because -1 is less than 1. Add the second
# numbers up, one by one, and remember the largest sum.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 10 minutes
#
# It needs no thread and suits everybody. Those who are done early say why the lane
# `main` never has two bars open at once.


# %% exercise="03-overlap"
def overlap(spans: list[tuple[float, float]]) -> int:
    """Largest number of spans that are open at the same moment."""
    ### BEGIN SOLUTION
    starts = [(start, 1) for start, _ in spans]
    ends = [(end, -1) for _, end in spans]
    most = now_open = 0
    for _, change in sorted(starts + ends):
        now_open += change
        most = max(most, now_open)
    return most
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("03-overlap", overlap)

# %% [markdown] tags=["why"]
# <!-- why: 03-overlap -->
# Why it works: the number of open spans changes only at a start or an end, so it is
# enough to look there. Sorting puts ends before starts of the same time, since -1 < 1:
# spans that touch are never counted together. It takes n log n steps for n spans.

# %% [markdown]
# Once it passes, try it on the timeline above: `overlap([(s.start, s.end) for s in
# first_timeline.spans])`.

# %% [markdown] tags=["instructor"]
# ## Two clocks, two threads: 8 minutes
#
# Collect guesses by show of hands before the run: 1, 1.5, 2. In most rooms 2 wins.
#
# When late: leave out the clocks, show the CPU time in the figure of all four.

# %% [markdown]
# ## Wall time and CPU time
#
# There are two clocks. `perf_counter` runs like the one on the wall. `process_time`
# runs only while this program has a core, and counts all its threads.

# %%
from time import perf_counter, process_time

for work in compute, fetch:
    wall, cpu = perf_counter(), process_time()
    work()
    wall, cpu = perf_counter() - wall, process_time() - cpu
    print(f"{work.__name__:<8} took {wall:.3f} s and used {cpu:.3f} s of CPU time")

# %% [markdown]
# The first number is called **wall time**, the second **CPU time**. `compute` used a
# core nearly all the time: such work is **CPU-bound**. `fetch` used next to none: it is
# **I/O-bound**, limited by input and output.
#
# Ask this first of any slow program: is its CPU time close to its wall time?

# %% [markdown]
# ## Two computations, in two threads
#
# We call `compute` twice, one by one; then in two threads at once. Two threads can run
# on two cores. What do you expect?

# %%
from sidebyside import guess

guess("03-two-threads", None, "By what factor are two threads faster?", "×")

# %% [markdown]
# One run may be disturbed by another program. `compare` runs both ways several times, in
# turn, and compares the medians.

# %%
from sidebyside import compare, reveal


def in_two_threads(work) -> None:
    """Call `work` in two threads at the same time, and wait for both."""
    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


computed = compare(
    workers=2,
    one_by_one=lambda: (compute(), compute()),
    two_threads=lambda: in_two_threads(compute),
)
print(computed)
reveal("03-two-threads", computed.speedup["two_threads"], "×")

# %% [markdown]
# About 1: threads gain nothing here. Was there anything to gain? The *capacity* is what
# two busy *processes* get done on this machine at the moment, measured as in lesson 0,
# and *of capacity* is the speedup as a share of it. With two free cores the capacity is
# near 2, and the threads left half of it unused.
#
# Is it like this for all work?

# %% [markdown]
# ## Exercise 2: measure the gain
#
# Write `gain(work)`. It does `work()` twice one by one, and once in each of two threads
# at the same time. It returns the factor by which the threads were faster. For
# `sleep(0.2)` this is about 2, for `compute` about 1. `work` need not contain a span, so
# a `Timeline` may stay empty: use a clock.
# <!-- exercise: 03-gain -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of the two clocks shows a gain for work that waits? And when exactly may you
# stop it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Note the time three times: before the two calls one by one, between both ways, and
# after the threads *have ended*. `in_two_threads` from above does one half of the work.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `a = perf_counter()`, then `work()` twice, then `b = perf_counter()`, then
# `in_two_threads(work)`, then `c = perf_counter()`. The gain is the first duration,
# `b - a`, divided by the second.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 10 minutes
#
# The usual slip is a clock that stops before the threads have ended, or the wrong clock.
# Exercise 3 uses `gain`: those who do not finish take the solution.


# %% exercise="03-gain"
def gain(work) -> float:
    """How many times as fast two threads do `work` twice, compared with one by one."""
    ### BEGIN SOLUTION
    start = perf_counter()
    work()
    work()
    middle = perf_counter()
    in_two_threads(work)
    end = perf_counter()
    return (middle - start) / (end - middle)
    ### END SOLUTION


# %%
check("03-gain", gain)

# %% [markdown] tags=["why"]
# <!-- why: 03-gain -->
# Why it works: both ways do the same amount of work, two calls, and the clock on the
# wall runs until the last thread has been joined. For work that computes, CPU time
# would say about 1: threads do not make less work of it.

# %% [markdown] tags=["instructor"]
# ## All four on one time axis: 5 minutes
#
# Let the two full lanes of the two threads stand for a while and ask what they seem to
# say (both busy all the time) before you point at the light half of the bars.

# %% [markdown]
# ## Look inside
#
# We draw four experiments: one by one; two threads; two processes; and two threads that
# wait. `run_ranks(compute, world_size=2)` calls `compute` in two processes, numbered
# from 0; such a number is called a **rank**. The first call is slower than later ones,
# so we make one beforehand.

# %%
from sidebyside import run_ranks

run_ranks(compute, 10, world_size=2)
with Timeline() as one_by_one:
    compute()
    compute()
with Timeline() as two_threads:
    in_two_threads(compute)
with Timeline() as two_processes:
    run_ranks(compute, world_size=2)
with Timeline() as two_sleepers:
    in_two_threads(fetch)

# %% figure="the_gil_in_four_timelines"
from sidebyside import draw_timelines

experiments = {
    "one by one": one_by_one,
    "two threads": two_threads,
    "two processes": two_processes,
    "two sleeping threads, simulated": two_sleepers,
}
for name, timeline in experiments.items():
    spans = timeline.spans
    wall = max(s.end for s in spans) - min(s.start for s in spans)
    cpu = sum(s.cpu for s in spans)
    print(f"{name:<31} took {wall:.3f} s, used {cpu:.3f} s of CPU time")
draw_timelines(experiments, cpu=True)

# %% [markdown]
# The solid part of a bar is the share of its time for which the thread was on a core. For
# the rest, the light part, the thread had no core: it waited for its turn, or slept, or
# another program had the core.
#
# Two threads fill both lanes, and take as long as one by one: each stood still for half
# of its span. **A span says that work was under way. Only CPU time says that a core was
# working on it.** Two processes take about half as long, if the machine has two free
# cores. Sleeping threads wait at the same time.

# %% [markdown]
# Two pieces of work that are under way in the same period are **concurrent**. They are
# **parallel** if they are also worked on at the same instant, which takes two cores.
# Your `overlap` counts the first: it says 2 for both `two_threads` and `two_processes`.
# The CPU time tells them apart.

# %% [markdown]
# ## The lock
#
# So the machine can do two things at once, and threads can wait at once, but they cannot
# run Python code at once. The reason is a *lock*, which one thread at a time can hold, in
# the *interpreter*, the program that runs your Python code: the **global interpreter
# lock**, or **GIL**. A thread must hold it to run Python code.

# %% [markdown]
# Two threads of one interpreter share its GIL. Two processes have an interpreter each,
# and so a GIL each.

# %% [markdown] tags=["instructor"]
# ## What the GIL protects, and the turns: 8 minutes
#
# Draw a kitchen with one knife: two cooks who cut take turns, however large the
# kitchen. Two kitchens (processes) have two knives. A cook who waits for the oven puts
# the knife down.
#
# Someone will conclude that threads need no locks of their own. Don't settle it; lesson
# 4 does, with a count that comes out wrong.
#
# When late: run the picture of the turns, skip the table of the late naps.

# %% [markdown]
# ## What the GIL protects
#
# Python counts for each object how many references there are to it, and frees it at zero.
# If two threads changed such a count in the same instant, one change could be lost, and
# an object freed while it is in use. The GIL prevents that. It protects lists and
# dictionaries in the same way: two threads append 200,000 numbers to one list, and not
# one is lost.

# %%
appended = []


def append_many() -> None:
    for number in range(100_000):
        appended.append(number)


in_two_threads(append_many)
len(appended)

# %% [markdown]
# The GIL protects the interpreter. It does not protect your program: a sum that two
# threads add to can still come out wrong. Lesson 4 shows how.

# %% [markdown]
# ## Taking turns
#
# How do two threads share one lock? In `turns_of_two_threads` both note the time, again
# and again, as fast as they can, for 0.1 s. An unbroken run of notes from one thread is a
# **turn**.

# %%
import sys
from statistics import median

from lessons.props.the_gil import draw_thread_turns, turns_of_two_threads

turns = turns_of_two_threads()
length = median(end - start for _, start, end in turns)
print(f"a turn takes {1000 * length:.1f} ms, in the median")
print(f"the switch interval is {1000 * sys.getswitchinterval():.1f} ms")
draw_thread_turns(turns)

# %% [markdown]
# While one runs, the other stands still: this is how the two long bars look inside. The
# length of a turn is no accident. A thread that wants the GIL waits for one **switch
# interval**, then asks the holder to let go. The holder does so at the next safe place in
# its Python code. Where other programs took the core, turns are longer or have gaps.

# %% [markdown]
# That has a consequence you will meet. A thread naps for 1 ms, again and again, while
# another thread computes. When the nap is over, it needs the GIL again.

# %%
guess("03-late", None, "By how many ms does a nap of 1 ms end late?", "ms")


# %%
def lateness(other) -> float:
    """By how many ms naps of 1 ms end late, while another thread does `other`."""
    thread, late = Thread(target=other), []
    thread.start()
    while thread.is_alive() or not late:
        start = perf_counter()
        sleep(0.001)
        late.append(perf_counter() - start - 0.001)
    return 1000 * median(late)


print(f"beside a thread that fetches: {lateness(fetch):.1f} ms late")
reveal("03-late", lateness(compute), "ms")
usual = sys.getswitchinterval()
for milliseconds in 20, 1:
    sys.setswitchinterval(milliseconds / 1000)
    late = lateness(compute)
    print(f"with a switch interval of {milliseconds} milliseconds: {late:.1f} ms late")
sys.setswitchinterval(usual)

# %% [markdown]
# The napping thread needs a core for a moment only, yet it waits a whole switch interval
# for the GIL, each time. A thread that loads data, answers requests or draws a progress
# bar beside a computation has this delay in each of its steps. A shorter interval means
# more switches. The better remedy is to move the computation to a process.

# %% [markdown] tags=["instructor"]
# ## Who lets go of the GIL: 4 minutes
#
# Expect "NumPy and torch release it" as an answer to everything. C code releases the GIL
# only where its author wrote so, and only where it touches no Python object meanwhile.
#
# When late: the rule only, then the exercise.

# %% [markdown]
# ## Who lets go of the GIL
#
# `sleep` let go of the GIL: it has no use for it while it waits. All waiting in Python's
# library does the same: for files, for the network, for other threads.
#
# Can computing do it too? Code in C or C++ may let go, on two conditions: meanwhile it
# touches no Python object, and its author has written it so. `zlib`, which compresses
# bytes, does. Torch lets go of the GIL inside an operation, and takes it back afterwards.

# %% [markdown]
# ## Exercise 3: six functions
#
# Which of these six gain from two threads, on a Python with a GIL and two free cores?
# Predict first: assign a set with the names of those that do, such as `{"loop",
# "sort"}`. Check it. Then prove it with `gain`, if your machine has two cores to spare.
# <!-- exercise: 03-six -->
#
# <details><summary>Hint 1: a question</summary>
#
# Ask of each: while it works, does it touch Python objects? Those that don't may let go
# of the GIL.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Two of the six are matrix products. Both let go of the GIL during the product. How
# long is a product of 4 × 4 numbers, compared with the Python code that calls it?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Three of the six gain: the one that waits, and two that compute for a long time on
# plain bytes or numbers. Put their three names in braces.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 10 minutes
#
# In the room: a show of hands for each of the six. Ask about `sorted`: it is C code too.
# On a machine with one core, or a busy one, nothing but the wait gains.

# %% exercise="03-six"
from hashlib import sha256

import torch

torch.set_num_threads(1)  # or a single product would already use every core
data, shuffled = bytes(60_000_000), torch.randperm(200_000).tolist()
large, small = torch.rand(800, 800), torch.rand(4, 4)
six = {
    "wait": lambda: sleep(0.1),
    "loop": lambda: sum(step * step for step in range(1_000_000)),
    "sort": lambda: sorted(shuffled),
    "checksum": lambda: sha256(data).digest(),
    "large product": lambda: [large @ large for _ in range(4)],
    "small products": lambda: [small @ small for _ in range(5_000)],
}

gainers = ...  # a set of names
### BEGIN SOLUTION
gainers = {"wait", "checksum", "large product"}
for name, work in six.items():  # the proof
    print(f"{name:<14} {median(gain(work) for _ in range(3)):.2f} ×")
### END SOLUTION

# %%
check("03-six", gainers)

# %% [markdown] tags=["why"]
# <!-- why: 03-six -->
# Why: `wait` needs no core. The checksum reads plain bytes and the large product plain
# numbers, both in C, without the GIL. The loop is Python code. The sort is C code that
# compares Python objects, so it holds the GIL. The small products let go of it 5,000
# times for about a microsecond, and need it for everything in between: creating the
# result, finding the method, running the loop. On top of that, both threads keep asking
# for the GIL at the same moment, so that they may be slower than one by one.

# %% [markdown]
# The demo measures four such pieces of work. *CPU* is the CPU time of both threads as a
# share of their wall time: 100 % keeps one core busy, 200 % two.

# %%
from sidebyside import run_demo

run_demo("gil/gil_releasing_kernel.py")

# %% [markdown]
# **Threads can compute at the same time, if their work lets go of the GIL.**
#
# Compare the gains with the capacity in the first line: no program can gain more than the
# machine has.

# %% [markdown] tags=["instructor"]
# ## Waiting in few threads, or in one: 5 minutes
#
# For the timeline of the coroutines ask: how many threads are there? One. Is it
# concurrent? Parallel? Then: what happens if one of them computes?
#
# When late: leave out `asyncio`.

# %% [markdown]
# ## The library's way
#
# In practice a `ThreadPoolExecutor` keeps some threads and gives each the next piece of
# work. `map` returns the results in order.

# %%
from concurrent.futures import ThreadPoolExecutor

with Timeline() as pooled, ThreadPoolExecutor(max_workers=3) as pool:
    list(pool.map(fetch, [0.3, 0.1, 0.2, 0.2, 0.1, 0.1]))
pooled.plot("six fetches, three threads", stamp="simulated")

# %% [markdown]
# `ProcessPoolExecutor` has the same methods and computes in processes; lesson 7 uses
# it. `torch.utils.data.DataLoader(num_workers=2)` prepares batches in two *processes*.
# Now you know why: where preparing a batch is Python code, threads would take turns with
# the training loop.

# %% [markdown]
# ## Exercise 4: fetch and compute
#
# `[compute(fetch(name)) for name in names]` fetches a page, computes with it, fetches the
# next. Write `process_all(names, fetch, compute)`, which returns the same list, in the
# order of `names`, and in which **nothing waits that could work**: all pages, perhaps
# hundreds, are on their way at the same time, and the first to arrive is computed with
# while the others are still on their way.
#
# By hand first: three pages need 0.3, 0.2 and 0.1 s to arrive, and 0.1 s of computing
# each. Why can it be done in 0.4 s, but no less?
# <!-- exercise: 03-fetch -->
#
# <details><summary>Hint 1: a question</summary>
#
# Draw the timeline that you want. How many lanes does it have? In which lane, and when,
# does the first computation begin?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Waiting costs no core, so there may be as many threads as pages. And nothing says that
# a thread which has fetched must end there: it can go on.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Give a `ThreadPoolExecutor` with one thread per page the function `lambda name:
# compute(fetch(name))`. Its `map` returns results in the order of the names.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 4: 15 minutes
#
# This is the one that people use on Monday: let them draw the timeline they want before
# they write code, then plot the one they get.


# %% exercise="03-fetch"
def process_all(names: list, fetch, compute) -> list:
    """[compute(fetch(name)) for name in names], and nothing waits that could work."""
    ### BEGIN SOLUTION
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))
    ### END SOLUTION


# %%
check("03-fetch", process_all)

# %% [markdown] tags=["why"]
# <!-- why: 03-fetch -->
# Why it works: each page has a thread that waits for it and then computes with it, so
# all waiting overlaps, and computing overlaps with waiting. The computations themselves
# take turns under the GIL: while they are short beside the waiting, one core is enough.
# When they are not, let a `ProcessPoolExecutor` do the computing, and see whether the
# gain is worth sending the pages there. The three pages by hand need at least 0.4 s:
# the last one arrives after 0.3 s and is computed with for 0.1 s.

# %% [markdown]
# ## Many waits in one thread
#
# To wait for a thousand pages, does one need a thousand threads? `asyncio` runs many
# functions in *one* thread: where one of them must wait, it says `await`, and another
# goes on. Such a function is a **coroutine**; the **event loop** runs them in turn. A
# coroutine is never interrupted: it gives way only where it awaits something that is not
# there yet. `asyncio.gather` runs several and waits for them all.

# %%
import asyncio


async def fetch_async(seconds: float) -> None:
    with span("fetch"):
        await asyncio.sleep(seconds)


async def compute_async() -> None:
    compute()  # no await in it: no other coroutine has a turn


async def beside_a_fetch(other) -> None:
    await asyncio.gather(fetch_async(0.1), other)


# %%
loops = {}
for name, other in ("both await", fetch_async(0.2)), ("one computes", compute_async()):
    with Timeline() as loops[name]:
        one_thread = Thread(target=asyncio.run, args=(beside_a_fetch(other),))
        one_thread.start()
        one_thread.join()
draw_timelines(loops, stamp="simulated")

# %% [markdown]
# Each picture is one thread, beside the main thread, where a notebook has an event loop
# of its own. Above, two waits lie side by side: concurrent, but not parallel. Below, the
# page is there after 0.1 s, but its coroutine goes on only when the computation is over:
# **a coroutine that does not await makes all others wait.**

# %% [markdown] tags=["instructor"]
# ## Without a GIL: 3 minutes
#
# Someone will ask whether all of this is about to go away. The honest answer: the lock
# can, waiting and cores cannot. The table under *What we saw* is what remains.
#
# To have a free-threaded interpreter for the class, install one beforehand and check
# that python3.14t or python3.13t is found on the PATH.
#
# When late: leave this out.

# %% [markdown]
# ## A Python without a GIL
#
# Since version 3.13 there is a second build of Python, called *free-threaded*. It counts
# references in a way that is safe without the GIL, and each list or dictionary has a
# small lock of its own. Threads then run Python code at the same time. The next cell does
# the same work one by one, in threads and in processes, and if a free-threaded Python is
# installed, does so there as well.

# %% tags=["nbval-ignore-output"]
from sidebyside.programs.free_threaded import run_without_gil

run_demo("gil/threads_vs_processes.py")
run_without_gil("gil/threads_vs_processes.py")

# %% [markdown]
# The time of the processes includes starting them, so their speed-up stays below 2.
# Threads without a GIL come closer to 2, if both find a free core.
#
# To get a free-threaded Python: `uv python install 3.14t`, or the installer from
# python.org. Ask `sys._is_gil_enabled()`: a C extension that was not made for it switches
# the GIL on again when it is imported, with a warning. A single thread may be slower than
# with the GIL. The mistakes of lesson 4 become more likely, not less.

# %% [markdown]
# ## What we saw
#
# | work | two threads | two processes |
# |---|---|---|
# | waits (sleep, network, disk) | wait together | wait together; cost more to start |
# | Python code | take turns | run together |
# | C code that holds the GIL (sort) | one after the other | run together |
# | C code that releases it (checksum, matrix product) | run together | run together |
#
# *Run together* always means: as far as there are free cores.

# %% [markdown]
# * Under the GIL, threads that run Python code take turns of one switch interval, 5 ms
#   unless changed, and a thread beside a computation is late by that much.
# * The GIL protects the interpreter's own data, not yours.
# * One thread can wait for many things, as long as none of them computes.
#
# In a terminal: `python demos/gil/sleeping_threads.py --help`.

# %% [markdown]
# ## Next
#
# Only one thread at a time can run Python code, and no append is lost. So are two
# threads that add to the same sum safe? Lesson 4 lets them try.
