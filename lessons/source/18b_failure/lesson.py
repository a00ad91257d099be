# ---
# title: 18b Failure and checkpoints
# question: With thousands of GPUs something fails every few hours. What is lost, and how does training go on?
# needs: two CPU cores, no GPU; Linux or macOS
# minutes: 90
# ---

# %% [markdown]
# # 18b. Failure and checkpoints
#
# Lesson 18a trained on several machines. The more machines there are, the more often one
# of them fails, and in synchronous training all others need it. Here we kill ranks,
# freeze them and cut the link, and read what the others report. Then we make training go
# on as if nothing had happened, and ask what that costs.
#
# *You will be able to* write a checkpoint that is whole at any moment and complete, so that
# training goes on bit for bit; to start ranks again when one has died; and to say how often
# to save.
#
# *Before this:* lessons 11a and 18a; a checkpoint is from lesson 12a. *Time:* {reading} minutes,
# and 50 for the exercises. *Needs:* two CPU cores, no GPU; Linux or macOS.

# %% [markdown] tags=["instructor"]
# ## Dead or silent: 5 minutes
#
# Ask: your colleague on the phone says nothing. Has she hung up, or is she thinking? A
# closed connection is an answer; silence is not.
#
# When late: run the cell, skip the questions.

# %% [markdown]
# ## Dead or silent
#
# Three processes add up a gradient in each step, on this machine and with gloo. Nothing
# watches over them, as `run_ranks` usually does. Before its sixth step rank 2 fails in
# one of two ways. The system *kills* it, as it does when memory runs out. Or the signal
# `SIGSTOP` *freezes* it: it still exists, and does nothing. The group was made with a
# time limit of three seconds, by `init_process_group(timeout=...)`.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.failures.failing_ranks import ask_survivors

for how in ("killed", "frozen"):
    print(f"rank 2 is {how}")
    for rank, steps, said, seconds in ask_survivors(how, limit=3):
        print(f"  rank {rank}, after {steps} steps: {said} ({seconds:.2f} s)")

# %% [markdown]
# **With gloo, a killed process is noticed at once, and a frozen one at the time limit.**
# When a process dies, its system closes its connections, and the others get an error:
# *reset*, *closed* or *Broken pipe*. A frozen process closes nothing; neither does a
# machine without power, or a cut link. A rank that only receives then waits for the
# limit, by default 30 minutes with gloo. A rank that has sent to a machine without power
# hears of it earlier: after about a quarter of an hour Linux gives up on unacknowledged
# data. NCCL's limit is 10 minutes, and even a killed rank may be noticed only then,
# unless torchrun sees it.

# %% [markdown]
# No survivor can go on, because a sum needs all three ranks. What they hold in memory is
# lost, and the checkpoint is left.

# %% [markdown] tags=["instructor"]
# ## A file that is whole at any moment: 4 minutes
#
# Draw a file as a long box and kill the writer in the middle. What has the *old* checkpoint
# become by then? Everyone forgets it.

# %% [markdown]
# ## A file that is whole at any moment
#
# At `path` lies the checkpoint of step 1. A process writes that of step 2 over it with
# `torch.save(state, path)`, byte after byte, and is killed on the way: the system ends it
# as soon as the file would grow beyond a given size. What is left, for six such sizes?

# %%
from parallel_by_hand.checkpoints.atomic_file import save_in_place
from parallel_by_hand.failures.killed_writers import kill_while_writing

for left, times in kill_while_writing(save_in_place).items():
    print(f"left at its path, {times} of 6 times: {left}")

# %% [markdown]
# Neither the new nor the old one: opening a file for writing empties it first. **A
# checkpoint written in place can cost both checkpoints.**

# %% [markdown]
# `os.replace` gives a file a new name, and takes this name away from the file that had
# it. For a file system that is a single step. It is atomic, in lesson 4's word: it is
# done or not done, and never half done.

# %% [markdown]
# ## Exercise 1: an atomic save
#
# Write `save_checkpoint(state, path)`; `path` is a `pathlib.Path`.
#
# * The process may be killed at any moment. Then `path` is still a whole checkpoint, old or
#   new, and the next call works.
# * Write a second file *in the same folder*, then rename it. Before that, bring its bytes
#   to the disk by `file.flush()` and `os.fsync(file.fileno())`.
# * Processes that save to `step.10` and `step.20` at the same time share no second file.
#
# By hand first: what does `torch.load(path)` give after a kill while the second file is
# written, before `os.replace`, and after it?
# <!-- exercise: 18b-save -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of your lines is the first after which a reader finds the new checkpoint? What must
# be true before it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `path.with_name(path.name + ".unfinished")` is a name of its own for each path.
# `path.with_suffix(...)` is not: think of `step.10` and `step.20`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `with open(second, "wb") as file:` and in it `torch.save(state, file)`, the flush and the
# `fsync`. Then, outside, `os.replace(second, path)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, an atomic save: 10 minutes
#
# Expected: `with_suffix(".tmp")`; the old file removed first, "to be safe"; `fsync` after
# the new name; a second file in the folder for temporary files.


# %% exercise="18b-save"
import os

import torch

from sidebyside import forget, hint, progress, solution


def save_checkpoint(state: dict, path) -> None:
    """Write `state`; at any moment `path` is a whole checkpoint, old or new."""
    ### BEGIN SOLUTION
    second = path.with_name(path.name + ".unfinished")
    with open(second, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(second, path)
    ### END SOLUTION


# %%
from sidebyside import check

check("18b-save", save_checkpoint)

# %% [markdown] tags=["why"]
# <!-- why: 18b-save -->
# Why it works: until `os.replace`, nothing has touched the file called `path`. That call
# is one step of the file system, so there is no moment in between. Without `fsync` the
# new name may reach the disk before the bytes: after a power cut the name would stand on
# an empty file. `torch.save` happens to flush what it writes; not every writer does.
#
# By hand: the old checkpoint, the old one, the new one. If `path` itself had been opened:
# neither, from the moment it is opened until its last byte is written.

# %% [markdown]
# The course's own version is killed at the same six sizes, and a process that saves again
# and again is killed at ten random moments:

# %%
from parallel_by_hand.checkpoints.atomic_file import save_atomically
from parallel_by_hand.failures.killed_writers import kill_at_random_moments

for left, times in kill_while_writing(save_atomically).items():
    print(f"left at its path, {times} of 6 times: {left}")
print("whole and the newest:", kill_at_random_moments(save_atomically), "of 10")

# %% [markdown] tags=["instructor"]
# ## What belongs in it: 4 minutes
#
# Collect on the board what a training is made of. The model comes at once, the optimiser
# soon; who says "which image is next", and who says "the dice"?

# %% [markdown]
# ## What belongs in it
#
# A whole file may still lack something. The training that we will kill is data parallel,
# on digits, with momentum, a rate that falls with each epoch, and *dropout*: in each step
# every rank sets a random fifth of its neurons to 0. What does a step depend on?

# %%
from parallel_by_hand.failures.resumable_training import DigitsTraining
from sidebyside import show

show(DigitsTraining.next_batch)
show(DigitsTraining.take_step)

# %% [markdown]
# We save after step 30, in the second epoch, and go on to step 50 in a new training:
# first with everything, then each time with one part left as it was at the start. *place*
# is the order of the epoch's images, how many of them have been used, and the step;
# *shuffle* draws the orders; *noise* draws what is dropped.

# %%
from lessons.props.failure import continue_without_each_part
from sidebyside import run_ranks

print("left out     bit for bit   farthest apart   images used twice")
for part, found in run_ranks(continue_without_each_part)[0].items():
    print(f"{part:<12} {found.equal!s:<13} {found.apart:14.2f} {found.twice:19}")

# %% [markdown]
# **With all parts, the training goes on bit for bit; without any one of them it does
# not.** Nothing warns: each of these runs ends without an error. Without the place, 311
# images are used twice in this epoch, and others never. A training that reads its text
# once would repeat text after every failure.

# %% [markdown]
# torch's own `nn.Dropout` draws from the process's generator: `torch.get_rng_state()`,
# and `torch.cuda.get_rng_state()` on a GPU. Python's `random` and NumPy have states of
# their own.
#
# Code does not belong in it: a foreign pickle can run any command while it is loaded.
# With `weights_only=True`, the default since torch 2.6, `torch.load` refuses all but
# tensors, numbers, texts and containers of them. `torch.distributed.checkpoint` still
# unpickles the file `.metadata`: load only your own.

# %% [markdown]
# ## Exercise 2: stop and go on
#
# `snapshot(training)` returns the state of this rank's `DigitsTraining`, as a dictionary
# that `torch.load` reads with `weights_only=True`. `restore(training, saved)` brings
# another `DigitsTraining` to that moment: from there all steps are the same, bit for bit.
#
# * The state is `.model` and `.optimizer`; `.shuffle` and `.noise`, two
#   `torch.Generator`s; `.order`, a tensor; `.used` and `.step`, numbers.
# * Neither a snapshot nor `saved` changes while a training goes on.
#
# By hand first: the order 3 1 4 0 2 of five images has been drawn, and one step of batch
# 2 taken. Which images come next? Which, if only the state of `shuffle` was saved?
# <!-- exercise: 18b-resume -->
#
# <details><summary>Hint 1: a question</summary>
#
# `optimizer.state_dict()` returns a dictionary. Whose tensors are in it, and what happens
# to them in the next step?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `copy.deepcopy` of the whole dictionary, in both functions: `load_state_dict` of an
# optimiser goes on working in the tensors that it is given.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `training.noise.get_state()` and `training.noise.set_state(saved["noise"])`; the same for
# `shuffle`. `model` and `optimizer` have `state_dict()` and `load_state_dict(...)`. `order`,
# `used` and `step` are saved and set as they are.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, stop and go on: 20 minutes
#
# Expected: no copy in `snapshot`, which only shows when training goes on before the file is
# written; no copy in `restore`, which only shows when it is restored twice; the generator
# `shuffle` saved and the order forgotten; the parameters of the model without the optimiser's rate.

# %% exercise="18b-resume"
import copy


def snapshot(training: DigitsTraining) -> dict:
    """All that this rank's training is made of, as copies."""
    ### BEGIN SOLUTION
    return copy.deepcopy(
        {
            "model": training.model.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "shuffle": training.shuffle.get_state(),
            "noise": training.noise.get_state(),
            "place": (training.order, training.used, training.step),
        }
    )
    ### END SOLUTION


def restore(training: DigitsTraining, saved: dict) -> None:
    """Bring `training` to the moment of the snapshot."""
    ### BEGIN SOLUTION
    saved = copy.deepcopy(saved)
    training.model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    training.shuffle.set_state(saved["shuffle"])
    training.noise.set_state(saved["noise"])
    training.order, training.used, training.step = saved["place"]
    ### END SOLUTION


# %%
check("18b-resume", snapshot, restore)

# %% [markdown] tags=["why"]
# <!-- why: 18b-resume -->
# Why it works: a step is a function of what the training holds, and of nothing else. If all of it
# is the same, bit for bit, the next step is the same too. Copies are needed because
# `state_dict` shows the tensors in use, which the next step changes in place.
#
# By hand: 4 and 0 come next. But 3 1 4 0 2 has been drawn, so the generator's state is behind
# it: a new training without an order draws the *next* one, the second epoch's, and 4, 0
# and 2 of this epoch are never seen. The order has to be saved, or the state from before it
# was drawn.

# %% [markdown] tags=["instructor"]
# ## An agent: 7 minutes
#
# Play it: three people are ranks, you are the agent. Tap one on the shoulder: she leaves.
# Why must the other two start again too? They stand in the middle of a sum.
#
# When late: the timeline only.

# %% [markdown]
# ## An agent
#
# Something has to notice a dead rank and start the ranks again. On each machine that is
# the **agent**, a process that does not train: `torchrun`, once it has started the ranks.
# Ours works on one machine:

# %%
from parallel_by_hand.failures.own_agent import run_with_restarts

show(run_with_restarts)

# %% [markdown]
# All ranks start again, even the healthy ones: each stands in the middle of a sum that
# will never be complete, and must go back to the same checkpoint as the others. After
# every 10 steps, rank 0 gathers *each rank's* noise and saves it with what all ranks
# share. Rank 1 is killed after step 25. A step sleeps here, so that the picture looks the
# same on every machine.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

from parallel_by_hand.failures.resumed_digits import (
    Run,
    train_through_accidents,
    trained_parameters,
)
from sidebyside import Timeline

with TemporaryDirectory() as folder, Timeline() as timeline:
    run = Run(Path(folder), steps=40, every=10, accidents={0: (1, 25)}, nap=0.03)
    run_with_restarts(train_through_accidents, 2, run)
    print(*run.lives, sep="\n")
    resumed = trained_parameters(run)
timeline.plot("rank 1 is killed after step 25", stamp="simulated")

# %% [markdown]
# Steps 21 to 25 were lost and are made again. The gap is the restart. Is it the same
# training?

# %%
with TemporaryDirectory() as folder:
    run = Run(Path(folder), steps=40, every=10)
    run_with_restarts(train_through_accidents, 2, run)
    print("bit for bit:", torch.equal(resumed, trained_parameters(run)))

# %% [markdown]
# **With the same number of ranks, the training that was killed ends with the same
# parameters, bit for bit.** If a kill is equally likely after each step, and comes after
# the save where there is one, how many steps does it cost on average, with a checkpoint
# after every 10?

# %%
from sidebyside import guess

guess("18b-lost", None, "Steps lost by a kill, on average?", "")

# %%
from sidebyside import reveal

reveal("18b-lost", sum(step % 10 for step in range(1000)) / 1000, computed=True)

# %% [markdown]
# About half of the interval. An agent gives up after `--max-restarts` restarts, by
# default 0, because a rank that dies of an error in its program would die again. Saving
# remains the task of your program.
#
# ```
# export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 --max-restarts 3 demos/failures/own_resumable.py \
#     --checkpoint saved.pt --kill-at 25
# ```

# %% [markdown]
# **By default the torchrun of torch 2.13 keeps one store for all restarts**: a rank that is
# early may find the address of a dead one there, and wait for it. With the first line
# every start has a store of its own.
#
# In a terminal this command takes 10 to 60 s. Rank 1 is killed, both ranks start again,
# and the loss is that of a run without a kill.

# %% [markdown] tags=["instructor"]
# ## A host, or the link: 7 minutes
#
# On Linux run `python demos/failures/kill_and_resume.py --failure link` on the projector
# while you talk: it takes a minute and a half. Ask why host-b must not go on by itself.
#
# When late: read the table's column "what is lost".

# %% [markdown]
# ## A host, or the link
#
# If a whole machine is lost, nobody can start its ranks again. `torchrun --nnodes 1:2`
# needs one machine and takes two: it is **elastic**. The agents that are left meet again
# at lesson 18a's rendezvous and start ranks with a smaller world size. Our agent does
# that with `elastic=True`. Two ranks become one, without dropout this time:

# %%
lives = []
for accidents in ({}, {0: (1, 25)}):
    with TemporaryDirectory() as folder:
        run = Run(Path(folder), 40, 10, accidents, dropout=0)
        run_with_restarts(train_through_accidents, 2, run, elastic=True)
        lives.append(trained_parameters(run))
        print([life.ranks for life in run.lives], "ranks")
print("bit for bit:", torch.equal(*lives))
print("within 0.00001:", torch.allclose(*lives, rtol=0, atol=1e-5))

# %% [markdown]
# **With another world size, and the same batches, the result agrees up to rounding**: one
# rank adds in another order than two. With dropout it would be another training, as good
# as the first. All this works because the checkpoint counts the images of *all* ranks.

# %% [markdown]
# Now two hosts in network namespaces, as in 18a, with `torchrun --nnodes 1:2` on each. On
# Linux, `demos/failures/kill_and_resume.py` breaks them, with `--failure agent`,
# `--failure link`, `--failure link --heal 4` or `--failure rendezvous`. The first row is
# the command above:
#
# | what fails | what is reported | when | then | what is lost |
# |---|---|---|---|---|
# | a worker | the other: its connection is lost; its agent: exit code -9 | at once | its agent starts all ranks again | steps since the checkpoint |
# | a host, with its agent | the other: its connection is lost | at once | 6 to 11 s later one host goes on, world size 1 | the same, and half of the machines |
# | the link | both: *Timed out waiting 10000ms* | at the limit, 10 s here | the host of the rendezvous goes on alone, 4 to 12 s later; the other waits in vain, and we end it | the same |
# | the link, for 4 s | nothing | | training goes on | 4 s |
# | the host of the rendezvous | the other: its connection is lost | at once | the other's agent gives up 2 to 5 s later | the same, and somebody must start the job again |

# %% [markdown]
# The host's processes are killed here; a host without power is noticed at the limit, like
# a cut link. The seconds are those of a few runs with gloo on two busy cores. By default,
# a new group waits 30 s for latecomers; the demo's waits 1 s.
#
# If both halves of a cut cluster went on, two trainings would share one checkpoint file:
# a *split brain*. So only the half with the rendezvous may go on.

# %% [markdown] tags=["instructor"]
# ## How often: 7 minutes
#
# Two people argue: save every minute, save every night. Each names what the other loses.
# Draw both losses against the interval, one falls and one rises, and their sum.

# %% [markdown]
# ## How often?
#
# Saving often costs time, saving seldom costs work when something fails. What counts is the
# **goodput**: the share of the time that becomes progress. To find it we need a clock that
# plays failures.

# %% [markdown]
# ## Exercise 3: the clock
#
# Write `finish_time(work, every, save, restart, failures)`: the time from 0 at which
# `work` seconds of computing are done.
#
# * After each `every` seconds of computing, training stops to save for `save` seconds.
#   After the last second of work it ends without a save.
# * `failures` are moments, in order. A failure throws training back to the last complete
#   checkpoint, or to the start. Training goes on `restart` seconds after the latest
#   failure.
#
# By hand first: `work` 10, `every` 4, `save` 1, `restart` 2, failures at 7 and 8. What
# is lost at 7, and when is the work done?
# <!-- exercise: 18b-clock -->
#
# <details><summary>Hint 1: a question</summary>
#
# What do you have to remember after a failure? Two numbers are enough.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Take one failure after the other. Before it, go from checkpoint to checkpoint as long as
# the next one is complete by then. A failure during a restart needs no case of its own: nothing
# is complete by then.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `for failure in [*failures, math.inf]:`, and inside `while True:` the next end: `now + every +
# save`, or `now + work - saved` if that is the rest. If it is later than the failure, `break`;
# else go there. After the loop, `now = failure + restart`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, the clock: 15 minutes
#
# Expected: a checkpoint after the last second; what was computed since the checkpoint is kept;
# a failure while saving counts as saved; two restarts added up when the second failure
# falls into the first.

# %% exercise="18b-clock"
import math


def finish_time(work, every, save, restart, failures) -> int:
    """The moment at which `work` seconds of computing are done."""
    ### BEGIN SOLUTION
    now = saved = 0
    for failure in [*failures, math.inf]:
        while True:
            last = saved + every >= work
            end = now + (work - saved if last else every + save)
            if end > failure:
                break
            now, saved = end, saved + every
            if last:
                return now
        now = failure + restart
    ### END SOLUTION


# %%
check("18b-clock", finish_time)

# %% [markdown] tags=["why"]
# <!-- why: 18b-clock -->
# Why it works: at any moment only two numbers matter, the clock and the work that is saved. From
# checkpoint to checkpoint both move on; at a failure the clock jumps and the work stays. If
# the next failure comes before `now`, nothing can be complete by then, and the clock
# jumps again, from that failure.
#
# By hand: 4 seconds of work are saved at 5. At 7, 2 seconds are lost. At 8 the restart begins
# anew and ends at 10. The next 4 seconds are saved at 15, and the last 2 are done at 17.

# %% [markdown]
# ## The best interval
#
# Now with random failures, which have no memory: a machine that has run for long is no
# more likely to fail. On average one comes every 0.8 s. Saving takes 0.08 s, a restart
# 0.25 s. Each point is 400 failures on the simulated clock; the line is Daly's formula of
# 2006 for the goodput. We also kill a *real* process five times, at such moments. It
# sleeps in place of computing and saving.

# %%
from itertools import islice

from lessons.props.failure import draw_goodput
from parallel_by_hand.failures.failure_clock import (
    Machine,
    random_failures,
    young_interval,
)
from parallel_by_hand.failures.real_kills import survive_kills

machine = Machine(mean=0.8, save=0.08, restart=0.25)
moments = list(islice(random_failures(machine.mean, seed=8), 5))
survived = survive_kills(young_interval(machine), machine, moments)
print(f"goodput with five real kills {100 * survived.goodput:.0f} %")
print(f"by the clock, with these five moments, {survived.predicted:.2f} of the time")
draw_goodput(machine, survived, kills=5)

# %% [markdown]
# The top is broad: half or twice the best interval costs about 4 points. **Five failures
# say next to nothing about an average**: the bar holds 80 % of the simulated runs with
# five, and is much longer than those 4 points. So the real process is compared with the
# clock for *these* five moments, and the clock plays hundreds.

# %% [markdown]
# Where is the top? With $\delta$ for a save and $M$ between failures, an interval $\tau$
# costs $\delta/\tau$ for saving and about $\tau/2M$ for what is lost. Their sum is
# smallest for $\tau = \sqrt{2\delta M}$, **Young's formula** of 1974. If failures become
# four times as frequent, by what factor should one save more often?

# %%
guess("18b-often", None, "Saves per hour grow by what factor?", "")

# %%
often = [young_interval(machine._replace(mean=mean)) for mean in (0.8, 0.2)]
reveal("18b-often", often[0] / often[1], computed=True)

# %% [markdown]
# Young assumes that $\delta$ is short beside $M$. For a longer $\delta$, Daly's formula
# has two more terms, and subtracts $\delta$:
#
# $$\tau = \sqrt{2\delta M}\left(1 + \frac{1}{3}\sqrt{\frac{\delta}{2M}} + \frac{\delta}{18M}\right) - \delta$$

# %%
from parallel_by_hand.failures import failure_clock

for mean in (0.8, 8, 800):
    here = machine._replace(mean=mean)
    best = failure_clock.best_interval(here)
    daly = failure_clock.daly_interval(here)
    print(f"M = {mean:5}: best {best:6.2f}, Young {young_interval(here):6.2f}", end="")
    print(f", Daly {daly:6.2f}")

# %% [markdown] tags=["instructor"]
# ## Ten thousand GPUs: 4 minutes
#
# Before the guess: 419 interruptions sound like bad work. Then divide. It is the number of
# parts, not their quality.

# %% [markdown]
# ## Ten thousand GPUs
#
# Llama 3 was trained on 16,384 GPUs and was interrupted unexpectedly 419 times in 54
# days: every 3.1 hours. Suppose that every GPU, with all that belongs to it, fails that
# often. How many days does a machine with 8 GPUs run between two failures?

# %%
guess("18b-days", None, "Days between failures, with 8 GPUs?", "")

# %%
reveal("18b-days", failure_clock.hours_between_failures(8) / 24, computed=True)
for gpus in (8, 1024, 16_384, 100_000):
    hours = failure_clock.hours_between_failures(gpus)
    print(f"{gpus:,} GPUs, a failure every {hours:,.1f} hours")
    for save in (60, 5):
        here = Machine(3600 * hours, save, restart=300)
        minutes = young_interval(here) / 60
        share = failure_clock.goodput_by_young(here)
        print(f"    a save takes {save:2}, one every {minutes:5.1f} minutes", end="")
        print(f": goodput {share:.3f}")

# %% [markdown]
# The saves of 60 and 5 seconds and the restart of 300 are our assumptions. The Llama 3
# paper of 2024 reports over 90 % of effective training time. **What happens once in 264
# days on one machine happens every few hours on ten thousand GPUs, and then a short save
# is worth more than an exact interval**: on 16,384 it brings 7 points; half or twice the
# interval costs 2.

# %% [markdown] tags=["instructor"]
# ## Without waiting: 4 minutes
#
# Two timelines. Ask what must be finished before the next step may begin: the copy, because
# the step changes the numbers in place.

# %% [markdown]
# ## Without waiting
#
# Training need not wait for the disk. It copies the state in memory, and a thread writes
# the copy while steps go on: an **asynchronous checkpoint**. Here a step sleeps for 40
# ms, and the disk for 150 ms:

# %%
from parallel_by_hand.failures.background_save import (
    BackgroundSaver,
    train_beside_writer,
)
from sidebyside import draw_timelines

drawn = {}
with TemporaryDirectory() as folder:
    for name, background in {"in line": False, "in the background": True}.items():
        with Timeline() as drawn[name]:
            train_beside_writer(Path(folder), background)
show(BackgroundSaver.save)
draw_timelines(drawn, stamp="simulated")

# %% [markdown]
# At most one write is under way, or copies would pile up: a checkpoint that comes too
# soon waits for the one before. What if we do not copy? Here a writer has written half of
# the state when step 6 begins:

# %%
from parallel_by_hand.failures.background_save import measure_pauses, steps_in_file

with TemporaryDirectory() as folder:
    for copying in (False, True):
        found = sorted(steps_in_file(Path(folder), copying))
        print(f"copied first: {copying!s:<6} the file has numbers of steps {found}")
    for way, seconds in measure_pauses(Path(folder)).items():
        print(f"64 MB {way}: training stands still for {1000 * seconds:.0f} ms")

# %% [markdown]
# **Without the copy, the file is whole and holds a mixture of two steps.** The price of
# the copy is memory: the state once more, usually on the CPU. A failure may come before
# the write has ended: then the checkpoint before it counts. So keep several: a checkpoint
# of a model whose loss is no longer a number is whole, too.

# %% [markdown] tags=["instructor"]
# ## The library, a script, the scorecard: 3 minutes
#
# Let everyone say where their own training would begin again if the laptop were closed now.

# %% [markdown]
# ## The library's calls, and a script of your own
#
# | | agent and restarts | a checkpoint in the background |
# |---|---|---|
# | PyTorch | `torchrun --nnodes 1:4 --max-restarts 3`, and the variable above | `torch.distributed.checkpoint.async_save(state, checkpoint_id=folder)` |
# | TensorFlow | – | `tf.keras.callbacks.BackupAndRestore`, in line |
# | Horovod, whose last release is of 2023 | `hvd.elastic.run` with a `TorchState`, kept in memory | – |
# | JAX | – | `orbax.checkpoint.CheckpointManager` |
#
# The package torchft goes further than restarts: the other replicas go on without the dead one.
#
# Here is a script without this course's instruments, run as a group of one rank. It saves
# no order of images: the order follows from the epoch's number, and the epoch from the
# step. `TORCHELASTIC_RESTART_COUNT` is torchrun's count of restarts.

# %%
from demos.failures.own_resumable import train
from sidebyside import run_demo

show(train)
run_demo("failures/own_resumable.py")

# %% [markdown]
# ## The scorecard
#
# Data parallel training with checkpoints, $N$ ranks, a state of $S$ bytes, saved every $\tau$:
#
# | | |
# |---|---|
# | equal to one process | as lesson 11a's training. Resumed with the same world size: to the uninterrupted one bit for bit, if every operation is deterministic, as not all are on GPUs; with another and without dropout: up to rounding |
# | bytes each rank sends per step | those of training; at a checkpoint, its random state as well, 5 KB |
# | memory of each rank | that of training; for the copy $S$ more |
# | idle share | $\delta/\tau$ for saving, in line; about $\tau/2M$ is computed twice |
# | if one rank dies | $\tau/2$ of work on average, and the restart |

# %% [markdown]
# ## What we saw
#
# * A second file, `fsync` and a new name make a checkpoint atomic. All states and the
#   place in the data make it complete.
# * Goodput has a broad top at about $\sqrt{2\delta M}$. Five failures are too few to see it.
#
# In a terminal, `demos/failures/checkpoint_interval.py` takes any $M$ and $\delta$.
#
# ## Next
#
# Here we knew what was broken. Lesson 18c begins with programs that hang, or are silently
# wrong, and asks which rank and which line is guilty.
