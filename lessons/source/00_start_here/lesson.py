# ---
# title: 00 Start here
# question: What can this machine do, and how does this course work?
# needs: any machine
# minutes: 20
# ---

# %% [markdown]
# # Start here
#
# Welcome. Your machine has several cores, and most programs use one of them. In this
# course you learn to use the others: first for small Python programs, then for training
# neural networks on many devices. You also learn when it does not help.
#
# This first page takes twenty minutes. At its end you will have pressed every button of
# the course: you will have measured your machine, seen a picture of a program at work,
# and solved an exercise.
#
# You cannot break anything here. Whatever you change, the end of the page says how to
# get back.

# %% [markdown] tags=["instructor"]
# ## All of it: 20 minutes, everybody at their own machine
#
# Have the class open this page while people are still arriving. Let them read out their
# usable cores and capacities and write them on the board: they differ, and later
# speedups will differ for the same reason.
#
# When late: leave out the demo.

# %% [markdown]
# ## Run a cell
#
# The grey boxes are cells with Python code. Click into the next one and press
# *Shift+Enter*: it runs, and the next cell is selected. The first one takes the
# course's instruments out of their box.

# %%
from sidebyside import machine

# %% [markdown]
# Nothing seems to happen, but a number in brackets has appeared beside the cell: it has
# run. Now see what your machine has.

# %% tags=["nbval-ignore-output"]
machine()

# %% [markdown]
# A processor, or *CPU*, has **cores**, and a core does one thing at a time. The number
# that counts is *usable cores*: your programs can do that many things at once. It can be
# smaller than the number of *logical cores* if your program was given only some of them,
# or runs in a *container*, a fence around programs that may ration the cores. Some
# processors present each *physical core* as two logical ones. A *GPU* is a second
# processor, made to compute with many numbers at once.

# %% [markdown]
# ## Guess first
#
# Two cores should do twice as much as one. Do they? In this course you guess before you
# measure. Write a number in place of `None`, then run the cell. Nobody sees it, and a
# wrong guess teaches more than a right one. A *process* is a running program, and a busy
# process never waits.

# %%
from sidebyside import guess

guess("00-capacity", None, "How much more work do two busy processes do than one?", "×")

# %% [markdown]
# Now measure. While `[*]` stands beside the cell, it is running. This one needs some
# seconds.

# %%
from sidebyside import reveal

capacity = machine().capacity(workers=2)
reveal("00-capacity", capacity, "×")

# %% [markdown]
# This is your machine's **parallel capacity** for two *workers*: whatever does work
# beside others, here two processes. It is at most 2, and often less: other programs want
# the cores too, and one core presented as two is not as fast as two. With one usable core
# it is about 1.
#
# Run the cell again. The number differs, because a machine is never quite at rest. A
# single measurement proves little, so later we take several.

# %% [markdown]
# Do more workers get more done? Here there are twice as many as cores, but eight at most.
# With eight cores or more, write a larger number in place of the 8.

# %%
workers = min(8, 2 * machine().usable_cores)
print(f"together they do {machine().capacity(workers):.2f} × the work of one")

# %% [markdown]
# **Work that computes gains no more than there are usable cores**, however many workers
# share it. On a busy machine the number may be higher, where other programs disturbed the
# one process more than the many. Waiting needs no core: three cooks who wait can gain
# more, as you are about to see.

# %% [markdown]
# ## A picture of a program
#
# A cook prepares breakfast. To `make` a dish is to wait for it. `span` notes when each
# dish begins and ends, and a `Timeline` collects the notes.

# %%
from time import sleep

from sidebyside import Timeline, span

breakfast = {"tea": 0.3, "toast": 0.2, "egg": 0.4}


def make(dish: str, seconds: float) -> None:
    """Wait until a dish is ready."""
    with span(dish):
        sleep(seconds)


with Timeline() as one_cook:
    for dish, seconds in breakfast.items():
        make(dish, seconds)
one_cook.plot(stamp="simulated")

# %% [markdown]
# Time runs to the right. Now three cooks, one for each dish. Each is a *thread*, which
# lesson 2 explains.

# %%
from threading import Thread

from sidebyside import draw_timelines

with Timeline() as three_cooks:
    names = ["Ada", "Ben", "Cem"]
    dishes = zip(names, breakfast.items(), strict=True)
    cooks = [Thread(target=make, args=dish, name=name) for name, dish in dishes]
    for cook in cooks:
        cook.start()
    for cook in cooks:
        cook.join()
draw_timelines({"one cook": one_cook, "three cooks": three_cooks}, stamp="simulated")

# %% [markdown]
# Each *lane* is a worker, each bar in it a *span*: work with a name. Grey is idle time; a
# cook who waits for a dish counts as busy. The corner says where the numbers come from:
# *simulated*, because making a dish is a `sleep`.
# Such a picture is a *timeline*; lesson 3 teaches you to read it. Side by side, breakfast
# is ready when the slowest dish is.

# %% [markdown]
# ## A demo
#
# Every lesson has small programs that you can also run by themselves, in a terminal:
# `python demos/gil/sleeping_threads.py`. In a terminal, in the course's folder, use
# `.venv/bin/python` (on Windows `.venv\Scripts\python`) wherever the lessons say
# `python`. From a notebook it is `run_demo`. A terminal has no pictures, so this demo
# draws its lanes in letters: a capital begins a span, dots are idle time.

# %% tags=["nbval-ignore-output"]
from sidebyside import run_demo

run_demo("gil/sleeping_threads.py", "--threads", 3, "--seconds", 0.2)

# %% [markdown]
# ## Your first exercise
#
# Write `saved(minutes)`. Each number in the list `minutes` is the time one dish needs.
# How many minutes are saved if each dish has its own cook, instead of one cook who
# makes one dish after another? The list stays as it is.
#
# By hand first: for `[3, 2, 4]` one cook needs 9 minutes, three cooks need 4, and 5 are
# saved.
#
# Run the next two cells as they are. The check says NOT STARTED. Then replace the line
# `raise NotImplementedError("your turn")` by your code, and run both again.
# <!-- exercise: 00-saved -->
#
# <details><summary>Hint 1: a question</summary>
#
# How long does one cook need for `[3, 2, 4]`, and how did you find out? How long do
# three cooks need, and which of the numbers was that?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# One cook needs the sum. With a cook for each dish, breakfast is ready when the slowest
# dish is.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Python has `sum(minutes)` and `max(minutes)`. Return the one less the other.
#
# </details>


# %% exercise="00-saved"
def saved(minutes: list[float]) -> float:
    """Minutes saved by a cook for each dish, compared with one cook for all."""
    ### BEGIN SOLUTION
    return sum(minutes) - max(minutes)
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("00-saved", saved)

# %% [markdown] tags=["why"]
# <!-- why: 00-saved -->
# Why it works: one cook needs the sum of all times. With a cook for each dish, all
# begin at once, and the last to be ready is the longest: the maximum.

# %% [markdown]
# A check tries out your function and tells you what it tried, what came back, and what to
# think about. Do not hurry to get it right: write `return 0`, check, and read what it
# says. You will see PASSED and NOT YET most. TOO SLOW means right, but slower than
# necessary. HUNG means that your function did not end, so the check ended it. After
# PASSED you read why it works, and what is next.
#
# Each call of `hint` gives one of three hints, every time a bit more. The same hints
# fold open in the text above.

# %%
hint("00-saved")

# %% [markdown]
# `solution` shows our code and why it works. Python skips what stands behind a `#`:
# remove it when you want to look, and run the cell. Nobody is told that you looked.

# %%
# solution("00-saved")

# %% [markdown]
# `progress` shows where you are and what is next: `progress()` in the whole course,
# `progress("00")` in this lesson.

# %%
progress("00")

# %% [markdown]
# ## When you are stuck
#
# * *You do not know how to begin.* `hint("00-saved")`, up to three times.
# * *You want to see how we did it.* `solution("00-saved")`. Or open the same page in
#   the folder `solutions`: it shows every result.
# * *`[*]` does not go away.* Press ■ above the page: *interrupt the kernel*.
# * *`NameError`: some name is not defined.* A cell further up has not run: *Run → Run
#   All Above Selected Cell*.
# * *It is all in a muddle.* Press ⟳ above the page: *restart the kernel*. Your text
#   stays, all variables are gone. Run the cells again from the top.
# * *You want an exercise, a guess or a lesson to be as on the first day.*
#   `forget("00-saved")`, `forget("00-capacity")`, `forget("00")`: what is recorded
#   is gone, and your code stays.
# * *You want the page itself to be as on the first day.* In a terminal, in the course's
#   folder: `.venv/bin/sidebyside --restore 00`. It keeps your page beside the new one.
# * *You do not know a word, or what an error message means.* In a terminal, in the
#   course's folder: `.venv/bin/sidebyside find "all-reduce"`. The same stands in the
#   [glossary](../resources/workshop/glossary.md) and the
#   [index](../resources/workshop/index.md).

# %% [markdown]
# The *kernel* is the Python program behind this page. It runs your cells one at a time.
#
# Try the two buttons now, while nothing depends on it. In the next cell write 600 in
# place of 1 and run it. Then press ■. A long red text that ends in `KeyboardInterrupt`
# is all that happens: it is how Python says that somebody stopped it. Then press ⟳,
# confirm, and run the first cell again.

# %%
sleep(1)

# %% [markdown]
# ## What we saw
#
# * What counts is the number of usable cores, and the parallel capacity that you
#   measure. More workers than cores compute no more.
# * Guess, run, read: every lesson goes like this.
# * Side by side, work that waits is done when the longest piece of it is.
# * `check`, `hint`, `solution`, `progress`; ■ and ⟳.

# %% [markdown]
# ## Next
#
# Why would anyone want to compute in parallel, and how much can be won? Lesson 1 measures
# it. If you want to train networks, and know threads and processes well, begin with
# lesson 3 and go on with lesson 11a.
