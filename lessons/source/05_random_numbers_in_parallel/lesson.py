# ---
# title: 05 Random numbers in parallel
# question: Do my workers draw the same random numbers, and should they?
# needs: two CPU cores, no GPU
# minutes: 50
# ---

# %% [markdown]
# # 5. Random numbers in parallel
#
# Eight workers make training data at random. Are these eight data sets, or one data set
# eight times? No error message will tell you, and each number looks as random as the
# next.
#
# We ask the machine what its workers draw. Then we measure what duplicated numbers
# cost, and give every piece of work a stream of random numbers of its own.
#
# *You will be able to* tell duplicated streams from independent ones, seed workers, a
# `DataLoader` and replicas, and get the same result from any number of workers.
#
# *Before this:* lesson 4. *Time:* 50 minutes, the exercises 25 more. *Needs:* two CPU
# cores, no GPU. Nothing here is about speed, so one core shows the same.

# %% [markdown] tags=["instructor"]
# ## What workers draw: 12 minutes
#
# Ask who has heard that NumPy's numbers are the same in all workers. Most have, and
# most know one half of it. Have the room fill in the table on the board, row by row, a
# show of hands for each entry, before you run it. Count the EQUALs of the board.
#
# Expected: everybody puts EQUAL at `random` under fork. It was true until Python 3.6.
#
# When late: skip the second table (`--preload`), keep the six draws of `run_ranks`.

# %% [markdown]
# ## What do two workers draw?
#
# A **generator** is an object with a *state*. Each draw computes a number from the
# state, and the next state. Equal states give equal numbers, for ever. A **seed** is
# the number from which the first state is made. All that one generator draws, number
# after number, is a **stream**. Two streams are *independent* if knowing one tells
# nothing about the other.
#
# Lesson 2 started processes in three ways: `fork` copies the parent, `spawn` starts
# from nothing, `forkserver` forks a small server. The demo starts two workers in each
# way. Each draws a number from six generators: from `np.random`, before and after the
# parent has used it; from `random` and from torch, which the parent has used; from a
# NumPy `Generator` that the parent has sent, and from one of its own. That makes a
# table of 6 × 3 entries (on Windows 6 × 1).

# %%
from sidebyside import check, guess, hint, progress, reset, solution

guess("05-equal", None, "In how many of the 18 entries are both numbers EQUAL?")

# %% tags=["nbval-ignore-output"]
from contextlib import redirect_stdout
from io import StringIO

from sidebyside import reveal, run_demo

with redirect_stdout(StringIO()) as table:
    run_demo("random_numbers/forked_random_numbers.py")
print(table.getvalue())
reveal("05-equal", table.getvalue().count("EQUAL"))

# %% [markdown]
# One rule explains the table: **workers draw equal numbers when they hold copies of the
# same state.** So ask of each entry: was there a state to copy, and did the worker keep
# the copy? On Linux, with Python 3.11 to 3.14, NumPy 2.4 and torch 2.13, we read:
#
# | generator | why |
# |---|---|
# | `np.random`, first used by the worker | NumPy 2 loads it at its first use. Before, there is no state to copy: each worker makes its own. |
# | `random`, used by the parent | Fork copies the state. Since Python 3.7 the worker replaces it at once, even after `random.seed(0)`. (Not so a `random.Random(0)` of your own.) |
# | `np.random`, used by the parent | Fork copies the state and nobody replaces it: EQUAL. The other two load NumPy anew. |
# | `Generator`, sent by the parent | Fork copies it with the rest of the memory; the other two pack, send and unpack it. A copy in all three: EQUAL. |
# | `Generator`, made by the worker | `np.random.default_rng()` asks the operating system for a seed. |
# | `torch`, used by the parent | The state exists as soon as torch is imported. Fork copies it: EQUAL. The other two import torch anew. |
#
# In books and posts you find other tables. They were right, with other versions. **The
# first entry of the fork column flips when anything in the parent has touched
# `np.random`**: a library will do, or a type annotation that names it. When we wrote
# the demo, an annotation did. (Python 3.14 does not look at annotations before someone
# asks for them, so there it would not have.)

# %% [markdown]
# ### A server with a past
#
# A forkserver can import modules before it forks, so that workers start faster. What
# it has imported, its workers get as copies. Which entries change?

# %% tags=["nbval-ignore-output"]
forked = "random_numbers/forked_random_numbers.py"
run_demo(forked, "--preload", "torch", "numpy.random")

# %% [markdown]
# Three entries of the middle column have become EQUAL, though no line of the program's
# own code is different.
#
# The same is true in this notebook. `run_ranks` uses a forkserver that has imported
# torch, where the system has one. We ask three ranks for a number, twice.

# %%
import torch

from sidebyside import run_ranks


def draw() -> float:
    return torch.rand(()).item()


six_draws = run_ranks(draw, world_size=3) + run_ranks(draw, world_size=3)
len(set(six_draws))

# %% [markdown]
# Six draws in six processes, and one number. Without a forkserver, on Windows, it would
# be six: that is the table's last row, under spawn.
#
# Remember this when two copies of a network start with equal weights. They may be
# equal by luck, and the luck ends on another machine. Whatever must be equal, and
# whatever must differ: say it with a seed.

# %% [markdown] tags=["instructor"]
# ## Pi: 10 minutes
#
# Draw the quarter circle in the unit square and throw five points with the class. Write
# the eight equal estimates on the board and ask what they seem to say. Someone will
# say: they agree, so they must be precise. That is the trap. Agreement between workers
# means something only if they could have disagreed.
#
# When late: the demo only, leave out the 64 workers and the figure.

# %% [markdown]
# ## What a duplicated stream costs
#
# Throw points into the unit square. The share that falls into the quarter circle is
# π/4. So four times that share is an estimate of π:

# %%
from demos.random_numbers.monte_carlo_pi import circle_hits, copied, spawned
from sidebyside import show

show(circle_hits)
show(copied)
show(spawned)

# %% [markdown]
# All workers call `circle_hits`. With `copied` each gets a copy of one generator, as in
# the table's fourth row. With `spawned` each gets its own. (This `spawn` is NumPy's word,
# and starts no process: what it makes, its *children*, are seeds.) Each worker repeats
# its experiment 1000 times. The *root mean square* of the 1000 errors, the root of the
# mean of their squares, says how far off an estimate is as a rule.

# %%
run_demo("random_numbers/monte_carlo_pi.py", "--workers", 8)

# %% [markdown]
# Eight copied workers agree to the last digit. Their agreement says nothing about π:
# **the mean of eight equal numbers is as wrong as one of them.** Seven workers have
# warmed the room.
#
# Spawned workers disagree, and that is their use. The error of a mean of $k$
# independent estimates is the error of one divided by $\sqrt k$. Here that is
# $\sqrt{\pi\,(4-\pi)\,/\,(n\,k)}$ for $n$ points per worker, the column `theory`.
#
# Now 64 workers; two processes do their work. `pi_errors` gives the error of one worker,
# of two together, and so on.

# %%
guess("05-pi", None, "How many times smaller is the error of 64 spawned than of 1?")

# %%
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from demos.random_numbers.monte_carlo_pi import pi_errors

POINTS, REPEATS, WORKERS = 1000, 300, 64
error = {}
spawn = multiprocessing.get_context("spawn")
with ProcessPoolExecutor(2, mp_context=spawn) as pool:
    for streams in copied, spawned:
        inputs = streams(0, WORKERS), [POINTS] * WORKERS, [REPEATS] * WORKERS
        error[streams] = pi_errors(list(pool.map(circle_hits, *inputs)), POINTS)
reveal("05-pi", error[spawned][0] / error[spawned][-1])

# %%
import math

import numpy as np

k = np.arange(1, WORKERS + 1)
theory = np.sqrt(math.pi * (4 - math.pi) / (POINTS * k))

# %%
from sidebyside import COLOURS, figure


def plot_errors():
    alt = "the error of copied streams stays, that of spawned ones falls as 1/√k"
    fig, ax = figure(alt=alt)
    ax.loglog(k, theory, color="black", linestyle=":")
    ax.text(9, theory[8] * 1.25, "theory, 1/√k")
    styles = {copied: (COLOURS[1], "--"), spawned: (COLOURS[0], "-")}
    for streams, (colour, line) in styles.items():
        ax.loglog(k, error[streams], color=colour, linestyle=line)
        ax.text(66, error[streams][-1], streams.__name__, color=colour, va="center")
    ax.set(xlabel="workers k", ylabel="error of π", xlim=(1, 100))
    ax.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
    ax.set_yticks([0.01, 0.02, 0.05], [0.01, 0.02, 0.05])
    ax.minorticks_off()
    return fig


plot_errors()

# %% [markdown]
# The error against the number of workers, both axes logarithmic. Spawned streams follow
# the theory down to an eighth of the error. Copied streams stay where one worker is.
# (Theirs is another stream, so its error is not quite that of the first spawned one.)
#
# In training the damage is harder to see. Augmentations (random changes to the images,
# such as a shift) repeat, so the network sees less variety; a simulated data set has a
# fraction of the examples that you paid for.

# %% [markdown] tags=["instructor"]
# ## Streams: 10 minutes
#
# `seed + worker` is what nearly everyone writes, and it works within one run. Let the
# room find out what goes wrong: ask for worker 1 of the run with seed 0, then for
# worker 0 of the run with seed 1. Somebody averages over ten seeds for a paper; ask how
# many independent runs these were.
#
# When late: skip the paragraph on torch's 32 bits.

# %% [markdown]
# ## A stream for everyone
#
# `SeedSequence` takes one seed and makes as many independent seeds as you ask for.

# %%
np.random.SeedSequence(2026).spawn(2)

# %% [markdown]
# Each child has the parent's seed, printed as `entropy`, and a key that says which
# child it is. A *hash*, which mixes numbers thoroughly, makes a state of the two. You
# need not spawn to reach a child, seed and key are enough:

# %%
from demos.random_numbers.loader_workers import stream

show(stream)
second_child = np.random.SeedSequence(2026).spawn(2)[1]
np.random.default_rng(second_child).random(), stream(2026, 1).random()

# %% [markdown]
# Why so much ceremony? Many programs seed a worker with `seed + worker`. Take ten runs,
# with the seeds 0 to 9, of ten workers each.

# %%
guess("05-streams", None, "seed + worker: how many of these 100 streams are different?")

# %%
runs = [(seed, worker) for seed in range(10) for worker in range(10)]
added = {np.random.default_rng(seed + worker).random() for seed, worker in runs}
hashed = {stream(seed, worker).random() for seed, worker in runs}
reveal("05-streams", len(added))
print("with keys:", len(hashed))

# %% [markdown]
# **Worker 1 of the run with seed 0 is worker 0 of the run with seed 1.** Whoever runs
# the program with ten seeds, to be sure of a result, has fewer than two independent
# runs' worth of streams. Keys of numbers below 2³² collide in no such way.
#
# ### torch
#
# A `torch.Generator` is a generator of one's own, as in NumPy. torch has no
# `SeedSequence`; take its seeds from NumPy's. Two things to know:


# %%
def torch_stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


one = torch.rand(3, generator=torch_stream(5))
other = torch.rand(3, generator=torch_stream(5 + 2**32))
torch.equal(one, other)

# %% [markdown]
# First: **on the CPU, torch uses the last 32 bits of a seed only.** Among 10,000 random
# seeds of 32 bits, two are equal in about 1 % of all cases; among 100,000, in 69 %.
# Where that matters, draw in NumPy and call `torch.from_numpy`.
#
# Second: send seeds, not generators. A NumPy `Generator` arrives as a copy, as you saw.
# A `torch.Generator` may not arrive at all: torch 2.13 cannot pass one to a process
# started by `spawn` or `forkserver` (PyTorch issue 146828).

# %% [markdown] tags=["instructor"]
# ## DataLoader: 8 minutes
#
# People have read that DataLoader duplicates NumPy's numbers, and paste a
# worker_init_fn that calls np.random.seed. That was needed until torch 1.8. What is
# still needed today is in the last column. Ask for the reason before you scroll: the
# dataset is copied to each worker, and its generator is part of it.
#
# When late: show the demo's output, skip the two counts.

# %% [markdown]
# ## What a DataLoader seeds
#
# `DataLoader(num_workers=2)` sends a copy of the dataset to two worker processes. Here
# is a dataset whose items are random, from four generators. One of them belongs to the
# dataset. The demo loads two epochs of four items.

# %%
from demos.random_numbers.loader_workers import Noise

show(Noise)
guess("05-loader", None, "Of eight numbers from dataset.rng, how many are different?")

# %%
run_demo("random_numbers/loader_workers.py")

# %% [markdown]
# In each epoch `DataLoader` draws a seed, adds the worker's number, and seeds `random`,
# `np.random` and `torch` in the worker. (NumPy only since torch 1.9; much advice is
# older.) This is `seed + worker` again, but with a seed drawn from a huge range, not 0,
# 1, 2: two runs hardly ever meet. It comes from `DataLoader(generator=...)`, or else
# from torch's global generator, the one that `torch.rand` uses. So one
# `torch.manual_seed` in the parent fixes these three columns.
#
# The fourth generator is the dataset's own. It is copied for each worker, and in each
# epoch anew. (With `persistent_workers=True` the workers live for all epochs, and so do
# their copies and seeds.) The cure is the argument `worker_init_fn`, a function that
# every worker calls once before it begins. The demo's last two tables had this one. We
# count, without it and with it:

# %%
from demos.random_numbers.loader_workers import make_loader, new_stream

show(make_loader)
show(new_stream)
method = "spawn"
if "forkserver" in multiprocessing.get_all_start_methods():
    method = "forkserver"
    multiprocessing.set_forkserver_preload(["torch"])  # once, not in each worker
different = {}
for init in None, new_stream:
    loader = make_loader(Noise(4), workers=2, method=method, init=init)
    numbers = [rng for epoch in range(2) for *_, rng in loader]
    different[init] = len(set(numbers))
reveal("05-loader", different[None])
print("with new_stream:", different[new_stream])

# %% [markdown]
# **Eight items, two numbers.** With `new_stream` there are eight, because
# `get_worker_info().seed` differs for each worker and epoch. Unless the workers are
# forked, dataset and function must stand in a module, since a worker cannot import a
# notebook's cells (lesson 2).

# %% [markdown] tags=["instructor"]
# ## Any number of workers: 7 minutes
#
# This is the sentence to take home: streams belong to the work, not to the workers. Ask
# what else "worker" hides in their own programs: number of GPUs, batch size per GPU,
# resumed runs.
#
# When late: run both cells at once and read only the rule.

# %% [markdown]
# ## The same result for any number of workers
#
# With `new_stream` the numbers are independent and reproducible. Now use three workers
# instead of two:

# %%
for workers in 1, 2, 3:
    loader = make_loader(Noise(4), workers, method, new_stream)
    print("workers:", workers, "|", *(f"{rng:.4f}" for *_, rng in loader))

# %% [markdown]
# Item 2 is made by worker 0 of two, and by worker 2 of three. So its number is another
# one, and a colleague with more cores gets another training run.
#
# The cure is to ask *for what* a number is drawn, not *by whom*. An item is known by
# the seed, the epoch and its index. The dataset `NoiseByItem` makes a stream of these
# three for each item. (You write its core in exercise 2.) Two epochs of four items:

# %%
from demos.random_numbers.loader_workers import NoiseByItem

show(NoiseByItem)
for workers in 0, 2, 3:
    dataset = NoiseByItem(4)
    loader = make_loader(dataset, workers, method)
    for epoch in 0, 1:
        dataset.epoch = epoch
        numbers = [f"{number:.4f}" for number in loader]
        print("workers:", workers, "| epoch:", epoch, "|", *numbers)

# %% [markdown]
# **With a stream for each piece of work, any number of workers gives the same items**,
# even none. An item can be made again alone, to look at it. A run that was stopped can
# go on in the middle.
#
# The dataset cannot know the epoch: set it before each one, or all epochs are the same.
# (With `persistent_workers=True` the workers keep their first copy and never see it.)
#
# ## When equal is right
#
# Later in the course every rank trains a **replica**, a copy of one network. Replicas
# must begin with equal weights, or they are different networks. Their augmentation must
# differ, or they all do the same work. A rank finds its number in `RANK`, an
# environment variable: a setting that a program is started with.
#
# Here both come from one stream. First all ranks have the same, then each its own.

# %%
import os


def start_of_training(own: bool) -> list[list[int]]:
    key = [int(os.environ["RANK"])] if own else []
    return stream(2026, *key).integers(100, size=(2, 4)).tolist()


for own in False, True:
    print("each rank its own stream" if own else "one stream for all ranks")
    for weights, noise in run_ranks(start_of_training, own, world_size=3):
        print("  weights", weights, " noise", noise)

# %% [markdown]
# One stream for all: the weights are equal, as they must be, and so is the noise. A
# stream each: the noise differs, as it must, and so do the weights. **One seed per
# rank cannot be right for both.** A program needs a key for each *use* of random
# numbers, and only some of these keys contain the rank. Exercise 3 is such a program.

# %% [markdown] tags=["instructor"]
# ## Limits: 3 minutes
#
# Draw three numbers of very different size on the board and add them in two orders with
# three significant digits. That is the whole story. Lesson 11a has to compare losses
# "but for rounding" for this reason.
#
# When late: leave it as reading.

# %% [markdown]
# ## Reproducible up to what?
#
# All numbers are now the same for any number of workers. Is their sum? Each worker adds
# up its share, then the shares are added.

# %%
guess("05-sums", None, "1, 2, 3, 4 workers add the same numbers: how many sums?")


# %%
def add_up(numbers) -> float:
    """The sum, added from left to right."""
    total = 0.0
    for number in numbers:
        total += number
    return total


numbers = stream(2026).random(10_000).tolist()
sums = {}
for workers in 1, 2, 3, 4:
    shares = np.array_split(numbers, workers)
    sums[workers] = add_up(add_up(share) for share in shares)
    print(f"workers: {workers} | {sums[workers]:.12f}")
reveal("05-sums", len(set(sums.values())))

# %% [markdown]
# Floating-point addition rounds, so its result depends on the order. **The same numbers
# in another order have another sum**, here by about 10⁻¹¹. What helps:
#
# * Count in integers, as `circle_hits` does: their sum is exact in every order.
# * Cut the work into the same pieces for any number of workers, and add the pieces in
#   their own order, not in the order in which they arrive.
# * `math.fsum` rounds only once, at the end.
#
# And there is an end to it. NumPy may improve a distribution, torch promises equal
# numbers neither between releases nor between CPU and GPU. So write versions and seed
# beside every result.
#
# ## What we saw
#
# | you have | write |
# |---|---|
# | workers that simulate | `SeedSequence(seed).spawn(workers)`, one child for each |
# | results for any number of workers | `SeedSequence(seed, spawn_key=(epoch, item))` |
# | a dataset that uses global generators | `DataLoader(generator=...)`, it seeds them |
# | a dataset with its own generator | a `worker_init_fn`, or a stream per item |
# | replicas | one key for the weights, a key with the rank for the noise |
#
# * Workers draw equal numbers when they hold copies of one state. Which do depends on
#   the library, its version, the start method, and what was imported before.
# * Copied streams: 64 workers have the error of one. Spawned: an eighth of it.
# * With `seed + worker`, ten runs of ten workers have 19 streams, not 100.
# * Equal numbers in another order have another sum.
#
# Three exercises follow. Stuck? `hint("05-shared")` gives one hint per call,
# `solution("05-shared")` the code and why it works; `progress("05")` shows where you
# are.

# %% [markdown] tags=["instructor"]
# ## Exercises: homework, or 25 minutes
#
# 05-shared is pure Python and suits everybody. 05-items is the lesson's main sentence.
# 05-replicas is short to write and has the most instructive wrong answers: nearly
# everyone gives rank 0 a noise that equals the weights.
#
# When late: 05-items in the room, the others at home.

# %% [markdown]
# ## Exercise 1: find the duplicates
#
# You get the numbers that some workers have drawn, one list per worker. Two fresh
# numbers of `random` or NumPy, with their 53 random bits, are never equal, for all
# practical purposes. (`torch.rand` has 24 bits: of 10,000 numbers about three pairs are
# equal.) So workers that share a number share a stream, even if one began later in it.
#
# Write `shared(outputs)`: all pairs `(i, j)` with `i < j` of workers that share at
# least one number. Lists may be empty, of different lengths, and stay as they are.
#
# By hand first: for `[[0.1, 0.2, 0.3], [0.7, 0.8], [0.2, 0.3, 0.9]]` the answer is
# `[(0, 2)]`.
# <!-- exercise: 05-shared -->
#
# <details><summary>Hint 1: a question</summary>
#
# Worker 2 in the example draws what worker 0 draws, one step later. Would a comparison
# of their first numbers notice?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The order within a list does not matter, only what is in it. Which type of Python is
# made for that question? And who must be compared with whom?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Make a set of each list. Two loops go over all `i` and over all `j` above `i`. Keep
# the pair when the intersection `sets[i] & sets[j]` is not empty.
#
# </details>


# %% exercise="05-shared"
def shared(outputs: list[list[float]]) -> list[tuple[int, int]]:
    """All pairs (i, j), i < j, of workers that have drawn a number in common."""
    ### BEGIN SOLUTION
    sets = [set(numbers) for numbers in outputs]
    count = len(sets)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return [(i, j) for i, j in pairs if sets[i] & sets[j]]
    ### END SOLUTION


# %%
check("05-shared", shared)

# %% [markdown] tags=["why"]
# <!-- why: 05-shared -->
# Why it works: a double has 53 random bits, so two draws that are equal by chance are
# as rare as 1 in 9,000,000,000,000,000. A common number means a common state. Sets find
# it wherever it stands in the lists. All pairs must be looked at: equal workers need
# not be neighbours.

# %% [markdown]
# ## Exercise 2: numbers for items
#
# A worker prepares its share of the items of an epoch and needs a random number in
# [0, 1) for each. Write `noise_of(seed, epoch, items)`, which returns them as a list,
# in the order of `items`. The number of an item depends on seed, epoch and item, never
# on the share it comes in. Other seed, other epoch or other item: other number. Each of
# the three may be any whole number from 0 to 2³² − 1.
#
# By hand first: one worker gets the items [0, 1, 2, 3]. Of two workers, one gets [0, 2]
# and one [1, 3]. Which of their numbers must be equal?
# <!-- exercise: 05-items -->
#
# <details><summary>Hint 1: a question</summary>
#
# If a worker has one stream for its whole share, on what does the second number of that
# stream depend?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Make a new stream for each item, with all that the number may depend on as its key. If
# you add the three to one integer, which items of which epochs get the same?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `stream(seed, epoch, item).random()` is the number of one item. Return a list of it
# for all items.
#
# </details>


# %% exercise="05-items"
def noise_of(seed: int, epoch: int, items: list[int]) -> list[float]:
    """A random number for each of these items, whoever asks for it."""
    ### BEGIN SOLUTION
    return [stream(seed, epoch, item).random() for item in items]
    ### END SOLUTION


# %%
check("05-items", noise_of)

# %% [markdown] tags=["why"]
# <!-- why: 05-items -->
# Why it works: the state of each stream follows from seed, epoch and item alone, so
# nothing else can have an influence: not the share, not the order, not what was drawn
# before. The key is hashed, not added, so (epoch 0, item 1) and (epoch 1, item 0) are
# different streams. To make a stream takes as long as some dozens of single draws; if
# an item needs many numbers, it takes them all from its one stream.

# %% [markdown]
# ## Exercise 3: replicas and augmentation
#
# Write `prepare(rank, seed)`, which each rank calls once. It returns two lists of four
# random numbers: the start of the weights and the noise for the first item.
#
# * The weights are equal on all ranks. Another seed gives other weights.
# * The noise differs between any two ranks, and between any two seeds: rank 1 of seed 0
#   has not the noise of rank 0 of seed 1. No rank's noise is the weights, of this seed
#   or of another.
# * Two calls with the same rank and seed return the same.
# * The global generators of `random`, NumPy and torch are afterwards as they were.
#
# There are 10,000 ranks at most; a seed is any whole number from 0 to 2³² − 1.
#
# By hand first: write down what four ranks get if both lists come from `seed + rank`.
# <!-- exercise: 05-replicas -->
#
# <details><summary>Hint 1: a question</summary>
#
# On which of `rank` and `seed` may the weights depend? On which must the noise depend?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# You need two families of streams under one seed. A key can be longer than one number:
# let its first number say which family it is. What does rank 0 get if the families have
# no such name?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The weights come from `stream(seed, 0)`, the noise from `stream(seed, 1, rank)`. Take
# `.random(4).tolist()` of each.
#
# </details>


# %% exercise="05-replicas"
def prepare(rank: int, seed: int) -> tuple[list[float], list[float]]:
    """Weights that are the same on all ranks, and noise that is this rank's own."""
    ### BEGIN SOLUTION
    weights = stream(seed, 0).random(4)
    noise = stream(seed, 1, rank).random(4)
    return weights.tolist(), noise.tolist()
    ### END SOLUTION


# %%
check("05-replicas", prepare)

# %% [markdown] tags=["why"]
# <!-- why: 05-replicas -->
# Why it works: the rank is no part of the weights' key, so all ranks compute the same
# weights without a message. It is part of the noise's key. The first number of the key
# keeps the families apart, so that no noise can be the weights. Streams of one's own
# leave the global generators alone: another library may be drawing from them.

# %% [markdown]
# The demos run in a terminal too: `python demos/random_numbers/monte_carlo_pi.py
# --help`.
#
# ## Next
#
# Two random numbers are drawn in no time. Do two processes draw them in half of it?
# Lesson 6 measures what it costs to ask.
