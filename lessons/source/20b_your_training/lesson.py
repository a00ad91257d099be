# ---
# title: 20b Your training
# question: Eighteen ways train one model. What does it learn, and how fast can you make it?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 20b. Your training
#
# In lesson 20a every rung of the ladder came to the same numbers, after every step. A few
# steps teach a model next to nothing. Here a larger one trains until it writes. We
# measure what it has learned, stop it and let it go on, and collect all your measurements
# of this course on one page. In the end you make it as fast as your machine allows.
#
# *You will be able to* say in bits what a language model has learned, beside models that
# only count; to stop a training run and resume it as if nothing had happened; to write
# your report; and to prove that a fast training run is the same as a slow one.
#
# *Before this:* lessons 11b, 17a, 18b and 20a. *Time:* {reading} minutes, and 50 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Bits per character: 6 minutes
#
# Play Shannon's game: hide a sentence of the book, let the room guess it letter by letter,
# and count the guesses. After "q" nobody needs two.
#
# When late: show the two numbers, and go to the exercise.

# %% [markdown]
# ## Bits per character
#
# A *language model* gives each possible next character a chance. Only text that was
# held out counts, here chapters 41 and 42 of Moby-Dick.

# %%
from parallel_by_hand.capstone.text_batches import text_tokens

train, held_out = text_tokens("train"), text_tokens("test")
print(f"{len(train):,} characters to learn from, {len(held_out):,} held out")

# %% [markdown]
# If the character that comes had the chance 1/8, it costs $-\log_2(1/8) = 3$ bits. The
# mean over a text is its **bits per character**: fewer are better. It is cross entropy,
# the loss of lesson 20a, with another logarithm.

# %%
from math import log2

from parallel_by_hand.capstone.text_baselines import bits_of_counts
from parallel_by_hand.capstone.text_batches import text_alphabet

words = len(text_alphabet())
print(f"{words} characters, all equally likely: {log2(words):.2f} bits each")
print(f"as often as in the text: {bits_of_counts(train, held_out, words, 1):.2f}")

# %% [markdown]
# These are two **baselines**: models so simple that a better one has to beat them. The
# first knows only the alphabet. The second has counted the characters one by one. In 1951
# Shannon went on with pairs: how often does each character follow an `h`?
#
# A pair of the held-out text that was never counted would have the chance 0, and cost
# infinitely many bits. So one pretends to have seen every pair a little: that is
# **smoothing**.

# %% [markdown] tags=["instructor"]
# ## Exercise 1, pairs: 10 minutes

# %% [markdown]
# ## Exercise 1: pairs
#
# Write `pair_bits(text, held_out, alphabet)`: the bits per character of a model that has
# counted pairs in `text`. Let $n(ab)$ be how often $b$ directly follows $a$, and $n(a)$
# the number of pairs that begin with $a$. With $V$ characters in `alphabet`, the chance
# of $b$ after $a$ is
#
# $$P(b \mid a) = \frac{n(ab) + 1}{n(a) + V}.$$
#
# Return the mean of $-\log_2 P(b \mid a)$ over all pairs of neighbours in `held_out`.
# Texts may be books: count in one pass.
#
# By hand first: the alphabet is `"ab"` and the text `"aaa"`. How many bits does each of the
# two pairs of `"aba"` cost?
# <!-- exercise: 20b-pairs -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many pairs has a text of three characters, and which of its characters begin one?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `itertools.pairwise(text)` goes through all pairs, and `collections.Counter` counts them.
# Its count of a pair that it has not seen is 0.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `pairs = Counter(pairwise(text))` and `firsts = Counter(text[:-1])`. For each `a, b` of
# `pairwise(held_out)` take `-log2((pairs[a, b] + 1) / (firsts[a] + len(alphabet)))`.
#
# </details>

# %% exercise="20b-pairs"
from collections import Counter
from itertools import pairwise

from sidebyside import forget, hint, progress, solution


def pair_bits(text, held_out, alphabet) -> float:
    """The mean number of bits for each pair of `held_out`, counted in `text`."""
    ### BEGIN SOLUTION
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    bits = [
        -log2((pairs[a, b] + 1) / (firsts[a] + len(alphabet)))
        for a, b in pairwise(held_out)
    ]
    return sum(bits) / len(bits)
    ### END SOLUTION


# %%
from sidebyside import check

check("20b-pairs", pair_bits)

# %% [markdown] tags=["why"]
# <!-- why: 20b-pairs -->
# Why it works: the chances after one character add up to 1, because the numerator counts
# one more for each of the $V$ characters and the denominator $V$ more in all.
#
# By hand: `"aaa"` has two pairs, both `aa`, so $n(a) = 2$ and $n(b) = 0$. The pair `ab` has
# the chance $(0 + 1)/(2 + 2)$ and costs 2 bits; `ba` has $(0 + 1)/(0 + 2)$ and costs 1. The
# mean is 1.5. On Moby-Dick this model needs 3.47 bits.

# %% [markdown] tags=["instructor"]
# ## Counting further: 5 minutes
#
# Read the four texts aloud. With triples, some words sound English.
#
# When late: the table without the texts.

# %% [markdown]
# ## Counting further
#
# 80 characters make 512,000 triples; only 9,669 of them occur in the text. So smoothing
# matters more here. Adding 1 gave 3.47 bits with pairs. From now on we do as MacKay and
# Peto did in 1995: each context behaves as if five more characters had followed it,
# distributed as after the next shorter context.

# %%
from parallel_by_hand.capstone.text_baselines import NAMES

baselines = {
    name: bits_of_counts(train, held_out, words, order)
    for order, name in enumerate(NAMES)
}
for name, bits in baselines.items():
    print(f"{name:<18} {bits:.2f} bits per character")

# %% [markdown]
# 3 bits are the choice among 8 equally likely characters. Among how many does the model of
# pairs choose?

# %%
from sidebyside import guess

guess("20b-choices", None, "3.46 bits: among how many equally likely characters?")

# %%
from sidebyside import reveal

reveal("20b-choices", round(2 ** baselines["pairs"], 1), computed=True)

# %% [markdown]
# That number is the model's *perplexity*. A baseline can write, too: it draws each next
# character with the chances that it gives. Each text begins with "The whale ":

# %%
from parallel_by_hand.capstone.text_baselines import next_character_table
from parallel_by_hand.capstone.written_text import write_from_counts

for order, name in enumerate(NAMES):
    table = next_character_table(train, words, order)
    print(f"{name}: {write_from_counts(table, 70, seed=order)!r}")

# %% [markdown] tags=["instructor"]
# ## The training: 8 minutes
#
# Let the room bet before the figure: which line will the curve have crossed after 100
# steps, and which after 500?

# %% [markdown]
# ## The training
#
# Our transformer sees up to 32 characters back. Two ranks train it with lesson 11b's DDP,
# 32 excerpts a step. The optimiser is now Adam; rungs were compared with SGD, because
# Adam hides a wrong factor. The loop keeps a state every 100 steps:

# %%
from parallel_by_hand.capstone.text_state import train_text_states
from sidebyside import run_ranks, show

show(train_text_states)
args = train_text_states, "DDP (ours)", 500, 100
states = run_ranks(*args, world_size=2, timeout=300)[0]

# %% [markdown]
# How many bits does every other of these five states need? The held-out text is read in
# excerpts, so each character is predicted from 1 to 32 characters before it. The
# horizontal lines are the baselines:

# %%
from lessons.props.your_training import draw_text_curve
from parallel_by_hand.capstone.text_state import TEXT_MODEL, whole_text_model
from parallel_by_hand.capstone.written_text import held_out_bits

learned = {
    state.step: held_out_bits(whole_text_model(state), TEXT_MODEL.length)
    for state in states[::2]
}
draw_text_curve(learned, baselines)

# %%
print("fewer bits than pairs after 100 steps:", learned[100] < baselines["pairs"])
print("fewer than triples after 500:", learned[500] < baselines["triples"])

# %% [markdown]
# **After 100 steps the transformer beats pairs; within 500 it beats triples.** It has
# 62,480 parameters, the table of triples 512,000 numbers.
#
# People are far better: Shannon estimated 0.6 to 1.3 bits for each character, in an
# alphabet of 26 letters and the space.

# %% [markdown] tags=["instructor"]
# ## It writes: 4 minutes
#
# Ask who can find a word that is not in the book. Low temperature: the same words again and
# again; high temperature: noise.

# %% [markdown]
# ## It writes
#
# The *temperature* divides the scores before they become chances. Below 1, likely
# characters become likelier still:

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.capstone.written_text import write_text

model = whole_text_model(states[-1])
for temperature in 0.3, 0.8, 1.5:
    written = write_text(model, TEXT_MODEL.length, 60, temperature, seed=8)
    print(temperature, repr(written))

# %% [markdown]
# Words have plausible lengths, and most of the short ones are English. The whole makes no
# sense after so little training. In 3,000 steps the demo `train_text` once came down to
# 2.59 bits and wrote "for maining out as breen their quartucket vent of my among tright".

# %% [markdown] tags=["instructor"]
# ## Stop and go on: 8 minutes
#
# Ask what must be in the file before anybody sees the code, and collect it on the board.
# Then forget one thing at a time.
#
# When late: skip the other strategies.

# %% [markdown]
# ## Stop and go on
#
# A training run of weeks will be interrupted. Its checkpoint needs the model's
# parameters, and everything that the optimiser remembers. How many numbers for each
# parameter is that, with Adam?

# %%
guess("20b-numbers", None, "Numbers in the checkpoint for each parameter?")

# %%
sizes = {name: len(row) for name, row in states[0].numbers.items()}
print(sizes)
reveal("20b-numbers", sum(sizes.values()) / sizes["model"], computed=True)

# %% [markdown]
# It is three, and a count of steps: Adam's averages begin at 0, so the first are too
# small, and the count says how much to correct them. A checkpoint also needs the place in
# the text. Our batches follow from the number of the step, so the step is enough for
# both; no random state is saved.
#
# A state holds the numbers of the whole model, to which each rank contributes its own. So
# it can be read under another strategy. We train 40 steps, and then again the last 20,
# from the state after 20:

# %%
start, expected = run_ranks(train_text_states, "DDP (ours)", 40, 20, world_size=2)[0]


def apart(state) -> float:
    """The largest difference of any parameter from the training that went on."""
    return (state.numbers["model"] - expected.numbers["model"]).abs().max().item()


for name in "DDP (ours)", "DDP (torch)", "ZeRO-2", "tensor":
    [state] = run_ranks(train_text_states, name, 40, 40, start, world_size=2)[0]
    equal, near = apart(state) == 0, apart(state) < 0.002
    print(f"{name:<12} bit for bit: {equal}, apart < 0.002: {near}")

# %% [markdown]
# **Under the same strategy the run goes on bit for bit, as if it had never stopped**;
# under another one, up to rounding. The limit is larger than 20a's 1e-5 for SGD: Adam
# divides each gradient by its own size, so even a tiny one makes a full step.
#
# Torch's DDP and ZeRO-2 even agree bit for bit, because the sum of two ranks' gradients
# is the same in either order. Tensor parallel cuts the products themselves, so it adds in
# another order.
#
# Now we forget something: first all that Adam remembers, then the step, and with it the
# place in the text and Adam's count.

# %%
forgotten = {
    "nothing": start,
    "Adam's state": start._replace(numbers={"model": start.numbers["model"]}),
    "the step": start._replace(step=0),
}
for what, state in forgotten.items():
    steps = state.step + 20
    args = "DDP (ours)", steps, steps, state
    [after] = run_ranks(train_text_states, *args, world_size=2)[0]
    bits = held_out_bits(whole_text_model(after), TEXT_MODEL.length)
    print(f"forgot {what:<13} {apart(after):.2f} apart, {bits:.1f} bits per character")

# %% [markdown]
# **Here a checkpoint that forgets something still trains, and no error says so.** To one
# decimal, the loss does not show it. Comparing with an uninterrupted run does, so test
# yours that way.
#
# The demo `train_text` does all this from the command line, under any strategy. It writes
# a checkpoint as in lesson 18b, and the same command resumes:
#
# ```
# python demos/capstone/train_text.py --steps 3000 --checkpoint whale.pt
# ```

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the right place: 15 minutes

# %% [markdown]
# Our batches begin anywhere in the text, so some excerpts come twice. Usually each epoch
# goes through all of them, in a new order. Then resuming needs the right place in the
# right epoch.

# %% [markdown]
# ## Exercise 2: the right place
#
# Write `windows_of_step(step, rank, ranks, batch, windows, order)`: the windows that
# `rank` reads at step `step`, counted from 0 through all epochs.
#
# * `order(epoch)` lists all windows in the order of that epoch. It is slow: call it once.
# * An epoch is cut into batches of `batch` windows; the last one may be shorter.
# * A batch is dealt like cards: this rank gets places `rank`, `rank + ranks`, ... of it.
#
# By hand first: 5 windows, batches of 2, two ranks; epochs 0 and 1 have the orders [3, 0,
# 4, 1, 2] and [2, 1, 0, 3, 4]. What does rank 1 read at steps 1, 2 and 3?
# <!-- exercise: 20b-place -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many steps has an epoch of 5 windows in batches of 2? And one of 6?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Divide `step` by the number of steps in an epoch: the quotient is the epoch, the remainder
# the number of the batch in it.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `epoch, place = divmod(step, -(-windows // batch))`; the batch is the slice of
# `order(epoch)` from `place * batch` to `(place + 1) * batch`, and of it `[rank::ranks]`.
#
# </details>


# %% exercise="20b-place"
def windows_of_step(step, rank, ranks, batch, windows, order) -> list[int]:
    """The windows of this rank at this step, without a look at the steps before."""
    ### BEGIN SOLUTION
    steps = -(-windows // batch)  # rounded up
    epoch, place = divmod(step, steps)
    whole = order(epoch)[place * batch : (place + 1) * batch]
    return whole[rank::ranks]
    ### END SOLUTION


# %%
check("20b-place", windows_of_step)

# %% [markdown] tags=["why"]
# <!-- why: 20b-place -->
# Why it works: every epoch has the same number of steps, rounded up, so a step's epoch
# and its place there follow by division. The order of an epoch follows from its number.
# So the step alone says where to go on, also with another number of ranks.
#
# By hand: an epoch has three steps. Step 1 is [4, 1], so rank 1 reads [1]. Step 2 is [2]
# alone, and rank 1 reads nothing. Step 3 is the first of epoch 1, [2, 1], and rank 1 reads
# [1].

# %% [markdown] tags=["instructor"]
# ## Your report: 5 minutes
#
# Let two people lay their reports side by side. Which row surprises them?

# %% [markdown]
# ## Your report
#
# The course has kept each of your guesses, with the measurement beside it. `my_report`
# writes one HTML page that needs no network: your machine, guesses and measurements, the
# constants α, β and capacity, three timelines, the ladder, and your exercises. Of the
# ladder we climb one rung here; without `--rungs` the report has four.

# %% tags=["nbval-ignore-output"]
from sidebyside import run_demo

run_demo("capstone/my_report.py", "--rungs", "tensor", "--steps", 3)

# %% [markdown]
# Open the page in a browser. On another machine, write a second page with another name;
# then lay both side by side, row by row:
#
# ```
# python demos/capstone/my_report.py --name workstation --to workstation.html
# python demos/capstone/my_report.py --name laptop --beside workstation.html
# ```
#
# Bytes, and everything that was computed, should be equal on both. Measured seconds will
# differ.

# %% [markdown] tags=["instructor"]
# ## Where the time goes: 3 minutes
#
# Before the figure: what will stand in the two lanes, and in which order? The messages
# have no bar of their own: they begin before backward has ended.

# %% [markdown]
# ## Where the time goes
#
# Here is one of the report's timelines, a step of DDP in two ranks. The gradients'
# messages are part of "forward and backward", since they begin before backward has ended:

# %%
from parallel_by_hand.capstone.report_measurements import (
    spans_of_last_step,
    train_in_spans,
)
from sidebyside import Timeline, draw_timelines

with Timeline() as timeline:
    run_ranks(train_in_spans, "DDP (ours)", 32, world_size=2)
draw_timelines({"a step of DDP": spans_of_last_step(timeline)})

# %% [markdown]
# A lane that begins late is a rank that got its core late. Two ranks will hardly be twice
# as fast as one: each has half of the rows, but the update is not divided, and each
# message costs its α. How near can you come?

# %% [markdown] tags=["instructor"]
# ## Exercise 3, as fast as it gets: 20 minutes
#
# This one is open. Expected: means of unequal shares averaged; a loss that is only the
# rank's own; a gradient message for each parameter. Those who are quick may try threads,
# tensor parallel, or an update that overlaps.

# %% [markdown]
# ## Exercise 3: as fast as your machine allows
#
# Here is a training loop that is right and slow. Every rank computes everything, row by
# row:

# %%
import torch

from parallel_by_hand.capstone.language_model import text_loss


def slow_training(model, batches, lr) -> list[float]:
    """One step of SGD for each batch; the loss of each, before its update."""
    losses = []
    for inputs, targets in batches:
        loss = 0.0
        for row, goal in zip(inputs.split(1), targets.split(1), strict=True):
            part = text_loss(model(row), goal) / len(inputs)
            part.backward()
            loss += part.item()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= lr * parameter.grad
                parameter.grad = None
        losses.append(loss)
    return losses


# %% [markdown]
# Write `fast_training(model, batches, lr)`. All ranks call it, with equal models and
# batches. Afterwards every rank has the parameters and returns the losses of
# `slow_training`, up to rounding.
#
# The check counts what each of 1, 2 and 3 ranks does:
#
# | | at most |
# |---|---|
# | arithmetic of matrix products | 1.25 times that of an even share |
# | matrix products | twice those of the whole batch at once |
# | messages and collectives | 10 a step |
#
# By hand first: two ranks have 4 and 3 of 7 rows, with mean losses of 2 and 9. What is
# the loss of the batch?
# <!-- exercise: 20b-fast -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of the three limits does `slow_training` exceed in two ranks, and by how much?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Each rank takes its rows at once and divides the *sum* of their losses by the size of the
# whole batch. The gradients of all ranks then add up to the gradient of the mean. One flat
# tensor can carry all gradients, and the loss as well.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `loss = text_loss(model(x), y) * len(x) / len(inputs)` with `x = inputs[rank::ranks]`.
# After backward: `flat = torch.cat([loss.detach().view(1), *(p.grad.flatten() for p in
# model.parameters())])`, one `dist.all_reduce(flat)`, and `flat[1:].split(sizes)` gives
# each parameter its part.
#
# </details>


# %% exercise="20b-fast"
import torch.distributed as dist


def fast_training(model, batches, lr) -> list[float]:
    """The same training as `slow_training`, shared among the ranks."""
    ### BEGIN SOLUTION
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parameters, losses = list(model.parameters()), []
    sizes = [parameter.numel() for parameter in parameters]
    for inputs, targets in batches:
        x, y = inputs[rank::ranks], targets[rank::ranks]
        loss = text_loss(model(x), y) * len(x) / len(inputs)
        gradients = torch.autograd.grad(loss, parameters)
        parts = [loss.detach().view(1), *(g.flatten() for g in gradients)]
        flat = torch.cat(parts)
        dist.all_reduce(flat)
        with torch.no_grad():
            for p, g in zip(parameters, flat[1:].split(sizes), strict=True):
                p -= lr * g.view_as(p)
        losses.append(flat[0].item())
    return losses
    ### END SOLUTION


# %%
check("20b-fast", fast_training)

# %% [markdown] tags=["why"]
# <!-- why: 20b-fast -->
# Why it works: the gradient of a sum is the sum of the gradients, and it makes no difference
# which rank holds which row. Each rank divides by the size of the whole batch, so unequal shares need no
# weights. Loss and gradients travel in one message, whose sum is the same, to the last bit,
# on all ranks.
#
# By hand: $(4 \cdot 2 + 3 \cdot 9)/7 = 5$. The mean of the two means would be 5.5.
#
# What more can be done depends on your machine: messages while backward goes on (lesson
# 11b), several threads in each rank, a GPU. The check says whether it is still the same
# training run, and how much faster it is. You may gain more than the capacity, which is
# measured with other work, at another moment.

# %% [markdown]
# ## A script of your own
#
# Here is a small recurrent language model with checkpoints, in one file, with nothing but
# torch. It learns from all of the text: nothing is held out. It runs alone or by
# torchrun, and the same command resumes after an interruption:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/capstone/own_writer.py --steps 2000 --checkpoint whale.pt
# ```

# %% tags=["nbval-ignore-output"]
from demos.capstone.own_writer import train_writer

show(train_writer)
run_demo("capstone/own_writer.py")

# %% [markdown]
# These losses are in nats, of 1.44 bits each. In one run the last was 2.26 nats, which
# are 3.26 bits: still more than the 2.90 of triples.
#
# | | a checkpoint that any number of ranks reads | the place in the data |
# |---|---|---|
# | torch | `torch.distributed.checkpoint` | `torchdata.stateful_dataloader.StatefulDataLoader` |
# | DeepSpeed | universal checkpoints | your own, in `client_state` |
# | JAX | `orbax.checkpoint` | `grain`'s iterators |
# | TensorFlow | `tf.train.Checkpoint` | the iterator of a `tf.data.Dataset` goes into the checkpoint |

# %% [markdown]
# ## What we saw
#
# * A checkpoint holds parameters, the optimiser's averages and the step, from which the
#   place in the text follows. Collected as the whole model's numbers, it goes on under any
#   strategy.
# * Counts of arithmetic, products and messages say on any machine why a training loop is
#   fast; seconds say how fast it is on this one.
#
# **The scorecard** of this run, DDP over $N$ ranks with Adam:
#
# | | |
# |---|---|
# | equal to one process | up to rounding; after a stop, to itself bit for bit |
# | bytes each rank sends per step | $2(N-1)/N$ of the gradients; for each checkpoint all three numbers of every parameter and their places; under DDP rank 0 alone would suffice |
# | memory: parameters, gradients, optimiser | all of them, on each rank: 4 + 4 + 8 bytes for each parameter |
# | memory: activations | of this rank's rows |
# | idle share | while the last bucket travels, and while the slowest rank computes |
# | if one rank dies | the steps since the last checkpoint are lost, and the time to start again |

# %% [markdown] tags=["instructor"]
# ## The end of the course: 6 minutes
#
# Go back to the guesses of lesson 00. Let each say which one they would make differently
# now, and which program at home they will look at first.

# %% [markdown]
# ## What you can do now
#
# You can say what makes a program faster, and show it on a timeline. You can train one
# model in several processes, split it in any of the ways that large models need, and
# prove that the result is the same. You can predict bytes, memory and idle time before
# you rent a single GPU, and find the rank that everyone waits for.

# %% [markdown]
# Where to go on:
#
# * **Use the libraries.** [torchtitan](https://github.com/pytorch/torchtitan) (Liang et
#   al., 2024) is PyTorch's own trainer, with data, tensor, pipeline and context parallel
#   over one `DeviceMesh`: read its `parallelize` functions beside our wrappers.
#   [Megatron-LM](https://github.com/NVIDIA/Megatron-LM) and
#   [DeepSpeed](https://github.com/deepspeedai/DeepSpeed) have trained many large models.
# * **Read the papers.** GPipe (Huang et al., 2019), Megatron-LM (Shoeybi et al., 2019;
#   Narayanan et al., 2021), ZeRO (Rajbhandari et al., 2020), PyTorch Distributed (Li et
#   al., 2020), FSDP (Zhao et al., 2023), Llama 3 (Grattafiori et al., 2024). You know
#   their terms, and can recompute some of their tables.
# * **Ask how large a model should be.** Kaplan et al. (2020) and Hoffmann et al. (2022)
#   measured how the loss falls with parameters, data and arithmetic.
# * **Measure your own.** Begin with a guess.
#
# There is more to try in `demos/capstone/train_text.py`, `demos/capstone/my_report.py` and
# `demos/capstone/own_writer.py`. `progress()` shows what is still open.
