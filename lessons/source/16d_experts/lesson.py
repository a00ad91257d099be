# ---
# title: 16d Experts
# question: A layer has many MLPs, and each token visits only a few of them. Which ones, on which rank, and which ranks sum which gradient?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 16d. Experts: more parameters, the same work
#
# So far every token passed through the whole of each MLP. A layer of *experts* has many
# MLPs, and a token visits a few of them. In lesson 10a tokens travelled to the ranks of
# their experts and home. Here such a layer learns.
#
# *You will be able to* keep experts equally busy, send tokens to other ranks and
# gradients home, say which ranks must sum which gradient, and predict how a popular
# expert slows every rank down.
#
# *Before this:* lessons 10a, 11a and 16a, and 16b's attention. *Time:* {reading}
# minutes, and 35 for the exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## A router: 5 minutes
#
# Eight people at desks are the experts; everyone else names two desks. Ask how much
# larger the office gets with 32 desks, and how much more one visitor has to do.
#
# When late: skip the code, keep the two numbers.

# %% [markdown]
# ## A router
#
# A **router** has a row of weights for each expert. The product of this row and a
# token, put through a sigmoid, is the token's *score* for the expert; many routers use
# softmax instead. The token visits the $k$ experts with the highest scores. These $k$
# scores, divided by their sum, are the *gates*: how much each answer counts:

# %%
from parallel_by_hand.experts.routing import Router
from sidebyside import show

show(Router.forward)

# %% [markdown]
# `bias` is 0 for now. Three tokens:

# %%
import torch

torch.manual_seed(0)
route = Router(width=16, experts=4, k=2)(torch.randn(3, 16))
for chosen, gates in zip(route.chosen.tolist(), route.gates.tolist(), strict=True):
    print(f"experts {chosen}, gates {gates[0]:.2f} and {gates[1]:.2f}")

# %% [markdown]
# With more experts the model grows. Does the work for a token grow, too? The
# **active parameters** are those that one token meets:

# %%
from parallel_by_hand.experts.expert_costs import numbers_of_experts
from parallel_by_hand.experts.expert_layer import make_expert_layer

for experts in (8, 32):
    numbers = numbers_of_experts(make_expert_layer(64, 64, experts, k=2))
    print(f"{experts:2} experts: {numbers['total']} parameters", end=", ")
    print(f"{numbers['active']} of them active")

# %% [markdown]
# **Four times as many experts have nearly four times as many parameters; a token meets
# only the router's new rows in addition.** DeepSeek-V3 has 671 billion parameters, of
# which 37 billion are active (technical report, 2024).

# %% [markdown] tags=["instructor"]
# ## Who is chosen: 10 minutes
#
# The guess is worth its time. Then ask why the imbalance feeds itself: an expert
# without tokens gets no gradient, and does not learn.
#
# When late: skip the characters.

# %% [markdown]
# ## Who is chosen?
#
# A small model reads *Moby-Dick* and guesses each next character: attention, then eight
# experts, two for each character. A fair share is 12.5 %. An expert that is chosen
# learns; its answers get better, and the router likes it more. In the last 20 of 200
# steps, what share of all choices do the two favourites have together? Fair would be
# 25 %.

# %%
from sidebyside import guess

guess("16d-favourites", None, "What share do the two favourites have?", "%")

# %%
from lessons.props.experts import draw_shares
from parallel_by_hand.experts.text_experts import shares_of_experts, train_all_ways
from sidebyside import reveal

runs = train_all_ways(steps=200)  # four trainings: three are for later
shares = {way: shares_of_experts(run) for way, run in runs.items()}
reveal("16d-favourites", 100 * shares["nothing"].topk(2).values.sum().item())
draw_shares({"nothing": shares["nothing"]})

# %% [markdown]
# **Left alone, the router gives most of its choices to two of the eight experts.** With
# three other seeds the two favourites had 54 %, 80 % and 82 %. Most others answer
# hardly any token, and take up memory all the same. There are two remedies.
#
# The **balancing loss** is added to the loss of the text, with a small weight. $f_e$ is
# expert $e$'s share of the choices, $P_e$ its mean share of the scores:
#
# $$E \sum_e f_e P_e$$
#
# It is 1 if all experts are chosen equally often. Counts have no gradient, so a
# step changes the scores only: it lowers those of experts that are chosen too often
# (Fedus et al., Switch Transformers, 2021).

# %% [markdown]
# The other remedy is the `bias` in the router, one number for each expert. After each
# step it moves down a little if the expert was chosen too often, and up if too seldom.
# It takes part in the choice only: gates come from scores without it. So **the bias has
# no gradient**, and no term is added to the loss. DeepSeek-V3 (2024) balances like
# this, but adds the balancing loss of each single text, times 0.0001: `V3` below.

# %%
from parallel_by_hand.experts import routing

show(routing.balance_loss)
show(routing.move_bias)
for way, run in runs.items():
    print(f"balanced by {way:<8} loss {sum(run.losses[-20:]) / 20:.2f} nats", end=", ")
    print(f"a text's busiest expert has {100 * run.busiest:.1f} %")
draw_shares({way: shares[way] for way in ("nothing", "loss", "bias")})

# %% [markdown]
# **Both ways keep all eight busy, and change the text's loss by less than 0.05.** The
# loss is no lower: in 200 steps, eight busy experts learn no more here than two or
# three. By chance, a text's busiest expert would have 18.5 %. `V3`'s loss of each text
# changes nothing here: over six seeds the mean is 19.7 %, with the bias alone 19.9 %.
#
# What do they learn? If characters meant nothing to the router, any two experts would
# have 25 % of a character's choices. With the bias, its two favourites have:

# %%
by_character = runs["bias"].by_character
favourites = by_character.topk(2).values.sum() / by_character.sum()
print(f"{100 * favourites:.0f} % of the choices")

# %% [markdown] tags=["instructor"]
# ## A capacity: 5 minutes
#
# Each desk has a fixed number of chairs, and latecomers go home unanswered. Ask who is
# sent home if the chairs are filled in the order of the text.
#
# When late: the exercise goes home, the table stays.

# %% [markdown]
# ## A capacity
#
# Many programs give each expert room for a fixed number of choices, the **expert
# capacity**: a multiple of its fair share. The choices beyond it are **dropped**. The
# layer adds the answers to $x$, so a token that loses all its choices passes unchanged.
#
# Our models had no limit. This share of their choices is above it in the last 20
# steps:

# %%
from parallel_by_hand.experts.text_experts import share_dropped

print("above       1 ×   1.25 ×    2 ×  the fair share")
for way, run in runs.items():
    lost = [100 * share_dropped(run, factor) for factor in (1, 1.25, 2)]
    print(f"{way:<10}", *(f"{share:5.1f} %" for share in lost))

# %% [markdown]
# **Balanced experts would drop less than half as much.** DeepSeek-V3 drops nothing.

# %% [markdown]
# ## Exercise 1: dispatch with a capacity
#
# Write `dispatch(chosen, experts, capacity)`. `chosen`, of shape (tokens, k), names
# each token's experts. A choice's *place* is its index in `chosen.flatten()`. Return
# two tensors of whole numbers:
#
# * the places that are kept, expert 0's first, then expert 1's, and so on; each
#   expert's in the order of `chosen.flatten()`, and of these the first `capacity`;
# * how many each expert keeps, of shape (experts,).
#
# By hand first: three tokens choose [[0, 1], [0, 2], [0, 1]]. There are three experts,
# and the capacity is 2.
# <!-- exercise: 16d-dispatch -->
#
# <details><summary>Hint 1: a question</summary>
#
# Expert 0 is chosen at the places 0, 2 and 4. Which of them does it keep? What do you
# do for expert 1?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Go through the experts one by one. A comparison says where the flat list names this
# expert, and `nonzero` gives these places in order.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `(chosen.flatten() == expert).nonzero().flatten()[:capacity]` for each expert. Join
# the pieces with `torch.cat`, and note their lengths.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, dispatch with a capacity: 10 minutes
#
# Common: the tokens are returned instead of the places; the counts are those before
# the drop. For those who are done early: without a loop (a stable `argsort`).


# %% exercise="16d-dispatch"
from sidebyside import forget, hint, progress, solution


def dispatch(chosen, experts: int, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The places that are kept, expert 0's first, and how many each expert keeps."""
    ### BEGIN SOLUTION
    choices = chosen.flatten()
    kept = [
        (choices == expert).nonzero().flatten()[:capacity] for expert in range(experts)
    ]
    return torch.cat(kept), torch.tensor([len(places) for places in kept])
    ### END SOLUTION


# %%
from sidebyside import check

check("16d-dispatch", dispatch)

# %% [markdown] tags=["why"]
# <!-- why: 16d-dispatch -->
# Why it works: `nonzero` lists places from the front, so the slice keeps the earliest.
# Place p belongs to token p // k, and to the gate `gates.flatten()[p]`: nothing else has
# to be remembered to come home.
#
# By hand: expert 0 keeps 0 and 2, expert 1 keeps 1 and 5, expert 2 keeps 3. So the
# places are [0, 2, 1, 5, 3], the counts [2, 2, 1].

# %% [markdown] tags=["instructor"]
# ## To the experts and home: 8 minutes
#
# Let eight people with letters walk the picture. Ask what each rank must know before
# they arrive (how many), and whether "sorted by expert" survives the walk. It does not.
#
# When late: show the picture, and the gradient's way only.

# %% [markdown]
# ## To the experts and home
#
# In **expert parallel** each rank has some of the experts, and tokens of its own. In
# the picture each token, a letter, visits the expert whose number stands below it. The
# colour is that of the expert's rank:

# %%
from lessons.props.experts import draw_visit

draw_visit()

# %% [markdown]
# This takes 10a's three all-to-alls: numbers of rows, rows, answers. What arrives is
# sorted by sender, so it has to be sorted by expert once more.
#
# Autograd does not follow rows through `all_to_all_single`, so we write the backward:
# the same call, with the two lists of counts exchanged, brings their gradients home.

# %%
from parallel_by_hand.experts import expert_layer

show(expert_layer.SendRows)
show(expert_layer.ask_experts_of_ranks)

# %% [markdown]
# ## Exercise 2: combine
#
# The answers are home, in the order of `places`. Write `combine(answers, places,
# gates)`: for each token the sum of its answers, each times its gate.
#
# * `answers`, of shape (kept choices, width): row $j$ answers the choice at `places[j]`;
# * `gates`, of shape (tokens, k).
#
# The result has the shape (tokens, width). What was dropped adds nothing, and gradients
# flow to answers and gates.
#
# By hand first: the gates are [[0.7, 0.3], [0.6, 0.4]], the answers [[10], [20]], the
# places [0, 3].
# <!-- exercise: 16d-combine -->
#
# <details><summary>Hint 1: a question</summary>
#
# Which token and which gate belong to place 3, if each token has two choices?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Begin with zeros for all tokens, and *add* each weighted answer to the row of its
# token. Two answers may go to one row.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The tokens are `places // k`, the weights `gates.flatten()[places, None]`.
# `zeros.index_add(0, tokens, weights * answers)` adds rows that have the same token.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, combine: 10 minutes
#
# Expected: `total[tokens] = ...`, which keeps the last answer only, and `+=` in the
# same place, which does so too. The case by hand does not show it; the check does.


# %% exercise="16d-combine"
def combine(answers, places, gates) -> torch.Tensor:
    """For each token the sum of its answers, each times its gate."""
    ### BEGIN SOLUTION
    tokens, k = gates.shape
    weighted = gates.flatten()[places, None] * answers
    total = answers.new_zeros(tokens, answers.shape[1])
    return total.index_add(0, places // k, weighted)
    ### END SOLUTION


# %%
check("16d-combine", combine)

# %% [markdown] tags=["why"]
# <!-- why: 16d-combine -->
# Why it works: a place knows its token and its gate, so the order of the answers does
# not matter. `index_add` adds even where a token occurs twice; an assignment, `+=` too,
# would keep one of the two. Its backward hands each answer its token's gradient.
#
# By hand: place 0 is token 0 with gate 0.7, place 3 token 1 with gate 0.4: [[7], [8]].

# %% [markdown]
# Now the whole layer, on one, two and four ranks. Each rank has 24 tokens of its own
# and its share of eight experts. Beside it runs the undivided layer with all tokens:

# %%
from parallel_by_hand.experts.beside_whole import compare_with_whole
from sidebyside import run_ranks

gradients = "gradient of x", "shared", "experts"
for ranks in (1, 2, 4):
    found = run_ranks(compare_with_whole, world_size=ranks)
    outputs = not any(one["other outputs"] for one in found)
    equal = all(one[name] < 1e-12 for one in found for name in gradients)
    print(f"ranks: {ranks}, outputs equal {outputs}, gradients equal {equal}")

# %% [markdown]
# **Without dropping, experts on 1, 2 and 4 ranks give the outputs and gradients of the
# whole layer, up to rounding.**

# %% [markdown] tags=["instructor"]
# ## Who sums what: 6 minutes
#
# Draw the square of ranks. Ask for each parameter: which ranks' tokens has it seen?
# Then: which other ranks have the same one? The exercise is these two questions.

# %% [markdown]
# ## Who sums what?
#
# Everything but the experts is *shared*: every rank has a copy of the router and the
# norm. With four ranks there can be two copies of the experts, too. The ranks form a
# mesh: along one side lie the experts, along the other the copies.
#
# | rank | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | has experts | 0 to 3 | 4 to 7 | 0 to 3 | 4 to 7 |
# | sends its tokens to ranks | 0, 1 | 0, 1 | 2, 3 | 2, 3 |
# | has the same experts as rank | 2 | 3 | 0 | 1 |
#
# DDP averages all gradients over all ranks. Here we do so after backward:

# %%
from parallel_by_hand.experts.beside_whole import NO_LIMIT, sum_over_everyone

show(sum_over_everyone)
copies, balance_weight = 2, 0.0
settings = copies, NO_LIMIT, balance_weight, sum_over_everyone
found = run_ranks(compare_with_whole, *settings, world_size=4)
for kind in ("shared", "experts"):
    print(f"gradients of {kind}: as in the whole", max(x[kind] for x in found) < 1e-12)

# %% [markdown]
# **Averaged over everyone, shared gradients are right and experts' gradients are
# wrong**: those of different experts have been added up. No error is raised, for their
# shapes are equal; a step beside the whole layer shows it. **By default, torch's `DistributedDataParallel` also copies rank 0's
# experts over all others when it begins.**

# %% [markdown]
# ## Exercise 3: who sums which gradient?
#
# Write the right one, `complete_gradients(layer, replicas)`. Each rank has called
# `backward` on the mean loss of its own tokens, equally many on each. Afterwards every
# `.grad` is the gradient of the mean over *all* ranks.
#
# `replicas` is the process group of the ranks that have this rank's experts. Experts'
# parameters have names that begin with `experts.`
#
# By hand first: four ranks as above. Each loss alone gives one weight of expert 0 the
# gradient 1. What does rank 0 hold after backward, and in the end?
# <!-- exercise: 16d-who-sums -->
#
# <details><summary>Hint 1: a question</summary>
#
# Gradients come home by all-to-all. From how many ranks' losses has expert 0 on rank 0
# got a gradient already?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Shared: summed over all ranks. Experts: those of the own group are summed already, so
# only `replicas` are missing. By how many losses is each sum divided, if their mean is
# wanted?
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For each of `layer.named_parameters()`: `dist.all_reduce(parameter.grad,
# group=replicas)` for experts, without `group` for the others. Then divide both by
# `dist.get_world_size()`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, who sums which gradient: 15 minutes
#
# Expected: experts divided by the number of replicas. It looks natural, and their
# learning rate is then too high by the number of ranks that share the experts.


# %% exercise="16d-who-sums"
import torch.distributed as dist


def complete_gradients(layer: torch.nn.Module, replicas) -> None:
    """Make each `.grad` that of the mean of all ranks' losses, in place."""
    ### BEGIN SOLUTION
    for name, parameter in layer.named_parameters():
        group = replicas if name.startswith("experts.") else None
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size()
    ### END SOLUTION


# %%
check("16d-who-sums", complete_gradients)

# %% [markdown] tags=["why"]
# <!-- why: 16d-who-sums -->
# Why it works: an all-reduce belongs where a gradient is a summand, over those that
# have the others. Each of the four losses counts a quarter, whichever way its gradient
# came: by all-to-all or by all-reduce.
#
# By hand: rank 0 holds 2, from its own loss and from rank 1's. With rank 2's 2 that
# is 4, divided by four ranks 1.

# %% [markdown] tags=["instructor"]
# ## Counting alone: 4 minutes
#
# Two rooms share a desk: if each room may fill half the chairs, a full room loses
# visitors although the other sends none.
#
# When late: read out the sentence in bold.

# %% [markdown]
# ## Counting alone
#
# A capacity and a balancing loss count choices. Each rank can count its own, or all
# count together, with an all-gather of one number for each expert. We try both ways,
# first with the fair share as the capacity, then with the balancing loss:

# %%
for per_rank in (True, False):
    limits = expert_layer.Limits(factor=1.0, per_rank=per_rank)
    found = run_ranks(compare_with_whole, 1, limits, world_size=4)
    print(f"counted {'alone' if per_rank else 'together'}:", end=" ")
    print("tokens of 24 with another output", [x["other outputs"] for x in found])
    limits = expert_layer.Limits(per_rank=per_rank)
    found = run_ranks(compare_with_whole, 1, limits, 1.0, world_size=4)
    equal = max(x["shared"] for x in found) < 1e-12
    print(f"    with the loss: gradients of shared as in the whole {equal}")

# %% [markdown]
# **With a capacity or a balancing loss for each rank, another model is trained; counted
# together, it is the whole one again.** The difference matters in models of up to 43
# billion parameters: experts that are balanced over a rank's few texts specialise less,
# and counting over all ranks gave a lower loss (Qiu et al., Demons in the Detail,
# 2025). The bias needs the counts of all ranks as well, or the ranks' routers drift
# apart.

# %% [markdown] tags=["instructor"]
# ## What it costs: 5 minutes
#
# Ask what travels: parameters, or tokens? The tempting answer to the guess is 4.
#
# When late: only the table.

# %% [markdown]
# ## What it costs
#
# Four ranks share 512 tokens, 64 numbers each, and a layer of eight experts. With 32
# experts instead of eight, how many times as many bytes does a rank send in a step?

# %%
guess("16d-bytes", None, "Bytes with 32 experts, divided by those with 8?", "×")

# %%
from parallel_by_hand.experts.expert_costs import cost_of_experts
from parallel_by_hand.model_parallel.transformer_block import print_block_table

rows = {"one rank": run_ranks(cost_of_experts, "one rank", world_size=1)}
for way in ("DDP", "tensor", "experts"):
    rows[way] = run_ranks(cost_of_experts, way, world_size=4)
print_block_table({way: ranks[:2] for way, ranks in rows.items()})  # in bytes
more = run_ranks(cost_of_experts, "experts", 32, world_size=4)
sent = [sum(rank.sent for rank in ranks) for ranks in (more, rows["experts"])]
reveal("16d-bytes", sent[0] / sent[1], computed=True)

# %% [markdown]
# **What travels is tokens: $k$ copies, there and back, forward and backward, however
# many experts there are.** The small rest is the counts and the gradients of
# router and norm.
#
# DDP holds all experts on each rank, and sends all their gradients. Tensor parallel
# splits each expert by its neurons, as 16a split its pair, and every rank sees all
# tokens. In expert parallel each rank holds a quarter of the experts, and activations
# of the tokens that visit it, so the ranks differ.

# %% [markdown] tags=["instructor"]
# ## A hot expert: 5 minutes
#
# Ask before the timeline what rank 2 does in the upper picture. It waits, and no faster
# GPU would help it.

# %% [markdown]
# ## A hot expert
#
# Rank 0 has the experts 0 and 1, rank 1 has 2 and 3, and so on. In the all-to-all every
# rank waits for the one with the most visitors. Here a step is the experts' part alone.
# Take the shares from the first picture: how many times as long does a step take as
# with equal shares?

# %%
guess("16d-hot", None, "Time without balance, divided by time with equal shares?", "×")

# %%
from parallel_by_hand.experts import hot_expert
from sidebyside import Timeline, draw_timelines

pictures = {}
for way in ("nothing", "bias"):
    loads = hot_expert.loads_of_ranks(runs[way], ranks=4)
    with Timeline() as pictures[f"balanced by {way}"]:
        run_ranks(hot_expert.sleep_through_experts, loads, world_size=4)
loads = hot_expert.loads_of_ranks(runs["nothing"], ranks=4)
reveal("16d-hot", max(loads), computed=True)
draw_timelines(pictures, stamp="simulated")

# %% [markdown]
# **The step takes as long as the busiest rank's share.** The machine is sound: the
# router made the rank slow.

# %% [markdown] tags=["instructor"]
# ## The block of today: 5 minutes
#
# Let people name open models: most have this block. Ask why keys and values have fewer
# heads (they are kept for each token while a model writes).
#
# When late: the table only.

# %% [markdown]
# ## The block of today
#
# Our experts are the MLPs of today's block. The model of *Moby-Dick* has the rest, but
# for *rotary* positions: they turn queries and keys by angles that grow with the place.
#
# | | lessons 14 to 17 | many models since 2023 | split over ranks |
# |---|---|---|---|
# | norm | LayerNorm | **RMSNorm**: no mean, no bias | whole |
# | attention | a key and a value for each query head | **grouped-query**: several query heads share them | by heads; with more ranks than key heads, some hold the same one and sum its gradient |
# | MLP | two matrices, GELU | **gated MLP**: down(silu(gate x) · up x) | two by columns, one by rows |
# | kept for backward, ÷ $sbh$ | 32 without dropout, fused attention | $12 + 4g + 8f$ | |
#
# Here $g$ is the number of key heads divided by that of query heads, and $f$ the
# MLP's neurons divided by the width.

# %%
from parallel_by_hand.experts import todays_block

for ranks in (2, 4):  # two heads of keys and values
    gaps = run_ranks(todays_block.compare_split_todays_block, world_size=ranks)
    print(f"{ranks} ranks: as unsplit", max(max(gap.values()) for gap in gaps) < 1e-12)
size = todays_block.BlockSize(width=64, heads=8, kv_heads=2, hidden=224)
kept = todays_block.kept_by_todays_block(size, positions=64, batch=2)
print(f"formula {todays_block.todays_block_formula(size):g}", end=", ")
print(f"measured {kept / (64 * 2 * 64):.1f} in units of sbh")

# %% [markdown]
# **Without dropout, 16b's 34 is 32; here it is 41** with $g$ = ¼ and $f$ = 3.5, as in
# Llama 3 8B. On the CPU each of torch's two RMSNorms keeps 6 more: two tensors in 32
# bits in place of x in 16. The rest is small.

# %% [markdown] tags=["instructor"]
# ## The library: 2 minutes
#
# Ask which of our functions each of the two calls replaces.
#
# When late: only the table.

# %% [markdown]
# ## The library's call
#
# Torch 2.13 has both halves: an all-to-all with a backward, and one call for the
# products of all experts. Both also run on CPUs with gloo.


# %%
from sidebyside import device


def rows_by_library() -> tuple[bool, bool]:
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    rows = torch.randn(2 * dist.get_world_size(), 16, device=device())
    counts, rows = [2] * dist.get_world_size(), rows.requires_grad_()
    ours = expert_layer.SendRows.apply(rows, counts, counts, None)
    theirs = all_to_all_single_autograd(rows, counts, counts, dist.group.WORLD)
    home = [torch.autograd.grad(y.square().sum(), rows)[0] for y in (ours, theirs)]
    x, weights = rows.detach().bfloat16(), torch.randn(2, 16, 8).to(rows).bfloat16()
    ends = torch.tensor([1, len(rows)], dtype=torch.int32, device=device())
    grouped = torch.nn.functional.grouped_mm(x, weights, offs=ends)
    one_by_one = torch.cat([x[:1] @ weights[0], x[1:] @ weights[1]])
    return torch.equal(*home), torch.allclose(grouped, one_by_one, atol=0.1)


run_ranks(rows_by_library)

# %% [markdown]
# **Its all-to-all gives our gradients, and its grouped products are the products one by
# one, up to rounding.** The underscore in the first module's name means that the call
# may still change.
#
# | | experts over ranks |
# |---|---|
# | Megatron-LM | `--expert-model-parallel-size`, `--moe-token-dispatcher-type alltoall` |
# | DeepSpeed | `MoE(hidden_size, expert, num_experts, ep_size, k)` |
# | torchtitan | `parallelism.expert_parallel_degree` |
# | DeepEP | all-to-alls for experts, between GPUs |

# %% [markdown]
# ## What we saw
#
# * Experts make a model larger, and a token's work hardly more. Left alone, the router
#   uses few of them; a loss or a bias keeps all busy.
# * Tokens travel to the experts and home, gradients the other way.
# * Shared gradients are summed over all ranks, an expert's over the ranks that have it;
#   both are divided by the number of all ranks.
# * A rank that counts its own choices alone trains another model.
# * Expert parallel is for experts that do not fit on each rank, or whose gradients cost
#   more than the tokens' journeys. Otherwise DDP is simpler, and has no hot rank.
#
# **The scorecard** of one layer: $T$ tokens of width $h$, $k$ choices, $\Psi$
# parameters, nearly all in experts, over $N$ ranks; ZeRO-3 is lesson 17b's, computed:
#
# | | DDP | tensor | ZeRO-3 | experts |
# |---|---|---|---|---|
# | equal to one process | up to rounding, if counted together | up to rounding | as with DDP | as with DDP |
# | numbers each rank sends per step, times $(N-1)/N$ | $2\Psi$ | $4Th + 2kT$ | $3\Psi$ | about $4kTh/N$ |
# | memory: parameters, gradients, optimiser | $1$ | $1/N$ | $1/N$ | $1/N$ |
# | memory: activations | $1/N$ | hidden $1/N$, the rest whole | $1/N$ | $1/N$ if balanced |
# | idle share | its all-reduce | its all-reduces | its gathers | the wait for the busiest rank, and the all-to-alls |
# | if one rank dies | the others have all | neurons gone | a shard gone | its experts gone, unless there are replicas |

# %% [markdown]
# In a terminal, `python demos/experts/hot_expert.py --ranks 8` gives each expert a
# rank. [demos/experts/own_experts.py](../demos/experts/own_experts.py) is the script to
# take home: torch alone, on any number of ranks that divides eight.
#
# ## Next
#
# Experts can lie on other ranks because a token needs few of them. Lesson 17a shares
# out the parameters that every rank needs.
