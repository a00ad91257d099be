# ---
# title: 07 Parallel work in practice
# question: How do I get a real job done in parallel, and what if something goes wrong?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 7. Parallel work in practice
#
# A network is to learn how oscillators swing. Its training data are computed all night:
# one simulation for each example. At three in the morning number 37 goes wrong. What is
# left in the morning?
#
# We make such data in parallel, equal to the serial data to the last bit. We break three
# kinds of pools in three ways, and count what is lost. And we ask why a program does not
# get faster.
#
# *You will be able to* turn a loop into a map and a reduce, choose a pool, finish a run
# that was stopped, and find out why a program does not get faster.
#
# *Before this:* lesson 6. *Time:* {reading} minutes to read, 45 for three exercises. *Needs:*
# two CPU cores, no GPU. With one core everything runs; only the speedups stay near 1.

# %% [markdown] tags=["instructor"]
# ## One task, then all: 8 minutes
#
# Say what the night's work is before you show code: inputs, one function, outputs that
# are joined. Ask which of the three a worker must know.
#
# Ask for the equality first: who believes that two processes give the same bits? Most
# expect small differences, as with sums in lesson 5. Here nobody adds across tasks.
#
# When late: skip the timeline.

# %% [markdown]
# ## One task
#
# The van der Pol oscillator creeps for a while and then jumps. A number, mu, sets how
# suddenly. A **Runge–Kutta** solver follows it in small steps. Ours is adaptive: it
# estimates its own error, and takes shorter steps where the error would be too large.
#
# Here is one task, which returns 50 rows:

# %%
from parallel_by_hand.practice.oscillator import simulate_oscillator
from sidebyside import show

show(simulate_oscillator)

# %% [markdown]
# The random numbers belong to the task, as in lesson 5: `SeedSequence.spawn` gives each
# task a seed, whichever worker computes it. We do 48 tasks, one by one.

# %%
from time import perf_counter

import numpy as np

from parallel_by_hand.practice.oscillator import oscillator_tasks

work = oscillator_tasks(seed=7, count=48)
parts, seconds = [], []
for task in work:
    start = perf_counter()
    parts.append(simulate_oscillator(task))
    seconds.append(perf_counter() - start)
serial = np.concatenate(parts)
print(f"shortest {min(seconds):.3f} s, longest {max(seconds):.3f} s")
serial.shape

# %% [markdown]
# **Tasks that look alike cost very different amounts of work**, and nobody knows how
# much before they are done.
#
# Such a program has two halves. **Map** calls the same function for each task; no call
# needs another. **Reduce** makes one result of all of them; here it concatenates. Map is
# the half that can be parallel.

# %% [markdown]
# ## Map in a pool
#
# Two processes do the map. The executor's `map` yields results in the order of the tasks,
# as they come. Its workers are spawned: as in lesson 2, they find a function by its name
# in a file, and cannot import a notebook. So `simulate_oscillator` is imported.

# %%
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from sidebyside import Timeline

spawn = get_context("spawn")
parts = []
with Timeline() as pooled, ProcessPoolExecutor(2, mp_context=spawn) as pool:
    for part in pool.map(simulate_oscillator, work):
        parts.append(part)
        if len(parts) % 12 == 0:
            print(f"{len(parts)} of {len(work)} tasks are done")
parallel = np.concatenate(parts)
assert np.array_equal(parallel, serial)
pooled.plot("48 tasks, two processes", height=1.6)

# %% [markdown]
# **Equal to the last bit**: `array_equal` allows no difference. Each task has its own
# seed. The parts are in the order of the tasks. And no number of one task is added to a
# number of another, so no sum can be rounded in another order.

# %% [markdown]
# The bars differ in length. A worker that has finished takes the next task, and no worker
# waits for the long ones until the very end. In the grey part at the left a worker is
# still starting. That may take longer than all 48 tasks; in a night of tasks it does not
# matter.

# %% [markdown] tags=["instructor"]
# ## Exercise 1, parallel and identical: 10 minutes
#
# It shows who has understood lesson 5. Let the class do the part by hand together.

# %% [markdown]
# ## Exercise 1: parallel and identical (10 minutes)
#
# Here is a slow program. It measures pendulums.

# %%
from parallel_by_hand.practice.pendulum_survey import period, survey

show(period)
show(survey)

# %% [markdown]
# ### Your survey
#
# Write `survey_in(pool, seed, count)`. It returns **exactly** the number that
# `survey(seed, count)` returns, and all periods are computed in `pool`, an executor,
# several at the same time.
#
# By hand first: `survey` draws two random numbers for each pendulum. In which order does
# it draw the first four?
# <!-- exercise: 07-identical -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which line of the loop is slow? And which lines must happen in the order in which they
# happen now?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Drawing is quick, so it may stay here. Draw all the numbers first, in the old order,
# and keep them in two lists. Then only `period` is left for the pool. How does `survey`
# add up?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In a loop, append `dice.uniform(0.1, 3.1)` to `angles`, then `dice.uniform(0.9, 1.1)`
# to `clocks`. `pool.map(period, angles)` yields the periods in order. Multiply each
# with its clock and add it to `total`, one after the other, as `survey` does. Return
# `total / count`.
#
# </details>


# %% exercise="07-identical"
def survey_in(pool, seed: int, count: int) -> float:
    """survey(seed, count), to the last bit, with all periods computed in the pool."""
    ### BEGIN SOLUTION
    dice = np.random.default_rng(seed)
    angles, clocks = [], []
    for _ in range(count):
        angles.append(dice.uniform(0.1, 3.1))
        clocks.append(dice.uniform(0.9, 1.1))
    total = 0.0
    for seconds, clock in zip(pool.map(period, angles), clocks, strict=True):
        total += seconds * clock
    return total / count
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("07-identical", survey_in)

# %% [markdown] tags=["why"]
# <!-- why: 07-identical -->
# Why it works: the generator is used in one place and in the old order, so that every
# pendulum gets its old numbers. `map` yields periods in the order of the angles,
# whichever is done first. The products are added in the old order, one after the other.
# By hand: angle, clock, angle, clock. Adding in another order, or by `np.mean`, rounds
# differently: the last digits change. So does `sum`, which since Python 3.12 corrects
# its rounding. In a new program, give each task its own seed instead; then it may draw
# in the worker.

# %% [markdown] tags=["instructor"]
# ## Three pools: 8 minutes
#
# People ask which is best. Fastest is the wrong criterion: all three do the same work,
# and the medians differ less than the rounds do. The next section gives the right one.
#
# When late: show the table, skip the measurement.

# %% [markdown]
# ## Three pools
#
# | | `multiprocessing.Pool` | `ProcessPoolExecutor` | joblib |
# |---|---|---|---|
# | all, in order | `pool.map(f, tasks)` | `list(pool.map(f, tasks))` | `Parallel(n_jobs=2)(delayed(f)(t) for t in tasks)` |
# | as they come, in order | `pool.imap(f, tasks)` | `pool.map(f, tasks)` | `Parallel(n_jobs=2, return_as="generator")(…)` |
# | as they come | `pool.imap_unordered(…)` | `submit`, then `as_completed` | `return_as="generator_unordered"` |
# | one | `pool.apply_async(f, (t,))` | `pool.submit(f, t)` | – |
# | function from a notebook, spawned | no | no | yes |
#
# joblib is a library for parallel work, which scikit-learn uses. `delayed(f)(t)` notes
# the call `f(t)` down without making it; `Parallel` makes the noted calls.
#
# Does it matter which we take? We give 8 tasks to each.

# %%
from joblib import Parallel, delayed

from sidebyside import compare

some = work[:8]
with spawn.Pool(2) as pool, ProcessPoolExecutor(2, mp_context=spawn) as executor:
    pools = compare(
        workers=2,
        rounds=3,
        one_by_one=lambda: [simulate_oscillator(task) for task in some],
        Pool=lambda: pool.map(simulate_oscillator, some, chunksize=1),
        executor=lambda: list(executor.map(simulate_oscillator, some)),
        joblib=lambda: Parallel(n_jobs=2)(
            delayed(simulate_oscillator)(task) for task in some
        ),
    )
rows = {way: np.concatenate(parts) for way, parts in pools.results.items()}
assert all(np.array_equal(some_rows, serial[:400]) for some_rows in rows.values())
pools

# %% [markdown]
# **All three return the same bits**, and none is faster by nature: the work is done by
# `simulate_oscillator`, and a message takes far less than a task.
#
# joblib can do one thing more. It packs functions with cloudpickle, so what you define
# in a cell works. Its workers stay for the next call, until the last line ends them.

# %%
from joblib.externals.loky import get_reusable_executor


def cube(n: int) -> int:
    return n**3


cubes = Parallel(n_jobs=2)(delayed(cube)(n) for n in range(5))
print(cubes)
get_reusable_executor().shutdown(wait=True)

# %% [markdown] tags=["instructor"]
# ## Three accidents: 12 minutes
#
# Draw the table of nine entries on the board, empty, and let the class fill in who
# notices what. Collect guesses for Pool and a killed worker above all. Who has had it?
# Usually somebody waited a weekend.
#
# The kill stands for what the system does when memory runs out: SIGKILL, no word.
#
# When late: only `--accident kill`.

# %% [markdown]
# ## Three accidents
#
# Now 48 tasks of 0.02 s, and an accident in task 37:
#
# * *exception*: it raises `ValueError`;
# * *kill*: its worker is killed, as the system does when memory runs out;
# * *Ctrl-C*: you interrupt the program, and the signal reaches the program and all its
#   workers.
#
# With three pools that makes nine experiments, which `practice/accidents.py` runs in a
# terminal as well. The caller collects results in order, as they come. From `Pool` it
# waits at most 1 second for the next one; the other two have no limit.

# %%
from sidebyside import guess

question = "In how many of the nine does the caller have the other 47 results?"
guess("07-lost", None, question)

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.practice.accidents import compare_accidents
from sidebyside import reveal

rows = compare_accidents(patience=1)  # all nine take some seconds
reveal("07-lost", sum(row["hand"] == 47 for row in rows))

# %% [markdown]
# *computed* is what the workers finished, *in hand* what the caller got. The difference
# is lost work. *next job* is a second job for the same pool.
#
# * **Exception.** Every caller gets the `ValueError`. Pool computes the other tasks all
#   the same, but the caller does not collect them. The executor's `map` and joblib drop
#   tasks that have not been started.
# * **Kill.** **`Pool` replaces the dead worker, but does not notice that its task is
#   gone.** Without a time limit the caller waits for ever. The executor raises
#   `BrokenProcessPool` and is of no more use. joblib raises `TerminatedWorkerError`, and
#   starts new workers.
# * **Ctrl-C.** Every caller gets the `KeyboardInterrupt`, and ends its workers.

# %% [markdown]
# No caller has the 47 results. Two rules follow:
#
# 1. Where a worker may be killed, do not use `Pool`, or never wait without a limit.
# 2. **A result is safe when it is in a file, not when it has been computed.**
#
# ## Resuming
#
# The next demo makes our data as a nightly program would: it saves each task's rows as
# soon as they come. With `--kill-at 37` the same accident happens. Then we give the same
# command again, without it.

# %% tags=["nbval-ignore-output"]
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sidebyside import run_demo

folder = TemporaryDirectory()
out = Path(folder.name, "oscillators.npz")
command = "practice/generate_ode_data.py", "--workers", 2, "--out", out
with suppress(RuntimeError):  # it ends with status 1
    run_demo(*command, "--kill-at", 37)
print("--- again ---")
run_demo(*command)

# %%
with np.load(out) as file:
    resumed = file["rows"]
folder.cleanup()
np.array_equal(resumed, serial)

# %% [markdown]
# Tasks count from 0, so 37 tasks come before number 37. The other worker is usually still
# busy with one of these, which is lost, too.
#
# **A run that was killed and resumed gives the same bits as a loop that was not.** What
# makes it so:
#
# * The seed belongs to the task, and parts are joined in the order of their numbers.
# * A file is written under another name and then renamed, so that a kill never leaves
#   half a file under the right name. Before that, `os.fsync` waits until the bytes are on
#   the disk, in case the power fails.
# * A resumed run with other settings is refused.

# %% [markdown] tags=["instructor"]
# ## Exercise 2, finish what can be finished: 15 minutes
#
# This is the function that people take home. Ask what `pool.map` does at the first
# exception before anybody writes: it is the table of the accidents again.

# %% [markdown]
# ## Exercise 2: finish what can be finished (15 minutes)
#
# Write `run_all(work, tasks, pool, done)` for an executor `pool`, of threads or of
# processes. `done` is a dictionary, by task, of an earlier run's results, and stays as it
# is. Return two dictionaries, `results, failed`: the results of all tasks, old and new,
# and the exceptions of those that raised one. No task in `done` is computed again, **one
# task's exception stops no other task**, and tasks run several at the same time.
#
# By hand first: tasks 1, 0, 2, work `lambda n: 6 // n`, and `done` is `{2: 3}`. Which
# two dictionaries come back?
# <!-- exercise: 07-finish -->
#
# <details><summary>Hint 1: a question</summary>
#
# `pool.map` raises the first exception and is then finished. Which of the pool's methods
# gives you something for each task that you can ask separately?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `submit` returns a future. Submit all tasks that are missing before you ask for the
# first result, and remember which future belongs to which task. A future has `result()`,
# which raises what the task raised, and `exception()`, which returns it.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `futures = {task: pool.submit(work, task) for task in tasks if task not in done}`. Then
# go through its items. Where `future.exception()` is None, put `future.result()` into
# the results, else put the exception into `failed`. The results begin as a copy of
# `done`.
#
# </details>


# %% exercise="07-finish"
def run_all(work, tasks: list, pool, done: dict) -> tuple[dict, dict]:
    """(results of all tasks, exceptions of those that failed), both by task."""
    ### BEGIN SOLUTION
    futures = {task: pool.submit(work, task) for task in tasks if task not in done}
    results, failed = dict(done), {}
    for task, future in futures.items():
        if (error := future.exception()) is None:
            results[task] = future.result()
        else:
            failed[task] = error
    return results, failed
    ### END SOLUTION


# %%
check("07-finish", run_all)

# %% [markdown] tags=["why"]
# <!-- why: 07-finish -->
# Why it works: all tasks are submitted before the first answer is awaited, so they
# overlap. Each future holds the result or the exception of one task, and asking one does
# not touch the others. The test is `is None`, since a result may well be 0 or empty. By
# hand: `{2: 3, 1: 6}` and `{0: ZeroDivisionError(…)}`. When a worker is killed after all
# have been submitted, every future that is not done gets `BrokenProcessPool`: those tasks
# are in `failed`, the others in the results. Call it again, with a new pool and the
# results as `done`. If the worker is killed earlier, `submit` itself raises
# `BrokenProcessPool`, and so does `run_all`.

# %% [markdown] tags=["instructor"]
# ## Share, do not send: 10 minutes
#
# Draw C = AB with one block of C, the rows of A and the columns of B that it needs.
# Count together how often each number of A travels if C is cut into 2 x 2 blocks.
#
# Someone will say that the library cheats, as it is written in C. NumPy's product of
# whole numbers is C as well, in plain loops; it is many times slower.
#
# When late: skip the memory with a name.

# %% [markdown]
# ## Share, do not send
#
# A block of the matrix product $C = AB$ needs some rows of $A$ and some columns of $B$.
# So each block is a task. Two ways to give a worker its numbers:

# %%
from parallel_by_hand.practice.block_matmul import multiply_sent, multiply_shared

show(multiply_sent)
show(multiply_shared)

# %% [markdown]
# The first gets numbers and sends numbers back. The second gets two ranges, such as "rows
# 0 to 499", and finds the numbers in lesson 2's shared memory.
#
# `BlockProduct` holds $A$, $B$ and $C$, calls one of the two in a pool, once for each
# block, and counts the bytes of the pickled arguments and results. A matrix of 1000 ×
# 1000 has 8 million bytes. $C$ is cut into four blocks, 2 × 2.

# %%
question = "How many million bytes go through the pipes if blocks are sent?"
guess("07-bytes", None, question)

# %%
from parallel_by_hand.practice.block_matmul import BlockProduct

product = BlockProduct(size=1000, cuts=2, workers=2)
moved = product.bytes_moved()
reveal("07-bytes", round(moved["blocks sent"] / 1e6), computed=True)
print("less than 1,000 bytes with shared memory:", moved["blocks shared"] < 1000)

# %% [markdown]
# Two blocks need each number of $A$ and $B$, so both matrices are sent twice, and $C$
# comes back once: five matrices. Now the times, beside the library's own product.

# %%
with product:  # its workers start, and end
    products = compare(
        rounds=3,
        sent=product.by_sending,
        shared=product.by_sharing,
        library=product.by_library,
    )
assert np.allclose(products.results["sent"], products.results["library"])
assert np.allclose(products.results["shared"], products.results["library"])
products

# %% [markdown]
# **All three give the same product**, up to rounding: `allclose`, not `array_equal`.
#
# Sharing pays where a task needs many bytes for little computing, and most of all where
# several tasks need the same ones: what is sent is packed, copied and unpacked for each
# task. With small arguments and long tasks it makes no difference.

# %% [markdown]
# The library starts no process, and on a quiet machine it is usually still the fastest.
# Its threads share one memory. It computes in blocks as well, so small that they stay in
# the fast memory of a core, its **cache**. Before you make a program parallel, ask
# whether a library does the step already.

# %% [markdown]
# ### Memory with a name
#
# `BlockProduct` shares a `RawArray`, which a worker can be given only as it starts.
# `multiprocessing.shared_memory` gives memory a *name*, and any process may open it by
# that name until it is unlinked. Here the workers are there before the memory is:

# %%
from multiprocessing.shared_memory import SharedMemory

from lessons.props.parallel_work_in_practice import sum_named_numbers, sum_sent_numbers

show(sum_named_numbers)
n = 1_000_000
with ProcessPoolExecutor(2, mp_context=spawn) as pool:
    list(pool.map(abs, range(2)))  # the workers have started
    memory = SharedMemory(create=True, size=8 * n)
    ones = np.ndarray(n, buffer=memory.buf)
    ones[:] = 1
    sums = compare(
        sent=lambda: pool.submit(sum_sent_numbers, ones).result(),
        by_name=lambda: pool.submit(sum_named_numbers, memory.name, n).result(),
    )
    refused = pool.submit(len, spawn.RawArray("d", 3)).exception()
ones = None  # memory cannot be closed while something still looks at it
memory.close()
memory.unlink()
print(f"{sums}\nsending a RawArray raises {type(refused).__name__}")

# %% [markdown]
# **A `RawArray` cannot be sent to a worker that has started; the name of a `SharedMemory`
# can.** Every process closes what it opened, and one of them, here the notebook, unlinks
# the name: then the memory is free again.
#
# An unrelated program may open the block by its name as well. On Linux and macOS it
# deletes the block when it ends, unless it opens the block with `track=False`, which
# Python 3.13 introduced.

# %% [markdown] tags=["instructor"]
# ## The checklist: 7 minutes
#
# Ask for causes first and write them on the board: the class will find four of the six.
# The order matters. Each question makes the next one meaningful.
#
# When late: the checklist as a table, the measurement in the exercise.

# %% [markdown]
# ## When it does not get faster
#
# Six questions, in this order:
#
# | | question | measured | if not, then |
# |---|---|---|---|
# | 1 | Is a task longer than a message? | a task here; a task without work in the pool | put many tasks in a chunk: `chunksize` |
# | 2 | Does it compute? | CPU time over wall time | it waits: use threads, as many as there are waits |
# | 3 | Does it use one core? | the same: above 100 %, it uses several | give the library one thread, or leave the pool out |
# | 4 | Is little sent? | bytes pickled; CPU time to pickle | send names of files, ranges, seeds; share memory |
# | 5 | Is no task much longer than others? | the longest, as a share of all | cut it; begin with it |
# | 6 | Do workers leave each other alone? | CPU time of a task beside others, over alone | they crowd the memory: use less of it, fewer workers |

# %%
from parallel_by_hand.practice.diagnosis import time_task_for_diagnosis

show(time_task_for_diagnosis)

# %% [markdown]
# `diagnose` calls this function here for each task, one by one. For question 1 it gives
# the pool tasks without work; for question 6 the longest task, alone and beside others.
# Question 6 is measured only if a task computes and is longer than two messages.
#
# `LOOK` stands at a question if
#
# 1. a task takes less time than two messages,
# 2. every task uses a core for less than 10 % of its time,
# 3. the tasks use more than 130 % of a core,
# 4. packing costs more than 30 % of the task,
# 5. the longest task is more than 1.3 / workers of all,
# 6. a task needs more than 1.5 × the CPU time beside others.
#
# Costs are CPU time, or wall time if the tasks wait. First our simulation, then a
# program that asks another computer ten times, and one that fills memory.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.practice import programs_to_diagnose
from parallel_by_hand.practice.diagnosis import diagnose, findings_table

programs = {
    "simulate": (simulate_oscillator, work[:6]),
    "ask": (programs_to_diagnose.ask_computer_program, [0.02] * 10),
    "fill": (programs_to_diagnose.fill_memory_program, [4_000_000] * 6),
}
with ProcessPoolExecutor(2, mp_context=spawn) as pool:
    for name, (function, its_tasks) in programs.items():
        findings = diagnose(function, its_tasks, pool, workers=2)
        print(f"{name}\n{findings_table(findings)}\n")

# %% [markdown]
# On a quiet machine `simulate` passes. The last line of `fill` differs by machine: a core
# that waits for memory counts as busy. If two workers need much more CPU time than one,
# they wait for the same memory, or share one physical core.
#
# `ask` uses next to no CPU time. The cure is threads, ten for ten questions:

# %%
from concurrent.futures import ThreadPoolExecutor

function, questions = programs["ask"]
with ThreadPoolExecutor(10) as pool:
    asked = compare(
        rounds=3,
        one_by_one=lambda: [function(question) for question in questions],
        threads=lambda: list(pool.map(function, questions)),
    )
asked

# %% [markdown]
# Ten questions take about as long as one, on any number of cores.

# %% [markdown] tags=["instructor"]
# ## Exercise 3, three programs: 20 minutes
#
# Best done in pairs: predict from the code, then diagnose. In the room if there is time
# for one exercise only.

# %% [markdown]
# ## Exercise 3: three programs (20 minutes)
#
# In a pool of two processes, none of these three gets nearly twice as fast; two get
# slower.

# %%
show(programs_to_diagnose.count_words_program)
show(programs_to_diagnose.brighten_images_program)
show(programs_to_diagnose.search_squares_program)
show(programs_to_diagnose.programs)

# %% [markdown]
# ### Your diagnosis
#
# Predict first, then run `diagnose` on each: `programs_to_diagnose.programs()["words"]`
# is a function and its tasks. Assign a dictionary that gives, for `"words"`, `"images"`
# and `"search"`, the number of the question in the checklist that explains the trouble.
# If more than one line says LOOK, which comes first, and would curing it be enough?
#
# By hand first: a program whose tasks only wait would have the number 2.
# <!-- exercise: 07-bottlenecks -->
#
# <details><summary>Hint 1: a question</summary>
#
# For each program: how long is one task, how many bytes are its argument and its
# result, and are all tasks equally long?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Open a pool as in the cell above, `with ProcessPoolExecutor(2, mp_context=spawn) as
# pool:`, and print `findings_table(diagnose(function, its_tasks, pool, workers=2))` for
# each. A cell is quickly written with a loop over
# `programs_to_diagnose.programs().items()`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# One has tasks far shorter than a message. One sends 12 million bytes there and as many
# back, for a few milliseconds of work. One has a single task that is most of the work.
# Look up their numbers: `{"words": ..., "images": ..., "search": ...}`.
#
# </details>

# %% exercise="07-bottlenecks" tags=["nbval-ignore-output"]
bottlenecks = ...  # a dictionary: program -> number of the question
### BEGIN SOLUTION
bottlenecks = {"words": 1, "images": 4, "search": 5}
with ProcessPoolExecutor(2, mp_context=spawn) as pool:  # the proof
    for name, (function, its_tasks) in programs_to_diagnose.programs().items():
        findings = diagnose(function, its_tasks, pool, workers=2)
        print(f"{name}\n{findings_table(findings)}\n")
### END SOLUTION

# %%
check("07-bottlenecks", bottlenecks)

# %% [markdown] tags=["why"]
# <!-- why: 07-bottlenecks -->
# Why: counting four words takes about a microsecond, a message about a hundred times that.
# Packing costs more than counting as well, but that is the same trouble: in chunks of
# many lines both shrink. An image costs more to pack and unpack than to brighten, and
# chunks do not help there: the bytes stay. In the search one task is five sixths of
# the work, so that one worker is busy with it while the other has long finished. Two
# workers can be no more than 1.2 times as fast there, and only if they begin with it.

# %% [markdown]
# ## What we saw
#
# * Map, then reduce. With a seed for each task and parts in the order of the tasks,
#   parallel data equal serial data to the last bit.
# * Three pools, the same results. A killed worker makes `Pool` wait for ever; the
#   executor and joblib raise.
# * Results in memory are lost with the run; results saved by task are not.
# * Shared memory turns 40 million bytes into a few hundred. A library that is made for
#   the step is better still.

# %% [markdown]
# In a terminal, try Ctrl-C when the first line appears: `python
# demos/practice/generate_ode_data.py --tasks 3000 --workers 2 --out data.npz`. Then run
# it again. `practice/block_matmul.py`, `practice/diagnosis.py` and
# `practice/pendulum_survey.py` run there, too.
#
# ## Next
#
# This ends the first part of the course: you can start workers, keep them from disturbing
# each other, and give them work. In the second part, from lesson 8 on, the work is
# training. There every step depends on the step before: which part of it can be done side
# by side?
