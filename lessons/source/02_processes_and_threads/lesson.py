# ---
# title: 02 Processes and threads
# question: What does a program start in order to do two things at once?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 2. Processes and threads: copy or share
#
# A program that wants to use a second core has to start something that runs there: a
# process or a thread. Both are started by the same two lines of Python, and nearly
# everything else about them differs.
#
# We look at the processes of your machine, start some, try to change a variable from
# inside them, send results back, and measure what starting costs.
#
# *You will be able to* read a process tree, say which variables a worker shares with
# you, get a result back from it, and explain why a function from a notebook is
# sometimes not found.
#
# *Before this:* lesson 1. *Time:* {reading} minutes to read, 45 for three exercises. *Needs:*
# two CPU cores, no GPU. One core is enough, too: nothing here has to be fast.

# %% [markdown] tags=["instructor"]
# ## Processes, parents, how they end: 10 minutes
#
# Let everyone open the system monitor first and find the notebook in it. The word to
# get across is *parent*: who started whom. Draw the tree of the room's machine on the
# board, from the login to the notebook.
#
# Ask before the demo: the child returns a string. Who gets it? Most say the parent, or
# join(). Nobody gets it; let that stand as the problem that pipes and queues solve.

# %% [markdown]
# ## This notebook is a process
#
# A program that runs is called a **process**. The operating system gives it memory, and
# a number to tell it from the others: the process id, or pid. It also notes down which
# process started it: the **parent**.

# %%
import os

print(f"this notebook is pid {os.getpid()}, and its parent is pid {os.getppid()}")

# %% [markdown]
# So processes form a tree. We start two *children* that only sleep, draw what is above
# and below this notebook, and end the children again. `target` is the function that the
# child calls, `args` are its arguments; `spawn` is explained later. `family` asks
# `psutil`, a library that lists processes.

# %%
from time import sleep

import psutil

from demos.processes.process_ids import draw_family, family
from lessons.props.processes_and_threads import spawn

children = [spawn.Process(target=sleep, args=(60,)) for _ in range(2)]
for child in children:
    child.start()

tree = draw_family(family(psutil.Process(), up=2))

for child in children:
    child.terminate()
    child.join()
tree

# %% [markdown]
# A line leads from each process down to its children. Above the notebook stands the
# program that started it, below it are the two that sleep. On Linux and macOS a third is
# the resource tracker, which removes what processes forget to remove. `terminate()` ends
# a child; `join()` waits until it has ended.

# %% [markdown]
# ## How a process ends
#
# Four children: one returns a string, one raises an exception, one calls
# `sys.exit(3)`, one never ends and is terminated.

# %%
from sidebyside import run_demo

run_demo("processes/create_process.py")

# %% [markdown]
# `start()` does not wait: at first none of the four has an *exit code*.
#
# **The parent gets an exit code, and nothing else**: a number that says how the child
# ended. It is 0 for success, 1 for an exception, and −15 for *signal* 15, the short order
# from the system that `terminate()` sends. The string is lost, and a parent that ignores
# the exit code does not learn that its child has failed.

# %% [markdown]
# ## Threads
#
# A process begins with one line of execution, its *main thread*, which has reached one
# place in the program. It can start more such lines. Each is called a **thread**.

# %% tags=["nbval-ignore-output"]
run_demo("processes/create_threads.py", "--threads", 4)

# %% [markdown]
# Five threads, with different ids, in one process; there is no child. Thread 1 ended
# with an exception; the others went on, and `join()` said nothing. **In Python, a
# thread has no exit code and cannot be ended from outside.** It ends when its function
# does, or with its process.

# %% [markdown]
# ## Exercise 1: draw the tree first
#
# A small firm: a boss, four more processes, and a thread. `sign` writes a name and
# process ids into a register. The boss calls `boss(register)`.

# %%
from demos.processes import small_firm
from sidebyside import show

for part in "boss", "foreman", "helper", "work_together":
    show(getattr(small_firm, part))

# %% [markdown]
# ### Exercise 1: your tree
#
# Draw it on paper: whose child is each process, and in which process is the thread? Then
# assign a dictionary to `belongs_to`. It gives the parent of each of the four processes
# below the boss, and the process of the thread `"helper"`.
#
# By hand first: the secretary's parent is the boss, so the dictionary begins with
# `{"secretary": "boss", "foreman":`. The check opens the firm and reads the register.
# <!-- exercise: 02-firm -->
#
# <details><summary>Hint 1: a question</summary>
#
# For each `Process`: in which function is its `start()` called, and which process runs
# that function?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# A parent is a process, as only processes have a pid. A thread cannot be anybody's
# parent. What a thread starts belongs to the process that the thread is in.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The boss starts two processes. The foreman starts one process and one thread. The
# thread `helper` starts the courier: so write for the courier the name of the process
# whose thread the helper is.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 10 minutes
#
# On paper, in pairs. The usual answer makes the helper the courier's parent. Afterwards
# open the firm together: `python demos/processes/small_firm.py`.

# %% exercise="02-firm"
belongs_to = ...
### BEGIN SOLUTION
belongs_to = {
    "secretary": "boss",
    "foreman": "boss",
    "apprentice": "foreman",
    "helper": "foreman",
    "courier": "foreman",
}
### END SOLUTION

# %%
from sidebyside import check, forget, hint, progress, solution

check("02-firm", belongs_to)

# %% [markdown] tags=["why"]
# <!-- why: 02-firm -->
# Why it works: the operating system notes down which *process* asked for a new one. The
# helper is a thread of the foreman, so it is the foreman's process that asks for the
# courier. The names of functions and threads play no role.

# %% [markdown] tags=["instructor"]
# ## Whose variables, and the ways back: 17 minutes
#
# The two demos side by side are the heart of the lesson. Let a learner read the four
# lines aloud, pid by pid. The question that shows who has understood: how can two
# different numbers be at the same address?
#
# When late: show the pipe, leave the queue and the shared memory to the exercise.

# %% [markdown]
# ## Whose variables?
#
# Here is the difference that matters most. A module has a list with one number in it, and
# a function that adds 100 to the number, and reports through a *pipe*, a tube between two
# processes.

# %%
from demos.processes import process_memory
from sidebyside import guess

show(process_memory.child_adds_100)
guess(
    "02-box", None,
    "The box holds 2. A child process adds 100. What does the parent's box hold then?",
)  # fmt: skip

# %%
from sidebyside import reveal

process_memory.box[0] = 2
ours, theirs = spawn.Pipe()
child = spawn.Process(target=process_memory.child_adds_100, args=(theirs, 0))
child.start()
print(*ours.recv(), sep="\n")  # what the child has reported
child.join()
reveal("02-box", process_memory.box[0])

# %% [markdown]
# The child has added 100 to a box of its own. It did not even begin with our 2: it has
# read the file anew, where the number is 1. The next demo *forks* its child, except on
# Windows: a forked child begins with a copy.
#
# Look at *addresses* now, the numbers of places in memory: first in a child process,
# then in a thread. Three columns matter: pid, number, address.

# %% tags=["nbval-ignore-output"]
run_demo("processes/process_memory.py")
print("-" * 80)
run_demo("processes/thread_memory.py")

# %% [markdown]
# The thread has the same box, with the same pid and address, and all threads see the new
# number. **What a thread changes, every thread of the process sees.**
#
# **What a child process changes, its parent does not see.** With fork, the child even
# uses the same address, and two different numbers stand there: an address is a place in
# the memory of one process, not in the machine.
#
# ```mermaid
# flowchart LR
#   accTitle: Threads share the memory of their process
#   accDescr: Two threads share one memory. A forked child has its own. A pipe between.
#   subgraph P["process"]
#     M["memory: box = 2"]
#     A["main thread"] --- M
#     B["thread 1"] --- M
#   end
#   subgraph C["forked child process"]
#     N["memory: box = 102"]
#     D["main thread"] --- N
#   end
#   P -- "pipe" --- C
# ```

# %% [markdown]
# ## Three ways to get a result back
#
# Since processes share no variables, results have to be carried. This is called
# **inter-process communication**. The first way is a **pipe**: what goes in at one end
# comes out at the other. Objects are *pickled*, packed into bytes, so the receiver gets a
# copy.

# %%
from lessons.props.processes_and_threads import send_squares

show(send_squares)
ours, theirs = spawn.Pipe()
child = spawn.Process(target=send_squares, args=(theirs, [1, 2, 3]))
child.start()
pid, squares = ours.recv()  # waits until something comes
child.join()
print(f"pid {pid} sent {squares}")

# %% [markdown]
# A pipe joins two ends. A **queue** takes messages from many children, in the order in
# which they arrive, so each message has to name its part. Here three children use one
# queue at the same time, and we add up their three squares.

# %%
from lessons.props.processes_and_threads import put_squares


def start_all(target, arguments) -> list:
    children = [spawn.Process(target=target, args=args) for args in arguments]
    for child in children:
        child.start()
    return children


def join_all(children) -> None:
    for child in children:
        child.join()


show(put_squares)
queue = spawn.Queue()
children = start_all(put_squares, [(queue, n, [n]) for n in (2, 3, 4)])
print(sum(squares[0] for _, _, squares in [queue.get() for _ in children]))
join_all(children)

# %% [markdown]
# The third way sends nothing. **Shared memory** is a piece of memory that belongs to
# both processes. It holds bytes and numbers, no Python objects. `RawArray("q", ...)`
# makes an array of 64-bit integers, `RawValue("i")` a single integer.

# %%
from lessons.props.processes_and_threads import square_in_place

show(square_in_place)
shared, signature = spawn.RawArray("q", [1, 2, 3]), spawn.RawValue("i")
child = spawn.Process(target=square_in_place, args=(shared, signature))
child.start()
child.join()
print(f"pid {signature.value} has left {list(shared)}")

# %% [markdown]
# A `RawArray` can be given to a child only when the child is started. Lesson 7 shows
# memory with a *name*, which any process of yours on this machine can open.
#
# With shared memory, `join()` comes first: only then are the numbers complete. With a
# pipe or a queue it is the other way round: **receive first, then join.** A pipe holds
# little. A child with a large result waits until someone reads, and a parent that waits
# for the child's end does not read.

# %% [markdown]
# ## Exercise 2: three ways back
#
# Write three functions with different ways back: a pipe for each child, one queue for
# all, an array and a signature for each. A function gets `parts`, lists of numbers, which
# can be long. It starts one child per part, and all work at the same time. It returns a
# list of pairs, process id and squares, in the order of the parts. By then its children
# have ended.
#
# The children run `send_squares(connection, numbers)`, `put_squares(queue, part,
# numbers)` and `square_in_place(shared, signature)` from above.
#
# By hand first: for the parts `[1, 2]` and `[3]` the squares are `[1, 4]` and `[9]`, with
# two process ids.
# <!-- exercise: 02-three-ways -->
#
# <details><summary>Hint 1: a question</summary>
#
# When the last child has been started, which of the results are already there? Which of
# them could arrive first? And which line of yours waits for what?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `start_all` and `join_all` from above do half of it. Take the results between them, or
# after both. One pipe per child, or one queue for all, or one array and one signature
# per child. From the queue, messages come in any order, but each brings its part number.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Pipes: `pipes = [spawn.Pipe() for _ in parts]`, start the children with the second
# ends, and take `[ours.recv() for ours, _ in pipes]` before you join. Queue: get as many
# messages as there are parts, sort them, and drop the part number. Shared memory: keep a
# list of `(shared, signature)`, join all, and then read each.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 20 minutes
#
# It takes longest and is worth it. Those who join before they receive are told HUNG:
# let them say where the child waits, and for whom.


# %% exercise="02-three-ways"
def through_pipes(parts: list[list[int]]) -> list[tuple[int, list[int]]]:
    """(process id, squares) of each part, each through a pipe of its own."""
    ### BEGIN SOLUTION
    pipes = [spawn.Pipe() for _ in parts]
    ends = [theirs for _, theirs in pipes]
    children = start_all(send_squares, zip(ends, parts, strict=True))
    results = [ours.recv() for ours, _ in pipes]
    join_all(children)
    return results
    ### END SOLUTION


def through_a_queue(parts: list[list[int]]) -> list[tuple[int, list[int]]]:
    """(process id, squares) of each part, all through one queue."""
    ### BEGIN SOLUTION
    queue = spawn.Queue()
    arguments = [(queue, number, part) for number, part in enumerate(parts)]
    children = start_all(put_squares, arguments)
    messages = sorted(queue.get() for _ in parts)
    join_all(children)
    return [(pid, squares) for _, pid, squares in messages]
    ### END SOLUTION


# %% exercise="02-three-ways"
def through_shared_memory(parts: list[list[int]]) -> list[tuple[int, list[int]]]:
    """(process id, squares) of each part, in memory that parent and child share."""
    ### BEGIN SOLUTION
    blocks = [(spawn.RawArray("q", part), spawn.RawValue("i")) for part in parts]
    join_all(start_all(square_in_place, blocks))
    return [(signature.value, list(shared)) for shared, signature in blocks]
    ### END SOLUTION


# %%
check("02-three-ways", through_pipes, through_a_queue, through_shared_memory)

# %% [markdown] tags=["why"]
# <!-- why: 02-three-ways -->
# Why it works: all children are started before the parent waits for any of them, so
# they work at the same time. Pipes and queues are emptied before the joins, as a child
# with a large result cannot end before someone has read it. Shared memory is read after
# the joins, as only the end of the child says that it is complete. The queue's messages
# are sorted by part, since the order of arrival is chance.

# %% [markdown] tags=["instructor"]
# ## What starting costs: 10 minutes
#
# Collect guesses for the ratio on the board before the run: most are between 2 and 10.
# Then read the table with the class, one column at a time.
#
# When late: the upper half of the table only.

# %% [markdown]
# ## What starting costs
#
# A thread only has to begin. A spawned process is a new Python, which has to start and
# import what it needs. There are three **start methods**:
#
# | method | how the child comes into being | what it has from its parent |
# |---|---|---|
# | fork | the system duplicates the parent | variables, open files; one of its threads |
# | forkserver | a small server, started once, duplicates itself | what is sent to it |
# | spawn | a new Python starts and reads your file again | what is sent to it |

# %% [markdown]
# In our cells `spawn` is `multiprocessing.get_context("spawn")`: Python's package for
# processes, with this start method. Windows has only spawn, and macOS uses it by default.
# On Linux the default was fork, and is forkserver since Python 3.14. So we always name
# it.

# %% [markdown]
# The demo is a small program, so that no method has to copy or repeat what this notebook
# has done. It starts workers that do nothing, one after the other, for one second with
# each method, and at most 4,000. Write your guess in place of `None`.

# %% tags=["nbval-ignore-output"]
import json
from pathlib import Path
from tempfile import TemporaryDirectory

guess(
    "02-cost", None,
    "How many threads can start and end in the time that one spawned process takes?",
    "×",
)  # fmt: skip
with TemporaryDirectory() as folder:
    file = Path(folder, "costs.json")
    run_demo("processes/creation_cost.py", "--save", file)
    costs = json.loads(file.read_text())
reveal("02-cost", costs["spawn"]["later"] / costs["thread"]["later"])

# %% [markdown]
# **While one process is spawned, hundreds of threads can come and go.** While one is
# forked, only tens can. A thread takes some kilobytes of memory of its own, a process
# some megabytes.

# %% [markdown]
# Read the lower half of the table, too. **A forked child knows the parent's variables; a
# spawned one has read the file again.** A forked child can be given anything. With the
# other methods everything must be sent, and some things cannot be packed: an open file, a
# lambda.

# %% [markdown]
# Fork is the cheapest way to a process while the parent is small. It copies no memory at
# first, only the list of what lies where: parent and child share memory until one of them
# writes. But what is writing? The next demo forks a child that only *reads* an array of a
# million numbers, and then a list of a million. *Its own memory* is what no other process
# shares; `psutil` asks the system for it.

# %%
run_demo("processes/forked_child.py")

# %% [markdown]
# **To read a Python object is to write to it**: Python counts its references, beside its
# value, and so the child gets copies after all. Only a few constants such as `None` are
# not counted, since Python 3.12. An array has one count for all its numbers: data shared
# by fork belong in arrays.

# %% [markdown]
# **Of all the threads of the parent, only the one that forked exists in the child.** A
# *lock* can be held by only one thread at a time. If another thread held one just then,
# no thread of the child will ever release it. Python 3.12 and later warn.

# %% [markdown]
# ## Exercise 3: thread or process?
#
# Five jobs wait in `lessons/props/processes_and_threads.py`. Each has a `work` with
# `args`, the `seconds` that it may take, and a `promise()`, which must be true in *your*
# program when the job is done.
#
# | job | its work | its promise |
# |---|---|---|
# | `"count"` | adds 10 to a number in a dictionary of yours | the number is there |
# | `"old library"` | calls a library that ends the program | your program goes on |
# | `"search"` | may never end; 0.5 s at most | no worker is left |
# | `"unpack"` | changes the current folder, and never back | your folder is as before |
# | `"store"` | writes through your open connection to a database | the row is there |

# %% [markdown]
# ### Exercise 3: your choice, and the proof
#
# Assign a dictionary that gives `"thread"` or `"process"` for each job.
#
# Then prove it. Write `try_job(kind, job)`, where `kind` is `threading.Thread` or
# `spawn.Process`. A worker of this kind does the work for at most `job.seconds`, and is
# ended if it still works and can be ended. Return `True` if no worker is left and the
# promise is kept, else `False`.
#
# By hand first: what should come back for `"thread"` and `"old library"`?
# <!-- exercise: 02-choose -->
#
# <details><summary>Hint 1: a question</summary>
#
# Ask three questions of each job. Must its effect be seen in the program? Must its
# effect *not* be seen there? Does someone have to end it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# To see an effect, share: thread. To be safe from an effect, or to end the worker:
# process. In `try_job`, `join` takes a number of seconds. `is_alive()` says whether the
# worker still works. Only one of the two kinds has a method `terminate`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `worker = kind(target=job.work, args=job.args)`; start it; `worker.join(job.seconds)`.
# If it is alive and `hasattr(worker, "terminate")`, terminate it and join again. Return
# `not worker.is_alive() and job.promise()`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 15 minutes
#
# It is best discussed: let each pair defend one job before anybody runs a trial.

# %% exercise="02-choose"
choice = ...
### BEGIN SOLUTION
choice = {
    "count": "thread",
    "old library": "process",
    "search": "process",
    "unpack": "process",
    "store": "thread",
}
### END SOLUTION


# %% exercise="02-choose"
def try_job(kind, job) -> bool:
    """True if no worker is left and the promise is kept, with a worker of this kind."""
    ### BEGIN SOLUTION
    worker = kind(target=job.work, args=job.args)
    worker.start()
    worker.join(job.seconds)
    if worker.is_alive() and hasattr(worker, "terminate"):
        worker.terminate()
        worker.join()
    return not worker.is_alive() and job.promise()
    ### END SOLUTION


# %% [markdown]
# A job can end your notebook, so the next cell runs it in its own program. It prints
# `kept` for `True`, `broken` for `False`, or what else happened.

# %%
from lessons.props.processes_and_threads import job_in_a_trial

job = "count"  # then try the others
for kind in "thread", "process":
    print(f"{job} in a {kind}: {job_in_a_trial(try_job, kind, job)}")

# %%
check("02-choose", choice, try_job)

# %% [markdown] tags=["why"]
# <!-- why: 02-choose -->
# Why it works: `count` and `store` need what belongs to the program, a dictionary and
# an open connection; a process has a dictionary of its own, and the connection cannot
# be sent.
# `old library` and `unpack` do harm to the process that they are in, so they get one of
# their own. `search` has to be ended from outside, and only a process can be.

# %% [markdown] tags=["instructor"]
# ## Not found: 8 minutes
#
# Everyone meets this within a week, and nobody finds the cause alone. Let the class say
# for each failure how they would notice it in a long program: not at all, never, at
# once.
#
# When late: show the pool only.

# %% [markdown]
# ## Why your function is not found
#
# Until now, the functions of our children stood in a file. Here is one that does not. How
# does it travel to a spawned child? We look at the bytes that are sent.

# %%
import pickle


def square(n: int) -> int:
    return n * n


pickle.dumps(square, protocol=0)

# %% [markdown]
# They say only "the thing called `square` in the module `__main__`". **A function is sent
# as its name, without its code.** The child imports the module and looks the name up. But
# `__main__` is this notebook, and a notebook cannot be imported. We let it fail in three
# ways:
#
# * in a process;
# * in a *pool*, which keeps workers that wait for tasks;
# * in an *executor*, a newer kind of pool. Its `submit` returns a *future*, an object that
#   will have the result, or the exception.
#
# `overheard` collects what the children print as they fail.

# %%
from concurrent.futures import ProcessPoolExecutor

from lessons.props.processes_and_threads import overheard

with overheard() as lines:
    child = spawn.Process(target=square, args=(7,))
    child.start()
    child.join(20)
print(f"process: exit code {child.exitcode}, {lines[-1].partition(':')[0]}")
with overheard(), spawn.Pool(1) as pool:
    task = pool.apply_async(square, (7,))  # does not wait
    task.wait(3)
print(f"pool: answered: {task.ready()}")
with overheard(), ProcessPoolExecutor(1, mp_context=spawn) as pool:
    future = pool.submit(square, 7)
    print("executor:", type(future.exception(timeout=20)).__name__)

# %% [markdown]
# 1. **A process dies, and nobody tells you**: there is only an exit code.
# 2. **`Pool` waits for ever.** The task kills the worker, the pool puts a new one in
#    its place, and the task is gone.
# 3. **`ProcessPoolExecutor` says that something broke**, but not what.
#
# Forkserver fails in the same ways. Fork does not, if the function was there when the
# child was forked: the child is a copy of the notebook. So notebooks that worked on Linux
# fail on other systems, and since Python 3.14 on Linux as well.

# %% [markdown]
# There are two cures. Put the function into a file and import it, as we did above. Or
# send the code along: `cloudpickle` packs a notebook's function with its code, and a
# function that *is* in a file unpacks and calls it. The instruments of this course do
# the same, so in later lessons you can define in a cell what workers do.

# %%
import cloudpickle

from lessons.props.processes_and_threads import call_by_value

show(call_by_value)
with ProcessPoolExecutor(1, mp_context=spawn) as pool:
    future = pool.submit(call_by_value, cloudpickle.dumps(square), 7)
    print(future.result())

# %% [markdown]
# This is also how one works in programs: an executor keeps some workers, deals out the
# tasks, and brings back results and exceptions. `ThreadPoolExecutor` does the same with
# threads.

# %% [markdown]
# ## What we saw
#
# | | thread | process |
# |---|---|---|
# | memory | its process's: shares all variables | its own: a copy, or a new start |
# | result comes back | is there | by pipe, queue or shared memory |
# | to create one more | below 1 ms | a few ms by fork with a small parent, 10–200 ms by spawn |
# | memory of its own | kilobytes | megabytes |
# | an uncaught exception | ends that thread only | exit code 1 |
# | a crash, by `os._exit` or a fault in C | the whole program ends | an exit code, not 0 |
# | can be ended from outside | no | yes |
# | can be given | anything | what can be packed; with fork, anything |

# %% [markdown]
# * The same address in two processes is two places.
# * Receive first, then join. With shared memory, join first.
# * A function is sent as its name. Notebook functions need cloudpickle or a file.
#
# In a terminal, each with `--help`: `python demos/processes/process_ids.py --hold 60`
# shows a family, which you can find in the system monitor; `python
# demos/processes/creation_cost.py --megabytes 1000` forks a large parent.

# %% [markdown]
# ## Next
#
# Threads are cheaper in everything: time, memory, and the way results come back. Yet
# people start processes to compute faster, because a lock inside Python lets only one
# thread at a time run Python code. Lesson 3 measures it, says what is *concurrent* and
# what is *parallel*, and shows how `asyncio` does many things in one thread.
