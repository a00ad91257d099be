# ---
# title: 17c Sharding as it is used
# question: FSDP2 is two lines. A real trainer has ten choices around them. What does each one do, and in which order must they come?
# needs: two CPU cores, no GPU
# minutes: 80
# ---

# %% [markdown]
# # 17c. Sharding as it is used
#
# In 17b, two lines sharded a model. The scripts that train large models cut products
# over ranks, recompute, compile, shard, load weights, accumulate, clip and save, all at
# once. Here we make one choice at a time, and look at what it does to the ledger or to
# the bytes that travel.
#
# *You will be able to* put a trainer together in the right order, name the switch behind
# each kind of traffic, and find out why a sharded program still needs so much memory.
#
# *Before this:* lessons 16a, 16b, 17a and 17b. *Time:* {reading} minutes, and 35 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## The order: 7 minutes
#
# Write the five lines on cards and let people put them in order. For each pair ask: what
# breaks the other way round?
#
# When late: skip the peaks, show the equal draws.

# %% [markdown]
# ## The order
#
# Our stack has three blocks, each of a norm and an MLP, and a last layer; it learns the
# digits. This is a trainer's order:

# %%
from parallel_by_hand.sharding import stack_to_shard
from sidebyside import show

show(stack_to_shard.shard_in_order)

# %% [markdown]
# Tensor parallel comes first, because `fully_shard` cuts what it leaves; the other way
# round, torch 2.13 raises a `ValueError`. Recomputation runs inside the unit, whose
# parameters are gathered by then. The compiler sees everything within the block. After
# this come the weights, and then the optimiser, which must be given the shards.

# %% [markdown]
# All this can be done on the *meta device*, where tensors have shapes and no numbers.
# `to_empty` then makes memory for the shards only, and rank 0 sends the weights, one
# tensor after another. What does each of four ranks hold at most? And what if each
# rank draws its own shard instead, after `torch.manual_seed(0)`?

# %%
from lessons.props import sharding_as_used
from sidebyside import run_ranks

build = stack_to_shard.bytes_to_build
found = run_ranks(lambda: [build(on_meta=False), build(on_meta=True)], world_size=4)
for place, (peak, same) in zip(("whole", "on meta"), found[0], strict=True):
    size = f"{peak / 401_192:.2f} ×"
    print(f"{place:<8} then shards: at most {size} the model, the same weights: {same}")
equal = run_ranks(sharding_as_used.shards_after_own_draw)
print("both ranks have drawn the same shard:", all(equal))

# %% [markdown]
# The whole model has 401,192 bytes, and stands beside its first shards. **With the meta
# device, only rank 0, which sends the weights, ever holds all of it.** Each rank makes
# its quarter, and has the largest matrix twice while that arrives. Rank 0's whole copy is
# not counted.
#
# Ranks that draw into their own shards draw the same numbers, so rows of each matrix are
# repeated. (Random operations on a DTensor as a whole repeat none on GPUs, but do so on
# the CPU.) With another seed for each rank, the start depends on how many ranks there
# are. Rank 0's weights are the same for any number.

# %% [markdown] tags=["instructor"]
# ## Sixteen bits: 9 minutes
#
# Ask where the master copy is. Nobody has made one: the shard is it.
#
# When late: skip the scaler.

# %% [markdown]
# ## Sixteen bits
#
# `MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)` rounds
# each shard *before* it is gathered, and sums gradients in float32. The shards stay in
# float32, and so do their gradients and Adam's averages. **The shard is the master
# copy** of 17a. A step has two kinds of messages: gathers of parameters, forward and
# backward, and one reduce-scatter of gradients. What becomes of the bytes?

# %%
from sidebyside import guess

guess("17c-policy", None, "Bytes sent with that policy, divided by float32's?", "×")

# %%
from parallel_by_hand.sharding.stack_to_shard import BF16, BF16_SUMS
from sidebyside import reveal


def in_precisions() -> dict:
    measure = sharding_as_used.measure_traffic
    return {
        "float32": measure(),
        "autocast": measure(autocast=True),
        "policy": measure(policy=BF16),
        "policy, bfloat16 sums": measure(policy=BF16_SUMS),
    }


found = run_ranks(in_precisions)[0]
sharding_as_used.print_traffic(found)
sent = {way: one.sent.total() for way, one in found.items()}
reveal("17c-policy", sent["policy"] / sent["float32"], computed=True)

# %% [markdown]
# **The policy halves gathers and what is gathered; autocast halves neither.**
# `torch.autocast` rounds the inputs of products, after the gather. With
# `reduce_dtype=torch.bfloat16`, gradients are summed in bfloat16: half the bytes, but
# each sum is rounded. (Up to torch 2.14 this also happens without a `reduce_dtype`.)
# None of this changes what a rank keeps. (`whole` is the most that is gathered at a
# time: a block and the last layer.)

# %% [markdown]
# float16 needs 17a's loss scaling. `GradScaler` skips a step whose gradients overflow,
# and halves the scale. What if only the shard of rank 1 overflows? The last two lines
# show 1e-8 and 1e5 in both formats:

# %%
import torch

step = sharding_as_used.step_with_overflow
for rank, found in enumerate(run_ranks(lambda: [step(None), step(1)])):
    for (scale, updated), where in zip(found, ("no rank", "rank 1"), strict=True):
        print(f"overflow in {where}: rank {rank} has scale {scale}, {updated=}")
for dtype in (torch.float16, torch.bfloat16):
    print(dtype, *(f"{x:.2g}" for x in torch.tensor([1e-8, 1e5]).to(dtype).tolist()))

# %% [markdown]
# **On one mesh all ranks skip the step, or none does**: the gradients are DTensors, so
# their ranks all-reduce one number, which says whether any of them has seen an overflow.
# With data × tensor, torch 2.13 asks only the ranks of the first gradient's mesh:
# **some ranks skip the step, and others take it.** bfloat16 needs no scaler: it has
# nearly float32's range, so small gradients do not become 0, nor large ones infinite.

# %% [markdown]
# ## Exercise 1: to the byte
#
# FSDP2 cuts each parameter by rows: rank $r$ keeps rows $r \cdot c$ to
# $(r+1) \cdot c - 1$, where $c$ is rows / ranks, rounded up. The last ranks have fewer
# rows, or none. A gathered parameter has $c$ rows for each rank.
#
# Write `unit_bytes(shapes, ranks, rank)` for a unit of parameters with these shapes,
# under the first policy above, with Adam. Return two numbers: the bytes that `rank`
# keeps in parameters, gradients and averages, and the bytes of the gathered unit.
#
# By hand first: `[(5, 3), (5,)]`, two ranks, rank 1.
# <!-- exercise: 17c-bytes -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of the tensors are in float32, and which in bfloat16?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# For each number that a rank keeps: 4 bytes for the shard, 4 for its gradient, 8 for two
# averages. For each number that is gathered: 2.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# With `c = -(-rows // ranks)`, this rank has `min(c, max(0, rows - rank * c))` rows, and
# the gathered parameter `c * ranks`. Multiply both by the product of the other sizes.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, to the byte: 10 minutes
#
# Expected: parameters that are kept in bfloat16, or a master copy beside them; rows
# rounded down; a gathered unit without its padding. 17a's 2 + 2 + 12 is 16, too.

# %% exercise="17c-bytes"
from math import prod

from sidebyside import forget, hint, progress, solution


def unit_bytes(shapes: list[tuple[int, ...]], ranks: int, rank: int) -> tuple[int, int]:
    """Bytes that `rank` keeps of the unit, and bytes of the whole unit, gathered."""
    ### BEGIN SOLUTION
    kept = gathered = 0
    for rows, *others in shapes:
        each = -(-rows // ranks)
        mine = min(each, max(0, rows - rank * each))
        kept += (4 + 4 + 8) * mine * prod(others)
        gathered += 2 * each * ranks * prod(others)
    return kept, gathered
    ### END SOLUTION


# %%
from sidebyside import check

check("17c-bytes", unit_bytes)

# %% [markdown] tags=["why"]
# <!-- why: 17c-bytes -->
# Why it works: the optimiser updates float32 shards, so nothing of 16 bits is kept at
# all. 16 bits exist only while a unit is whole.
#
# By hand: c = 3, so rank 1 keeps 2 rows of each: 6 + 2 numbers of 16 bytes, 128 in all.
# Gathered, there are 6 rows: 18 + 6 numbers of 2 bytes, 48 in all.

# %% [markdown] tags=["instructor"]
# ## Switches: 8 minutes
#
# Draw four micro-batches as F B F B F B F B and let people mark where a block must be
# gathered if it is freed after each F, after each B, after both.
#
# When late: only the picture.

# %% [markdown]
# ## Which switch for which traffic
#
# To *reshard* a unit is to free what was gathered: only the shards are left. FSDP2 has
# three switches for a step of several micro-batches. A model passes them on to its units:
#
# | | on, as by default | off |
# |---|---|---|
# | `set_reshard_after_forward` | freed after forward | stays whole till backward |
# | `set_reshard_after_backward` | freed after backward | stays whole till the next forward |
# | `set_requires_gradient_sync` | reduce-scatter in each backward | gradients stay whole, and add up |
#
# With four micro-batches, a block is gathered eight times. How often is it gathered if
# only the second switch is off, until the last micro-batch?

# %%
guess("17c-gathers", None, "Gathers of a block in four micro-batches?")

# %%
from parallel_by_hand.sharding.reshard_switches import count_gathers

SETTINGS = {  # what is off
    "none": (False, False),
    "after backward": (False, True),
    "after forward": (True, False),
    "both": (True, True),
}
found = run_ranks(lambda: {off: count_gathers(*SETTINGS[off]) for off in SETTINGS})[0]
for off, one in found.items():
    print(f"off: {off:<15} a block {one.gathers['1']}, the root {one.gathers['root']}")
reveal("17c-gathers", found["after backward"].gathers["1"], computed=True)
entries = {off: one.entries for off, one in found.items()}
sharding_as_used.draw_whole(entries, whole=401_192)

# %% [markdown]
# **By default a block is gathered 8 times; with the second switch off 5 times, with the
# first 4 times, with both once.** The root is needed at the end of forward and at the
# beginning of backward, so `fully_shard` leaves it whole in between: 4 gathers, or 1.
# For the same reason one may keep the last block whole. Fewer gathers cost more memory.

# %% [markdown]
# One trap: the optimiser updates shards. If parameters are *still whole* after the last
# micro-batch, the next forward uses them as they are. Here is the loss of one batch in
# four steps, with both switches off all the time, and with the second one on again for
# the last backward of each step:

# %%
from parallel_by_hand.sharding.reshard_switches import losses_of_kept_parameters

of = losses_of_kept_parameters
found = run_ranks(lambda: {"freed": of(True), "kept": of(False)})[0]
for name, losses in found.items():
    print(f"{name:<5}", [round(loss, 4) for loss in losses])

# %% [markdown]
# **If parameters are never freed, forward never sees an update, and nothing complains.**

# %% [markdown]
# ## Exercise 2: with the traffic that is asked for
#
# Write `backward_of_parts(model, losses, gathers, scatters)`. `model` is sharded by
# FSDP2, with its switches on. `losses` is a list of m functions; `losses[i]()` runs the
# forward of micro-batch i and returns its loss. Call each once, in order, and its
# `backward()` before the next.
#
# In all, each block is gathered `gathers` times, which is 2m, m + 1, m or 1, and its
# gradients are reduce-scattered `scatters` times, which is m or 1. m is at least 2. The
# next step begins with parameters that have been updated.
#
# By hand first: m = 3 and 4 gathers. Which switch is off, and when?
# <!-- exercise: 17c-switches -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which of the two reshard switches belongs to which number? See
# the numbers above the picture.
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Freed after forward: only with 2m and m + 1. Freed after backward: only with 2m and m,
# and always after the last micro-batch.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `model.set_reshard_after_forward(gathers > m)`, once. Before each forward,
# `model.set_reshard_after_backward(last or gathers in (2 * m, m))` and
# `model.set_requires_gradient_sync(last or scatters == m)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, switches: 15 minutes
#
# Expected: the two reshard switches swapped, gradients never sent, and parameters that stay
# whole after the last backward: the loss of the second step gives them away.


# %% exercise="17c-switches"
def backward_of_parts(model, losses, gathers, scatters) -> None:
    """Backward of each loss, with so many gathers and reduce-scatters of each block."""
    ### BEGIN SOLUTION
    m = len(losses)
    model.set_reshard_after_forward(gathers > m)
    for part, loss in enumerate(losses):
        last = part == m - 1
        model.set_reshard_after_backward(last or gathers in (2 * m, m))
        model.set_requires_gradient_sync(last or scatters == m)
        loss().backward()
    ### END SOLUTION


# %%
check("17c-switches", backward_of_parts)

# %% [markdown] tags=["why"]
# <!-- why: 17c-switches -->
# Why it works: a block is gathered when it is used and not whole. Freed after each use,
# that is 2m times. Kept after forward, each backward finds it whole: m. Kept after
# backward, each forward but the first does: m + 1.
#
# By hand: m + 1 = 4, so the block is freed after forward and kept after the backwards of
# parts 0 and 1; after part 2 it is freed.

# %% [markdown] tags=["instructor"]
# ## Recompute and compile: 5 minutes
#
# Ask what is dear to compute and cheap to keep, and the other way round.
#
# When late: only the table.

# %% [markdown]
# ## Recompute, and compile
#
# 17b recomputed whole layers. *Selective recomputation* keeps the results of matrix
# products, which take long to compute, and computes the norm and the GELU again:

# %%
for again in ("nothing", "all", "all but products"):
    kept, products = sharding_as_used.measure_recompute(again)
    print(f"recompute {again:<17} {kept:7,} bytes kept, ", end="")
    print(f"products of {products:.2f} forwards")

# %% [markdown]
# **Selective recomputation computes no product twice.** Recomputing
# everything adds half a forward: torch stops before a block's second product, whose
# result no backward needs. The traffic does not change: a block is gathered once for its
# backward, recomputed or not.

# %% [markdown]
# `torch.compile` traces a block and gives the graph to a compiler, which fuses small
# operations. Our "compiler" only looks:

# %%
for graph in run_ranks(sharding_as_used.operations_compiled)[0]:
    print(graph)

# %% [markdown]
# Three blocks in two steps, and two graphs: blocks that are alike share theirs, and
# the first block has its own, as its input wants no gradient. **No message of FSDP2 is in
# a graph**: its hooks stay outside. (Those of tensor parallel are.) On the CPU the real
# compiler, `inductor`, needs a C++ compiler.

# %% [markdown] tags=["instructor"]
# ## Two dimensions: 7 minutes
#
# Two tables are machines, two people at each. Which groups talk across the aisle in each
# of the three ways, and what do they say?
#
# When late: only the picture.

# %% [markdown]
# ## Two machines of two ranks
#
# Four ranks share the model in three ways: sharded over all; by 17b's hybrid sharding,
# with shards within a machine and replicas across; by data × tensor, where each machine
# is a tensor group. In the first way a ring of four crosses from machine to machine
# twice. By what factor does hybrid sharding change the bytes *between* the machines?

# %%
guess("17c-between", None, "Bytes between machines, hybrid / sharded over all?", "×")

# %%
ways = "sharded", "hybrid", "data × tensor"
measure = sharding_as_used.measure_traffic
of_ranks = run_ranks(lambda: {way: measure(way) for way in ways}, world_size=4)
found = {way: [rank[way] for rank in of_ranks] for way in ways}
for way, ranks in found.items():
    print(f"{way:<14} rank 0 keeps {ranks[0].kept:7,} bytes, loss {ranks[0].loss:.4f}")
between = {way: sum(one.between for one in ranks) for way, ranks in found.items()}
reveal("17c-between", between["hybrid"] / between["sharded"], computed=True)
sharding_as_used.draw_places(found)

# %% [markdown]
# Bytes are those of rings in the order of ranks. **Hybrid sharding sends less between
# machines, more within, and keeps twice as much.** Data × tensor sends least in all, as
# each data group gathers only its half of a block. But it sends activations too: with
# ten times as many images it would send most.

# %% [markdown]
# The layer norms and the last layer lie on the data mesh, the MLPs on both dimensions.
# torch's clipping does not put them together:

# %%
said, (both, data), norm = run_ranks(sharding_as_used.clipped_norm, world_size=4)[0]
print(f"clip_grad_norm_: {said}")
print(f"{both} parameters on both dimensions, {data} on one; norm of all {norm:.4f}")

# %% [markdown]
# `clip_over_meshes` takes the norm on each mesh, adds up the squares of these norms, and
# scales all gradients by the same number. **The norm is that of one process.**

# %% [markdown] tags=["instructor"]
# ## The checkpoint: 4 minutes
#
# Ask what must be copied before the next step, and who may write while training goes on.

# %% [markdown]
# ## Saved in the background
#
# `dcp.async_save` copies the state and returns; threads write it while the next steps are
# taken. They need a process group of their own, or their messages could mix with those
# of training. Four ranks, data × tensor, save before step 3; two ranks go on from there:

# %%
import tempfile

from parallel_by_hand.sharding.background_checkpoint import train_and_save

with tempfile.TemporaryDirectory() as folder:
    whole = run_ranks(train_and_save, folder, 0, 6, 3, 2, world_size=4)[0]
    resumed = run_ranks(train_and_save, folder, 3, 6, world_size=2)[0]
print("not interrupted", [round(loss, 5) for loss in whole[3:]])
print("two ranks, on  ", [round(loss, 5) for loss in resumed])

# %% [markdown]
# **The checkpoint holds the numbers of the moment of saving, and any number of ranks can
# go on from it**, up to rounding.

# %% [markdown] tags=["instructor"]
# ## Eight bits: 5 minutes
#
# Two rulers: e5m2 is longer, e4m3 is finer. Which one for gradients, and why?
#
# When late: leave it to the reader.

# %% [markdown]
# ## Eight bits
#
# Of 8 bits, *e4m3* spends 4 on the exponent and 3 on digits, *e5m2* 5 and 2. Numbers
# are scaled, all alike or each 32 neighbours of a row by themselves, so that the largest
# one fits. Here is the error of a product of random matrices, once more with one number
# of 100,000 in them. We look at the rows without it:

# %%
from parallel_by_hand.sharding.eight_bits import EIGHT_BITS, error_of_product

for name, dtype in EIGHT_BITS.items():
    limits = torch.finfo(dtype)
    print(f"{name}: at most {limits.max:g}, after 1 comes {1 + limits.eps:g}")
torch.manual_seed(0)
x, weight = torch.randn(64, 512), torch.randn(256, 512)
ways = ("bfloat16", None), ("e5m2", None), ("e4m3", None), ("e4m3", 32)
for outlier in (False, True):
    x[0, 5] = 100_000.0 if outlier else 1.0
    print("with the outlier:" if outlier else "without:")
    for name, block in ways:
        error = error_of_product(x, weight, name, block, skip=1)
        print(f"  {name:<9} {f'blocks of {block}' if block else '':<13} {error:.4f}")

# %% [markdown]
# **With one scale for all, an outlier pushes the other numbers to the bottom of e4m3's
# range; with a scale for each block of 32, it spoils only its own block.** *Block scaling*
# is the idea of the MX formats (Rouhani and others, 2023) and of DeepSeek-V3 (2024). Eight bits
# round far more than bfloat16 in any case.

# %% [markdown]
# Fast products in 8 bits need hardware: an H100's data sheet lists twice as many
# operations per second as in 16 bits. We have not measured this. Gathers can travel in 8
# bits on any hardware; torchao does it under FSDP2 with `enable_fsdp_float8_all_gather`:

# %%
from parallel_by_hand.sharding.eight_bits import bytes_of_gather

kinds = "float32", "bfloat16", "e4m3"
found = run_ranks(lambda: {kind: bytes_of_gather(kind) for kind in kinds})[0]
for kind, (size, error) in found.items():
    print(f"{kind:<9} {size:6,} bytes sent, error {error:.4f}")

# %% [markdown]
# ## Exercise 3: why does the memory not shrink?
#
# Five programs, P to T, train our stack on two ranks, in two micro-batches. Each has
# a different one of these six faults:
#
# * `"one unit"`: only the root was given to `fully_shard`;
# * `"kept after forward"`; `"gradients held back"`; `"mixed precision"`: bfloat16 gathers;
# * `"replicas"`: the mesh has its two dimensions swapped;
# * `"optimiser first"`: the optimiser was made before the model was sharded.
#
# The table has bytes of one rank; gradients are those after the first micro-batch, and
# `whole` is the most that is gathered at a time. Assign the fault of each:
# `faults = {"P": ..., ...}`.
#
# By hand first: how many gathers does the healthy program need?
# <!-- exercise: 17c-faults -->
#
# <details><summary>Hint 1: a question</summary>
#
# In which column does each program differ from the healthy one?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Two of them gather everything at once. In one of these there are four units, in the
# other there is one: count the gathers.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Everything twice as large, and no gather: nothing was cut. No state in the optimiser:
# its parameters have never had a gradient.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, faults: 10 minutes
#
# Expected: P and S are mixed up, and so are R and T: both hold many parameters.

# %%
PROGRAMS = "healthy", "P", "Q", "R", "S", "T"
keep = sharding_as_used.keep_in_step
kept = run_ranks(lambda: {program: keep(program) for program in PROGRAMS})[0]
sharding_as_used.print_kept(kept)

# %% exercise="17c-faults"
faults = ...
### BEGIN SOLUTION
faults = {
    "P": "one unit",
    "Q": "gradients held back",
    "R": "replicas",
    "S": "kept after forward",
    "T": "optimiser first",
}
### END SOLUTION

# %%
check("17c-faults", faults)

# %% [markdown] tags=["why"]
# <!-- why: 17c-faults -->
# Why it works: each fault has a column. P gathers all at once, twice in all: one unit, a
# root, once in each micro-batch. S gathers four units in each forward, and keeps them.
# Q's gradients are whole. R keeps all and gathers nothing: each shard group has one rank,
# which copies its shard. T's optimiser holds the whole old parameters, which get no
# gradient, so it has no state: nothing is trained.
#
# By hand: three blocks twice and the root once, for each of two micro-batches: 14.

# %% [markdown]
# ## A script of your own
#
# This file has it all, without this course's instruments: data × tensor, bfloat16,
# accumulation, clipping, a checkpoint to resume from, `--compile`, and `--profile` for a
# trace of two steps. The same lines choose NCCL where there are GPUs; there it is
# untested:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 4 demos/sharding/own_2d_training.py --tensor 2 --checkpoint saved
# ```

# %%
from demos.sharding.own_2d_training import build_model
from sidebyside import run_demo

show(build_model)
run_demo("sharding/own_2d_training.py")

# %% [markdown]
# | | |
# |---|---|
# | torch | `parallelize_module`, `checkpoint_wrapper`, `block.compile()`, `fully_shard`, `dcp.async_save`, in this order |
# | torchtitan | the same calls, chosen in its configuration |
# | DeepSpeed | `"bf16"`, `"zero_hpz_partition_size"`, `"activation_checkpointing"` in its JSON |
# | Megatron-LM | `--bf16 --use-megatron-fsdp --recompute-granularity selective --async-save` |
# | JAX | one jitted step: `jax.checkpoint` with a policy, a mesh of two axes, Orbax to save |

# %% [markdown]
# ## What we saw
#
# * With the meta device, only the sender of the weights holds the whole model; they are
#   loaded after sharding.
# * The policy halves the gathers and leaves the state alone: the shard is the master copy.
# * A block is gathered 8, 5, 4 or 1 times in four micro-batches. After the last one it
#   must be freed, or nothing is learned.
# * Hybrid sharding moves traffic into the machine; tensor parallel leaves less to gather.
# * Eight bits need a scale, preferably one for each block.
# * A model whose state and activations fit on each device needs only DDP.

# %% [markdown]
# **The scorecard** of FSDP2 with bfloat16 gathers, float32 sums, $N$ ranks:
#
# | | |
# |---|---|
# | equal to one process | in float32 up to rounding; in bfloat16 only about |
# | bytes each rank sends per step | $(N-1)/N \cdot (2 \cdot 2 + 4)Ψ$; over $m$ micro-batches $2m$, $m+1$, $m$ or 1 gathers of 2Ψ, and $m$ sums or 1 |
# | memory: parameters, gradients, optimiser | $(4 + 4 + 8)Ψ/N$, and what is whole: in 2 bytes the root and a block, a second with prefetch, or all; in 4 bytes gradients that are held back |
# | memory: activations | of this rank's samples, or without what is recomputed |
# | idle share | as in 17b; gathers have half the bytes |
# | if one rank dies | back to the last finished checkpoint, with any number of ranks |
#
# More to try: `demos/sharding/fsdp_switches.py`.
#
# ## Next
#
# Everything so far ran on one machine. Lesson 18 uses several, over a slow network,
# with ranks that die.
