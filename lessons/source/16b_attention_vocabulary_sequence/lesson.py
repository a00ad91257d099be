# ---
# title: 16b Tensor parallel: attention, vocabulary, sequence
# question: The MLP is split. How do ranks share the attention, a vocabulary of fifty thousand words, and a text that is too long for one of them?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 16b. Tensor parallel: attention, vocabulary, sequence
#
# Lesson 16a split the MLP half of a transformer block: columns, then rows, and one sum.
# Now we split the rest of a language model: the attention, the words at both ends, and
# what every rank still holds whole, even the text.
#
# *You will be able to* split attention by its heads, compute a loss from logits that no
# rank holds whole, say to the byte what a layer keeps for its backward pass, and let
# keys and values go round a ring.
#
# *Before this:* lessons 10a, 10b, 14a and 16a. *Time:* 45 minutes, and 50 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Attention by heads: 7 minutes
#
# Draw four heads as four people who never talk to each other. Ask where they meet: only
# in the last layer, which adds up. So the class finds columns and rows by itself.
#
# When late: show the picture and the code, and tell what the next cell prints.

# %% [markdown]
# ## Attention by heads
#
# In attention, a linear layer `into` computes three lists of numbers for each position of a
# text: a *query*, a *key* and a *value*. The dot product of a query and a key is their
# *score*. The softmax of a query's scores with all positions so far says in which proportions
# their values are mixed. For $s$ positions and lists of $d$ numbers:
#
# | | shape |
# |---|---|
# | queries, keys, values | $(s, d)$ each |
# | scores: each query with each key | $(s, s)$ |
# | softmax of each row of scores | $(s, s)$; later positions have 0 |
# | mixtures: softmax times values | $(s, d)$ |
#
# Say that the second position has the score 0 with the first and $\ln 3$ with itself.
# The softmax of these is ¼ and ¾, so it gets ¼ of the first value and ¾ of its own. The
# first position sees only itself and gets its own value.

# %% [markdown]
# The lists are cut into *heads*, each of which compares and mixes its own numbers. A second
# layer, `out`, joins what they have mixed. Four heads on two ranks:

# %%
from lessons.props.attention_vocabulary_sequence import draw_heads

draw_heads(heads=4, ranks=2)

# %% [markdown]
# Each rank takes the neurons of its heads in `into`, and the inputs that come from its
# heads in `out`. These are columns, then rows: **attention split by heads is a pair**,
# with the attention itself between the two layers. In `forward`, `attend` is
# `causal_attention`; `drop` and `after` are dropouts, which do nothing here.
# `unflatten` cuts the numbers of a position into query, key and value, and each of
# these into heads of `size` numbers; `permute` puts these three first, and heads before
# positions.

# %%
from parallel_by_hand.tensor_parallel import split_block
from sidebyside import show

show(split_block.causal_attention)
show(split_block.SplitAttention.forward)

# %% [markdown]
# As in 16a, `into` copies its input to the ranks, and `out` sums over the ranks. We run both
# halves of lesson 14a's block beside the unsplit one, and name the collectives. The heads
# need not be shared evenly: three ranks hold 2, 1 and 1.

# %%
from parallel_by_hand.tensor_parallel.block_rows import compare_split_block
from sidebyside import run_ranks

for ranks in (2, 3):
    found = run_ranks(compare_split_block, world_size=ranks)
    forward, backward = map(", ".join, found[0]["calls"])
    print(f"{ranks} ranks, forward: {forward}; backward: {backward}")
    for what in ("output", "gradient of x"):
        print(f"   {what} as in the unsplit block: {found[0][what] < 1e-10}")

# %% [markdown]
# **A whole block calls two all-reduces forward and two backward**, whatever its number of
# heads. More ranks than heads gain nothing here: some would have none.

# %% [markdown] tags=["instructor"]
# ## The words: 9 minutes
#
# Write a vocabulary of six words on the board, three in blue, three in orange. Who looks
# up the word "sea"? What does the other person say meanwhile? Zero.
#
# When late: skip the embedding's cell, and tell its result.

# %% [markdown]
# ## The words at the beginning
#
# An *embedding* is a table with a row of numbers for each word of the vocabulary. It is cut
# by rows: each rank holds the rows of its own words. It looks these up, and writes zeros for
# words that it does not hold. The sum over the ranks is the whole embedding. Let word $w$
# have the row $[10^w, 10^w]$:

# %%
import torch

from parallel_by_hand.tensor_parallel import vocabulary

show(vocabulary.look_up_own_words)


def embed_on_two_ranks() -> list[list[int]]:
    table = 10 ** torch.arange(6)[:, None].repeat(1, 2)
    first = vocabulary.first_own_word(6)
    tokens = torch.tensor([4, 0, 2])
    return vocabulary.look_up_own_words(
        table[first : first + 3], tokens, first
    ).tolist()


for rank, summand in enumerate(run_ranks(embed_on_two_ranks)):
    print(f"rank {rank}: {summand}")

# %% [markdown]
# Each word is looked up once, so each number of the sum has a single digit 1. Backward there
# is nothing to send: every rank has the gradient of the sum, and uses it for its own rows.

# %% [markdown]
# ## The words at the end
#
# At the end each position gets a number for every word, its *logits*. The words' neurons are
# columns, so each rank has the logits of its own words. Cross entropy wants all of them:
#
# $$\text{loss} = \log \sum_w e^{z_w} - z_\text{label}.$$
#
# The obvious way gathers the logits. But three numbers for each position are enough, and
# all-reduces find them: the largest logit, the sum, and the label's logit. The largest is
# subtracted from all logits first, because $e^{1000}$ is infinite in a computer. That does
# not change the loss.

# %% [markdown]
# Take 4,096 words on two ranks. In the obvious way each rank sends its half of the logits,
# in the other the three numbers are all-reduced.
#
# In a ring all-reduce a rank sends $2(N-1)/N$ of what is summed, in an all-gather $(N-1)/N$ of
# what is gathered. By what factor does gathering send more bytes?

# %%
from sidebyside import guess

guess("16b-gathering", None, "Bytes of gathering, divided by those of three sums?", "×")

# %%
from sidebyside import reveal

bills = {}
for way in ("gathered", "parallel"):
    bills[way] = bill = run_ranks(vocabulary.meter_loss, way, 4096, 32)[0]
    print(f"{way}: each rank sends {bill['bytes']} bytes", end=", ")
    print(f"the whole loss: {bill['loss'] < 1e-10}")
ratio = bills["gathered"]["bytes"] / bills["parallel"]["bytes"]
reveal("16b-gathering", ratio, computed=True)

# %% [markdown]
# With $V$ words the ratio is $V/6$ where words and positions divide evenly among the ranks,
# and otherwise about that. Memory shrinks too: with 50,000 words, each of 8 ranks holds 6,250
# logits per position. Such a loss is called **vocabulary-parallel**.

# %% [markdown]
# ## Exercise 1: the loss without the logits
#
# Write `parallel_cross_entropy(logits, labels, first)`, called by every rank: the mean loss
# over all positions, whose `backward()` gives each rank the gradient of its own logits.
#
# * `logits`, of shape (positions, own words), belong to the words `first`, `first + 1`, ...
#   They may be thousands.
# * `labels`, of shape (positions,), are the right words' numbers in the whole vocabulary.
# * Forward, all-reduce at most three numbers for each position; backward, nothing. Use 16a's
#   `sum_over_ranks` and, without autograd, `dist.all_reduce(x, op=dist.ReduceOp.MAX)`.
#
# By hand first: rank 0 holds the words 0 and 1 with logits [0, log 3], rank 1 the word 2
# with logit [log 4]. The label is 1. What is the loss? What is the gradient of each logit?
# <!-- exercise: 16b-cross-entropy -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which ranks know the label's logit, and what must the others add to the sum? And can sums be
# added up if each rank has subtracted a largest number of its own?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The largest number: detach, `amax`, all-reduce. Subtract it. Then two sums over the ranks:
# of the exponentials, and of the label's shifted logit, which is 0 on all ranks but one.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `mine = (labels >= first) & (labels < first + logits.shape[1])`. Outside of its own words a
# rank takes place 0 instead: `place = (labels - first) * mine`, then
# `shifted.gather(1, place[:, None])[:, 0] * mine`. The loss is `(total.log() - of_label).mean()`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the loss without the logits: 20 minutes
#
# Expected: each rank subtracts its own maximum; a label that is not this rank's indexes
# from the end (−1); the maximum is taken with the gradient. The example by hand settles the
# first two.

# %% exercise="16b-cross-entropy"
import torch.distributed as dist

from parallel_by_hand.tensor_parallel.conjugates import sum_over_ranks
from sidebyside import hint, progress, reset, solution


def parallel_cross_entropy(logits, labels, first) -> torch.Tensor:
    """The mean loss over all positions, from this rank's columns of the logits."""
    ### BEGIN SOLUTION
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    mine = (labels >= first) & (labels < first + logits.shape[1])
    place = (labels - first) * mine
    of_label = sum_over_ranks(shifted.gather(1, place[:, None])[:, 0] * mine)
    total = sum_over_ranks(shifted.exp().sum(1))
    return (total.log() - of_label).mean()
    ### END SOLUTION


# %%
from sidebyside import check

check("16b-cross-entropy", parallel_cross_entropy)

# %% [markdown] tags=["why"]
# <!-- why: 16b-cross-entropy -->
# Why it works: the same number is subtracted on all ranks, so the sums fit together, and
# no exponential exceeds 1. Where the label is another rank's word, the factor 0 also stops
# the gradient. The gradient of a logit is its softmax, less 1 at the label. A rank can
# compute that from its own logits and the two sums, which all have: nothing to send.
#
# By hand: the sum is 1 + 3 + 4 = 8, the loss log(8/3), about 0.98. The gradients are the
# softmax [1/8, 3/8] and [4/8], less 1 at the label: [1/8, −5/8] on rank 0, [1/2] on rank 1.

# %% [markdown] tags=["instructor"]
# ## A whole model: 6 minutes
#
# Ask what "words" an image has: 17 shades of grey. Ask how two ranks share 17 words.
#
# When late: show only the second cell's result.

# %% [markdown]
# ## A whole model
#
# Embedding, block, logits, loss: a small language model. Its texts are 33 pixels of each
# handwritten digit: 32 positions, each with the next pixel as its label. Its words are 17
# shades of grey. One table serves as the embedding and for the logits: *tied weights*, as in
# lesson 14a. Cut by words, each row is needed on one rank only, at both ends.
#
# In the split model, `words` is the embedding above with its sum. `ends` says how a pair
# begins and ends: `ends.enter` is a linear layer by columns, including the copy to ranks. The
# lines for other ways than "tensor" come later.

# %%
from parallel_by_hand.tensor_parallel import pixel_model

show(pixel_model.PixelModel.forward)
show(pixel_model.SplitPixelModel.forward)

# %% [markdown]
# Beside the split model each rank trains a whole one, and compares their parts after each
# of ten steps of SGD:

# %%
for ranks in (2, 4):
    gaps, losses = run_ranks(
        pixel_model.train_beside_whole, "tensor", world_size=ranks
    )[0]
    equal = all(gap < 1e-6 for gap in gaps)
    print(f"{ranks} ranks, after each step within 1e-6: {equal}", end=", ")
    print(f"loss {losses[0]:.2f}, at the end {losses[-1]:.2f}")

# %% [markdown]
# **A language model whose words, heads and neurons are split trains as the whole one
# does**, within rounding and without dropout. 17 words cannot be divided evenly; they need not be.

# %% [markdown] tags=["instructor"]
# ## The sequence between the pairs: 6 minutes
#
# Ask what all ranks compute alike: norm, sum with x, dropout. Ask whether any of these
# needs a second position. None does.
#
# When late: only the table of the two ways.

# %% [markdown]
# ## The sequence between the pairs
#
# Norm, dropout and the sum with $x$ are still done by all ranks alike. But each works on one
# position at a time. So between the pairs, a rank could hold its own share of the positions
# only: **sequence parallel**. (Each rank then needs dropout numbers of its own.)
#
# | | between | before the pair | in the pair | after the pair |
# |---|---|---|---|---|
# | tensor parallel | all positions | nothing | own heads, neurons | all-reduce |
# | sequence parallel | own positions | all-gather | own heads, neurons | reduce-scatter |

# %% [markdown]
# Backward, the two change places. In lesson 10b a ring all-reduce was just these two, one after
# the other.

# %%
from parallel_by_hand.tensor_parallel import sequence_conjugates

show(sequence_conjugates.GatherSequence)

for way in ("tensor", "sequence"):
    found = run_ranks(compare_split_block, way)[0]
    forward, backward = map(", ".join, found["calls"])
    print(f"{way:<8} forward: {forward}\n         backward: {backward}")
    print(f"         each rank sends {found['bytes']} bytes in 32 bits")

# %% [markdown]
# **Reduce-scatter and all-gather move as many bytes as the all-reduces that they replace.**
# (With our own messages. With gloo, a reduce-scatter costs a whole all-reduce.)
#
# There is one new duty. A norm is whole on every rank, but now it has seen this rank's positions
# only. Its gradient is a summand.

# %% [markdown]
# ## Exercise 2: one sum too many
#
# After backward, this function is meant to complete the gradients of a sequence-parallel block.
# In each half it calls one all-reduce that is wrong.


# %%
from torch import nn

from parallel_by_hand.model_parallel import transformer_block


def sum_too_many(block: nn.Module) -> None:
    for name, parameter in block.named_parameters():
        if "norm" in name or name.endswith("bias"):
            dist.all_reduce(parameter.grad)


block = transformer_block.make_transformer_block(8, 2)
[f"{name} {tuple(p.shape)}" for name, p in block.named_parameters() if "0." in name]

# %% [markdown]
# Write the right version, `complete_gradients(block)`, with `dist.all_reduce`. Afterwards
# every `.grad` is that of the unsplit block: whole for parameters that all ranks hold whole,
# this rank's part for the others.
#
# Parameters are named as above; in the MLP, the layers are `wide` and `narrow`. `into` and
# `wide` are split by columns, `out` and `narrow` by rows. The loss is a sum over positions;
# each rank's loss is that of its own positions.
#
# By hand first: two ranks with two positions each; the loss is the sum of all outputs of a
# layer. What is the gradient of one number of `out.bias` on each rank, and in the unsplit
# block? Which positions has a neuron of `wide` seen?
# <!-- exercise: 16b-one-too-many -->
#
# <details><summary>Hint 1: a question</summary>
#
# For each bias: is it added before or after the positions are scattered? Do all ranks have
# the same one?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# What all ranks hold whole, each has used for its own positions: sum. What belongs to this
# rank's neurons has been used for all positions: it is complete.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `name.endswith((...))` takes a tuple of endings: those of the norms, and the biases of the
# layers that are split by rows.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, one sum too many: 10 minutes
#
# Expected: people decide by the shape. With as many ranks as a bias is wider than h, that
# fails: `wide.bias` on four ranks has h numbers, like `narrow.bias`.


# %% exercise="16b-one-too-many"
def complete_gradients(block: nn.Module) -> None:
    """Sum over the ranks those gradients, and only those, that are summands."""
    ### BEGIN SOLUTION
    whole = "norm.weight", "norm.bias", "out.bias", "narrow.bias"
    for name, parameter in block.named_parameters():
        if name.endswith(whole):
            dist.all_reduce(parameter.grad)
    ### END SOLUTION


# %%
check("16b-one-too-many", complete_gradients)

# %% [markdown] tags=["why"]
# <!-- why: 16b-one-too-many -->
# Why it works: the biases of `into` and `wide` belong to neurons, which stand behind the
# all-gather and see all positions. Their gradients are complete, and differ between ranks: an
# all-reduce would add up gradients of different neurons. The biases of `out` and `narrow` are added after
# the reduce-scatter, to this rank's positions only, like the norms' numbers.
#
# By hand: each rank has 2 (two positions), the unsplit block 4. A neuron of `wide` has seen all
# four positions.

# %% [markdown] tags=["instructor"]
# ## What a layer keeps: 7 minutes
#
# Let people add up the table before it is measured: which rows does a pair split?
#
# When late: skip the cell of the two variants, and read out its ratios.

# %% [markdown]
# ## What a layer keeps
#
# What does that save? Korthikanti et al. (2022) count what a layer keeps for backward: $s$
# positions, $b$ texts, $h$ numbers each, $a$ heads, 16 bits, dropout with a mask of one byte for
# each number. The inputs of a pair do not lie *in* it: every rank needs all their numbers.
#
# | kept | bytes ÷ $sbh$ | in a pair? |
# |---|---|---|
# | inputs of both norms | 4 | no |
# | inputs of `into` and `wide` | 4 | no |
# | masks of the dropouts after the sums | 2 | no |
# | query, key, value; input of `out` | 8 | yes |
# | before and after GELU | 16 | yes |
# | softmax, its mask, what is left of it | $5as/h$ | yes |
#
# In all $sbh(34 + 5as/h)$. The last row, for example: in each text, $a$ heads compare
# $s$ positions with $s$, so there are $as^2b$ scores. The softmax takes two bytes for
# each, the mask one, what is left two: $5as^2b = sbh \cdot 5as/h$.

# %% [markdown]
# With $t$ ranks, tensor parallel divides what lies in a pair by $t$. Leave out the row
# of the softmax. Of the 34, how many does each of four ranks keep? `kept_by_layer` adds
# up the bytes of the tensors that autograd saves, without the parameters, as lesson 15b
# did. (It also does so for sequence parallel, and for a way called *gather twice*,
# which we come to below.)

# %%
question = "With tensor parallel on four ranks, how many of the 34 does a rank keep?"
guess("16b-kept", None, question)

# %%
from lessons.props.attention_vocabulary_sequence import draw_kept_bytes
from parallel_by_hand.tensor_parallel.activation_bytes import (
    LayerSize,
    kept_by_layer,
    published_bytes,
)

size, kept = LayerSize(s=64, b=2, h=64, a=4), {}
for ranks, way in ((1, "tensor"), (4, "tensor"), (4, "sequence"), (4, "gather twice")):
    kept[ranks, way] = run_ranks(kept_by_layer, way, size, world_size=ranks)[0]
    formula = published_bytes(way, size, ranks)
    print(f"t = {ranks}, {way:<12} {kept[ranks, way]:7} bytes", end=", ")
    print(f"{kept[ranks, way] - formula:.0f} more than the formula")
reveal("16b-kept", 10 + 24 / 4, computed=True)
draw_kept_bytes(kept)

# %% [markdown]
# **The measured layer keeps 8 bytes for each position more than the formula**: a mean and a spread
# for each norm, two bytes each (on a CPU). That makes 1,024, or 256 where a rank has a quarter of the positions.
# Tensor parallel keeps $sbh(10 + 24/t + 5as/(ht))$: however many ranks there are, the 10 stay.
#
# Sequence parallel divides 6 of the 10, too. The other 4 are the *gathered* inputs of `into` and
# `wide`, all positions of them. To reach $sbh/t\,(34 + 5as/h)$, a rank keeps its own part and
# **gathers again in backward**: one more all-gather for each pair.

# %% [markdown]
# Two variants of the unsplit layer, on a CPU in torch 2.13. Its own dropout keeps two bytes for each
# number. `scaled_dot_product_attention` is *fused*: one kernel for scores, softmax and mixture,
# without dropout here.

# %%
for dropout, attention in (("torch", "plain"), ("torch", "fused")):
    settings = "tensor", size, dropout, attention
    bytes_kept = run_ranks(kept_by_layer, *settings, world_size=1)[0]
    print(f"torch's dropout, {attention} attention:", end=" ")
    print(f"{bytes_kept / kept[1, 'tensor']:.2f} of the layer above")

# %% [markdown]
# Here $as/h$ = 4, so the layer keeps 54. With masks of two bytes it is 36 + 6 · 4 = 60, and 60/54 is
# 1.11. The fused function keeps only the logarithm of the softmax's sum for each query and head, and
# recomputes the scores in backward: 36/54 is 0.67. Nothing that grows with the square of the
# text's length is kept.

# %% [markdown]
# Here is the block of lessons 14 to 17 on two ranks, with the bytes that are sent in one step for
# activations and their gradients, in 32 bits. **Before you run it:** in tensor parallel a block has
# four all-reduces, two halves each. By what factor does gathering twice send more bytes?

# %%
guess("16b-again", None, "Bytes sent when gathering twice, divided by tensor's?", "×")

# %%
from parallel_by_hand.tensor_parallel.block_rows import block_cut_by_neuron

rows = {"whole": run_ranks(transformer_block.block_cut_by_layer, world_size=1)}
rows["by layer"] = run_ranks(transformer_block.block_cut_by_layer)
for way in split_block.ENDS:
    rows[way] = run_ranks(block_cut_by_neuron, way)
transformer_block.print_block_table(rows)
ratio = rows["gather twice"][0].sent / rows["tensor"][0].sent
reveal("16b-again", ratio, computed=True)

# %% [markdown]
# By layer a rank sends least. By neuron both ranks work at the same time, each with about half of the
# parameters and, gathering twice, of the activations. In sequence parallel the sums of exercise 2
# come on top, $6h$ numbers for each block.

# %% [markdown]
# With the gradients completed, the model trains as the whole one. (Positions, unlike words, must
# divide evenly here.)

# %%
for way in ("sequence", "gather twice"):
    gaps, losses = run_ranks(pixel_model.train_beside_whole, way)[0]
    print(f"{way}: after each step within 1e-6: {all(gap < 1e-6 for gap in gaps)}")

# %% [markdown] tags=["instructor"]
# ## A ring of keys and values: 6 minutes
#
# Four people hold a part of a text each. Let notes with keys go round, and each person keeps
# two numbers only: the mean so far, and its weight.
#
# When late: skip the timeline.

# %% [markdown]
# ## A ring of keys and values
#
# In the pair, a rank still holds all positions. A text that is too long for that is cut by
# positions *inside* the attention, too: **context parallel**. Each rank keeps its queries, and
# keys and values go round a ring, one piece at a time.
#
# For each query it keeps what it has seen so far: the values mixed in the right proportions, and the
# *log-sum*, the logarithm of the sum of $e^\text{score}$. That is enough to go on. (`exchange`, from
# lesson 10a, sends to some ranks and receives from others.)

# %%
from parallel_by_hand.tensor_parallel import ring_attention

show(ring_attention.attend_to_piece)
show(ring_attention.pass_on)

# %% [markdown]
# ## Exercise 3: merge as they come
#
# `merge_seen(one, other)` takes what the same queries have seen of two sets of keys: pairs
# (mixed, log_sum), of shapes (queries, d) and (queries,), as `attend_to_piece` returns them. It
# returns the pair for both sets. Log-sums may be thousands.
#
# `attend_round(query, key, value)`, called by every rank with its own positions, of shape
# (positions, d), returns its queries' attention to *all* keys, later ones too. `pass_on([key,
# value])` sends both to the right and returns those from the left: call it $N - 1$ times, and
# merge each piece when it comes.
#
# By hand first: of one set, a query has seen a mixture of 4, with log-sum log 1; of the other, 8
# and log 3. What has it seen of both?
# <!-- exercise: 16b-ring -->
#
# <details><summary>Hint 1: a question</summary>
#
# If one set's scores sum to 1 and the other's to 3 (after $e^x$), what share of the whole softmax has
# each?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# The new log-sum is `torch.logaddexp` of both. A set's share is $e$ to the power of its log-sum minus
# the new one, at most 1. The new mixture is the sum of the mixtures, each times its share.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `seen = attend_to_piece(query, key, value)`. Then, $N - 1$ times:
# `key, value = pass_on([key, value])`, and merge `seen` with what the query sees of these.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, merge as they come: 15 minutes
#
# Expected: the plain mean of both mixtures (right only if all scores are equal), `exp` of the log-sums
# (infinite), and N passes instead of N − 1.

# %% exercise="16b-ring"
from parallel_by_hand.tensor_parallel.ring_attention import attend_to_piece, pass_on


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
check("16b-ring", merge_seen, attend_round)

# %% [markdown] tags=["why"]
# <!-- why: 16b-ring -->
# Why it works: a softmax mixture is a mean with weights, and a mean of means is right if each counts with
# the sum of its weights. The largest share is at most 1, so nothing overflows, and the order does not matter. This
# is lesson 10's idea for sums, with a sum that remembers its weight.
#
# By hand: the sums are 1 and 3, together 4. (1 · 4 + 3 · 8) / 4 = 7, with log-sum log 4.

# %% [markdown]
# In a language model no position looks ahead: rank 0 needs only its own keys, the last rank
# needs all of them.
# The ranks sleep 0.15 s for each piece that they need:

# %%
from sidebyside import Timeline

with Timeline() as timeline:
    run_ranks(ring_attention.sleep_round_ring, 0.15, world_size=4)
timeline.plot(stamp="simulated", height=2.6)

# %% [markdown]
# Of the 16 pieces, 6 lie ahead and are skipped, and yet the ring takes as long as its last rank: four
# pieces. A remedy is to cut the text into $2N$ parts and to give rank $i$ the $i$-th from the front
# and the $i$-th from the end. Then all ranks skip equally many.

# %% [markdown] tags=["instructor"]
# ## The library: 4 minutes
#
# Ask how many all-reduces the library's loss will call. It is the same three.
#
# When late: only the table.

# %% [markdown]
# ## The library's call
#
# `loss_parallel` makes torch's own cross entropy vocabulary-parallel, for logits that are a
# DTensor, a tensor that knows how it lies on the ranks, split by words. 16a's `CommDebugMode`
# counts its collectives:


# %%
from sidebyside import device


def loss_by_library() -> tuple[bool, dict[str, int]]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor, parallel
    from torch.distributed.tensor.debug import CommDebugMode

    torch.manual_seed(0)
    whole = torch.randn(6, 17).to(device())
    labels = torch.randint(17, (6,)).to(device())
    ours = split_block.own_part(whole, 1).requires_grad_()
    parallel_loss = vocabulary.vocabulary_cross_entropy
    parallel_loss(ours, labels, vocabulary.first_own_word(17)).backward()
    mesh = init_device_mesh(device().type, (dist.get_world_size(),))
    theirs = distribute_tensor(whole, mesh, [Shard(1)]).requires_grad_()
    with parallel.loss_parallel(), CommDebugMode() as mode:
        nn.functional.cross_entropy(theirs, labels).backward()
    counts = {str(op): n for op, n in mode.get_comm_counts().items()}
    return torch.allclose(ours.grad, theirs.grad.to_local()), counts


run_ranks(loss_by_library)[0]

# %% [markdown]
# **The library's loss calls three all-reduces too**, and gives our gradient. In a plan as in 16a,
# `RowwiseParallel` splits an embedding by words, and `SequenceParallel` puts norms between pairs on own
# positions. Instead of our ring there is `context_parallel`. By default it gathers all keys and values;
# `set_rotate_method("alltoall")` lets them go round. It is written for a GPU's attention: on a CPU,
# causal attention fails in torch 2.13.
#
# | | words | sequence between pairs | ring |
# |---|---|---|---|
# | Megatron-LM | `VocabParallelEmbedding`, `vocab_parallel_cross_entropy` | `--sequence-parallel` | `--context-parallel-size` |
# | torch | `RowwiseParallel`, `loss_parallel` | `SequenceParallel` | `context_parallel`, with `set_rotate_method("alltoall")` |
# | JAX | `PartitionSpec("tensor", None)` | `PartitionSpec(None, "tensor", None)` | `shard_map` and `ppermute` |
#
# (In JAX, the first two leave the messages to the compiler if the axes of the mesh are
# `AxisType.Auto`.)
#
# ## A script of your own
#
# A vocabulary-parallel training with nothing but torch. Rank 0 saves the whole matrices. The cell starts it
# as a group of one; by `torchrun`, on two ranks, it prints the same loss.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/tensor_parallel/own_vocabulary_parallel.py --save model.pt
# ```

# %%
from demos.tensor_parallel.own_vocabulary_parallel import train_split
from sidebyside import run_demo

show(train_split)
run_demo("tensor_parallel/own_vocabulary_parallel.py")

# %% [markdown]
# ## What we saw
#
# * Attention split by heads is a pair, too: a block calls two all-reduces each way.
# * Three numbers for each position replace its logits, whatever the number of words.
# * With reduce-scatter and all-gather, what lies between the pairs is split by positions. The gradients
#   of norms and of `out`'s and `narrow`'s biases are then summands.
# * Of $sbh(34 + 5as/h)$ bytes, tensor parallel leaves $10\,sbh$ whole. Sequence parallel, gathering
#   twice, divides all.
# * Keys and values can go round a ring; two tensors remember what has been seen.

# %% [markdown]
# **The scorecard** of one block and the words at both ends, over $N$ ranks, with $s$ positions and width $h$:
#
# | | |
# |---|---|
# | equal to one process | after each of ten steps, up to rounding, without dropout |
# | numbers each rank sends per step, times $(N-1)/N$ | block $8sh$, embedding and logits $4sh$, loss $6s$; sequence parallel: plus $12h$; gathering twice: $10sh$ and $5sh$ instead |
# | memory: parameters, gradients, optimiser | about $1/N$ of each, the embedding too; norms and biases of rows whole |
# | memory: activations | tensor: $10\,sh$ bytes in 16 bits whole, the rest $1/N$; sequence, gathering twice: $1/N$ of all |
# | idle share | the time of the collectives; in our code no rank computes meanwhile |
# | if one rank dies | its heads, neurons and words are gone; the others get an error or wait |

# %% [markdown]
# In a terminal, `python demos/tensor_parallel/vocabulary.py --help`,
# `demos/tensor_parallel/activation_bytes.py` and
# `demos/tensor_parallel/ring_attention.py` show the rest.
#
# ## Next
#
# In data parallel each rank has its own samples, and holds everything else whole: parameters,
# gradients, optimiser. Lesson 17a splits those.
