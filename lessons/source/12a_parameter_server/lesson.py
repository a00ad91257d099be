# ---
# title: 12a The parameter server
# question: One process holds the parameters, the others compute. Must they wait for each other?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 12a. The parameter server
#
# In lesson 11a every rank held the whole model, and all ranks met at every step. One
# slow rank made all of them slow. In an older design, one process holds the parameters,
# and the others only compute gradients. Then no worker has to wait for another. What
# do we pay for that?
#
# *You will be able to* write a server that answers its workers in step or at once, say
# how old its gradients are and how large a step may be then, and predict how many
# workers a server can answer.
#
# *Before this:* lesson 11a. *Time:* {reading} minutes, and 50 for the exercises. *Needs:*
# two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Pull, compute, push: 8 minutes
#
# Play it: one person is the server and holds a sheet with a number. Three workers ask
# for it, count slowly to five (one of them to twenty), and bring a paper with a change.
# First the server waits for all three papers, then it takes each as it comes.
#
# When late: show the two loops, and go to the timelines.

# %% [markdown]
# ## Pull, compute, push
#
# A **parameter server** is a process that holds the parameters. A *worker* pulls them,
# computes a gradient, and pushes it to the server. The simplest server works *in step*:
# it sends the parameters to all workers, waits for a gradient from each, and takes one
# step with their mean. This is the **synchronous** design:

# %%
from parallel_by_hand.parameter_server.server_and_workers import serve_in_step, work
from sidebyside import show

show(work)
show(serve_in_step)

# %% [markdown]
# `pull` receives a letter from each server, `push` sends one. A letter holds the
# numbers, and one more: the **version**, which counts the updates that the parameters
# have seen. It comes back with the gradient. Version −1 means: stop. `answer_workers`
# begins to send letters, and `note` writes down what happened.

# %% [markdown]
# Does it train as one process would? Rank 0 serves, three ranks train the network of
# lesson 8, with 32 images for each gradient. Beside it, one process computes the same
# gradients one by one.

# %%
import torch

from parallel_by_hand.parameter_server import digits_server
from sidebyside import run_ranks

torch.set_num_threads(1)  # one core, as in lesson 8
train = digits_server.train_digits_with_server
diary = run_ranks(train, "in step", [0, 0, 0], 0.5, 20, world_size=4)[0]
parameters, apart = digits_server.digits_start(), []
gradient_of = [digits_server.DigitsGradient(worker) for worker in range(3)]
for version, update in enumerate(diary):
    gradients = torch.stack([g(parameters, version) for g in gradient_of])
    parameters = parameters - 0.5 * gradients.mean(0)
    apart.append((parameters - update.share).abs().max())
print(f"{len(apart)} updates, never 1e-6 apart: {all(gap < 1e-6 for gap in apart)}")

# %% [markdown]
# **In step, a parameter server trains as one process does**, with the mean of the
# workers' gradients. But all gradients pass through one process.

# %% [markdown] tags=["instructor"]
# ## In step or at once: 9 minutes
#
# Draw three lanes of 80 ms: bars of 20, 20 and 80. Let people count the gradients that
# fit, in step and at once. Then ask how many updates happen while the slow worker
# computes: this is its staleness.
#
# The mean staleness is worth the board: each update makes all gradients under way older
# by one, and N − 1 are under way.

# %% [markdown]
# ## At once
#
# Now one worker is slow: two workers nap 20 ms for each gradient, the third 80 ms. The
# **asynchronous** design takes each gradient *as it comes*, and answers its worker at
# once:

# %%
from parallel_by_hand.parameter_server.server_and_workers import serve_at_once

show(serve_at_once)

# %% [markdown]
# `dist.recv(letter)` without a sender receives the letter that comes first, and returns
# the rank that sent it. `who_goes_on` chooses the workers that get an answer now: so
# far, all that wait. The branch with `STOP` is for several servers; the lines below the
# loop stop the workers.
#
# In 800 ms the synchronous server makes 10 updates. And the asynchronous one?

# %%
from sidebyside import guess

guess("12a-updates", None, "At once, how many updates in 800 ms?", "updates")

# %%
from sidebyside import Timeline, reveal
from sidebyside.timeline.picture import draw_timelines

naps, timelines = [0.02, 0.02, 0.08], {}
for design, updates in {"in step": 3, "at once": 24}.items():
    with Timeline() as timelines[design]:
        run_ranks(train, design, naps, 0.1, updates, world_size=4)
reveal("12a-updates", 40 + 40 + 10, computed=True)
draw_timelines(timelines, stamp="simulated", height=4.4)

# %% [markdown]
# In step, the fast workers wait three quarters of their time. At once no worker waits
# for another; the grey at the end says that some stop sooner. In 80 ms the workers
# bring 4, 4 and 1 gradients: 9 updates instead of one, each from one gradient instead
# of three.

# %% [markdown]
# ## How old is a gradient?
#
# While the slow worker computes, the others go on changing the parameters. When its
# gradient comes, it fits parameters that no longer exist. The **staleness** of an
# update is the number of updates since the worker's pull: the server's version minus
# the version in the letter.
#
# What is the mean staleness of all updates? Think of what one update does to the
# gradients that are under way.

# %%
guess("12a-staleness", None, "What is the mean staleness?", "updates")

# %% tags=["nbval-ignore-output"]
from lessons.props.parameter_server_pictures import draw_staleness

at_once = run_ranks(train, "at once", naps, 0.2, 210, world_size=4)[0]
of_workers = {
    "fast workers": [u.staleness for u in at_once if u.worker < 3],
    "slow worker": [u.staleness for u in at_once if u.worker == 3],
}
reveal(
    "12a-staleness", sum(map(sum, of_workers.values())) / len(at_once), simulated=True
)
draw_staleness(of_workers)

# %% [markdown]
# Each update makes all other gradients under way older by one, and with $N$ workers
# $N-1$ are under way. So **the mean staleness is $N-1$, however fast the workers are**.
# A short run has a little less: it ends with some under way. The slow worker has the
# oldest gradients: 6 to 8 updates old.

# %% [markdown]
# ## Exercise 1: bounded staleness
#
# Between the two designs there is a knob: how far a worker may be ahead. Write
# `who_goes_on(pushes, waiting, bound)`.
#
# `pushes` says for each worker how many gradients it has pushed. `waiting` lists the
# workers that wait for an answer; the others compute. Return, in the same order, those
# that get an answer now: they are at most `bound` gradients ahead of the slowest
# worker, which may wait or compute.
#
# By hand first: `pushes` is `{1: 5, 2: 3, 3: 2}`, and `[1, 2]` wait. Which workers go
# on with bound 0, 1, 3?
#
# <!-- exercise: 12a-bounded -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which is the slowest worker, and is it in `waiting` while it computes?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The smallest number in `pushes` belongs to the slowest. Compare the number of each
# waiting worker with it.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `min(pushes.values())` belongs to the slowest. Then a list of those workers in
# `waiting` that are not more than `bound` above it.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, bounded staleness: 10 minutes
#
# Expected: the slowest of those that wait (the slowest one computes), and `<` for `<=`.
# With `<` and bound 0 no worker ever goes on: let them find out why a training would
# hang.

# %% exercise="12a-bounded"
from sidebyside import forget, hint, progress, solution


def who_goes_on(pushes: dict[int, int], waiting: list[int], bound: int) -> list[int]:
    """The waiting workers that are at most `bound` gradients ahead of the slowest."""
    ### BEGIN SOLUTION
    slowest = min(pushes.values())
    return [worker for worker in waiting if pushes[worker] - slowest <= bound]
    ### END SOLUTION


# %%
from sidebyside import check

check("12a-bounded", who_goes_on)

# %% [markdown] tags=["why"]
# <!-- why: 12a-bounded -->
# Why it works: the slowest worker always goes on, so there is no deadlock. A worker that
# goes on may push once more, so it is never more than bound + 1 ahead. While one of its
# gradients is under way, each of the other N − 1 workers can push 2 bound + 1 times at
# most: from bound behind it to bound + 1 ahead. So no gradient is ever older than
# (N − 1)(2 bound + 1) updates. With bound 0 all workers begin each round together.
#
# By hand: with bound 0 neither, with bound 1 worker 2, with bound 3 both.

# %% [markdown]
# Here is the knob, in real processes, with the same naps. `within_bound` is our
# `who_goes_on`. A bound of 1,000 never makes a worker wait.

# %% tags=["nbval-ignore-output"]
from functools import partial

from parallel_by_hand.parameter_server.server_and_workers import within_bound

for bound in (0, 2, 1000):
    goes = partial(within_bound, bound=bound)
    ranks = run_ranks(train, "at once", naps, 0.1, 36, 1, goes, world_size=4)
    oldest = max(update.staleness for update in ranks[0])
    print(f"bound {bound:4}: 36 updates in {ranks[0][-1].seconds:.2f} s", end=", ")
    print(f"the oldest {oldest}, {2 * (2 * bound + 1)} allowed")

# %% [markdown]
# **No gradient is older than $(N-1)(2 \cdot \text{bound} + 1)$ updates**: while it is
# under way, each of the other workers can go from bound behind it to bound + 1 ahead.
# In the long run the fast workers go at the pace of the slow one. Where workers are
# slow *in turns*, a bound costs less time than waiting in step.

# %% [markdown] tags=["instructor"]
# ## Two clocks: 4 minutes
#
# Ask for a bet before the picture: which design wins? Then show it. The question "wins
# what?" is the lesson.

# %% [markdown]
# ## Two clocks
#
# Which design learns faster? The run at once, whose gradients we dated, took about two
# seconds. We train in step for as long, with the same rate, and draw both losses twice:
# against updates and against seconds.

# %%
from lessons.props.parameter_server_pictures import draw_both_clocks

in_step = run_ranks(train, "in step", naps, 0.2, 24, world_size=4)[0]
curves = {
    "in step": digits_server.losses_over_time(in_step),
    "at once": digits_server.losses_over_time(at_once, every=6),
}
draw_both_clocks(curves, updates=24)

# %% [markdown]
# On the left, the synchronous server wins or ties: its updates are means of three fresh
# gradients. On the right, the asynchronous one wins: **in the time of one synchronous
# update it makes several**, each a little worse.

# %% [markdown] tags=["instructor"]
# ## Stale gradients: 7 minutes
#
# Everyone knows a shower whose warm water comes late: turn, nothing happens, turn more,
# and it is too hot. The cure is to turn less. How much less is the theorem.
#
# When late: show the table after the exercise.

# %% [markdown]
# ## How stale is too stale?
#
# The loss was still fine with a staleness of 2 and 8. Take the simplest loss there is,
# $\lambda x^2/2$ with the gradient $\lambda x$; here $\lambda$ is called the
# **curvature**. Every gradient is $\tau$ updates old:
#
# $$x_{t+1} = x_t - \text{step} \cdot \lambda\, x_{t-\tau}.$$
#
# This is **delayed gradient descent**. It begins with $x = 1$, and $x$ was 1 before.

# %%
from parallel_by_hand.parameter_server.stale_gradients import delayed_descent
from sidebyside import figure

fig, ax = figure(height=2.4, stamp="computed", alt="x swings with a delay of 1")
for step, style in ((0.8, "-"), (1.1, ":")):
    ax.plot(delayed_descent(1.0, step, 1, 40), style, color="black")
    ax.annotate(f"step {step}", (40, delayed_descent(1.0, step, 1, 40)[-1]))
ax.set(xlabel="updates (curvature 1, delay 1)", ylabel="x")
fig

# %% [markdown]
# Without a delay, $x$ goes to 0 for every step below $2/\lambda$. With a delay of 1 it
# swings, and a step of 1.1 is already too large: each correction comes too late and is
# too strong. A step is **stable** if $x$ goes to 0.

# %% [markdown]
# ## Exercise 2: find the stable step
#
# Write `stable_step(curvature, delay)`: the largest stable step, within 1 %, for a
# delay of 0 to 16 updates. Find it by **bisection**: keep a step that is stable and one
# that is not, try the middle, and replace one of the two.
#
# Near the edge $x$ swings, and grows or shrinks by less than a thousandth in an update.
# So run some thousands of updates, and look at more than one $x$ at the end.
#
# By hand first: without a delay, $x_{t+1} = (1 - \text{step} \cdot \lambda)\,x_t$. For
# $\lambda = 25$, what is the largest stable step?
#
# <!-- exercise: 12a-stable -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which two steps can you begin with, one that is surely stable and one that is not?
# Without a delay the largest step is allowed.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Keep the last `delay + 1` values of x in a list or a `deque`. The new x is the newest
# minus step · curvature · the oldest. The step is stable if the largest |x| of the last
# 200 updates is below 1, after some 2,000 + 1,000 · delay updates.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `recent = deque([1.0] * (delay + 1), maxlen=delay + 1)` forgets by itself what is too
# old. Bisect between 0 and `2 / curvature`, 14 times: the middle becomes the lower end
# if it is stable, else the upper.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, find the stable step: 15 minutes
#
# Expected: too few updates (everything looks stable), a look at the last x only (it
# swings through 0), and a delay that is off by one.


# %% exercise="12a-stable"
def stable_step(curvature: float, delay: int) -> float:
    """The largest step with which delayed gradient descent goes to 0, within 1 %."""
    ### BEGIN SOLUTION
    from collections import deque

    low, high = 0.0, 2 / curvature
    for _ in range(14):
        step = (low + high) / 2
        recent = deque([1.0] * (delay + 1), maxlen=delay + 1)
        last = deque(maxlen=200)
        for _ in range(2000 + 1000 * delay):
            recent.append(recent[-1] - step * curvature * recent[0])
            last.append(abs(recent[-1]))
        low, high = (step, high) if max(last) < 1 else (low, step)
    return low
    ### END SOLUTION


# %%
check("12a-stable", stable_step)

# %% [markdown] tags=["why"]
# <!-- why: 12a-stable -->
# Why it works: whether x grows or shrinks depends on the step alone, and there is one
# edge between the two. Each bisection halves the distance to it: 14 of them leave
# 2/λ divided by 16,384. A step that is 1 % beyond the edge lets x grow e-fold within
# some thousand updates, so that after 18,000 there is no doubt. An x that overflows
# becomes inf or nan, and is not below 1 either.
#
# By hand: 2/25 = 0.08.

# %% [markdown]
# Is there a formula? On the edge $x$ neither grows nor shrinks, it swings: $x_t = \cos
# \theta t$. In the equation above, the swings of both sides are equally high if
# $\text{step} \cdot \lambda = 2\sin\frac{\theta}{2}$, and in time with each other if
# $\theta(\tau + \frac12) = \frac{\pi}{2}$. Together,
#
# $$\text{largest stable step} = \frac{2}{\lambda} \sin\frac{\pi}{2(2\tau + 1)}.$$

# %%
from parallel_by_hand.parameter_server import stale_gradients

for delay in (0, 1, 2, 4, 8, 16):
    found = stale_gradients.found_stable_step(1.0, delay)
    formula = stale_gradients.predicted_stable_step(1.0, delay)
    close = abs(found / formula - 1) < 0.01
    print(f"delay {delay:2}  formula {formula:.3f}, found within 1 in 100: {close}")

# %% [markdown]
# **A delay of 1 halves the largest stable step; a long delay $\tau$ divides it by
# $1.3\,\tau$ or so.** So twice the workers, and with them twice the staleness, need
# half the step. A network's loss is no parabola, but near a minimum it looks like one.

# %% [markdown] tags=["instructor"]
# ## The remedies: 5 minutes
#
# Cover the table, and let people order the rows. Then ask which of the rows needs no new
# number to tune.
#
# When late: the table only.

# %% [markdown]
# ## The remedies
#
# Sixteen workers train the network. The clock is *simulated*, so that every run gives
# the same numbers: each gradient takes 1 second or more, now and then much more, lesson
# 6's heavy tail. Each row has 60 seconds, and two random starts.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.parameter_server.remedies import compare_remedies

print(" " * 36 + "updates      loss of two runs")
for name, (losses, updates) in compare_remedies(budget=60.0, seeds=2).items():
    shown = [f"{loss:.2f}" if loss < 8 else "runs away" for loss in losses]
    print(f"{name:<36} {updates:6.0f}", *(f"{loss:>10}" for loss in shown))

# %% [markdown]
# **At once, the step that one worker takes without harm makes sixteen run away.** A
# bound alone does not save them. With a sixteenth of the step they beat the worker
# alone and both synchronous designs. Dividing each step by 1 + its staleness does
# better still. A bound, or *warm-up* with one worker alone for the first 10 seconds,
# costs more updates here than it is worth.
#
# In step, only a few rounds fit: the slowest of sixteen draws from the tail nearly
# every time. If 14 gradients of 16 are enough, about twice as many rounds fit.

# %% [markdown]
# ## Exercise 3: what a backup worker saves
#
# With the **backup workers** of Chen et al. 2016 a round needs `needed` gradients.
# Write `backup(seconds, needed, rounds)`: when the last round ends, and how many
# gradients have been thrown away by then. Worker `w` takes `seconds[w][i]` for its
# gradient `i`.
#
# * All begin at time 0. When `needed` gradients of this round have arrived, their
#   workers begin the next.
# * A late gradient is thrown away when it arrives, and its worker begins one for the
#   current round.
#
# By hand first: worker 0 always takes 1 second, worker 1 always 2, worker 2 first 4.5,
# then 1. When do three rounds end, with 2 gradients needed?
#
# <!-- exercise: 12a-backup -->
#
# <details><summary>Hint 1: a question</summary>
#
# When a gradient arrives, what does the server have to know to tell whether it is late?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Go from arrival to arrival, in the order of time. For each worker keep when its gradient
# will arrive, and for which round it is. A late one starts again at once; one in time
# waits until there are `needed` of them, and then all these start again.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Keep tuples `(arrives, worker, of_round)` in a heap, with `heapq`: `heappop` gives the
# next arrival. If it is of an older round, throw it away and start its worker again.
# Else the worker waits, and when `needed` of them wait, all start on the next round.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, what a backup worker saves: 20 minutes
#
# Draw the lanes of the case by hand first. Expected: late workers that are interrupted,
# though a worker that computes does not look into its post; and late gradients that
# count for the next round: then it is no longer synchronous.


# %% exercise="12a-backup"
def backup(seconds: list[list[float]], needed: int, rounds: int) -> tuple[float, int]:
    """When the last round ends, and how many gradients have been thrown away."""
    ### BEGIN SOLUTION
    from heapq import heapify, heappop, heappush

    takes = [iter(row) for row in seconds]
    under_way = [(next(row), worker, 0) for worker, row in enumerate(takes)]
    heapify(under_way)
    done, thrown, waiting = 0, 0, []
    while done < rounds:
        now, worker, of_round = heappop(under_way)
        late = of_round < done
        thrown += late
        waiting += [] if late else [worker]
        going = [worker] if late else []
        if len(waiting) == needed:
            done, going, waiting = done + 1, waiting, []
        for free in going:
            heappush(under_way, (now + next(takes[free]), free, done))
    return now, thrown
    ### END SOLUTION


# %%
check("12a-backup", backup)

# %% [markdown] tags=["why"]
# <!-- why: 12a-backup -->
# Why it works: nothing happens between two arrivals, so it is enough to look at these,
# in their order. The version in the letter says whether a gradient is late. With a heavy
# tail the slowest of 16 takes 1.5 times as long as the fourteenth in half of the rounds,
# and more than 3 times as long in one of eight. Two workers' work is thrown away for it.
#
# By hand: with 2 of 3 the rounds end at 2, 4 and 5.5, and one gradient is thrown away.
# With all 3 they end at 4.5, 6.5 and 8.5.

# %% [markdown] tags=["instructor"]
# ## The bottleneck: 7 minutes
#
# Ask for the server's bytes with 8 workers, then with 1,000. The ring's rank sends two
# tensors in any case. Then K servers, and at K = N the punch line: this is a
# reduce-scatter and an all-gather.
#
# When late: only the picture.

# %% [markdown]
# ## The bottleneck
#
# Now the parameters are $S$ = 200 KB, and go over the paced link of 10b: $\alpha$ = 10
# ms for each message, and $\beta$ = 40 ns for each byte, 8 ms for a letter. For one
# update in step the server sends $N$ letters and receives $N$, one at a time:
# $2N(\alpha + \beta S)$. A ring takes $2(N-1)(\alpha + \beta S/N)$.

# %%
guess("12a-server", None, "One update through the server, with 8 workers?", "ms")

# %%
from lessons.props.parameter_server_pictures import draw_server_costs
from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from parallel_by_hand.collectives.all_reduce_four_ways import time_over_paced_link
from parallel_by_hand.parameter_server import server_costs

pace, size, costs = (0.01, 40e-9), 200_000, {"server": {}, "ring": {}}
time_server = server_costs.time_server_over_paced_link
for n in (2, 4, 8):
    ranks = run_ranks(time_server, 1, size // 4, *pace, world_size=n + 1)
    seconds, meter = ranks[0]
    moved = meter.bytes_sent + meter.bytes_received
    print(f"{n} workers: {moved:,} bytes in four updates, and to stop")
    predicted = server_costs.predicted_server_seconds(n, size, *pace)
    costs["server"][n] = predicted, seconds
    around = run_ranks(time_over_paced_link, ["ring"], [size], *pace, 1, world_size=n)
    line = predicted_seconds("ring", n, size, *pace)
    costs["ring"][n] = line, around[0]["ring", size]
reveal("12a-server", 1e3 * costs["server"][8][1], simulated=True)
draw_server_costs(costs)

# %% [markdown]
# The server's time grows with the number of workers, because all bytes pass through one
# link. The ring's grows more slowly: each further rank costs two more $\alpha$, and the
# bytes are shared. On a quiet machine the server's points lie below the line because the
# first gradient is under way while the last letters go out, and the ring's above by what
# real messages cost.
#
# **$K$ servers hold a share of the parameters each**, and get its gradient from every
# worker.

# %%
for servers in (1, 2, 4):
    ranks = run_ranks(time_server, servers, size // 4, *pace, world_size=servers + 4)
    seconds, meter = ranks[0]
    predicted = server_costs.predicted_server_seconds(4, size, *pace, servers)
    moved = meter.bytes_sent + meter.bytes_received
    print(f"K = {servers}: {moved:,} bytes through rank 0", end=", ")
    print(f"predicted {1e3 * predicted:.0f} ms, run {1e3 * seconds:.0f} ms")

# %% [markdown]
# **With $K$ servers each moves $1/K$ of the bytes**, counted here over four updates and
# the letters that say stop. But each still pays $\alpha$ for $2N$ letters: from some
# $K$ on, more servers save little.
#
# When is one server too slow? At once, it receives a letter and sends one for each
# gradient, both at the same time: $\alpha + \beta S$, here 18 ms. A worker that computes
# for $G$ seconds brings a gradient every $G + 2(\alpha + \beta S)$, for a letter travels
# each way. So beyond $G / (\alpha + \beta S) + 2$ workers the gradients queue: with $G$
# = 360 ms, 22.
#
# With a server on each worker's machine, a machine moves what a rank of a ring moves:
# pushing shares of gradients to their owners is a reduce-scatter, pulling all shares is
# an all-gather.

# %% [markdown] tags=["instructor"]
# ## When one dies: 5 minutes
#
# Before the cells run: who notices, and what is lost? In step, everyone. At once, only
# the server's death is everyone's.
#
# When late: read the table.

# %% [markdown]
# ## When one dies
#
# The server in step saves a *checkpoint* after every ten updates: a file with the
# parameters and the version. We kill the server after update 25.

# %% tags=["raises-exception"]
from pathlib import Path
from tempfile import TemporaryDirectory

from parallel_by_hand.parameter_server import server_failures

folder = TemporaryDirectory()
path = Path(folder.name, "server.pt")
accident = {"path": path, "updates": 40}
trains = server_failures.train_with_checkpoints
run_ranks(partial(trains, **accident, victim=0, at=25), world_size=4)

# %% [markdown]
# All work ends. A new server reads the file and goes on; `first` is the version at
# which it begins. Beside it, the same training without an accident:

# %%
first, saved = run_ranks(partial(trains, **accident), world_size=4)[0]
accident["path"] = Path(folder.name, "other.pt")
_, whole = run_ranks(partial(trains, **accident), world_size=4)[0]
print(f"begins at update {first}, {25 - first} updates are lost and made again")
print("the same parameters as without an accident:", torch.equal(saved, whole))
folder.cleanup()

# %% [markdown]
# **The server is a single point of failure: the checkpoint is all that is left of it.**
# The result is the same because each gradient depends only on the parameters, the
# version and the worker. Of a worker nothing has to be saved.
#
# Now the server works at once, and a *worker* is lost: at version 20 rank 3 drops its
# connections.

# %%
lose = server_failures.train_while_worker_is_lost
heard, *of_workers = run_ranks(lose, 200, 20, 0.005, world_size=4)
end = max(place for place, rank in enumerate(heard, 1) if rank == 3)
print("before rank 3 is lost, gradients come from ranks", sorted(set(heard[:end])))
print("afterwards, until update 200, from ranks        ", sorted(set(heard[end:])))
for worker, lost in enumerate(of_workers, 1):
    print(f"rank {worker} ended because {lost} was lost")

# %% [markdown]
# **At once and without a bound, a lost worker stops no other**, until the end: our
# server would wait for its last letter, so it needs a time limit. Here it closes its
# connections after 200 updates, and so ends the other two workers. With a bound, the
# lost worker stays the slowest, and soon all wait.
#
# | dies | in step | at once |
# |---|---|---|
# | a worker | all stop; start again, perhaps with fewer | its gradients are missing; the others go on, if there is no bound |
# | the server | all stop; back to the checkpoint | the same |
#
# Losing one of $K$ servers is as bad: `pull` needs a letter from each.

# %% [markdown]
# ## The library
#
# torch has messages and no parameter server. Its tutorials built one on
# `torch.distributed.rpc`, which is in maintenance now.
#
# **Hogwild**, by Niu et al. 2011, has no server at all: processes change the same
# parameters in shared memory, without lesson 4's lock. `parameter_server/hogwild.py`
# counts what gets lost; `parameter_server/parameter_server.py` runs all designs.
#
# Stale weights are in use again where a model learns from text that it writes itself:
# in **asynchronous reinforcement learning** some GPUs write, with weights that are a few
# updates old, while others train. Nobody waits for the longest text. AReaL (Fu et al.
# 2025) bounds the age, as exercise 1 does, and weights each token by how much likelier
# a newer model is to write it than the one that wrote it.

# %% [markdown]
# ## A script of your own
#
# Here is a server at once, with torch alone:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 3 demos/parameter_server/own_parameter_server.py
# ```

# %%
from demos.parameter_server import own_parameter_server

show(own_parameter_server.serve)

# %% [markdown]
# ## The scorecard
#
# | N workers, one server, P bytes of parameters | in step | at once |
# |---|---|---|
# | equal to one process | to 10⁻⁶, after each update | no: other gradients, in another order |
# | bytes each rank sends per step | worker P, server N · P | worker P, server P for each update |
# | memory of each rank | server P and N gradients, optimiser; worker P and its gradient | server P, one gradient and unfinished answers, optimiser; worker the same |
# | idle share | all wait for the slowest, and for the server | only while letters travel, up to G / (α + βS) + 2 workers |
# | if one rank dies | see the table above | |
#
# ## What we saw
#
# * Against updates, the synchronous design wins or ties; against seconds, with a slow
#   worker, the asynchronous one wins.
# * A bound on the lead of the fast workers bounds the staleness. Steps divided by 1 +
#   staleness did better here.
#
# ## Next
#
# In lesson 12b every rank trains by itself for a while, and only then talks, to all or
# to its neighbours.
