# ---
# title: 14a Model parallel: the cut
# question: A network does not fit on one device. Where do I cut it, and what has to cross the cut?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 14a. Model parallel: the cut
#
# Until now every rank held the whole model. Here training takes more memory than one
# device has, and fails. We cut the model between two layers and put each part on its
# own rank. Then it fits, and we look at the price: what crosses the cut, how long ranks
# wait, and which mistakes raise no error.
#
# *You will be able to* cut a network so that it is the same training, choose the place
# of the cut, and find what a cut breaks silently.
#
# *Before this:* lessons 10a and 11a. *Time:* {reading} minutes, and 45 for the exercises.
# *Needs:* two CPU cores, no GPU. With two GPUs the same cells use them; this is
# untested.

# %% [markdown] tags=["instructor"]
# ## Too large: 8 minutes
#
# Ask what must be in memory at the same time during one step, and collect it on the
# board: parameters, gradients, optimiser, activations. Only then the guess.
#
# When late: show the error only.

# %% [markdown]
# ## Too large for one device
#
# Eight fully-connected layers, 512 wide, learn the digits with batches of 128. The
# optimiser is SGD with momentum: for each parameter it keeps one more number, a running
# sum of its gradients.

# %%
from parallel_by_hand.model_parallel.cut_training import make_layers_to_cut
from sidebyside import forget, guess, hint, progress, show, solution

show(make_layers_to_cut)
question = "Without activations, how many times its parameters does it need?"
guess("14a-multiple", None, question, "×")
f"{sum(p.nbytes for p in make_layers_to_cut().parameters()):,} bytes of parameters"

# %% [markdown]
# Our device has 16,000,000 bytes. `DeviceMemory(budget)` enforces that: it counts each
# tensor until no one holds it any more, and raises an error if the next one would
# exceed the budget. The next cell ends in an error, as intended.

# %% tags=["raises-exception"]
import torch
from torch.nn import functional as F

from parallel_by_hand.memory.device_memory import DeviceMemory
from parallel_by_hand.model_parallel.cut_training import batches_to_cut
from sidebyside import device, run_ranks


def one_step(budget: int) -> None:
    """Runs in one rank: make the network, and train it for one step."""
    with DeviceMemory(budget):
        layers = make_layers_to_cut().to(device())
        sgd = torch.optim.SGD(layers.parameters(), lr=0.01, momentum=0.9)
        images, labels = (data.to(device()) for data in batches_to_cut(1)[0])
        loss = F.cross_entropy(layers(images), labels)
        loss.backward()
        sgd.step()


run_ranks(one_step, 16_000_000, world_size=1)

# %% [markdown]
# Forward and backward fit. The update does not: it stores the momentum for the first
# time, by `clone`. How much is needed in all?

# %%
from sidebyside import reveal

reveal("14a-multiple", 3, computed=True)

# %% [markdown]
# Parameters, gradients and momentum take the same number of bytes each: 19 MB together,
# if all gradients are kept until the update, as here. A step also keeps the
# **activations**: what the layers compute on the way forward, and need on the way back.

# %% [markdown] tags=["instructor"]
# ## Two ranks: 8 minutes
#
# Two people, a sheet of paper that goes to and fro. Let person 1 say aloud "I am waiting"
# whenever that is so. The class counts. Then the timeline.
#
# When late: show the two functions and the timeline; skip the guess.

# %% [markdown]
# ## Cut in two
#
# We give the first four layers to rank 0 and the last four to rank 1. Spreading one
# model over several devices is called **model parallelism**; here we do it by layer.
# The activations at the cut go to rank 1 by a message. The way back begins at the loss,
# on rank 1, and the gradient of those activations returns to rank 0.

# %%
import torch.distributed as dist

from sidebyside import span


def front_step(layers, images) -> None:
    """Rank 0."""
    with span("forward"):
        leaving = layers(images)
    dist.send(leaving.detach(), dst=1)
    gradient = torch.empty_like(leaving)
    with span("wait"):
        dist.recv(gradient, src=1)
    with span("backward"):
        leaving.backward(gradient)


# %%
def back_step(layers, labels) -> None:
    """Rank 1."""
    arriving = torch.empty(len(labels), 512, device=device())
    with span("wait"):
        dist.recv(arriving, src=0)
    arriving.requires_grad_()
    with span("forward"):
        loss = F.cross_entropy(layers(arriving), labels)
    with span("backward"):
        loss.backward()
    dist.send(arriving.grad, dst=0)


# %% [markdown]
# What arrives on rank 1 has no history there, so `requires_grad_` asks autograd for its
# gradient. Rank 0 starts its backward with the gradient that comes back.
#
# Both ranks record what they do. For what share of the time do they not work?

# %%
guess("14a-idle", None, "What share of the two lanes is idle or waiting?", "%")

# %%
from lessons.props.model_parallel_cuts import idle_share_of_lanes
from sidebyside import Timeline


def three_steps() -> None:
    rank, layers = dist.get_rank(), make_layers_to_cut()
    mine = (layers[:4] if rank == 0 else layers[4:]).to(device())
    sgd = torch.optim.SGD(mine.parameters(), lr=0.01)
    images, labels = (data.to(device()) for data in batches_to_cut(1, 1024)[0])
    for _ in range(3):
        sgd.zero_grad()
        front_step(mine, images) if rank == 0 else back_step(mine, labels)
        with span("update"):
            sgd.step()


with Timeline() as timeline:
    run_ranks(three_steps)
reveal("14a-idle", 100 * idle_share_of_lanes(timeline))
timeline.plot()

# %% [markdown]
# About half, in the mean of the two lanes. **While one rank computes its forward or
# backward, the other one waits**, because it needs the result. Over four ranks it would
# be three quarters. Model parallelism makes a model fit. By itself, it does not make it
# faster.

# %% [markdown]
# ## Let autograd send
#
# Writing every step twice, once for each rank, is tedious. Autograd can drive the
# messages. An **autograd function** is a class with two static methods: `forward`
# computes, and `backward` turns the gradient of its output into one for each input.
# `ctx` hands things from one to the other. This is rank 1's side:

# %%
from parallel_by_hand.model_parallel.cut_messages import ReceiveForward

show(ReceiveForward)

# %% [markdown]
# Its forward receives, and its backward sends. To use it, call
# `ReceiveForward.apply(...)`, without `ctx`. Autograd follows a function only if an
# input wants a gradient, so we give it one: `anchor`, an unused zero with
# `requires_grad=True`. Inputs that are not tensors get the gradient `None`.

# %% [markdown]
# ## Exercise 1: send forward, receive back
#
# Write rank 0's side. `SendForward.apply(leaving, target)` sends the activations
# `leaving` to rank `target`, point to point. It returns any one number, a tensor of
# shape `()`, which autograd connects with `leaving`. A call of `backward` on that
# number runs your `backward`: it receives the gradient of `leaving` from `target`, and
# hands it on to the layers in front.
#
# By hand first: rank 0 has one weight, w = 3, and sends $2w$. Rank 1 computes the loss
# $x^2$ of what arrives. Which number comes back, and what is the gradient of w?
# <!-- exercise: 14a-send -->
#
# <details><summary>Hint 1: a question</summary>
#
# `ReceiveForward` is the mirror image. What does its `backward` do that your `forward`
# has to do?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `backward` needs an empty tensor to receive into. `forward` knows its shape, and a
# note such as `ctx.shape = leaving.shape` can be read in `backward`. Ignore the
# gradient of the returned number.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# In `forward`, note shape, device and target in `ctx`, send, and return
# `leaving.new_zeros(())`. In `backward`, receive from the target into an empty tensor,
# and return one gradient for each input: this tensor, and `None`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, send forward: 20 minutes


# %% exercise="14a-send"
class SendForward(torch.autograd.Function):
    """Send activations to rank `target`; in backward, receive their gradient from it."""

    @staticmethod
    def forward(ctx, leaving, target):
        ### BEGIN SOLUTION
        ctx.target, ctx.shape, ctx.device = target, leaving.shape, leaving.device
        dist.send(leaving, target)
        return leaving.new_zeros(())
        ### END SOLUTION

    @staticmethod
    def backward(ctx, of_the_number):
        ### BEGIN SOLUTION
        gradient = torch.empty(ctx.shape, device=ctx.device)
        dist.recv(gradient, ctx.target)
        return gradient, None
        ### END SOLUTION


# %%
from sidebyside import check

check("14a-send", SendForward)

# %% [markdown] tags=["why"]
# <!-- why: 14a-send -->
# Why it works: for autograd the function is one more operation after the layers. It
# calls `backward` before theirs and hands them what was returned: the gradient that rank
# 1 has computed. The returned number only gives us something to call `backward` on. The
# shape is enough to know; a function that keeps `leaving` itself keeps its memory.
#
# By hand: rank 1 gets 6 and sends back 2 · 6 = 12. On rank 0 that is the gradient of 2w,
# so w has the gradient 24.

# %% [markdown] tags=["instructor"]
# ## Equal, and what is where: 8 minutes
#
# Ask why the difference is exactly zero on many machines, when in lesson 11a it was not:
# nothing is added up in another order.
#
# When late: skip reading the code, keep the picture.

# %% [markdown]
# ## Is it the same training?
#
# With both functions one program serves every rank. `receive_across_cut` calls
# `ReceiveForward` with a new anchor:

# %%
from parallel_by_hand.model_parallel.cut_training import step_of_part

show(step_of_part)
question = "Bytes across the cut in one step, both ways together? Batch 128, width 512."
guess("14a-bytes", None, question, "bytes")

# %% [markdown]
# Two ranks with 16 MB each train for ten steps. One rank trains the whole network
# without a budget. We compare all parameters after every step, and lesson 10a's meter
# counts the bytes.

# %%
from parallel_by_hand.model_parallel.cut_training import gap_of_histories, train_part

budget = 16_000_000
parts = run_ranks(train_part, [4, 4], 10, budget)
whole = run_ranks(train_part, [8], 10, world_size=1)[0]
print(f"loss {parts[1].losses[-1]:.4f} in two parts, {whole.losses[-1]:.4f} in one")
gap = gap_of_histories(parts, whole)
print(f"parameters within 1e-6 after each of 10 steps: {gap <= 1e-6}")
reveal("14a-bytes", sum(p.meter.bytes_sent for p in parts) // 10, computed=True)

# %% [markdown]
# **After every step the parts have the parameters of the unsplit network, to 10⁻⁶.**
# Activations of 128 · 512 numbers of 4 bytes go forward, and as many bytes of gradients
# come back.
#
# And memory? Each rank has counted what it holds:

# %%
from lessons.props.model_parallel_cuts import draw_memory_of_ranks

held = {"one device": whole.memory}
held |= {f"rank {rank}": part.memory for rank, part in enumerate(parts)}
for name, memory in held.items():
    print(name, {kind: size for kind, size in memory.items() if kind != "peak"})
draw_memory_of_ranks(held, budget)

# %% [markdown]
# The rank that holds a layer holds its gradients and its momentum. **Rank 1 keeps the
# activations at the cut, the input of its first layer. Here rank 0 keeps them, too**,
# because ReLU needs its own output on the way back: 262,144 bytes more than one device.
#
# Each part of a bar is its own maximum. They are not all reached at the same time: the
# largest sum, the *peak* of one device, is 20.4 MB, less than its bar.

# %% [markdown] tags=["instructor"]
# ## Where to cut: 8 minutes
#
# Before the picture: let people bet on the cheapest cut of each network, and on the cut
# that halves the parameters. They are hardly ever the same.
#
# When late: skip the cut in time; 14b comes back to it.

# %% [markdown]
# ## Where to cut
#
# A cut between any two layers gives the same training. Here are three networks for the
# digits: a fully-connected one, a convolutional one, and a recurrent one, which reads
# the eight rows of an image one after another. Two ranks take one metered step at every
# possible cut, with batches of 32.

# %%
from lessons.props.model_parallel_cuts import draw_cuts
from parallel_by_hand.model_parallel.networks_to_cut import meter_every_cut

front, back = run_ranks(meter_every_cut)
same = [c.sent for c in front] == [c.sent for c in back]
print("as many bytes back as forward:", same)
draw_cuts(front, back)

# %% [markdown]
# A bar is what crosses per step. The percentage above it is the share of the parameters
# before the cut. **What crosses is the output of one layer and its gradient: it grows
# with the batch and the size of that output. How many parameters lie on either side
# does not matter.**

# %% [markdown]
# A fully-connected network is best cut where it is narrow. In the convolutional one,
# cuts after *pool 2* and after *128* cost the same; but 71 % of the parameters lie
# after the first, and 95 % before the second. Recurrent layers hand on eight time
# steps, but only the last one is used: the cheapest cut is after it, and nearly all
# parameters lie before it.

# %% [markdown]
# A recurrent network can also be cut *in time*: rank 0 reads four rows, rank 1 the
# other four. What crosses is the *state* of each layer: two vectors for each image,
# called h and c, which an LSTM, a kind of recurrent layer, hands from one time step to
# the next. Bytes that each rank sends:

# %%
from parallel_by_hand.model_parallel.networks_to_cut import meter_cut_in_time

run_ranks(meter_cut_in_time)

# %% [markdown]
# That is 2 vectors · 3 layers · 32 images · 64 numbers · 4 bytes, whatever the number
# of rows. Between two LSTM layers, 65,536 bytes cross each way for our eight rows, so
# here the cut in time is cheaper. But both ranks need all the weights.

# %% [markdown]
# ## Exercise 2: the balanced cut
#
# Write `balanced_cut(times, sends, memory, devices, limit)`: how many layers each
# device gets, so that the slowest device is fastest. If nothing fits, return `None`.
#
# Layer $i$ takes `times[i]`, needs `memory[i]`, and takes `sends[i]` to send its
# output. Each device gets one or more neighbouring layers, with at most `limit` memory.
# Its time is the sum of theirs, plus `sends` of its last layer; the last device sends
# nothing. 60 layers on 10 devices should take seconds.
#
# By hand first: two devices, `times = [3, 1, 1, 3]`, `sends = [1, 9, 1, 1]`, each layer
# needs 1. What is best with limits 3 and 2?
# <!-- exercise: 14a-balanced-cut -->
#
# <details><summary>Hint 1: a question</summary>
#
# Suppose that you knew the best way to put the first 5, 6, 7 … layers on 3 devices. How
# would you find the best way to put the first 8 layers on 4?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Use dynamic programming: a table that says, for each number of layers, the best
# slowest time with the devices so far, and its list. One more device takes the layers
# from some `start` to some `end`, if they fit. The new slowest time is the larger of
# the table's at `start` and the device's own.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Begin with `best = {0: (0, [])}`. For each device make a new table: for each `end` and
# each `start` in `best` below it, if the layers between them fit, the candidate's time
# is the larger of `best[start][0]` and the device's own. Keep the best candidate for
# each `end`, with its list. Finally look up `len(times)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, the balanced cut: 15 minutes
#
# Let people find an example in which filling each device until it is full is bad, before
# they write code. Expected: greedy filling, equal numbers of layers, a send counted on the
# last device, the limit checked only at the end.


# %% exercise="14a-balanced-cut"
def balanced_cut(times, sends, memory, devices, limit) -> list[int] | None:
    """How many layers each device gets, so that the slowest is fastest; None: no way."""
    ### BEGIN SOLUTION
    layers, best = len(times), {0: (0, [])}
    for _ in range(devices):
        better = {}
        for end in range(1, layers + 1):
            send = sends[end - 1] if end < layers else 0
            for start in range(end):
                if start in best and sum(memory[start:end]) <= limit:
                    slowest = max(best[start][0], sum(times[start:end]) + send)
                    if end not in better or slowest < better[end][0]:
                        better[end] = slowest, [*best[start][1], end - start]
        best = better
    return best[layers][1] if layers in best else None
    ### END SOLUTION


# %%
check("14a-balanced-cut", balanced_cut)

# %% [markdown] tags=["why"]
# <!-- why: 14a-balanced-cut -->
# Why it works: the best way to end a device after layer `end` uses the best way to end
# the device before it after some `start`; what happened earlier does not matter. So one
# entry for each number of layers is enough, and the work grows with devices · layers²
# instead of with the number of ways to cut.
#
# By hand: `[1, 3]` gives 3 + 1 and 5, so 5; `[3, 1]` gives 6, and `[2, 2]` gives 13,
# because a large message crosses there. With limit 2 only `[2, 2]` fits.

# %% [markdown] tags=["instructor"]
# ## What breaks silently: 8 minutes
#
# Both mistakes pass the first test that people think of: run it, and look at the first
# loss. Ask which test would have found them.
#
# When late: tied weights only; exercise 3 needs them.

# %% [markdown]
# ## What breaks silently: a skip
#
# A **skip connection** uses an early activation again, after later layers. If the cut
# lies between the two, the early activation must cross as well. Here are two ways to send
# it beside `late`, the output of the last layer before the cut. Each trains four steps:

# %%
from parallel_by_hand.model_parallel import broken_cuts

show(broken_cuts.send_skip_as_data)
show(broken_cuts.send_skip_with_gradient)

whole = run_ranks(broken_cuts.train_with_skip, world_size=1)[0]
print("one piece        ", [f"{loss:.4f}" for loss in whole.losses])
for way in "as data", "with its gradient":
    front, back = run_ranks(broken_cuts.train_with_skip, way)
    print(f"{way:<17}", [f"{loss:.4f}" for loss in back.losses], end="  ")
    print(f"bytes forward {front.sent:,}, back {back.sent:,}")

# %% [markdown]
# **Sent as data, the skip gives the right first loss and wrong gradients, and no
# error.** The layers before it get no gradient from the skip. The cure is that
# everything that crosses forward sends a gradient back, here 131,072 bytes instead of
# 65,536. A cheaper cure is a cut that no skip crosses.

# %% [markdown]
# ## What breaks silently: tied weights
#
# Two layers that share a weight have **tied weights**: a language model often uses the
# same matrix to read a word and to predict one. Here one matrix squeezes a digit into
# 16 numbers and restores it. After a cut between the two, each rank has a copy:

# %%
from parallel_by_hand.model_parallel.broken_cuts import train_tied

tied = run_ranks(train_tied, world_size=1)[0]
encoder, decoder = run_ranks(train_tied)
for step in 0, 1, 39:
    print(f"step {step:2}  loss {tied.losses[step]:.4f} in one piece", end="  ")
    apart = abs(encoder.weights[step] - decoder.weights[step]).max()
    print(f"{decoder.losses[step]:.4f} cut, copies apart by {apart:.3f} afterwards")

# %% [markdown]
# **Two copies of a tied weight drift apart from the first update on, without any error.**
# Each copy gets only the gradient of its own use. Because the weight is used twice, its
# gradient is the sum of both.

# %% [markdown]
# ## Exercise 3: tie them again
#
# After `backward`, only the two ranks that hold a copy call
# `sum_tied_gradients(weight, peer)`; `peer` is the other one. Afterwards both have the
# sum of both gradients in `weight.grad`, with the same bits. Each sends one message.
#
# `exchange({peer: outgoing}, {peer: incoming})` of lesson 10a sends one tensor and
# receives another at the same time.
#
# By hand first: the gradients are 1 and 3, lr = 0.1, and both copies are 2. What are they
# after the step with your function, and what without it?
# <!-- exercise: 14a-tied -->
#
# <details><summary>Hint 1: a question</summary>
#
# Both ranks want to send and to receive. What happens if both call `dist.send` first,
# as in lesson 10a?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# With `exchange` both ranks send and receive at once. a + b and b + a have the same
# bits, so both may add in their own order.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# Make an empty tensor `theirs` like `weight.grad`, exchange `weight.grad` for it, and add
# it to `weight.grad`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, tied weights: 10 minutes

# %% exercise="14a-tied"
from parallel_by_hand.collectives.eight_collectives import exchange


def sum_tied_gradients(weight: torch.nn.Parameter, peer: int) -> None:
    """Give both copies of a tied weight the sum of their gradients."""
    ### BEGIN SOLUTION
    theirs = torch.empty_like(weight.grad)
    exchange({peer: weight.grad}, {peer: theirs})
    weight.grad += theirs
    ### END SOLUTION


# %%
check("14a-tied", sum_tied_gradients)

# %% [markdown] tags=["why"]
# <!-- why: 14a-tied -->
# Why it works: the weight's gradient is a sum over its uses, and each rank knows one
# summand. Equal copies that get equal gradients stay equal, as replicas do. The ranks
# in between hold no copy and take no part; in a collective over all ranks they would
# have to.
#
# By hand: the sum is 4, so both copies are 2 − 0.4 = 1.6. Without it they are 1.9 and 1.7.

# %%
encoder, decoder = run_ranks(train_tied, True)
for step in 0, 1, 39:
    print(f"step {step:2}  loss {decoder.losses[step]:.4f}", end="  ")
    apart = abs(encoder.weights[step] - decoder.weights[step]).max()
    print(f"copies apart by {apart:.3f}")

# %% [markdown] tags=["instructor"]
# ## A block, and torch: 5 minutes
#
# The table has two rows today. Leave room on the board: lessons 16 and 17 add theirs.

# %% [markdown]
# With the sum, the losses are those of the network in one piece, and the copies stay
# equal.

# %% [markdown]
# ## One transformer block
#
# Language models are stacks of *transformer blocks*. In a block's first half, the
# *attention*, each position of a text looks at itself and those before it. The second
# half, the *MLP*, two fully-connected layers, treats each position alone. Each half has
# a skip around it.
#
# Lessons 14 to 17 cut the same block, each in a different way. By layer, rank 0 gets the
# attention and rank 1 the MLP, and no skip crosses:

# %%
from parallel_by_hand.model_parallel.transformer_block import (
    block_cut_by_layer,
    print_block_table,
)

rows = {"whole": run_ranks(block_cut_by_layer, world_size=1)}
rows["by layer"] = run_ranks(block_cut_by_layer)
print_block_table(rows)

# %% [markdown]
# All numbers are bytes, for 8 sequences of 16 positions, 64 wide. The MLP has two
# thirds of the parameters, but any other cut would cross a skip. Lesson 16a cuts
# through the layers instead.

# %% [markdown]
# ## The library's call
#
# torch cuts a model for you: `pipeline(model, (example,), split_spec={"third":
# SplitPoint.BEGINNING})` records its operations, and writes a module for each part, a
# *stage*. We let it cut the network with the skip, and a network with tied weights:

# %%
from parallel_by_hand.model_parallel.split_by_torch import split_by_torch

network, images = broken_cuts.SkipNetwork(), torch.randn(4, 64)
first, second = split_by_torch(network, images, before="third")
print("tensors that cross:", len(first(images)))
print("same output:", torch.allclose(second(*first(images)), network(images)))

tied = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(2)))
tied[1].weight = tied[0].weight
first, second = split_by_torch(tied, images, before="1")
weights = first.get_parameter("0.weight"), second.get_parameter("1.weight")
print("still one weight:", weights[0] is weights[1])

# %% [markdown]
# torch has found the skip by itself: two tensors cross. **torch's cut unties the
# weights and says nothing**, in torch 2.13. `replicated_params` of what `pipeline`
# returns lists the copies; adding up their gradients is up to you.
#
# One process can also drive two GPUs: each part gets its `.to(device)`, and autograd
# drives the copies. Without two GPUs both are the same device here:

# %%
gpus = torch.cuda.device_count() >= 2
places = ["cuda:0", "cuda:1"] if gpus else [device(), device()]
layers = make_layers_to_cut()
front, back = layers[:4].to(places[0]), layers[4:].to(places[1])
output = back(front(images.to(places[0])).to(places[1]))
output.sum().backward()
all(p.grad is not None for p in layers.parameters())

# %% [markdown]
# ### The same idea elsewhere
#
# | library | what you write |
# |---|---|
# | PyTorch, one process | `part.to("cuda:1")`, and `.to` for what crosses |
# | PyTorch, several | `pipeline`, `SplitPoint`, `PipelineStage` |
# | Hugging Face | `from_pretrained(name, device_map="auto")`: whole layers, spread evenly over the GPUs, then CPU and disk |
# | TensorFlow | `with tf.device("/GPU:1"):` around the layers |
# | JAX | `jax.device_put(x, device)` for parameters and activations |

# %% [markdown]
# ## A script of your own
#
# This script does the same without this course's instruments.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/model_parallel/own_model_parallel.py
# ```

# %%
from demos.model_parallel.own_model_parallel import train
from sidebyside import run_demo

show(train)
run_demo("model_parallel/own_model_parallel.py")

# %% [markdown]
# Here it is a group of one rank. In a terminal,
# `demos/model_parallel/model_parallel.py` cuts the eight layers where you like, under
# any budget, and `demos/model_parallel/where_to_cut.py` prints the table behind the
# bars.

# %% [markdown]
# ## The scorecard
#
# | N ranks, layers in N parts | |
# |---|---|
# | equal to one process | after each step, to 10⁻⁶ |
# | bytes each rank sends per step | its activations to the next rank; to the rank before, the gradient of what came from there |
# | memory of each rank | parameters, gradients, optimiser and activations of its own layers; activations of a cut on both sides, if the layer before it needs its output |
# | idle share | (N − 1)/N with equal parts, if messages and updates take no time |
# | if one rank dies | its layers are gone; the others get an error or wait |

# %% [markdown]
# ## What we saw
#
# * A network that does not fit on one device trains on two, and is the same after every
#   step. Activations cross forward and gradients back.
# * The bytes depend on the layer's output and the batch. In none of our three networks
#   does the cheapest cut halve the parameters.
# * A skip that is sent as data, and a tied weight that has become two, raise no error.
#   Gradients must come back for all that crosses, and be added up for all copies.
#
# ## Next
#
# We have cut between layers. In 14b a convolutional network is cut in three ways, one of
# them through the image itself, and a recurrent one keeps both ranks busy.
