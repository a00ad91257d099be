# ---
# title: 18a Many machines: the link
# question: What changes when ranks sit on several machines, and the link between them is slow?
# needs: two CPU cores, no GPU; Linux for two real hosts, else their link is simulated
# minutes: 90
# ---

# %% [markdown]
# # 18a. Many machines: the link
#
# Until now all ranks sat on one machine. A large training takes hundreds of machines, and
# between them bytes travel many times more slowly than inside one.
#
# Here we start one program on two machines, count what crosses the link between them, and
# reduce it: by another all-reduce, by smaller gradients, by rarer messages.
#
# *You will be able to* start a training on several machines; predict from bytes and rate
# what an all-reduce costs; write one that crosses the link less; and say when compressing
# gradients pays.
#
# *Before this:* lessons 10b, 11b and 12b. *Time:* {reading} minutes, and 45 for the exercises.
# *Needs:* two CPU cores, no GPU; Linux for two real hosts, else their link is simulated.

# %% [markdown] tags=["instructor"]
# ## Two machines: 7 minutes
#
# Draw two boxes and one cable. In each box two ranks. What does a process need to think
# that it is alone on a machine? A name, an address, a list of processes.
#
# Read the first output aloud. If it says *simulated*, nothing else changes: bytes are the
# same, and times come from sleeping.

# %% [markdown]
# ## Two machines
#
# If you do not have two machines at hand, Linux can make two out of one. A **namespace**
# gives a process its own network, host name or list of processes; containers are made of
# namespaces. This needs no root:
#
# ```
# unshare --user --map-root-user --net --mount --pid --fork ...
# ip netns add host-a
# ip netns add host-b
# ip link add eth0 netns host-a type veth peer name eth0 netns host-b
# tc -n host-a qdisc add dev eth0 root tbf rate 200mbit ...
# ```
#
# The fourth line is the cable. The last one makes it slow: 200 Mbit/s, which is 25 MB/s
# in each direction.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.machines.two_machines import TwoMachines

machines = TwoMachines(rate=200)
machines

# %% [markdown]
# If this names two hosts, only the link joins them. If it says *simulated*, your system
# forbids such hosts, for the reason given: then ranks of one machine are told that they
# sit on two, and sleep for as long as their bytes would take to cross. All counts of
# bytes are the same. Durations are called simulated in both cases, for we have set the
# link's rate.

# %% [markdown] tags=["instructor"]
# ## torchrun by itself: 9 minutes
#
# Two volunteers are the two torchruns, each with two ranks. Who knows how many there are
# in all? Who has the address? Let each rank call out its three numbers.
#
# When late: skip the training run.

# %% [markdown]
# ## torchrun by itself
#
# torch does not start anything on other machines. A person, or a scheduler, starts
# torchrun **on each machine**, with the same command but for one number:
#
# ```
# torchrun --nnodes 2 --nproc-per-node 2 --master-addr 10.200.1.1 --master-port 29500
#          --node-rank 0   program.py        (on the other machine: --node-rank 1)
# ```
#
# Each torchrun starts two copies of the program, its ranks. All ranks first meet at the
# given address, on machine 0. That is the **rendezvous**. `roll_call.py` prints what
# torchrun has told each rank:

# %% tags=["nbval-ignore-output"]
from sidebyside.course.record import ROOT

for said in machines.torchrun(ROOT / "demos/machines/roll_call.py", per_machine=2):
    print("\n".join(sorted(said.splitlines())))

# %% [markdown]
# **`RANK` counts all ranks, `LOCAL_RANK`, the *local rank*, those of one machine**, and
# `GROUP_RANK`, the *node rank*, the machines. A program takes the GPU that `LOCAL_RANK`
# names: with `RANK` it would look for GPU 2 on a machine that has 0 and 1. Only the rank
# with `RANK` 0 prints and saves.
#
# `init_process_group` reads `RANK`, `WORLD_SIZE` and the address. So lesson 11b's
# `train_digits.py` needs no change. We train two ranks for one epoch, first on this
# machine without torchrun, then on two:

# %%
from sidebyside import run_demo

run_demo("ddp/train_digits.py", "--epochs", 1)

# %%
words = ROOT / "demos/ddp/train_digits.py", "--epochs", 1
print(machines.torchrun(*words, machines=2, per_machine=1)[0])

# %% [markdown]
# The last lines agree to the last digit. **Where the ranks sit changes nothing in what
# they learn**: two summands have the same sum wherever they are added. It changes how
# long it takes. With more ranks, the equality holds up to rounding: a library may add in
# another order.

# %% [markdown] tags=["instructor"]
# ## A ring across the link: 9 minutes
#
# Let four people stand in a ring, two at each table. How often does a card cross between
# the tables? Then swap two of them and count again.
#
# Expected for the first guess: 8 MB / 25 MB/s. They forget that a ring sends the tensor
# one and a half times.

# %% [markdown]
# ## A ring across the link
#
# Lesson 10b's ring, with its ranks in any order: each sends to the one after it in
# `members`.

# %%
from parallel_by_hand.machines.ring_among import ring_among
from sidebyside import show

show(ring_among)

# %% [markdown]
# Ranks 0 and 1 sit on machine 0, ranks 2 and 3 on machine 1. They sum 8 MB round the ring
# 0, 1, 2, 3. In a ring of four, every rank sends $2 \cdot 3/4$ of the tensor. From
# machine 0, only rank 1 sends across, at 25 MB/s. How long does the all-reduce take?

# %%
from sidebyside import guess

guess("18a-flat", None, "How long does the flat ring take for 8 MB?", "s")

# %%
from parallel_by_hand.machines.hierarchical_all_reduce import bytes_across, time_across
from sidebyside import reveal

flat = machines.run_ranks(time_across, "flat ring", 2_000_000, 2, 1)
print(f"{bytes_across(flat, 2):,} bytes leave machine 0: {12 / 25:.2f} s at 25 MB/s")
print(f"the sum has counted {flat[3].total.item():.0f}", end="; ")
print(f"the link's own counter says {flat[0].counted:.1f} MB")
reveal("18a-flat", flat[0].seconds, simulated=True)

# %% [markdown]
# We count what ranks send to the other machine. The counter of a real link shows 7 per
# cent more: packets have headers, and arrivals are acknowledged. **On a link this slow,
# bytes divided by rate predict the flat ring's time**, somewhat too low.

# %% [markdown]
# Now the same ring in the order 0, 2, 1, 3, as if the ranks had been dealt to the machines
# like cards. The sum is the same. How many bytes leave machine 0 now?

# %%
question = "Bytes that leave machine 0, in the order 0, 2, 1, 3?"
guess("18a-dealt", None, question, "bytes")

# %%
dealt = machines.run_ranks(time_across, "dealt ring", 2_000_000, 2, 1)
reveal("18a-dealt", bytes_across(dealt, 2), computed=True)
print(f"{dealt[0].seconds:.2f} s")

# %% [markdown]
# Every message crosses, so ranks 0 and 1 share the cable. **The order of the ranks has
# doubled the bytes across.** torchrun numbers machine after machine, which is the good
# order; schedulers can be told to. But even a good ring sends one and a half tensors
# across.

# %% [markdown]
# ## Exercise 1: two levels
#
# First the ranks of each machine add up their tensors. Then the machines add up their
# sums, and every rank gets the total.
#
# Write `two_levels(tensor, per_machine)`, called by all ranks. Rank `r` sits on machine
# `r // per_machine`. `tensor` becomes the sum over all ranks, in place.
#
# * Within a machine use `dist.send` and `dist.recv`, between machines `ring_among(tensor,
#   members)`.
# * Of $n$ numbers, $2(H-1)/H \cdot n$ leave each of $H$ machines.
#
# By hand first: 3 machines of 4 ranks, 12 MB. How many MB leave each machine with two
# levels, and how many with a flat ring of 12 ranks?
# <!-- exercise: 18a-two-levels -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which rank could speak for its machine? Which of its numbers does it know from `rank` and
# `per_machine`?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Let the first rank of each machine be its leader. The others send it their tensor, and
# then wait for the total. The leader receives and adds, one after the other, calls
# `ring_among` with all leaders, and sends the total to the others.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `leader = rank - rank % per_machine`. If `rank != leader`: `dist.send(tensor, leader)`,
# `dist.recv(tensor, leader)`. The leaders are `range(0, world_size, per_machine)`. A leader
# receives into `torch.empty_like(tensor)` from each of `range(leader + 1, leader +
# per_machine)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, two levels: 15 minutes


# %% exercise="18a-two-levels"
import torch
import torch.distributed as dist

from sidebyside import forget, hint, progress, solution


def two_levels(tensor: torch.Tensor, per_machine: int) -> None:
    """Sum `tensor` over all ranks, in place, and send little between machines."""
    ### BEGIN SOLUTION
    rank, world_size = dist.get_rank(), dist.get_world_size()
    leader = rank - rank % per_machine
    if rank != leader:
        dist.send(tensor, leader)
        dist.recv(tensor, leader)
        return
    others = range(leader + 1, leader + per_machine)
    received = torch.empty_like(tensor)
    for other in others:
        dist.recv(received, other)
        tensor += received
    ring_among(tensor, range(0, world_size, per_machine))
    for other in others:
        dist.send(tensor, other)
    ### END SOLUTION


# %%
from sidebyside import check

check("18a-two-levels", two_levels)

# %% [markdown] tags=["why"]
# <!-- why: 18a-two-levels -->
# Why it works: after the first part each leader holds the sum of its machine, and these
# sums add up to the total. Only the leaders' ring crosses, and it has as many members as
# there are machines.
#
# By hand: two levels, $2 \cdot 2/3 \cdot 12 = 16$ MB. A flat ring of 12 ranks sends
# $2 \cdot 11/12 \cdot 12 = 22$ MB.

# %% [markdown] tags=["instructor"]
# ## Hierarchical all-reduce: 5 minutes
#
# In the picture, ask who waits, and for what. Then: what if the ranks of a machine shared
# the work of the leader? The bytes across stay the same.
#
# When late: skip the picture.

# %% [markdown]
# ## Hierarchical all-reduce
#
# What you wrote is called **hierarchical all-reduce**. Below are both ways for 2 MB over
# the simulated link, so that the picture is the same everywhere. Each bar names the rank
# that it sends to; in pale bars a rank waits.

# %%
from parallel_by_hand.machines.hierarchical_all_reduce import rehearse_across
from sidebyside import Timeline, draw_timelines, run_ranks

pictures = {}
for way in ("flat ring", "hierarchical"):
    with Timeline() as pictures[way]:
        run_ranks(rehearse_across, way, 500_000, 2, 200, world_size=4)
draw_timelines(pictures, stamp="simulated")

# %% [markdown]
# In the flat ring, ranks 1 and 3 send across all the time, and the others mostly wait for
# them. With two levels only ranks 0 and 2 send across, and fewer bytes. Now 8 MB over our
# link:

# %%
levels = machines.run_ranks(time_across, "hierarchical", 2_000_000, 2, 1)
for way, found in (("flat ring", flat), ("hierarchical", levels)):
    crossed = bytes_across(found, 2)
    expected = f"bytes / rate {crossed / 25e6:.2f} s"
    print(f"{way:<12} {crossed:,} bytes, {expected}, took {found[0].seconds:.2f} s")

# %% [markdown]
# Besides bytes / rate, two levels need time for headers and for the sums inside the
# machines. **They send $2(H-1)/H \cdot S$ across, however many ranks a machine has.**
# With two machines that is $S$; a flat ring of many ranks approaches $2S$. NCCL's trees
# have such levels: a chain inside each machine, trees between machines.

# %% [markdown] tags=["instructor"]
# ## Smaller gradients: 6 minutes
#
# Write "time of a step = compute + bytes / rate" on the board. Compression makes one term
# smaller and adds a third. Who wins when the link gets ten times faster?

# %% [markdown]
# ## Smaller gradients
#
# The other way is to send less than the gradients. We train a network of 301,066
# parameters on digits for 32 steps, one rank on each machine. torch's DDP lets a
# *communication hook*, given to `register_comm_hook`, decide how gradients travel.
# `fp16_compress_hook` sends each number in 16 bits instead of 32:

# %%
from parallel_by_hand.machines.compressed_gradients import (
    describe_training,
    train_over_link,
)

ways = {}
print("gradients       bytes per step   time per step   loss")
for way in ("as they are", "16 bits"):
    ways[way] = machines.run_ranks(train_over_link, way, per_machine=1)[0]
    print(describe_training(way, ways[way]))

# %% [markdown]
# It sends half the bytes, and the loss over all training images is the same here. Each
# step saves 602,132 bytes, 24 ms on this link; the rest of the difference is headers and
# chance. Such **gradient compression** pays only if packing and unpacking take less time
# than that. On GPUs there is `bf16_compress_hook` too, which wants NCCL.

# %% [markdown]
# ## Exercise 2: when does it pay?
#
# `machines` machines, one rank on each, all-reduce gradients of `size` bytes round a
# ring. A step takes the time of computing plus the bytes that leave a machine divided by
# the link's rate.
#
# Compression multiplies the bytes by `share`, which may be above 1, and costs `seconds`
# more per step. Write `break_even(size, share, seconds, machines)`: the rate, in bytes
# per second, below which it pays, or 0 if it never does.
#
# By hand first: 2 machines, 16 MB, half the bytes, 40 ms. Below which rate, in MB/s, does
# it pay?
# <!-- exercise: 18a-break-even -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many bytes per step does a machine save?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# It pays if the saved bytes, divided by the rate, are more seconds than it costs. Solve for
# the rate.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# A machine saves `1 - share` of what a ring sends: `2 * (machines - 1) / machines *
# size`. If that is not above 0, the rate is 0; else divide it by `seconds`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, when it pays: 10 minutes


# %% exercise="18a-break-even"
def break_even(size, share, seconds, machines) -> float:
    """Bytes per second below which the compression pays."""
    ### BEGIN SOLUTION
    saved = 2 * (machines - 1) / machines * size * (1 - share)
    return max(0.0, saved / seconds)
    ### END SOLUTION


# %%
check("18a-break-even", break_even)

# %% [markdown] tags=["why"]
# <!-- why: 18a-break-even -->
# Why it works: compute time stands on both sides and drops out. What is left compares the
# seconds saved on the link with the seconds spent on packing.
#
# By hand: a machine sends $2 \cdot 1/2 \cdot 16 = 16$ MB, so half of it saves 8 MB. In 40
# ms that is 200 MB/s, or 1.6 Gbit/s. Over a faster link it does not pay.

# %% [markdown] tags=["instructor"]
# ## A few per cent: 7 minutes
#
# Write 100 numbers on the board, nearly all of them small. Which would you send? And what
# happens to a small one that always points the same way?

# %% [markdown]
# ## A few per cent
#
# Two ways send far less. **PowerSGD** of Vogels et al., 2019, torch's `powerSGD_hook`,
# replaces the gradient of each weight matrix by a product of two thin matrices, here with
# two columns each, and sends those. **Top-k** sends the $k$ entries that are largest in
# absolute value: their places, as 32-bit whole numbers, and their values. We take one per
# cent, $k$ = 3,011. How many bytes does a rank send to each other rank, per step?

# %%
guess("18a-top-k", None, "Bytes per step, with k = 3,011?", "bytes")

# %% [markdown]
# The other 99 per cent must not be lost, or an entry that is always small would never be
# learned. With **error feedback**, which torch's PowerSGD has as well, each rank keeps in
# a `memory` what it has not sent, and adds it to its next gradient. So a small entry is
# sent once it has grown.

# %% [markdown]
# ## Exercise 3: top-k with error feedback
#
# All ranks call `top_k_mean(gradient, memory, k)`, with flat tensors of one length.
#
# * Each rank adds `gradient` to `memory`, in place. It sends the `k` entries that are
#   then largest in absolute value, and sets them to 0 in `memory`. All others stay.
# * Send k places and k values by `dist.all_gather` alone.
# * Return, on all ranks, the mean of what the ranks have sent.
#
# By hand first: k = 1. Rank 0 has memory [0, 3, 0] and gradient [2, 0, 1]; rank 1 has
# [0, 0, 0] and [-4, 1, 0]. What comes back, and what do both remember?
# <!-- exercise: 18a-top-k -->
#
# <details><summary>Hint 1: a question</summary>
#
# Two ranks pick different places. Can `all_reduce` add up their values? What must every
# rank learn from every other?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Once the gradient is added, `memory.abs().topk(k).indices` are the places; read the
# values with their signs from `memory`. Gather both from all ranks. Then begin with
# zeros, and for each rank add its values at its places.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `everyones = [torch.empty_like(values) for _ in range(ranks)]`, then
# `dist.all_gather(everyones, values)`; the same for the places. The places of one rank are
# all different, so `total[places] += values` counts each.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, top-k: 20 minutes


# %% exercise="18a-top-k"
def top_k_mean(gradient: torch.Tensor, memory: torch.Tensor, k: int) -> torch.Tensor:
    """The mean over all ranks of the k largest entries that each has accumulated."""
    ### BEGIN SOLUTION
    ranks = dist.get_world_size()
    memory += gradient
    places = memory.abs().topk(k).indices
    values = memory[places]
    memory[places] = 0
    all_places = [torch.empty_like(places) for _ in range(ranks)]
    all_values = [torch.empty_like(values) for _ in range(ranks)]
    dist.all_gather(all_places, places)
    dist.all_gather(all_values, values)
    total = torch.zeros_like(gradient)
    for where, what in zip(all_places, all_values, strict=True):
        total[where] += what
    return total / ranks
    ### END SOLUTION


# %%
check("18a-top-k", top_k_mean)

# %% [markdown] tags=["why"]
# <!-- why: 18a-top-k -->
# Why it works: on every rank, what was sent and what is still in `memory` add up to all
# gradients so far. Nothing is lost, some of it is late. Every rank adds the same numbers in
# the same order, so the means are equal.
#
# By hand: rank 0 has [2, 3, 1] and sends 3 from place 1; rank 1 has [-4, 1, 0] and sends -4
# from place 0. The mean is [-2, 1.5, 0]. Rank 0 remembers [2, 0, 1], rank 1 [0, 1, 0].

# %% [markdown] tags=["instructor"]
# ## The bill, and a script of your own: 2 minutes
#
# Which row would you take home? Ask for the conditions: how slow is the link, how long is
# the training? The script is for home; anyone with two laptops can try it on both.

# %% [markdown]
# ## The bill
#
# Here is the same training, sent in four more ways. The last one is lesson 12b's local
# SGD: eight steps alone, then the mean of the models.

# %%
for way in ("PowerSGD", "top-k", "top-k, forgets", "local SGD"):
    ways[way] = machines.run_ranks(train_over_link, way, per_machine=1)[0]
    print(describe_training(way, ways[way]))
reveal("18a-top-k", ways["top-k"].bytes_per_step, computed=True)

# %%
from lessons.props.many_machines import draw_ways

draw_ways(ways, machines.rate)

# %% [markdown]
# The dark part of each bar is bytes divided by rate; the rest is computing, packing and
# waiting. On a quiet machine every way below the first saves time here. If packing took 1
# ms, 16 bits would pay below 602,132 bytes / 1 ms = 602 MB/s, or 4.8 Gbit/s.
#
# **The loss tells the rest**: after these 32 steps PowerSGD and local SGD are a little
# behind, top-k lags because some of its gradient is still in memory, and *without the
# memory* top-k has learned far less. More steps, other rates and other networks change
# these numbers; so a claim about compression needs both columns.
#
# With $N$ ranks, top-k receives $N-1$ lists; an all-reduce round a ring receives less
# than two tensors. One per cent of the entries, with their places, is two per cent of the
# bytes: so both are equal at $N = 100$.

# %% [markdown]
# ## A script of your own
#
# This is DDP with a hook, without this course's instruments. Here it runs as one process;
# its docstring says how to start it on two machines.

# %%
from demos.machines.own_compressed_ddp import train_compressed

show(train_compressed)
run_demo("machines/own_compressed_ddp.py")
machines.close()

# %% [markdown]
# | torchrun sets | Open MPI | Slurm | JAX: `jax.distributed.initialize` |
# |---|---|---|---|
# | `RANK` | `OMPI_COMM_WORLD_RANK` | `SLURM_PROCID` | `process_id=` |
# | `LOCAL_RANK` | `OMPI_COMM_WORLD_LOCAL_RANK` | `SLURM_LOCALID` | `local_device_ids=` |
# | `GROUP_RANK` | | `SLURM_NODEID` | |
# | `WORLD_SIZE` | `OMPI_COMM_WORLD_SIZE` | `SLURM_NTASKS` | `num_processes=` |
# | `MASTER_ADDR`, `MASTER_PORT` | | | `coordinator_address=` |
#
# On a shared cluster a scheduler decides when and where a program runs. An optional page,
# [Slurm, and its relatives](../resources/slurm/README.md), hands it `train_digits`, which
# saves when it is warned.
#
# ## What we saw
#
# * torchrun is started on each machine, and gives each rank its numbers. The program
#   stays as it is, and learns the same. The order of the ranks can double the bytes.
# * Compression pays below a rate that can be worked out; its loss belongs beside its
#   seconds.
#
# **The scorecard** of data parallel on $H$ machines of $L$ ranks, hierarchical:
#
# | | |
# |---|---|
# | equal to one process | up to rounding; not with compressed gradients or local SGD |
# | bytes each rank sends per step | across: $2(H-1)/H \cdot S$ from each machine, by its leader; inside: $S$ to the leader, which sends $S$ back to each |
# | memory of each rank | that of data parallel; the leader a tensor more, and the ring's chunks of $S/H$; with error feedback, a memory of $S$ |
# | idle share | while the leaders talk across, all others wait |
# | if one rank dies | all stop; if machine 0's torchrun dies, the meeting place is gone, too |
#
# There is more to try in `demos/machines/two_hosts.py`, with `--latency`,
# `demos/machines/hierarchical_all_reduce.py` and
# `demos/machines/compressed_gradients.py`.
#
# ## Next
#
# The link was slow, but it held, and no rank died. With hundreds of machines something
# fails every few hours. Lesson 18b makes it happen.
