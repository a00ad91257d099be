# ---
# title: 07 Parallel work in practice
# question: How do I get a real job done in parallel, and what if something goes wrong?
# needs: two CPU cores, no GPU
# minutes: 48
# ---

# %% [markdown]
# # 7. Parallel work in practice
#
# A network is to learn how oscillators swing. Its training data are computed: one
# simulation for each example, a night full of them. At three in the morning number 37
# goes wrong. What is left in the morning?
#
# We make such data in parallel, equal to the serial ones to the last bit. We break
# three kinds of pools in three ways, and count what is lost. Then we multiply matrices
# against the library, lose, and find out why.
#
# *You will be able to* turn a loop into a map and a reduce, choose a pool, resume a run
# that was stopped, and find out why a program does not get faster.
#
# *Before this:* lesson 6. *Time:* 48 minutes, and the exercises. *Needs:* two CPU cores,
# no GPU. With one core everything runs; only the speedups stay near 1.

# %% [markdown] tags=["instructor"]
# ## One task, then all: 12 minutes
#
# Say what the night's work is before you show code: inputs, one function, outputs that
# are joined. Ask which of the three a worker must know. The figure with the dots
# matters later: tasks differ in length because the solver adapts.
#
# Ask for the equality first: who believes that two processes give the same bits? Most
# expect small differences, as with sums in lesson 5. Here nobody adds across tasks.
#
# When late: skip the figure.

# %% [markdown]
# ## One task
#
# The van der Pol oscillator creeps for a while and then jumps. How suddenly it jumps is
# set by a number, mu. A **Runge–Kutta** solver follows it in small steps. The adaptive
# kind chooses each step: it estimates its own error, and takes shorter steps where the
# error would be too large.
#
# How many times as many steps does it need for mu = 30 as for mu = 1?

# %%
from sidebyside import check, guess, hint, progress, reset, solution

guess("07-steps", None, "How many times as many steps for mu = 30?")

# %%
from demos.practice.parts.oscillator import solve_oscillator
from sidebyside import COLOURS, figure, reveal

fig, ax = figure(alt="two oscillators, with a dot at each step of the solver")
paths = {mu: solve_oscillator(mu, 1.0) for mu in (1, 30)}
for (mu, path), colour in zip(paths.items(), COLOURS, strict=False):
    ax.plot(path.t, path.y[0] - mu / 6, ".-", color=colour, markersize=3, linewidth=0.7)
    ax.text(20.3, path.y[0][-1] - mu / 6, f"mu = {mu}", color=colour, va="center")
ax.set(xlabel="time of the oscillator (s)", ylabel="place, shifted", xlim=(0, 23))
ax.set_yticks([])
reveal("07-steps", len(paths[30].t) / len(paths[1].t))
fig

# %% [markdown]
# The figure has a dot at each step. With mu = 30 the dots are so dense that they look
# like a thick line. The jump itself takes some thirty steps; nearly all the others are
# where the curve is almost flat. A longer step there would overshoot, and the next one
# more: such a problem is called *stiff*. **Tasks that look alike cost very different
# amounts of work**, and nobody knows how much before they are done.
#
# A task draws its own mu and start, solves, and returns 50 rows:

# %%
from demos.practice.parts.oscillator import oscillator_tasks, simulate_oscillator
from sidebyside import show

show(simulate_oscillator)
show(oscillator_tasks)

# %% [markdown]
# The random numbers belong to the task, as in lesson 5: `SeedSequence.spawn` gives each
# task a seed, whoever computes it. We do 48 tasks, one by one.

# %%
from time import perf_counter, process_time

import numpy as np

work = oscillator_tasks(seed=7, count=48)
wall, cpu = perf_counter(), process_time()
parts = [simulate_oscillator(task) for task in work]
wall, cpu = perf_counter() - wall, process_time() - cpu
serial = np.concatenate(parts)
print(f"took {wall:.3f} s, used {cpu:.3f} s of CPU time")
serial.shape

# %% [markdown]
# A loop, and then one line that joins its results. Such a program has two halves. **Map**
# calls the same function for each task; no call needs another. **Reduce** makes one
# result of all of them; here it concatenates. Map is the half that can be parallel.
#
# ## Map in a pool
#
# Two processes do the map. `imap` yields results in the order of the tasks, as they
# come, so that we can show progress.

# %%
from multiprocessing import get_context

from sidebyside import Timeline

spawn = get_context("spawn")
with Timeline() as pooled, spawn.Pool(2) as pool:
    parts = []
    for part in pool.imap(simulate_oscillator, work):
        parts.append(part)
        if len(parts) % 12 == 0:
            print(f"{len(parts)} of {len(work)} tasks are done")
parallel = np.concatenate(parts)
assert np.array_equal(parallel, serial)
pooled.plot("48 tasks, two processes", height=1.6)

# %% [markdown]
# **Equal to the last bit**: `array_equal` allows no difference at all. Three things make
# it so. Each task has its own seed. The order of the parts is that of the tasks. And no
# number is added to one of another task, so no sum can be rounded in another order.
#
# The timeline shows bars of very different lengths. A worker that has finished takes
# the next task, and nobody waits for the long ones until the very end. `Pool.map`
# without `chunksize` would deal out tasks in chunks of six, and balance less well
# (lesson 6). Grey at the left is a worker that is still starting. That may take longer
# than all 48 tasks; in a night of tasks it does not matter.
#
# Why do we import `simulate_oscillator` from a file? Spawned workers find a function by
# its name, and cannot import a notebook (lesson 2).

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
# | tasks in a chunk | `chunksize=` | `chunksize=` | `batch_size=`, chosen as it runs |
# | function from a notebook | no | no | yes |
#
# joblib is a library for parallel work, which scikit-learn uses. `delayed(f)(t)` notes
# the call `f(t)` down without making it; `Parallel` makes the noted calls.
#
# Which is fastest? We give 16 tasks to each. Their workers have been started before.

# %%
guess("07-pools", None, "How many times as fast as one by one is the fastest?", "×")

# %%
from concurrent.futures import ProcessPoolExecutor

from joblib import Parallel, delayed

from sidebyside import compare

some = work[:16]
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
print(pools)
reveal("07-pools", max(pools.speedup[kind] for kind in list(pools.speedup)[1:]), "×")
assert all(np.array_equal(parts, serial[: 16 * 50].reshape(16, 50, 5))
           for parts in pools.results.values())  # fmt: skip

# %% [markdown]
# Read the speedups beside the capacity, and beside the spread. (A capacity far above
# 100 %: the machine was busier while it was measured. Run the cell again.) **All three
# return the same bits.** None is faster by nature: the work is done by `simulate_oscillator`,
# and a message takes a fraction of a millisecond.
#
# joblib can do one thing more. It packs functions with cloudpickle, so what you define
# in a cell works. Its workers stay for the next call, and idle until then. The second
# line ends them.

# %%
from joblib.externals.loky import get_reusable_executor


def cube(n: int) -> int:
    return n**3


cubes = Parallel(n_jobs=2)(delayed(cube)(n) for n in range(5))
get_reusable_executor().shutdown(wait=True)
cubes

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
# Until now nothing went wrong. Now 48 tasks of 0.02 s, and an accident in task 37:
#
# * *exception*: it raises `ValueError`;
# * *kill*: its worker is killed, as the system does when memory runs out;
# * *Ctrl-C*: you interrupt the program, and the signal reaches the whole group.
#
# Three accidents, three pools: nine experiments. The caller collects results in order,
# as they come. It waits at most 1 second for the next one. Each experiment is a program
# of its own, and is ended in any case. All nine take some seconds and print at the end.

# %%
guess(
    "07-lost",
    None,
    "In how many of the nine does the caller have the other 47 results?",
)

# %% tags=["nbval-ignore-output"]
from contextlib import redirect_stdout
from io import StringIO

from sidebyside import run_demo

with redirect_stdout(StringIO()) as said:
    run_demo("practice/accidents.py", "--patience", 1)
print(said.getvalue())
rows = [line[44:].split() for line in said.getvalue().splitlines()[2:]]
reveal("07-lost", sum(row[1] == "47" for row in rows if len(row) > 1))

# %% [markdown]
# *computed* is what the workers finished, *in hand* what the caller got. The difference
# is lost work. *next job* is a second one for the same pool; after Ctrl-C there is none.
#
# * **Exception.** Every caller gets the `ValueError`. Pool goes on with the other tasks
#   all the same, until all 47 are computed; here nobody collects them. The executor's
#   `map` and joblib drop the tasks that have not been started. All three pools can be used again.
# * **Kill.** **`Pool` does not notice.** It starts another worker in place of the dead
#   one, but the task is gone, and its result never comes. Without a time limit the
#   caller waits for ever. The executor raises `BrokenProcessPool` at once, joblib
#   `TerminatedWorkerError`. That executor is of no more use; joblib starts new workers.
# * **Ctrl-C.** Every caller gets the `KeyboardInterrupt`, and ends its workers.
#
# Nobody has the 47 results. Two rules follow:
#
# 1. Where a worker may be killed, do not use `Pool`, or never wait without a limit.
# 2. **A result is safe when it is in a file, not when it has been computed.**
#
# ## Resuming
#
# The next demo makes our data as a program would that runs all night. It saves each
# task's rows as soon as they come, and joins them at the end. With `--kill-at 37` it
# meets with the accident. Then we give the same command again, without it.

# %% tags=["nbval-ignore-output"]
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

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
# **A run that was killed and resumed gives the same bits as a loop that was not.** Five
# decisions in the program make that so:
#
# * The seed belongs to the task, so it does not matter when a task is done.
# * Parts are joined in the order of their numbers, not in that of their arrival.
# * A file is written under another name and then renamed. If the program is
#   killed, renaming has happened as a whole or not at all: there is never half a file
#   under the right name. Before it is renamed, `os.fsync` waits until its bytes are on
#   the disk, in case the power fails.
# * The settings are saved beside the parts. A resumed run with another `--seed` is
#   refused, before it mixes two data sets.
# * Each part begins with a checksum. A part that was spoiled since is done again.
#
# Try Ctrl-C yourself, in a terminal, when the first line appears: `python
# demos/practice/generate_ode_data.py --tasks 3000 --workers 2 --out data.npz`. The
# parent ends its workers, who may be in the middle of a task, and says how many tasks are
# saved. The others are done when you run it again.

# %% [markdown] tags=["instructor"]
# ## Matrices in blocks: 10 minutes
#
# Draw C = AB with one block of C, the rows of A and the columns of B that it needs.
# Count together how often each number of A travels if C is cut into 2 x 2 blocks.
#
# Someone will say that the library cheats, as it is written in C. Let the whole numbers
# answer: that is C as well.
#
# When late: skip the whole numbers.

# %% [markdown]
# ## A matrix product in blocks
#
# A block of the product $C = AB$ needs some rows of $A$ and some columns of $B$. So
# each block is a task. Two ways to give a worker its numbers:

# %%
from demos.practice.block_matmul import multiply_sent, multiply_shared

show(multiply_sent)
show(multiply_shared)

# %% [markdown]
# The first gets numbers and sends numbers back. The second gets two ranges, such as
# "rows 0 to 499", and finds the numbers in shared memory (lesson 2), which each worker
# got when it started. Matrices of 1000 × 1000, four blocks:

# %%
guess("07-bytes", None, "How many bytes go through the pipes with shared memory?")

# %%
from demos.practice.block_matmul import BlockProduct

product = BlockProduct(size=1000, cuts=2, workers=2)
moved = product.bytes_moved()
reveal("07-bytes", moved["blocks shared"])
print(f"and if blocks are sent: {moved['blocks sent'] / 1e6:.1f} million bytes")

# %% [markdown]
# A matrix has 8,000,000 bytes. Each number of $A$ and $B$ is sent twice, since two
# blocks need it, and $C$ comes back once: five matrices, 40 million bytes, and a few for
# packing. Now the times, with the library's own product beside them.

# %%
with product:  # its workers start, and end
    products = compare(
        rounds=3,
        sent=product.by_sending,
        shared=product.by_sharing,
        library=product.by_library,
    )
print(products)
assert np.allclose(products.results["sent"], products.results["library"])
assert np.allclose(products.results["shared"], products.results["library"])

# %% [markdown]
# **All three give the same product**, but for rounding: `allclose`, not `array_equal`.
# The library may add the thousand terms of a number in another order for a block than
# for the whole.
#
# Sharing saves the pipes. And the library, which starts no process at all? Usually it is
# the fastest still; if not, other programs were busy, and its threads waited for each
# other. It has three advantages, of which we can measure two.
#
# *First:* it is parallel already. Its threads release the GIL and share one memory, so
# nothing is sent. *Second:* it computes in blocks too, so small that they stay in the
# fast memory of a core, its **cache**, and several numbers per instruction. *Third:* it
# decides at run time which cut suits this processor.
#
# NumPy hands products of `float64` to such a library. Products of whole numbers it
# computes itself, in C, in three plain loops. Same size, same number of bytes:

# %%
guess(
    "07-plain",
    None,
    "How many times as long does the product take in plain loops?",
    "×",
)

# %%
decimal = np.random.default_rng(0).integers(100, size=(400, 400)).astype(float)
whole = decimal.astype(int)
matrices = compare(
    rounds=3, plain=lambda: whole @ whole, library=lambda: decimal @ decimal
)
assert np.array_equal(matrices.results["plain"], matrices.results["library"])
reveal("07-plain", matrices.speedup["library"], "×")
wall, cpu = perf_counter(), process_time()
for _ in range(30):
    decimal @ decimal
wall, cpu = perf_counter() - wall, process_time() - cpu
print(f"the library used {cpu / wall:.0%} of a core: above 100 %, it has used several")

# %% [markdown]
# Both are C, and **both products are exactly equal**: whole numbers of this size are
# exact in `float64`. Few machines have the cores to make up for a factor like this one.
# So before you make a program parallel, ask whether a library does the step
# already, and better.

# %% [markdown] tags=["instructor"]
# ## The checklist: 6 minutes
#
# Ask for causes first and write them on the board: the class will find four of the six.
# The order matters. Each question makes the next one meaningful.
#
# A crowded machine lowers the second line: a task that waits for a core does not use
# CPU time either. The limit is 10 % for this reason.
#
# When late: the checklist as a table, the measurement in the exercise.

# %% [markdown]
# ## When it does not get faster
#
# Six questions, in this order. Each has a measurement and a cure.
#
# | | question | if not, then |
# |---|---|---|
# | 1 | Is a task longer than a message? | put many tasks in a chunk: `chunksize` |
# | 2 | Does it compute? | it waits: use threads, as many as there are waits |
# | 3 | Does it use one core? | the library is parallel already: give it one thread, or leave the pool out |
# | 4 | Is little sent? | send names of files, ranges, seeds; share memory |
# | 5 | Is no task much longer than others? | cut the longest; begin with it |
# | 6 | Do workers leave each other alone? | they crowd the memory: use less of it, fewer workers |
#
# `diagnose` asks all six, and writes `ok`, or `LOOK` where the trouble may be. It does
# the tasks here, one by one, and then a few in the pool. MB counts there and back, and
# packing is compared with the CPU time of the task itself. First our simulation, then a
# program that asks another computer ten times, and one that fills memory.

# %% tags=["nbval-ignore-output"]
from demos.practice.diagnosis import diagnose, findings_table
from demos.practice.parts import programs_to_diagnose

programs = {
    "simulate": (simulate_oscillator, work[:12]),
    "ask": (programs_to_diagnose.ask_computer_program, [0.02] * 10),
    "fill": (programs_to_diagnose.fill_memory_program, [4_000_000] * 6),
}
with ProcessPoolExecutor(2, mp_context=spawn) as pool:
    for name, (function, its_tasks) in programs.items():
        findings = diagnose(function, its_tasks, pool, workers=2)
        print(f"{name}\n{findings_table(findings)}\n")

# %% [markdown]
# On a quiet machine `simulate` passes: long tasks that compute, little sent. `ask` uses
# next to no CPU time. So its cure is threads, ten of them for ten questions:

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
#
# The last line of `fill` above depends on your machine. A core that waits for memory
# counts as busy. If two workers need much more CPU time per task than one, they wait for
# the same memory or share what is one core inside, and more workers will not help. Near 1
# or below, your memory and cores keep up with two.
#
# ## What we saw
#
# * Map, then reduce. With a seed for each task and parts in the order of the tasks,
#   parallel data equal serial data to the last bit.
# * `Pool`, `ProcessPoolExecutor` and joblib give the same results. What differs is what
#   they do when something breaks. A killed worker makes `Pool` wait for ever; the other
#   two raise.
# * Results in memory are lost with the run. Saved by task, written whole, they are not,
#   and a resumed run gives the same bits.
# * Shared memory turns 40 million bytes into some hundred. A library that is made for
#   the step is better still.
# * Six questions tell why a program does not get faster. Measure, then cure.
#
# Three exercises follow. Stuck? `hint("07-identical")` gives one hint per call,
# `solution("07-identical")` the code and why it works; `progress("07")` shows where you
# are.

# %% [markdown] tags=["instructor"]
# ## Exercises: 35 minutes or homework
#
# 07-identical first: it takes ten minutes and shows who has understood lesson 5. The
# three programs are best done in pairs: predict from the code, then diagnose.
# 07-finish is the function that people take home.
#
# When late: the three programs in the room, the others at home.

# %% [markdown]
# ## Exercise 1: parallel and identical
#
# Here is a slow program. It measures pendulums.

# %%
from demos.practice.pendulum_survey import period, survey

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
# with its clock, put the products in a list, and return its `sum` divided by `count`.
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
    periods = pool.map(period, angles)
    return sum(p * c for p, c in zip(periods, clocks, strict=True)) / count
    ### END SOLUTION


# %%
check("07-identical", survey_in)

# %% [markdown] tags=["why"]
# <!-- why: 07-identical -->
# Why it works: the generator is used in one place and in the old order, so that every
# pendulum gets its old numbers. `map` yields periods in the order of the angles,
# whichever is done first. The products are added in the old order, by the same `sum`.
# Adding in another order, or by `np.mean`, rounds differently: the last digits change.
# In a new program, give each task its own seed instead; then it may draw in the worker.

# %% [markdown]
# ## Exercise 2: three programs
#
# None of these three gets nearly twice as fast in a pool of two processes; two get
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
# Why: counting four words takes less than a microsecond, a message some hundred. Packing
# costs more than counting as well, but that is the same trouble: in chunks of many
# lines both shrink. An image costs more to pack and unpack than to brighten, and chunks
# do not help there: the bytes stay. In the search one task is nearly three quarters of
# the work, so that one worker is busy with it while the other has long finished. Two
# workers can be no more than 1.4 times as fast there, and only if they begin with it.

# %% [markdown]
# ## Exercise 3: finish what can be finished
#
# Write `run_all(work, tasks, pool, done)` for an executor `pool`, of threads or of
# processes. `done` is a dictionary of results that an earlier run has saved, by task,
# and stays as it is. Return two dictionaries, `results, failed`: the results of all
# tasks, old and new, and the exceptions of those that raised one. A task in `done` is
# not computed again. **One task's exception stops no other task**, and tasks run
# several at the same time.
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
# not touch the others. The test is `is None`, since a result may well be 0 or empty.
# When a worker is killed after all have been submitted, every future that is not done
# gets `BrokenProcessPool`: those tasks are in `failed`, the others in the results. Call
# it again, with a new pool and the results as `done`. (If it is killed earlier, `submit`
# itself raises `BrokenProcessPool`, and so does `run_all`.)

# %% [markdown]
# Once it passes, try it with threads, for a lambda cannot be sent to processes:
# `run_all(lambda n: 6 // n, [1, 0, 2], ThreadPoolExecutor(2), {2: 3})`. And time your
# `survey_in` with 100 pendulums in `ProcessPoolExecutor(2, mp_context=spawn)`, beside
# `survey`, the program `python demos/practice/pendulum_survey.py`. The demos run in a
# terminal too: `python demos/practice/accidents.py --help`, and likewise
# `python demos/practice/block_matmul.py` and `python demos/practice/diagnosis.py`.
#
# ## Next
#
# This ends the first part of the course: you can start workers, keep them from disturbing
# each other, and give them work. In the second part, from lesson 8 on, the work is
# training. There the tasks do need each other: every step depends on the step before, and
# the question is which part of it can be done side by side.
