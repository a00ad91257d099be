# ---
# title: 16a Tensor parallel: the pair
# question: One layer is too large for one device. How do several ranks share it, and what do they have to say to each other?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 16a. Tensor parallel: the pair
#
# Lessons 14a to 15b cut a model between its layers. Here we cut *through* linear layers:
# each rank holds some of the neurons, and all ranks work on the same samples at the same
# time. No rank waits for an earlier stage, but layers now need numbers from all ranks.
#
# *You will be able to* split a layer in two ways, put two layers together so that they
# need only one sum, write the two functions that make `backward` right, and say when
# all this pays.
#
# *Before this:* lessons 5, 10a, 10b, 11a and 14a. *Time:* {reading} minutes, and 35 for the
# exercises. *Needs:* two CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## One layer, two ranks: 8 minutes
#
# Let two people compute the layer on paper, one in blue and one in orange, first by
# columns, then by rows. Ask each time: what do you have that the other one needs?
#
# When late: show the picture, and let the class check one number of each line.

# %% [markdown]
# ## One layer, two ranks
#
# A linear layer with two inputs and four neurons computes $y = xA$. Each column of the
# matrix $A$ belongs to one neuron. There are two straight cuts. The picture shows the
# whole layer, the layer cut by columns, and the layer cut by rows. Both ranks hold what
# is grey, rank 0 what is blue, rank 1 what is orange:

# %%
import torch

from lessons.props.tensor_parallel import draw_split_layer

x = torch.tensor([[1, 2]])
A = torch.tensor([[1, 2, -1, 0], [1, -2, 1, 2]])
draw_split_layer(x, A)

# %% [markdown]
# Cut by its columns, the layer is **column-parallel**: every rank needs all inputs and
# gets some of the outputs, complete. Cut by its rows it is **row-parallel**: every rank
# needs some of the inputs and gets one summand of every output. An all-reduce adds the
# summands.
#
# `nn.Linear` stores $A$ transposed: there a neuron is a row of `weight`.

# %% [markdown]
# ## Exercise 1: a layer by rows
#
# Every rank calls these two functions, without autograd.
#
# `row_forward(x_part, rows, bias)` returns the whole $xA + b$ on every rank, by one
# `dist.all_reduce`. A rank has `x_part`, its columns of $x$, of shape (samples, own
# inputs), and `rows` of $A$, of shape (own inputs, outputs). All ranks hold the same
# `bias`.
#
# `row_backward(gradient, x_part, rows)` gets the gradient of the output, the same on
# all ranks. It returns the gradients of `x_part`, `rows` and `bias`, and sends nothing.
#
# By hand first: take the picture's last line and [1, 0, 0, 1] as the gradient of the
# output. Which gradients does each rank compute?
# <!-- exercise: 16a-row -->
#
# <details><summary>Hint 1: a question</summary>
#
# How often is the bias counted if every rank adds it to its summand? And which of the
# three gradients depends on a number that only another rank has?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# For y = x A, the gradient of x is the gradient of y times A transposed; that of A is x
# transposed times the gradient of y. Both hold for a part of x and the rows that belong
# to it.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Forward, all-reduce `x_part @ rows` in place, then add the bias. Backward, return two
# products with a transposed matrix, and for the bias a sum over the samples.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, a layer by rows: 15 minutes

# %% exercise="16a-row"
import torch.distributed as dist

from sidebyside import forget, hint, progress, solution


def row_forward(x_part, rows, bias) -> torch.Tensor:
    """The whole layer's output, on every rank."""
    ### BEGIN SOLUTION
    summand = x_part @ rows
    dist.all_reduce(summand)
    return summand + bias
    ### END SOLUTION


def row_backward(gradient, x_part, rows) -> tuple[torch.Tensor, ...]:
    """The gradients of `x_part`, `rows` and `bias`."""
    ### BEGIN SOLUTION
    return gradient @ rows.T, x_part.T @ gradient, gradient.sum(0)
    ### END SOLUTION


# %%
from sidebyside import check

check("16a-row", row_forward, row_backward)

# %% [markdown] tags=["why"]
# <!-- why: 16a-row -->
# Why it works: matrix products are sums over the inputs, and a sum can be cut anywhere.
# The bias is no part of that sum, so it is added once, afterwards. Backward, a rank has
# all that its gradients depend on: the gradient of the output, its inputs, its rows.
#
# By hand: rank 0 gets 1 for its input and [1, 0, 0, 1] for its row; rank 1 gets 3 and
# [2, 0, 0, 2]. A bias would get [1, 0, 0, 1] on both.

# %% [markdown] tags=["instructor"]
# ## The pair: 10 minutes
#
# The picture first. Ask where the ranks have to talk, and wait until somebody says: only
# at the end. Then ask about the other order, rows first: the class computes one number.
#
# When late: skip the cell with the other order, and tell its result.

# %% [markdown]
# ## The pair
#
# Now two layers with a ReLU between them, $\mathrm{relu}(xA)B$. The first is cut by
# columns, the second by rows. Read each rank's line from left to right: does it ever
# need a number of the other colour?

# %%
from lessons.props.tensor_parallel import draw_pair

B = torch.tensor([[1, 0], [2, 1], [0, 3], [1, -1]])
summands = []
for mine in ([0, 1], [2, 3]):  # the neurons of rank 0, and those of rank 1
    hidden = (x @ A[:, mine]).relu()
    summands.append(hidden @ B[mine])
print(f"whole: {(x @ A).relu() @ B}, sum of the ranks: {sum(summands)}")
draw_pair(x, A, B)

# %% [markdown]
# Each rank needs only the hidden numbers that it has computed itself. **Columns, then
# rows: forward, the pair needs one all-reduce, at its end.** Any function that acts on
# each number by itself may stand between the layers.
#
# The other order costs more. After rows a rank has only a summand, and the ReLU of a
# sum is not the sum of the ReLUs:

# %%
from parallel_by_hand.tensor_parallel.split_layer import outputs_by_rows

part_0, part_1 = outputs_by_rows(x, A, ranks=2)
print("relu of the sum ", (part_0 + part_1).relu().tolist())
print("sum of the relus", (part_0.relu() + part_1.relu()).tolist())

# %% [markdown]
# ## And back
#
# Backward through the rows needs no message. Every rank computes the same loss from the
# sum, so each already has the gradient of the sum, and adding these up would count it $N$
# times. Through the columns it takes an all-reduce: every rank has used the whole $x$ for
# its own neurons, so each knows one summand of the gradient of $x$.

# %% [markdown]
# In training, autograd calls backward. To tell it what to do, we write an *autograd
# function*, as in lesson 14a: a class with a `forward` and a `backward`, called by
# `.apply(x)`. `backward` gets the gradient of the output, and returns the gradient of
# `x`. `ctx` stays unused here.

# %% [markdown]
# Two such functions are enough. They are called **conjugate functions**: what one does
# forward, the other does backward.
#
# | | forward | backward | where |
# |---|---|---|---|
# | copy to ranks | nothing | all-reduce | before the columns |
# | sum over ranks | all-reduce | nothing | after the rows |

# %% [markdown]
# ## Exercise 2: the conjugate functions
#
# Write both as autograd functions. All ranks call `CopyToRanks.apply(x)` and
# `SumOverRanks.apply(x)`, with an `x` of the same shape. Use `dist.all_reduce` where
# the table says so, and send nothing elsewhere. The inputs `x` and `gradient` keep
# their numbers.
#
# By hand first: two ranks hold the same x = 3. Rank 0 computes 2 · x, rank 1 computes
# 5 · x, and the loss is the sum, 21. What is the gradient of x? What does each rank's
# autograd find without the two functions?
# <!-- exercise: 16a-conjugates -->
#
# <details><summary>Hint 1: a question</summary>
#
# `dist.all_reduce` works in place. Whose tensor does it change if you give it `x`?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Copy first, with `x.clone()`, and all-reduce the copy. Both functions need that, one
# forward and one backward. The identity is `x.view_as(x)`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# A function `all_reduced(tensor)` returns the summed copy. Then one class returns
# `x.view_as(x)` and `all_reduced(gradient)`, the other `all_reduced(x)` and `gradient`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the conjugate functions: 20 minutes


# %% exercise="16a-conjugates"
class CopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        return x.view_as(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        total = gradient.clone()
        dist.all_reduce(total)
        return total
        ### END SOLUTION


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        total = x.clone()
        dist.all_reduce(total)
        return total
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        return gradient
        ### END SOLUTION


# %%
check("16a-conjugates", CopyToRanks, SumOverRanks)

# %% [markdown] tags=["why"]
# <!-- why: 16a-conjugates -->
# Why it works: a tensor that is copied to N ranks influences the loss by N paths, and
# the chain rule adds up the gradients along all of them. A sum passes its gradient to
# each summand unchanged, and every rank has that gradient already, because all compute
# the same loss from the same sum.
#
# By hand: 7. Without the functions rank 0 finds 2 and rank 1 finds 5. Beware of
# `torch.distributed.nn.functional.all_reduce`: its backward is an all-reduce too, which
# is meant for a loss that is the sum of all ranks' losses. Here it would find 14. Torch
# 2.13 calls it deprecated, in favour of `torch.distributed._functional_collectives`.

# %% [markdown] tags=["instructor"]
# ## The bill: 9 minutes
#
# Before the meter runs, let people count the naive way's bytes: four times as wide in
# the middle, gathered forward, summed backward.
#
# When late: skip the training, and read out its last line.

# %% [markdown]
# ## The bill
#
# A *transformer*, the network of language models, is a stack of blocks. In GPT-like
# models the *MLP half* of each block, a multi-layer perceptron, is such a pair: a layer
# from $h$ numbers to $4h$, GELU, which is a smooth ReLU, and a layer back to $h$.
#
# `norm` brings the numbers of each sample to mean 0 and spread 1, then scales and
# shifts them by learned numbers. All ranks compute the same norm and the same sum with
# `x`. `norm` lies before the copy, so its gradient arrives already summed.

# %%
from parallel_by_hand.tensor_parallel.mlp import MLPBlock
from parallel_by_hand.tensor_parallel.split_layers import ColumnParallel, RowParallel
from sidebyside import show

show(MLPBlock.forward)
show(ColumnParallel.forward)
show(RowParallel.forward)

# %% [markdown]
# A naive arrangement splits both layers by columns and gathers the outputs after each:
# an all-gather of $4h$ numbers for each sample, then one of $h$. Backward, it
# all-reduces each layer's input gradient, $4h$ and $h$ numbers.
#
# A ring all-reduce sends $2(N-1)/N$ of the tensor, an all-gather $(N-1)/N$. In one
# step, by what factor does the naive way send more bytes than the pair?

# %%
from sidebyside import guess

guess("16a-naive", None, "Bytes of the naive way, divided by those of the pair?", "×")

# %%
from parallel_by_hand.tensor_parallel.mlp import meter_block
from sidebyside import reveal, run_ranks

bills = {how: run_ranks(meter_block, how, 64, 32)[0] for how in ("naive", "pair")}
for how, bill in bills.items():
    forward, backward = map(", ".join, bill["calls"])
    print(f"{how:<6} forward: {forward}; backward: {backward}")
    print(f"       each rank sends {bill['bytes']} bytes")
    for what, gap in bill["gaps"].items():
        print(f"       {what} as in the unsplit block: {gap < 1e-10}")
ratio = bills["naive"]["bytes"] / bills["pair"]["bytes"]
reveal("16a-naive", ratio, computed=True)

# %% [markdown]
# That was for two ranks, 32 samples and $h$ = 64, in 32 bits. **The pair calls one
# all-reduce forward and one backward**, of $h$ numbers for each sample. The naive way
# calls four collectives and sends $(4 + 1 + 8 + 2)/(2 + 2)$ times as many bytes.

# %% [markdown]
# ## The same training
#
# Two split blocks learn the digits, between two layers that every rank holds whole. In
# each rank an unsplit network takes the same 22 steps. After each step we compare this
# rank's parts with those of the unsplit one.

# %%
from torch import nn

from sidebyside import device


def make_digit_blocks(prepare=lambda block: block) -> nn.Sequential:
    torch.manual_seed(0)  # the same on every rank
    blocks = prepare(MLPBlock(32)), prepare(MLPBlock(32))
    return nn.Sequential(nn.Linear(64, 32), *blocks, nn.Linear(32, 10)).to(device())


def take_step(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    network.zero_grad()
    loss = nn.functional.cross_entropy(network(images), labels)
    loss.backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    return loss.item()


print(sum(p.nbytes for p in make_digit_blocks().parameters()), "bytes unsplit")

# %%
from parallel_by_hand.tensor_parallel.mlp import gap_to_whole, split_as_pair
from sidebyside import MessageMeter, load_digits


def train_split_and_whole() -> tuple[float, int, list[str], float]:
    whole, split, gaps = make_digit_blocks(), make_digit_blocks(split_as_pair), []
    data = [tensor[: 22 * 64].to(device()).split(64) for tensor in load_digits("train")]
    for images, labels in zip(*data, strict=True):
        take_step(whole, images, labels)
        with MessageMeter() as meter:
            loss = take_step(split, images, labels)
        gaps.append(gap_to_whole(split, whole))
    held = sum(p.nbytes for p in split.parameters())
    return torch.tensor(gaps).max().item(), held, meter.collectives, loss


for ranks in (2, 4):
    gap, held, calls, loss = run_ranks(train_split_and_whole, world_size=ranks)[0]
    print(f"{ranks} ranks: {held} bytes, {len(calls)} calls of {calls[0]} in a step")
    print(f"   after each step within 1e-6: {gap < 1e-6}; last loss {loss:.2f}")

# %% [markdown]
# **A network split by its neurons trains as the unsplit one does**, to within rounding
# and without dropout. Each rank holds fewer parameters, except those of the norms, of
# the narrow layers' biases, and of the layers that we have not split. Weights and their
# gradients never travel. Only $h$ numbers for each sample do, twice for each block.

# %% [markdown]
# ## Exercise 3: one too many
#
# This block has two branches side by side. It is right, but it calls one all-reduce too
# many forward, and one too many backward.


# %%
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks


def two_branches(x, first, second) -> torch.Tensor:
    """x + gelu(x A1) B1 + tanh(x A2) B2, where each rank has a part of each matrix."""
    (A1, B1), (A2, B2) = first, second
    one = sum_over_ranks(F.gelu(copy_to_ranks(x) @ A1) @ B1)
    two = sum_over_ranks(torch.tanh(copy_to_ranks(x) @ A2) @ B2)
    return x + one + two


# %% [markdown]
# Write `lean_branches(x, first, second)`, which returns the same and gives the same
# gradients, with one all-reduce forward and one backward. `x` is the same on all ranks.
# `first` and `second` are pairs of this rank's columns, of shape (inputs, own neurons),
# and rows, of shape (own neurons, inputs).
#
# By hand first: what does each of the four all-reduces add up? Which two can be added
# before they travel?
# <!-- exercise: 16a-one-too-many -->
#
# <details><summary>Hint 1: a question</summary>
#
# Is the sum of two all-reduces the all-reduce of a sum? And by how many paths does `x`
# influence the loss: through the neurons, and past them?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Add the two summands on each rank before they are summed over the ranks. Backward,
# autograd adds the gradients of both branches by itself if both use the *same* copy of x.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Both branches use `copied = copy_to_ranks(x)`. The last line adds one `sum_over_ranks`
# of both branches to `x`: to which `x`, the original or the copied one?
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, one too many: 10 minutes


# %% exercise="16a-one-too-many"
def lean_branches(x, first, second) -> torch.Tensor:
    """The same as `two_branches`, with one all-reduce forward and one backward."""
    (A1, B1), (A2, B2) = first, second
    ### BEGIN SOLUTION
    copied = copy_to_ranks(x)
    one = F.gelu(copied @ A1) @ B1
    two = torch.tanh(copied @ A2) @ B2
    return x + sum_over_ranks(one + two)
    ### END SOLUTION


# %%
check("16a-one-too-many", lean_branches)

# %% [markdown] tags=["why"]
# <!-- why: 16a-one-too-many -->
# Why it works: all-reduce is a sum, and sums may be taken in any order, up to rounding.
# So what is to be added after two all-reduces can be added before one. Backward it is the
# same with gradients: autograd adds those of both branches at `copied`, and one
# all-reduce carries the total. The way past the neurons is computed alike on all ranks,
# so it needs no sum.
#
# By hand: forward, the outputs of each branch over the ranks' neurons; backward, the
# gradients of x through each branch. Both outputs can be added first, and both gradients.

# %% [markdown] tags=["instructor"]
# ## Dropout: 6 minutes
#
# Ask before the table: should two ranks drop the same neurons? The class splits in
# halves, and both halves are right, about different places.
#
# When late: show the table, and read two of its rows.

# %% [markdown]
# ## Dropout: equal numbers or different ones?
#
# *Dropout* sets numbers to 0 at random while a network trains, so that it relies on no
# single neuron. A block may have it among the hidden neurons, which are split, and
# after the sum, where all ranks hold the same numbers. At each place, ranks may draw
# from equal streams or each from its own. Lesson 5's `SeedSequence` makes both:

# %%
from parallel_by_hand.tensor_parallel import dropout_streams

show(dropout_streams.dropout_stream)
show(dropout_streams.choose_stream)
show(dropout_streams.drop)

# %% [markdown]
# Half of the neurons are dropped. We count in how many of 1,000 draws the first neurons
# of both ranks are dropped together. Then we train for ten steps and compare what both
# ranks hold whole. **Before you run it:** which of the four rows is right?

# %%
for inside in ("equal", "own"):
    zeros = run_ranks(dropout_streams.dropped_together, inside, 0.5)
    print(f"{inside} among the neurons: {int((zeros[0] & zeros[1]).sum())} together")
    for after in ("equal", "own"):
        settings = inside, after, 0.5, 10
        one, other = run_ranks(dropout_streams.train_with_streams, *settings)
        print(f"   {after:<5} after the sum: replicas equal {torch.equal(one, other)}")

# %% [markdown]
# Independent neurons are dropped together in a quarter of the draws, not in half of
# them. **Where neurons are split, each rank draws numbers of its own; where all hold
# the same, all draw the same.** Neither mistake raises an error. Equal streams drop
# neurons in pairs; own streams after the sum let the replicas drift apart.

# %% [markdown] tags=["instructor"]
# ## When it pays: 7 minutes
#
# Write both terms on the board: one falls with N, the other grows. Then let people fill
# in the four numbers before the ranks sleep.
#
# When late: skip the timeline.

# %% [markdown]
# ## When it pays
#
# The pair shares its arithmetic among $N$ ranks, but adds two all-reduces of $S$ bytes,
# during which no rank computes. With the ring of 10b, and $W$ seconds of work on one
# rank, a step takes
#
# $$\frac{W}{N} + 2\left(2(N-1)\,\alpha + 2\,\frac{N-1}{N}\,\beta S\right).$$

# %% [markdown]
# Let $W$ = 900 ms and $S$ = 40 KB, over two invented links, far slower than real ones.
# In a machine, $\alpha$ = 2 ms and $\beta S$ = 45 ms. Across machines, $\alpha$ = 10 ms
# and $\beta S$ = 450 ms. Ranks sleep instead of computing. What is the speedup of eight
# ranks in a machine? And across machines?

# %%
guess("16a-eight", None, "The speedup of eight ranks in a machine?", "×")

# %%
guess("16a-across", None, "And of eight ranks across machines?", "×")

# %%
from parallel_by_hand.tensor_parallel.pair_costs import pair_seconds, step_of_pair

work, size, took = 0.9, 40_000, {}
links = {"in a machine": (0.002, 1125e-9), "across machines": (0.01, 11250e-9)}
for name, pace in links.items():
    for ranks in (2, 8):
        args = work, size, *pace
        took[ranks, name] = max(run_ranks(step_of_pair, *args, world_size=ranks))
        predicted = 1000 * pair_seconds(ranks, *args)
        print(f"{ranks} ranks {name}: predicted {predicted:.0f} ms", end=", ")
        print(f"took {1000 * took[ranks, name]:.0f} ms")
for id, place in ("16a-eight", "in a machine"), ("16a-across", "across machines"):
    print(f"8 ranks {place}", end=": ")
    reveal(id, work / took[8, place], simulated=True)

# %% [markdown]
# By the formula, the speedup of eight ranks in a machine is 2.8. The ranks took longer,
# because each of them wakes up for 28 messages. Across machines two
# ranks are slower than one, and eight are slower still. **With more ranks each has less
# work, and the all-reduces don't shrink.** Here are two ranks across machines. In the
# upper half of a lane a rank computes or waits for a sum; the lower half shows the two
# halves of the all-reduce:

# %%
from sidebyside import Timeline

with Timeline() as timeline:
    run_ranks(step_of_pair, work, size, *links["across machines"])
timeline.plot(stamp="simulated", height=2)

# %% [markdown]
# ## The link it needs
#
# For real GPUs, leave out $\alpha$ and count in 16 bits. The pair has $8h^2$ weights.
# For each weight, a sample costs two operations forward and four backward; in each
# all-reduce it has $2h$ bytes. With $R$ operations and $1/\beta$ bytes per second,
#
# $$\frac{\text{communication}}{\text{arithmetic}} = \frac{(N-1)\,R\,\beta}{6h}.$$
#
# The number of samples cancels: a larger batch does not help. Fewer ranks, a wider
# layer or a faster link do. An H100 computes $R = 989 \cdot 10^{12}$ at best:

# %%
from parallel_by_hand.tensor_parallel import pair_costs

for link, bytes_per_second in pair_costs.GPU_LINKS.items():
    for ranks in (2, 8):
        print(f"{ranks} GPUs, {link}", end="")
        for width in (4096, 16384):
            args = ranks, width, pair_costs.H100_FLOPS, bytes_per_second
            share = pair_costs.communication_over_arithmetic(*args)
            print(f", h = {width}: {share:.2f}", end="")
        print()

# %% [markdown]
# Eight GPUs in eight machines would send 5.6 times as long as they compute at $h$ =
# 4,096, and 1.4 times at $h$ = 16,384. These are orders of magnitude. **So with such
# links, tensor parallel stays within a machine**, or wherever the fast link reaches: an
# NVLink domain is often one machine, and in some systems a rack of 72 GPUs. The authors
# of Megatron-LM recommend just that: eight ranks in a machine of eight GPUs, and a
# pipeline between machines.

# %% [markdown]
# Libraries shorten the wait. Megatron-LM can compute the gradient of the weights while the
# backward all-reduce is under way. *Asynchronous tensor parallel* cuts each product into
# pieces and sends one piece while the next is computed.

# %% [markdown] tags=["instructor"]
# ## The library: 5 minutes
#
# The plan is the whole program: two words. Ask where the all-reduces are. `CommDebugMode`
# finds them.
#
# When late: skip the mesh.

# %% [markdown]
# ## The library's call
#
# A **DTensor** is a tensor that knows how it lies on a mesh, which is a grid of ranks:
# split along a dimension, whole on all, or as summands. `parallelize_module` makes a
# module's parameters DTensors, by a plan. `CommDebugMode` counts their collectives.


# %%
def block_by_library() -> tuple[bool, list[dict[str, int]]]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel
    from torch.distributed.tensor.debug import CommDebugMode

    torch.manual_seed(0)
    block = MLPBlock(64).to(device())
    plan = {"wide": parallel.ColwiseParallel(), "narrow": parallel.RowwiseParallel()}
    mesh = init_device_mesh(device().type, (dist.get_world_size(),))
    drawn = torch.randn(32, 64, device=device())  # the same on every rank
    x = [drawn.clone().requires_grad_() for _ in range(2)]
    split_as_pair(block)(x[0]).square().sum().backward()
    theirs = parallel.parallelize_module(block, mesh, plan)
    with CommDebugMode() as forward:
        loss = theirs(x[1]).square().sum()
    with CommDebugMode() as backward:
        loss.backward()
    counts = [mode.get_comm_counts() for mode in (forward, backward)]
    named = [{str(op): n for op, n in count.items()} for count in counts]
    return torch.allclose(x[0].grad, x[1].grad, atol=1e-5), named


# %%
same, (forward, backward) = run_ranks(block_by_library)[0]
print("gradient of x as in our pair:", same)
print(f"forward {forward}\nbackward {backward}")

# %% [markdown]
# **The library's pair calls the same two all-reduces.** DTensor finds out at each
# operation what lies where, and that takes as long for small matrices as for large
# ones. So in `tests/benchmarks/tensor_parallel_vs_dtensor.py` ours is far ahead at $h$
# = 64; at $h$ = 512 the products decide, and both take about as long.

# %% [markdown]
# With tensor parallel inside a machine and data parallel between machines, each rank
# belongs to two groups. A `DeviceMesh` lays the ranks out as a grid and makes the
# groups. Our functions take one: `copy_to_ranks(x, group)`.


# %%
def groups_of_mesh() -> dict[str, list[int]]:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device().type, (2, 2), mesh_dim_names=("data", "tensor"))
    groups = {name: mesh[name].get_group() for name in mesh.mesh_dim_names}
    return {n: dist.get_process_group_ranks(group) for n, group in groups.items()}


run_ranks(groups_of_mesh, world_size=4)

# %% [markdown]
# Ranks 0 and 1 share each layer, and so do 2 and 3. Ranks 0 and 2 hold the same neurons,
# see different samples, and average the gradients of these neurons, as in lesson 11a.
#
# | | columns, then rows |
# |---|---|
# | Megatron-LM | `ColumnParallelLinear`, `RowParallelLinear` |
# | torch | `ColwiseParallel()`, `RowwiseParallel()` in a plan |
# | JAX | `PartitionSpec(None, "tensor")`, then `PartitionSpec("tensor", None)`; on a mesh whose axes are `AxisType.Auto` the compiler puts the all-reduce in |
# | TensorFlow | `dtensor.Layout([dtensor.UNSHARDED, "tensor"], mesh)`, then the other way round |

# %% [markdown]
# ## A script of your own
#
# This script trains tensor-parallel without this course's instruments. All ranks read
# the *same* batch; rank 0 saves the whole matrices. The cell runs it on one rank; by
# `torchrun`, two or four ranks print the same loss.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/tensor_parallel/own_tensor_parallel.py --save model.pt
# ```

# %%
from demos.tensor_parallel.own_tensor_parallel import train_split
from sidebyside import run_demo

show(train_split)
run_demo("tensor_parallel/own_tensor_parallel.py")

# %% [markdown]
# ## What we saw
#
# * Columns, then rows need one all-reduce forward and one backward. Two conjugate
#   functions tell autograd so.
# * Split neurons need different dropout streams; what all ranks hold needs equal ones.
# * With more ranks the work of each shrinks, but the messages do not. Tensor parallel
#   needs a fast link and a wide layer, and stays within one NVLink domain, often one
#   machine.

# %% [markdown]
# **The scorecard** of the MLP half of a block, over $N$ ranks, with $s$ samples and width
# $h$:
#
# | | |
# |---|---|
# | equal to one process | after each step, up to rounding; among ranks, bit for bit in what all hold |
# | bytes each rank sends per step | $4(N-1)/N \cdot sh$ numbers: it grows with samples × width; weights never travel |
# | memory: parameters, gradients, optimiser | about $1/N$ of each; norm and the bias of the rows whole |
# | memory: activations | the $4h$ in the middle: $1/N$; input and output: whole on every rank |
# | idle share | the time of the all-reduces; in our code no rank computes meanwhile |
# | if one rank dies | its neurons are gone; the others get an error or wait |

# %% [markdown]
# In a terminal, `python demos/tensor_parallel/split_layer.py --help`,
# `demos/tensor_parallel/tensor_parallel_block.py` and
# `demos/tensor_parallel/dropout_streams.py` show the rest.
#
# ## Next
#
# The MLP is split. Lesson 16b splits attention, the vocabulary and all that every rank
# still holds whole.
