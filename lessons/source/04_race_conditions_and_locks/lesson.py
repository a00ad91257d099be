# ---
# title: 04 Race conditions and locks
# question: Two threads add to the same sum. Why is it too small?
# needs: one CPU core, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 4. Race conditions and locks
#
# The GIL lets only one thread at a time run Python code, and lesson 3 lost no append.
# So two threads that add to one number should be safe. They are not: updates get lost,
# and nothing fails.
#
# We find the place where they get lost, try out every order in which two threads can
# run, and repair the program in three ways.
#
# *You will be able to* say which lines two threads must not run at the same time,
# protect them with a lock, recognise a deadlock, and write programs that need no lock.
#
# *Before this:* lesson 3. *Time:* {reading} minutes to read, 35 for three exercises. *Needs:*
# one CPU core, no GPU. What is shown here goes wrong on one core as surely as on many.

# %% [markdown] tags=["instructor"]
# ## Two threads, one number: 10 minutes
#
# Two volunteers, one blackboard with x = 0, a slip of paper each. Each may do one step
# when you point at them: copy x to the slip; add 1 on the slip; write the slip to the
# board. Point at A, B, A, A, B, B. Then let the class point. This is the explorer of
# the next section.
#
# When late: the volunteers instead of dis.

# %% [markdown]
# ## Two threads, one number
#
# Two threads add 1 to the same `x`, a million times each. `int(1)` is 1; you will see
# why it is there.

# %%
x = 0


def add_int_one(updates: int = 1_000_000) -> None:
    global x
    for _ in range(updates):
        x = x + int(1)


# %% [markdown]
# At the end `x` should be 2,000,000:

# %% tags=["nbval-ignore-output"]
from threading import Thread


def in_two_threads(work) -> None:
    """Call `work` in two threads at the same time, and wait for both."""
    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


in_two_threads(add_int_one)
x

# %% [markdown]
# An addition that is missing from `x` is a **lost update**. We count them, five times:


# %% tags=["nbval-ignore-output"]
def updates_lost(add) -> int:
    """How many of 2 million updates are lost."""
    global x
    x = 0
    in_two_threads(add)
    return 2_000_000 - x


lost = [updates_lost(add_int_one) for _ in range(5)]
assert sum(lost) > 0
lost

# %% [markdown]
# Many are lost, and a different number each time. There is no error and no warning,
# only a wrong sum.
#
# Python translates each line into instructions, and `dis` shows them:

# %% tags=["nbval-ignore-output"]
import dis


def update() -> None:
    global x
    x = x + int(1)


dis.dis(update)

# %% [markdown]
# From top to bottom: `LOAD_GLOBAL x` copies the value of `x` to the thread's own scratch
# paper, its *stack*. `CALL` computes `int(1)`, and `BINARY_OP` adds it to the copy.
# `STORE_GLOBAL x` writes the sum back. Names differ a little between versions.
#
# One line, and three steps that matter: **load, add, store**. If the other thread stores
# something after our load, our store overwrites it.

# %% [markdown]
# `x = x + 1` has the same three steps. Does it lose updates, too?


# %%
def add_one() -> None:
    global x
    for _ in range(1_000_000):
        x = x + 1


print("lost:", [updates_lost(add_one) for _ in range(3)])

# %% [markdown]
# It loses nothing on Python 3.10 to 3.14. On 3.9 we lost 10 to 42 %, and many tutorials
# show this loop. Newer versions switch threads only at certain instructions, such as when
# a loop jumps back or a call has returned. In `x = x + int(1)` **a `CALL` stands between
# the load and the store**. In `x = x + 1` none does, and the switch comes after the
# store.
#
# Python does not promise this, and without a GIL it does not hold. Code that is right by
# luck is not right.

# %% [markdown] tags=["instructor"]
# ## Every order there is: 9 minutes
#
# Let everybody find one order on paper in which x ends as 1, then ask for somebody with
# another one. There are 18. The second guess is the better one: nearly all say 3, for
# "each thread loses at most everything the other did". Keep the answer 2 in suspense;
# the first exercise explains it.
#
# When late: only the first guess and its cell.

# %% [markdown]
# ## Every order there is
#
# Running the loop shows only what happened today. To know what can happen, we play two
# threads, A and B, without starting any. An order is a text, in which each letter is one
# step of that thread. Before you run the cell, follow both orders below with a pencil:
# note `x` and both copies after each letter.

# %%
from parallel_by_hand.races import interleavings
from parallel_by_hand.races.interleavings import UPDATE, play
from sidebyside import guess, show

show(interleavings.do_step)
print("UPDATE =", UPDATE)
print("AAABBB: x =", play("AAABBB", UPDATE, UPDATE))
print("ABABAB: x =", play("ABABAB", UPDATE, UPDATE))
guess("04-orders", None, "There are 20 orders. In how many of them is an update lost?")
guess("04-smallest", None, "If both add 1 three times: how small can x be in the end?")

# %% [markdown]
# Write your guesses in place of `None`. The branches of `do_step` with *take* and
# *release* are for later. `endings` plays all orders and counts how they end.

# %%
from parallel_by_hand.races.interleavings import endings
from sidebyside import reveal

found = endings(UPDATE, UPDATE)
for x_at_end, orders in found.items():
    print(f"x = {x_at_end}: {orders} orders")
reveal("04-orders", found[1], computed=True)

# %% [markdown]
# Only two orders are right: all of A before B, and all of B before A. **In 18 of 20
# orders an update is lost.** Now let each thread add 1 three times. There are 48,620
# orders. How does `x` end?

# %%
from sidebyside import COLOURS, figure

found = endings(UPDATE * 3, UPDATE * 3)
alt = f"number of orders by the x they end with: {found}"
fig, ax = figure(height=2.2, stamp="computed", alt=alt)
ax.barh(list(found), list(found.values()), color=COLOURS[0])
for x_at_end, orders in found.items():
    ax.text(orders + 300, x_at_end, f"{orders:,}", va="center", fontsize=8)
ax.set(xlabel="orders", ylabel="x at the end", yticks=list(found))
ax.xaxis.set_major_formatter("{x:,.0f}")
reveal("04-smallest", min(found), computed=True)
fig

# %% [markdown]
# The bars show how many orders end with each `x`. Six is right, and happens in 20 orders.
# Three was to be expected: each update of one thread destroys one of the other. But
# **three and three additions can make 2.** How? Exercise 1 asks for the order.
#
# This is why testing is no cure: a test runs a few orders. In a short one, a thread is
# often done before the other has its turn, and nothing is lost.

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 15 minutes
#
# A puzzle for pairs with paper. Pairs that are stuck play it with two slips and a board.

# %% [markdown]
# ## Exercise 1: the order that loses most
#
# Write `worst_order(updates)`: an order in which threads A and B each make that many
# updates, and `x` ends as small as it can. It is a text of `A` and `B`; each occurs
# three times per update.
#
# By hand first: for one update, `x` can end as 1. Find orders for two and three updates
# that end as 2. `play(order, UPDATE * 3, UPDATE * 3)` tries one out.
# <!-- exercise: 04-order -->
#
# <details><summary>Hint 1: a question</summary>
#
# The very last step of all is a store. What must that thread have loaded for `x` to be
# as small as 2, and how long may it sit on it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# One old copy can wipe out many updates. A loads 0 and sleeps, while B does nearly all
# its work. Then A stores a 1. Which thread can now load this 1 and sleep on it?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# With n updates each: A loads. B makes n − 1 whole updates. A adds and stores: now `x`
# is 1. B loads this 1 for its last update. A makes its other n − 1 updates. B adds and
# stores. For n = 1 this is `AAABBB`, which loses nothing; treat one update by itself.
#
# </details>


# %% exercise="04-order"
def worst_order(updates: int) -> str:
    """An order of A and B, each with `updates` updates, that ends with the least x."""
    ### BEGIN SOLUTION
    if updates == 1:
        return "ABABAB"
    all_but_one = 3 * (updates - 1)
    return "A" + "B" * all_but_one + "AA" + "B" + "A" * all_but_one + "BB"
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("04-order", worst_order)

# %% [markdown] tags=["why"]
# <!-- why: 04-order -->
# Why it works: A's copy of 0 wipes out all of B's updates but the last. B's copy of the
# resulting 1 wipes out all of A's but the first. So `x` ends as 2, however many updates
# there were. It cannot be 1 with two or more updates each: the last store of all adds 1
# to what that thread has loaded, and when it loads for its last update it has itself
# stored something of at least 1 before, which no thread can turn into a 0.

# %% [markdown] tags=["instructor"]
# ## A lock: 9 minutes
#
# The picture: one key, on a hook beside the blackboard. Only the person with the key may
# touch the board. The second to come waits at the hook. Then ask what happens if
# somebody ignores the hook: nothing stops them. A lock protects nothing by itself; it is
# an agreement.
#
# When late: leave out the timelines.

# %% [markdown]
# ## A lock
#
# No thread may work between the load and the store of another. A **lock** can be held by
# one thread at a time. `with lock:` waits as long as another thread holds the lock, takes
# it, and gives it back at the end of the block, also after an error.

# %%
from threading import Lock

lock = Lock()


def add_with_lock(updates: int = 1_000_000) -> None:
    global x
    for _ in range(updates):
        with lock:
            x = x + int(1)


print("lost:", [updates_lost(add_with_lock) for _ in range(3)])

# %% [markdown]
# Nothing is lost. The lines that only one thread may run at a time are a **critical
# section**. In the game a lock adds two steps: take it, if it is free, and release it.
# Now we can also play misplaced locks:

# %%
from parallel_by_hand.races.interleavings import LATE_LOCK, LOCKED

each_access = ("take l", "load", "release l", "add", "take l", "store", "release l")
with_own_lock = [(f"take {own}", *UPDATE, f"release {own}") for own in ("A's", "B's")]
attempts = {
    "no lock": (UPDATE, UPDATE),
    "lock around the update": (LOCKED, LOCKED),
    "lock around the store only": (LATE_LOCK, LATE_LOCK),
    "lock around load, and around store": (each_access, each_access),
    "each thread has its own lock": with_own_lock,
    "only one thread uses the lock": (LOCKED, UPDATE),
}
for name, programs in attempts.items():
    found = endings(*programs)
    print(f"{name:<35} {sum(found.values()):>4} orders, {found.get(1, 0):>4} lose")

# %% [markdown]
# The right lock does not make the update one step. It strikes out orders, and **only two
# are left, both right**. In the rows below it there is a lock, and it does not help:
#
# * It must cover everything from the load to the store, without a gap.
# * It must be the same lock for all.
# * All threads must use it. Nothing stops a thread that does not ask.

# %% [markdown]
# ## Two kinds of mistake
#
# * A *data race*: two threads use the same variable, at least one of them writes, and
#   nothing makes one come before the other.
# * A **race condition**: whether the result is right depends on which thread comes
#   first.
#
# Most often they come together. But look at the fourth row: every access is locked, so
# there is no data race, and updates still get lost. **Locking each access is not
# enough.**

# %% [markdown]
# You will meet the fourth row as *check, then act*: `if seats > 0:` and `seats -= 1`
# are two steps, even if each is locked, and somebody can take the last seat in between.
#
# Steps are *atomic* if no other thread can come between them. One lock around both steps
# makes them atomic for all threads that use the lock.

# %% [markdown]
# ## Hold it briefly
#
# Waiting for a lock costs more than the lock. Here two threads read three numbers each
# and add them up: reading takes 60 ms, adding 20 ms. Both sleep, so that the picture is
# the same on any machine. We take the lock without `with`, to draw the waiting as a span:

# %%
from time import sleep

from sidebyside import span


def hold_lock(seconds: float) -> None:
    with span("wait"):
        lock.acquire()
    with span("holds the lock"):
        sleep(seconds)
    lock.release()


def read_and_hold_it_to_add() -> None:
    with span("reads"):
        sleep(0.06)
    hold_lock(0.02)


# %%
from sidebyside import Timeline, draw_timelines

with Timeline() as all_the_time:
    in_two_threads(lambda: [hold_lock(0.08) for _ in range(3)])
with Timeline() as to_add:
    in_two_threads(lambda: [read_and_hold_it_to_add() for _ in range(3)])
holding = {"lock held all the time": all_the_time, "lock held to add": to_add}
draw_timelines(holding, stamp="simulated")

# %% [markdown]
# In a pale bar a thread waits for the lock. At the top the two threads take as long as
# one would. Below they read at the same time, and wait only to add. So hold a lock as
# briefly as you can, but all the way from load to store.

# %% [markdown] tags=["instructor"]
# ## Deadlock: 8 minutes
#
# Two people, two pens, two sheets: each needs both. Let them reach for different things
# first, and keep still. The class sees at once that nobody can go on, and also that no
# single person did anything wrong.
#
# When late: the demo only.

# %% [markdown]
# ## Deadlock
#
# A bank: each account has a lock. A transfer needs two accounts, so it takes two locks.

# %%
from parallel_by_hand.races import deadlock

show(deadlock.transfer)

# %% [markdown]
# Ann pays Bob, again and again, while Bob pays Ann. `run_ranks` runs this in a process
# of its own and gives it four seconds. 500 transfers each way should take about one
# second. The red text is intentional: read it.

# %% tags=["raises-exception"]
from sidebyside import run_ranks


def pay(source, target) -> None:
    for _ in range(500):
        deadlock.transfer(source, target, amount=1)


def pay_each_other() -> None:
    ann, bob = deadlock.Account(1), deadlock.Account(2)
    other = Thread(target=pay, args=(bob, ann))
    other.start()
    pay(ann, bob)
    other.join()


run_ranks(pay_each_other, world_size=1, timeout=4)

# %% [markdown]
# It never ends. The report names the line on which the main thread waits for the lock of
# the *target*. The other thread holds that lock, and waits for the first thread's. Each
# has what the other wants, and neither gives back what it has. That is a **deadlock**. In
# a terminal, `python demos/races/deadlock.py` shows both sides.

# %% [markdown]
# Here it is in the game. A takes the left lock first; B takes the right one first, or
# the left one, too.

# %%
from parallel_by_hand.races.interleavings import LEFT_FIRST, RIGHT_FIRST

attempts = {
    "A left first, B right first": (LEFT_FIRST, RIGHT_FIRST),
    "both left first": (LEFT_FIRST, LEFT_FIRST),
}
print("LEFT_FIRST =", LEFT_FIRST)
for name, programs in attempts.items():
    found = endings(*programs)
    print(f"{name:<30} {sum(found.values())} orders, {found.get('stuck', 0)} stuck")

# %% [markdown]
# In 2 of 6 orders both are stuck. In the second row no order gets stuck: the thread that
# has the left lock can always get the right one. **If all threads take their locks in the same order,
# there is no deadlock.**

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 10 minutes
#
# The one that is needed in practice. A transfer from an account to itself is what
# people forget.

# %% [markdown]
# ## Exercise 2: a transfer that always ends
#
# Write `transfer(source, target, amount)`. An account has a `.number`, different for
# each account, a `.balance` and a `.lock`. The amount moves from one balance to the
# other. Three promises:
#
# * **It always ends**, whatever other threads transfer at the same time.
# * Both locks are held from before the first balance is read until both have changed.
# * Transfers between other accounts need not wait.
#
# By hand first: a thread cannot take a `Lock` twice. What does `deadlock.transfer` do
# with a transfer from an account to itself? Yours changes nothing.
# <!-- exercise: 04-transfer -->
#
# <details><summary>Hint 1: a question</summary>
#
# Draw two arrows: Ann holds lock 1 and wants 2, Bob holds 2 and wants 1. Which of the
# two should have asked for the other lock first?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Which lock comes first must not depend on who pays. It may depend on something that
# both threads see alike: the account numbers.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# First, if both accounts are the same, return. Then `first, second = sorted([source,
# target], key=...)` by number, then `with first.lock, second.lock:` and move the
# amount.
#
# </details>


# %% exercise="04-transfer"
def transfer(source, target, amount: int) -> None:
    """Move the amount; hold both locks, and never wait for ever."""
    ### BEGIN SOLUTION
    if source is target:
        return
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock, second.lock:
        source.balance -= amount
        target.balance += amount
    ### END SOLUTION


# %%
check("04-transfer", transfer)

# %% [markdown] tags=["why"]
# <!-- why: 04-transfer -->
# Why it works: for a deadlock there must be a circle, in which each waits for a lock that
# the next one has. If all take the smaller number first, then somewhere in such a circle
# a thread would hold a larger number and want a smaller one, and no thread does. A
# transfer to the same account would wait for itself: a `Lock` can be taken once, even by
# the thread that has it.

# %% [markdown] tags=["instructor"]
# ## Without a lock: 9 minutes
#
# The message of the whole lesson: the best lock is the one that is not needed. Draw two
# tables. Left: two threads, one x in the middle, arrows from both. Right: each thread
# has an x of its own, and one arrow with the result at the end. Ask which one they
# would rather debug.
# When late: the comparison without the processes.

# %% [markdown]
# ## Better: share less
#
# A lock repairs the sharing. Often it is better not to share. With a **queue**, threads
# hand things to each other: `put` adds an item at the end, `get` takes the first one and
# waits if there is none. An item in the queue belongs to no thread; after `get` it
# belongs to one.
#
# Three ways to count to 100,000 in two threads:

# %%
from concurrent.futures import ThreadPoolExecutor
from queue import Queue


def queue_for_each() -> int:
    numbers = Queue()
    in_two_threads(lambda: [numbers.put(int(1)) for _ in range(50_000)])
    return sum(numbers.get() for _ in range(100_000))


def own_sums() -> int:
    with ThreadPoolExecutor(2) as pool:
        sums = pool.map(lambda n: sum(int(1) for _ in range(n)), [50_000, 50_000])
    return sum(sums)


# %%
from sidebyside import compare

ways = compare(
    lock_for_each=lambda: in_two_threads(lambda: add_with_lock(50_000)),
    queue_for_each=queue_for_each,
    own_sums=own_sums,
)
print(ways)
assert ways.results["queue_for_each"] == ways.results["own_sums"] == 100_000

# %% [markdown]
# All three are right. A queue item costs more than a lock, so a queue does not suit
# single additions. In `own_sums` **each thread adds up for itself, and only the results
# meet**: two numbers instead of 100,000. Remember this shape. Training on many devices is
# built on it.

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 20 minutes
#
# The pattern of every later lesson.
#
# When late: at home.

# %% [markdown]
# ## Exercise 3: a histogram without a lock
#
# A detector has recorded `events`, a list of pairs `(bin, event)`. `energy(event)`, a
# whole number, is read from a slow device: it waits, so threads help.
#
# Write `histogram(events, bins, energy, workers)`: a list of length `bins`, in which
# entry b is the sum of the energies of all events of bin b. `workers` threads read at the
# same time. Use no lock, and let no two threads write to the same number.
#
# By hand first: in `counts[b] += energy(event)`, is `energy` called before or after the
# old count is loaded? `dis` tells.
# <!-- exercise: 04-histogram -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of your variables do two threads write to? How would the program look if there
# were none?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# As in `own_sums`: each worker makes a histogram of its own from its share of the
# events and returns it. One thread adds the histograms up.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `events[worker::workers]` is a fair share. Write an inner function `share(worker)`
# that makes `counts = [0] * bins`, fills it from its share and returns it.
# `pool.map(share, range(workers))` gives all of them; then `[sum(column) for column in
# zip(*histograms)]`.
#
# </details>


# %% exercise="04-histogram"
def histogram(events: list, bins: int, energy, workers: int) -> list[int]:
    """Sum of the energies in each bin, read by several threads, without a lock."""

    ### BEGIN SOLUTION
    def share(worker: int) -> list[int]:
        counts = [0] * bins
        for place, event in events[worker::workers]:
            counts[place] += energy(event)
        return counts

    with ThreadPoolExecutor(workers) as pool:
        histograms = list(pool.map(share, range(workers)))
    return [sum(column) for column in zip(*histograms, strict=True)]
    ### END SOLUTION


# %%
check("04-histogram", histogram)

# %% [markdown] tags=["why"]
# <!-- why: 04-histogram -->
# Why it works: each list of counts is written by one thread. The lists meet in the main
# thread, after the pool has ended. In `counts[b] += energy(event)` the old count is
# loaded *before* `energy` is called, and stored after it: with one shared list,
# everything that other threads stored while this one waited would be lost.

# %% [markdown]
# ## Processes race, too
#
# Processes share no variables, unless you place something in shared memory, as in
# lesson 2. There is no common GIL between them, so even `x = x + 1` loses updates.
# `count_in_processes` lets two processes add to one number in shared memory, and lets
# them begin at the same time.

# %%
from parallel_by_hand.races import lost_update

show(lost_update.add_one)
for add in lost_update.add_one, lost_update.add_with_lock:
    x = min(lost_update.count_in_processes(add, updates=300_000) for _ in range(3))
    print(f"{add.__name__:<14} lost {100 * (600_000 - x) / 600_000:.1f} %")

# %% [markdown]
# The worst of three rounds is shown. `add_with_lock` adds inside `with lock:`. With a
# lock of `multiprocessing`, which works between processes, nothing is lost.
#
# Threads without a GIL race as processes do: they lose updates of `x = x + 1`, too. If a
# free-threaded Python (lesson 3) is installed, the next cell counts both there:

# %% tags=["nbval-ignore-output"]
from sidebyside.programs.free_threaded import run_without_gil

run_without_gil("races/lost_update.py", "--rounds", 2)

# %% [markdown]
# ## Why array code rarely needs a lock
#
# Two threads fill one tensor, without a lock, and nothing goes wrong:

# %%
import torch

values = torch.arange(1_000_000)
squares = torch.zeros_like(values)


def fill(part: slice) -> None:
    squares[part] = values[part] ** 2


with ThreadPoolExecutor(2) as pool:
    list(pool.map(fill, [slice(0, 500_000), slice(500_000, None)]))
assert torch.equal(squares, values**2)

# %% [markdown]
# The threads share the tensor, but no element of it. A data race needs two threads at the
# *same* number, one of them writing. Array code tells each worker its part, reads the old
# array and writes a new one.

# %% [markdown]
# ## What we saw
#
# | you need | in threads | in processes |
# |---|---|---|
# | a lock | `threading.Lock` | `multiprocessing.Lock` |
# | a queue | `queue.Queue` | `multiprocessing.Queue` |
# | results of parts | `ThreadPoolExecutor.map` | `ProcessPoolExecutor.map` |
# | to see what hangs | `faulthandler.dump_traceback_later(60)` | the same, in each |
#
# * An update is load, add, store. In 18 of the 20 orders of two updates one is lost.
# * Two locks in two orders can hang for ever. One order for all cannot.
# * It is best to share less: work alone, hand over results.

# %% [markdown]
# The demos run in a terminal too, with other numbers: `python
# demos/races/interleavings.py --program late-lock` plays the game, and `python
# demos/races/lost_update.py --help` says what to try with the loops.
#
# ## Next
#
# Two threads that share a number race for it. What do two processes copied from one
# parent share? Lesson 5 asks them for random numbers, and sometimes gets the same ones
# twice.
