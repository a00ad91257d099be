# ---
# title: 01 Why parallel?
# question: How much faster does a program get, and what sets the limit?
# needs: any machine, two CPU cores are better
# minutes: 90
# ---

# %% [markdown]
# # 1. Why parallel? What more workers can and cannot do
#
# A training run takes ten hours. With ten times the hardware, does it take one? Before
# you learn to use more workers, it is good to know what to expect of them.
#
# We train a small network and find that its performance is several different things. We
# watch a queue that is served at more and more counters, meet the law that ends the
# gain, and recover a hidden quantity from nothing but times.
#
# *You will be able to* compute speedup, efficiency and throughput from raw times,
# predict a run that you have not made, find the mistake in a claim about speed, and say
# how many workers are worth their price.
#
# *Before this:* lesson 0. *Time:* {reading} minutes to read, 25 for three exercises. *Needs:*
# any machine. On one core everything runs, and the text says what you will not see.

# %% [markdown] tags=["instructor"]
# ## Meanings of performance: 7 minutes
#
# Ask the room first: *what is the performance of a model?* Half will say accuracy, half
# will say speed, and neither notices the other. Let both stand on the board; the table
# fills them in.
#
# When late: skip the guess, run the table.

# %% [markdown]
# ## Meanings of performance
#
# The data are small images of handwritten digits.

# %%
import torch

from sidebyside import load_digits

torch.set_num_threads(1)  # one core
images, labels = load_digits("train")
test_images, test_labels = load_digits("test")

# %% [markdown]
# A network with one hidden layer learns to read them. One training step takes the images
# in `rows`, a *batch*.


# %%
from torch import nn


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def training_step(model, optimizer, rows) -> None:
    loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# %% [markdown]
# We train three times, each time twice through all images (two *epochs*), but in
# batches of 1, 16 and 256. A batch is computed as a whole, so a step with 256 images
# costs less than 256 steps. How much less? Suppose that a step takes 0.4 ms, whatever
# is in it, and 0.0015 ms more for each image. `perf_counter()` reads a clock, in
# seconds.

# %%
from sidebyside import guess

guess("01-batch", None, "By what factor does 256 beat 1 in images per second?", "×")

# %%
from time import perf_counter


def train(batch_size: int, epochs: int = 2) -> tuple[float, float]:
    """Per cent of the test images read correctly, and seconds of training."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = perf_counter()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(batch_size):
            training_step(model, optimizer, rows)
    seconds = perf_counter() - start
    right = model(test_images).argmax(1) == test_labels
    return 100 * right.float().mean().item(), seconds


# %%
from sidebyside import reveal

right, rate = {}, {}
for batch_size in 1, 16, 256:
    right[batch_size], seconds = train(batch_size)
    rate[batch_size] = 2 * len(images) / seconds
    step = 1000 * batch_size / rate[batch_size]
    print(f"batches of {batch_size:>3}: {right[batch_size]:4.1f} % right,", end=" ")
    print(f"{rate[batch_size]:9.0f} samples/s, a step takes {step:.2f} ms")
print("most images per second: batches of", max(rate, key=rate.get))
print("fewest right: batches of", min(right, key=right.get))
reveal("01-batch", rate[256] / rate[1], "×")

# %% [markdown]
# *Performance* can mean how good the model is, or how fast the computer computes. All
# three runs did the same amount of work: 2,830 images. **The fastest run made the worst
# model.** It made 12 steps, the run with batches of 1 made 2,830. From here on we
# compare only runs whose results are equal.

# %% [markdown]
# *Fast* has two meanings as well. The number of images, or of any *samples*, per second
# is the **throughput**: work done per time. The time from the beginning to the end of one
# piece of work, here of one step, is its **latency**. **The batch of 256 has the highest
# throughput and the longest latency.** For a training that runs overnight the throughput
# counts; for a user who waits for one answer, the latency.

# %% [markdown] tags=["instructor"]
# ## The queue: 8 minutes
#
# Play it before you run it: eight people queue before you, you shake hands with each
# for three seconds, the class counts. Then with a second and a third helper. Everybody
# sees the two at the end for whom the third helper is of no use.
#
# When late: skip the guess.

# %% [markdown]
# ## Eight customers, one counter or two
#
# Now something that needs no computing at all. Eight customers stand in one queue, and
# each needs 0.1 s at a counter. A free counter serves the next customer. Each counter is
# a thread, which lesson 2 explains. A customer is a `sleep` of known length: it needs no
# core, so the picture is the same on any machine.

# %%
from parallel_by_hand.performance.queue_simulation import serve_customers
from sidebyside import draw_timelines

queues = {
    "one counter": serve_customers(counters=1),
    "two counters": serve_customers(counters=2),
}
draw_timelines(queues, stamp="simulated")

# %% [markdown]
# Two counters are done in half the time: the throughput doubles. At the counter, a
# customer takes as long as before. **No customer is served faster; the queue is
# shorter.** More workers do more pieces of work at once; they do not make one piece
# quicker.
#
# What about a third counter?

# %%
guess("01-three", None, "By what factor are three counters faster than one?", "×")

# %%
from parallel_by_hand.performance.queue_simulation import queue_took

times = {
    counters: queue_took(serve_customers(counters=counters))
    for counters in (1, 2, 3, 4, 8, 9)
}
for counters, seconds in times.items():
    gain = times[1] / seconds
    print(f"counters: {counters}, took {seconds:.3f} s, {gain:.2f} × as fast", end=", ")
    print(f"efficiency {100 * gain / counters:.0f} %")
reveal("01-three", times[1] / times[3], "×", simulated=True)

# %% [markdown]
# Let $T(k)$ be the time that $k$ workers need. The factor by which they are faster than
# one is the **speedup**, $T(1)/T(k)$. Divided by $k$ it is the **efficiency**: the share
# of the workers' time that was put to use. An efficiency of 100 % means that no worker
# ever waited or had extra work. With eight counters there is extra work: starting the
# threads takes a few milliseconds.

# %% [markdown]
# With three counters, two customers are left for the last turn at the counters, and one
# counter waits. With nine, one counter never serves anybody. **Work that cannot be cut
# further does not get faster.** This is one limit.

# %% [markdown]
# ## Exercise 1: find the mistake
#
# Three reports compare one worker with four. In each step, each worker trains on its own
# batch. The authors divided the seconds:

# %%
from lessons.props.why_parallel import CLAIMS, claimed_speedup

for name, (one, many) in CLAIMS.items():
    print(
        f"{name}: claimed speedup {claimed_speedup(one, many):.2f}\n  {one}\n  {many}"
    )

# %% [markdown]
# At least one claim is too high, and one is too low. Write `fair_speedup(one, many)` for
# two such runs: by what factor would `many` be faster at *the same work*? Work is counted
# in images. The run `one` may have several workers, too.
#
# By hand first: how many images did each run train on? Which claim was right?
# <!-- exercise: 01-fair -->
#
# <details><summary>Hint 1: a question</summary>
#
# Who trained on more images in "a short evening", the one worker or the four? And in
# "not worth it"?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Times can be compared for equal work only. One of the measures in this lesson can be
# compared for unequal work as well.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The images of a run are `workers * batch_per_worker * steps`. Divide them by `seconds`
# for the throughput of each run. Then divide the throughput of `many` by that of `one`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 10 minutes
#
# In pairs: each says in one sentence what is wrong with a claim, before anybody writes
# code. When late: by show of hands, claim by claim.

# %% exercise="01-fair"
from lessons.props.why_parallel import ClaimedRun


def fair_speedup(one: ClaimedRun, many: ClaimedRun) -> float:
    """How many times as fast `many` would do the same work as `one`."""

    ### BEGIN SOLUTION
    def throughput(run: ClaimedRun) -> float:
        return run.workers * run.batch_per_worker * run.steps / run.seconds

    return throughput(many) / throughput(one)
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("01-fair", fair_speedup)

# %% [markdown] tags=["why"]
# <!-- why: 01-fair -->
# Why it works: a throughput is work by time, so runs of different length compare. "A
# short evening" trained on half as many images: the fair speedup is 3.33, not 6.67. In
# "not worth it" the four did four times the work in little more time: 3.33, not 0.83. In
# "small batches" the four trained on as many images as the one, and 2.5 is right. Even
# so, in the first two reports the four train on 256 images a step instead of 64. They
# are as fast as we say, but whether they learn as much is the other meaning of
# performance.

# %% [markdown] tags=["instructor"]
# ## Amdahl: 9 minutes
#
# Let the class derive it. Write T(1) = 0.2 + 0.8 on the board, then ask for T(2), T(4),
# T(8), T(1000). They have the law before they have its name.
#
# Expected: 8 ×, then 6.4 × (8 times 80 %). The second is the more common mistake:
# multiplying by the parallel share instead of adding up times.

# %% [markdown]
# ## A shop that must be opened first
#
# Before the first customer, somebody unlocks, switches on the light and counts the
# change. It takes as long as two customers, and a second person cannot help. Opening
# takes two tenths of one counter's day.

# %%
guess("01-shop", None, "By what factor are eight counters faster than one, now?", "×")

# %%
days = {
    "one counter": serve_customers(counters=1, opening=0.2),
    "eight counters": serve_customers(counters=8, opening=0.2),
}
alone, together = (queue_took(day) for day in days.values())
reveal("01-shop", alone / together, "×", simulated=True)
draw_timelines(days, stamp="simulated")

# %% [markdown]
# Eight customers at eight counters are served at once. Yet the shop is not eight times as
# fast, since opening takes as long as before, while seven counters wait and are paid.

# %% [markdown]
# ## The law
#
# Let one worker need the time 1, and let $s$ be the part that only one worker can do: the
# **serial share**. The rest, $1-s$, is shared by $k$ workers:
#
# $$T(k) = s + \frac{1-s}{k}, \qquad \text{speedup} = \frac{T(1)}{T(k)} =
# \frac{1}{s + (1-s)/k}$$
#
# However large $k$ gets, $T(k)$ stays above $s$. So the speedup stays below $1/s$. This
# is **Amdahl's law**, of 1967. For the shop, $s = 0.2$, and the limit is 5.

# %%
from parallel_by_hand.performance.speedup_laws import amdahl

print("workers       4     64   1024   limit")
for share in 0.01, 0.05, 0.2:
    speedups = "".join(f"{amdahl(share, k):7.1f}" for k in (4, 64, 1024))
    print(f"s = {share:<5}{speedups}{1 / share:8.1f}")

# %% [markdown]
# With one per cent of serial work, 1024 workers are worth 91.

# %% [markdown]
# ## Exercise 2: four numbers from raw times
#
# A job trains on `samples` images. `one` lists the seconds of each round with one worker,
# `many` those with `workers` workers. Take the `median` of each list.
#
# Write `metrics(samples, one, many, workers)`. It returns four numbers: the throughput of
# all workers together, the speedup, the efficiency, which is 1 if no worker waits, and
# the serial share $s$ for which Amdahl's law gives this speedup. Below 0 or above 1, $s$
# means that the law does not hold.
#
# By hand first: `metrics(1200, [8, 30, 8], [3, 3, 2], 4)` is 400, about 2.67, about 0.67,
# and 1/6.
# <!-- exercise: 01-metrics -->
#
# <details><summary>Hint 1: a question</summary>
#
# By hand: which two times do you compare? After three numbers, you know the speedup $S$
# and $k$. What is the only unknown in Amdahl's law then?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Multiply out: $T(k) = s\,T(1) + (1-s)\,T(1)/k$. Bring all terms with $s$ to one side.
# With 8 and 3 seconds and $k = 4$: $3 = 8s + 2 - 2s$.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Throughput is `samples` by the median of `many`, speedup is median by median, efficiency
# is speedup by `workers`. And $s = (1/S - 1/k) / (1 - 1/k)$.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 20 minutes
#
# It needs pencil and paper first. Those who are done early divide the speedup by the
# efficiency and say what they get, and why.

# %% exercise="01-metrics"
from statistics import median


def metrics(samples: int, one: list, many: list, workers: int) -> tuple:
    """Throughput, speedup, efficiency and serial share."""
    ### BEGIN SOLUTION
    speedup = median(one) / median(many)
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / median(many), speedup, speedup / workers, share
    ### END SOLUTION


# %%
check("01-metrics", metrics)

# %% [markdown] tags=["why"]
# <!-- why: 01-metrics -->
# Why it works: the medians are 8 and 3 s, whatever the disturbed round took. So 400
# images per second, a speedup of 2.67 and an efficiency of 0.67. From 3 = 8s + 2 - 2s
# comes s = 1/6. A serial share computed from one pair of times in this way is known as
# the Karp–Flatt metric. It is exact when the law is, and it counts as serial all
# that did not get faster.

# %% [markdown] tags=["instructor"]
# ## A program with a known serial share: 12 minutes
#
# Read `run_serial_and_parallel` aloud: alone, together, done. The three barriers are
# the three sentences. Nobody needs to know more about `dist` today.
#
# Have them predict T(8) from T(1) to T(4) with pencil and paper before the cell does.
#
# When late: leave out the computing program.

# %% [markdown]
# ## Does a real program obey?
#
# `run_ranks(fn, world_size=8)` calls `fn` in eight workers. Here a worker is a running
# copy of the program, a process; lesson 2 takes one apart. Every worker runs this
# program, into which we put a serial part of known length. `show` prints a function from
# a file:

# %%
from parallel_by_hand.performance.serial_share import run_serial_and_parallel
from sidebyside import show

show(run_serial_and_parallel)

# %% [markdown]
# `dist` is torch's package for workers that know of each other. At a *barrier* all wait
# until the last one has come. So one works alone, then all together, then they are done.
#
# `time_serial_and_parallel` starts the workers with `run_ranks` and hands over the
# times of five rounds. The `work` is `sleep`, 0.25 s in all, 20 % of it serial: eight
# sleepers are no burden even for one core.

# %%
from time import sleep

from parallel_by_hand.performance.serial_share import time_serial_and_parallel

slept = time_serial_and_parallel(
    sleep, serial=0.05, parallel=0.2, counts=[1, 2, 3, 4, 8]
)
for workers, seconds in slept.items():
    speedup = median(slept[1]) / median(seconds)
    print(f"workers: {workers}, took {median(seconds):.3f} s", end=", ")
    print(f"speedup {speedup:.2f} ×, the law says {amdahl(0.2, workers):.2f} ×")

# %% [markdown]
# The total work stays the same, and more and more workers share it. A measurement of
# this kind is called **strong scaling**.

# %% [markdown]
# ## From the times back to the serial share
#
# Nobody knows the $s$ of a real program. But the law says that $T(k) = a + b/k$, with a
# serial time $a$ and a parallel time $b$. Over $1/k$ this is a straight line, and a line
# can be fitted. We fit the times of 1 to 4 workers, and let the fit predict those of 8.

# %% [markdown]
# How sure is one fit? We measured five rounds. Draw five of them at random, some twice,
# some not at all, and fit again, a thousand times. Our interval holds 95 of 100 results.
# The method is called *bootstrap*.

# %%
from parallel_by_hand.performance.serial_share import fit_serial_share
from sidebyside import COLOURS, figure

fitted = fit_serial_share({workers: slept[workers] for workers in (1, 2, 3, 4)})
print(fitted)
print(f"predicted for 8 workers: {fitted.seconds(8):.4f} s", end=", ")
print(f"measured {median(slept[8]):.4f} s")

alt = "times over the number of workers, and the fitted curve"
fig, ax = figure(stamp="simulated", alt=alt)
ks = [1 + step / 10 for step in range(90)]
ax.plot(ks, [fitted.seconds(k) for k in ks], color="black")
for workers, seconds in slept.items():
    kept = workers == 8
    ax.plot([workers] * 5, seconds, "s" if kept else "o", color=COLOURS[kept])
ax.text(8, 0.1, "kept from the fit", color=COLOURS[1], ha="center")
ax.set(xlabel="workers", ylabel="time (s)", ylim=(0, 0.28))
fig

# %% [markdown]
# The curve was fitted to the round points only, and it meets the square ones, which it
# had not seen.
#
# We put in 20 %. The fit finds this and a little more: before each part the workers wait
# for each other. A fit counts as serial everything that does not get faster.

# %% [markdown]
# ## Now with real computing
#
# Now the same program, with work that keeps a core busy: `compute` counts steps, and 20 %
# is still serial. There must be a core for each worker, so we take up to as many workers
# as usable cores.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.performance.serial_share import compute
from sidebyside import machine

cores = min(machine().usable_cores, 8)
computed = time_serial_and_parallel(
    compute, serial=0.05, parallel=0.2, counts=range(1, cores + 1)
)
for workers, seconds in computed.items():
    print(f"workers: {workers}, took {median(seconds):.3f} s")
if cores > 1:
    print("workers as counted:       ", fit_serial_share(computed))
    capacity = {k: machine().capacity(k) for k in computed if k > 1}
    print("capacity:", ", ".join(f"{c:.2f} × for {k}" for k, c in capacity.items()))
    if min(capacity.values()) > 1.2:
        corrected = {capacity.get(k, 1.0): seconds for k, seconds in computed.items()}
        print("workers by their capacity:", fit_serial_share(corrected))
    else:
        print("Several workers get little more done than one: no fit by capacity.")
else:
    print("One core, one number of workers: every serial share gives this one time.")

# %% [markdown]
# The line *as counted* counts $k$ workers as $k$. The line *by their capacity* counts
# what $k$ busy processes can really do here, the capacity of lesson 0. If the machine
# gives less than its cores promise, the first fit mistakes that for serial work. **From
# the times alone, a serial program and a shared core can look the same.** That is why the
# course measures the capacity each time. The second line is missing where several workers
# get little more done than one.

# %% [markdown]
# A share below 0 or above 100 % is impossible: something disturbed the times, or the
# capacity, which is measured a moment later. With two cores there are two times and two
# unknowns, so the line goes through both, and does not test the law.

# %% [markdown]
# ## Exercise 3: how many workers are worth paying for?
#
# With one worker a job takes `hours`, of which the share `share` is serial. Until it is
# done, each worker costs `price` an hour, working or waiting, and your own waiting costs
# `waiting` an hour. Write `worth_paying(hours, share, price, waiting, most)`: the number
# of workers, from 1 to `most`, with the lowest total cost.
#
# By hand first: 10 hours, 20 % serial, 1 for a worker's hour, 10 for an hour of waiting.
# What do 1, 4 and 8 workers cost in total? You should find 110, 56 and 54.
# <!-- exercise: 01-worth -->
#
# <details><summary>Hint 1: a question</summary>
#
# How long does the job take with $k$ workers? For how long is each of them paid?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# An hour costs `price` for each worker, and `waiting` once. The job takes the time of
# Amdahl's law. So you can compute the cost of any number of workers. How many numbers are
# there to try?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Write a function `cost(k)`: the time `hours / amdahl(share, k)` times `k * price +
# waiting`. Then `min(range(1, most + 1), key=cost)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 15 minutes
#
# The surprise: the best number is well below the fastest. Ask who pays for the serial
# part.


# %% exercise="01-worth"
def worth_paying(
    hours: float, share: float, price: float, waiting: float, most: int
) -> int:
    """The number of workers, from 1 to `most`, with the lowest total cost."""

    ### BEGIN SOLUTION
    def cost(workers: int) -> float:
        return hours / amdahl(share, workers) * (workers * price + waiting)

    return min(range(1, most + 1), key=cost)
    ### END SOLUTION


# %%
check("01-worth", worth_paying)

# %% [markdown] tags=["why"]
# <!-- why: 01-worth -->
# Why it works: 1, 4 and 8 workers need 10, 4 and 3 hours, and cost 110, 56 and 54. The
# lowest cost is 53.33, with 6. One more worker shortens the job a little, but all workers
# are paid while they wait during the serial part. If your waiting costs nothing, one
# worker is the cheapest whenever $s > 0$. If it costs something and there is no serial
# part, as many as possible are.

# %% [markdown] tags=["instructor"]
# ## Gustafson: 9 minutes
#
# Ask who has bought a faster computer in recent years, and who waits less now. Most
# train larger models and wait as long as ever: this is weak scaling.
#
# The two shares are the stumbling block. Draw two bars of length 1: in one, s is a part
# of *one* worker's time, in the other, of the time that *k* workers need. Same program,
# two shares.
#
# When late: leave out the table with both laws.

# %% [markdown]
# ## More work in the same time
#
# With 1024 processors, people do not solve the old problem 1024 times as fast. They solve
# a larger one. So let the parallel part grow with the workers: each has as much to do as
# one had alone. The serial part stays as it is.

# %%
guess("01-weak", None, "Eight workers, eight times the parallel part: T(8)/T(1)?", "×")

# %% [markdown]
# The time that one worker would need for the grown work, divided by the time of the $k$
# workers, is the **scaled speedup**.

# %%
from parallel_by_hand.performance.speedup_laws import gustafson

grown = time_serial_and_parallel(sleep, 0.05, 0.2, counts=[1, 2, 4, 8], grow=True)
for workers, seconds in grown.items():
    work = 0.05 + 0.2 * workers  # as planned: what one worker would need for all of it
    print(f"workers: {workers}, took {median(seconds):.3f} s", end=", ")
    print(f"scaled speedup {work / median(seconds):.2f} ×", end=", ")
    print(f"the law below says {gustafson(0.2, workers):.2f} ×")
reveal("01-weak", median(grown[8]) / median(grown[1]), "×", simulated=True)

# %% [markdown]
# The time stays nearly the same, and the work done in it grows. This is **weak
# scaling**: the same work for each worker.
#
# Let $s'$ be the serial share of the time that $k$ workers need. In the rest, each of
# them works. One worker would need $s' + (1-s')\,k$ for all of this. So
#
# $$\text{scaled speedup} = s' + (1-s')\,k$$
#
# This is **Gustafson's law**, of 1988. It has no limit.

# %% [markdown]
# Both laws hold for the same program. It depends on the question: *how soon is this job
# done*, or *how large a job can be done by tonight*.
#
# ## Checked against 1988
#
# Gustafson reported three programs on 1024 processors (*Reevaluating Amdahl's Law*,
# CACM 31(5)): the scaled speedups below, and a serial share of 0.4 to 0.8 per cent.
# The paper defines it as a share of the time that *one* processor needs. We take it
# for a small job, and let the job grow with the processors, as above, so that its
# time stays the same. Then the serial part takes the same share of the large run, and
# that is $s'$. Does the law give the speedups?

# %%
from parallel_by_hand.performance import speedup_laws

k = speedup_laws.PROCESSORS
for share in speedup_laws.SERIAL_SHARES:
    print(f"s' = {share:.3f}: scaled speedup {gustafson(share, k):.0f},", end=" ")
    print(f"fixed work with this share {amdahl(share, k):.0f}")
for program, speedup in speedup_laws.SCALED_SPEEDUPS.items():
    share = (k - speedup) / (k - 1)  # the law, solved for s'
    one = share / (share + (1 - share) * k)  # the same part, of one worker's time
    print(f"{program:<13} {speedup}: s' = {share:.4f}, s = {one:.7f}", end=", ")
    print(f"with this s Amdahl says {amdahl(one, k):.0f}")

# %% [markdown]
# Two of the three published speedups, 1020 and 1016, are what the law gives for 0.4 and
# 0.8 per cent. The third, 1021, needs 0.3 per cent: either the range is rounded, or the
# law leaves out something small.

# %% [markdown]
# Do the 201 and 111 refute Amdahl? They are for the *small* job. The serial part is a
# share a thousand times smaller of the time that one worker would need for the large job,
# and with that share **Amdahl's law gives the same speedup**. The laws agree: a larger
# job has a smaller serial share.

# %% [markdown]
# ## What we saw
#
# * Compare speeds only of equal work with equal results.
# * A serial share $s$ limits the speedup of a fixed job to $1/s$. Where the job grows
#   with the workers, the limit moves away.
# * A line through times over $1/k$ gives the serial share, and predicts a number of
#   workers that was never tried.
# * A shared core looks like serial work. Measure the capacity beside it.
#
# To time a piece of code, PyTorch has `torch.utils.benchmark.Timer`: it warms up, repeats,
# uses one thread unless told otherwise, and waits for a GPU to be done.
#
# In a terminal: `python demos/performance/queue_simulation.py --counters 3`,
# `python demos/performance/serial_share.py --serial 50` and
# `python demos/performance/speedup_laws.py --serial 1`.

# %% [markdown]
# ## Next
#
# Our counters were threads, and our workers were copies of the program. What are threads
# and processes, who starts them, and what do they share? Lesson 2 looks inside.
