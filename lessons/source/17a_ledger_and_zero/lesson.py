# ---
# title: 17a Sharding the training state: ledger and ZeRO
# question: Every rank of data parallel holds all parameters, gradients and optimiser state. What if each keeps a part?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 17a. Sharding the training state: ledger and ZeRO
#
# Lessons 14 to 16 split a model that was too large, and paid with messages in the
# middle of forward and backward. Data parallel keeps the model whole, and that wastes
# memory: all ranks hold the same. Here every rank keeps a part of it, and each step
# stays the same, up to rounding.
#
# *You will be able to* say what each byte of training is for, in 32 and in 16 bits; to
# work out what fits on a device; to write ZeRO-1; and to clip a gradient that no rank holds
# whole.
#
# *Before this:* lessons 10a, 10b, 11b and 14a. *Time:* {reading} minutes, and 30 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## The ledger: 5 minutes
#
# Ask before the table: which columns shrink when a second rank joins? Write the answers
# down; most people expect all of them to.
#
# When late: show the table only.

# %% [markdown]
# ## The ledger
#
# A network of six layers learns the digits with Adam, an optimiser that keeps two
# running averages for each parameter: one of its gradients, one of their squares. One,
# two and four ranks train it data-parallel, and divide each batch of 64 images among
# them. We count the bytes of rank 0:

# %%
from parallel_by_hand.sharding.measured_ledger import measure_digits, print_state_table
from sidebyside import run_ranks

rows = {n: run_ranks(measure_digits, "DDP", world_size=n) for n in (1, 2, 4)}
print_state_table({f"ranks: {n}": found[:1] for n, found in rows.items()})

# %% [markdown]
# This table is the **ledger** of a training run: the bytes that a rank holds, each
# column at its peak. *Buffers* receive pieces from other ranks, each an $N$-th of the
# parameters. The ledger counts the memory behind the tensors, and shared memory once:

# %%
from parallel_by_hand.sharding.ledger import bytes_behind
from sidebyside import show

show(bytes_behind)

# %% [markdown]
# Only activations and the buffer shrink here: each rank has fewer images, and a piece
# is smaller. **Parameters, gradients and optimiser state stay as they are, however many
# ranks there are**, up to a few bytes. These three are the **training state**. In
# float32 they take 4 + 4 + 8 bytes for each parameter. Could they be smaller?

# %% [markdown] tags=["instructor"]
# ## Sixteen bits: 10 minutes
#
# Draw a ruler with 256 marks between 1 and 2. A step of a thousandth ends between two marks and
# goes back to where it came from. Then ask what the optimiser needs: a finer ruler.
#
# When late: tell float16's story, and skip its cell.

# %% [markdown]
# ## Sixteen bits
#
# GPUs multiply matrices several times as fast in 16 bits. *bfloat16* keeps the range of
# float32 and has fewer digits: the next number after 1 is 1.0078. A weight of 1 gets a
# thousand updates of 0.001 each. What is it afterwards, in bfloat16?

# %%
from sidebyside import guess

guess("17a-thousand", None, "1, plus 0.001 a thousand times, in bfloat16?", "")

# %%
import torch

from sidebyside import reveal

weight = torch.tensor(1.0, dtype=torch.bfloat16)
for _ in range(1000):
    weight += 0.001
reveal("17a-thousand", weight.item(), computed=True)

# %% [markdown]
# Each sum is rounded to the nearest bfloat16, which is 1 again. So the optimiser
# updates a **master copy** in float32, and after each step the weights are rounded from
# it. Forward and backward compute with 16 bits. This is **mixed precision**. What does
# training lose without the copy?

# %%
from parallel_by_hand.sharding.sixteen_bits import FORMATS, train_in_format

for name in ("float32", "bfloat16, master copy", "bfloat16 alone"):
    [found] = run_ranks(train_in_format, FORMATS[name], world_size=1)
    print(f"{name:<22} loss {found.loss:.1f}", end=", ")
    print(f"{found.unchanged:.0%} of the weights unchanged by the last update")

# %% [markdown]
# A smaller network learned for ten epochs with a small learning rate, 0.0003. **In this
# run, bfloat16 with a master copy learns what float32 learns, and bfloat16 alone learns
# less**: most updates are lost. Most of the weights that float32 leaves unchanged never
# have a gradient, for instance where a pixel is always 0.

# %% [markdown]
# *float16* has more digits than bfloat16 and less range: numbers below 0.00000003
# become 0. Gradients can be that small, for instance when the loss is divided by the
# size of a huge batch. Below, each batch pretends to be one part of 65,536. **Loss
# scaling** multiplies the loss by $2^{16}$ before backward, and divides the gradients
# in float32:

# %%
for name in ("float16, master copy", "float16, loss scaled", "bfloat16, master copy"):
    [found] = run_ranks(train_in_format, FORMATS[name], 2**16, world_size=1)
    print(f"{name:<22} loss {found.loss:.1f}, gradients that are 0: {found.zeros:.0%}")

# %% [markdown]
# **Without scaling, nine of ten gradients of this float16 run are 0, and it learns next
# to nothing.** bfloat16 needs no scaling here. In torch, `torch.amp.GradScaler` scales,
# skips a step whose gradients overflow, and then halves the scale. `torch.autocast`
# computes products in 16 bits, and leaves parameters, their gradients and Adam's
# averages in float32.

# %% [markdown]
# In our scheme, parameters and gradients have half the bits. How many bytes of state does each
# parameter need with Adam?

# %%
guess("17a-mixed", None, "Bytes of training state for each parameter?", "bytes")

# %%
from parallel_by_hand.sharding.ledger import MIXED

state, _ = run_ranks(measure_digits, "DDP", torch.bfloat16)[0]
numbers = state.parameters // 2
for part in MIXED._fields:
    print(f"{part:<11} {getattr(state, part) / numbers:.1f} bytes each")
reveal("17a-mixed", MIXED.total, computed=True)

# %% [markdown]
# As many as before. The optimiser holds 4 bytes for the copy and 4 for each average:
# that is the ZeRO paper's **K = 12**, beside 2 for the parameter and 2 for the
# gradient. Mixed precision saves time and activations, not training state.

# %% [markdown] tags=["instructor"]
# ## Which rank needs what: 3 minutes
#
# Ask of each kind of bytes: when does a rank need all of it? Optimiser: never. Gradients:
# never, once they are summed up. Parameters: in forward and backward.

# %% [markdown]
# ## Which rank needs what
#
# Of $\Psi$ parameters, each of $N$ ranks could keep a *shard*, $\Psi/N$ of them, with
# all that belongs to it. **ZeRO**, of Rajbhandari and others, does so in three stages,
# *ZeRO-1*, *ZeRO-2* and *ZeRO-3*. Each of them shards one thing more:
#
# | | parameters | gradients | optimiser |
# |---|---|---|---|
# | DDP, stage 0 | whole | whole | whole |
# | ZeRO-1 | whole | whole | shard |
# | ZeRO-2 | whole | shard | shard |
# | ZeRO-3 | shard | shard | shard |

# %% [markdown]
# ## Exercise 1: which stage fits
#
# Write `smallest_stage(numbers, ranks, activations, budget)`: the smallest stage, 0 to
# 3, with which training fits on each device, or `None` if none does. There are
# `numbers` parameters, a multiple of `ranks`, trained in mixed precision with Adam.
# Each rank also holds `activations` bytes in any stage. Training fits if it takes at
# most `budget` bytes.
#
# By hand first: 8 parameters, 4 ranks, 10 bytes of activations. How many bytes does
# each stage need, and which is the smallest for 60 bytes?
# <!-- exercise: 17a-stage -->
#
# <details><summary>Hint 1: a question</summary>
#
# What does a rank hold of the optimiser in stage 1, and what of the gradients?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Begin with three sizes: 2, 2 and 12 times `numbers`. Each stage divides one more of them
# by `ranks`, from the right to the left.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `whole = [2 * numbers, 2 * numbers, 12 * numbers]`. In stage s the last s
# of them are divided by `ranks`. Add the activations, and return the first s that fits.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, which stage fits: 10 minutes


# %% exercise="17a-stage"
from sidebyside import forget, hint, progress, solution


def smallest_stage(numbers, ranks, activations, budget) -> int | None:
    """The first of the stages 0 to 3 that fits into `budget` bytes, or None."""
    ### BEGIN SOLUTION
    whole = [2 * numbers, 2 * numbers, 12 * numbers]
    for stage in range(4):
        state = sum(whole[: 3 - stage]) + sum(whole[3 - stage :]) // ranks
        if state + activations <= budget:
            return stage
    return None
    ### END SOLUTION


# %%
from sidebyside import check

check("17a-stage", smallest_stage)

# %% [markdown] tags=["why"]
# <!-- why: 17a-stage -->
# Why it works: the whole state is 2 + 2 + 12 bytes for each parameter, and each stage
# divides one more of these by the number of ranks: 12 first, then 2, then 2. Activations
# come from a rank's own samples, so no stage touches them.
#
# By hand: the state needs 16 · 8 = 128 bytes in stage 0; 16 + 16 + 24 = 56 in stage 1;
# 16 + 4 + 24 = 44 in stage 2; 4 + 4 + 24 = 32 in stage 3. With 10 bytes of activations,
# stage 2 is the first within 60: it needs 54.

# %% [markdown] tags=["instructor"]
# ## The table of the paper: 2 minutes
#
# Read one line aloud, and ask what a fourth column for "N without end" would say: 4, 2
# and 0 bytes for each parameter.

# %% [markdown]
# ## The table of the paper
#
# The ZeRO paper's Table 1 lists GB on each rank for three models and six numbers of
# ranks. Our ledger's formula gives all 54 numbers:

# %%
from parallel_by_hand.sharding.ledger_pictures import PUBLISHED, row_of_the_paper

for model, published in PUBLISHED.items():
    print(f"{model}: ranks, GB in ZeRO-1, 2 and 3")
    for ranks, row in published.items():
        ours = row_of_the_paper(model, ranks)
        print(f"{ranks:6}" + "".join(f"{number:>7}" for number in ours), ours == row)

# %% [markdown]
# And its Figure 1: 7.5 billion parameters on 64 ranks, $120 \to 31.4 \to 16.6 \to 1.9$ GB.
# **With Adam in mixed precision the optimiser is three quarters of the state, so the first
# stage saves most.** Try a model of your own: how many ranks does it need on your card?
# The room below is the data sheet's; activations need some of it.

# %%
from parallel_by_hand.sharding.touch_ledger import touch_ledger

touch_ledger(7.5, ranks=64)

# %% [markdown] tags=["instructor"]
# ## ZeRO-1: 5 minutes
#
# Let four people be ranks, with a strip of paper in four parts. Who adds up which part?
# Who updates it? Who needs the result? The two halves of the ring come by themselves.

# %% [markdown]
# ## ZeRO-1: each updates its part
#
# All parameters lie in one flat tensor, cut into $N$ equal shards. *Padding*, a few
# zeros at the end, fills the last one. Lesson 10b's ring all-reduce has two halves: a
# reduce-scatter, then an all-gather. ZeRO-1 puts the update between them:
#
# 1. Reduce-scatter the gradients: each rank gets the sum of its own shard.
# 2. Each rank updates its shard of the parameters, the only one for which it keeps
#    Adam's averages.
# 3. All-gather the parameters.

# %% [markdown]
# ## Exercise 2: the sharded update
#
# All ranks call `sharded_update(parameters, gradient, momentum, lr)`:
# $m \leftarrow 0.9\,m + g$, then $p \leftarrow p - lr \cdot m$, where $g$ is the *mean*
# of all ranks' gradients.
#
# | | length | afterwards |
# |---|---|---|
# | `parameters`, equal on all ranks | $\Psi$ | updated in place |
# | `gradient`, this rank's own | $\Psi$ | may be overwritten |
# | `momentum`, this rank's shard | $\Psi/N$ | updated in place |
#
# Use `own_shard(flat)`, a view; `ring_reduce_scatter(flat)`, this rank's shard of the
# *sum*; and `ring_all_gather(flat)`, which fills in all shards.
#
# By hand first: parameters [10, 20], momentum 0, lr = 1, gradients [1, 2] and [3, 6].
# What does each of the two ranks hold afterwards?
# <!-- exercise: 17a-update -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which part of the gradients' sum does this rank need, and which part of the parameters
# may it change?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Between the two rings everything has the length of a shard: the summed gradient, the
# momentum, and `own_shard(parameters)`, a view that is changed in place.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Divide what `ring_reduce_scatter(gradient)` returns by the number of ranks. Update
# `momentum` in place by `mul_` and `add_`, then `own_shard(parameters)` by `sub_`, and
# gather.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the sharded update: 20 minutes


# %% exercise="17a-update"
import torch.distributed as dist

from parallel_by_hand.sharding.flat_shards import (
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)


def sharded_update(parameters, gradient, momentum, lr) -> None:
    """Update this rank's shard, and gather all shards."""
    ### BEGIN SOLUTION
    shard = ring_reduce_scatter(gradient) / dist.get_world_size()
    momentum.mul_(0.9).add_(shard)
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)
    ### END SOLUTION


# %%
check("17a-update", sharded_update)

# %% [markdown] tags=["why"]
# <!-- why: 17a-update -->
# Why it works: SGD, momentum and Adam treat each number by itself. So a shard can be
# updated by the rank that has its gradient and its state, and no other rank needs that
# state.
#
# By hand: the mean gradient is [2, 4]. Rank 0 keeps momentum [2] and makes 10 − 2 = 8;
# rank 1 keeps [4] and makes 20 − 4 = 16. After the all-gather both hold [8, 16]. Each has
# sent one number in each half: 2, as many as an all-reduce of two numbers takes.

# %% [markdown] tags=["instructor"]
# ## The same numbers, the same bytes: 6 minutes
#
# Before the first cell: are the results equal in every bit? Ask for a reason. A sum of
# two is the same in either order; a sum of three is not.

# %% [markdown]
# ## The same numbers
#
# `ZeRO1` does that with any optimiser that treats each number by itself. `backward`
# adds to one flat gradient, of which each parameter's `.grad` is a view. The optimiser
# updates `masters`, and pieces arrive in `buffers`:

# %%
from parallel_by_hand.sharding.zero_1 import ZeRO1

show(ZeRO1.step)

# %% [markdown]
# After each of ten steps of Adam we compare it with lesson 11b's DDP, and so we do with
# ZeRO-2 and the library's ZeRO-1, `ZeroRedundancyOptimizer`.


# %%
from torch.nn.utils import parameters_to_vector as flat_numbers

from parallel_by_hand.sharding.beside_ddp import networks_trained_side_by_side


def largest_differences() -> dict[str, float]:
    differences = {"ZeRO-1": 0.0, "ZeRO-2": 0.0, "library": 0.0}
    for networks in networks_trained_side_by_side(steps=10):
        flat = {n: flat_numbers(m.parameters()) for n, m in networks.items()}
        for name, so_far in differences.items():
            now = (flat[name] - flat["DDP"]).abs().max().item()
            differences[name] = torch.tensor([so_far, now]).max().item()
    return differences


for name, difference in run_ranks(largest_differences)[0].items():
    print(f"2 ranks, {name}: every bit as in DDP {difference == 0}")
for name, difference in run_ranks(largest_differences, world_size=3)[0].items():
    print(f"3 ranks, {name}: within 1e-5 of DDP {difference < 1e-5}")

# %% [markdown]
# **With two ranks, ZeRO-1 and ZeRO-2 equal DDP after every step, bit for bit**: a sum
# of two numbers is the same in either order. With more ranks, each algorithm adds in
# its own order, and each step agrees up to rounding. Over many steps such differences
# can grow.

# %% [markdown]
# ## The same bytes
#
# Every rank should send $(N-1)/N$ of the tensor in each half, $2\Psi$ numbers in all for
# large $N$, as DDP does. The meter counts the messages of one step on four ranks:

# %%
from parallel_by_hand.sharding.measured_ledger import BUILT

numbers, N = 21_452, 4  # two numbers are padding
print(f"2 (N-1)/N of the parameters: {2 * (N - 1) * numbers // N * 4} bytes")
for strategy in BUILT:
    found = run_ranks(measure_digits, strategy, world_size=N)
    print(f"{strategy:<6} sends {sorted({rank.sent for rank in found})} bytes per rank")

# %% [markdown]
# **With one backward in each step, ZeRO-1 and ZeRO-2 send what DDP sends.** They need a
# real reduce-scatter: gloo's is a whole all-reduce, twice as much.

# %% [markdown] tags=["instructor"]
# ## ZeRO-2: 6 minutes
#
# Ask when a rank needs another rank's shard of the gradient: from the moment a layer has
# computed it until it is sent. So send it soon, and free it.

# %% [markdown]
# ## ZeRO-2: gradients don't stay
#
# ZeRO-1 still holds all gradients until backward ends. ZeRO-2 sums up those of a layer
# as soon as the hooks of lesson 11b say that they are ready, keeps its shard, and frees
# the rest. Each layer is a flat tensor of its own. `carry` sums a bucket over the
# ranks, at once or while backward goes on:

# %%
from parallel_by_hand.sharding.ledger import predicted_ledger
from parallel_by_hand.sharding.measured_ledger import LAYERS, digits_activations
from parallel_by_hand.sharding.zero_2 import ZeRO2

show(ZeRO2._gradient_is_ready)
show(ZeRO2._keep_shard_under_way)
rows = {s: run_ranks(measure_digits, s, torch.bfloat16, world_size=4) for s in BUILT}
print_state_table({strategy: found[:1] for strategy, found in rows.items()})
kept = digits_activations(samples=16, size=2)
for strategy, found in rows.items():
    predicted = predicted_ledger(LAYERS, 4, strategy, MIXED, kept)
    print(strategy, "as predicted:", all(rank.ledger == predicted for rank in found))

# %% [markdown]
# **The ledger is predicted to the byte**, in mixed precision on four ranks. ZeRO-2
# holds its shards, and at the peak one layer's gradients besides, so the gain needs
# many layers. Its buffers hold the largest layer once more, packed to travel.

# %% [markdown]
# ## Timelines
#
# If a thread of its own sends the messages, backward goes on meanwhile: this is
# *overlapped*, beside ZeRO-1 and plain ZeRO-2. Four layers sleep 20 ms forward and 40
# ms backward; a slow link takes 30 ms for a layer's shards:

# %%
from parallel_by_hand.sharding.shard_timelines import step_over_slow_link
from sidebyside import Timeline, draw_timelines

drawn = {}
for way in ("ZeRO-1", "ZeRO-2", "ZeRO-2, overlapped"):
    with Timeline() as drawn[way]:
        run_ranks(step_over_slow_link, way, 30)
draw_timelines(drawn, stamp="simulated")

# %% [markdown]
# ZeRO-1 reduce-scatters once, after backward. ZeRO-2 does it after each layer, and
# backward waits; overlapped, it waits in full only for the last one. A rank that sends
# counts as busy here: by computing time, ZeRO-1 is idle for half of the step. The
# all-gather comes last in all three: lesson 17b hides that as well.

# %% [markdown] tags=["instructor"]
# ## Accumulation: 2 minutes
#
# Write "2" and "k + 1" on the board after the guess, and ask what a library could do: keep whole
# gradients while it accumulates, which is ZeRO-1's memory.

# %% [markdown]
# ## Gradient accumulation
#
# A batch of four micro-batches has four backwards and one step. ZeRO-1 adds up the
# gradients locally and sends once, like DDP with `no_sync`. ZeRO-2 keeps only its shard of
# them. By what factor does ZeRO-2 send more bytes than ZeRO-1?

# %%
guess("17a-accumulate", None, "Bytes of ZeRO-2, divided by those of ZeRO-1?", "×")

# %%
from parallel_by_hand.sharding.measured_ledger import bytes_of_accumulation

sent = {s: run_ranks(bytes_of_accumulation, s, 4)[0] for s in BUILT}
print(sent)
reveal("17a-accumulate", sent["ZeRO-2"] / sent["ZeRO-1"], computed=True)

# %% [markdown]
# Each backward of ZeRO-2 reduce-scatters, and each step gathers once: $k + 1$ halves for
# $k$ micro-batches, against 2. **Accumulation saves ZeRO-1 both halves for all
# micro-batches but one; it saves ZeRO-2 only the all-gathers.**

# %% [markdown] tags=["instructor"]
# ## Clipping: 2 minutes
#
# Pythagoras in shards: draw a right-angled triangle whose sides are on two ranks.

# %% [markdown]
# ## Exercise 3: clip across shards
#
# Many training runs *clip*: a gradient that is too long, as one vector, is shortened.
# Under ZeRO no rank has the whole vector.
#
# All ranks call `clip_shards(shards, longest)` with a list of their shards, flat
# tensors. If the whole gradient is longer than `longest`, multiply each shard in place
# by `longest` / length. Return the length before clipping, as a float. Send one number,
# by `dist.all_reduce`.
#
# By hand first: rank 0 has [3, 0], rank 1 has [0, 4], and `longest` is 1. What does
# each rank send, and what does it hold afterwards?
# <!-- exercise: 17a-clip -->
#
# <details><summary>Hint 1: a question</summary>
#
# Can the lengths of the shards be added up, or what else?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Squares of numbers can be added up in any order, over shards and over ranks. The root
# comes last.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# All-reduce `sum(shard.square().sum() for shard in shards)`, and take its root. If that
# is too long, multiply each shard in place.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, clip across shards: 15 minutes


# %% exercise="17a-clip"
def clip_shards(shards, longest) -> float:
    """The length of the whole gradient, which is clipped to `longest`."""
    ### BEGIN SOLUTION
    total = sum(shard.square().sum() for shard in shards)
    dist.all_reduce(total)
    length = total.sqrt().item()
    if length > longest:
        for shard in shards:
            shard.mul_(longest / length)
    return length
    ### END SOLUTION


# %%
check("17a-clip", clip_shards)

# %% [markdown] tags=["why"]
# <!-- why: 17a-clip -->
# Why it works: the square of a vector's length is the sum of the squares of its numbers,
# so each number is added once, wherever it lies. All ranks get the same total, come to the same
# decision and multiply by the same factor: the direction stays.
#
# By hand: rank 0 sends 9 and rank 1 sends 16. The length is 5, and the ranks hold
# [0.6, 0] and [0, 0.8].

# %% [markdown] tags=["instructor"]
# ## The block, and a script: 4 minutes
#
# Put the table beside the rows that 14 to 16 have left on the board.
#
# When late: skip the script's code.

# %% [markdown]
# ## The block, cut by state
#
# Here is the transformer block of lessons 14 to 16, with SGD and momentum, on two
# ranks. The first two lines are 14a's cut by layer; then comes the same block by state,
# each rank with half of the sequences. There rank 1 holds as much as rank 0:

# %%
from parallel_by_hand.model_parallel.transformer_block import block_cut_by_layer
from parallel_by_hand.sharding.measured_ledger import measure_block
from parallel_by_hand.sharding.sharded_block import state_of_cuts

by_layer = state_of_cuts(run_ranks(block_cut_by_layer))
by_state = {strategy: run_ranks(measure_block, strategy)[:1] for strategy in BUILT}
print_state_table({"by layer": by_layer} | by_state)

# %% [markdown]
# A cut by layer divides everything, and sends activations. A cut by state divides less
# with two ranks, sends parameters and gradients however many samples there are, and
# keeps all ranks busy. The halves of a block are two large layers, so ZeRO-2 needs more
# here than ZeRO-1.

# %% [markdown]
# ## A script of your own
#
# This script is DDP with a sharded optimiser, without this course's instruments. The
# library's optimiser gives each rank whole parameters, and sends them round by
# broadcasts after a whole all-reduce. So a rank sends one and a half times what DDP
# sends, on average. The cell runs the script on one rank; `torchrun` starts it with
# two:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/sharding/own_sharded_optimizer.py --save model.pt
# ```

# %%
from demos.sharding.own_sharded_optimizer import train_sharded
from sidebyside import run_demo

show(train_sharded)
run_demo("sharding/own_sharded_optimizer.py")

# %% [markdown]
# | | stage 1 | stage 2 |
# |---|---|---|
# | PyTorch | `ZeroRedundancyOptimizer(params, Adam, lr=...)` | `fully_shard(layer, reshard_after_forward=False)`: parameters are whole from forward to backward |
# | DeepSpeed | `"zero_optimization": {"stage": 1}` | `{"stage": 2}` |
# | Megatron-LM | `--use-distributed-optimizer` | `--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads` |
# | JAX | a `NamedSharding` of the optimiser's state | of the gradients, too |

# %% [markdown]
# ## What we saw
#
# * In data parallel, each rank holds the whole training state: with Adam 16 bytes for
#   each parameter, in float32 and in mixed precision.
# * ZeRO-1 updates between the two halves of the all-reduce, ZeRO-2 frees gradients
#   during backward.
#
# **The scorecard** of $\Psi$ parameters with Adam in mixed precision, over $N$ ranks:
#
# | | ZeRO-1 | ZeRO-2 |
# |---|---|---|
# | equal to DDP | two ranks: bit for bit; more: each step up to rounding | the same |
# | numbers each rank sends per step | $2(N-1)/N \cdot \Psi$ | $(k + 1)(N-1)/N \cdot \Psi$ with $k$ micro-batches |
# | memory: parameters, gradients | $2\Psi + 2\Psi$ bytes | $2\Psi + 2\Psi/N$, and one layer's gradients |
# | memory: buffers | a shard, $2\Psi/N$ | the largest layer, packed, and a shard of it |
# | memory: optimiser | $12\Psi/N$ bytes | $12\Psi/N$ bytes |
# | memory: activations | those of its samples | those of its samples |
# | idle share | the time of both halves | of the last layer's scatter and of the gather, if overlapped |
# | if one rank dies | its shard of the optimiser is gone: back to a checkpoint | the same |

# %% [markdown]
# In a terminal, `python demos/sharding/memory_ledger.py --help` works out any transformer;
# `demos/sharding/sixteen_bits.py` and `demos/sharding/shard_timelines.py` show the rest.
#
# ## Next
#
# Parameters are still whole on every rank, 2 bytes each, however many ranks there are.
# Lesson 17b shards them too.
