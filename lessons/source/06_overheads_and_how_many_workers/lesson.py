# ---
# title: 06 Overheads and how many workers
# question: How many workers are best, and what do they cost?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 6. Overheads, and how many workers
#
# Workers have to be started, told what to do, and waited for. All of that takes time, and
# none of it is your work. So the best number of workers is rarely the largest that you
# can start.
#
# We measure what workers cost, from two random numbers upwards. Then we fit a formula
# with three constants, and let it choose.
#
# *You will be able to* say what a worker costs on your machine, choose the number of
# workers and the size of chunks, and keep libraries from starting too many threads.
#
# *Before this:* lesson 5. *Time:* {reading} minutes to read, 35 for three exercises. *Needs:*
# two CPU cores, no GPU. With one core everything runs, and the text says what you will
# not see.

# %% [markdown] tags=["instructor"]
# ## Two random numbers, and how large a piece must be: 9 minutes
#
# Ask for the guess in powers of ten: 1, 10, 100, 1000 times. The spread of the answers
# is the point: nobody has a feeling for these ratios yet.
#
# Draw a post office: a letter takes a minute to write and a day to arrive. Nobody sends
# a letter to ask what 2 + 2 is.
#
# When late: skip the curve of the piece's size, and say its result.

# %% [markdown]
# ## Two random numbers
#
# Drawing a random number is a small piece of work, and two processes can share two
# pieces. Here are three ways: draw both here, start two processes that draw one each, or
# ask two processes that were started before and wait.

# %%
from parallel_by_hand.overheads.pieces_of_work import draw_piece, share_out_pieces
from sidebyside import guess, show

show(draw_piece)
show(share_out_pieces)
guess("06-two", None, "By what factor are two new processes slower?", "×")

# %% [markdown]
# Write your guess in place of `None`. `CONTEXT` is the start method: forkserver, or spawn
# where there is no forkserver.

# %%
from concurrent.futures import ProcessPoolExecutor

from parallel_by_hand.overheads.pieces_of_work import CONTEXT
from sidebyside import compare, reveal

with ProcessPoolExecutor(2, CONTEXT) as pool:
    drawn = compare(
        workers=2,
        here=lambda: [draw_piece(0), draw_piece(1)],
        two_new_processes=lambda: share_out_pieces(draw_piece, pieces=2, workers=2),
        two_waiting_processes=lambda: list(pool.map(draw_piece, [0, 1])),
    )
print(drawn)
reveal("06-two", drawn.median["two_new_processes"] / drawn.median["here"], "×")

# %% [markdown]
# With two waiting workers it takes tens of times as long, with new ones hundreds or
# thousands of times. What is done besides the work is called **overhead**. Here we see
# two kinds:
#
# * *Starting* a process: milliseconds, paid once for each worker.
# * *Asking* a worker that waits: a fraction of a millisecond, paid for each message.
#   Function and arguments are packed, sent, unpacked, and the result comes back.

# %% [markdown]
# ## How large must a piece be?
#
# Two workers wait. We give each one a piece of `busy_piece`, a Python loop, in eight
# sizes, and compare with doing both pieces here. `partial(busy_piece, steps=10)` is
# `busy_piece` with `steps` filled in; unlike a lambda it can be sent.

# %% tags=["nbval-ignore-output"]
from functools import partial

from parallel_by_hand.overheads.pieces_of_work import busy_piece, do_pieces, nap_for

show(busy_piece)
length, gain = [], []
with ProcessPoolExecutor(2, CONTEXT) as pool:
    list(pool.map(nap_for, [0.1, 0.1]))  # both are up
    for steps in 10, 100, 1000, 10_000, 30_000, 100_000, 300_000, 1_000_000:
        work = partial(busy_piece, steps=steps)
        both = compare(
            here=partial(do_pieces, work, [0, 1]),
            two_workers=lambda work=work: list(pool.map(work, [0, 1])),
        )
        length.append(both.median["here"] / 2)
        gain.append(both.speedup["two_workers"])
        print(f"{1e6 * length[-1]:9.1f} µs per piece: speedup {gain[-1]:.3f} ×")

# %%
from sidebyside import COLOURS, figure

fig, ax = figure(
    width=6,
    height=2.4,
    alt="speedup of two waiting processes against the length of a piece",
)
ax.loglog([1e6 * seconds for seconds in length], gain, "o-", color=COLOURS[0])
ax.axhline(1, color=COLOURS[4], linestyle=":")
ax.text(1e6 * length[0], 1.15, "as fast as here")
ax.set_yticks([0.01, 0.1, 0.5, 1, 2], [0.01, 0.1, 0.5, 1, 2])
ax.set(xlabel="one piece (µs)", ylabel="speedup of two workers")
fig

# %% [markdown]
# Where the curve crosses the dotted line, the work in a piece outweighs the message about
# it. Expect that at one to ten milliseconds, or a little more. At several tens of
# milliseconds the message hardly matters. With one core, or a busy second one, the curve
# does not cross the line.

# %% [markdown]
# So let a piece take ten milliseconds or more. If it doesn't, send many at once.

# %% [markdown] tags=["instructor"]
# ## The formula: 10 minutes
#
# Derive T(k) on the board with the class before the cell: what does not change, what
# gets smaller, what grows? Ask for examples of each from their own work. Then let them
# find the best k by sketching b/k and c·k: where the two are equal.
#
# When late: skip the check with 16 workers.

# %% [markdown]
# ## What k workers cost
#
# A job has 48 pieces. We start k processes and give each the same share of them. Which
# parts of the time depend on k?
#
# * Some do not: *a* seconds for what happens once.
# * The work gets shorter: *b*/*k*, where *b* is the time of all pieces.
# * Starting the workers gets longer: *c·k*, because they are started one by one.
#
# $$T(k) = a + b/k + c\,k$$

# %% [markdown]
# The first two are Amdahl's law of lesson 1. The third is new, and it turns the curve up
# again: one worker too many makes the job slower.

# %% [markdown]
# The pieces are naps of 10 ms. A nap needs no core, so k naps take as long as one, on
# any machine, and we can measure more workers than there are cores. Here is the start
# of a crew:

# %%
from parallel_by_hand.overheads.pieces_of_work import nap_piece
from sidebyside import Timeline

with Timeline() as starting:
    share_out_pieces(nap_piece, pieces=12, workers=4)
guess("06-naps", None, "48 naps of 10 ms: how many workers are best?")
starting.plot(width=6, stamp="simulated")

# %% [markdown]
# Each worker begins later than the one before: these steps are *c*. Read a typical step
# off the picture, not the first, and guess. Then we time four *crews*: 1, 2, 4 and 8
# workers. `time_crews` calls `share_out_pieces` for each, three times in turn.

# %%
from parallel_by_hand.overheads.how_many_workers import time_crews

naps = time_crews(nap_piece, pieces=48, crews=[1, 2, 4, 8], rounds=3)
for workers, seconds in naps.items():
    print("workers:", workers, "|", *(f"{1000 * time:.0f} ms " for time in seconds))

# %% [markdown]
# Three unknowns, and four measured times. Each of these is one equation, and in *a*, *b*
# and *c* it is linear: 1·*a* + (1/k)·*b* + k·*c* = T. No three constants satisfy all four
# exactly, because every measurement is a bit off. **Least squares** finds the nearest.
# `numpy.linalg.lstsq` needs a row for each equation:

# %%
from statistics import median

import numpy as np

rows = [[1, 1 / workers, workers] for workers in naps]
seconds = [median(naps[workers]) for workers in naps]
a, b, c = np.linalg.lstsq(np.array(rows), seconds)[0]
print(f"a = {1000 * a:.1f} ms, b = {1000 * b:.1f} ms, c = {1000 * c:.1f} ms")

# %% [markdown]
# *b* should be near 480 ms, 48 naps of 10 ms, which the fit was not told. An *a* below 0
# is noise: a cost cannot be negative. *c* is what one more worker costs here. With *a*,
# *b* and *c* we can compute T for crews that we have not measured, and look for the best
# in exercise 1.

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 15 minutes
#
# Short, and its wrong answers are instructive: rounding √(b/c), and choosing among what
# was measured.

# %% [markdown]
# ## Exercise 1: the best number, before you measure it
#
# Write `best_workers(timings, most)`. `timings` is a list of pairs `(workers, seconds)`;
# a number of workers may occur several times. Fit T(k) = a + b/k + c·k by least squares,
# with one row for each pair. Return the whole number from 1 to `most` with the smallest
# T.
#
# By hand first: a = 1, b = 12 and c = 1 give T(2) = 9 and T(3) = 8. With b = 6.2, is it 2
# or 3?
# <!-- exercise: 06-best -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which part of the lesson's cell with `lstsq` depends on how often a number of workers
# was measured? And which numbers of workers may be the answer?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Each pair is one row, `[1, 1/k, k]`, and one time. When you have the three constants,
# you need no square root: compute T for every number that is allowed.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `a, b, c = np.linalg.lstsq(np.array(rows), seconds)[0]`, then the `min` of `range(1,
# most + 1)`, with T(k) as its key.
#
# </details>


# %% exercise="06-best"
def best_workers(timings: list[tuple[int, float]], most: int) -> int:
    """The number of workers, from 1 to `most`, that should be the fastest."""
    ### BEGIN SOLUTION
    rows = [[1, 1 / k, k] for k, _ in timings]
    seconds = [time for _, time in timings]
    a, b, c = np.linalg.lstsq(np.array(rows), seconds)[0]
    return min(range(1, most + 1), key=lambda k: a + b / k + c * k)
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("06-best", best_workers)

# %% [markdown] tags=["why"]
# <!-- why: 06-best -->
# Why it works: the formula is linear in its constants, so least squares finds them in one
# step, from as many timings as there are. All allowed numbers are tried, so nothing
# depends on rounding. It matters: with b/c = 6.2 the square root is 2.49, but T(3) is
# smaller than T(2), because the curve is steep at the left and flat at the right. The
# change from k to k + 1 is worth it as long as b/c is above k(k + 1).

# %% [markdown]
# ## Was it a good guess?
#
# `Costs.best` does the same as your function. `fit_costs` is least squares without costs
# below 0. We also predict the time of 16 workers, then measure it.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.overheads.cost_model import fit_costs

costs = fit_costs(naps)
[sixteen] = time_crews(nap_piece, 48, [16], rounds=1)[16]
print(f"16 workers: predicted {costs.seconds(16):.2f} s, measured {sixteen:.2f} s")
reveal("06-naps", costs.best(most=48), computed=True)

# %% [markdown]
# As *k* grows, *b*/*k* falls and *c·k* rises, and **their sum is smallest where the two
# are equal**, at $k = \sqrt{b/c}$, or at a whole number beside it. Four times as much
# work is worth twice as many workers, not four times. *a* does not matter.

# %% [markdown] tags=["instructor"]
# ## The knee: 9 minutes
#
# Before the figure, have everyone draw the curve for their own machine, with its number
# of cores. Compare with the neighbour's machine afterwards: the knee is elsewhere.
#
# Expected: "twice as many workers as cores, to be safe". The measurement says what the
# safety costs.
#
# When late: the figure only.

# %% [markdown]
# ## Work that needs a core
#
# Now 24 pieces of `busy_piece`. This work keeps a core busy, so at most as many workers
# as usable cores can work at the same time.

# %% [markdown]
# We predict first. *a* and *c* should hardly depend on the kind of work, so we keep
# them. *b* is the time of all pieces without any worker:

# %%
from parallel_by_hand.overheads.how_many_workers import time_without_workers

b = time_without_workers(busy_piece, pieces=24)
predicted = costs._replace(b=b)  # a copy with another b
print(f"b = {1000 * predicted.b:.0f} ms")

# %%
from parallel_by_hand.overheads.how_many_workers import plot_crews
from sidebyside import machine

cores = machine().usable_cores
capacity = machine().capacity(cores)
few = {1, 2, 3, 4, cores // 2, cores, cores + 2} - {0}
work = time_crews(busy_piece, pieces=24, crews=sorted(few), rounds=3)
knee = plot_crews(work, predicted, capacity, most=max(8, cores + 2))
knee

# %% [markdown]
# Only the dots are *measured*; the three lines are computed. *Ideal* is the time of one
# worker, divided by k. *The most this machine can do* divides by its measured capacity
# once k is larger than that. *Predicted* is our formula, as if each worker had a core.

# %% [markdown]
# On a quiet machine the dots follow the prediction up to the number of cores. From
# there on more workers bring nothing, and each costs its *c*. The bend is called the
# **knee**. A job that computes should get as many workers as there are usable cores, or
# fewer, if the formula says so.
#
# Dots lie above the prediction if another program had a core, or *b* was measured in a
# quieter moment. With one core, or beside busy programs, the knee is at 1.
#
# Threads need no new process, but under the GIL, threads that compute take turns. Where
# a free-threaded Python (lesson 3) has NumPy, SciPy and psutil, the next cell times crews
# of threads there. Their speed-up, too, grows up to the number of free cores:

# %% tags=["nbval-ignore-output"]
from sidebyside.programs.free_threaded import run_without_gil

run_without_gil("overheads/how_many_workers.py", "--threads", "--rounds", 2)

# %% [markdown]
# ## How many cores are there?
#
# Different sources count them differently:

# %% tags=["nbval-ignore-output"]
import os

print("os.cpu_count():", os.cpu_count())
machine()

# %% [markdown]
# * A **physical core** computes. Many pose as two **logical cores**: a second program
#   uses what the first leaves idle. That helps work which often waits, and hardly a loop
#   that keeps the core full. The capacity tells.
# * A **container limit** is a share of time. In a container with 2 of 64 cores
#   `os.cpu_count()` says 64, and a pool that believes it starts 64 workers, which take
#   turns on two cores.

# %% [markdown]
# *Usable cores* respect that limit. Always say how many workers you want, and take the
# usable cores as the most.

# %% [markdown] tags=["instructor"]
# ## Chunks: 8 minutes
#
# Two teachers mark 48 exams. Do they halve the pile or take one at a time from the
# middle of the table? Ask what goes wrong in each case, and what people do in fact.
#
# When late: the timelines only, skip the curve.

# %% [markdown]
# ## One piece at a time, or many?
#
# A pool hands out pieces in **chunks**. With small chunks there are many messages. With
# large ones there is another danger. Our job has 48 naps, together 1.2 s, for four
# threads, since naps need no core. Most are short, a few are long: a **heavy tail**, as
# in files of all sizes, or in sentences.

# %%
from lessons.props.overheads_and_how_many_workers import heavy_tailed_naps

lengths = heavy_tailed_naps(48, total=1.2)
for start in range(0, 48, 12):
    print("naps in ms:", *(round(1000 * nap) for nap in lengths[start : start + 12]))
guess("06-tail", None, "Four workers, chunks of 12: done after how many s?", "s")

# %%
from lessons.props.overheads_and_how_many_workers import timeline_of_chunks
from sidebyside import draw_timelines

timelines = {f"chunks of {n}": timeline_of_chunks(lengths, n) for n in (12, 1)}
lasted = {}
for name, timeline in timelines.items():
    spans = timeline.spans
    lasted[name] = max(s.end for s in spans) - min(s.start for s in spans)
    print(f"{name:<12} {lasted[name]:.3f} s")
reveal("06-tail", lasted["chunks of 12"], "s", simulated=True)
draw_timelines(timelines, stamp="simulated")

# %% [markdown]
# 1.2 s of naps on four workers could be done in 0.3 s. With chunks of 12 each worker gets
# one chunk. The worker with the long naps works, the others wait. With chunks of 1, a
# free worker takes the next piece: **small chunks balance.**

# %% [markdown]
# But small chunks cost messages. Here are 1000 tiny naps, handed to four waiting
# processes.

# %%
from time import perf_counter

tiny = heavy_tailed_naps(1000, total=0.1)
took = {chunk: [] for chunk in (1, 4, 16, 62, 250, 500)}
with ProcessPoolExecutor(4, CONTEXT) as pool:
    list(pool.map(nap_for, [0.1] * 4))  # all are up
    for _ in range(3):
        for chunk in took:
            start = perf_counter()
            list(pool.map(nap_for, tiny, chunksize=chunk))
            took[chunk].append(perf_counter() - start)
alt = "time of the job against its chunks' size"
fig, ax = figure(width=6, height=2.4, stamp="simulated", alt=alt)
times = [median(took[chunk]) for chunk in took]
ax.semilogx(list(took), times, "o-", color=COLOURS[0])
ax.set_xticks(list(took), list(took))
ax.minorticks_off()
ax.set(xlabel="pieces in a chunk", ylabel="time (s)", ylim=0)
fig

# %% [markdown]
# At the left the job pays for 1000 messages. At the right two chunks of 500 leave two
# workers with nothing to do. Between them lies a wide valley: the size need not be exact.
# A good start is ten chunks for each worker: enough to balance, few enough to be cheap.
# The default of `ProcessPoolExecutor.map` is chunks of 1.

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 20 minutes
#
# The longest; the example by hand carries it.
#
# When late: at home.

# %% [markdown]
# ## Exercise 2: the best chunk
#
# You know the seconds of each task, and hand tasks out in order, in chunks of the same
# size; only the last may be smaller. A free worker takes the next chunk, which takes
# `overhead` seconds more than its tasks.
#
# Write `chunk_size(tasks, workers, overhead)`: the size, from 1 to the number of tasks,
# with which the job is done first.
#
# By hand first: with tasks `[1, 1, 1, 1, 4]`, two workers and overhead 1, chunks of 1, 2,
# 3, 4, 5 are done after 9, 8, 6, 5, 9. So the answer is 4.
# <!-- exercise: 06-chunk -->
#
# <details><summary>Hint 1: a question</summary>
#
# For one size: when does each worker become free, and which worker takes the next chunk?
# Draw the timeline of the example with chunks of 2.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Keep a list with one number for each worker: the time when it is free, 0 at first. Go
# through the chunks. Each belongs to the smallest number of the list, and makes it
# larger. What is the largest number in the end?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In a function `done(size)`: `free = [0.0] * workers`; for `start` in `range(0,
# len(tasks), size)` let `first = free.index(min(free))` and add `overhead +
# sum(tasks[start : start + size])` to `free[first]`; return `max(free)`. Then take the
# `min` of all sizes with `key=done`.
#
# </details>


# %% exercise="06-chunk"
def chunk_size(tasks: list[float], workers: int, overhead: float) -> int:
    """The number of tasks in a chunk with which the job is done first."""

    ### BEGIN SOLUTION
    def done(size: int) -> float:
        free = [0.0] * workers
        for start in range(0, len(tasks), size):
            first = free.index(min(free))
            free[first] += overhead + sum(tasks[start : start + size])
        return max(free)

    return min(range(1, len(tasks) + 1), key=done)
    ### END SOLUTION


# %%
check("06-chunk", chunk_size)

# %% [markdown] tags=["why"]
# <!-- why: 06-chunk -->
# Why it works: a pool plans nothing; a free worker takes the next chunk. So its timeline
# can be computed, task by task, before it is run. In practice you know the tasks' times
# only afterwards, or for a sample. That is enough, since the valley is wide. If you know
# them before, hand out the longest tasks first: then nothing long can begin late.

# %% [markdown] tags=["instructor"]
# ## Workers that have workers: 9 minutes
#
# Draw two cores and four threads that wait for each other at a barrier: a thread on a
# core spins while the thread that it waits for has none. That is why oversubscription is
# worse than taking turns.
#
# When late: the table, and the one line of the cure.

# %% [markdown]
# ## Workers that have workers of their own
#
# A matrix product in torch or NumPy already uses all cores, by threads of its library,
# the *BLAS*. Now let a process for each core do matrix products: each of them starts a
# thread for each core. With N cores that makes N × N threads.

# %% [markdown]
# We give about 100 products to 1 or *many* processes with 1 or *many* threads each.
# *Many* is your number of cores, from 2 to 16.

# %%
import torch
import torch.distributed as dist


def multiply(times: int, threads: int) -> float:
    """Seconds until all ranks have done `times` products each."""
    torch.set_num_threads(threads)
    matrix = torch.rand(200, 200)
    matrix @ matrix  # the first call starts the threads
    dist.barrier()
    start = perf_counter()
    for _ in range(times):
        matrix @ matrix
    dist.barrier()
    return perf_counter() - start


# %%
from sidebyside import run_ranks

many = min(max(2, cores), 16)
layouts = {
    "one process, one thread": (1, 1),
    "one process, many threads": (1, many),
    "many processes, one thread each": (many, 1),
    "many processes, many threads each": (many, many),
}
products = {name: [] for name in layouts}
for _ in range(3):
    for name, (processes, threads) in layouts.items():
        share = 100 // processes
        seconds = run_ranks(multiply, share, threads, world_size=processes)
        products[name].append(max(seconds))
for name, seconds in products.items():
    print(f"{name:<34} {1000 * median(seconds):8.1f} ms")

# %% [markdown]
# More threads that compute than cores to compute on is called **oversubscription**. It
# can be much worse than taking turns: the threads of one product wait for each other, and
# a thread that waits for another thread keeps its own core busy with waiting. Row 2 is
# slow, too, if another program has a core. With one core two threads merely take turns.

# %% [markdown]
# **The cure: processes × threads = cores, at most.** Mostly that means one thread in each
# worker. `run_ranks` sets it for you. In a pool of your own, set it as each worker
# starts. With one core both numbers are 1.

# %% tags=["nbval-ignore-output"]
from multiprocessing import get_context

cure = {"initializer": torch.set_num_threads, "initargs": (1,)}
with ProcessPoolExecutor(1, get_context("spawn"), **cure) as pool:
    threads = pool.submit(torch.get_num_threads).result()
print("threads here:", torch.get_num_threads(), "| in a cured worker:", threads)

# %% [markdown]
# For NumPy with OpenBLAS, on Linux and Windows, set the environment variable
# `OMP_NUM_THREADS=1` before Python starts; this BLAS reads it once, when it is loaded. A
# `DataLoader` gives each of its workers one torch thread.

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 10 minutes
#
# For the room, in pairs, without a computer.

# %% [markdown]
# ## Exercise 3: four slow crews
#
# Four crews of two workers do the same eight pieces of 30 ms. Each should be done after
# 120 ms, and each takes about twice as long. The workers wait or sleep, so these pictures
# look the same on every machine. What has to be mended in each?
#
# Choose among `"small pieces"`, which take as long to hand out as to do; `"uneven
# shares"`; `"a lock"`, with which only one may work at a time; `"a serial part"` before
# the workers begin; `"slow start"` of the workers, one by one; and `"too many threads"`.
# <!-- exercise: 06-timelines -->
#
# <details><summary>Hint 1: a question</summary>
#
# Go along each lane and ask wherever it is grey: for whom does this worker wait? For
# main, for the other worker, or for nobody because it is done? Below the figure,
# `print(four_timelines()["A"].text())` draws one in letters.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Two of the four have a lane of main, so main has something to do there. Is it before
# the work, or again and again? In the other two, compare the two workers: are they ever
# busy at the same moment?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In one crew the workers are never busy together; in one, one is done long before the
# other; in one, main works first and the workers only then; in one, main and workers
# alternate. Find the words for these four, and write `{"A": "...", "B": "...", ...}`.
#
# </details>

# %%
from lessons.props.overheads_and_how_many_workers import four_timelines

draw_timelines(four_timelines(), stamp="simulated")

# %% exercise="06-timelines"
causes = ...  # {"A": "slow start", "B": ...} with the right words
### BEGIN SOLUTION
causes = {
    "A": "a lock",
    "B": "small pieces",
    "C": "uneven shares",
    "D": "a serial part",
}
### END SOLUTION

# %%
check("06-timelines", causes)

# %% [markdown] tags=["why"]
# <!-- why: 06-timelines -->
# Why: in A the workers are never busy together, and neither has less to do: they take
# turns, so something lets only one of them work. In B main hands out one piece to each
# and takes nearly as long for that as they take to do it: larger chunks. In C one has
# seven pieces and the other one: smaller chunks. In D no worker can begin before main is
# done; more workers would not help, as Amdahl knew. A slow start would show one worker
# beginning later than the other, once. Too many threads do not show as grey at all: their
# spans get longer, and CPU time tells.

# %% [markdown]
# ## What we saw
#
# | overhead | paid | how to pay less |
# |---|---|---|
# | start a process | once for each worker: *c* | a pool, kept; fewer imports |
# | send a message | once for each chunk | larger chunks |
# | wait for the slowest | at the end | smaller chunks |
# | too many threads | all the time | processes × threads = cores |
#
# * A piece must take longer than the message about it: two random numbers are best drawn
#   where you are.
# * T(k) = a + b/k + c·k is smallest near √(b/c), and work that computes gains only up to
#   the knee, the number of usable cores.
#
# `progress("06")` shows where you are. Try the demo in a terminal: `python
# demos/overheads/how_many_workers.py --function mine:f`, where `mine.py` in the current
# folder defines `f`, a function of one whole number.
#
# ## Next
#
# You know what workers cost and how many to take. Lesson 7 puts them to work: on a matrix
# product, and on a generated data set, where a worker is killed in the middle.
