# ---
# title: 05 Random numbers in parallel
# question: Do my workers draw the same random numbers, and should they?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 5. Random numbers in parallel
#
# Eight workers make training data at random. Are these eight data sets, or one data set
# eight times? No error message will tell you, and each number looks as random as the
# next.
#
# We ask the machine what its workers draw, measure what duplicated numbers cost, and
# give every piece of work a stream of random numbers of its own.
#
# *You will be able to* tell duplicated streams from independent ones, seed workers, a
# `DataLoader` and the ranks of a training, and get the same result from any number of
# workers.
#
# *Before this:* lesson 4. *Time:* {reading} minutes to read, 25 for three exercises. *Needs:*
# two CPU cores, no GPU. Nothing here is about speed, so one core shows the same.

# %% [markdown] tags=["instructor"]
# ## What workers draw: 8 minutes
#
# Ask who has heard that NumPy's numbers are the same in all workers. Most have, and
# most know one half of it. Nobody needs to know the table: have the room explain three
# of its rows by the rule, a state to copy and a copy kept.
#
# When late: skip the table, keep the six draws.

# %% [markdown]
# ## What do two workers draw?
#
# A **generator** is an object with a *state*. Each draw computes a number from the
# state, and the next state. Equal states give equal numbers, for ever.
#
# torch makes a generator when it is imported; `torch.rand` draws from it:

# %% tags=["nbval-ignore-output"]
import torch


def draw() -> float:
    return torch.rand(()).item()


draw(), draw()

# %% [markdown]
# Where the system can fork, `run_ranks` forks its ranks from a small server that has
# imported torch. And fork copies memory (lesson 2).

# %%
from sidebyside import guess

guess("05-draws", None, "Two times three ranks draw a number: how many different ones?")

# %% [markdown]
# Write your guess in place of `None`, then run the next cell.

# %%
from sidebyside import reveal, run_ranks

six_draws = run_ranks(draw, world_size=3) + run_ranks(draw, world_size=3)
reveal("05-draws", len(set(six_draws)))

# %% [markdown]
# Six processes draw one number, or six on Windows, where every process imports torch
# anew. **Workers draw equal numbers when they hold copies of the same state.** So ask of
# a generator: was there a state to copy, and did the worker keep the copy?

# %% [markdown]
# The demo asks six generators. It starts two workers in each of lesson 2's ways: `fork`
# copies the parent, `spawn` starts from nothing, `forkserver` forks a small server. The
# demo's server has imported nothing, unlike the one behind `run_ranks` above.

# %% tags=["nbval-ignore-output"]
from sidebyside import run_demo

run_demo("random_numbers/forked_random_numbers.py")

# %% [markdown]
# The rule explains the rows:
#
# * `Generator`, *sent*: it arrives as a copy, however the workers were started.
# * `Generator`, *made by the worker*: nothing is copied, and the operating system gives
#   each one a state of its own.
# * `torch`: fork copies the state. The other two import torch anew.
# * `np.random`: NumPy 2 makes this generator when something first imports
#   `numpy.random`. If the parent does, fork copies it; if not, each worker makes its
#   own.
# * `random`: fork copies the state, too, but Python replaces it in the new process.

# %% [markdown]
# Such a table is not worth learning. It depends on versions, and on what was imported
# before the fork: the demo's `--preload torch numpy.random` changes three entries of
# the column `forkserver` without touching the program.

# %% [markdown]
# Two copies of a network that start with equal weights may be equal by luck, and the
# luck ends on another machine. Say what must be equal and what must differ with a
# **seed**, the number from which a generator's first state is made.

# %% [markdown]
# All that one generator draws, number after number, is a **stream**. Two streams are
# *independent* if knowing one tells nothing about the other. The first exercise finds
# streams that are not.

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 10 minutes
#
# Pure Python, and suits everybody. In pairs: one writes workers that share numbers, the
# other one finds them.

# %% [markdown]
# ## Exercise 1: find the duplicates
#
# You get the numbers that some workers have drawn, one list per worker. With 53 random
# bits, two fresh numbers are never equal in practice. So workers that share a number
# share a stream, perhaps from different places in it.
#
# Write `shared(outputs)`: all pairs `(i, j)` with `i < j` of workers that share at least
# one number.
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
# made for that question? And which workers must be compared?
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
from sidebyside import check, forget, hint, progress, solution

check("05-shared", shared)

# %% [markdown] tags=["why"]
# <!-- why: 05-shared -->
# Why it works: a double has 53 random bits, so two draws that are equal by chance are
# as rare as 1 in 9,000,000,000,000,000. A common number means a common state. Sets find
# it wherever it stands in the lists. All pairs must be looked at: equal workers need
# not be neighbours.

# %% [markdown] tags=["instructor"]
# ## Pi: 8 minutes
#
# Draw the quarter circle in the unit square and throw five points with the class. Say
# that eight workers have sent eight equal estimates, and ask what they seem to say.
# Someone will say: they agree, so they must be precise. That is the trap. Agreement
# between workers means something only if they could have disagreed.
#
# When late: the figure only.

# %% [markdown]
# ## What a duplicated stream costs
#
# Throw points into the unit square. The share that falls into the quarter circle is
# π/4. So four times that share is an estimate of π:

# %%
from parallel_by_hand.random_numbers.monte_carlo_pi import circle_hits, copied, spawned
from sidebyside import show

show(circle_hits)
show(copied)
show(spawned)

# %% [markdown]
# 64 workers call `circle_hits`. With `copied` each gets a copy of one generator, with
# `spawned` its own: NumPy's *spawn* makes seeds, and starts no process. Only the streams
# matter, so we start no process either: `deepcopy` does what sending does.

# %% [markdown]
# Each worker repeats its experiment 300 times. `pi_errors` says how far off the mean of
# the first *k* workers typically is: the root of the mean squared error.

# %%
from copy import deepcopy

from parallel_by_hand.random_numbers.monte_carlo_pi import pi_errors

POINTS, REPEATS, WORKERS = 1000, 300, 64
error = {}
for streams in copied, spawned:
    sent = [deepcopy(one) for one in streams(0, WORKERS)]
    hits = [circle_hits(one, POINTS, REPEATS) for one in sent]
    errors = error[streams.__name__] = pi_errors(hits, POINTS)
    print(f"{streams.__name__:<8} one {errors[0]:.4f}, all 64 {errors[-1]:.4f}")

# %%
import math

import numpy as np

from sidebyside import COLOURS, figure

k = np.arange(1, WORKERS + 1)
theory = np.sqrt(math.pi * (4 - math.pi) / (POINTS * k))
alt = "the error of copied streams stays, that of spawned ones falls as 1/√k"
fig, ax = figure(stamp="computed", alt=alt)
ax.loglog(k, theory, color="black", linestyle=":")
ax.text(9, theory[8] * 1.25, "theory, 1/√k")
for name, colour, line in ("copied", COLOURS[1], "--"), ("spawned", COLOURS[0], "-"):
    ax.loglog(k, error[name], color=colour, linestyle=line)
    ax.text(66, error[name][-1], name, color=colour, va="center")
ax.set(xlabel="workers k", ylabel="error of π", xlim=(1, 100))
ax.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
ax.set_yticks([0.01, 0.02, 0.05], [0.01, 0.02, 0.05])
ax.minorticks_off()
fig

# %% [markdown]
# The figure shows the error against the number of workers, both axes logarithmic. The
# mean of $k$ independent estimates has the error of one divided by $\sqrt k$; spawned
# streams follow that down to an eighth. The lines begin apart because worker 0 has a
# different stream in each.

# %% [markdown]
# **The mean of 64 equal numbers is as wrong as one of them.** 63 workers have warmed the
# room. In training the damage is harder to see: augmentations, random changes to the
# images such as a shift, repeat, so the network sees less variety.

# %% [markdown] tags=["instructor"]
# ## Streams: 8 minutes
#
# `seed + worker` is what nearly everyone writes, and it works within one run. Let the
# room find out what goes wrong: ask for worker 1 of the run with seed 0, then for
# worker 0 of the run with seed 1. Somebody averages over ten seeds for a paper; ask how
# many independent runs these were.
#
# When late: the guess only.

# %% [markdown]
# ## A stream for each worker
#
# NumPy's `SeedSequence` takes one seed and makes as many independent seeds as you ask
# for. You can also name one of them, by its *key*:

# %%
from parallel_by_hand.random_numbers.loader_workers import stream

show(stream)
second_child = np.random.SeedSequence(2026).spawn(2)[1]
np.random.default_rng(second_child).random(), stream(2026, 1).random()

# %% [markdown]
# A *hash*, which mixes numbers thoroughly, makes a state of the seed and the key.
#
# Why so much ceremony? Many programs seed a worker with `seed + worker`. Take ten runs,
# with the seeds 0 to 9, of ten workers each.

# %%
guess("05-streams", None, "seed + worker: how many of these 100 streams are different?")

# %%
runs = [(seed, worker) for seed in range(10) for worker in range(10)]
added = {np.random.default_rng(seed + worker).random() for seed, worker in runs}
hashed = {stream(seed, worker).random() for seed, worker in runs}
reveal("05-streams", len(added), computed=True)
print("with keys:", len(hashed))

# %% [markdown]
# **Worker 1 of the run with seed 0 is worker 0 of the run with seed 1.** Ten runs, made
# to be sure of a result, have fewer than two independent runs' worth of streams. Keys
# do not collide in this way, as long as their numbers are below 2³².

# %% [markdown]
# torch has no `SeedSequence`, so draw the seeds of its generators from such a stream. On
# the CPU, torch uses only the last 32 bits of a seed.

# %% [markdown] tags=["instructor"]
# ## DataLoader, and any number of workers: 12 minutes
#
# People have read that DataLoader duplicates NumPy's numbers, and paste a
# worker_init_fn that calls np.random.seed. That was needed until torch 1.8. What is
# still needed today is in the last column. Ask for the reason before you scroll: the
# dataset is copied to each worker, and its generator is part of it.
#
# When late: show the rows, skip `new_stream`.

# %% [markdown]
# ## What a DataLoader seeds
#
# `DataLoader(num_workers=2)` sends a copy of the dataset to two worker processes, to
# new ones in each epoch. The items of this dataset are random, from four generators.
# The last one belongs to the dataset. Each worker makes two of the four items of an
# epoch. Over two epochs, how many different *numbers* does the last generator give?

# %%
from parallel_by_hand.random_numbers.loader_workers import Noise

show(Noise)
guess("05-loader", None, "2 epochs of 4 items: how many different dataset.rng?")

# %% [markdown]
# `make_loader` makes a `DataLoader` with that many workers; its seeds follow from 0. The
# dataset stands in a module, since a worker that was not forked cannot import a
# notebook's cells (lesson 2).

# %%
from parallel_by_hand.random_numbers.loader_workers import make_loader, start_method

method = start_method()
loader = make_loader(Noise(4), workers=2, method=method)
rows = [row for epoch in range(2) for row in loader]
print("worker   random  np.random  torch   dataset.rng")
for worker, *numbers in rows:
    print(f"{worker:>6}", *(f"{number:>8.4f}" for number in numbers))
reveal("05-loader", len({row[-1] for row in rows}))

# %% [markdown]
# For each epoch the loader draws a number, *base*. It seeds `random` and `torch` of
# worker $w$ with base + $w$, and `np.random` with a hash of the two. Adding $w$ does
# little harm here: base is drawn from a huge range, so the seeds of two runs hardly ever
# meet.
#
# Base comes from `DataLoader(generator=...)`, or else from the generator of
# `torch.rand`: one `torch.manual_seed` in the parent fixes these three columns.

# %% [markdown]
# The fourth generator is the dataset's own, so it is copied with the dataset. **Eight
# items, two numbers.**
#
# The cure is `worker_init_fn`, a function that every worker calls once before it begins.
# `make_loader` takes one as its last argument:

# %%
from parallel_by_hand.random_numbers.loader_workers import new_stream

show(new_stream)
for workers in 1, 2, 3:
    loader = make_loader(Noise(4), workers, method, new_stream)
    print("workers:", workers, "|", *(f"{rng:.4f}" for *_, rng in loader))

# %% [markdown]
# ## A stream for the item, not for the worker
#
# In each line the four numbers now differ, because `worker.seed` is base + $w$. Base is
# new in each epoch, so epochs differ, too. But item 2 is made by worker 0 of two, and by
# worker 2 of three. So its number changes, and a colleague with more cores gets another
# training run.
#
# The cure is to draw a number for an item, whichever worker prepares it. Seed, epoch and
# index identify the item.

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 15 minutes
#
# The lesson's main sentence. Learners who make one stream for the whole share should try
# the case by hand.

# %% [markdown]
# ## Exercise 2: numbers for items
#
# A worker prepares its share of the items of an epoch and needs a random number in [0, 1)
# for each. Write `noise_of(seed, epoch, items)`, which returns them as a list, in the
# order of `items`. An item's number depends on seed, epoch and item, never on the share
# it comes in.
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
    """A random number for each of these items, whichever worker asks."""
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
# different streams. Making a stream takes as long as some dozens of single draws; if
# an item needs many numbers, it takes them all from its one stream.

# %% [markdown]
# ## The same result for any number of workers
#
# The dataset `NoiseByItem` does what your function does, in its `__getitem__`. Two
# epochs of four items, made without a worker, by two and by three:

# %%
from parallel_by_hand.random_numbers.loader_workers import NoiseByItem

show(NoiseByItem.__getitem__)
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
# The dataset cannot know the epoch: set it before each one. With
# `persistent_workers=True` the workers keep their first copy and never see it.

# %% [markdown] tags=["instructor"]
# ## When equal is right, and workers of ranks: 9 minutes
#
# Let the room list, for a training on four GPUs, what must be equal on all ranks and
# what must not. Weights, shuffled order, dropout, augmentation. Then ask where their
# own program says so. Most say: manual_seed, on the first line.
#
# Expected at the last guess: four. People see four workers and forget that base comes
# from the generator that was seeded alike on purpose.
#
# When late: the last guess and its table.

# %% [markdown]
# ## When equal is right
#
# Later in the course every rank trains a **replica**, a copy of one network. Replicas
# must begin with equal weights, or they are different networks. Their augmentation must
# differ, or they all do the same work.
#
# Here a rank draws both from one stream: first from the same on all ranks, then from its
# own. A rank finds its number in the environment variable `RANK`, a setting that a
# program is started with.

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
# ## Exercise 3: 20 minutes
#
# Short to write, with the most instructive wrong answers: nearly everyone gives rank 0
# a noise that equals the weights.
#
# When late: at home.

# %% [markdown]
# ## Exercise 3: replicas and augmentation
#
# Write `prepare(rank, seed)`, called by each rank. It returns two lists of four random
# numbers in [0, 1), the first weights and the noise for the first item.
#
# * The weights are equal on all ranks. Another seed gives other weights.
# * Each rank and seed has its own noise, which shares no number with any other noise or
#   weights.
# * The same rank and seed give the same lists again.
# * The global generators of `random`, NumPy and torch stay as they were.
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
# ## Workers of ranks
#
# Now both at once: two ranks, and on each a `DataLoader` with two workers. All ranks
# have called `torch.manual_seed(2026)`, for equal weights. Remember where base comes
# from.

# %%
guess("05-ranks", None, "2 ranks × 2 workers: how many different seeds do they have?")

# %%
from parallel_by_hand.random_numbers.workers_of_ranks import seeds_of_workers

show(seeds_of_workers)
of_each = run_ranks(seeds_of_workers, world_size=2)
for name in of_each[0]:
    print(name)
    for rank, seeds in enumerate(of_each):
        print(f"  rank {rank}: worker 0 from {seeds[name][0]}, 1 from {seeds[name][1]}")
reveal("05-ranks", len({seed for seeds in of_each for seed in seeds["generator=None"]}))

# %% [markdown]
# **Ranks that are seeded alike hand equal seeds to their workers**: worker 0 of rank 1
# augments as worker 0 of rank 0 does. With a hundred ranks each shift is drawn a hundred
# times.

# %% [markdown]
# A generator with the rank in its seed gives every worker of every rank a seed of its
# own. A stream for each item needs neither rank nor worker: the item's key is enough,
# wherever the item is prepared.

# %% [markdown]
# ## Reproducible up to what?
#
# All numbers are now the same for any number of workers. Their sum is not:

# %%
numbers = stream(2026).random(10_000).tolist()
for workers in 1, 2, 3:
    total = 0.0
    for share in np.array_split(numbers, workers):
        of_share = 0.0
        for number in share.tolist():  # from Python 3.12, sum() corrects its rounding
            of_share += number
        total += of_share
    print(f"workers: {workers} | {total:.12f}")

# %% [markdown]
# Floating-point addition rounds, so **the same numbers, added up in other groups, can
# have another sum**, here by about 10⁻¹¹. Count in integers where you can, as
# `circle_hits` does. Or cut the work into the same pieces for any number of workers,
# and add these up in a fixed order.

# %% [markdown]
# ## What we saw
#
# | you have | write |
# |---|---|
# | workers that simulate | `SeedSequence(seed).spawn(workers)`, one child for each |
# | results for any number of workers | `SeedSequence(seed, spawn_key=(epoch, item))` |
# | a dataset that uses global generators | `DataLoader(generator=...)`, on each rank its own |
# | a dataset with its own generator | a `worker_init_fn`, or a stream per item |
# | replicas | one key for the weights, a key with the rank for the noise |
#
# * Copied streams: 64 workers have the error of one. Spawned: an eighth of it.
# * With `seed + worker`, ten runs of ten workers have 19 streams, not 100.
# * Two ranks seeded alike, with two workers each: four workers, two seeds.

# %% [markdown]
# The demos run in a terminal too, each with `--help`:
# `demos/random_numbers/monte_carlo_pi.py`, `demos/random_numbers/loader_workers.py` and
# `demos/random_numbers/workers_of_ranks.py`.
#
# ## Next
#
# Two random numbers are drawn in no time. Do two processes draw them in half that time?
# Lesson 6 measures what it costs to ask.
