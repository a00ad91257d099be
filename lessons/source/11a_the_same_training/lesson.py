# ---
# title: 11a DDP: the same training
# question: How do several processes train one model, as if they were one? And which mistakes does nobody tell you about?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 11a. DistributedDataParallel: the same training
#
# In lesson 9 two processes trained one model: equal starts, and one all-reduce of all
# gradients after each `backward`. PyTorch has a line for it, `DistributedDataParallel`,
# **DDP** for short.
#
# Is it the same training as in one process? We write its two halves ourselves and
# compare after every step. Then we look for the mistakes that make it another training
# and raise no error.
#
# *You will be able to* prove that your parallel training is the same training, deal the
# data, weigh uneven batches, stop all ranks together, and save the result.
#
# *Before this:* lesson 9, or the box below. *Time:* {reading} minutes to read, 25 for the
# exercises. *Needs:* two CPU cores, no GPU. With two GPUs the same cells use
# them; this is untested.

# %% [markdown]
# ## If you come straight to this lesson
#
# | word | what it means | lesson |
# |---|---|---|
# | rank | a process of the group, and its number: 0, 1, … | 9 |
# | world size | how many ranks there are | 9 |
# | `dist.all_reduce(t)` | every rank calls it; then every rank's `t` holds the sum of all. It works *in place*: what `t` held is overwritten | 10a |
# | `dist.broadcast(t, src=0)` | every rank calls it; then every rank's `t` holds what rank 0's did | 10a |
#
# `run_ranks(fn, ...)` starts two processes, connects them, calls `fn(...)` in each, and
# returns their results in rank order. `device()` is the rank's GPU where there is one
# for each rank, else the CPU.

# %% [markdown] tags=["instructor"]
# ## The yardstick, and two replicas: 12 minutes
#
# Draw two boxes, each with a model and half of a batch, and one arrow between them. From
# lesson 9 the class knows what goes along the arrow, and why gradients are enough. Ask
# what they take for granted: the equal start.
#
# Expected guess: "almost nothing is left, they average all the time".

# %% [markdown]
# ## The data, and one process
#
# Ten of our 1,415 handwritten digits for training:

# %%
from sidebyside import figure, load_digits

images, labels = load_digits("train")
fig, axes = figure(1, 10, height=1.2, stamp="published", alt="ten handwritten digits")
for ax, image in zip(axes, images[:10], strict=True):
    ax.imshow(1 - image.view(8, 8), cmap="gray")
    ax.set_axis_off()
fig

# %% [markdown]
# We use the first 22 batches of 64:

# %%
import torch

torch.set_num_threads(1)  # one core, which is what each rank has, too
batches = list(zip(images.split(64), labels.split(64), strict=True))[:22]
batches[0][0].shape

# %% [markdown]
# The yardstick: one process, plain SGD, and a copy of all parameters after each step.
# `average` does nothing yet. It stands where the processes will have to talk.

# %%
from torch import nn

from parallel_by_hand.ddp.ddp_from_scratch import flat_parameters, make_ddp_model
from sidebyside import device


def train(model, batches, average=lambda m: None, optimizer=torch.optim.SGD, lr=0.1):
    """All parameters before the first step and after each step, one row each."""
    steps, history = optimizer(model.parameters(), lr=lr), [flat_parameters(model)]
    for x, y in batches:
        steps.zero_grad()
        nn.functional.cross_entropy(model(x.to(device())), y.to(device())).backward()
        average(model)
        steps.step()
        history.append(flat_parameters(model))
    return torch.stack(history).cpu()


alone = train(make_ddp_model(), batches)
alone.shape

# %% [markdown]
# The start and 22 steps of 4,810 parameters: `make_ddp_model(seed)` has two linear layers.

# %% [markdown]
# ## Two replicas
#
# Now two ranks, each with a replica and every second image of each batch. After
# `backward` we all-reduce each gradient and divide it by the number of ranks. Each rank
# draws its own start.

# %%
import torch.distributed as dist

from sidebyside import guess


def mean_after_backward(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train_replica(start, average=lambda model: None, batches=batches) -> torch.Tensor:
    """Runs in each rank: train on this rank's share of each batch."""
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    return train(start(), [(x[mine], y[mine]) for x, y in batches], average)


guess("11a-apart", None, "What share of the replicas' distance is left at the end?")

# %%
from sidebyside import reveal, run_ranks


def own_start() -> nn.Module:
    return make_ddp_model(seed=dist.get_rank())


apart = run_ranks(train_replica, own_start, mean_after_backward)
distance = (apart[0] - apart[1]).norm(dim=1)
reveal("11a-apart", round((distance[-1] / distance[0]).item(), 3))

# %% [markdown]
# All of it: both take the same steps, from different places. **Averaging gradients
# keeps replicas equal; it does not make them equal.** Neither model is the one you
# think you train.

# %% [markdown] tags=["instructor"]
# ## Equal starts, and the library's line: 10 minutes
#
# Ask how they would tell rounding from a small mistake, before the figure. Somebody
# says "more digits".
#
# When late: show the figure of differences, skip the code above it.

# %% [markdown]
# ## Broadcast the start
#
# Seeding all ranks alike would do here. A broadcast of rank 0's parameters does not
# depend on what any library draws before.


# %%
def same_start() -> nn.Module:
    model = own_start()
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), src=0)
    return model


def hold_to(single: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> dict:
    """What has to be true after every step."""
    return {
        "replicas equal, bit for bit": torch.equal(first, second),
        "within 1e-6 of the other training": bool((first - single).abs().max() <= 1e-6),
    }


first, second = run_ranks(train_replica, same_start, mean_after_backward)
hold_to(alone, first, second)

# %% [markdown]
# **The two replicas are equal after every step, bit for bit. After every step they are
# within 10⁻⁶ of the single process.** Torch's line does both halves: it broadcasts the
# start when it wraps a model, and averages the gradients in every `backward`.

# %%
from torch.nn.parallel import DistributedDataParallel


def ddp_start() -> nn.Module:
    return DistributedDataParallel(own_start())


hold_to(first, *run_ranks(train_replica, ddp_start))

# %% [markdown]
# **Torch's parameters are ours after each of the 22 steps, within 10⁻⁶.** From here on we
# use torch's line, and take away what it relies on.

# %% [markdown]
# ## Rounding, or a small mistake?
#
# In 64-bit numbers rounding errors are half a billion times smaller; a mistake stays as
# large as it was. We draw how far replica 1 is from the single process after each step,
# beside two mistakes: the own start, and a sum that is never divided.


# %%
def sum_after_backward(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def same_start_64() -> nn.Module:
    return same_start().double()


batches_64 = [(x.double(), y) for x, y in batches]
alone_64 = train(make_ddp_model().double(), batches_64)
second_64 = run_ranks(train_replica, same_start_64, mean_after_backward, batches_64)[1]
differences = {
    "own start": apart[1] - alone,
    "sum": run_ranks(train_replica, same_start, sum_after_backward)[1] - alone,
    "mean, 32 bit": second - alone,
    "mean, 64 bit": second_64 - alone_64,
}
bool((second_64 - alone_64).abs().max() <= 1e-13)

# %%
from sidebyside import COLOURS

fig, ax = figure(alt="distance to one process at each step, for four ways to train")
for place, (name, difference) in enumerate(differences.items()):
    largest, colour = difference.abs().amax(dim=1)[1:], COLOURS[place]
    ax.semilogy(range(1, 23), largest, color=colour)
    below_or_above = ("bottom", "top", "center", "center")[place]
    ax.text(22.3, largest[-1], name, color=colour, va=below_or_above)
ax.set(
    xlabel="step", ylabel="largest difference", xlim=(1, 26), xticks=[1, 6, 11, 16, 22]
)
fig

# %% [markdown]
# **In 64 bit the difference is below 10⁻¹³, so it was rounding**: the sums are taken in
# another order, as in lesson 10b.

# %% [markdown]
# ## An optimiser that hides a mistake
#
# Without the division, the gradients of two ranks are twice as long. Adam divides an
# average of the gradients by the root of an average of their squares. One process can
# play both ranks: it doubles its gradients. We measure the shift in the weights after
# 22 steps, as a share of the distance they have moved.


# %%
def double_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad *= 2


for optimizer, lr in (torch.optim.SGD, 0.1), (torch.optim.Adam, 0.001):
    right = train(make_ddp_model(), batches, optimizer=optimizer, lr=lr)
    wrong = train(make_ddp_model(), batches, double_gradients, optimizer, lr)
    shift = (wrong[-1] - right[-1]).norm() / (right[-1] - right[0]).norm()
    print(f"{optimizer.__name__:4}  {shift:.3f} of the distance")

# %% [markdown]
# Under SGD the shift is longer than that distance. **Under Adam, at its usual rate of
# 0.001, the same mistake shifts the weights by less than a hundredth of that
# distance**: the average doubles and so does the root, and the factor cancels but for
# Adam's small `eps`. So we use plain SGD wherever we compare step by step.

# %% [markdown] tags=["instructor"]
# ## Who gets which images: 5 minutes
#
# Deal ten real cards to two people, then eleven. Ask what "the same number of steps" asks
# of the eleventh card. Expected guess: 1,415.

# %% [markdown]
# ## Who gets which images
#
# So far rank r took every second image of a batch. With a `DataLoader` that is the work
# of a sampler: torch's `DistributedSampler` shuffles all indices, in the same way on
# every rank, and deals them like cards. It gives all ranks equally many images.

# %%
guess(
    "11a-dealt", None, "How many of the 1,415 images are dealt to the two ranks in all?"
)

# %%
from torch.utils.data import DistributedSampler

dealt = [list(DistributedSampler(images, num_replicas=2, rank=rank)) for rank in (0, 1)]
print(f"different images among them: {len(set(dealt[0] + dealt[1]))}")
reveal("11a-dealt", sum(map(len, dealt)))

# %% [markdown]
# **One image is dealt twice.** With `drop_last=True` the sampler drops the rest
# instead. Neither is quite the epoch of a single process.
#
# Here are rank 0's first four images in three epochs, without and with a call of
# `set_epoch`:

# %%
sampler = DistributedSampler(images, num_replicas=2, rank=0)
without_set_epoch = [list(sampler)[:4] for epoch in range(3)]
with_set_epoch = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    with_set_epoch.append(list(sampler)[:4])
print(f"without: {without_set_epoch}\nwith:    {with_set_epoch}")

# %% [markdown]
# The order is drawn from `seed + epoch`, and the sampler cannot know the epoch.
# **Without `set_epoch` every epoch has the same order.**

# %% [markdown] tags=["instructor"]
# ## Exercise 1, deal the images: 20 minutes
#
# No second process is needed, and it suits pairs. Expected: a deck of its own for each
# rank, a seed without the epoch, and the last card lost.

# %% [markdown]
# ## Exercise 1: deal the images
#
# Write `shard(samples, rank, world_size, epoch)`. It returns a list of the indices,
# from 0 to `samples - 1`, that this rank trains on in this epoch.
#
# * Every index goes to exactly one rank.
# * No rank gets more than one index more than another.
# * The order is shuffled, anew in each epoch, and a rank does not get the same images
#   in every epoch.
# * Ranks cannot talk here. Equal arguments give equal answers.
#
# *By hand first:* five images, shuffled to 3, 0, 4, 1, 2, are dealt like cards to two
# ranks. What does each get?
#
# <!-- exercise: 11a-shard -->
# <details><summary>Hint 1: a question</summary>
#
# What do two card players need so that no card is dealt twice: two decks or one?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Every rank shuffles the whole deck, with a generator whose seed is the same on all
# ranks and another in each epoch. Then it takes only its own cards.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `torch.randperm(samples, generator=torch.Generator().manual_seed(...))` is the deck. A
# slice with a step deals it: start at your rank, step by the number of ranks.
# </details>


# %% exercise="11a-shard"
from sidebyside import forget, hint, progress, solution


def shard(samples: int, rank: int, world_size: int, epoch: int) -> list[int]:
    """The indices that this rank trains on in this epoch."""
    ### BEGIN SOLUTION
    deck = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
    return deck[rank::world_size].tolist()
    ### END SOLUTION


# %%
from sidebyside import check

check("11a-shard", shard)

# %% [markdown] tags=["why"]
# <!-- why: 11a-shard -->
# Why it works: the seed depends on the epoch and not on the rank, so all ranks hold the
# same deck. Slices with the same step and different starts do not meet, and together
# they are everything. The last cards go to the first ranks, one each, so no two ranks
# differ by more than one. The generator is a new one: torch's global generator, from
# which dropout draws, is left alone. By hand: 3, 4, 2 and 0, 1.

# %% [markdown] tags=["instructor"]
# ## Uneven batches: 8 minutes
#
# Let them compute the guess on paper: (2 + 10) / 2. Then ask what the whole batch would
# say: 16 / 4. Uneven batches and `set_epoch` are what people meet in their first week.

# %% [markdown]
# ## The last batch is uneven
#
# 1,415 is 22 × 64 + 7. Of the last seven images one rank gets four and the other three.
# We try something still less even, with one weight, whose gradient is the sample itself.
# Rank 0 has the samples 1, 2 and 3, rank 1 has 10. The mean of all is 4. Each rank takes
# the mean of its own.


# %%
def gradient_of(loss_of) -> float:
    """The gradient after DDP has averaged it, for one way to write the loss."""
    samples = torch.tensor([[1.0, 2.0, 3.0], [10.0]][dist.get_rank()], device=device())
    replica = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device()))
    loss_of(replica(samples.view(-1, 1))).backward()
    return replica.module.weight.grad.item()


def own_mean(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.mean()


guess("11a-uneven", None, "Which gradient does each rank hold after backward?")

# %%
reveal("11a-uneven", run_ranks(gradient_of, own_mean)[0])

# %% [markdown]
# DDP averages two means, 2 and 10, and ten counts as much as the other three together.
# The loss has to weigh. Each rank divides by the size of the *whole* batch, and
# multiplies by the number of ranks, because DDP will divide by that.


# %%
def weighted(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.sum() / 4 * dist.get_world_size()


run_ranks(gradient_of, weighted)[0]

# %% [markdown]
# **Weighted by the whole batch, the gradient is that of the single process.** It stays so
# when a rank gets no image at all, if that rank still calls forward and backward on its
# empty share: the others wait for its all-reduce.

# %% [markdown] tags=["instructor"]
# ## Steps, batch norm, batch size, files: 15 minutes
#
# Four small experiments: let each pair take one and present it.
#
# When late: skip `join`, and the file.

# %% [markdown]
# ## One step more
#
# What must not be uneven is the number of *steps*. Here rank 1 takes one more, and
# waits for a partner that has gone home. The red text is intentional.

# %% tags=["raises-exception"]
from torch.nn import functional as F


def one_step_more_on_rank_1() -> None:
    replica = DistributedDataParallel(make_ddp_model())
    for x, y in batches[: 2 + dist.get_rank()]:
        F.cross_entropy(replica(x.to(device())), y.to(device())).backward()


run_ranks(one_step_more_on_rank_1, timeout=4)

# %% [markdown]
# The report names the rank that waits, and the line. Elsewhere you get a message about
# a closed connection, or silence. A sampler that repeats images avoids it. Our `shard`
# does not always: one index more can mean one batch more.
#
# Torch's `join` does: a rank that has no images left keeps on answering the others. We
# try it with one weight and samples of 8. `divide_by_initial_world_size` decides by how
# many ranks the sum is divided once rank 0 has no more.


# %%
def uneven_steps(divide: bool) -> list[float]:
    """The gradient in each of this rank's steps: two on rank 0, three on rank 1."""
    replica = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device()))
    gradients = []
    with replica.join(divide_by_initial_world_size=divide):
        for _ in range(2 + dist.get_rank()):
            replica.zero_grad()
            replica(torch.full((1, 1), 8.0, device=device())).backward()
            gradients.append(replica.module.weight.grad.item())
    return gradients


run_ranks(uneven_steps, True), run_ranks(uneven_steps, False)

# %% [markdown]
# No rank hangs. **By default the last step still divides by two ranks, so its gradient
# is halved**; with False it counts in full. When the block ends, the rank that finished
# last sends its model to all.

# %% [markdown] tags=["instructor"]
# ## Exercise 2, stop together: 20 minutes
#
# It runs in ranks: a rank that stops alone leaves the others waiting, and the check
# says so after 20 seconds. The same mistake hides in `if loss.isnan(): continue`, and
# in a validation on rank 0 alone with a `break` behind it. Let people name others.

# %% [markdown]
# ## Exercise 2: stop together
#
# A training is to end as soon as its loss is low enough. But a rank knows only its own
# loss, and every step holds an all-reduce.
#
# Write `train_until(step, target, most)`, which runs in every rank. `step()` takes one
# step together with the other ranks and returns this rank's loss. Stop after the first
# step at which the *mean* of all ranks' losses is at most `target`, or after `most`
# steps. Return how many there were.
#
# *By hand first:* the losses of rank 0 are 5, 3, 1, those of rank 1 are 9, 7, 5; the
# target is 4. When would each stop alone, and when do both stop?
#
# <!-- exercise: 11a-stop -->
# <details><summary>Hint 1: a question</summary>
#
# Rank 0 has seen a loss of 3. What does it have to know before it may stop, and how does
# it get that?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# After each step all ranks exchange one number more. Then each decides by itself, from
# the same number: so all decide alike.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# In a loop of at most `most` steps: put the loss into a tensor on `device()`, all-reduce
# it, divide by the world size, count the step, and compare.
# </details>


# %% exercise="11a-stop"
def train_until(step, target: float, most: int) -> int:
    """How many steps all ranks take until the mean of their losses is low enough."""
    ### BEGIN SOLUTION
    steps, mean = 0, float("inf")
    while steps < most and mean > target:
        loss = torch.tensor(float(step()), device=device())
        dist.all_reduce(loss)
        mean = loss.item() / dist.get_world_size()
        steps += 1
    return steps
    ### END SOLUTION


# %%
check("11a-stop", train_until)

# %% [markdown] tags=["why"]
# <!-- why: 11a-stop -->
# Why it works: after the all-reduce every rank holds the same number, bit for bit, and
# so takes the same decision. Whatever decides which messages are sent must be equal on
# all ranks. By hand: by its own loss rank 0 stops after step 2, and rank 1 waits for it
# in step 3. The means are 7, 5 and 3, so both stop after step 3. The price is one
# number more in each step.

# %% [markdown]
# ## Buffers
#
# A **buffer** is part of a model's state that has no gradient, such as the running mean
# of batch norm. In training it moves a tenth of the way to each batch's mean. To see
# which rank decides, rank r feeds it the number 10ʳ: twice in training, then once in
# evaluation.


# %%
def running_means() -> list[float]:
    replica = DistributedDataParallel(nn.BatchNorm1d(1).to(device()))
    seen = []
    for training in True, True, False:
        replica.train(training)
        replica(torch.full((4, 1), 10.0 ** dist.get_rank(), device=device()))
        seen.append(round(replica.module.running_mean.item(), 4))
    return seen


run_ranks(running_means)

# %% [markdown]
# After one step: 0.1 of 1 on rank 0, and 0.1 of 10 on rank 1. Then **by default each
# forward begins with rank 0's buffers, sent to all**: rank 1 forgets its 1.0 and goes on
# from 0.1. What rank 1 has seen never gets into the running mean that rank 0 saves. An
# evaluation begins so, too: a rank that evaluates alone calls `replica.module`.

# %% [markdown]
# ## Batch norm
#
# In training, batch norm subtracts the mean of its batch. In DDP each rank sees only its
# own share of the batch. We hold such a network to one process, and one with layer norm
# beside it, which never mixes samples.


# %%
from functools import partial


def with_norm(norm: type, wrap=lambda model: model) -> nn.Module:
    torch.manual_seed(0)
    return wrap(nn.Sequential(norm(64), nn.Linear(64, 10)).to(device()))


for norm in nn.BatchNorm1d, nn.LayerNorm:
    single = train(with_norm(norm), batches)
    start = partial(with_norm, norm, DistributedDataParallel)
    off = (run_ranks(train_replica, start)[0] - single).abs().max()
    print(f"{norm.__name__:11}  at most {off:.4f} away from one process")

# %% [markdown]
# **A network with batch norm does not train as in one process**, though every gradient
# is averaged as it should be. `nn.SyncBatchNorm` takes the mean over all ranks; it needs
# GPUs. The network with layer norm has no such problem.

# %% [markdown]
# ## The batch of one rank, and the learning rate
#
# We cut a batch of 64 into two shares of 32. A `DataLoader(batch_size=64)` in each of
# two ranks makes a batch of 128 instead, and half as many steps in a pass over the
# images. One process with the whole batch can tell us what ten such passes come to:

# %%
for size, lr in (64, 0.1), (128, 0.1), (128, 0.2):
    model = make_ddp_model()
    one_pass = list(zip(images.split(size), labels.split(size), strict=True))
    train(model, 10 * one_pass, lr=lr)
    loss = F.cross_entropy(model(images.to(device())), labels.to(device())).item()
    print(f"batch {size:3}, rate {lr}: {10 * len(one_pass)} steps, loss {loss:.2f}")

# %% [markdown]
# DDP takes the *mean*, so a step of a larger batch is not longer, and half as many
# steps do not get as far. **With twice the learning rate, half as many steps of twice
# the batch get about as far here.** That is lesson 8's linear scaling rule, which fails
# where the batch becomes too large.

# %% [markdown]
# ## One rank writes the file
#
# All ranks hold the same model, so one of them saves it. If all wrote to one file at
# the same time, it could be corrupted. No rank may read before rank 0 has written:
# `dist.barrier()` holds each rank until all have come.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory


def save_and_load(folder: str) -> tuple[str, bool]:
    replica, file = ddp_start(), Path(folder, "model.pt")
    if dist.get_rank() == 0:
        torch.save(replica.module.state_dict(), file)
    dist.barrier()
    model = make_ddp_model(seed=7)
    model.load_state_dict(torch.load(file, map_location=device()))
    equal = torch.equal(flat_parameters(model), flat_parameters(replica))
    return next(iter(replica.state_dict())), equal


with TemporaryDirectory() as folder:
    print(run_ranks(save_and_load, folder))

# %% [markdown]
# We save `replica.module`, the model that has been wrapped. In the wrapper's own state
# all names begin with `module.`, as you see, and would not fit a plain model.

# %% [markdown]
# ## A script of your own
#
# DDP without this course's instruments, with a `DataLoader` in each rank: held-out images
# are counted over all ranks, and rank 0 saves. The cell starts it as a group of one;
# `torchrun` starts it with two. `demos/ddp/one_gpu.py` is the file that it was made
# from, and [a page](../resources/paths/eight_gpus_tomorrow.md) explains each changed
# line:
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/ddp/own_ddp.py --save model.pt
# ```

# %%
from demos.ddp.own_ddp import train as train_of_own_script
from sidebyside import run_demo, show

show(train_of_own_script)
run_demo("ddp/own_ddp.py")

# %% [markdown]
# The processes meet at a port. With `run_ranks` only programs on this machine can reach
# it; `torchrun` opens it on all network interfaces, for ranks on other machines, and has
# no option that would restrict it. Use it in a network that you trust, behind a firewall,
# or on Linux in a network of its own:
#
# ```
# unshare -rn sh -c "ip link set lo up; torchrun --local-addr 127.0.0.1 …"
# ```
#
# Before a script of yours runs on several GPUs for the first time, go through
# [one page](../resources/checklists/first_multi_gpu_run.md).

# %% [markdown]
# ## What we saw
#
# * Averaging gradients keeps replicas as far apart as they start. The broadcast of the
#   start makes them equal.
# * Then two processes train as one does; 64-bit numbers tell rounding from mistakes.
# * These mistakes raise no error: an own start, a sum for a mean, no `set_epoch`, a
#   mean of means, batch norm over a share, and a learning rate that was meant for
#   another batch.
# * An uneven number of steps hangs. `join` answers for a rank that is done; a decision
#   to stop is taken from one number that all ranks share.
# * One rank saves `replica.module`; the others wait at a barrier.
#
# **The scorecard** of N ranks and P bytes of parameters:
#
# | | |
# |---|---|
# | equal to one process | after each step, to 10⁻⁶, if the loss is a mean over samples; replicas bit for bit; not with batch norm or dropout |
# | bytes each rank sends per step | 2 (N − 1)/N · P in a ring |
# | memory of each rank | P parameters, P gradients (torch's line also keeps P for its messages unless told otherwise, see 11b), its own optimiser, activations of its part of the batch |
# | idle share | in our version, while all gradients travel |
# | if one rank dies | the others get an error or wait; the training stops |

# %% [markdown]
# ## Next
#
# Our version sends when `backward` has ended, one message for each gradient. When could
# the first one set out, and with which others should it travel? Lesson 11b writes
# torch's line.
