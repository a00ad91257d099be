# ---
# title: 17b Sharding the parameters
# question: Even the parameters are too many for one rank. Can each rank keep a part of every layer, and train all the same?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 17b. Sharding the parameters
#
# ZeRO-2 cuts gradients and the optimiser's state into shards. The parameters are still
# whole on every rank. ZeRO-3 cuts them too: a rank keeps $1/N$ of each layer, and
# borrows the rest while the layer computes.
#
# *You will be able to* gather and free parameters in the right order and say what this
# costs, use FSDP2, keep fewer activations, and resume with another number of ranks.
#
# *Before this:* lessons 10b, 11b, 15b and 17a. *Time:* {reading} minutes, and 40 for the exercises.
# *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Borrowed layers: 7 minutes
#
# Give each of four people a quarter of a page of text. To read page 1 aloud they put
# their quarters together; then everybody takes three quarters away again. Ask what they
# must do to read it backwards, and who may throw what away when.
#
# When late: show only `allocate` and `release`.

# %% [markdown]
# ## Borrowed layers
#
# A *unit* is a group of parameters that travel together, often a layer. As in 17a they
# are views of one flat tensor, `flat`, padded so that all shards are equal. Each rank
# keeps its shard in `kept`, which its optimiser updates. The memory behind `flat` is
# freed after each use. Here is one step of two units:

# %%
from lessons.props.sharded_parameters import draw_borrowed_units
from parallel_by_hand.sharding import zero_3
from sidebyside import show

show(zero_3.ShardedUnit)
draw_borrowed_units()

# %% [markdown]
# Thin bands are shards, which a rank holds at all times; a box is a whole unit. An
# all-gather precedes each use. When all gradients of a unit are there, a reduce-scatter
# gives each rank its shard of the sum.
#
# The *storage* of a tensor is the memory behind it. With `resize_(0)` the tensor keeps
# its shape and loses its numbers. Autograd has kept views of `flat` for backward, and
# they need their numbers again in the same storage: so `flat` must not be replaced by
# another tensor.

# %% [markdown]
# ## Exercise 1: gather and free in the right order
#
# Write the four functions that hooks call with a unit, before and after its forward and
# its backward.
#
# * While a unit computes, `unit.flat` holds the shards of all ranks, in order;
#   otherwise it has no memory. Use `unit.allocate()`, `unit.release()`,
#   `unit.flat.chunk(n)` and `dist.all_gather(pieces, unit.kept)`.
# * `after_backward` puts this rank's shard of the *mean* gradient into
#   `unit.kept.grad`. `unit.take_gradients()` returns one flat tensor, for
#   `dist.reduce_scatter(tensor, pieces)`.
#
# By hand first: two ranks, three units of 10, 20 and 10 numbers. How many does each
# rank keep? How many does it hold at most, with the gathered ones?
# <!-- exercise: 17b-gather-free -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which operations read parameters: the forward, the backward, the collectives? What has
# to be in `flat` before each of them?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `before_forward` and `before_backward` do the same: memory, then an all-gather into
# the chunks of `flat`. `after_forward` only frees. After backward the parameters are no
# longer needed, and the gradients travel.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Before, allocate and `dist.all_gather(list(unit.flat.chunk(ranks)), unit.kept)`. After
# backward, release, divide what `unit.take_gradients()` returns by the number of ranks,
# cut it into chunks, and reduce-scatter them into an empty tensor like `kept`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, gather and free: 20 minutes

# %% exercise="17b-gather-free"
import torch
import torch.distributed as dist

from sidebyside import forget, hint, progress, solution


def before_forward(unit: zero_3.ShardedUnit) -> None:
    ### BEGIN SOLUTION
    unit.allocate()
    dist.all_gather(list(unit.flat.chunk(dist.get_world_size())), unit.kept)
    ### END SOLUTION


def after_forward(unit: zero_3.ShardedUnit) -> None:
    ### BEGIN SOLUTION
    unit.release()
    ### END SOLUTION


def before_backward(unit: zero_3.ShardedUnit) -> None:
    ### BEGIN SOLUTION
    before_forward(unit)
    ### END SOLUTION


def after_backward(unit: zero_3.ShardedUnit) -> None:
    ### BEGIN SOLUTION
    unit.release()
    whole = unit.take_gradients() / dist.get_world_size()
    unit.kept.grad = torch.empty_like(unit.kept)
    dist.reduce_scatter(unit.kept.grad, list(whole.chunk(dist.get_world_size())))
    ### END SOLUTION


# %%
from sidebyside import check

check("17b-gather-free", before_forward, after_forward, before_backward, after_backward)

# %% [markdown] tags=["why"]
# <!-- why: 17b-gather-free -->
# Why it works: forward and backward of a unit are the only operations that read its
# parameters, and each is preceded by an all-gather of what the ranks keep *now*. Views
# that autograd has kept point to the same storage, so they see the gathered numbers. A
# sum over ranks is the same shard by shard; each rank needs only its own.
#
# By hand: a rank keeps 5 + 10 + 5 = 20 numbers and holds at most 20 + 20 = 40; with
# ZeRO-2 it would hold 40 all the time. The gain grows with the number of units. The unit
# in the middle is gathered twice in each step, ten times in all.

# %% [markdown] tags=["instructor"]
# ## The same training: 6 minutes
#
# Before the table: the class sums up what DDP sends, and adds the gathers.

# %% [markdown]
# ## The same training, and its price
#
# `ZeRO3` calls functions like yours from hooks, and updates `kept`. *Before backward*
# is when the gradient of the unit's output is there:

# %%
show(zero_3.ZeRO3.__init__)
show(zero_3.ZeRO3.after_forward)
show(zero_3.ZeRO3.expect_backward)

# %% [markdown]
# Ψ is the number of parameters, as in 17a. In DDP's ring all-reduce a rank sends
# $(N-1)/N \cdot 2Ψ$ numbers: half in a reduce-scatter, half in an all-gather.

# %%
from sidebyside import guess

guess("17b-bytes", None, "Bytes that ZeRO-3 sends, divided by DDP's?", "×")

# %%
from parallel_by_hand.sharding.zero_from_scratch import train_in_stage
from sidebyside import reveal, run_ranks

stages = "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"
found = {stage: run_ranks(train_in_stage, stage, 8)[0] for stage in stages}
for stage, one in found.items():
    pairs = zip(one["parameters"], found["DDP"]["parameters"], strict=True)
    same = all(torch.equal(mine, ddps) for mine, ddps in pairs)
    print(f"{stage}: {one['kept']} bytes of parameters, sends {one['sent']}; ", end="")
    print(f"loss {one['losses'][0]:.3f}, then {one['losses'][-1]:.3f}; ", end="")
    print(f"all bits as DDP's: {same}")
reveal("17b-bytes", found["ZeRO-3"]["sent"] / found["DDP"]["sent"], computed=True)

# %% [markdown]
# **ZeRO-3 sends $(N-1)/N \cdot 3Ψ$ numbers, 1.5 times what DDP sends, and keeps $1/N$
# of everything.** The digits network has 21,450 parameters of 4 bytes.
#
# With two ranks all steps agree bit for bit, because two numbers have the same sum in
# either order. With more ranks the order matters, and parameters differ by rounding.

# %% [markdown] tags=["instructor"]
# ## The ledger over time: 4 minutes
#
# Let people draw the curve first: five units of one size and a small one, forward, then
# backward. Where does it touch zero?
#
# When late: read out the two peaks.

# %% [markdown]
# ## The ledger over time
#
# After every operation of torch, `GatheredLedger` notes how many bytes are gathered. On
# the left is our ZeRO-3; on the right, units are kept whole from their forward to their
# backward:

# %%
from lessons.props.sharded_parameters import draw_gathered
from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.zero_from_scratch import digits_scores, make_trained


def gathered_in_a_step(way: str) -> list[tuple[str, int]]:
    network, trained = make_trained(way, torch.optim.SGD)
    with GatheredLedger(trained.units) as ledger:
        scores, labels = digits_scores(network, step=0, micro=0)
        torch.nn.functional.cross_entropy(scores, labels).backward()
    return ledger.entries


ways = "ZeRO-3", "ZeRO-3, whole till backward"
curves = {way: run_ranks(gathered_in_a_step, way)[0] for way in ways}
for way, entries in curves.items():
    print(f"{way}: at most {max(held for _, held in entries)} bytes gathered")
draw_gathered(curves, whole=4 * 21450)

# %% [markdown]
# **At most one unit is whole at a time**: 4,160 parameters of 4 bytes. On the right
# everything is whole in mid-step. This saves the second gather, so that a rank sends
# 2Ψ, as with DDP. FSDP2 calls it `reshard_after_forward=False`.

# %% [markdown]
# Here is the transformer block of lessons 14 to 16, cut by state, on two ranks. Its two
# units are attention and MLP. Formulas predict all but the activations. The same formulas
# say what each of four ranks would hold of four such blocks:

# %%
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.sharding.ledger import SINGLE, predicted_ledger
from parallel_by_hand.sharding.measured_ledger import measure_block, print_state_table
from parallel_by_hand.sharding.sharded_block import measure_block_in_units

rows = {stage: run_ranks(measure_block, stage) for stage in stages[:3]}
rows["ZeRO-3"] = run_ranks(measure_block_in_units)
print_state_table({stage: of_ranks[:1] for stage, of_ranks in rows.items()})

units = [sum(p.numel() for p in u.parameters()) for u in make_transformer_block()]
momentum = SINGLE._replace(optimiser=4)
for stage, of_ranks in rows.items():
    predicted = predicted_ledger(units, 2, stage, momentum, counter=0)
    same = all(r.ledger[:4] == predicted[:4] for r in of_ranks)
    held = predicted_ledger(4 * units, 4, stage, momentum, counter=0)[:4]
    print(f"{stage}: as predicted {same}; four blocks {sum(held):9,} bytes in all")

# %% [markdown]
# One block on two ranks is too little for ZeRO-2 and ZeRO-3: a rank keeps half, and
# borrows the MLP whole, which is two thirds of the block, with buffers for its
# gradients. Of a stack of blocks it borrows no more at a time. **ZeRO-3 pays if no unit
# is a large part of the model.**

# %% [markdown] tags=["instructor"]
# ## Prefetch: 6 minutes
#
# Draw the wire below the rank. Ask what the wire does while a layer computes: nothing.
# Let people shift the gathers to the left with a finger.
#
# When late: only the second timeline.

# %% [markdown]
# ## Prefetch
#
# Four layers sleep in place of computing, 40 ms forward and 80 ms backward, over a slow
# wire as in lesson 11b. To gather a layer or to scatter its gradients takes 30 ms. One
# after another, that makes 4 · (30 + 40) ms forward and 4 · (30 + 80 + 30) ms backward,
# 840 ms.
#
# With **prefetch** the next layer is gathered while this one computes. The last layer
# is freed after its forward and gathered again.

# %%
guess("17b-prefetch", None, "The step with prefetch?", "ms")

# %%
from lessons.props.sharded_parameters import step_over_slow_wire
from sidebyside import Timeline, draw_timelines

lines, seconds = {}, {}
for prefetch in (False, True):
    title = "with prefetch" if prefetch else "without prefetch"
    with Timeline() as lines[title]:
        seconds[title] = max(run_ranks(step_over_slow_wire, prefetch))
    print(f"{title}: {1000 * seconds[title]:.0f} ms")
reveal("17b-prefetch", 1000 * seconds["with prefetch"], simulated=True)
draw_timelines(lines, stamp="simulated")

# %% [markdown]
# By the plan it takes 570 ms: 4 · (40 + 80) ms of computing, and three trips of 30 ms
# without computing: the first gather, the one between forward and backward, and the
# last gradients. **Prefetch hides gathers as DDP hides its all-reduce, and holds
# two units at a time.** Where a layer computes for less time than its messages take, it
# still helps, but layers wait.

# %% [markdown] tags=["instructor"]
# ## FSDP2: 7 minutes
#
# The whole library call is two lines. Ask who has read the phrase "fully sharded data
# parallel" in a job offer, and what the three words mean now.
#
# When late: skip the mesh.

# %% [markdown]
# ## The library's call
#
# Torch's ZeRO-3 is called *FSDP*, fully sharded data parallel. FSDP1 flattened units as
# we do; FSDP2 cuts each parameter by its rows and makes it a DTensor, as in 16a. There
# is one call for each unit, and one for the rest:

# %%
from parallel_by_hand.sharding import fsdp_beside_ours

show(fsdp_beside_ours.shard_by_torch)
beside = run_ranks(fsdp_beside_ours.train_beside_fsdp2)[0]
for name, (losses, calls) in beside.items():
    print(name, [round(loss, 5) for loss in losses], calls)

# %% [markdown]
# **FSDP2 has the same losses and calls as many collectives**: for three units six
# all-gathers and three reduce-scatters.
#
# `fully_shard(unit)` shards over all ranks, on the GPU wherever torch sees one, even if
# the ranks meet by gloo.

# %% [markdown]
# One process can pose as rank 0 of 1,024. Its group is fake, its collectives do
# nothing, and the model is on 13a's meta device, which has only shapes:

# %%
from parallel_by_hand.sharding import rank_0_of_1024
from sidebyside import run_demo

show(rank_0_of_1024.kept_by_rank_0)
run_demo("sharding/rank_0_of_1024.py")

# %% [markdown]
# That is the ZeRO paper's table from 17a: 120 GB in all, **0.12 GB for each of 1,024
# ranks**. By default FSDP2 keeps 4 + 4 + 8 bytes for each number: the parameter, its
# gradient and Adam's averages.
#
# **Hybrid sharding** takes a mesh of two dimensions: shards within a machine, replicas
# across machines. Here are four ranks in two pairs:

# %%
calls, share = run_ranks(fsdp_beside_ours.count_hybrid_collectives, world_size=4)[0]
print(f"calls {calls}; each rank keeps {share:.2f} of the parameters")

# %% [markdown]
# The gathers stay within the pair, over the fast link. Across pairs, only gradient
# shards are all-reduced, half of Ψ here. But a rank keeps 1/2, not 1/4.

# %% [markdown] tags=["instructor"]
# ## Activation checkpointing: 5 minutes
#
# A picture of a hike: at which huts do you leave bread, if you walk the way back and may
# walk each stretch twice?
#
# When late: skip the picture, and give the formula.

# %% [markdown]
# ## Keep less, compute again
#
# Activations take the rest of the memory. **Activation checkpointing**, which 15b
# called recomputation, keeps only the input of each segment of layers. Backward runs
# the segment's forward once more, and then has its activations:

# %%
from parallel_by_hand.memory import recomputation

show(recomputation.Recompute)

# %% [markdown]
# Take 64 layers, in segments of $k$. Autograd keeps one input for each segment, and,
# during its backward, the activations of its $k$ layers. With which $k$ does it keep
# least?

# %%
guess("17b-segments", None, "Layers in a segment, of 64 in all?")

# %%
from lessons.props.sharded_parameters import draw_kept

activations = {}
for depth in (4, 16, 64):
    lengths = [2**power for power in range(7) if 2**power <= depth]
    runs = {k: recomputation.measure_recomputation(depth, k) for k in lengths}
    activations[depth] = {k: run["kept"] for k, run in runs.items()}
    plain = recomputation.measure_recomputation(depth, None)
    best = min(lengths, key=activations[depth].get)
    saving = f"{runs[best]['bytes']:,} bytes instead of {plain['bytes']:,}"
    work = f"{runs[best]['forwards']} forwards instead of {plain['forwards']}"
    print(f"{depth} layers, segments of {best}: {saving}, {work}")
reveal("17b-segments", best, computed=True)
draw_kept(activations)

# %% [markdown]
# $n/k$ inputs and $k$ activations are fewest at $k = \sqrt n$: **$2\sqrt n$ instead of
# $n$, for one more forward**, as Chen and others showed in 2016. If backward costs two
# forwards, a step is a third longer. A quiet machine with two cores took 1.4 to 1.5 times
# as long: there, backward costs only about 1.4 forwards.

# %% [markdown]
# ## Exercise 2: which layers to compute again
#
# `layers_to_recompute(layers, budget)` gets at most ten tuples
# `(kept, entry, seconds)`: the bytes that a layer's backward needs, those of its input
# alone, and the time of its forward.
#
# While backward is at a layer, memory holds its `kept`, and for each layer before it
# `entry` if that is recomputed, else `kept`: never more than `budget`. Return the set
# of indices that costs the fewest seconds, or `None` if no choice fits.
#
# By hand first: `[(4, 1, 3), (4, 1, 2), (4, 1, 1)]` with a budget of 9. Which layers?
# Does recomputing the last one ever help?
# <!-- exercise: 17b-which-layers -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many choices are there for ten layers?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Try all of them: `itertools.product((False, True), repeat=len(layers))`. For each, go
# through the layers with a running sum of what those before hold.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `before, peak = 0, 0`. At each layer, `peak` is at least `before + kept`,
# and then `before` grows by `entry` or by `kept`. Among the choices with
# `peak <= budget` take the one with the smallest sum of seconds.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, which layers: 15 minutes

# %% exercise="17b-which-layers"
from itertools import product


def layers_to_recompute(
    layers: list[tuple[int, int, int]], budget: int
) -> set[int] | None:
    """The cheapest layers to recompute so that backward stays within `budget`."""
    ### BEGIN SOLUTION
    fitting = []
    for choice in product((False, True), repeat=len(layers)):
        before = peak = cost = 0
        for again, (kept, entry, seconds) in zip(choice, layers, strict=True):
            peak = max(peak, before + kept)
            before += entry if again else kept
            cost += seconds if again else 0
        if peak <= budget:
            fitting.append((cost, {i for i, again in enumerate(choice) if again}))
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else None
    ### END SOLUTION


# %%
check("17b-which-layers", layers_to_recompute)

# %% [markdown] tags=["why"]
# <!-- why: 17b-which-layers -->
# Why it works: the memory at a layer depends only on the choices before it, so one walk
# through the layers finds the peak. All 1,024 choices take milliseconds. For hundreds
# of layers one uses dynamic programming, as in 14a.
#
# By hand: layer 1. At layer 2 memory holds 4 + 1 + 4 = 9, for 2 seconds; layer 0 would fit as well, for
# 3 seconds. The last layer's activations are needed as soon as backward begins, so it
# never helps to throw them away.

# %% [markdown] tags=["instructor"]
# ## Accumulation and off-loading: 6 minutes
#
# Let the class fill the table before it is printed: gathers and reduce-scatters for four
# micro-batches.
#
# When late: off-loading in one sentence.

# %% [markdown]
# ## Several micro-batches
#
# With gradient accumulation, DDP sends once, after the last of four micro-batches.
# ZeRO-3 can hold back the gradients too, but it needs the parameters for each
# micro-batch, forward and backward. One trip moves Ψ once:

# %%
for way in ("DDP", "ZeRO-2", *ways):
    for hold_back in (False, True) if way in ways else (False,):
        bill = run_ranks(train_in_stage, way, 2, 4, hold_back)[0]
        trips = bill["sent"] / (found["DDP"]["sent"] / 2)
        print(f"{way}{', gradients held back' if hold_back else ''}: {trips:.0f} trips")

# %% [markdown]
# **While units are freed after each use, accumulation saves ZeRO-3's reduce-scatters,
# and none of its gathers**: 4 · 2 + 1 trips instead of 4 · 3, or 4 + 1 if whole until
# backward. Gradients that are held back are whole on every rank, so the memory that
# ZeRO-2 saved is spent again. FSDP2 can also keep the parameters whole: with both
# `set_reshard_after_forward(False)` and `set_reshard_after_backward(False)`, each unit
# is gathered once for all four micro-batches, instead of eight times.

# %% [markdown]
# ## Off-loading
#
# **Off-loading**, as in ZeRO-Offload, keeps the optimiser's state in the host's memory,
# and updates there. Our *host* is a file that is mapped into memory:

# %%
from parallel_by_hand.sharding.offloading import update_with_host

here, away = (update_with_host(500_000, off_load=off) for off in (False, True))
for where, one in {"on the device": here, "off-loaded": away}.items():
    took = f"{1000 * one['seconds']:.1f} ms per update"
    print(f"{where:<14} {one['bytes']:,} bytes, {took}")
print("equal shards:", torch.equal(here["shard"], away["shard"]))

# %% [markdown]
# For each number 8 bytes stay, the parameter and its gradient, instead of 16, and 4
# bytes travel each way in each step.

# %% [markdown] tags=["instructor"]
# ## Checkpoints: 4 minutes
#
# Ask who has restarted a job on fewer GPUs than it was stopped on. What did the file
# look like?
#
# When late: only the refusals.

# %% [markdown]
# ## Checkpoints of shards
#
# With `torch.distributed.checkpoint`, or `dcp`, each rank writes its own file. One more
# file, `.metadata`, says which part of which tensor lies where. Four ranks train six
# steps and save after the third; two ranks continue from there:

# %%
import tempfile

from parallel_by_hand.sharding.checkpoint_resharding import train_sharded

folder = tempfile.TemporaryDirectory()
whole = run_ranks(train_sharded, folder.name, 0, 6, 3, world_size=4)[0]
resumed = run_ranks(train_sharded, folder.name, 3, 6, world_size=2)[0]
for alone, after in zip(whole[3:], resumed, strict=True):
    print(f"not interrupted {alone:.5f}, two ranks from the checkpoint {after:.5f}")

# %% [markdown]
# **The two ranks go on as if the four had not been interrupted**, up to rounding. What
# if a file was cut short, or is another model's? `load_or_refuse` compares the metadata
# with the files' sizes and the model's shapes, then calls `dcp.load`.
#
# And if the checkpoint comes from a stranger? `.metadata` is a pickle, and **loading a
# foreign pickle can run any command**. So `load_or_refuse` admits only the names that
# `dcp.save` writes, and what `torch.load` reads with `weights_only=True`.

# %%
from parallel_by_hand.sharding.checkpoint_resharding import damage_checkpoint
from sidebyside import RankFailed

for name, width in {"another's": 32, "torn": 16}.items():
    if name == "torn":
        damage_checkpoint(folder.name)
    try:
        run_ranks(train_sharded, folder.name, 3, 6, None, width, world_size=1)
    except RankFailed as failure:
        print(f"{name}: {failure.outcome.raised[failure.rank].message}")
folder.cleanup()

# %% [markdown]
# ## Exercise 3: cut anew
#
# Each of `writers` ranks has written its shard of a flat tensor of `length` numbers:
# `ceil(length / writers)` of them, in order, with fewer or none at the end. `readers`
# ranks cut the tensor by the same rule.
#
# Write `pieces_to_read(length, writers, readers, reader)`: a list of tuples
# `(writer, start, stop)`. The numbers `start` to `stop - 1` of each writer's file,
# counted from 0 within the file, make up this reader's shard, in order. No piece is
# empty.
#
# By hand first: 10 numbers, 4 writers, 3 readers. What does reader 1 read?
# <!-- exercise: 17b-reshard -->
#
# <details><summary>Hint 1: a question</summary>
#
# Where in the whole tensor does a shard begin, and where does it end?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# A reader and a writer each have an interval of the whole tensor. What both contain lies
# between the larger start and the smaller end. Subtract where the file starts.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For each writer, `first` is the larger of the two starts and `last` the smaller of the
# two ends, none of them above `length`. If `first < last`, there is a piece; its
# positions in the file are these minus the writer's start.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, cut anew: 10 minutes


# %% exercise="17b-reshard"
def pieces_to_read(
    length: int, writers: int, readers: int, reader: int
) -> list[tuple[int, int, int]]:
    """What `reader` reads: (writer, start, stop), positions within the writer's file."""
    ### BEGIN SOLUTION
    own, theirs = -(-length // readers), -(-length // writers)
    pieces = []
    for writer in range(writers):
        begin = writer * theirs
        first = max(begin, reader * own)
        last = min(begin + theirs, (reader + 1) * own, length)
        if first < last:
            pieces.append((writer, first - begin, last - begin))
    return pieces
    ### END SOLUTION


# %%
check("17b-reshard", pieces_to_read)

# %% [markdown] tags=["why"]
# <!-- why: 17b-reshard -->
# Why it works: both cuts are intervals of one line, so what a reader needs of a file is
# their intersection, and it is one interval again, for any numbers of writers and
# readers.
#
# By hand: reader 1 has numbers 4 to 7. The files have 3, 3, 3 and 1: it reads `(1, 1, 3)`,
# which is 4 and 5, and `(2, 0, 2)`, 6 and 7.

# %% [markdown]
# ## A script of your own
#
# This script uses FSDP2 and its checkpoints without this course's instruments. Below,
# one rank keeps everything. Start it twice like this, and two ranks share it; the
# second run continues where the first one ended:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/sharding/own_fully_sharded.py --checkpoint saved
# ```

# %%
from demos.sharding.own_fully_sharded import train_fully_sharded

show(train_fully_sharded)
run_demo("sharding/own_fully_sharded.py")

# %% [markdown]
# | | shards everything | recomputes |
# |---|---|---|
# | torch | `fully_shard(unit)` | `torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=False)` |
# | DeepSpeed | `"zero_optimization": {"stage": 3}` | `deepspeed.checkpointing` |
# | JAX | `NamedSharding(mesh, PartitionSpec("data"))` for the parameters | `jax.checkpoint` |
# | TensorFlow | `DTensor` layouts for the variables | `tf.recompute_grad` |
#
# Without `use_reentrant=False`, torch 2.13 warns, and gives the segment's weights no gradient
# if `x` wants none.

# %% [markdown]
# ## What we saw
#
# * ZeRO-3 gathers a unit before forward and before backward, frees it after each, and
#   reduce-scatters its gradients. FSDP2 does the same in two lines.
# * $\sqrt n$ segments keep $2\sqrt n$ activations instead of $n$, for one more forward.
# * A checkpoint of shards comes with a map, so any number of ranks can read it.
#
# **The scorecard** of ZeRO-3 over $N$ ranks:
#
# | | |
# |---|---|
# | equal to one process | up to rounding; to DDP over two ranks, bit for bit after every step |
# | bytes each rank sends per step | $(N-1)/N \cdot 3Ψ$ numbers, and for each further micro-batch as much again, or 2Ψ |
# | memory: parameters, gradients, optimiser | $1/N$ of each, and one unit whole, or two with prefetch; and the gradients of one |
# | memory: activations | of this rank's samples; $2\sqrt n$ of $n$ layers if recomputed |
# | idle share | what prefetch cannot hide: the first gather, the one between forward and backward, the last reduce-scatter, and what travels for longer than a layer computes |
# | if one rank dies | its shards are gone, and so is the training; back to the checkpoint |
#
# More to try: `demos/sharding/zero_from_scratch.py`,
# `demos/sharding/checkpoint_resharding.py` and `demos/sharding/rank_0_of_1024.py`.
#
# ## Next
#
# Two lines of FSDP2 shard a model. Lesson 17c puts around them what real trainers need.
