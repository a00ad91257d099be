# ---
# title: 18b Failure and checkpoints
# question: With thousands of GPUs something fails every few hours. What is lost, and how does training go on?
# needs: two CPU cores, no GPU; Linux or macOS
# minutes: 90
# ---

# %% [markdown]
# # 18b. Failure and checkpoints
#
# The more machines train together, the more often one of them fails, and in synchronous
# training the others cannot go on without it. We kill and freeze ranks, make training go
# on as if nothing had happened, and ask what that costs.
#
# *You will be able to* write a checkpoint that is whole at any moment and lacks nothing,
# start ranks again when one has died, and say how often to save.
#
# *Before this:* lessons 11a, 12a and 18a. *Time:* {reading} minutes,
# and 50 for the exercises. *Needs:* two CPU cores, no GPU; Linux or macOS.

# %% [markdown] tags=["instructor"]
# ## Dead or silent: 5 minutes
#
# Ask: your colleague on the phone says nothing. Has she hung up, or is she thinking? A
# closed connection is an answer; silence is not.

# %% [markdown]
# ## Dead or silent
#
# Three processes add up a gradient in each step, with gloo. Before its sixth step rank 2
# fails in one of two ways: the system *kills* it, as when memory runs out, or the signal
# `SIGSTOP` *freezes* it, so that it exists and does nothing. The group has a time limit of
# three seconds, set by `init_process_group(timeout=...)`.

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
# machine without power, or a cut link. A rank that is already receiving then waits for
# the limit, by default 30 minutes with gloo. A rank that sends or begins to receive
# later gets an error after about a quarter of an hour, when Linux gives up on a machine
# that acknowledges nothing: gloo announces each receive with a few bytes. NCCL's limit
# is 10 minutes, and even a killed rank may be noticed only then, unless torchrun sees
# it.
#
# No survivor can go on: a sum needs all three ranks. What is left is the checkpoint.

# %% [markdown] tags=["instructor"]
# ## A file that is whole at any moment: 4 minutes
#
# Draw a file as a long box and kill the writer in the middle. What has the *old* checkpoint
# become by then? Everyone forgets it.

# %% [markdown]
# ## A file that is whole at any moment
#
# A process overwrites the checkpoint at `path` with the next one, by
# `torch.save(state, path)`. The system kills it as soon as the file would grow beyond a
# given size. What is left, for six such sizes?

# %%
from parallel_by_hand.checkpoints.atomic_file import save_in_place
from parallel_by_hand.failures.killed_writers import kill_while_writing

for left, times in kill_while_writing(save_in_place).items():
    print(f"left at its path, {times} of 6 times: {left}")

# %% [markdown]
# Neither the new nor the old one: opening a file for writing empties it first. **A
# checkpoint written in place can cost both checkpoints.**
#
# `os.replace(second, path)` gives a second file the name `path`, which the first file
# loses. That is a single step of the file system, *atomic* as in lesson 4: never half
# done.

# %% [markdown]
# ## Exercise 1: an atomic save
#
# Write `save_checkpoint(state, path)`; `path` is a `pathlib.Path`.
#
# * The process may be killed at any moment. Then `path` is still a whole checkpoint, old or
#   new, and the next call works.
# * Write a second file *in the same folder*, bring its bytes to the disk by
#   `file.flush()` and `os.fsync(file.fileno())`, then rename it. No other file remains.
# * Processes that save to `step.10` and `step.20` at the same time share no second file.
#
# By hand first: what does `torch.load(path)` give if the kill comes while the second file
# is written, right before `os.replace`, or right after it?
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
# Now the course's own version, killed at the same sizes and at ten random moments:

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
# A whole file may still lack something. We will kill a data parallel training on digits,
# with momentum, a rate that falls with each epoch, and *dropout*: in each step every rank
# sets about a fifth of its neurons to 0. What does a step depend on?

# %%
from parallel_by_hand.failures.resumable_training import DigitsTraining
from sidebyside import show

show(DigitsTraining.next_batch)
show(DigitsTraining.take_step)

# %% [markdown]
# We save after step 30, in the second epoch, and go on to step 50 in a new training:
# first with everything, then with one part left as it was at the start. *place* is the
# order of the epoch's images, how many of them have been used, and the step; *shuffle*
# draws the orders; *noise* draws what is dropped.

# %%
from lessons.props.failure import continue_without_each_part
from sidebyside import run_ranks

print("left out     bit for bit   farthest apart   images used twice")
for part, found in run_ranks(continue_without_each_part)[0].items():
    print(f"{part:<12} {found.equal!s:<13} {found.apart:14.2f} {found.twice:19}")

# %% [markdown]
# **With all parts, the training goes on bit for bit; without any one of them it does
# not.** Yet each of these runs ends without an error. Without the place, 311 images are
# used twice in this epoch, and others never.
#
# torch's `nn.Dropout` draws from the process's generator: `torch.get_rng_state()`, or
# `torch.cuda.get_rng_state()`. Python's `random` and NumPy have states of their own.
#
# Code does not belong in a checkpoint: a foreign pickle can run any command while it is
# loaded. With `weights_only=True`, the default since torch 2.6, `torch.load` refuses all
# but tensors, numbers, texts and containers of them. `torch.distributed.checkpoint` still
# unpickles `.metadata`: load only your own.

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
# By hand: 4 and 0 come next. But 3 1 4 0 2 has been drawn, so `shuffle` has moved on: a
# new training without an order draws the *next* one, the second epoch's, and 4, 0 and 2
# of this epoch are never seen. The order has to be saved, or the state from before it
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
# the **agent**, a process that does not train, such as `torchrun`. Ours works on one
# machine:

# %%
from parallel_by_hand.failures.own_agent import run_with_restarts

show(run_with_restarts)

# %% [markdown]
# All ranks start again, even the healthy ones: they stand in the middle of a sum that will
# never be complete. After every 10 steps, rank 0 gathers *each rank's* noise and saves it
# with what all ranks share. Rank 1 is killed after step 25. Each step sleeps for 30 ms.

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
# The gap is the restart; then steps 21 to 25 are made again. Is it the same training?

# %%
with TemporaryDirectory() as folder:
    run = Run(Path(folder), steps=40, every=10)
    run_with_restarts(train_through_accidents, 2, run)
    print("bit for bit:", torch.equal(resumed, trained_parameters(run)))

# %% [markdown]
# **With the same number of ranks, the training that was killed ends with the same
# parameters, bit for bit.** Kills are equally likely after every step; after each tenth,
# the checkpoint is complete. How many steps does a kill cost on average?

# %%
from sidebyside import guess

guess("18b-lost", None, "Steps lost by a kill, on average?", "")

# %%
from sidebyside import reveal

reveal("18b-lost", sum(step % 10 for step in range(1000)) / 1000, computed=True)

# %% [markdown]
# About half of the interval. An agent gives up after `--max-restarts` restarts, by
# default 0: a rank that dies of an error in its program would die again. In a terminal
# this takes 10 to 60 s, and the loss is that of a run without a kill:
#
# ```
# export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 --max-restarts 3 demos/failures/own_resumable.py \
#     --checkpoint saved.pt --kill-at 25
# ```
#
# **By default the torchrun of torch 2.13 keeps one store for all restarts**: a rank that
# starts early may find a dead rank's address there, and wait for it. The first line
# gives every start a store of its own.

# %% [markdown] tags=["instructor"]
# ## A host, or the link: 7 minutes
#
# On Linux run `python demos/failures/kill_and_resume.py --failure link` on the projector
# while you talk: it takes a minute and a half. Ask why host-b must not go on by itself.

# %% [markdown]
# ## A host, or the link
#
# If a whole machine is lost, nobody can start its ranks again. `torchrun --nnodes 1:2`
# needs one machine and takes two: it is **elastic**. The agents that are left meet again
# at 18a's rendezvous and start fewer ranks. Our agent does so with `elastic=True`, here
# without dropout:

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
# as the first. It works because the checkpoint counts the images of *all* ranks.

# %% [markdown]
# The first row is the command above. For the others, `demos/failures/kill_and_resume.py`
# runs `torchrun --nnodes 1:2` on two hosts in 18a's network namespaces, and breaks them
# by `--failure agent`, `link`, `link --heal 4` or `rendezvous`:
#
# | what fails | what the other rank reports | then |
# |---|---|---|
# | a worker | at once: connection lost | its agent sees exit code -9, and all ranks start again |
# | a host, with its agent | at once: connection lost | 6 to 11 s later the other goes on alone |
# | the link | at the limit: *Timed out waiting 10000ms* | 4 to 12 s later the host of the rendezvous goes on alone; the other waits in vain |
# | the link, for 4 s | nothing | training goes on |
# | the host of the rendezvous | at once: connection lost | 2 to 5 s later the other's agent gives up |

# %% [markdown]
# These are a few runs on two busy cores. A new group waits 1 s for latecomers there, not
# torchrun's 30 s. If both halves of a cut cluster went on, two trainings would share one
# checkpoint file: a *split brain*. So only the half with the rendezvous may go on.

# %% [markdown] tags=["instructor"]
# ## How often: 7 minutes
#
# Two people argue: save every minute, save every night. Each names what the other loses.
# Draw both losses against the interval, one falls and one rises, and their sum.

# %% [markdown]
# ## How often?
#
# Saving often costs time, saving seldom costs work when something fails. What counts is
# the **goodput**: the share of the time that becomes progress.

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
# Now failures are random: after a long run, one is no more likely than before. On average
# one comes every 0.8 s. Saving takes 0.08 s, a restart 0.25 s. Each point is 10,000
# failures on the simulated clock; the line is a formula. We also kill a *real* process
# five times, at random moments.

# %%
from itertools import islice

from lessons.props.failure import draw_goodput
from parallel_by_hand.failures.checkpoint_interval import (
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
# say next to nothing about an average**: the bar, with 80 % of the simulated runs of five,
# is much longer than that. So we compare the real process with the clock for *its* five
# moments, and let the clock play thousands.

# %% [markdown]
# Where is the top? Let a save take $\delta$, and failures be $M$ apart on average. The
# share of time that an interval $\tau$ costs is $\delta/\tau$ for saving, and about
# $\tau/2M$ for what is lost. Their sum is smallest for $\tau = \sqrt{2\delta M}$,
# **Young's formula** of 1974. If failures become four times as frequent, by what factor
# should one save more often?

# %%
guess("18b-often", None, "Saves per hour grow by what factor?", "")

# %%
often = [young_interval(machine._replace(mean=mean)) for mean in (0.8, 0.2)]
reveal("18b-often", often[0] / often[1], computed=True)

# %% [markdown]
# Young assumes that $\delta$ is short beside $M$. Daly's interval of 2006 has two more
# terms, and subtracts $\delta$:

# %%
from parallel_by_hand.failures import checkpoint_interval

show(checkpoint_interval.daly_interval)
for mean in (0.8, 8, 800):
    here = machine._replace(mean=mean)
    best = checkpoint_interval.best_interval(here)
    daly = checkpoint_interval.daly_interval(here)
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
# days: every 3.1 hours. At this rate, how many days does a machine with 8 GPUs run between
# two failures?

# %%
guess("18b-days", None, "Days between failures, with 8 GPUs?", "")

# %%
from itertools import product

reveal("18b-days", checkpoint_interval.hours_between_failures(8) / 24, computed=True)
print("   GPUs   hours between failures   seconds a save   minutes between   goodput")
for gpus, save in product((8, 1024, 16_384, 100_000), (60, 5)):
    hours = checkpoint_interval.hours_between_failures(gpus)
    here = Machine(3600 * hours, save, restart=300)
    row = f"{gpus:7,} {hours:24,.1f} {save:16} {young_interval(here) / 60:17.1f}"
    print(row, f"{checkpoint_interval.goodput_by_young(here):9.3f}")

# %% [markdown]
# The saves, and restarts of 300 s, are our assumptions. The Llama 3 paper of 2024 reports
# over 90 % of effective training time. **What happens once in 264 days on one machine
# happens every few hours on ten thousand GPUs, and then a short save is worth more than an
# exact interval**: on 16,384 it brings 7 points; half or twice the interval costs 2.

# %% [markdown] tags=["instructor"]
# ## Without waiting: 4 minutes
#
# Two timelines. Ask what must be finished before the next step may begin: the copy, because
# the step changes the numbers in place.

# %% [markdown]
# ## Without waiting
#
# Training need not wait for the disk. It copies the state in memory, and a thread writes
# the copy while steps go on: an **asynchronous checkpoint**. Here a step takes 40 ms, and
# a write 150 ms:

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
# At most one write is under way, or copies would pile up: the copy after step 6 waits for
# the write before it. What if we do not copy? Here a writer has written half of the state
# after step 5 when step 6 begins:

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
# the copy is memory: the state once more, usually on the CPU. Keep several checkpoints:
# one may hold a model whose loss is no longer a number.

# %% [markdown] tags=["instructor"]
# ## The library, a script, the scorecard: 3 minutes
#
# Let everyone say where their own training would begin again if the laptop were closed now.

# %% [markdown]
# ## The library's calls, and a script of your own
#
# | | agent and restarts | a checkpoint in the background |
# |---|---|---|
# | PyTorch | `torchrun --nnodes 1:4 --max-restarts 3` | `torch.distributed.checkpoint.async_save(state, checkpoint_id=folder)` |
# | TensorFlow | – | `tf.keras.callbacks.BackupAndRestore`, in line |
# | Horovod, last released in 2023 | `hvd.elastic.run` with a `TorchState`, kept in memory | – |
# | JAX | – | `orbax.checkpoint.CheckpointManager` |
#
# With the package torchft, the other replicas go on without the dead one.
#
# This script uses nothing but torch. It saves no order of images: the order follows from
# the epoch's number, and the epoch from the step. What yours must hold stands on
# [one page](../resources/checklists/checkpoint.md).

# %%
from demos.failures.own_resumable import start_or_go_on, train
from sidebyside import run_demo

show(start_or_go_on)
show(train)
run_demo("failures/own_resumable.py")

# %% [markdown]
# ## The scorecard
#
# Data parallel training whose state of $S$ bytes is saved every $\tau$:
#
# | | |
# |---|---|
# | equal to an uninterrupted run | bit for bit with the same world size and deterministic operations, as not all are on GPUs; up to rounding with another, without dropout |
# | bytes each rank sends per step | as without checkpoints; at one, 5 KB of random state |
# | memory of each rank | for the copy, $S$ more |
# | idle share | $\delta/\tau$ for saving in line; about $\tau/2M$ is computed twice |
# | if one rank dies | $\tau/2$ of work on average, and the restart |

# %% [markdown]
# ## What we saw
#
# A second file, `fsync` and a new name make a checkpoint atomic. All states and the place
# in the data make it complete. Goodput has a broad top at about $\sqrt{2\delta M}$: in a
# terminal, `demos/failures/checkpoint_interval.py` takes any $M$ and $\delta$.
#
# ## Next
#
# Here we knew what was broken. Lesson 18c asks of programs that hang or are silently
# wrong: which rank and line is guilty?
