# ---
# title: 12b Local SGD and gossip
# question: How little can workers say, and to how few, and still train one model?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 12b. Local SGD and gossip: talking less, and to neighbours only
#
# In lesson 11a all ranks talk after every step, and in 12a every worker talks to a
# server. Both mean a lot of talking, and a server can fail.
#
# Here we talk less in two ways. First the ranks meet only now and then. Then each rank
# talks to two neighbours only, and there is no centre that can fail.
#
# *You will be able to* train with a fraction of the messages, say from one eigenvalue how
# many rounds a ring of peers needs to agree, and choose weights so that it agrees faster.
#
# *Before this:* lessons 10b, 11a and 12a; the eigenvalues of a symmetric matrix. *Time:*
# {reading} minutes, and 45 for three exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Local SGD: 12 minutes
#
# Four people at four boards solve the same problem and compare notes every ten minutes.
# Ask: what do they gain, and what do they risk? Then what happens if each has seen other
# examples. Both answers come out of the two tables.
#
# Expected: "rare meetings mean a worse model, always". At these sizes it hardly shows
# with shuffled images, and clearly with sorted ones.
#
# When late: skip the picture of the drift.

# %% [markdown]
# ## Local steps
#
# In data-parallel training every step ends with an all-reduce. What if each rank takes
# $H$ steps by itself, on its own images, and only then all ranks take the mean of their
# *models*? We call that a *meeting*, and the $H$ steps before it a *round*. The mean
# goes round the ring of lesson 10b, where the meter can count the messages.

# %%
from parallel_by_hand.decentralised.local_sgd import average_models, local_step
from sidebyside import show

show(local_step)
show(average_models)

# %% [markdown]
# Training like this is **local SGD**. Four ranks take 128 steps of 8 images each, first
# with $H = 1$: a meeting after every step. In lesson 8's training, beside it, the four
# gradients of a step are averaged.

# %%
from parallel_by_hand.decentralised.local_sgd import (
    flat_parameters,
    local_batches,
    train_local_sgd,
)
from parallel_by_hand.sgd.digits_network import digits_network
from parallel_by_hand.sgd.parallel_sgd import average_gradients_each_step
from sidebyside import run_ranks

runs = {1: run_ranks(train_local_sgd, 1, world_size=4)}
batches = [local_batches(rank, 4, 128) for rank in range(4)]
together = flat_parameters(average_gradients_each_step(digits_network(), batches))
largest = (runs[1][0].history[-1] - together.cpu()).abs().max().item()
print("equal after 128 steps, but for rounding:", largest < 1e-4)

# %% [markdown]
# **With plain SGD and a meeting after every step, local SGD is data-parallel
# training.** The mean of four models one step from the same place is that place minus
# the mean of the steps.
#
# Now fewer meetings. With $H = 1$ a rank sends about 930,000 bytes. How many does it send
# with a meeting every 16 steps?

# %%
from sidebyside import guess

guess("12b-bytes", None, "How many bytes does a rank send, with H = 16?", "bytes")

# %%
from parallel_by_hand.decentralised.local_sgd import loss_of, mean_bytes_sent
from sidebyside import reveal

print("meeting every   bytes sent   loss")
for every in (1, 4, 16, 64):
    if every > 1:
        runs[every] = run_ranks(train_local_sgd, every, world_size=4)
    loss = loss_of(runs[every][0].history[-1])
    print(f"{every:13} {mean_bytes_sent(runs[every]):12,} {loss:6.2f}")
reveal("12b-bytes", mean_bytes_sent(runs[16]), computed=True)

# %% [markdown]
# **The traffic falls $H$-fold**, to the byte. Here it costs little: with two meetings
# instead of 128 the loss of the mean model, over all training images, is 0.22 instead
# of 0.19.
#
# Between meetings the ranks are apart. How far? The picture shows their distance to the
# mean model after each step.

# %%
from lessons.props.local_sgd_and_gossip import draw_drift
from parallel_by_hand.decentralised.local_sgd import drift

draw_drift({every: drift(runs[every]) for every in (64, 16, 4)})

# %% [markdown]
# A sawtooth: the ranks drift apart and each meeting brings them together. This
# **drift** hurts little here, because all shares of the images are alike. Below, the
# images are sorted by their digit before they are dealt, so that no rank sees more than
# four of the ten digits.

# %%
print("meeting every   loss   farthest apart")
for every in (1, 4, 16, 64):
    lopsided = run_ranks(train_local_sgd, every, 128, True, world_size=4)
    loss, apart = loss_of(lopsided[0].history[-1]), drift(lopsided).max()
    print(f"{every:13} {loss:6.2f} {apart:12.1f}")

# %% [markdown]
# **With shares that differ, rare meetings cost more.** The ranks drift about twice as
# far as before, each towards a model that knows its own digits. The mean of four such
# models reads only one in ten of the eights correctly.
#
# Hospitals or phones that train together without showing each other their data are in
# this situation; there, local SGD is the core of *federated averaging*.

# %% [markdown]
# ## Exercise 1: right after the last step
#
# Write `train_locally(model, batches, rate, every)`. It runs in each rank, with its own
# `batches`, equally many pairs of images and labels. All models begin equal.
#
# * Each batch is one step of plain SGD with its mean cross-entropy.
# * After every `every` steps, **and after the last step**, there is a meeting:
#   `dist.all_reduce` makes each parameter its mean over all ranks.
# * Return the number of meetings.
#
# By hand first: two ranks, one weight, 0 at the start. The gradient is 1 on rank 0 and
# 3 on rank 1; rate 0.1, 5 steps, `every` 2. What is the weight in the end?
#
# <!-- exercise: 12b-local -->
#
# <details><summary>Hint 1: a question</summary>
#
# For which numbers of a step is there a meeting, if there are 5 steps and `every` is 2?
# And if there are 6?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Count the steps from 1. A meeting is due if `every` divides the number of the step, or
# if it is the last: one condition with `or`, so that no step has two.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# A step: `torch.autograd.grad(loss, parameters)`, and inside `torch.no_grad()` each
# parameter moves by `rate` times its gradient. A meeting, also inside: for each `p`,
# `dist.all_reduce(p.data)` and then divide by the number of ranks.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the last step: 20 minutes
#
# Everyone forgets the short last round first, and the training looks fine: no error,
# and a good loss on every rank. Ask what is wrong: rank 0 saves a model that no other
# rank has.
#
# Expected: two meetings when the last round is full; averaging gradients instead of
# models; a meeting before the first step, with `step % every == 0` counted from 0.

# %% exercise="12b-local"
import torch
import torch.distributed as dist
from torch import nn

from sidebyside import forget, hint, progress, solution


def train_locally(model: nn.Module, batches: list, rate: float, every: int) -> int:
    """Train, meet after every `every` steps and the last; how many meetings."""
    ### BEGIN SOLUTION
    parameters, meetings = list(model.parameters()), 0
    for step, (x, y) in enumerate(batches, start=1):
        loss = nn.functional.cross_entropy(model(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
            if step % every == 0 or step == len(batches):
                for parameter in parameters:
                    dist.all_reduce(parameter.data)
                    parameter /= dist.get_world_size()
                meetings += 1
    return meetings
    ### END SOLUTION


# %%
from sidebyside import check

check("12b-local", train_locally)

# %% [markdown] tags=["why"]
# <!-- why: 12b-local -->
# Why it works: steps are counted from 1, so the first meeting follows `every` steps,
# and one condition covers full and short rounds. All ranks have equally many batches,
# so all of them come to the same meetings. The sum is the same on all ranks, bit for
# bit, and so is the sum divided by the number of ranks.
#
# By hand: there are meetings after steps 2, 4 and 5. Each step moves the mean by 0.2,
# so the weight is -1. Without the last meeting it is -0.9 on rank 0 and -1.1 on rank 1.

# %% [markdown] tags=["instructor"]
# ## A step of steps: 6 minutes
#
# Draw a round as an arrow: four thin ones from one point, and their mean, thick. That
# thick arrow is a step. What else can be done with a step than to take it? Momentum.
#
# When late: show the class and skip the numbers.

# %% [markdown]
# ## The modern form: a step of steps
#
# A round moves the mean model from one place to another. Treat this change as a
# gradient, and let a second optimiser take the step with Nesterov's momentum, which
# remembers the rounds before. The steps within a round are then *inner* steps, and this
# one is the **outer step**.

# %%
from parallel_by_hand.decentralised.local_sgd import OuterMomentum

show(OuterMomentum)

# %% [markdown]
# This is DiLoCo, by Douillard et al. 2023. Its authors trained language models with
# eight workers that met every 500 steps. Their inner optimiser is AdamW; ours stays
# plain SGD, with outer rate 0.7 and momentum 0.9 as in the paper.

# %%
print("meeting every                              bytes sent   loss")
for every, outer in ((16, False), (16, True), (1, True)):
    ranks = run_ranks(train_local_sgd, every, 128, False, outer, world_size=4)
    name = "outer step with momentum" if outer else "mean of the models"
    loss = loss_of(ranks[0].history[-1])
    print(f"{every:13}   {name:<25} {mean_bytes_sent(ranks):11,} {loss:6.2f}")

# %% [markdown]
# With the same bytes, the loss is less than half; with other seeds it falls to between
# 0.4 and 0.8 of that of the mean. It also falls with a meeting after every step, so
# momentum is no remedy for drift alone. What it shows: **a meeting can do more than
# average**, for no more traffic.

# %% [markdown] tags=["instructor"]
# ## Gossip: 12 minutes
#
# Eight people in a circle, each with a number on a card. At each clap everyone writes
# down the mean of their own number and the two neighbours'. How many claps until all
# show the same? Let them play four rounds.
#
# The guess: nearly everyone says 2. A rumour on a ring travels like a drunk, not like a
# train: twice as far takes four times as long.
#
# When late: leave out the picture of the values.

# %% [markdown]
# ## To neighbours only
#
# A meeting still needs all ranks. Now no rank ever talks to more than two others, its
# neighbours on a ring. In a **gossip** round each rank sends its tensor to both and
# takes a weighted mean of the three. `weights` maps the ranks that it hears to their
# shares.

# %%
from parallel_by_hand.decentralised.gossip import gossip_round

show(gossip_round)

# %% [markdown]
# Eight peers: rank 0 holds 8, all others 0, so the mean is 1. Each of the three numbers
# has weight one third. The picture shows what each rank holds, one row for each round.

# %%
from lessons.props.local_sgd_and_gossip import draw_values
from parallel_by_hand.decentralised.gossip import gossip_values, ring_mixing_matrix

thirds = {ranks: ring_mixing_matrix(ranks, 1 / 3) for ranks in (4, 8, 16)}
values = run_ranks(gossip_values, 24, thirds[8], world_size=8)
draw_values([of_rank[:7] for of_rank in values])

# %% [markdown]
# The 8 spreads, and each row still adds up to 8. No rank has the sum, and yet all come
# close to the mean. Such an agreement is called **consensus**.
#
# How quickly do they reach it? A round multiplies the vector of all values by a matrix, the
# **mixing matrix** $W$: row $r$ holds the weights of rank $r$.

# %%
print(ring_mixing_matrix(4, 1 / 3))
print("eigenvalues", torch.linalg.eigvalsh(ring_mixing_matrix(4, 1 / 3)))

# %% [markdown]
# Our $W$ is symmetric, and each row adds up to 1. So a vector of equal numbers is an
# eigenvector with eigenvalue 1. All other eigenvectors are disagreement, and a round
# multiplies each by its eigenvalue. The slowest to vanish has the largest absolute
# value below that 1: the **second-largest eigenvalue modulus** of $W$. For four ranks
# that is 1/3.
#
# We measure the distance of all values to their mean, and draw it beside a line that
# falls by the predicted factor in each round.

# %%
from lessons.props.local_sgd_and_gossip import draw_agreement
from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    distances,
    last_factor,
)

far = {8: distances(values)}
for ranks in (4, 16):
    of_ranks = run_ranks(gossip_values, 24, thirds[ranks], world_size=ranks)
    far[ranks] = distances(of_ranks)
for ranks, measured in sorted(far.items()):
    print(f"{ranks:2} ranks: predicted {agreement_factor(thirds[ranks]):.3f}", end=", ")
    print(f"measured {last_factor(measured):.3f}")
lines = {f"{n} ranks": (far[n], agreement_factor(thirds[n])) for n in (4, 8, 16)}
draw_agreement(lines)

# %% [markdown]
# **In the long run the distance to consensus is multiplied each round by the
# second-largest eigenvalue modulus**, unless the start has no disagreement in that
# direction. At first it falls faster, while the other disagreements vanish.
#
# To come a thousand times closer to agreement, a ring of 16 needs more rounds than a
# ring of 8. By what factor?

# %%
guess("12b-rounds", None, "The rounds of 16 peers, divided by those of 8?", "×")

# %%
from math import log

per_round = {n: -log(agreement_factor(thirds[n])) for n in (8, 16)}
reveal("12b-rounds", per_round[8] / per_round[16], computed=True)

# %% [markdown]
# About four, not two. What differs between one side of the ring and the other has to
# wander round, with steps to the left as likely as to the right. On a long ring **twice
# the peers need four times the rounds**. A remedy is to give each peer a few neighbours
# far away.

# %% [markdown]
# ## Exercise 2: how many rounds?
#
# Write `rounds_to_agree(weights, fold)`: the smallest whole $k$ with $\lambda^k \le
# 1/\text{fold}$, where $\lambda$ is the second-largest eigenvalue modulus of `weights`,
# a symmetric mixing matrix. If there is no such $k$, return `math.inf`. A modulus
# within $10^{-9}$ of 1 is 1.
#
# By hand first: two ranks keep ¾ of their own and take ¼ of the other's. The
# eigenvalues are 1 and ½. How many rounds for a thousandfold? Four ranks on a ring hold
# 0, 1, 0, 1 and take half of each neighbour's. What after two rounds?
#
# <!-- exercise: 12b-rounds -->
#
# <details><summary>Hint 1: a question</summary>
#
# In the second case one of the eigenvalues is −1. What becomes of a disagreement that
# is multiplied by −1 in each round?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Take the moduli of all eigenvalues and sort them; the second from the top counts, even
# if it is a second 1. Below 1, take logarithms and round up.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `torch.linalg.eigvalsh(weights)` gives the eigenvalues. If $\lambda$ is the modulus
# that counts, `math.log(fold) / -math.log(λ)` rounds are needed, rounded up.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, rounds: 15 minutes
#
# Expected: the second-largest eigenvalue with its sign, which is 0 in the second case;
# the smallest; rounding down; and a division by zero for rings that never agree.
#
# Ask for another start on the ring of four that does agree: 1, 1, 0, 0.

# %% exercise="12b-rounds"
import math


def rounds_to_agree(weights: torch.Tensor, fold: float) -> float:
    """The rounds until the distance to the mean has fallen `fold`-fold, or math.inf."""
    ### BEGIN SOLUTION
    factor = torch.linalg.eigvalsh(weights).abs().sort().values[-2].item()
    if factor > 1 - 1e-9:
        return math.inf
    return math.ceil(math.log(fold) / -math.log(factor) - 1e-9)
    ### END SOLUTION


# %%
check("12b-rounds", rounds_to_agree)

# %% [markdown] tags=["why"]
# <!-- why: 12b-rounds -->
# Why it works: a start can lie in the direction of the slowest eigenvector, and then
# the distance falls by just this factor in each round; no start is slower. The sign
# does not matter for the distance. With a second 1 there is a disagreement that never
# fades. A modulus of ½ may be computed as 0.5000000000000001, so a little is taken off
# before rounding up: for `fold = 1024` the answer is ten, not eleven.
#
# By hand: ten, since 2¹⁰ = 1,024. The ring holds 1, 0, 1, 0, and then 0, 1, 0, 1 again,
# so it never agrees. On any ring of even length without self-weight, even and odd ranks
# swap without end: the eigenvalue is −1, its modulus 1, so `math.inf`. An odd ring has
# no such pattern.

# %% [markdown]
# ## Exercise 3: how much weight to keep
#
# On a ring each peer gives itself the weight $a$ and each neighbour $(1-a)/2$. Write
# `best_self_weight(ranks)`: the $a$ from 0 to 1 whose second-largest eigenvalue modulus
# is smallest, to within 0.001.
#
# The eigenvalues of `ring_mixing_matrix(ranks, a)` are known: for $k = 0, 1, \dots,
# N-1$ they are $a + (1-a)\cos(2\pi k/N)$.
#
# By hand first: for four ranks the cosines are 1, 0, −1 and 0. Draw the last three
# moduli as functions of $a$. Where is the largest of them smallest?
#
# <!-- exercise: 12b-weights -->
#
# <details><summary>Hint 1: a question</summary>
#
# As $a$ grows, one of the eigenvalues becomes larger and is the slowest for large $a$.
# Another is negative for small $a$. Where do their moduli meet?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# You may let the computer search: `agreement_factor(ring_mixing_matrix(ranks, a))` for a
# fine grid of $a$. Or find the crossing: only the largest cosine below 1 and the smallest
# cosine matter.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Let $s$ be the sum of these two cosines. The moduli are equal where
# $2a + (1-a)s = 0$. Solve for $a$. Or `min(grid, key=...)` with a grid of steps of 0.001.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, the best weight: 10 minutes
#
# Draw the two lines, |a| rising from the left and |2a - 1| falling: the answer for four
# ranks is where they cross. People who search find it, too; ask them why it has a kink.
#
# Expected: 1/3 for all; 0, which never agrees on even rings; the smallest cosine taken
# for -1, which is wrong for odd rings.


# %% exercise="12b-weights"
def best_self_weight(ranks: int) -> float:
    """The self-weight with which a ring of so many peers agrees fastest."""
    ### BEGIN SOLUTION
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    both = max(cosines) + min(cosines)
    return -both / (2 - both)
    ### END SOLUTION


# %%
check("12b-weights", best_self_weight)

# %% [markdown] tags=["why"]
# <!-- why: 12b-weights -->
# Why it works: each eigenvalue is a straight line in $a$, from its cosine at $a = 0$ to 1
# at $a = 1$. The largest modulus belongs to the uppermost line, which rises, or to the
# lowest, whose modulus falls until it crosses zero. The best $a$ is where both are equal.
# For even rings the smallest cosine is -1, for odd rings it is a little above.
#
# By hand: $a$ and $|2a-1|$ are equal at $a = 1/3$, and the factor is 1/3: four peers
# had the best weight already. Eight agree fastest with $a = 0.13$: a thousandfold takes
# 24 rounds instead of 32 with a third. For 16 peers it takes 91 instead of 133. Two
# peers with $a =$ ½ and three with 1/3 need a single round.

# %% [markdown] tags=["instructor"]
# ## Without a centre: 8 minutes
#
# The picture is the point: the same slow peer, and where the others wait. Ask who should
# decide when to stop, if there is no centre.
#
# When late: only the picture.

# %% [markdown]
# ## Training by gossip
#
# Now training: after each step of its own, a rank mixes its whole *model* with those of
# its neighbours, one round and no more. Again four ranks with a third for each of
# three, the same batches as above.

# %%
from parallel_by_hand.decentralised.gossip_training import (
    gossip_models,
    train_by_gossip,
)

show(gossip_models)
peers = run_ranks(train_by_gossip, thirds[4], world_size=4)
losses = [loss_of(run.history[-1]) for run in peers]
print(f"loss {min(losses):.2f} to {max(losses):.2f} on the four ranks")
print(f"farthest apart {drift(peers).max():.2f}, bytes sent {mean_bytes_sent(peers):,}")
for name, run in {"gossip": peers[0], "ring all-reduce": runs[1][0]}.items():
    print(f"{name}: {run.meter.messages_sent // 128} messages per step")

# %% [markdown]
# Each rank has a model of its own now, all close together, and here as good as with an
# all-reduce. It sends $2S$ bytes per step instead of $2(N-1)/N \cdot S$. The gain is
# elsewhere: **with gossip a rank sends as many messages in a ring of four as in a ring
# of a thousand**, two, both under way at once. An all-reduce round a ring takes
# $2(N-1)$, one after another.

# %% [markdown]
# ## Out of step
#
# In rounds all wait for the slowest peer. Must they? Pairs of neighbours can swap
# whenever one of them is ready. In `out_of_step`, as in Lian et al. 2018, even ranks
# ask, and odd ranks have a thread for each neighbour that answers at once, in the
# middle of a step, too. On a ring of even length no circle of peers can then wait for
# each other. Steps are sleeps of 30 ms; those of rank 1, 90 ms.

# %%
guess("12b-slow", None, "Rank 2's steps out of step, divided by those in step?", "×")

# %%
from parallel_by_hand.decentralised.out_of_step import in_step, out_of_step
from sidebyside import Timeline, draw_timelines

seconds, pictures, steps = [0.03, 0.09, 0.03, 0.03], {}, {}
for name, way in {"in step": in_step, "out of step": out_of_step}.items():
    with Timeline() as pictures[name]:
        ended = run_ranks(way, seconds, 0.72, world_size=4)
    steps[name] = [made for made, _ in ended]
    print(f"{name}: the numbers add up to {sum(number for _, number in ended):.0f}")
reveal("12b-slow", steps["out of step"][2] / steps["in step"][2], simulated=True)
draw_timelines(pictures, stamp="simulated", height=4.2)

# %% [markdown]
# In step, the fast peers wait two thirds of their time. **Out of step no peer waits for
# the slow peer**; the fast ones make about three times as many steps. Rank $r$ began
# with $10^r$, and the numbers still add up to 1,111: a pair that takes its mean keeps
# its sum. The price is 12a's staleness.

# %% [markdown] tags=["instructor"]
# ## If one dies, and the bill: 7 minutes
#
# Ask before the cell: what is lost with the peer? Its images, if no other rank has
# them, and what it had learnt since its last round. Then go through the scorecard by
# columns.
#
# When late: the scorecard only.

# %% [markdown]
# ## A peer is killed
#
# Four processes train on the CPU as above. Before its 33rd step rank 2 kills itself, as
# the system does when memory runs out. Its connections are closed, so its neighbours
# get an error from gloo, and give themselves the weight that it had. After a power cut
# no connection is closed: a neighbour that is already receiving waits for gloo's 30
# minutes. One that sends or begins to receive later gets an error after about a quarter
# of an hour, when Linux gives up.
#
# Then the same four average with an all-reduce after each step instead. How many steps
# do the other three still make?

# %%
from parallel_by_hand.decentralised.killed_peer import train_with_a_kill

for all_reduce in (False, True):
    print("with an all-reduce" if all_reduce else "with gossip")
    left = train_with_a_kill(4, 2, 32, 128, all_reduce)
    for rank, peer in left.items():
        print(f"rank {rank}: {peer['steps']} steps, loss {loss_of(peer['model']):.1f}")

# %% [markdown]
# **Gossip goes on without a killed peer; an all-reduce does not.** The ring has become
# a row of three, still connected, and its mixing matrix symmetric again. So the three
# still agree, only more slowly: by 2/3 a round instead of 1/3. If a second peer dies, a
# longer row may break in two, and the halves never agree. What is lost is the dead
# peer's images, if no other peer has them, and all that it had not yet passed on.

# %% [markdown]
# ## The library's call
#
# torch has local SGD: after each step, a call of
# `average_parameters(model.parameters())` of the `PeriodicModelAverager(period=H,
# warmup_steps=H - 1)` in `torch.distributed.algorithms.model_averaging.averagers`. The
# short last round is left to you, and parameters whose `.grad` is None do not take
# part. DiLoCo is in the package torchft. Gossip is not part of torch.
#
# | | synchronous, all workers | with servers | rarely, or to neighbours |
# |---|---|---|---|
# | PyTorch | `DistributedDataParallel` | `torch.distributed.rpc`, in maintenance | `PeriodicModelAverager` |
# | TensorFlow | `MirroredStrategy` on one machine, `MultiWorkerMirroredStrategy` | `ParameterServerStrategy` | – |
# | Horovod, dormant since 2023 | `DistributedOptimizer` | – | its option `backward_passes_per_step` accumulates gradients instead |
# | JAX | `jax.lax.pmean` over a mesh | – | `jax.lax.ppermute` sends to a neighbour |

# %% [markdown]
# ## A script of your own
#
# Local SGD without this course's instruments. Its last round may be short, and its ranks
# check at the end that they hold one model.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/decentralised/own_local_sgd.py --every 8
# ```

# %%
from demos.decentralised.own_local_sgd import train
from sidebyside import run_demo

show(train)
run_demo("decentralised/own_local_sgd.py")

# %% [markdown]
# Started like this, it is a group of one rank. In a terminal,
# `decentralised/local_sgd.py` prints the table for any number of ranks, and
# `decentralised/gossip.py` the distances, in rounds or in random pairs.
#
# ## The scorecard
#
# Plain SGD, $N$ ranks, a model of $S$ bytes:
#
# | | local SGD, a meeting every $H$ steps | gossip on a ring |
# |---|---|---|
# | equal to one process | for $H = 1$, up to rounding; otherwise no: the loss is close if shares are alike | no: the replicas differ, too |
# | bytes each rank sends per step | $2(N-1)/N \cdot S / H$ | $2S$, from three ranks on |
# | memory of each rank | parameters, gradients, its own activations, one more $S$ for the message; with an outer step $3S$ more | the same, and $2S$ for what arrives |
# | idle share | at a meeting all wait for the slowest | in step: each waits for its neighbours; out of step: none waits for a slow one |
# | if one rank dies | the next meeting fails, and the training stops | if it is killed, the others go on; its own images are lost |

# %% [markdown]
# ## What we saw
#
# * Between meetings ranks drift apart, which costs a lot if each sees its own digits.
# * DiLoCo's outer step with momentum makes more of each meeting.
# * With gossip, peers agree without a centre. The second-largest eigenvalue modulus of
#   the mixing matrix predicts how fast.
#
# ## Next
#
# Every rank here holds a whole model. What belongs on which device, and what does it
# cost to move it there? Part III begins with lesson 13, and cuts the model itself.
