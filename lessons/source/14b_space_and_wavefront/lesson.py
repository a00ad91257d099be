# ---
# title: 14b Model parallel: space and wavefront
# question: Must a model be cut between its layers? What if the image is cut, or time?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 14b. Model parallel: space and wavefront
#
# In 14a we cut a network between two layers: each rank had some of the weights, and one
# of the two always waited.
#
# Here a convolutional network is split by layers, by channels, and by space, where each
# rank has half of every image. Then time steps flow through a recurrent network, so
# that both ranks work at once.
#
# *You will be able to* split a convolution by space and get the right gradients, say
# before you run it which cut sends least, plan a wavefront, and say when one device
# alone is faster.
#
# *Before this:* lesson 14a. *Time:* {reading} minutes, and 45 for the exercises. *Needs:* two
# CPU cores, no GPU.

# %% [markdown] tags=["instructor"]
# ## Half an image: 9 minutes
#
# Lay a sheet of squared paper on the table, cut it across, and give the halves to two
# people. Each is to write into every square the sum of the squares around it. Soon
# both stretch out a hand for the other's row.
#
# The guess: most say 2, one row on each side of the cut. Ask what the second
# convolution looks at.
#
# When late: tell the answer and go to `Swap`.

# %% [markdown]
# ## Half an image
#
# A convolution of 3 × 3 computes each pixel of its output from the pixel itself and its
# eight neighbours; beyond the border it takes zeros. Our network has three of them,
# with ReLU between:

# %%
from parallel_by_hand.model_parallel.convolution_cuts import scores_of_images
from sidebyside import show

show(scores_of_images)

# %% [markdown]
# *Channels* are the maps that each layer makes: an image has 1, then there are 16, 16
# and 10. The mean of each of the last ten is the score of a digit.

# %%
from parallel_by_hand.model_parallel.convolution_cuts import make_convolutions
from parallel_by_hand.model_parallel.three_ways_to_split import digits_for_step

images, labels = (data.cpu() for data in digits_for_step(step=0, batch=64))
images.shape, scores_of_images(make_convolutions(), images).shape

# %% [markdown]
# Rank 0 gets the upper four of the eight rows, and rank 1 the lower four. Suppose each
# applies the three convolutions to its own rows, as if they were the whole image. We
# join the two results and compare them with the result for the whole image.

# %%
from sidebyside import forget, guess, hint, progress, solution

guess("14b-rows", None, "How many of the eight rows come out wrong?", "rows")

# %%
import torch
from torch import nn

from sidebyside import reveal

layers = nn.Sequential(*make_convolutions())  # with ReLU the same rows are wrong
whole = layers(images)
halves = torch.cat([layers(half) for half in images.chunk(2, dim=2)], dim=2)
wrong = (halves - whole).abs().amax(dim=(0, 1, 3)) > 1e-5
reveal("14b-rows", int(wrong.sum()), computed=True)
wrong.tolist()

# %% [markdown]
# **Three convolutions of 3 × 3 spoil three rows on each side of the cut.** The first
# layer takes zeros for the neighbour's row, so its row at the cut is wrong. The second
# layer reads that wrong row, and so each layer spoils one row more.

# %%
from lessons.props.space_and_wavefront import draw_halves_with_halo

draw_halves_with_halo(images[0, 0])

# %% [markdown]
# Rows of a neighbour's part that a rank needs beside its own are called a **halo**.
# Before each convolution the two ranks exchange one row of the maps in front of that
# layer. Three rows of the image, exchanged once, would do too, but then both ranks
# would compute some rows twice.

# %% [markdown]
# ## Two messages that autograd drives
#
# In 14a one rank sent and the other received. Here each rank does both: `exchange({to:
# outgoing}, {of: incoming})`, from lesson 10a, sends and receives at once. Tensors that
# travel must be contiguous.

# %%
from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.model_parallel.convolution_cuts import Swap, with_halo

show(Swap)
show(with_halo)

# %% [markdown]
# Forward, the edge row goes over. Backward, its *gradient* comes home: the neighbour
# has computed with this row, so a part of the row's gradient is found there. Autograd
# adds it to the gradient from the rank's own rows.

# %% [markdown]
# At the end each rank has sums over its own pixels. After one more swap both have the
# scores of whole images.
#
# Say that rank 0 has the sum $a$, rank 1 has $b$, and after the swap both compute the
# loss $a + b$. If both call `backward` on it, $a$ gets the gradient 1 from its own
# rank's loss, and `Swap` brings another 1 from rank 1: together 2 instead of 1. **What
# the ranks call `backward` on must add up to the loss.** So each rank takes half of it.

# %% [markdown]
# Both ranks hold all weights, and each computes the part of the gradient that comes
# from its pixels. The sum of the parts is the gradient. We try it, and then once more
# with a mistake: the halo is received as plain data.

# %%
import torch.distributed as dist
from torch.nn import functional as F

from parallel_by_hand.model_parallel.convolution_cuts import scores_by_space
from sidebyside import device


def one_way(mine: torch.Tensor, peer: int) -> torch.Tensor:
    return Swap.apply(mine.detach(), peer)  # no gradient comes home


def half_an_image(swap) -> tuple:
    """Runs in each rank: the scores, and the gradient of all weights, summed up."""
    network = make_convolutions().to(device())
    rows = images.chunk(2, dim=2)[dist.get_rank()].to(device())
    scores = scores_by_space(network, rows, 64, lambda part: with_halo(part, swap))
    (F.cross_entropy(scores, labels.to(device())) / 2).backward()
    gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
    dist.all_reduce(gradient)
    return scores.detach().cpu(), gradient.cpu()


# %%
from sidebyside import run_ranks

network = make_convolutions()
scores = scores_of_images(network, images)
F.cross_entropy(scores, labels).backward()
gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
for name, swap in {"both ways": Swap.apply, "one way": one_way}.items():
    for rank, (ours, of_ours) in enumerate(run_ranks(half_an_image, swap)):
        right = [torch.allclose(ours, scores, atol=1e-6)]
        right += [torch.allclose(of_ours, gradient, atol=1e-6)]
        print(f"{name}, rank {rank}: scores, gradient equal to the whole: {right}")

# %% [markdown]
# **By space, outputs and gradients are those of the unsplit network. Without the way
# back the outputs are still right, and the gradients of the first two layers are
# wrong.** No error is raised, and the outputs do not show it. So compare gradients, or
# the weights after a step.

# %% [markdown]
# ## Exercise 1: a halo for any number of ranks
#
# Each rank now has a strip of every image, in order from the top: a tensor of shape
# (batch, channels, rows, width). Write the autograd function `Halo`.
#
# `forward` returns the strip with two more rows: above, the last row of the rank above;
# below, the first row of the rank below; zeros at the image's border. `backward` turns
# its gradient into that of `strip`. A rank sends one row to each neighbour, point to
# point.
#
# By hand first: three ranks have one pixel each, 1, 10 and 100. What does `forward`
# return on rank 1? If all gradients are 1, what does `backward` return on each rank?
# <!-- exercise: 14b-halo -->
#
# <details><summary>Hint 1: a question</summary>
#
# In how many of the returned tensors, on which ranks, does the last row of rank 0
# occur? On which rank does the gradient of each of these copies arise, and which rank
# needs it?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Forward and backward send the same way: a rank's first row goes to the rank above, its
# last row to the rank below. Forward, what arrives is put around the strip. Backward,
# it is added to the strip's own first and last row. Write the sending once, as a
# function of its own.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For each neighbour there is, put the edge into `outgoing[other]`, made contiguous, and
# zeros of the same shape into `incoming[other]`. Then call `exchange(outgoing,
# incoming)`. In backward, start with `gradient[:, :, 1:-1].clone()` and add to its
# first and last row.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1, the halo: 20 minutes
#
# Have people draw three strips and number the copies of one row. It lies in two
# tensors, or in three if the strip has a single row.


# %% exercise="14b-halo"
class Halo(torch.autograd.Function):
    """A strip with one row of each neighbour around it; the gradients go home."""

    @staticmethod
    def forward(ctx, strip: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        above, below = edges_of_neighbours(strip)
        return torch.cat([above, strip, below], dim=2)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        above, below = edges_of_neighbours(gradient)
        own = gradient[:, :, 1:-1].clone()
        own[:, :, :1] += above
        own[:, :, -1:] += below
        return own
        ### END SOLUTION


### BEGIN SOLUTION
def edges_of_neighbours(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    edges = {rank - 1: tensor[:, :, :1], rank + 1: tensor[:, :, -1:]}
    outgoing = {r: e.contiguous() for r, e in edges.items() if 0 <= r < ranks}
    rooms = {r: torch.zeros_like(e).contiguous() for r, e in edges.items()}
    exchange(outgoing, {r: rooms[r] for r in outgoing})
    return rooms[rank - 1], rooms[rank + 1]


### END SOLUTION

# %%
from sidebyside import check

check("14b-halo", Halo)

# %% [markdown] tags=["why"]
# <!-- why: 14b-halo -->
# Why it works: a row at the edge has been copied to a neighbour, and the gradient of
# something that was copied is the sum of its copies' gradients. The copy lies at the
# neighbour's edge, so its gradient travels back from there. If a strip has a single
# row, that row is first and last: it has two copies elsewhere, and both gradients are
# added to it.
#
# By hand: rank 1 has 1, 10, 100. Rank 0's row lies on ranks 0 and 1, rank 1's on all
# three, rank 2's on two: the gradients are 2, 3 and 2.

# %% [markdown] tags=["instructor"]
# ## Three ways to split: 9 minutes
#
# Three boxes on the board, batch × channels × height × width, each cut along another
# side; the layers stand one behind the other. Ask for each cut who needs what from whom.
#
# When late: skip the text on channels, since lesson 16a is about it.

# %% [markdown]
# ## Three ways to split
#
# Two ranks can share the work in three ways:
#
# | | each rank has | before each convolution | at the end |
# |---|---|---|---|
# | by layers (14a) | some layers | nothing; once, at the cut, all maps | nothing |
# | by channels | half of each layer's weights | the other half of the maps | half of the scores |
# | by space | half of the rows, all weights | one row of each map | sums for the scores, then the gradients of all weights |

# %% [markdown]
# By channels, each rank computes half of a layer's output channels. Each output channel
# needs *all* input channels, so the halves are swapped before every layer except the
# first, whose input is the image. The halves of the ten scores are swapped too. The
# weights and their gradients stay where they are.

# %%
from parallel_by_hand.model_parallel.convolution_cuts import scores_by_channels

show(scores_by_channels)
show(scores_by_space)

# %% [markdown]
# `channels_of_both_ranks` is a `Swap` and a `torch.cat`. Whatever `Swap` carries
# forward has a gradient of the same size on its way back, except the image, whose
# gradient is not needed.

# %% [markdown]
# ## Exercise 2: which cut sends least?
#
# `bytes_sent(batch, channels, height, width)` returns the bytes that one of two ranks
# sends in a step, under the keys `"layers"`, `"channels"` and `"space"`. A number takes
# four bytes. `channels` is a tuple such as `(1, 16, 16, 10)`: image, maps, scores.
# Convolutions are 3 × 3, with a bias.
#
# Follow the table. The cut by layers is where the fewest channels cross. By space, each
# image and score needs one sum. Maps, scores and sums travel forward, and their
# gradients back. The image's row and the gradients of weights and biases travel once.
# By hand first: one image, 2 rows of 5, channels `(1, 2, 4)`. What are the three?
# <!-- exercise: 14b-bytes -->
#
# <details><summary>Hint 1: a question</summary>
#
# The maps behind the first convolution are `channels[1]` tables of height × width, for
# each image. How many numbers are half of them? How many are one row of each?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Call `channels[1:-1]` the inner ones. By layers needs their minimum, the other two
# ways their sum. A convolution from a to b channels has 9ab weights and b biases.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# By channels, half there and half back make a whole: `batch * (sum(inner) * height *
# width + channels[-1])` numbers. By space, the rows are `batch * (channels[0] + 2 *
# sum(inner)) * width` numbers; add the sums, both ways, and the weights and biases.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2, bytes: 15 minutes
#
# Let people do the case by hand in pairs, one the channels and one the space, and
# compare with the numbers of the `why` before they write code.


# %% exercise="14b-bytes"
def bytes_sent(
    batch: int, channels: tuple[int, ...], height: int, width: int
) -> dict[str, int]:
    """Bytes that a rank sends in a step: keys "layers", "channels" and "space"."""
    ### BEGIN SOLUTION
    from itertools import pairwise

    inner, scores = channels[1:-1], channels[-1]
    weights = sum(9 * a * b + b for a, b in pairwise(channels))
    rows = channels[0] + 2 * sum(inner)
    return {
        "layers": 4 * batch * min(inner) * height * width,
        "channels": 4 * batch * (sum(inner) * height * width + scores),
        "space": 4 * (batch * (rows * width + 2 * scores) + weights),
    }
    ### END SOLUTION


# %%
check("14b-bytes", bytes_sent)

# %% [markdown] tags=["why"]
# <!-- why: 14b-bytes -->
# Why it works: it follows each message of the table. By channels, half of the maps go
# over and half of the gradients come back, together as many numbers as the maps have.
# By space a row is sent instead of half of the rows, and the gradients of the weights
# are an exchange that depends on the network alone.
#
# By hand: by layers 2 · 10 = 20 numbers, 80 bytes. By channels 10 and 10, and 2 and 2
# scores: 24 numbers, 96 bytes. By space 5 for the image, 10 and 10 for the maps, 4 and
# 4 for the scores, and 20 + 76 weights and biases: 129 numbers, 516 bytes.

# %% [markdown] tags=["instructor"]
# ## Measured: 6 minutes
#
# Ask before the picture: which cut for photographs, which for the last layers of a
# ResNet, where images are 7 × 7 with 512 maps? The second depends on the batch.
#
# When late: the table, without the guess.

# %% [markdown]
# ## The meter says
#
# Each way trains the network on digits for ten steps. After each step its parameters
# are compared with those of one process. The meter counts the bytes of a step. `kept`
# is what autograd keeps for backward, in bytes, as in 14a.

# %%
from parallel_by_hand.model_parallel.three_ways_to_split import (
    WAYS,
    gap_to_one_process,
    train_split,
)

one = run_ranks(train_split, "one process", world_size=1)[0]
print(f"alone: parameters {one.parameters}, kept {one.kept}")
for way in WAYS:
    parts = run_ranks(train_split, way)
    equal = gap_to_one_process(way, parts, one.history) <= 1e-6
    print(f"by {way}, within 1e-6 after each step: {equal}")
    for rank, part in enumerate(parts):
        print(f"    rank {rank}: sent {part.sent}, ", end="")
        print(f"parameters {part.parameters}, kept {part.kept}")

# %% [markdown]
# **All three ways train the network that one process trains.** The bytes are those of
# exercise 2. For 64 digits, space sends least.

# %% [markdown]
# By channels, the weights are halved, but both ranks keep all maps. By space, each
# keeps all weights, and six rows instead of eight: its own four, the halo, and the
# zeros at the border.

# %% [markdown]
# For images with four times as many rows and columns, a rank sends about 16 times as
# much by layers and by channels. And by space?

# %%
question = "By space, by what factor does a rank send more for 32 × 32 than for 8 × 8?"
guess("14b-zoom", None, question, "times")

# %%
from lessons.props.space_and_wavefront import draw_bytes_of_splits
from parallel_by_hand.model_parallel.convolution_cuts import bytes_of_splits

small, large = (bytes_of_splits(64, (1, 16, 16, 10), n, n) for n in (8, 32))
reveal("14b-zoom", round(large["space"] / small["space"], 1), computed=True)
cases = {"64 digits, 16 maps": small}
cases["8 photographs, 64 maps"] = bytes_of_splits(8, (3, 64, 64, 10), 224, 224)
cases["4 small images, 512 maps"] = bytes_of_splits(4, (1, 512, 512, 10), 8, 8)
draw_bytes_of_splits(cases)

# %% [markdown]
# **A halo grows with the width of the image, the maps with its area.** The sums and the
# gradients of the weights do not grow at all, so the factor is less than four.

# %% [markdown]
# Blue is the cut that sends least; each panel has its own scale. For large images that
# is space, with 50 times fewer bytes than by layers. For small batches of small images
# with many maps, the weights' gradients weigh most, and one cut between layers is the
# cheapest.

# %% [markdown]
# By channels always sends more than by layers here: all inner maps and the scores, not
# only the smallest maps. It serves a layer whose weights do not fit on one device.
# Lesson 16a does that with less traffic.

# %% [markdown] tags=["instructor"]
# ## The wavefront: 13 minutes
#
# Two rows of chairs, eight people each: they are the cells. A cell stands up when the
# one to its left and the one behind it have stood up. First layer after layer, then as
# early as they can. The diagonal that runs through the room is the wavefront.
#
# Most guesses are 8 or 12. Ask when the cell at the top right can stand up.
#
# When late: leave out the sleeping ranks, keep the grid.

# %% [markdown]
# ## Why a recurrent network is different
#
# An *LSTM* layer reads a sequence step by step. At each step it computes its output and
# its new state from the next element and its last state. Layers are stacked: layer 1
# reads what layer 0 has written.
#
# In 14a rank 0 finished its layer for the whole sequence, then rank 1 began. Below are
# four layers and eight time steps. One *cell* is one layer at one step, and takes one
# slot of time. The number in a cell is its slot; slot 4 is dark.

# %%
from lessons.props.space_and_wavefront import draw_cells

layer_by_layer = {(layer, t): 8 * layer + t for layer in range(4) for t in range(8)}
question = "Four ranks, one layer each: how many slots, if each starts when it can?"
guess("14b-slots", None, question, "slots")
draw_cells({"layer after layer: 32 slots": layer_by_layer})

# %%
wavefront = {(layer, t): layer + t for layer, t in layer_by_layer}
reveal("14b-slots", 1 + max(wavefront.values()), computed=True)
draw_cells({"layer after layer": layer_by_layer, "as early as possible": wavefront})

# %% [markdown]
# A cell needs two others: the same layer one step before, and the layer below at the
# same step. So it can run in slot layer + step. The cells of one slot form a diagonal
# that moves through the grid: a **wavefront**.

# %% [markdown]
# **The makespan, the slots from the first cell to the last (lesson 13b), is $T + L - 1$
# for $T$ steps and $L$ layers, instead of $T \cdot L$.**

# %% [markdown]
# Does that hold with real messages? Each rank below has a layer that sleeps for 0.05
# seconds at each step. `chunk` says after how many steps it hands its outputs on: eight
# is the cut of 14a, one is the wavefront.

# %%
from parallel_by_hand.model_parallel.wavefront_flow import flow_through_layers

show(flow_through_layers)

# %%
from parallel_by_hand.model_parallel.wavefront_flow import (
    rehearse_wavefront,
    slots_of_naps,
)
from sidebyside import draw_timelines

plans = {"chunk = 8": (2, 8, 8), "chunk = 1": (2, 8, 1)}
timelines = {name: rehearse_wavefront(*plan) for name, plan in plans.items()}
for name, slots in ("chunk = 8", 2 * 8), ("chunk = 1", 8 + 2 - 1):
    took = 0.05 * slots_of_naps(timelines[name])
    print(f"{name}: planned {slots} slots, {0.05 * slots:.2f} s; took {took:.2f} s")
draw_timelines(timelines, stamp="simulated")

# %% [markdown]
# Above, rank 1 waits for all of layer 0. Below, it waits for one step only. Without the
# messages, the idle share falls from a half to $(L - 1)/(T + L - 1)$, here a ninth.

# %% [markdown]
# ## Exercise 3: the way back
#
# `plan_cells(layers, steps)` returns a dictionary from `("F", layer, step)` and
# `("B", layer, step)` to the slot in which that cell begins, counted from 0. A rank
# does one thing at a time. A forward takes one slot, a **backward two**.
#
# Forwards need what they needed above. No backward begins before the last forward has
# ended. A backward needs those of the next step and of the layer above. The plan is as
# short as possible.
#
# By hand first: two layers, three steps. When does the last forward end, and when the
# last backward?
# <!-- exercise: 14b-wavefront -->
#
# <details><summary>Hint 1: a question</summary>
#
# Turn the grid by half a turn. Which cell is now where the first one was? How many
# cells away from it is `("B", layer, step)`, counted in layers and in steps?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# On the way back a second wavefront runs, from the last layer's last step to the first
# layer's first. It begins in the slot in which the forwards have ended, and moves by one
# cell in two slots.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The forwards end at `turn = steps + layers - 1`. From the far corner, `("B", layer,
# step)` is `(layers - 1 - layer) + (steps - 1 - step)` cells away, at two slots each.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3, the plan: 10 minutes
#
# Ask the quick ones what a rank keeps: all T steps, as in the cut by layers.


# %% exercise="14b-wavefront"
def plan_cells(layers: int, steps: int) -> dict[tuple[str, int, int], int]:
    """The slot in which each ("F", layer, step) and ("B", layer, step) begins."""
    ### BEGIN SOLUTION
    turn, plan = steps + layers - 1, {}
    for layer in range(layers):
        for step in range(steps):
            away = (layers - 1 - layer) + (steps - 1 - step)
            plan["F", layer, step] = layer + step
            plan["B", layer, step] = turn + 2 * away
    return plan
    ### END SOLUTION


# %%
check("14b-wavefront", plan_cells)

# %% [markdown] tags=["why"]
# <!-- why: 14b-wavefront -->
# Why it works: the way back is the way forth, turned round. Forward, a cell serves the
# next step and the layer above; backward, it needs them. So the same wavefront starts
# at the far corner, and takes $T + L - 1$ turns of two slots. No plan is shorter: the
# chain from the first cell along the first layer and up to the last cell has $T + L -
# 1$ members, each waits for the one before, and the chain back has as many.
#
# By hand: the last forward ends at 4. Then `("B", 1, 2)` begins, and `("B", 0, 0)` ends
# at 12.

# %% [markdown] tags=["instructor"]
# ## Real layers, and one device alone: 8 minutes
#
# On the board: T + k(L - 1) falls as k falls, and the number of messages T/k grows. Let
# the class say what happens at both ends. Then the table; on a busy machine run the
# cell twice before you read anything into it.
#
# When late: skip the timeline.

# %% [markdown]
# ## Real layers
#
# Autograd drives the way back: it takes the newest of the operations whose gradients are
# ready. So each rank goes back step by step, and sends each step's gradient as soon as
# it has it. Here are the sleeping ranks, there and back, with one slot for each cell:

# %%
rehearsed = rehearse_wavefront(2, 8, chunk=1, backward=True)
rehearsed.plot(height=1.9, stamp="simulated")

# %% [markdown]
# Now two ranks with a real LSTM layer each read the digits row by row, in eight steps.
# They train with plain SGD, and are compared with torch's own two layers in one
# process, `nn.LSTM(8, 64, num_layers=2)`:

# %%
from parallel_by_hand.model_parallel.wavefront import (
    gap_of_flow,
    train_layer_of_rank,
    train_unsplit_layers,
)

together = train_unsplit_layers(2)
for chunk in (8, 2, 1):
    ranks = run_ranks(train_layer_of_rank, chunk)
    equal = gap_of_flow(ranks, together) <= 1e-6
    sent = f"rank 0 sends {ranks[0].sent} bytes, messages: {ranks[0].messages}"
    print(f"chunk = {chunk}: within 1e-6 after each step: {equal}, {sent}")

# %% [markdown]
# **The wavefront trains the network that one process trains, and sends the same bytes
# as the cut by layers, in more messages.** With chunks of $k$ steps the last layer
# waits for $k$ steps of each layer below it, so forward takes $T + k(L-1)$ slots.

# %% [markdown]
# ## And one device alone?
#
# Slots leave out the message. Let a message take $\alpha$, as in lesson 10b, and one
# layer's step $c$. Then a chunk takes $kc + \alpha$. There are $T/k + L - 1$ of those
# in a row, against $T L c$ on one device.
#
# We time forward and backward of two layers on sequences of 64 steps, in three
# alternating rounds, and take the median. `alone` is torch's own network on one rank.

# %%
from parallel_by_hand.model_parallel.wavefront import time_flow_and_alone

slots = (64 + 8) / (64 + 64)  # T + k for two layers
for width in (16, 128):
    times = run_ranks(time_flow_and_alone, width, [64, 8, 1], 64)[0]
    shown = [f"{way} {1e3 * seconds:.0f} ms" for way, seconds in times.items()]
    print(f"width {width}: " + ", chunk ".join(shown))
    ratio = times["8"] / times["64"]
    print(f"  chunk 8 / chunk 64: {ratio:.2f} ×, by slots {slots:.2f} ×")

# %% [markdown]
# One chunk of 64 steps is layer after layer. One run on a quiet machine with two free
# cores:
#
# | width | alone | chunks of 64 | of 8 | of 1 |
# |---|---|---|---|---|
# | 16 | 6 ms | 6 ms | 14 ms | 70 ms |
# | 128 | 77 ms | 72 ms | 51 ms | 100 ms |
#
# Wide layers with chunks of 8 gain, though less than slots promise; narrow ones lose.
# For more widths and chunks, run `tests/benchmarks/wavefront_beside_one_device.py`.

# %% [markdown]
# With many chunks, a step costs $Lc$ on one device and $c + \alpha/k$ on $L$ ranks. So
# one device alone wins when $(L-1)kc < \alpha$: with two layers, when a chunk computes
# for less time than its message takes. Chunks of one step lose for a second reason: each
# call of the layer has a fixed cost.

# %% [markdown]
# ## The same elsewhere
#
# | here | elsewhere |
# |---|---|
# | by space, halo | *spatial partitioning* in XLA (JAX, TensorFlow), which inserts the halo exchange itself; `ShardTensor` in NVIDIA's PhysicsNeMo; *ghost cells* in simulations with MPI |
# | by channels | tensor parallel, lesson 16a |
# | wavefront in one device | `nn.LSTM(…, num_layers=L)` on a GPU: cuDNN runs cells of several layers at once (Appleyard et al. 2016) |
# | wavefront over devices | Google's translation network of 2016 spread its LSTM layers over eight GPUs; the bottom one, which reads both ways, had to finish first (Wu et al. 2016) |

# %% [markdown]
# ## What we saw
#
# * Each convolution on half an image needs a halo, whose gradient has to come home.
# * Space sends least for large images, the cut between layers for small batches of small
#   images with many maps.
# * Time steps flow through a recurrent network in $T + L - 1$ slots instead of $T \cdot
#   L$. One device alone is faster when a message takes longer than a chunk.

# %% [markdown]
# **The scorecard** for two ranks, batch $B$, maps of $C$ channels and $H \times W$ pixels:
#
# | | by channels | by space | wavefront |
# |---|---|---|---|
# | equal to one process | to 10⁻⁶ after each step | the same; replicas bit for bit | the same |
# | bytes each rank sends per step | $4BCHW$ between each two neighbouring layers | $8BCW$ between each two neighbouring layers, and the gradients | as by layers, in $T/k$ messages each way |
# | memory of each rank | half of the weights, all maps | all weights, half of the rows, a halo and zeros | its layers, all their steps |
# | idle share, messages left out | none, if halves are equal | none, if halves are equal | $k(L-1)/(T + k(L-1))$ |
# | if one rank dies | the step is lost, and its half of the weights | the step is lost; the other has all weights | the step is lost, and its layers |

# %% [markdown]
# In a terminal, `python demos/model_parallel/three_ways_to_split.py --help` splits
# images of other sizes, and `python demos/model_parallel/wavefront.py --help` lets more
# layers flow.
#
# A script of your own: `demos/model_parallel/own_halo_exchange.py` splits images by
# space over several ranks, without this course's instruments:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/model_parallel/own_halo_exchange.py --save model.pt
# ```
#
# ## Next
#
# A recurrent network keeps all ranks busy, because a sequence enters it step by step.
# A transformer that does not look ahead can take its text in slices as well: lesson 16c.
# Any other network can take the samples of a batch one by one. Lesson 15a makes every
# rank work in that way.
