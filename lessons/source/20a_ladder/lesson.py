# ---
# title: 20a The ladder: one training run in eighteen ways
# question: Lessons 8 to 17 split one training run in many ways. Is it still the same training run, and what happens when they are combined?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 20a. The ladder: one training run in eighteen ways
#
# Lessons 8 to 17 split training in one way at a time, each on a model of its own. Real
# training runs combine them. Here one small transformer reads Moby-Dick: first in one
# process, then in most of the ways that we have built, then in three ways at once on
# eight ranks. Each way is a *rung* of a ladder. We predict its cost, climb it, and
# compare every number with one process, after every step.
#
# *You will be able to* put strategies together on a mesh of ranks; to write a wrapper
# that makes any training run data-parallel; to decide which dimension of the mesh belongs
# inside a machine; and to clip a gradient that lies on a mesh.
#
# *Before this:* lessons 11b, 15b, 16c, 16d, 17b and 19a. *Time:* {reading} minutes, and 55 for
# the exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## The text and the model: 5 minutes
#
# Let somebody read the first sentence aloud and stop in the middle of a word: what comes
# next? That is the whole task of the model.

# %% [markdown]
# ## A text
#
# The first 42 chapters of Herman Melville's novel of 1851 come with the course. A
# **token** is here one character, written as its number in the alphabet of the text. The
# model reads 16 characters and guesses, for each, the next one.

# %%
from parallel_by_hand.capstone import text_batches
from sidebyside import load_moby_dick

text = load_moby_dick("train")
print(text[28:114])
print(f"{len(text):,} characters, {len(text_batches.text_alphabet())} different ones")
for rows in text_batches.text_batch(step=0):
    print(tuple(rows.shape), repr(text_batches.decode_text(rows[0])))

# %% [markdown]
# A batch has eight excerpts, drawn from a seed and the number of the step, the same for
# every rank. The model is lesson 14's block, twice, between an *embedding*, which holds a
# vector for each token and each place, and a *head*, which gives every character a score:

# %%
from parallel_by_hand.capstone.language_model import make_language_model

for layer in make_language_model():
    count = sum(p.numel() for p in layer.parameters())
    print(f"{type(layer).__name__:<14}{count:7,} parameters")

# %% [markdown] tags=["instructor"]
# ## One trainer: 6 minutes
#
# Write the four functions on the board: deal, backward, complete, update. Ask for each
# strategy of the course which of the four it changes. Pipeline: backward. ZeRO-1:
# update. Tensor parallel: none, it changes the model.

# %% [markdown]
# ## One trainer
#
# All eighteen rungs share one trainer. It asks for no rank and sends nothing itself. Its
# step calls four functions; a strategy may change some of them, the model or the
# optimiser. Parts of earlier lessons take a `group`, the ranks that they talk to, by
# default all.

# %%
from parallel_by_hand.capstone.trainer import Training, wrap_model
from sidebyside import show

show(Training.step)
show(wrap_model)

# %% [markdown]
# A **strategy wrapper** is a function that changes a `Training`, usually along one
# dimension of a mesh of ranks. Here are two: tensor parallel replaces the layers by
# lesson 16's split ones; lesson 8's accumulation replaces `backward`, and calls the
# former one for each part of the batch.

# %%
from parallel_by_hand.capstone import strategy_wrappers

show(strategy_wrappers.tensor_parallel)
show(strategy_wrappers.accumulation)

# %% [markdown]
# In a **mesh**, torch's `DeviceMesh`, ranks stand in rows and columns with names. Each
# rank has a place in every dimension. Ranks that differ in one dimension only form a
# **mesh group**. A strategy gives the size of the mesh and the wrapper of each dimension,
# **from the inside out**: each wraps those before it.

# %%
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.trainer import make_mesh
from sidebyside import run_ranks

strategy = STRATEGIES["2 x 2 x 2"]


def places_and_groups() -> tuple:
    import torch.distributed as dist

    mesh = make_mesh(strategy)
    groups = {d: mesh[d].get_group() for d in strategy.mesh}
    ranks = {d: dist.get_process_group_ranks(group) for d, group in groups.items()}
    return tuple(mesh.get_coordinate()), ranks


print("mesh:", strategy.mesh, " wrappers:", *strategy.wrappers)
for rank, (place, groups) in enumerate(run_ranks(places_and_groups, world_size=8)):
    if rank in (0, 5):
        print(f"rank {rank} is at {place}; its groups: {groups}")

# %% [markdown]
# Rank 5 splits its layers with rank 4, hands activations on to rank 7, and holds the same
# part of the model as rank 1.

# %% [markdown] tags=["instructor"]
# ## The first rungs: 7 minutes
#
# Ask before the guess which of the two numbers grows with the batch, and which with the
# model. Write down both answers; the table of the whole ladder decides.

# %% [markdown]
# ## The first rungs
#
# The first rung is one process. It leaves a trail: all 31,184 numbers after each of five
# steps. On every other rung, each rank compares all that it holds with this trail. In
# data parallel a rank sends its gradients round the ring: $2(N-1)/N$ of 31,184 numbers of
# four bytes.

# %%
from parallel_by_hand.capstone.ladder_rungs import climb_first
from parallel_by_hand.capstone.ladder_table import climb_predicted, predict_ranks
from parallel_by_hand.capstone.language_model import SMALL_MODEL

first, trail = climb_first(steps=5)
predicted = predict_ranks("DDP (ours)", SMALL_MODEL, item=4)
print("predicted, for each rank:", [cost.sent for cost in predicted])
rung = climb_predicted("DDP (ours)", trail)
print("counted by the meter:    ", [rank.cost.sent for rank in rung.ranks])

# %% [markdown]
# Tensor parallel sends no gradients of parameters. For each block it all-reduces
# activations twice forward, and their gradients twice backward, as in lesson 16b. There
# are two blocks, 8 excerpts of 16 characters, and 32 numbers for each character. How many
# bytes does each of two ranks send in a step?

# %%
from sidebyside import guess

guess("20a-tensor", None, "Bytes that a tensor rank sends in a step?", "bytes")

# %%
from sidebyside import reveal

tensor = climb_predicted("tensor", trail)
reveal("20a-tensor", tensor.ranks[0].cost.sent, computed=True)

# %% [markdown]
# A rank sends eight all-reduces of 4,096 numbers, 16,384 bytes each; with two ranks a
# ring sends as much as the tensor holds. **What tensor parallel sends grows with the
# batch; the gradients of parameters, which data parallel sends, do not.**

# %% [markdown]
# How does a rank that holds half of a layer know what to compare with? The same wrappers
# cut a model whose parameters are *numbered* 1, 2, 3, … The numbers that a rank finds in
# its half are its *addresses*. Take a matrix of four numbers, cut between its columns:
#
# | whole | rank 0 finds | rank 1 finds |
# |---|---|---|
# | 1 2 | 1 | 2 |
# | 3 4 | 3 | 4 |
#
# So rank 0 compares its two numbers with the first and the third of the whole model. With
# addresses, a training run can also stop under one strategy and go on under another.

# %%
from parallel_by_hand.capstone.trainer import train


def addresses_of_this_rank():
    return train(STRATEGIES["tensor"], steps=0).addresses.held


mine, others = (set(held.tolist()) for held in run_ranks(addresses_of_this_rank))
print(f"each {len(mine):,}, both {len(mine & others):,}, in all {len(mine | others):,}")

# %% [markdown]
# ## Exercise 1: data parallel as a wrapper
#
# Write `data_parallel(training, mesh)`. `mesh` is one dimension: this rank is number
# `mesh.get_local_rank()` of the `mesh.size()` ranks in `mesh.get_group()`. Replace two
# functions of `training`:
#
# * `deal(inputs, targets)` cuts what the *former* `deal` returns into equal, consecutive
#   parts of rows, one for each rank in order, and returns this rank's.
# * `complete()` calls the *former* `complete`, then makes each `.grad` of
#   `training.model.parameters()` the mean over the group.
#
# By hand first: on a mesh of data 2 × tensor 2, ranks 0 and 1 form the first row. A
# parameter's gradient is 1, 10, 3 and 30 on ranks 0 to 3. What is it after `complete`?
# <!-- exercise: 20a-wrapper -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which ranks hold the same part of the model as this one, and have seen other rows?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Keep the former functions in variables of your own before you replace them. Define two
# functions inside `data_parallel`, which call the former ones, and put them in their place.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `former = training.deal`, then in the new one
# `inputs, targets = former(inputs, targets)` and
# `inputs.chunk(mesh.size())[mesh.get_local_rank()]`. In `complete`: divide each gradient by
# `mesh.size()`, then `dist.all_reduce(p.grad, group=mesh.get_group())`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, data parallel as a wrapper: 20 minutes


# %% exercise="20a-wrapper"
import torch.distributed as dist

from sidebyside import forget, hint, progress, solution


def data_parallel(training, mesh) -> None:
    """Each rank of this dimension takes its rows, and all average their gradients."""
    ### BEGIN SOLUTION
    former_deal, former_complete = training.deal, training.complete

    def deal(inputs, targets):
        inputs, targets = former_deal(inputs, targets)
        here = mesh.get_local_rank()
        return inputs.chunk(mesh.size())[here], targets.chunk(mesh.size())[here]

    def complete():
        former_complete()
        for p in training.model.parameters():
            p.grad /= mesh.size()
            dist.all_reduce(p.grad, group=mesh.get_group())

    training.deal, training.complete = deal, complete
    ### END SOLUTION


# %%
from sidebyside import check

check("20a-wrapper", data_parallel)

# %% [markdown] tags=["why"]
# <!-- why: 20a-wrapper -->
# Why it works: the loss is a mean over rows, so its gradient is the mean of the gradients
# of equal parts of the rows. That holds for each part of the model by itself: a rank
# needs only the gradients of the ranks that hold the same part. A pipeline or split
# layers inside make no difference: they have finished when `complete` runs.
#
# By hand: ranks 0 and 2 hold the same part, 1 and 3 hold the other. Ranks 0 and 2 get (1 + 3) / 2 =
# 2, ranks 1 and 3 get (10 + 30) / 2 = 20.

# %% [markdown] tags=["instructor"]
# ## The ladder: 9 minutes
#
# Start the cell, then let the class predict the next line while a rung is being climbed: more or less
# memory, more or fewer bytes?
#
# When late: leave out ZeRO-2, "sequence" and GPipe.

# %% [markdown]
# ## The ladder
#
# Lesson 19's simulator predicts what a rank of each rung's first stage will send and
# hold. It knows blocks only, so our embedding and head are added to what is sent and to
# the **state**: parameters, gradients and momentum. "sequence" and "context" are
# missing: the simulator has other forms of both, which gather once more in backward:

# %%
from parallel_by_hand.capstone.simulated_rung import print_simulated

print_simulated()

# %% [markdown]
# Now we climb sixteen of the eighteen rungs, in two tables. Threads and torch's FSDP2
# are left to the demo at the end.

# %% [markdown]
# Memory is that of the fullest rank: its state when backward has ended, and the most
# activations that autograd kept, not necessarily at the same moment. A layer that
# ZeRO-3 has borrowed counts; message buffers do not. Our meter does not see the
# messages of torch's DDP, "-" in the table, so "exactly" in its line concerns memory
# only.

# %%
from itertools import chain

from parallel_by_hand.capstone.ladder_table import print_ladder

names = ["accumulation", "DDP (torch)", "ZeRO-1", "ZeRO-2", "ZeRO-3", "hybrid"]
names += ["sequence", "context", "GPipe", "1F1B"]
one_process = climb_predicted("one process", trail)
rest = (climb_predicted(name, trail) for name in names)
ladder = print_ladder(chain([one_process, rung, tensor], rest))

# %% [markdown]
# **Every rung equals one process after every step, to 1e-5 in 32 bits**, and **every byte
# that the meter sees was predicted**, sent or held. The bubble comes from the order in
# which the stages really worked, if a backward takes as long as two forwards. On two busy
# cores seconds say little.
#
# "sequence" sends 24,640 bytes more than "tensor": of layers that are held whole, each
# rank has only its own positions' gradient, so these gradients are summed as well.
#
# On "context", lesson 16c's, a rank has half of every excerpt's positions and the whole
# model: so all gradients are summed, as in data parallel, and 65,536 bytes more are
# keys, values and their gradients. On "hybrid" each pair shards, as in 17b.
#
# The last bits may differ, because each rung adds in its own order. In 64 bits a
# difference below 1e-12 was rounding. Here is 1F1B again, and what it did in its last
# step:

# %%
import torch

from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import timetable

_, trail_64 = climb_first(steps=5, dtype=torch.float64)
exact = climb_predicted("1F1B", trail_64, torch.float64)
print("1F1B in 64 bits, within 1e-12:", exact.gap <= 1e-12)
draw_schedule(timetable(exact.order, forward=1, backward=2))

# %% [markdown] tags=["instructor"]
# ## Combined: 6 minutes
#
# Draw the cube with eight corners. Each axis has a colour, and each corner belongs to three
# groups of two.

# %% [markdown]
# ## Three dimensions at once
#
# Two data-parallel replicas, each a pipeline of two stages, each stage split over two
# tensor ranks: that takes three wrappers. You have seen the first. The second hands this
# rank's layers to lesson 15's `Pipeline`, and the third deals rows as yours does, but
# averages lesson 17a's flat gradients inside `update`:

# %%
show(strategy_wrappers.pipeline_parallel)
show(strategy_wrappers.sharded_state)

# %% [markdown]
# No wrapper knows what the others do: each uses only the model that it finds, and the
# functions of the wrappers inside it. ZeRO-1 in place of DDP is one word:
# `sharded_state(ZeRO1)`. Context parallel deals positions:
# `sharded_state(ReplicatedState, deal_positions)`. Not all fit together: `ddp_ours` would
# replace the pipeline's `backward`, and our context parallel takes all ranks. With ZeRO-3,
# every micro-batch of a pipeline would gather all layers again.

# %% [markdown]
# On the rung `tensor`, a rank sent 131,072 bytes in eight all-reduces.

# %%
guess("20a-three", None, "Bytes to the tensor group, on 2 x 2 x 2?", "bytes")

# %%
from parallel_by_hand.capstone.simulated_rung import simulated_bytes

by_stage = simulated_bytes("2 x 2 x 2")
print("lesson 19's simulator, a rank of each stage:", *by_stage, sep="\n  ")
reveal("20a-three", by_stage[0]["tensor"], computed=True)

# %% [markdown]
# It sends a quarter: half of the rows, because of data parallel, and half of the
# blocks, because of the pipeline. Data parallel sends the gradients of a stage's half
# layers only. **On this mesh every dimension sends less than it would alone.** Now the
# last three rungs:

# %%
last = ["data x tensor", "data x pipeline", "2 x 2 x 2"]
ladder += print_ladder(climb_predicted(name, trail) for name in last)

# %% figure="the_ladder"
from lessons.props.the_ladder import draw_ladder

seen = [one for one in ladder if one.memory_is_seen and one.messages_are_seen]
draw_ladder(seen)

# %% [markdown]
# The figure leaves out torch's DDP. The black edge is the prediction. On this model
# activations are the largest of the four parts. ZeRO leaves them alone, tensor parallel
# halves those inside its pairs of layers, and 1F1B keeps few micro-batches at a time.
# Context parallel keeps everyone's keys and values instead of scores: with 16 positions
# that is more than DDP keeps, with thousands far less. **2 × 2 × 2 holds less than any
# other rung.**
#
# Here is lesson 19's simulator beside what the first rank of each rung has counted:

# %%
from parallel_by_hand.capstone.simulated_rung import print_beside_counted

print_beside_counted(ladder)

# %% [markdown]
# **State and bubble are the same, and so are the bytes sent** in the tables above,
# where we have counted them. The counted states of ZeRO-3 and hybrid include the
# borrowed layer. The activations miss by up to 15 %: lesson 16b's formula has bytes for
# dropout, which this model does not use, and none for embedding, head and loss.

# %% [markdown] tags=["instructor"]
# ## A rung for experts: 3 minutes
#
# Ask before the cell: what must one know to predict the bytes? Only who visits whom, and
# one process can say it.
#
# When late: leave this section out; nothing else needs it.

# %% [markdown]
# ## A rung for experts
#
# Lesson 16d's experts make another model, with a first rung of its own: four experts
# replace each block's MLP, and a token visits two. Each of two ranks has half of the
# rows and of each block's experts. Shared gradients are averaged; an expert has seen
# both ranks' tokens, so its gradient is halved.
#
# What a rank sends depends on the text. The trail holds the model before the counted
# step, so one forward pass says which choices cross to the other rank.

# %%
from parallel_by_hand.capstone import experts_rung

show(experts_rung.expert_parallel)
_, trail_of_experts = climb_first(steps=5, size=experts_rung.EXPERTS_MODEL)
print("bytes sent, and of state:", experts_rung.predict_experts(trail_of_experts))
ranks = experts_rung.climb_experts(trail_of_experts)
print("counted on both ranks:   ", *((r.cost.sent, r.cost.state) for r in ranks))
print("equal within 1e-05:", all(gap <= 1e-5 for rank in ranks for gap in rank.gaps))

# %% [markdown]
# **The routers of one process predict every byte that two ranks of experts send.** A
# choice that crosses moves a row, an answer and their gradients; each rank sends two of
# the four. The rest is shared gradients and counts. Activations are not predicted.

# %% [markdown] tags=["instructor"]
# ## Which dimension inside: 2 minutes
#
# Ask: of the three links of a GPU, which is fast? Which ranks should be its neighbours?

# %% [markdown]
# ## Exercise 2: which dimension inside the node
#
# Links within a node are faster than those between nodes. The mesh's *last* dimension
# counts fastest, and each node has the next `per_node` ranks. A dimension is **inside**
# if each of its groups lies in one node.
#
# Write `order_of_mesh(ranks, sent, per_node)`. By name, `ranks` has the size of each
# dimension, `sent` the bytes that a rank sends in it. Return the names, outermost first,
# so that dimensions that are not inside send as little as possible.
#
# By hand first: dimensions data, tensor and pipeline, of two ranks each, send 30, 40 and
# 8 bytes. Which orders are best for nodes of two ranks, and of four?
# <!-- exercise: 20a-inside -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many ranks lie between the first and the last rank of a group of the innermost
# dimension, and of the one around it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# A group reaches over a block of ranks: its own size times the sizes of all dimensions
# inside it. It stays in a node if such blocks fill a node evenly. Try all orders.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For an order, go through `reversed(order)` and multiply `block *= ranks[name]`. If
# `per_node % block` is not 0, add `sent[name]`. Take the `min` over
# `itertools.permutations(ranks)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, which dimension inside: 10 minutes


# %% exercise="20a-inside"
from itertools import permutations


def order_of_mesh(ranks, sent, per_node) -> list[str]:
    """The dimensions, outermost first: as few bytes as possible leave the nodes."""

    ### BEGIN SOLUTION
    def bytes_between_nodes(order):
        block, total = 1, 0
        for name in reversed(order):
            block *= ranks[name]
            if per_node % block:
                total += sent[name]
        return total

    return list(min(permutations(ranks), key=bytes_between_nodes))
    ### END SOLUTION


# %%
check("20a-inside", order_of_mesh)

# %% [markdown] tags=["why"]
# <!-- why: 20a-inside -->
# Why it works: a group of a dimension reaches over a block of consecutive ranks, and all
# blocks are equally long. They stay inside nodes exactly if their length divides `per_node`:
# blocks of four in nodes of six do not, since the second one lies in two nodes. There are so
# few dimensions that all orders can be tried.
#
# By hand: with two ranks in a node, one dimension fits. Tensor saves 40 bytes, so it is innermost:
# data, pipeline, tensor or pipeline, data, tensor. With four ranks, two dimensions fit: data and
# tensor, in either order, with pipeline outermost; 8 bytes leave the node.

# %% [markdown]
# On our mesh a rank of the first stage sends 38,080 bytes to its data group, 32,768 to
# its tensor group and 8,192 along the pipeline: in nodes of two ranks, data parallel
# would be inside. Lesson 19a's large models send far more activations than gradients: so
# there tensor parallel stays inside. A pipeline sends least in both. Megatron-LM puts its
# stages outermost, Llama 3 data.

# %% [markdown] tags=["instructor"]
# ## Clipping on a mesh: 1 minute
#
# One question is enough: whose squares may be added, and how often?

# %% [markdown]
# ## Clipping on a mesh
#
# Clipping, as in lesson 17a, needs the length of the whole gradient. On a mesh of data ×
# tensor:
#
# | a gradient | its tensor ranks hold | its data ranks hold |
# |---|---|---|
# | whose name is in `split` | another part each | copies |
# | any other | copies | copies |

# %% [markdown]
# ## Exercise 3: clip on a mesh
#
# Write `clip_on_mesh(gradients, split, mesh, longest)`. `gradients` are this rank's, by
# name; `mesh["tensor"].get_group()` is its tensor group. If the whole gradient, each
# number counted once, is longer than `longest`, multiply each tensor in place by
# `longest` / length. Return the length before clipping.
#
# By hand first: "norm" is [4] everywhere; "wide", which is split, is [3] on the first rank of
# each tensor group and [0] on the second. What is the length?
# <!-- exercise: 20a-clip -->
#
# <details><summary>Hint 1: a question</summary>
#
# If you add up all squares of all ranks, how often has each number been counted?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Add up two sums apart: squares of what is split, and squares of what is whole. Only one of
# them has to travel.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `parts` sums `g.square().sum()` over the gradients whose name is in `split`, `whole` over the
# others. All-reduce `parts` over the tensor group; the length is `(parts + whole).sqrt()`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, clip on a mesh: 15 minutes


# %% exercise="20a-clip"
def clip_on_mesh(gradients, split, mesh, longest) -> float:
    """The length of the whole gradient, which is clipped to `longest`."""
    ### BEGIN SOLUTION
    squares = torch.zeros(2, dtype=torch.float64, device=mesh.device_type)
    for name, gradient in gradients.items():
        squares[0 if name in split else 1] += gradient.square().sum()
    dist.all_reduce(squares[:1], group=mesh["tensor"].get_group())
    length = squares.sum().sqrt().item()
    if length > longest:
        for gradient in gradients.values():
            gradient.mul_(longest / length)
    return length
    ### END SOLUTION


# %%
check("20a-clip", clip_on_mesh)

# %% [markdown] tags=["why"]
# <!-- why: 20a-clip -->
# Why it works: each number must be counted once. Adding over the tensor group counts
# split gradients once. Each rank counts whole gradients by itself. Over data nothing is
# added: those ranks hold copies. All get the same length, so all multiply by the same
# number.
#
# By hand: the parts are 9 and 0, with the sum 9; the whole is 16. The length is 5. Adding up
# everything over a tensor group would give $\sqrt{9 + 16 + 16}$, about 6.4.

# %% [markdown] tags=["instructor"]
# ## What does not match: 4 minutes
#
# Before the cell: let the class sort the four by size. Dropout is often thought harmless, for "it is
# random anyway".

# %% [markdown]
# ## What really does not match
#
# Some training runs change when they are split, and averaging gradients does not restore
# them. For dropout and batch norm we compare one process with two replicas; the other two
# lines compare one process with and without the change. Each number is the largest
# difference of any parameter, over 20 steps in 32 bits.

# %%
from lessons.props.the_ladder import UNEQUAL, gap_of_row

for name in UNEQUAL:
    gap = gap_of_row(name)
    print(f"{name:<34}", "below 1e-05" if gap < 1e-5 else f"{gap:.0e}")

# %% [markdown]
# Another order of sums is rounding. The others are different training runs. Two replicas
# with dropout draw other masks than one process. *Batch norm* takes mean and variance
# from a replica's own rows. And an update with the gradient of the step before, as if
# workers did not wait, is lesson 12a's stale gradient; one process imitates it. **They
# may train as well; they do not train the same.**

# %% [markdown] tags=["instructor"]
# ## A script, and the real library: 3 minutes
#
# Open torchtitan's configuration beside our strategies, if there is a network: the same
# words, in the same order.

# %% [markdown]
# ## A script of your own
#
# Data × tensor parallel with nothing but torch. The cell starts it as a group of one;
# `torchrun` starts four:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 4 demos/capstone/own_two_dimensions.py --tensor 2 --save model.pt
# ```

# %%
from demos.capstone.own_two_dimensions import train_on_mesh
from sidebyside import run_demo

show(train_on_mesh)
run_demo("capstone/own_two_dimensions.py")

# %% [markdown]
# **torchtitan** is a library that does this for real models: PyTorch's own trainer, in
# which each strategy is a function that changes the model along dimensions of a `DeviceMesh`.
#
# | | the mesh of 2 × 2 × 2 |
# |---|---|
# | torchtitan | `--parallelism.data_parallel_shard_degree 2 --parallelism.tensor_parallel_degree 2 --parallelism.pipeline_parallel_degree 2`; its data ranks hold shards, and with a pipeline keep layers gathered until backward |
# | Megatron-LM | `--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2`; data is what remains |
# | DeepSpeed | `PipelineModule(topology=PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=2))` |
# | JAX | `jax.make_mesh((2, 2, 2), ("data", "pipeline", "tensor"))` and a `PartitionSpec` for each array; the pipeline's schedule is yours to write |

# %% [markdown]
# ## What we saw
#
# * One trainer, with a wrapper for each dimension of a mesh, equals one process after
#   every step. What a rank sends and holds can be predicted to the byte.
# * Dropout, batch norm and stale gradients make another training run, and we know by how much.
#
# **The scorecard**, for two ranks or 2 × 2 × 2, with $\Psi$ parameters and $A$ bytes of activations between two layers:
#
# | | data, DDP | tensor | pipeline, 1F1B, 4 micro-batches | 2 × 2 × 2 |
# |---|---|---|---|---|
# | equal to one process | up to rounding | up to rounding | up to rounding | up to rounding |
# | bytes each rank sends per step | $4\Psi$ | $4A$ for each block | $A$ | a quarter of tensor's, half of the pipeline's, about a third of data's |
# | memory: parameters, gradients, optimiser | whole | a half, and what is whole | a stage | half a stage, and what is whole |
# | memory: activations | those of its rows | some whole, some halved | those of 2 micro-batches, or of 1 | of few rows, half a stage |
# | idle share, with equal stages and without messages | 0 | 0 | 20 % | 20 % |
# | if one rank dies | the training stops; another has a copy | back to a checkpoint | back to a checkpoint | the training stops; its replica has a copy |

# %% [markdown]
# In a terminal, `python demos/capstone/ladder.py --rungs all --steps 20` climbs all eighteen
# rungs.
#
# ## Next
#
# The model has seen five batches. What does it write after longer training, how good is
# that, and how fast can *your* machine get there? Lesson 20b trains it, under any of
# these strategies.
