# ---
# title: 16b Tensor parallel: attention, vocabulary, sequence
# question: The MLP is split. How do ranks share the attention, a vocabulary of fifty thousand words, and what lies between the pairs?
# needs: two CPU cores, no GPU
# minutes: 69
# ---

# %% [markdown]
# # 16b. Tensor parallel: attention, vocabulary, sequence
#
# Lesson 16a split the MLP of a transformer block: columns, then rows, and one sum. Now
# we split the rest of a language model: the attention, the words at both ends, and what
# lies between the pairs.
#
# *You will be able to* split attention by its heads, compute a loss from logits that no
# rank holds whole, and say to the byte what a layer keeps for its backward pass.
#
# *Before this:* lessons 10a, 10b, 14a and 16a. *Time:* {reading} minutes, and 35 for the
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
# In attention, a linear layer `into` computes three lists of numbers for each position
# of a text: a *query*, a *key* and a *value*, of $d$ numbers each. The dot product of a
# query and a key, divided by $\sqrt d$, is their *score*. The softmax of a query's scores
# says in which proportions it mixes the values of the positions so far. For $s$ positions:
#
# | | shape |
# |---|---|
# | queries, keys, values | $(s, d)$ each |
# | scores: each query with each key | $(s, s)$ |
# | softmax of each row of scores | $(s, s)$; later positions have 0 |
# | mixtures: softmax times values | $(s, d)$ |
#
# Say that the second position has the score 0 with the first and $\ln 3$ with itself.
# The softmax of these is ¼ and ¾, so it gets ¼ of the first value and ¾ of its own.

# %% [markdown]
# The lists are cut into *heads*. Each head compares and mixes its own numbers, and a
# second layer, `out`, joins the mixtures. Four heads on two ranks:

# %%
from lessons.props.attention_vocabulary_sequence import draw_heads

draw_heads(heads=4, ranks=2)

# %% [markdown]
# Each rank takes the neurons of its heads in `into`, and the inputs that come from its
# heads in `out`. These are columns, then rows: **attention split by heads is a pair**,
# with the attention itself between the two layers. In `forward`, `attend` is
# `causal_attention`; the dropouts `drop` and `after` do nothing here. `unflatten` cuts
# the numbers of a position into query, key and value, and each of these into heads;
# `permute` moves positions behind the heads.

# %%
from parallel_by_hand.tensor_parallel import split_block
from sidebyside import show

show(split_block.causal_attention)
show(split_block.SplitAttention.forward)

# %% [markdown]
# As in 16a, `into` copies its input to the ranks, and `out` sums over the ranks. We run
# both halves of lesson 14a's block beside the unsplit one, and print the collectives.
# Heads need not be shared evenly: three ranks hold 2, 1 and 1.

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
# **A whole block calls two all-reduces forward and two backward**, whatever its number
# of heads. There must be no more ranks than heads.

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
# An *embedding* is a table with a row of numbers for each word of the vocabulary. It is
# cut by rows: each rank holds the rows of its own words. It looks these up, and writes
# zeros for all other words. The sum over the ranks is the whole embedding. Let word $w$
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
# Each word is looked up once, so each number of the sum has a single digit 1. Backward
# nothing is sent: every rank has the gradient of the sum, and uses it for its own rows.

# %% [markdown]
# ## The words at the end
#
# At the end each position gets *logits*, a number for every word. The last layer is
# split by columns, so each rank has the logits of its own words. Cross entropy needs
# all of them:
#
# $$\text{loss} = \log \sum_w e^{z_w} - z_\text{label}.$$
#
# The obvious way gathers the logits. But three numbers for each position are enough,
# and all-reduces find them: the largest logit, the sum, and the label's logit. The
# largest is subtracted from all logits first, because $e^{1000}$ overflows. That does
# not change the loss.

# %% [markdown]
# Take $V$ = 4,096 words on two ranks. For each position, a rank sends $3 \cdot 2(N-1)/N$
# numbers in ring all-reduces of three, and $V(N-1)/N$ in an all-gather of the logits. By
# what factor does gathering send more bytes?

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
# The factor is $V/6$ where words and positions divide evenly among the ranks. Memory
# shrinks too: with 50,000 words, each of 8 ranks holds 6,250 logits per position. Such a
# loss is called **vocabulary-parallel**.

# %% [markdown]
# ## Exercise 1: the loss without the logits
#
# Every rank calls `parallel_cross_entropy(logits, labels, first)`: the mean loss over all
# positions. Backward gives it its logits' gradient.
#
# * `logits`, of shape (positions, own words), belong to the words from `first` on, and
#   may be thousands.
# * `labels`, of shape (positions,), count words in the whole vocabulary.
# * Forward, all-reduce three numbers for each position, with 16a's `sum_over_ranks` and
#   `dist.all_reduce(x, op=dist.ReduceOp.MAX)`; backward, nothing.
#
# By hand first: rank 0 has the logits [0, log 3], rank 1 [log 4], the label is 1. What are
# the loss and each logit's gradient?
# <!-- exercise: 16b-cross-entropy -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which rank knows the label's logit, and what must the others add to the sum? Can sums
# be added up if each rank has subtracted its own largest number?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# All-reduce the largest logit, outside autograd, and subtract it. Then two sums over
# the ranks are left: of the exponentials, and of the label's shifted logit, which is 0
# on all ranks but one.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `mine = (labels >= first) & (labels < first + logits.shape[1])`. For words of other
# ranks take place 0 instead, `place = (labels - first) * mine`, and multiply what
# `shifted.gather(1, place[:, None])` gives by `mine`. The loss is the mean of the
# logarithm of one sum, minus the other.
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
from sidebyside import forget, hint, progress, solution


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
# Why it works: the same number is subtracted on all ranks, so the sums fit together,
# and no exponential exceeds 1. Where the label is another rank's word, the factor 0
# also stops the gradient. The gradient of a logit is its softmax, less 1 at the label.
# A rank can compute that from its own logits and the sums, so backward sends nothing.
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
# Our small language model reads 32 pixels of a handwritten digit and predicts each next
# pixel. Its words are 17 shades of grey. One table serves as the embedding and for the
# logits: *tied weights*, as in lesson 14a. Each rank needs the rows of its own words only,
# at both ends.
#
# In the split model, `words` is the split embedding, and `ends.enter` a linear layer split
# by columns, with the copy of its input to all ranks. Here `way` is "tensor"; others come
# later.

# %%
from parallel_by_hand.tensor_parallel import pixel_model

show(pixel_model.PixelModel.forward)
show(pixel_model.SplitPixelModel.forward)

# %% [markdown]
# Each rank also trains a whole model, and compares the parts after each of ten steps:

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
# does**, within rounding and without dropout. The words need not be divided evenly.

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
# All ranks still compute the same norm, dropout and sum with $x$. But each of these
# works on one position at a time. So between the pairs, a rank can hold its own share
# of the positions only: **sequence parallel**. Each rank then needs its own dropout
# numbers.
#
# | | between | before the pair | in the pair | after the pair |
# |---|---|---|---|---|
# | tensor parallel | all positions | nothing | own heads, neurons | all-reduce |
# | sequence parallel | own positions | all-gather | own heads, neurons | reduce-scatter |

# %% [markdown]
# Backward, the two change places. A ring all-reduce is a reduce-scatter and an
# all-gather, as in lesson 10b.

# %%
from parallel_by_hand.tensor_parallel import sequence_conjugates

show(sequence_conjugates.GatherSequence)

for way in ("tensor", "sequence"):
    found = run_ranks(compare_split_block, way)[0]
    forward, backward = map(", ".join, found["calls"])
    print(f"{way:<8} forward: {forward}\n         backward: {backward}")
    print(f"         each rank sends {found['bytes']} bytes in 32 bits")

# %% [markdown]
# **Reduce-scatter and all-gather move as many bytes as the all-reduces that they
# replace.** That holds with our own messages; with gloo, a reduce-scatter costs a whole
# all-reduce.
#
# One thing is new. Every rank holds the whole norm, but uses it for its own positions
# only. So each rank's gradient of the norm is one summand of the whole gradient.

# %% [markdown]
# ## Exercise 2: one sum too many
#
# After the backward of a sequence-parallel block, this function completes the
# gradients. In each half of the block, one all-reduce is wrong.


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
# Write the right version, `complete_gradients(block)`: afterwards every `.grad` is the
# unsplit block's, or this rank's part of it. In the MLP, `wide` is split like `into`, and
# `narrow` like `out`. Each rank's loss is the sum over its own positions.
#
# By hand first: two ranks have two positions each, and the loss is the sum of a layer's
# outputs. What is the gradient of a number of `out.bias` on each rank, and in the
# unsplit block? Which positions has a neuron of `wide` seen?
# <!-- exercise: 16b-one-too-many -->
#
# <details><summary>Hint 1: a question</summary>
#
# Is each bias added before or after the positions are scattered? Do all ranks have the
# same one?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Each rank has used the parameters that all hold whole for its own positions only: sum
# their gradients. It has used the parameters of its own neurons for all positions:
# their gradients are complete.
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
# Let people add up the edges before they are measured: which of them does a pair split?
#
# When late: skip the cell of the two variants, and read out its ratios.

# %% [markdown]
# ## What a layer keeps
#
# How much memory does this save? Korthikanti et al. counted in 2022 what a layer keeps
# for backward with $b$ texts of $s$ positions, $h$ numbers at each and $a$ heads, in 16
# bits. In units of $sbh$ bytes:

# %%
from lessons.props.attention_vocabulary_sequence import draw_kept_on_edges

draw_kept_on_edges()

# %% [markdown]
# In all $sbh(34 + 5as/h)$. In the attention, $a$ heads compare $s$ positions with $s$
# in each text: $as^2b$ scores. The softmax takes two bytes for each, its dropout's mask
# one, the result two: $5as^2b = sbh \cdot 5as/h$. The inputs of `into` and `wide` do
# not lie in the pair: every rank needs all of them.

# %% [markdown]
# With $t$ ranks, tensor parallel divides what lies in a pair by $t$. Of the 34, how
# many does each of four ranks keep? `kept_by_layer` adds up the bytes of the tensors
# that autograd saves, without the parameters. It also shows sequence parallel, and
# *gather twice*, which is explained below.

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
# **The measured layer keeps 8 bytes for each position more than the formula**: a mean
# and a spread for each norm, two bytes each on a CPU. Tensor parallel keeps
# $sbh(10 + 24/t + 5as/(ht))$: however many ranks there are, the 10 stay.
#
# Sequence parallel divides 6 of the 10, too. The other 4 are the *gathered* inputs of
# `into` and `wide`. To reach $sbh/t\,(34 + 5as/h)$, a rank keeps its own part and
# **gathers again in backward**: one more all-gather for each pair.

# %% [markdown]
# How does torch 2.13 do on a CPU? Its dropout keeps masks of two bytes for each number.
# `scaled_dot_product_attention` is *fused*: one kernel computes scores, softmax and
# mixture.

# %%
for dropout, attention in (("torch", "plain"), ("torch", "fused")):
    settings = "tensor", size, dropout, attention
    bytes_kept = run_ranks(kept_by_layer, *settings, world_size=1)[0]
    print(f"torch's dropout, {attention} attention:", end=" ")
    print(f"{bytes_kept / kept[1, 'tensor']:.2f} of the layer above")

# %% [markdown]
# Here $as/h$ = 4, so the layer keeps 34 + 5 · 4 = 54. With masks of two bytes it is 36 +
# 6 · 4 = 60. The fused function keeps one number for each query and head, and recomputes
# the scores in backward: 36 are left, and nothing grows with the square of $s$.

# %% [markdown]
# What does gathering twice cost? The next cell cuts the block of lessons 14 to 17 over two
# ranks, and counts the bytes sent in a step for activations and their gradients. In
# tensor parallel that is four all-reduces, each a reduce-scatter and an all-gather. By
# what factor does gathering twice send more?

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
# By layer a rank sends least. In the other cuts both ranks work at the same time, each
# with about half of the parameters and, gathering twice, of the activations. Exercise 2's
# all-reduces of $6h$ numbers for each block come on top.

# %% [markdown]
# With the gradients completed as in exercise 2, the model trains as the whole one:

# %%
for way in ("sequence", "gather twice"):
    gaps, losses = run_ranks(pixel_model.train_beside_whole, way)[0]
    print(f"{way}: after each step within 1e-6: {all(gap < 1e-6 for gap in gaps)}")

# %% [markdown] tags=["instructor"]
# ## The library: 4 minutes
#
# Ask how many all-reduces the library's loss will call. It is the same three.
#
# When late: only the table.

# %% [markdown]
# ## The library's call
#
# `loss_parallel` makes torch's own cross entropy vocabulary-parallel. The logits are a
# DTensor, which knows how it is split over the ranks. 16a's `CommDebugMode` counts the
# collectives:


# %%
def gradient_by_library(logits, labels) -> tuple[torch.Tensor, dict[str, int]]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor, parallel
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = init_device_mesh(logits.device.type, (dist.get_world_size(),))
    mine = distribute_tensor(logits, mesh, [Shard(1)]).requires_grad_()
    with parallel.loss_parallel(), CommDebugMode() as mode:
        nn.functional.cross_entropy(mine, labels).backward()
    counts = {str(op): n for op, n in mode.get_comm_counts().items()}
    return mine.grad.to_local(), counts


# %% [markdown]
# Is it our gradient?

# %%
from sidebyside import device


def same_gradient() -> tuple[bool, dict[str, int]]:
    torch.manual_seed(0)
    logits = torch.randn(6, 17).to(device())
    labels = torch.randint(17, (6,)).to(device())
    mine, first = split_block.own_part(logits, 1), vocabulary.first_own_word(17)
    loss = vocabulary.vocabulary_cross_entropy(mine.requires_grad_(), labels, first)
    loss.backward()
    theirs, counts = gradient_by_library(logits, labels)
    return torch.allclose(mine.grad, theirs), counts


run_ranks(same_gradient)[0]

# %% [markdown]
# **The library's loss calls three all-reduces too**, and gives our gradient.
#
# | | words | sequence between pairs |
# |---|---|---|
# | Megatron-LM | `VocabParallelEmbedding`, `vocab_parallel_cross_entropy` | `--sequence-parallel` |
# | torch | `RowwiseParallel`, `loss_parallel` | `SequenceParallel` |
# | JAX | `PartitionSpec("tensor", None)` | `PartitionSpec(None, "tensor", None)` |
#
# In JAX, both leave the messages to the compiler if the axes of the mesh are
# `AxisType.Auto`.
#
# ## A script of your own
#
# This script trains vocabulary-parallel with nothing but torch. The cell runs it on one
# rank; on two, `torchrun` prints the same loss.
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
# * Attention split by heads is a pair. Three numbers for each position replace its
#   logits.
# * With reduce-scatter and all-gather, what lies between the pairs is split by positions. The gradients
#   of norms and of `out`'s and `narrow`'s biases are then summands.
# * Of $sbh(34 + 5as/h)$ bytes, tensor parallel leaves $10\,sbh$ whole. Sequence
#   parallel that gathers twice divides all.

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
# In a terminal, `python demos/tensor_parallel/vocabulary.py --help` and
# `demos/tensor_parallel/activation_bytes.py` show the rest.
#
# ## Next
#
# In the pair, a rank holds all positions. Lesson 16c cuts the text inside the attention, too:
# keys and values go round a ring.
