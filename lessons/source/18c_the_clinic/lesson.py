# ---
# title: 18c The clinic
# question: A training on many ranks hangs, aborts, or is silently wrong. Which rank is it, and which line?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 18c. The clinic: which rank, which line?
#
# When one process goes wrong, Python shows a traceback. When one rank of many goes wrong,
# the others wait for it, often without a message. The more ranks there are, the longer
# you search, and the more GPUs wait meanwhile.
#
# Six sick programs are waiting for you here. You examine and repair them, and at the end
# you find a rank that is only slow. There are five tools: the hang report, the debug
# level, the watchdog with its flight recorder, a barrier that reports, and the stacks.
#
# Is a job of your own sick now? [A table](#What-we-saw) at the end names the first tool
# for each symptom, and [a path](../resources/paths/my_job_hangs.md) leads from there.
#
# *You will be able to* find the rank that everybody waits for, and its line; to choose the
# tool that fits the symptom; and to build a watchdog into a script of your own.
#
# *Before this:* lessons 9, 10a and 11a. *Time:* {reading} minutes to read, 45 for the exercises.
# *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## The ward round and the hang report: 8 minutes
#
# Let three people act out an all-reduce: each stands up when it is called, and sits down
# when all three are standing. Then tell one of them secretly to stay seated. Ask the class
# who is to blame: they point at the people who are standing. The guilty one sits quietly.
#
# When late: run the ward round, and read the report without the program.
#
# Who has what, for you. Learners find symptom and tool in the table at the end.
#
# | patient | symptom | first tool | what is wrong |
# |---|---|---|---|
# | ada | rank 0 waits, the others have finished | hang report | an all-reduce that rank 0 alone calls |
# | ben | all wait, in different collectives | `DETAIL` | rank 2 broadcasts where the others all-reduce |
# | cleo | nothing; rank 1 has other sums | replicas compared | each rank sorts by its own numbers |
# | dan | SIGABRT kills one rank | `DETAIL` | rank 2 has fewer rows, so another shape |
# | eve | rank 1 waits, the others have finished | flight recorder | rank 1 has one batch more |
# | finn | all wait, rank 2 not in a collective | `monitored_barrier`, stacks | rank 2 waits for more bytes than it is sent |
# | gwen | nothing; it learns less | shards compared | all ranks begin with one seed |
# | the straggler | only slow | each rank's waiting time | rank 2 loads for longer |

# %% [markdown]
# ## The ward round
#
# Each patient is a small program that runs in three ranks, with gloo. The data are chosen
# so that it always falls ill. We let all six run, and look after a second at what each
# rank does.

# %%
from parallel_by_hand.clinic.examinations import ward_round

ward_round()

# %% [markdown]
# **Four patients hang, one aborts, and one finishes without a complaint, with wrong
# results.** The four that hang print nothing: a rank that waits does not know that it
# waits in vain. Waiting proves neither guilt nor innocence.

# %% [markdown]
# ## First tool: the hang report
#
# You know it from lessons 10a and 11a: when its time is over, `run_ranks` asks each rank
# for the line it is on. Here is ada, with line numbers. Each rank has `batches` of its
# own, and `RATE` is the learning rate. In a report, the file `<ada>` is this listing.

# %%
from parallel_by_hand.clinic.ward import show_patients

show_patients("ada")

# %% tags=["raises-exception"]
from parallel_by_hand.clinic.ward import run_patient

run_patient("ada")

# %% [markdown]
# One rank waits in a collective, and two have finished: they never called it. Which rank
# is guilty? By a rule of our game, **the guilty rank is the one of three that does what
# the two others do not do.** In real life the two may be wrong, and the one right. Keep
# the answer for exercise 1.
#
# Outside this course there is no such report. You wait until the group's time limit: 30
# minutes with gloo and 10 with NCCL, unless you choose another with
# `dist.init_process_group(timeout=timedelta(minutes=2))`. Then a waiting rank raises an
# error with gloo, "Timed out waiting 120000ms for recv operation to complete", which does
# not name the missing ranks. With NCCL its process is ended.

# %% [markdown] tags=["instructor"]
# ## The debug level: 6 minutes
#
# Ask before the cell: what would the ranks have to tell each other, so that a mismatch is
# noticed before it does harm? What does that cost in each collective?
#
# When late: show dan only.

# %% [markdown]
# ## Second tool: the debug level
#
# A collective does not check that all ranks call the same one. Torch does, if you ask: with
# `TORCH_DISTRIBUTED_DEBUG=DETAIL` in the environment when the program starts, **the ranks
# compare what they are about to call, its shape and its type, by a barrier and two extra
# all-gathers before each collective.** Here are two patients that suffer from a mismatch:

# %%
show_patients("ben", "dan")

# %%
from parallel_by_hand.clinic.examinations import examine_patient

for name in "ben", "dan":
    examine_patient(name, "detail")

# %% [markdown]
# Torch's messages are shortened here. Without the debug level ben hangs, and dan aborts:
# rank 2 receives more bytes than it has room for, and gloo ends the process. The rank
# that is killed need not be the guilty one. **With other sizes, the same mistake hangs
# instead.** With `DETAIL` both become Python errors that name two ranks, and you can see
# which one differs.
#
# With ada, `DETAIL` reports nothing before the group's time limit, because rank 0 has no
# second rank to compare with. Then the barrier fails, and names ranks 1 and 2, which
# never came.
#
# In a pipeline `DETAIL` gives a false alarm: torch 2.13 counts messages as well, so ranks
# that have sent or received different numbers of them "mismatch" at the next collective.
# And with DDP on gloo `DETAIL` ends the ranks by SIGSEGV, unless the program has
# [a line against it](../resources/paths/my_job_hangs.md#what-do-you-see).

# %% [markdown]
# ## Exercise 1: ada, ben and dan
#
# Set `repairs`, in the form that the cell below shows: for each patient the guilty rank,
# and new lines that cure it for any number of ranks.
#
# As in lesson 9, `\n` separates new lines, and `""` deletes a line. When well, they
# return
#
# * *ada*: the weights, and on rank 0 the mean of all ranks' losses.
# * *ben*: the weights. If any gradient is longer than `LIMIT`, all ranks use rank 0's,
#   else the mean.
# * *dan*: the mean of the errors of all rows.
#
# *By hand first:* rank 0 has the error 6, rank 1 has 3 and 0. What is the mean, and the
# mean of the ranks' means?
#
# <!-- exercise: 18c-hung -->
# <details><summary>Hint 1: a question</summary>
#
# For each collective in the program: do all ranks come to it? If it stands behind an
# `if`, which ranks know what the `if` asks about? If it has a shape, which ranks know
# that shape?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# ada: only the use of the loss may depend on the rank. ben: before the `if`, let all ranks
# find out whether any of them has a long gradient. dan: which two numbers of a rank, of the
# same shape everywhere, are enough for the mean of all rows?
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# ada: the new line 9 does what lines 10 and 11 did, without an `if`; delete these two.
# ben: make a tensor of `gradient.norm() > LIMIT`, as a float, all-reduce it with
# `op=dist.ReduceOp.MAX`, and use the result in the `if`. dan: all-reduce
# `torch.stack([errors.sum(), torch.tensor(float(len(errors)))])`, sum and count in one.
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1 in class: 15 minutes
#
# Two people per screen. One reads the report aloud, the other finds the line.

# %% exercise="18c-hung"
from sidebyside import forget, hint, progress, solution

repairs = ...  # {"ada": (rank, {line: "new text"}), "ben": ..., "dan": ...}
### BEGIN SOLUTION
repairs = {
    "ada": (0, {9: "dist.all_reduce(loss)\nloss /= ranks", 10: "", 11: ""}),
    "ben": (
        2,
        {
            6: "wild = (gradient.norm() > LIMIT).double()\n"
            "dist.all_reduce(wild, op=dist.ReduceOp.MAX)\n"
            "if wild:"
        },
    ),
    "dan": (
        2,
        {
            4: "total = torch.stack([errors.sum(), torch.tensor(float(len(errors)))])\n"
            "dist.all_reduce(total)",
            5: "return (total[0] / total[1]).item()",
        },
    ),
}
### END SOLUTION

# %%
from sidebyside import check

check("18c-hung", repairs)

# %% [markdown] tags=["why"]
# <!-- why: 18c-hung -->
# Why it works. In all three, every rank now calls the same collectives, in the same
# order, with the same shapes, whatever its own data are. ada: all ranks sum up the loss,
# and each may use it. ben: a collective answers whether there is a long gradient, so all
# ranks get one answer. dan: a sum and a count have the same shape on every rank.
#
# By hand: (6 + 3 + 0) / 3 = 3. The ranks' means are 6 and 1.5, and their mean is 3.75.

# %% [markdown] tags=["instructor"]
# ## Watchdog and flight recorder: 7 minutes
#
# The picture: somebody is stuck in a lift and cannot come to the door. You can still look
# through the window. The window is a second thread.
#
# Let the class count entries aloud, rank by rank.
#
# When late: skip the cell in which the others leave.

# %% [markdown]
# ## Third tool: watchdog and flight recorder
#
# The thread that hangs cannot print where it is: it is inside a call that does not
# return. Another thread of the same process can, if that call has released the GIL, as
# collectives and reads do. A thread that watches whether work makes progress is a
# **watchdog**. Ours runs a program in a second thread, and looks at it after some
# seconds:

# %%
from parallel_by_hand.clinic.examinations import watched
from sidebyside import show

show(watched)

# %% [markdown]
# What is there to look at? In each rank, torch keeps a list of the latest collectives,
# the **flight recorder**: their number, kind, shape, state and the lines of Python that
# called them. We read it with `torch._C._distributed_c10d._dump_fr_trace`, which is
# private and may change.
#
# Our patient is eve. Ranks 0 and 2 have three batches, and rank 1 has one more.

# %%
from sidebyside import guess

show_patients("eve")
guess("18c-entries", None, "How many collectives has rank 1 recorded?", "")

# %%
from parallel_by_hand.clinic.examinations import flight_recorder
from sidebyside import reveal

records = flight_recorder("eve")
for record in records:
    print(record.replace(", ", "\n" + " " * len("rank 0: ")))
reveal("18c-entries", records[1].count("all_reduce"), computed=True)

# %% [markdown]
# Is "scheduled" the state of a collective that waits? No: **with gloo, all entries stay
# "scheduled", even those that are done.** So we look for the missing entry: only rank 1
# has a number 4. With NCCL the state changes to "completed".

# %% [markdown]
# Does rank 1 wait until the time limit? That depends on the others. So far they have
# stayed, because `run_ranks` keeps them until all are done. Here they leave the group
# when they have finished, as a script does. `on_cpus` hides GPUs from the ranks, because
# these symptoms are gloo's:


# %%
import torch.distributed as dist

from parallel_by_hand.clinic.patient_data import data_of_patient
from parallel_by_hand.clinic.sick_programs import eve
from parallel_by_hand.clinic.ward import on_cpus
from sidebyside import run_ranks


def eve_and_leave(given: list) -> str:
    try:
        eve(given[dist.get_rank()])
    except RuntimeError as error:
        lost = "peer" in str(error) or "Broken pipe" in str(error)
        return "an error about its peer" if lost else str(error)
    dist.destroy_process_group()
    return "leaves"


with on_cpus():
    print(run_ranks(eve_and_leave, data_of_patient("eve"), world_size=3))

# %% [markdown]
# **With gloo, one batch more on one rank hangs only while the others live; when they
# leave, it is an error**, and one that blames the network: "Connection closed by peer",
# "reset by peer" or "Broken pipe". The same program hangs in one place and crashes in
# another.

# %% [markdown] tags=["instructor"]
# ## Barrier and stacks: 5 minutes
#
# Ask which tools so far would name finn's rank. The report and the recorder do. Then say:
# now you are on a cluster, without our report. What can you build into the program
# beforehand? That leads to both tools.
#
# When late: show the stacks only.

# %% [markdown]
# ## Fourth and fifth tools: a barrier that reports, and the stacks
#
# finn's ranks read their numbers from a server, and one of them never comes to the
# all-reduce. `NUMBERS` is 4, and a number has 8 bytes.

# %%
show_patients("finn")

# %% [markdown]
# `dist.monitored_barrier` is a barrier with a time limit, after which rank 0 names the
# ranks that have not come. It needs gloo; beside NCCL, make a group for it with
# `dist.new_group(backend="gloo")`. We put it in front of every all-reduce:

# %%
from parallel_by_hand.clinic.examinations import all_reduce_behind_barrier

show(all_reduce_behind_barrier)
examine_patient("finn", "barrier")

# %% [markdown]
# That names the rank. For the line we need the stacks: the functions that each thread is
# in. Python's own module `faulthandler` writes them, even if the thread is in C code. We
# look for the program's line:

# %%
from parallel_by_hand.clinic.examinations import stacks_of_threads

show(stacks_of_threads)
examine_patient("finn", "stacks")

# %% [markdown]
# In a script of your own, `faulthandler.dump_traceback_later(60)` does that after a
# minute. `faulthandler.register(signal.SIGUSR1)` does it whenever somebody types `kill
# -USR1` and the process id. If nothing was prepared, `py-spy dump --pid` with that id
# reads the stacks from outside; it is a package of its own, and needs the right to look
# into other processes.

# %% [markdown] tags=["instructor"]
# ## The silent patient: 4 minutes
#
# Ask for hands before the cell: who says 111? Then let someone write the first all-reduce of
# each rank side by side on the board: bias, weight, bias.
#
# This one is worth most: it costs weeks, not minutes.

# %% [markdown]
# ## The silent patient
#
# cleo finishes at once. Her data label themselves. Of each gradient we look at the first
# number: the weight's is 1, 10 and 100 on ranks 0, 1 and 2, so its sum is 111. The bias's
# is 2, 5 and 200, which makes 207.

# %%
show_patients("cleo")
guess("18c-silent", None, "Which sum does rank 0 get for the weight?", "")

# %%
found = run_patient("cleo", timeout=60)
sums = [{name: s[0].item() for name, s in rank.items()} for rank in found]
print(*sums, sep="\n")
reveal("18c-silent", sums[0]["weight"], computed=True)

# %% [markdown]
# **Two all-reduces of one shape in swapped order give wrong sums, and no tool of this
# clinic says a word**: each rank has called two all-reduces of two numbers, as it should.
# It helps to look at results: data whose sum shows which ranks were counted, one step
# compared with one process as in lesson 9, or replicas that are compared now and then.
# Here rank 1 holds other sums than rank 0.

# %% [markdown]
# ## A seventh patient: shards that are alike
#
# gwen is tensor parallel, as in lesson 16a: each of four ranks holds four of sixteen
# hidden neurons, and an all-reduce adds up their outputs. All ranks begin with one
# seed, as the replicas of lesson 9 did. Her healthy twin has a seed for each rank.

# %%
import torch

from parallel_by_hand.clinic.one_seed import gwen

for name, one_seed in ("a seed per rank", False), ("one seed", True):
    with on_cpus():
        ranks = run_ranks(gwen, one_seed, world_size=4)
    losses, recognised, part = ranks[0]
    alike = all(torch.equal(part, other[2]) for other in ranks)
    print(f"{name:15}  losses", *(f"{loss:.2f}" for loss in losses), end="")
    print(f"  recognised {recognised:.2f}  shards equal: {alike}")

# %% [markdown]
# **With one seed the shards begin equal, get equal gradients and stay equal: sixteen
# neurons do the work of four.** The loss falls all the same, so nobody looks, and no
# tool says a word. Replicas must be equal, and shards must differ: test both. Either
# make the whole matrix from one seed and cut it, as 16a does, or draw the shards, and
# them alone, from a seed plus the rank within the tensor-parallel group, as Megatron-LM
# does on GPUs.

# %% [markdown]
# ## Exercise 2: cleo, eve and finn
#
# Set `cures` as before. Try `examine_patient("eve", "recorder")`, or `"stacks"`. When
# well,
#
# * *cleo* returns the sums over all ranks, by name.
# * *eve* returns the weights after as many steps as the rank with the fewest batches can
#   take. Each step uses one batch of each rank.
# * *finn* returns the sum of all ranks' numbers. The server sends each rank its own
#   numbers and stays open.
#
# *By hand first:* ranks 0, 1 and 2 have 3, 5 and 4 batches. How many steps does eve take, and
# how many batches are left over?
#
# <!-- exercise: 18c-silent -->
# <details><summary>Hint 1: a question</summary>
#
# What does a rank know that the others do not: the size of its gradients, the number of its
# batches, how much the server will send? Where does the program rely on it, or forget it?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# cleo: choose an order that does not depend on numbers. eve: before the loop, let all ranks
# find the smallest number of batches. finn: compare what rank 2 has with what it waits for.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# cleo, line 2: `largest_first = sorted(gradients)`. eve, line 4: a tensor of
# `len(batches)`, all-reduced with `op=dist.ReduceOp.MIN`; then loop over
# `batches[:fewest]`, with `fewest` from `.item()`. finn, line 4: wait for as many bytes as
# the rank's own numbers have.
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2 in class: 15 minutes
#
# When late: cleo in class, eve and finn at home.

# %% exercise="18c-silent"
cures = ...  # {"cleo": (rank, {line: "new text"}), "eve": ..., "finn": ...}
### BEGIN SOLUTION
cures = {
    "cleo": (1, {2: "", 3: "for name in gradients:"}),
    "eve": (
        1,
        {
            4: "fewest = torch.tensor(len(batches))\n"
            "dist.all_reduce(fewest, op=dist.ReduceOp.MIN)\n"
            "for x in batches[: fewest.item()]:"
        },
    ),
    "finn": (2, {4: "while len(received) < 8 * len(numbers):"}),
}
### END SOLUTION

# %%
check("18c-silent", cures)

# %% [markdown] tags=["why"]
# <!-- why: 18c-silent -->
# Why it works. cleo: a dictionary keeps its order, which is the same on all ranks;
# "largest first" had another answer on each rank. eve: MIN gives all ranks one number of
# steps. Lesson 11a's `join` is the other cure, in which nothing is left over. finn: a
# rank waits for its own numbers, however many the others got.
#
# By hand: 3 steps; 0 + 2 + 1 = 3 batches are left over.

# %% [markdown] tags=["instructor"]
# ## The straggler: 6 minutes
#
# Before the picture: four people walk round a table and meet after each round. One has a
# stone in the shoe. Who waits longest? Who never waits?
#
# Expected: people say that the rank with the most waiting is slow. It is the other way round.

# %% [markdown]
# ## Not sick, only slow
#
# A rank that is late at every step is a **straggler**. Nothing hangs, and all results are
# right; they only come later. Four ranks nap for 10 ms to load a batch and for 40 ms to
# compute, and wait in an all-reduce. One of them takes 50 ms longer to load. What share
# of their time do the other three spend waiting?

# %%
guess("18c-straggler", None, "Share of waiting of a rank that is not late?", "%")

# %%
from parallel_by_hand.clinic.straggler import train_and_report
from sidebyside import Timeline

with Timeline() as timeline:
    reports = run_ranks(train_and_report, 2, 0.05, world_size=4)
total = sum(reports[0].values())
reveal("18c-straggler", 100 * reports[0]["wait"] / total, simulated=True)
timeline.plot(stamp="simulated")

# %% [markdown]
# All ranks end each step at the same time, so speed does not give the slow one away.
# Waiting does: all others wait for it, and it hardly waits. Lanes of thousands of ranks
# cannot be drawn. Each rank reports three numbers instead:

# %%
from parallel_by_hand.clinic.straggler import print_reports

print_reports(reports)

# %% tags=["nbval-ignore-output"]
waits = [report["wait"] for report in reports]
print("waits least: rank", waits.index(min(waits)))

# %% [markdown]
# **The straggler is the rank that waits least, and what it does for longer than the
# others is the reason.** Durations are enough for that. Starts and ends from different
# machines cannot be compared: their clocks need not agree.

# %% [markdown]
# ## Exercise 3: name the straggler
#
# Write `find_straggler(spans)`. A span has a `name` such as "wait 0", a `lane` such as
# "rank 2", a `start` and an `end`. Its *kind* is the name without the number. Return a
# pair:
#
# * the straggler's lane: it waits least, in all its "wait" spans together, or has none.
# * the kind, other than "wait", on which it spends most time *beyond the mean of the
#   other lanes*.
#
# *By hand first:* rank 0 loads for 1 s, computes for 8 and waits for 5; rank 1 loads for
# 5 and computes for 9. What is returned?
#
# <!-- exercise: 18c-straggler -->
# <details><summary>Hint 1: a question</summary>
#
# Which numbers do you need first? For each lane and each kind, one sum.
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Add up `end - start` in a dictionary whose keys are (lane, kind). Then everything is a
# minimum over lanes, and a maximum over kinds, with `.get(key, 0.0)` for what is missing.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `kind = re.sub(r"\s*\d+$", "", span.name)`. `slow = min(lanes, key=lambda lane:
# seconds.get((lane, "wait"), 0.0))`. The excess of a kind is the slow lane's sum minus the
# sum of the others divided by their number.
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3 in class: 15 minutes


# %% exercise="18c-straggler"
import re


def find_straggler(spans) -> tuple[str, str]:
    """The lane that waits least, and the kind of work that makes it late."""
    ### BEGIN SOLUTION
    seconds = {}
    for span in spans:
        key = span.lane, re.sub(r"\s*\d+$", "", span.name)
        seconds[key] = seconds.get(key, 0.0) + span.end - span.start
    lanes = {lane for lane, _ in seconds}
    slow = min(lanes, key=lambda lane: seconds.get((lane, "wait"), 0.0))

    def excess(kind: str) -> float:
        others = [seconds.get((lane, kind), 0.0) for lane in lanes - {slow}]
        return seconds.get((slow, kind), 0.0) - sum(others) / len(others)

    return slow, max({kind for _, kind in seconds} - {"wait"}, key=excess)
    ### END SOLUTION


# %%
check("18c-straggler", find_straggler)

# %% [markdown] tags=["why"]
# <!-- why: 18c-straggler -->
# Why it works: an all-reduce ends for all ranks at about the same moment, so in each step
# work and waiting have the same sum on every rank. The rank that works longest waits
# least, and sums of durations need no common clock.
#
# By hand: rank 1, which does not wait at all, and "load". It computes for longer (9 s), but
# so does rank 0 (8 s): 1 second more, against 4 more of loading.

# %% [markdown] tags=["instructor"]
# ## NCCL and a watchdog of your own: 9 minutes
#
# Nobody learns the table by heart. Let people mark the two lines that they would put into
# their job script today: `TORCH_FR_DUMP_TEMP_FILE` and a time limit shorter than 10 minutes
# are good answers.
#
# When late: leave the table as a reference.

# %% [markdown]
# ## The same with NCCL
#
# With NCCL a collective only starts work on the GPU, and Python goes on: the stack shows
# where the host waits later, not which collective hangs. So the recorder counts for more,
# and the watchdog is built in: in each rank a thread of torch checks whether collectives
# end in time. When one does not, it ends the process, so that the job fails instead of
# hanging. The table is not run here; it follows the documentation of
# [torch](https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html) and
# of [NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
#
# | variable | what it does |
# |---|---|
# | `TORCH_NCCL_ASYNC_ERROR_HANDLING` | what the watchdog does after an error or the time limit; 3, the default, ends the process, 0 nothing |
# | `TORCH_NCCL_DUMP_ON_TIMEOUT` | the watchdog writes the flight recorder to a file per rank first, by default in recent versions; 0 prevents it. The command `torchfrtrace` compares these files |
# | `TORCH_FR_BUFFER_SIZE` | how many collectives the recorder keeps, 2,000 by default in recent versions; older ones call it `TORCH_NCCL_TRACE_BUFFER_SIZE` and keep none by default |
# | `TORCH_FR_DUMP_TEMP_FILE` | the beginning of the names of those files |
# | `TORCH_NCCL_DESYNC_DEBUG=1` | the watchdog says which ranks have not come to the same collective |
# | `TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC` | if the watchdog itself is stuck for so long, another thread ends the process |
# | `TORCH_NCCL_BLOCKING_WAIT=1` | waiting for a collective blocks, and raises an error at the time limit |
# | `NCCL_DEBUG=WARN` or `INFO` | NCCL says which errors it meets; with INFO also how it connects |
# | `NCCL_DEBUG_SUBSYS=INIT,NET` | INFO about these parts only |
# | `NCCL_SOCKET_IFNAME=eth0` | the network that NCCL uses: the usual suspect when ranks on two machines never meet |
# | `NCCL_P2P_DISABLE=1`, `NCCL_IB_DISABLE=1` | without direct copies between GPUs, without InfiniBand: to find out whether these are to blame |

# %% [markdown]
# ## A watchdog of your own
#
# For a script, a few lines are enough: each step tells `faulthandler` to write all stacks
# and end the process unless the next step comes within `ENOUGH`, here 2 seconds. Its
# thread is written in C, and does not need the GIL.

# %%
from demos.clinic.own_watchdog import train
from sidebyside import run_demo

show(train)
run_demo("clinic/own_watchdog.py")

# %% [markdown]
# This was a group of one, and healthy. With
# `torchrun --local-addr 127.0.0.1 --nproc-per-node 2` in front and `--stuck 1` behind, the
# ranks write where they are, and the job ends after seconds instead of minutes.
# [A checklist](../resources/checklists/hang.md) says on one page what to prepare in a
# job, and what to look at when it hangs.
#
# `clinic/patients.py` and `clinic/straggler.py` show the rest of this lesson in a terminal.

# %% [markdown]
# ## What we saw
#
# | symptom | first tool | found on |
# |---|---|---|
# | some ranks wait, some have finished | hang report, flight recorder: the missing entry | ada, eve |
# | all wait, in different collectives | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | ben |
# | SIGABRT kills one rank, the others lose the connection | `DETAIL` | dan |
# | all wait, one not in a collective | `monitored_barrier` for the rank, stacks for the line | finn |
# | nothing, but replicas differ | data that label themselves; replicas compared | cleo |
# | nothing, but it learns less than it could | shards compared: they must differ | gwen |
# | all is right, only slow | the waiting time that each rank reports | the straggler |
#
# * Waiting proves nothing. Look for the rank that does what the others do not.
# * All ranks must call the same collectives, in the same order, with the same shapes. A
#   rank that knows more than the others must share it by a collective first.
# * The thread that hangs cannot speak. A second thread can, if the call that hangs has
#   released the GIL: the watchdog.

# %% [markdown]
# ## Next
#
# Everything so far ran on your machine, or could have. What would it cost on ten thousand
# GPUs? Lesson 19a puts the cost models of all lessons together and simulates it.
