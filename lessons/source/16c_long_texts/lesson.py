# ---
# title: 16c Long texts: context parallel
# question: A text is too long for one rank. Which rank holds which words, and how does it see all the others?
# needs: two CPU cores, no GPU
# minutes: 75
# ---

# %% [markdown]
# # 16c. Long texts: context parallel
#
# In 16b each rank holds some positions of a text, but only between the pairs. In the
# attention it has all of them. With a long text that is too much. So we cut the text
# inside the attention, too.
#
# *You will be able to* let keys and values go round a ring, bring their gradients home,
# share the work of a causal text evenly, and say what two other ways send and keep.
#
# *Before this:* lessons 10a, 15a and 16b. *Time:* {reading} minutes to read, 40 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## A text that is too long: 2 minutes
#
# Ask which parts of a block look at more than one position. Only the attention does.
#
# When late: only the number.

# %% [markdown]
# ## A text that is too long
#
# Lesson 16b counted what a layer keeps for backward: $34\,sbh$ bytes, even if no scores
# are kept. Llama 3 with 405 billion parameters has $h$ = 16,384 and was trained on texts of
# up to $s$ = 131,072 *tokens*: words, or parts of words (Llama Team, 2024, tables 3 and 4).
# By 16b's count, one text needs in one layer, in gigabytes:

# %%
34 * 131_072 * 16_384 / 1e9

# %% [markdown]
# An H100 has 80, and the model has 126 layers. So each rank holds a part of the text
# through the whole layer: **context parallel**. Norms and linear layers work on one
# position at a time, so they need nothing from other ranks. In the attention, every query
# needs the keys and values of all positions up to its own.

# %% [markdown] tags=["instructor"]
# ## A ring of keys and values: 5 minutes
#
# Four people hold a part of a text each. Let notes with keys go round, and each person
# keeps two numbers only: the mean so far, and its weight.
#
# When late: the picture, then the exercise.

# %% [markdown]
# ## A ring of keys and values
#
# Each rank keeps its queries. Its *piece* of the keys and values goes round a ring, so
# each rank sees every piece once, and no rank ever holds all of them:

# %%
from lessons.props.long_texts import draw_journey

draw_journey(ranks=4)

# %% [markdown]
# For each query, a rank remembers two things about the keys that have passed: the mixture
# of their values, and the **log-sum**, the logarithm of the sum of $e^\text{score}$.
# After each step, `pass_on` sends a piece to the right neighbour.

# %%
from parallel_by_hand.context_parallel import ring_attention, seen_keys
from sidebyside import show

show(seen_keys.masked_scores)
show(seen_keys.attend_to_piece)
show(ring_attention.pass_on)

# %% [markdown]
# ## Exercise 1: merge as they come
#
# `merge_seen(one, other)` gets what the same queries have seen of two sets of keys: pairs
# (mixed, log_sum) of shapes (queries, d) and (queries,). It returns the pair for both.
# Log-sums may be thousands.
#
# Every rank calls `attend_round(query, key, value)`, all (positions, d). It returns its
# queries' attention to the keys of *all* ranks, without a mask. Merge each piece as it
# arrives by `pass_on([key, value])`.
#
# By hand first: of one set a query has seen the mixture 4 with log-sum log 1, of the other
# 8 with log 3. What has it seen of both?
# <!-- exercise: 16c-merge -->
#
# <details><summary>Hint 1: a question</summary>
#
# If $e^\text{score}$ sums to 1 in one set and to 3 in the other, what share of the
# whole softmax does each set have?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The new log-sum is `torch.logaddexp` of both. A set's share is $e$ to the power of its
# log-sum minus the new one. The new mixture is the sum of the mixtures, each times its
# share.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `seen = attend_to_piece(query, key, value)`. Then, $N - 1$ times, pass key
# and value on, and merge `seen` with what the query sees of those that arrive.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, merge as they come: 15 minutes
#
# Expected: the plain mean of both mixtures (right if the log-sums are equal), `exp` of
# the log-sums (infinite), and N passes instead of N − 1.

# %% exercise="16c-merge"
import torch
import torch.distributed as dist

from parallel_by_hand.context_parallel.ring_attention import pass_on
from parallel_by_hand.context_parallel.seen_keys import attend_to_piece
from sidebyside import forget, hint, progress, solution


def merge_seen(one, other) -> tuple[torch.Tensor, torch.Tensor]:
    """What is seen of both sets of keys together."""
    ### BEGIN SOLUTION
    log_sum = torch.logaddexp(one[1], other[1])
    shares = [(seen[1] - log_sum).exp()[:, None] for seen in (one, other)]
    return shares[0] * one[0] + shares[1] * other[0], log_sum
    ### END SOLUTION


def attend_round(query, key, value) -> torch.Tensor:
    """The attention of this rank's queries to the keys of all ranks."""
    ### BEGIN SOLUTION
    seen = attend_to_piece(query, key, value)
    for _ in range(dist.get_world_size() - 1):
        key, value = pass_on([key, value])
        seen = merge_seen(seen, attend_to_piece(query, key, value))
    return seen[0]
    ### END SOLUTION


# %%
from sidebyside import check

check("16c-merge", merge_seen, attend_round)

# %% [markdown] tags=["why"]
# <!-- why: 16c-merge -->
# Why it works: a softmax mixture is a mean with weights, and a mean of means is right
# if each counts with the sum of its weights. Shares are at most 1, so nothing overflows.
# Merging in another order gives the same.
#
# By hand: the sums are 1 and 3, together 4. (1 · 4 + 3 · 8) / 4 = 7, with log-sum log 4.

# %% [markdown] tags=["instructor"]
# ## Who works how much: 5 minutes
#
# Draw a triangle and cut it into four rows. Which one is the longest? The class finds the
# remedy before it reads the exercise: fold the triangle in the middle.
#
# When late: skip the first timeline.

# %% [markdown]
# ## Who works how much
#
# In a model that predicts the next word, no position looks ahead: its attention is
# *causal*. Cut the text into eight chunks, and give rank 0 the first two, rank 1 the next
# two, and so on. Each chunk looks at all chunks before it, and at half of the pairs within
# itself. How many times as much does rank 3 compute as rank 0?

# %%
from sidebyside import guess

guess("16c-last", None, "Pairs of query and key on rank 3, divided by rank 0's?", "×")

# %%
from lessons.props.long_texts import draw_work
from parallel_by_hand.context_parallel.chunks import in_order, pairs_to_compute
from sidebyside import reveal

pairs = [sum(steps) for steps in pairs_to_compute(in_order, 4, positions=131_072)]
reveal("16c-last", round(pairs[3] / pairs[0], 2), computed=True)
draw_work({"in order": in_order})

# %% [markdown]
# Pairs above the diagonal are not computed. Does skipping them save time? Here four ranks
# sleep as long as they would compute:

# %%
from sidebyside import Timeline, run_ranks

with Timeline() as timeline:
    run_ranks(ring_attention.sleep_round_ring, in_order, 0.05, world_size=4)
timeline.plot(stamp="simulated", height=2.4)

# %% [markdown]
# Hardly: **the ring takes as long as its last rank**, which computes 14 pairs of chunks
# instead of 16. The other ranks wait for keys, or for the end.

# %% [markdown]
# ## Exercise 2: share the triangle
#
# `own_positions(rank, ranks, length)` returns the list of positions that a rank holds of a
# causal text of `length` positions. Position $i$ attends to itself and to the $i$ before
# it, which is $i + 1$ pairs.
#
# All ranks together hold each position once. Each rank holds equally many positions, *and*
# computes equally many pairs. $2N$ divides `length`.
#
# By hand first: two ranks, four positions. Which ones does rank 0 hold, and how many pairs
# does it compute?
# <!-- exercise: 16c-deal -->
#
# <details><summary>Hint 1: a question</summary>
#
# The first position has the fewest pairs and the last one the most. How many do they
# have together? And the second and the last but one?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Cut the text into $2N$ equal chunks. Give each rank one chunk from the front and the one
# that lies equally far from the end.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# With `size = length // (2 * ranks)`, the front chunk is `range(rank * size, (rank + 1) *
# size)`. The other one ends at `length - rank * size`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, share the triangle: 10 minutes
#
# Expected: every Nth position, as one deals cards. That is nearly even, and rank 0 does
# least in every round. Dealing forth and back is right, too.


# %% exercise="16c-deal"
def own_positions(rank: int, ranks: int, length: int) -> list[int]:
    """Which positions of a causal text this rank holds."""
    ### BEGIN SOLUTION
    size = length // (2 * ranks)
    front = range(rank * size, (rank + 1) * size)
    end = length - rank * size
    return [*front, *range(end - size, end)]
    ### END SOLUTION


# %%
check("16c-deal", own_positions)

# %% [markdown] tags=["why"]
# <!-- why: 16c-deal -->
# Why it works: two positions, one as far from the front as the other from the end, have
# length + 1 pairs together. Each rank has length / 2N such couples.
#
# By hand: rank 0 holds 0 and 3, with 1 + 4 = 5 pairs. Rank 1 holds 1 and 2: 2 + 3 = 5.

# %% [markdown]
# The usual answer is called **zig-zag**: rank $r$ has the $r$-th chunk from the front and
# the $r$-th from the end. Chunks stay whole, and kernels are fast on whole chunks.

# %%
from parallel_by_hand.context_parallel.chunks import zig_zag

with Timeline() as timeline:
    run_ranks(ring_attention.sleep_round_ring, zig_zag, 0.05, world_size=4)
timeline.plot(stamp="simulated", height=2.4)

# %%
draw_work({"in order": in_order, "zig-zag": zig_zag})

# %% [markdown]
# **With zig-zag, all ranks compute equally much, in every step of the ring**: 8 pairs of
# chunks in all, where the last rank had 14. Documents packed into one text should not see
# each other; then each is dealt by itself, or blocks are dealt by counted work. Torch 2.13
# has private code for both.

# %% [markdown] tags=["instructor"]
# ## The way back: 6 minutes
#
# The notes go round again, with a second sheet on which each person adds a number. Ask
# where the sheet is after three steps, and whose it is.
#
# When late: leave autograd's way out.

# %% [markdown]
# ## The way back
#
# Autograd could do the backward if `pass_on` had one that sends gradients to the left, its
# conjugate, as in 16a. The gradients are right. But what does a rank keep for it? We count
# in units of its queries' bytes, so its queries, keys and values are 3:

# %%
from parallel_by_hand.context_parallel.bill_of_ways import bill_of_way

for ranks in (1, 2, 4):
    bill = run_ranks(bill_of_way, "ring, by autograd", world_size=ranks)[0]
    right = max(bill["output"], bill["gradients"]) < 1e-12
    print(f"ranks: {ranks}, kept on each {bill['kept']:5.1f}, as the whole: {right}")

# %% [markdown]
# With four ranks, the unit is a quarter of one rank's. So each holds a quarter of these 64
# positions, and keeps half of what one rank keeps, 9.2 of 18.9: everyone's keys and values,
# all scores of its queries, and the mixtures that it has merged. The longer the text, the
# more scores: with 1,024 positions, each of four ranks would keep 172.

# %% [markdown]
# So we compute the scores again, as in 15b. With the log-sum $L$ of *all* keys, a
# piece's part of the softmax is $p = e^{\text{score} - L}$, without looking at any
# other piece. Let $g$ be the gradient of a mixture $o$. Then the gradient of a value $v$
# grows by $p\,g$, and that of its score is $p\,(g \cdot v - g \cdot o)$:

# %%
show(seen_keys.gradients_of_piece)

# %% [markdown]
# ## Exercise 3: bring them home
#
# Every rank calls `gradients_round(query, key, value, seen, gradient)`, all (positions, d).
# `seen` is the pair (mixed, log_sum) of its queries over *all* keys, and `gradient` that of
# mixed. It returns the gradients of *its own* query, key and value. There is no mask. With
# one piece's key and value, `gradients_of_piece` gives what that piece adds. At no time
# does a rank hold all keys.
#
# By hand first: on three ranks, where are rank 0's keys when all queries have seen them,
# and how many more passes take them home?
# <!-- exercise: 16c-home -->
#
# <details><summary>Hint 1: a question</summary>
#
# Rank 2's queries contribute to the gradient of rank 0's keys. How does that number get to
# rank 0?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Let the gradients of a key travel with it: `pass_on` takes four tensors as well. Each
# rank adds its part. The query's gradient stays where it is, and grows.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `of_query, of_key, of_value = gradients_of_piece(...)` of the own piece. Then,
# $N - 1$ times: `pass_on([key, value, of_key, of_value])`, and add the three parts. One
# more `pass_on([of_key, of_value])` at the end.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, bring them home: 15 minutes
#
# Expected: no pass at the end, so every rank returns its right neighbour's gradients: ask
# whose they are. And gradients that stay while the keys travel: each rank then adds up
# gradients of different keys.

# %% exercise="16c-home"
from parallel_by_hand.context_parallel.seen_keys import gradients_of_piece


def gradients_round(query, key, value, seen, gradient) -> tuple:
    """The gradients of this rank's query, key and value."""
    ### BEGIN SOLUTION
    own = query, key, value
    of_query, of_key, of_value = gradients_of_piece(*own, seen, gradient)
    for _ in range(dist.get_world_size() - 1):
        key, value, of_key, of_value = pass_on([key, value, of_key, of_value])
        parts = gradients_of_piece(query, key, value, seen, gradient)
        of_query = of_query + parts[0]
        of_key, of_value = of_key + parts[1], of_value + parts[2]
    return of_query, *pass_on([of_key, of_value])
    ### END SOLUTION


# %%
check("16c-home", gradients_round)

# %% [markdown] tags=["why"]
# <!-- why: 16c-home -->
# Why it works: each rank knows its own queries' part of a key's gradient. The sum is made
# on the way: each rank adds its part to what arrives. After N − 1 passes the sum is
# complete, one rank to the left of its home, so one more pass is needed. Keys and values
# need not come along then.
#
# By hand: on rank 2, two passes from rank 0. One more pass to the right leads home.

# %% [markdown]
# Which ranks have added to the gradients of whose keys:

# %%
draw_journey(ranks=4, back=True)

# %% [markdown] tags=["instructor"]
# ## Two other ways: 6 minutes
#
# Four people with four heads each: either everyone copies everyone's keys, or each takes
# one head from everybody. Let the class count sheets.
#
# When late: only the table.

# %% [markdown]
# ## Two other ways
#
# *Gather*: an all-gather brings all keys and values to all ranks, and a reduce-scatter
# brings their gradients home. Queries and mixtures stay cut. Llama 3 learned its
# long texts in this way.
#
# *Exchange heads*: an all-to-all turns all heads of own positions into own heads of all
# positions. The attention needs no other rank, and a second all-to-all leads back. It is
# called **Ulysses** (Jacobs et al., 2023).

# %% [markdown]
# Count forward on four ranks. In the ring, a rank passes keys and values on three times,
# 2 · 3 = 6 units. In the exchange it has queries, keys, values and mixtures, and
# keeps a quarter of each. How many times as much does the ring send?

# %%
guess("16c-heads", None, "Bytes of the ring, divided by those of the heads?", "×")

# %%
WAYS = "ring", "gather", "heads"


def three_bills() -> dict[str, dict]:
    return {way: bill_of_way(way) for way in WAYS}


bills = run_ranks(three_bills, world_size=4)[0]
print("4 ranks   forward  backward  kept  as the whole")
for way, bill in bills.items():
    right = max(bill["output"], bill["gradients"]) < 1e-12
    sent = f"{bill['forward']:7.2f}  {bill['backward']:8.2f}"
    print(f"{way:<9} {sent}  {bill['kept']:4.1f}  {right}")
reveal("16c-heads", bills["ring"]["forward"] / bills["heads"]["forward"], computed=True)

# %% [markdown]
# **Ring and heads keep their own part only; the ring sends most, heads send least.** With
# $N$ ranks the ring sends $N/2$ times as much forward as heads do. In backward it sends keys
# and values again, and their gradients. All three compute scores twice. A ring's messages
# can travel while a rank computes; our ranks wait.

# %% [markdown]
# Heads set a limit: no more ranks than heads of queries. In *grouped-query attention*,
# several heads of queries share one head of keys and values. Then a gather or a ring has
# less to send. With more ranks than heads of keys, the exchange must send each of these to
# several ranks. Here are eight heads of queries, on four ranks:


# %%
def bills_with_fewer_heads() -> dict[tuple, dict]:
    return {
        (of_keys, way): bill_of_way(way, "zig-zag", 64, 8, of_keys)
        for of_keys in (8, 4, 2)
        for way in ("gather", "heads")
    }


for (of_keys, way), bill in run_ranks(bills_with_fewer_heads, world_size=4)[0].items():
    right = max(bill["output"], bill["gradients"]) < 1e-12
    print(f"{of_keys} heads of keys, {way}: {bill['forward']:4.2f} forward, {right}")

# %% [markdown]
# **With two heads of keys, the gather sends less than the exchange.**

# %% [markdown] tags=["instructor"]
# ## A whole model: 6 minutes
#
# Ask which gradients have to be summed. All of them, as in data parallel: a rank has seen
# its own positions only.
#
# When late: skip the guess, and show the table of mistakes.

# %% [markdown]
# ## A whole model
#
# Now 16b's model of pixels. Each rank has all parameters, and sees its own positions only.
# So an all-reduce sums all gradients, as in data parallel. Of the 32 labels in a text, the
# first twelve do not count: they belong to the *prompt*, which is given to the model.
# Tokens, labels and *places*, the numbers of the positions in the whole text, are dealt in
# zig-zag, all alike. Each rank sums its losses, and divides by `all_counted`:

# %%
from parallel_by_hand.context_parallel import context_model

show(context_model.all_counted)


def three_models() -> dict[str, dict]:
    return {way: context_model.compare_with_whole_text(way) for way in WAYS}


for way, found in run_ranks(three_models)[0].items():
    loss = abs(found["loss"] - found["whole loss"]) < 1e-12
    print(f"{way}: the whole loss: {loss}, all gradients: {found['gap'] < 1e-12}")

# %% [markdown]
# **All three give the loss and all gradients of the whole text.** Two ranks have 16
# positions of each text. In chunks of eight, rank 0 has the first and the last, and so
# eight tokens that count. Rank 1 has twelve. Suppose that each rank takes the mean of its
# own tokens, and the ranks average these means. How many times as much does a token on
# rank 0 count as one on rank 1?

# %%
guess("16c-weight", None, "Weight of rank 0's tokens, divided by rank 1's?", "×")


# %%
def three_mistakes() -> dict[str, dict]:
    compare = context_model.compare_with_whole_text
    return {mistake: compare("ring", mistake) for mistake in context_model.MISTAKES}


rank_0, rank_1 = run_ranks(three_mistakes)
for mistake, found in rank_0.items():
    losses = f"loss {found['loss']:.4f}, right {found['whole loss']:.4f}"
    print(f"{mistake:<15} {losses}; gradients off by {100 * found['gap']:.0f} %")
counted = [of_rank["mean of means"]["counted"] for of_rank in (rank_0, rank_1)]
reveal("16c-weight", counted[1] / counted[0], computed=True)

# %% [markdown]
# No loss looks wrong. Only gradients compared with those of a whole text tell; some of them
# are off by these shares of the largest one. Places that start at 0 on every rank tell the
# model that the text begins twice. Labels that are dealt in another way ask for the wrong
# words. And **the mean of the ranks' means gives tokens on different ranks different
# weights**: the mistake of lessons 8 and 11a. On a rank that holds only a prompt, the mean is
# 0/0. So divide sums by the number of *all* tokens that count.

# %% [markdown] tags=["instructor"]
# ## Tokens in a pipeline: 3 minutes
#
# Put 14b's wavefront beside it. What was a time step is now a slice of a text.
#
# When late: only the picture.

# %% [markdown]
# ## Tokens in a pipeline
#
# Since no position looks ahead, the first slice of a text may leave a layer before the
# second one enters. So even *one* text fills a pipeline (TeraPipe, Li et al., 2021). Here F2
# is the forward of its slice 2:

# %%
from parallel_by_hand.context_parallel.token_slices import gap_of_slices
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import timetable

for name, order in (("last slice first", reversed), ("first slice first", iter)):
    print(f"{name}: gradients of the whole text: {gap_of_slices(order) < 1e-12}")
flow = ["F0", "F1", "F2", "F3", "B3", "B2", "B1", "B0"]
draw_schedule(timetable([flow] * 3))

# %% [markdown]
# Later slices look at the keys of earlier ones. So **slices go back in reverse order**: a
# slice's keys have their whole gradient only after the backward of all later slices. 15a's
# micro-batches may go back in any order. Later slices also compute more, so TeraPipe makes
# them shorter.

# %% [markdown] tags=["instructor"]
# ## The library: 2 minutes
#
# Ask which of the three ways torch takes by default.

# %% [markdown]
# ## The library's call
#
# In torch 2.13 it is a context manager, still experimental:
#
# ```
# from torch.distributed.tensor.experimental import context_parallel
#
# with context_parallel(mesh, buffers=[x, labels, places], buffer_seq_dims=[1, 1, 0]):
#     loss = model(x, labels, places)
#     loss.backward()
# ```
#
# It cuts the buffers, in zig-zag if $2N$ divides the text, and replaces
# `scaled_dot_product_attention`. By default keys and values are *gathered*, forward and
# again backward; `set_rotate_method("alltoall")` lets them go round. Their gradients always
# go round, $N$ times. In zig-zag it wants `is_causal=True`. The mean over tokens and the sum
# of the parameters' gradients are left to you. It needs a GPU's kernels: **on a CPU, causal
# attention fails in it**, and attention that is not causal does not return.
#
# Megatron-LM has `--context-parallel-size`, and DeepSpeed has Ulysses. In JAX, `shard_map`
# and `ppermute` make a ring.

# %% [markdown]
# ## What we saw
#
# * A mixture and a log-sum merge what a query has seen. Keys and values go round; their
#   gradients travel with them, and one step further.
# * Causal work is a triangle. In zig-zag all ranks do equally much of it.
# * Ring and exchange of heads keep least. The exchange sends least unless heads of keys
#   are few; a gather is the simplest.
# * Tokens, labels and places are dealt alike, and tokens weigh alike.
# * Cut texts only if one does not fit on a rank, or if there are fewer texts than ranks:
#   data parallel sends no keys.

# %% [markdown]
# **The scorecard** of one attention over $N \geq 2$ ranks, with as many heads of keys as of
# queries, in units of the bytes of a rank's queries:
#
# | | |
# |---|---|
# | equal to one process | loss and all gradients, up to rounding |
# | each rank sends, there and back | ring $6N - 4$, gather $4(N-1)$, heads $8(N-1)/N$; and an all-reduce of all parameters' gradients, as in data parallel |
# | memory: parameters, gradients, optimiser | whole on every rank |
# | memory: activations | $1/N$ of the positions; kept by attention: ring and heads 4, gather $2N + 2$, and a log-sum for each query |
# | idle share | the time of the messages, which our ranks do not hide; in order, also the wait for the last rank |
# | if one rank dies | its positions are gone; the others get an error or wait |

# %% [markdown]
# In a terminal, `python demos/context_parallel/ring_attention.py --help` shows how to ask for
# longer texts, the other deal and fewer heads of keys.
#
# ## Next
#
# Here each parameter works for each token. Lesson 16d has layers in which a token meets
# only a few of the parameters, and they lie on different ranks.
