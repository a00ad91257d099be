# ---
# title: 11 DistributedDataParallel
# question: How do several processes train one model, as if they were one?
# needs: two CPU cores, no GPU
# minutes: 85
# ---

# %% [markdown]
# # 11. DistributedDataParallel: one model, many processes
#
# In lesson 9 two processes trained one model: equal starts, and after each `backward`
# one all-reduce of all gradients. Lesson 10b says what that costs. Two questions are
# left: when should each gradient travel, and in which company?
#
# PyTorch answers with one line, `DistributedDataParallel`, **DDP** for short. We write
# that line ourselves. After every step we compare with one process that has the whole
# batch, and in the end with torch's own.
#
# *You will be able to* say what travels between the processes, when, and in which
# portions; prove that your parallel training is the same training; and find the
# mistakes that make it a different one without any error message.
#
# *Before this:* lessons 9, 10a and 10b. *Time:* 85 minutes. *Needs:* two CPU cores, no
# GPU. With two GPUs the same cells use them. With one core everything runs, only slower.

# %% [markdown]
# ## The data, and one process
#
# Ten of the 1,415 handwritten digits. We keep 382 more for the test.

# %%
from sidebyside import check, figure, hint, load_digits, progress, reset, solution

images, labels = load_digits("train")
fig, axes = figure(1, 10, height=1.2, stamp="published", alt="ten handwritten digits")
for ax, image in zip(axes, images[:10], strict=True):
    ax.imshow(1 - image.view(8, 8), cmap="gray")
    ax.set_axis_off()
fig

# %% [markdown] tags=["instructor"]
# ## The yardstick, and two replicas: 15 minutes
#
# Draw two boxes, each with a model and half of a batch, and one arrow between them. From
# lesson 9 the class knows what goes along the arrow, and why gradients are enough. Ask
# what they take for granted: the equal start.
#
# When late: show the figure of differences, skip the code above it.

# %% [markdown]
# The yardstick is that of lesson 9: one process, batches of 64, plain SGD, and a copy of
# all parameters after each step.

# %%
import torch
from torch import nn

from demos.ddp.ddp_from_scratch import flat_parameters
from sidebyside import device


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device())


def train(model: nn.Module, batches: list, average=lambda model: None) -> torch.Tensor:
    """All parameters before the first step and after each step, one row each."""
    sgd, history = torch.optim.SGD(model.parameters(), lr=0.1), [flat_parameters(model)]
    for x, y in batches:
        sgd.zero_grad()
        nn.functional.cross_entropy(model(x.to(device())), y.to(device())).backward()
        average(model)
        sgd.step()
        history.append(flat_parameters(model))
    return torch.stack(history).cpu()


batches = list(zip(images.split(64), labels.split(64), strict=True))[:22]
alone = train(make_model(), batches)
alone.shape

# %% [markdown]
# 22 steps, 4,810 parameters. `average` does nothing yet. It stands where the processes
# will have to talk.
#
# ## Two replicas
#
# Now two ranks, each with a replica and every second image of each batch. After
# `backward` we all-reduce each gradient and divide it by the number of ranks.
#
# Each rank draws its own start, as in exhibit C of lesson 9. How much of the distance
# between the two models is left after 22 steps?

# %%
import torch.distributed as dist

from sidebyside import run_ranks


def mean_after_backward(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def own_start() -> nn.Module:
    return make_model(seed=dist.get_rank())


def train_replica(start, average, batches=batches) -> torch.Tensor:
    """Runs in each rank: train on this rank's share of each batch."""
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    return train(start(), [(x[mine], y[mine]) for x, y in batches], average)


apart = run_ranks(train_replica, own_start, mean_after_backward)
distance = (apart[0] - apart[1]).norm(dim=1)
print(f"{distance[-1] / distance[0]:.3f} of the distance is left")

# %% [markdown]
# All of it: both take the same steps, from different places. **Averaging gradients keeps
# replicas equal; it does not make them equal.** No error is raised, and neither model is
# the one you think you train.
#
# ## Broadcast the start
#
# In lesson 9 all ranks drew from one seed. A broadcast of rank 0's parameters does not
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
# within 10⁻⁶ of the single process.**
#
# Is what remains rounding, or a small mistake? In 64-bit numbers rounding shrinks half a
# billion times, and a mistake stays. We draw that, and two mistakes beside it: the own
# start, and the sum that nobody divides (exhibit B).


# %%
def sum_after_backward(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def same_start_64() -> nn.Module:
    return same_start().double()


batches_64 = [(x.double(), y) for x, y in batches]
alone_64 = train(make_model().double(), batches_64)
second_64 = run_ranks(train_replica, same_start_64, mean_after_backward, batches_64)[1]
differences = {
    "own start": apart[1] - alone,
    "sum": run_ranks(train_replica, same_start, sum_after_backward)[1] - alone,
    "mean, 32 bit": second - alone,
    "mean, 64 bit": second_64 - alone_64,
}
bool((second_64 - alone_64).abs().max() <= 1e-13)

# %% [markdown]
# How far replica 1 is from the single process, after each step:

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
# another order (lesson 10b). The two mistakes lie orders of magnitude above.
#
# Without the division each step is twice as long, and after 22 steps the mistake is
# as long as the way that the weights have gone. Adam scales its steps itself. **Under
# Adam, at its usual rate of 0.001, the same mistake shifts the weights by less than a
# hundredth of the way that they have gone**: it hides. (A test of this lesson measures both.) So we compare with plain SGD,
# here and in every lesson.

# %% [markdown] tags=["instructor"]
# ## Where the time goes: 25 minutes
#
# Draw the first timeline before you run it, from what the class says: forward,
# backward, then message after message while the cores are grey. Ask: when is the first
# gradient of backward ready? Which layer's is it? Then let them invent the overlap.
#
# Expected: "start with the first layer", because it comes first in the model. The cell
# with the hooks settles it.
#
# When late: show the slow link's two timelines, skip the message sizes.

# %% [markdown]
# ## Where is the waiting?
#
# Now a wider network, 2.2 million parameters, so that there is something to see, and a
# slow cable. Like the paced link of lesson 10b, `SlowLink` sleeps as long as the cable
# would need, after a real all-reduce. Messages queue in a thread of their own, the wire.
#
# Each rank takes six steps, the last of which is drawn. `average` is called between
# `backward` and the update. It sends each gradient and waits for it, as above.

# %%
from demos.ddp import overlap
from sidebyside import Timeline, show

show(overlap.SlowLink)
show(overlap.take_steps)
show(overlap.average_after_backward)
megabytes_per_second = 300
with Timeline() as after:
    seconds_after = run_ranks(
        overlap.through_slow_link, overlap.average_after_backward, megabytes_per_second
    )[0]
after.plot(stamp="simulated")

# %% [markdown]
# A step on each rank, and its wire below it. The cable is simulated; forward, backward
# and update are real. **On each rank no message sets out before its own backward has
# ended.** Pale is waiting: a wire waits until the other rank has its message ready, and
# a rank waits for its wire. While a rank computes, its wire is idle.
#
# ## Hooks: a gradient is ready before backward ends
#
# Does the first message have to wait for the last gradient? We let autograd tell us
# when each gradient is complete. A function that it calls for this is a **hook**.
# *Before you run it:* in which order?

# %%
from functools import partial

from torch.nn import functional as F

model, ready = make_model(), []
for name, parameter in model.named_parameters():
    note = partial(lambda name, _: ready.append(name), name)
    parameter.register_post_accumulate_grad_hook(note)
F.cross_entropy(model(images.to(device())), labels.to(device())).backward()
ready

# %% [markdown]
# **The last layer's gradients are ready first**, for backward begins at the loss. They
# can travel while the layers before it still compute. So a hook starts an asynchronous
# all-reduce (lesson 10a; here it is called `start_all_reduce`), and we wait for all of
# them at the end.
#
# ## Buckets: few large messages
#
# Real models have hundreds of parameter tensors, many of them tiny, and each message
# costs its α, however short it is (lesson 10b). We send the same 100 KB as 50 messages
# and as 1. How many times as long do the 50 take?

# %%
from statistics import median
from time import perf_counter

from demos.ddp.ddp_from_scratch import start_all_reduce
from sidebyside import guess


def seconds_for(messages: int, repeats: int = 20) -> float:
    """Median seconds to all-reduce 100 KB in so many messages."""
    pieces = torch.ones(25_000, device=device()).chunk(messages)
    seconds = []
    for _ in range(repeats):
        dist.barrier()
        began = perf_counter()
        for work in [start_all_reduce(piece) for piece in pieces]:
            work.wait()
        pieces[0].sum().item()  # on a GPU: wait until it is done
        seconds.append(perf_counter() - began)
    return median(seconds)


guess("11-messages", None, "How many times as long as 1 message do 50 take?", "×")


# %%
from sidebyside import reveal


def ratio_of_times() -> float:
    return seconds_for(50) / seconds_for(1)


reveal("11-messages", run_ranks(ratio_of_times)[0])

# %% [markdown]
# So gradients travel together. A **bucket** is a flat tensor with room for several of
# them. It leaves when its last gradient is ready. One bucket for all, as in lesson 9,
# could leave only after backward. Torch's default is 25 MB, from the second step on with a first bucket of 1 MB
# that leaves early; ours is 25 MB too. For the wide network we set 1 MB
# (`BUCKET_MB` in `demos/ddp/overlap.py`). Then its eight gradients travel in three
# messages, as you will see below.
#
# ## The class
#
# Here is all there is to it but `fill_buckets`, which you write in exercise 3. It fills
# buckets from the last parameter to the first. Shown are the start of a message, the
# bucket, and the wrapper around your model.

# %%
from demos.ddp.ddp_from_scratch import Bucket, DistributedDataParallel

show(start_all_reduce)
show(Bucket)
show(DistributedDataParallel)

# %% [markdown]
# Read it with four questions.
#
# * *Where do replicas become equal?* In `__init__`: a broadcast of everything.
# * *Who starts a message?* Autograd. It calls `_gradient_is_ready` once per parameter,
#   in the middle of `backward`. The gradient that completes a bucket sends it.
# * *Why in list order, even if a later bucket is complete?* Collectives meet in the
#   order in which they are called. If two ranks sent their buckets in different orders,
#   the gradients of different layers would be added up.
# * *Who waits?* `_finish`. The first hook asks autograd to call it when `backward` has
#   done everything else. So when `backward` returns, the gradients are averages.
#
# Nothing else in the training loop changes. (Before you run the cell: what will the
# slow link say? The same gradients will go through the same cable, but during backward,
# and in three messages instead of eight; both help. How many times faster is a step?)


# %%
def ours() -> nn.Module:
    return DistributedDataParallel(own_start(), bucket_bytes=2048)


def nothing(model: nn.Module) -> None:
    pass


guess("11-overlap", None, "How many times faster is a step through the slow link?", "×")
first, second = run_ranks(train_replica, ours, nothing)
hold_to(alone, first, second)

# %% [markdown]
# **Equal replicas, within 10⁻⁶ of the single process, after each of the 22 steps.** The
# ranks began with different seeds; the broadcast took care of that. From a terminal,
# `python demos/ddp/ddp_from_scratch.py` prints this comparison step by step.
#
# ## Overlap
#
# Back to the slow link, with buckets that leave during backward.

# %%
from sidebyside import draw_timelines

with Timeline() as during:
    seconds_during = run_ranks(
        overlap.through_slow_link, overlap.average_during_backward, megabytes_per_second
    )[0]
reveal("11-overlap", seconds_after / seconds_during)
draw_timelines({"after backward": after, "during backward": during}, stamp="simulated")

# %% [markdown]
# In the lower picture `backward` computes, and then waits until the last bucket has
# arrived. Compare when the first message sets out (lengths vary on a busy computer).
# What travels while backward computes costs no time: that is **overlap**. Whatever is
# still travelling when backward has computed its last gradient stays visible, the last
# bucket at least: it holds the first layers' gradients, which come last.
#
# However early the messages leave, a step takes at least as long as the cable needs for
# all of them. Try `--link 30` with the demo `demos/ddp/overlap.py`.

# %% [markdown] tags=["instructor"]
# ## What changes your training silently: 25 minutes
#
# Four small experiments, each with a mistake that raises no error: accumulation that
# sends too much, an order that never changes, a mean of means, and batch norm. Let each
# pair take one and present it.
#
# When late: uneven batches and set_epoch are the ones people meet in their first week.

# %% [markdown]
# ## Accumulation without traffic
#
# In gradient accumulation (lesson 8) several micro-batches add up before the step. To
# average after each of them would be right, and wasteful. Inside `no_sync()` the hooks
# stay quiet; the last micro-batch then sends all that has accumulated.

# %%
from contextlib import nullcontext


def accumulate(quietly: bool) -> tuple[int, torch.Tensor]:
    """One step of four micro-batches: messages sent, and parameters afterwards."""
    sent = []

    def count(message: torch.Tensor) -> dist.Work:
        sent.append(message)
        return start_all_reduce(message)

    replica = DistributedDataParallel(make_model(), 2048, all_reduce=count)
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    for number, (x, y) in enumerate(batches[:4]):
        with replica.no_sync() if quietly and number < 3 else nullcontext():
            scores = replica(x[mine].to(device()))
            (F.cross_entropy(scores, y[mine].to(device())) / 4).backward()
    torch.optim.SGD(replica.parameters(), lr=0.1).step()
    return len(sent), flat_parameters(replica).cpu()


(loud, one), (quiet, other) = (run_ranks(accumulate, way)[0] for way in (False, True))
loud, quiet, bool((one - other).abs().max() <= 1e-6)

# %% [markdown]
# Eight messages without `no_sync`, two with it (two buckets, four micro-batches). **The
# same step with a quarter of the messages.** It works because our hook runs after the
# new gradient has been *accumulated*, and averages the whole sum. The older
# `register_hook` gets the newest micro-batch's gradient only. A hook that averages that
# leaves the rest different in each rank: the replicas drift apart, and nobody is told.
# Exercise 4 is about it.
#
# ## Who gets which images
#
# So far rank r took every second image of a batch. With a `DataLoader` that is the work
# of a sampler: torch's `DistributedSampler` shuffles all indices, in the same way on
# every rank, and deals them like cards. We count the indices of both ranks together,
# and the different ones among them. Then we look at the first four of rank 0 in three
# epochs, without and with `set_epoch`.

# %%
from torch.utils.data import DistributedSampler

dealt = [list(DistributedSampler(images, num_replicas=2, rank=rank)) for rank in (0, 1)]
print(f"dealt: {sum(map(len, dealt))}, different: {len(set(dealt[0] + dealt[1]))}")
sampler = DistributedSampler(images, num_replicas=2, rank=0)
without_set_epoch = [list(sampler)[:4] for epoch in range(3)]
with_set_epoch = []
for epoch in range(3):
    sampler.set_epoch(epoch)
    with_set_epoch.append(list(sampler)[:4])
print(f"without: {without_set_epoch}\nwith:    {with_set_epoch}")

# %% [markdown]
# **One image is dealt twice.** All ranks must take equally many steps, so torch's
# sampler fills up with repetitions, or with `drop_last=True` drops the rest. Neither is
# quite the epoch of a single process. In exercise 1 you deal every image once.
#
# The order is drawn from `seed + epoch`, and the sampler cannot know the epoch.
# **Without `set_epoch` every epoch has the same order.** Nothing fails. The same images
# meet in a batch for ever.
#
# ## The last batch is uneven
#
# 1,415 is 22 × 64 + 7. Of the last seven images one rank gets four and the other three,
# and DDP averages two means. That is another gradient (lesson 8), so the loss has to
# weigh.
#
# We try it with one weight, whose gradient is the sample itself. Rank 0 has the samples
# 1, 2 and 3, rank 1 has 10; the mean of all is 4. In the second line of `losses` each
# rank divides by the size of the *whole* batch. It also multiplies by the number of
# ranks, because DDP will divide by that.


# %%
def uneven_gradients() -> dict[str, float]:
    """The gradient after DDP has averaged it, for two ways to write the loss."""
    samples = torch.tensor([[1.0, 2.0, 3.0], [10.0]][dist.get_rank()], device=device())
    losses = {
        "own mean": lambda outputs: outputs.mean(),
        "weighted": lambda outputs: outputs.sum() / 4 * dist.get_world_size(),
    }
    found = {}
    for name, loss_of in losses.items():
        replica = DistributedDataParallel(nn.Linear(1, 1, bias=False).to(device()))
        loss_of(replica(samples.view(-1, 1))).backward()
        found[name] = replica.module.weight.grad.item()
    return found


run_ranks(uneven_gradients)[0]

# %% [markdown]
# **Weighted by the whole batch, the gradient is that of the single process.** It stays so
# when a rank gets no image at all.
#
# What must not be uneven is the number of *steps*. Here rank 1 takes one more, and
# waits for a partner that has gone home. The red text is meant.


# %% tags=["raises-exception"]
def one_step_more_on_rank_1() -> None:
    replica = DistributedDataParallel(make_model())
    for x, y in batches[: 2 + dist.get_rank()]:
        F.cross_entropy(replica(x.to(device())), y.to(device())).backward()


run_ranks(one_step_more_on_rank_1, timeout=2)

# %% [markdown]
# The report names the rank that waits, and the line. Elsewhere you get a message about
# a closed connection, or, if rank 0 goes on to something else, silence. A sampler that
# repeats images avoids it. So does a loop in which every rank takes part in every
# batch, if need be with no image.
#
# ## Buffers and batch norm
#
# A **buffer** is part of a model's state that has no gradient, such as the running mean
# of batch norm. It moves a tenth of the way to each batch's mean. To see who decides,
# rank r feeds it the number 10ʳ, twice.


# %%
def running_means() -> list[float]:
    replica = DistributedDataParallel(nn.BatchNorm1d(1).to(device()))
    seen = []
    for _ in range(2):
        replica(torch.full((4, 1), 10.0 ** dist.get_rank(), device=device()))
        seen.append(round(replica.module.running_mean.item(), 4))
    return seen


run_ranks(running_means)

# %% [markdown]
# After one step: 0.1 of 1 on rank 0, and 0.1 of 10 on rank 1. Then **every forward
# begins with rank 0's buffers, sent to all**: rank 1 forgets its 1.0 and goes on from
# 0.1. Torch does the same. What rank 1 has seen never gets into the running mean that
# rank 0 saves.
#
# And each rank normalises with the mean of its own share. So **a network with batch norm
# does not train as in one process** (lesson 9), whatever you do to its gradients.
# `nn.SyncBatchNorm` takes the mean over all ranks; it needs GPUs. Layer norm does not
# mix samples, and has no such problem.

# %% [markdown] tags=["instructor"]
# ## Against torch's own: 15 minutes
#
# Ask for the guess of the ratio in writing: people who have read 60 lines of Python
# expect them to be far behind C++. Discuss why they are not: the products and the
# messages are torch's in both.
#
# When late: run only the three trainings on the digits.

# %% [markdown]
# ## Torch's own
#
# It has the same name, lives in `torch.nn.parallel`, and its inner part is C++. It
# takes our place in the same training. (Before you run the cell: how does the time of
# its step compare with ours?)


# %%
def torchs() -> nn.Module:
    return nn.parallel.DistributedDataParallel(own_start())


guess("11-ratio", None, "How many times as long as torch's does our step take?", "×")
hold_to(first, *run_ranks(train_replica, torchs, nothing))

# %% [markdown]
# **Torch's parameters are ours after each of the 22 steps, within 10⁻⁶.** Is it faster?
# Both do the same steps, in alternating rounds, so that a busy moment of the computer
# hits both.
#
# Then one more picture, without the slow link: real messages between two processes of
# this computer. Our class takes a function that starts an all-reduce; torch's takes a
# *communication hook*. Both note when a message sets out, and when it has arrived. In
# the listing, `TORCHS` is torch's class and `BUCKET_MB` is 1: a bucket of 1 MB for
# both.

# %%
show(overlap.time_in_turn)
seconds = run_ranks(overlap.time_in_turn, overlap.make_wide)[0]
pairs = zip(seconds["ours"], seconds["torch's"], strict=True)
reveal("11-ratio", median(ours / torchs for ours, torchs in pairs))
with Timeline() as of_ours:
    run_ranks(overlap.inside_this_computer, overlap.average_during_backward)
with Timeline() as of_torch:
    run_ranks(overlap.inside_this_computer, overlap.average_in_torchs_way)
draw_timelines({"ours": of_ours, "torch's": of_torch})

# %% [markdown]
# Matrix products and messages are torch's in both; ours adds a
# Python call for each gradient and a few for each bucket. `tests/benchmarks/ddp_step_time.py` takes more rounds and several sizes.
#
# In each lane the bar of backward is above, the messages that it has started below it.
# **In both, the first message sets out before the last gradient is ready.** Where ours
# waits for the last messages is pale; torch waits in C++, out of our sight, and its bar of
# backward includes it. On two cores, sending and computing share the cores: overlap
# hides waiting, not work. (With GPUs these bars show when work was handed to the
# device. Lesson 13a draws the device.)
#
# ## Does it recognise digits?
#
# Three trainings with momentum, all images and an uneven last batch: alone, with torch's
# DDP, with ours. The test is on the 382 images that no rank has seen. One pass over the
# images, its losses weighted as above, is `train_digits_epoch` of
# [demos/ddp/train_digits.py](../demos/ddp/train_digits.py).

# %%
from demos.ddp.train_digits import WRAPPERS, digits_accuracy, train_digits_epoch


def four_epochs(mode: str) -> list[tuple]:
    """Runs in each rank: loss, accuracy and seconds of each epoch."""
    model, rows = make_model(), []
    replica = WRAPPERS[mode](model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = [tensor.to(device()) for tensor in load_digits("train")]
    for epoch in range(4):
        began = perf_counter()
        loss = train_digits_epoch(replica, sgd, *data, epoch, 64)
        rows.append((loss, perf_counter() - began, digits_accuracy(model)))
    return rows


# %%
for mode in WRAPPERS:
    rows = run_ranks(four_epochs, mode, world_size=1 if mode == "single" else 2)[0]
    for loss, seconds, accuracy in rows:
        print(f"{mode:6}  loss {loss:.6f}  held-out accuracy {accuracy:.4f}", end="")
        print(f"  {1e3 * seconds / 23:.1f} ms per step")

# %% [markdown]
# **All three have the same losses and the same accuracy.** That was the aim: another
# way to the same model. Is it a faster way? On a network this small, messages cost more
# than the second process saves. Data-parallel training pays when a step computes for
# much longer than it sends.
#
# The demo does the same on as many processes, GPUs or machines as you start it with:
#
# ```
# torchrun --nproc-per-node 2 demos/ddp/train_digits.py --mode ddp
# ```
#
# The processes meet at a port. With `run_ranks` only programs on this machine can reach
# it; `torchrun` opens it on all network interfaces, for ranks on other machines, so use
# it in a network that you trust.
#
# ### The same idea elsewhere
#
# | library | what you write | what averages the gradients |
# |---|---|---|
# | PyTorch | `DistributedDataParallel(model)` | buckets, during backward |
# | Horovod | `hvd.DistributedOptimizer(optimizer)` | several gradients to a message, during backward |
# | TensorFlow | `tf.distribute.MirroredStrategy()` | all-reduce in the training step |
# | JAX | `jax.jit` on a batch sharded over devices | all-reduce put in by the compiler |
#
# ## The scorecard
#
# | N ranks, P bytes of parameters | |
# |---|---|
# | equal to one process | after each step, to 10⁻⁶; replicas bit for bit |
# | bytes each rank sends per step | 2 (N − 1)/N · P; with `no_sync` once for all micro-batches |
# | memory of each rank | P parameters, P gradients, P of buckets, its own optimiser, its part of the batch |
# | idle share | while the last buckets travel |
# | if one rank dies | the others get an error or wait; the training stops |
#
# ## What we saw
#
# * Averaging gradients keeps replicas as far apart as they start. The broadcast of the
#   start makes them equal.
# * Then two processes train as one does; 64-bit numbers tell rounding from mistakes.
# * Gradients are ready from the last layer to the first. Buckets make few messages of
#   many gradients, and leave while backward still computes.
# * `no_sync` saves the messages of all micro-batches but the last. The hook must see
#   the accumulated gradient.
# * These mistakes raise no error: an own start, a sum for a mean, no `set_epoch`, a
#   mean of means, batch norm over a share.
# * Our class and torch's train the same model, and their steps take about as long.
#
# Four exercises follow. Stuck? `hint("11-shard")` gives one hint per call,
# `solution("11-shard")` the code and why it works; `progress("11")` shows where you
# are.

# %% [markdown] tags=["instructor"]
# ## The exercises: 5 minutes to start them, 30 to 60 at home
#
# 1 and 2 need no second process and suit pairs. 3 and 4 run in ranks: a wrong answer
# may hang there, and the check says so after 20 seconds. Ask people to read the report
# instead of interrupting.
#
# When late: exercise 2 is the one to discuss together. Three of its wrong answers have
# been published.

# %% [markdown]
# ## Exercise 1: deal the images
#
# Write `shard(samples, rank, world_size, epoch)`. It returns a list (any sequence will
# do): the indices, from 0 to `samples - 1`, that this rank trains on in this epoch.
#
# * Every index goes to exactly one rank. None is left out, none is dealt twice.
# * No rank gets more than one index more than another.
# * The order is shuffled, anew in each epoch, and a rank does not get the same images in
#   every epoch.
# * Ranks cannot talk here. Equal arguments give equal answers.
#
# *By hand first:* five images, shuffled to 3, 0, 4, 1, 2, are dealt like cards to two
# ranks. What does each get?
#
# <!-- exercise: 11-shard -->
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


# %% exercise="11-shard"
def shard(samples: int, rank: int, world_size: int, epoch: int) -> list[int]:
    """The indices that this rank trains on in this epoch."""
    ### BEGIN SOLUTION
    deck = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
    return deck[rank::world_size].tolist()
    ### END SOLUTION


# %%
check("11-shard", shard)

# %% [markdown] tags=["why"]
# <!-- why: 11-shard -->
# Why it works: the seed depends on the epoch and not on the rank, so all ranks hold the
# same deck. Slices with the same step and different starts do not meet, and together
# they are everything. The last cards go to the first ranks, one each, so no two ranks
# differ by more than one. The generator is a new one: torch's global generator, from
# which dropout draws, is left alone.

# %% [markdown]
# ## Exercise 2: one step of several replicas, in one process
#
# Write `replica_step(model, shards, lr)`, without any rank. `shards` is a list of pairs
# (images, labels), **not all of the same length**. Make one replica of `model` for each
# shard, compute each replica's gradient on its own shard, combine the gradients, and
# let every replica take the same SGD step. Return the list of replicas.
#
# * The step is that of one process with the whole batch, whose loss is the mean
#   cross-entropy over all images.
# * No replica shares parameters with another or with `model`, which stays as it was,
#   without gradients.
# * A parameter that is frozen, with `requires_grad` False, gets no gradient: its `.grad`
#   is None, and it stays as it is.
#
# *By hand first:* one weight, w = 1; a sample s has the gradient s; the shards are (1,
# 2, 3) and (10); lr = 0.1. Which w does each replica have afterwards?
#
# <!-- exercise: 11-replicas -->
# <details><summary>Hint 1: a question</summary>
#
# How many models are there in `[model] * 3`? And if a shard has three times as many
# images as another, how often should its mean count?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# `copy.deepcopy` makes a replica with storage of its own. If every shard's loss is a
# sum divided by the number of images in *all* shards, the gradients need only be added.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# After all backwards: `for parameters in zip(*(r.parameters() for r in replicas)):`
# gives the same parameter of every replica. Where there is a `.grad`, add up all of
# them, then, inside `torch.no_grad()`, subtract `lr` times the sum from each.
# </details>

# %% exercise="11-replicas"
import copy


def replica_step(model: nn.Module, shards: list, lr: float) -> list[nn.Module]:
    """One replica for each shard, after the step that one process would take."""
    ### BEGIN SOLUTION
    replicas = [copy.deepcopy(model) for _ in shards]
    batch_size = sum(len(y) for _, y in shards)
    for replica, (x, y) in zip(replicas, shards, strict=True):
        (F.cross_entropy(replica(x), y, reduction="sum") / batch_size).backward()
    with torch.no_grad():
        for parameters in zip(*(r.parameters() for r in replicas), strict=True):
            if parameters[0].grad is None:  # frozen
                continue
            gradient = sum(parameter.grad for parameter in parameters)
            for parameter in parameters:
                parameter -= lr * gradient
    return replicas
    ### END SOLUTION


# %%
check("11-replicas", replica_step)

# %% [markdown] tags=["why"]
# <!-- why: 11-replicas -->
# Why it works: the mean over the batch is a sum over all images, divided by their
# number. A sum can be cut into shards anywhere. Each replica's gradient is its shard's
# part of that sum, already divided by the right number, so adding the parts gives the
# gradient of the single process. By hand: (1 + 2 + 3) / 4 + 10 / 4 = 4, so w = 1 - 0.1
# · 4 = 0.6 on both. Deep copies keep the replicas apart; the same arithmetic on equal
# numbers keeps them equal.

# %% [markdown]
# ## Exercise 3: average in buckets
#
# Write `average_gradients(parameters, bucket_bytes)`, which every rank calls after
# `backward`. Afterwards each `parameter.grad` is the mean over all ranks.
#
# * Gradients travel in buckets, filled from the last parameter to the first, and sent
#   in that order. A bucket is full when it holds `bucket_bytes` or more. One all-reduce
#   for each bucket, and no other message.
# * A parameter whose `.grad` is None is left out, on all ranks alike, and keeps its
#   None. It may be so for all of them.
#
# *By hand first:* gradients of 100, 10, 10 and 100 bytes, in the order of the
# parameters, and `bucket_bytes` = 105. Which buckets are sent?
#
# <!-- exercise: 11-buckets -->
# <details><summary>Hint 1: a question</summary>
#
# What happens to the gradients that are left over when all parameters have been seen
# and the last bucket is not full?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Two parts, one after the other: first sort the parameters into a list of lists, then
# send each list. `torch.cat` packs flat gradients into one tensor; `split` with a list
# of lengths unpacks it.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# For each bucket: `message = torch.cat([p.grad.flatten() for p in bucket])`, all-reduce
# it, divide it by the number of ranks. Then for each parameter and its piece of
# `message.split([p.numel() for p in bucket])`: put `piece.view_as(parameter)` back.
# </details>


# %% exercise="11-buckets"
def average_gradients(parameters: list[nn.Parameter], bucket_bytes: int) -> None:
    """Give each parameter the mean of all ranks' gradients; one message per bucket."""
    ### BEGIN SOLUTION
    buckets = []
    for parameter in reversed(parameters):
        if parameter.grad is None:
            continue
        if not buckets or sum(p.grad.nbytes for p in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    for bucket in buckets:
        message = torch.cat([p.grad.flatten() for p in bucket])
        dist.all_reduce(message)
        message /= dist.get_world_size()
        pieces = message.split([p.numel() for p in bucket])
        for parameter, piece in zip(bucket, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
    ### END SOLUTION


# %%
check("11-buckets", average_gradients)

# %% [markdown] tags=["why"]
# <!-- why: 11-buckets -->
# Why it works: all ranks have the same parameters in the same order, so their buckets
# are alike and the messages fit each other without any agreement. A new bucket is
# opened only when there is a gradient to put into it, so the last one, full or not, is
# sent like the others. The pieces are views of the message: unpacking copies nothing.
# By hand: the last two, 110 bytes, then the first two.

# %% [markdown]
# ## Exercise 4: hooks, and quiet accumulation
#
# Write `average_with_hooks(module)`. It hangs a hook on every parameter that is trained
# (one that is frozen, with `requires_grad` False, takes no hook), so that after
# `loss.backward()` each gradient is the mean over all ranks. It returns a function
# `no_sync`, to be used as `with no_sync():`.
#
# * A backward inside `no_sync` sends nothing; its gradients only accumulate. Another
#   module with hooks is not silenced by it: each has a `no_sync` of its own.
# * The next backward outside averages everything that has accumulated.
# * After the `with` block the hooks work again, also if an exception ended it. The
#   exception goes on its way.
# * Buckets and overlap are not asked for: one all-reduce per parameter will do.
#
# *By hand first:* two micro-batches, the first inside `no_sync`. One weight; its
# gradients are 1, then 2 on rank 0, and 3, then 6 on rank 1. What does each rank hold
# at the end? And if only the newest gradient were averaged?
#
# <!-- exercise: 11-no-sync -->
# <details><summary>Hint 1: a question</summary>
#
# Which hook is called after the new gradient has been added to `parameter.grad`, and
# which before?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# The hooks and `no_sync` share a switch. `no_sync` turns it off and, whatever happens
# inside, on again. A generator function with `@contextmanager` can do that around a
# `yield`.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `parameter.register_post_accumulate_grad_hook(average)`, where `average(parameter)`
# does nothing while the switch is off, and else divides `parameter.grad` by the number
# of ranks and all-reduces it. In `no_sync`: switch off, `try: yield`, `finally:` switch
# on.
# </details>

# %% exercise="11-no-sync"
from contextlib import contextmanager


def average_with_hooks(module: nn.Module):
    """Average gradients during backward; return `no_sync`, which keeps it quiet."""
    ### BEGIN SOLUTION
    quiet = []  # one entry for each no_sync that is open

    def average(parameter: nn.Parameter) -> None:
        if not quiet:
            dist.all_reduce(parameter.grad.div_(dist.get_world_size()))

    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)

    @contextmanager
    def no_sync():
        quiet.append(True)
        try:
            yield
        finally:
            quiet.pop()

    return no_sync
    ### END SOLUTION


# %%
check("11-no-sync", average_with_hooks)

# %% [markdown] tags=["why"]
# <!-- why: 11-no-sync -->
# Why it works: a post-accumulate hook gets the parameter when `parameter.grad` already
# holds the sum over all micro-batches. The mean over ranks of that sum is the sum of
# the means, so nothing has been missed. By hand: (1 + 2 + 3 + 6) / 2 = 6 on both ranks.
# With only the newest gradient averaged, rank 0 would hold 1 + 4 and rank 1 would hold
# 3 + 4: different replicas from the first step on.

# %% [markdown]
# ## Next
#
# Every step here waits for the slowest rank. Must it? Lesson 12 lets the ranks run
# free, with a server in the middle or without one, and measures what that costs.
