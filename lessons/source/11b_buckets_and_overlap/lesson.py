# ---
# title: 11b DDP: hooks, buckets, overlap
# question: When should each gradient travel, and in which company?
# needs: two CPU cores, no GPU
# minutes: 90
# ---

# %% [markdown]
# # 11b. DistributedDataParallel: hooks, buckets, overlap
#
# Lesson 11a trained one model in two ranks: all begin with rank 0's weights, and after
# `backward` one all-reduce for each gradient gives all of them the mean. While the
# messages travel, no rank computes.
#
# Here we write torch's line, `DistributedDataParallel` or DDP, ourselves. When can a
# gradient set out? Which gradients share a message? What is then left of the waiting?
#
# *You will be able to* say what travels between the ranks, when, and in which portions;
# keep a model quiet while gradients accumulate; and say which parameters a step may leave
# out.
#
# *Before this:* lessons 10b and 11a. *Time:* {reading} minutes to read, 30 for the exercises.
# *Needs:* two CPU cores, no GPU. With two GPUs the same cells use them; this is
# untested.

# %% [markdown] tags=["instructor"]
# ## Where the time goes: 15 minutes
#
# Draw the first timeline before you run it, from what the class says: forward,
# backward, then message after message while the cores are grey. Ask: when is the first
# gradient of backward ready? Which layer's is it? Then let them invent the overlap, and
# work out the guess on paper: $40 + 30 + 4 \times 30$.
#
# Expected: "start with the first layer", because it comes first in the model. The cell
# with the hooks settles it.

# %% [markdown]
# ## Where is the waiting?
#
# Four layers stand in for a network. They sleep instead of computing: each 10 ms
# forward and 30 ms backward. The cable is slow, too: `SlowLink` is lesson 10b's paced
# link, for whole all-reduces. It makes a real one and then sleeps, α = 30 ms for each
# message and β = 0. Messages queue in a thread of their own, the wire.
#
# `link.start` hands a gradient to the wire and returns at once. First we do as in 11a:

# %%
from parallel_by_hand.ddp import overlap
from sidebyside import Timeline, run_ranks, show

show(overlap.step_after_backward)
show(overlap.wait_for_means)
with Timeline() as after:
    run_ranks(overlap.step_after_backward, 30)
after.plot(stamp="simulated")

# %% [markdown]
# A step of each rank, and its wire below it. **No message sets out before its rank's
# backward has ended.** In the pale bar the rank waits for its wire. While a rank
# computes, its wire is idle. Forward 40 ms, backward 120 ms, four messages 120 ms: 280
# ms, and some more for Python and the real all-reduces.

# %% [markdown]
# ## Hooks: a gradient is ready before backward ends
#
# Does the first message have to wait for the last gradient? Autograd can tell us when
# each gradient is complete: it calls a function, a **hook**. *Before you run it:* in
# which order?

# %%
from torch.nn import functional as F

from parallel_by_hand.ddp.ddp_from_scratch import make_ddp_model
from sidebyside import device, load_digits

images, labels = (tensor.to(device()) for tensor in load_digits("train"))
model, ready = make_ddp_model(), []
names = {parameter: name for name, parameter in model.named_parameters()}
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(lambda p: ready.append(names[p]))
F.cross_entropy(model(images), labels).backward()
ready

# %% [markdown]
# **The last layer's gradients are ready first**, for backward begins at the loss. They
# can travel while the layers before it still compute. So let a hook start the message,
# and nothing else change: the same layers, the same four messages, the same wire.

# %%
from sidebyside import guess

show(overlap.step_during_backward)
guess(
    "11b-step",
    None,
    "How long does a step take now? By the same count, it was 280 ms.",
    "ms",
)

# %%
from sidebyside import draw_timelines, reveal

with Timeline() as during:
    seconds = run_ranks(overlap.step_during_backward, 30)[0]
reveal("11b-step", round(1e3 * seconds), simulated=True)
draw_timelines({"after backward": after, "during backward": during}, stamp="simulated")

# %% [markdown]
# The bar of backward ends when the last gradient is ready. **The first message sets out
# before that.** The rank waits for what has not arrived by then: the last message,
# which makes 40 + 120 + 30 = 190 ms, and some more as above. What travels while
# backward computes costs no time: that is **overlap**.
#
# The first layer's gradient comes last, and nothing can hide its message. And however
# early messages leave, a step takes at least as long as the cable needs for all of
# them: with `--link 60` the demo `demos/ddp/overlap.py` needs 40 + 30 + 4 × 60 = 310
# ms.

# %% [markdown] tags=["instructor"]
# ## Buckets: 5 minutes
#
# Let them fill the buckets of the table at the board, from below. Expected guess: 8, or
# 9, since 8.3 MiB go into buckets of 1.

# %% [markdown]
# ## Buckets: few large messages
#
# Real models have hundreds of parameter tensors, many of them tiny, and each message
# costs its α, however short it is. So gradients travel together. A **bucket** is a flat
# tensor with room for several of them. It is filled from the last parameter to the
# first, is full when it holds a given number of bytes *or more*, and leaves when its
# last gradient is ready. Here is a wide network:

# %%
from parallel_by_hand.ddp import ddp_beside_torch

for name, parameter in ddp_beside_torch.make_wide().named_parameters():
    print(f"{name:9} {parameter.nbytes:9,} bytes")
guess(
    "11b-messages",
    None,
    "Buckets are full at 1 MiB, 1,048,576 bytes. How many messages?",
)

# %%
sent = run_ranks(ddp_beside_torch.bytes_of_messages, "ours", 1)[0][0]
print(sent)
reveal("11b-messages", len(sent))

# %% [markdown]
# The first bucket holds the last layer's two gradients and those of the layer before
# it, whose matrix fills it. A gradient is never cut, so a bucket can grow far beyond
# its limit. **Eight gradients travel in three messages.** One bucket for all could
# leave only when the last gradient is ready.

# %% [markdown] tags=["instructor"]
# ## Exercise 1, buckets: 20 minutes
#
# It runs in ranks: a wrong answer may hang there, and the check says so after 20
# seconds. Ask people to read the report instead of interrupting. Expected: the last
# bucket, which is not full, is never sent.

# %% [markdown]
# ## Exercise 1: average in buckets
#
# Write `average_gradients(parameters, bucket_bytes)`, which every rank calls after
# `backward`. Afterwards each `parameter.grad` is the mean over all ranks.
#
# Gradients travel in buckets, filled from the last parameter to the first, and sent in
# that order. A bucket is full when it holds `bucket_bytes` or more. One all-reduce for
# each bucket, and no other message.
#
# *By hand first:* gradients of 100, 10, 10 and 100 bytes, in the order of the
# parameters, and `bucket_bytes` = 105. Which buckets are sent?
#
# <!-- exercise: 11b-buckets -->
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
# For each bucket: `torch.cat` the flat gradients, all-reduce the message, divide it by
# the number of ranks. Then `split` it into as many numbers as each parameter has, and
# put each piece back, in the shape of its parameter.
# </details>


# %% exercise="11b-buckets"
import torch
import torch.distributed as dist
from torch import nn

from sidebyside import forget, hint, progress, solution


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
from sidebyside import check

check("11b-buckets", average_gradients)

# %% [markdown] tags=["why"]
# <!-- why: 11b-buckets -->
# Why it works: all ranks have the same parameters in the same order, so their buckets
# are alike and the messages fit each other without any agreement. A new bucket is
# opened only when there is a gradient to put into it, so the last one, full or not, is
# sent like the others. The pieces are views of the message: unpacking copies nothing.
# By hand: the last two, 110 bytes, then the first two.

# %% [markdown] tags=["instructor"]
# ## The class: 10 minutes
#
# Read it with the four questions, aloud. The one to discuss is the third: let two people
# send two notes each in different orders, and add up what they get.
#
# When late: show `_gradient_is_ready` only.

# %% [markdown]
# ## The class
#
# Now hooks and buckets together. A `Bucket` knows how many of its gradients are still
# missing. When none is missing, it starts its all-reduce, which returns a handle to
# wait for:

# %%
from parallel_by_hand.ddp.ddp_from_scratch import Bucket

show(Bucket)

# %% [markdown]
# The wrapper around your model makes the buckets and hangs a hook on each parameter. In a
# backward with two buckets, five things happen:
#
# 1. The first gradient is ready. Its hook asks autograd to call `_finish` at the end.
# 2. The last gradient of bucket 0 is ready: bucket 0 sets out.
# 3. The last gradient of bucket 1 is ready: bucket 1 sets out.
# 4. Backward has nothing left to do, and autograd calls `_finish`.
# 5. `_finish` waits for both sums, and `backward` returns.
#
# We read the start, the hook, and the end.
# [The whole class](../demos/ddp/ddp_from_scratch.py) has 60 lines.

# %%
from parallel_by_hand.ddp.ddp_from_scratch import DistributedDataParallel

show(DistributedDataParallel.__init__)
show(DistributedDataParallel._gradient_is_ready)
show(DistributedDataParallel._finish)

# %% [markdown]
# * *Where do replicas become equal?* In `__init__`: a broadcast of everything.
# * *What starts a message?* Autograd. It calls `_gradient_is_ready` once per parameter,
#   in the middle of `backward`. The gradient that completes a bucket sends it.
# * *Why in list order, even if a later bucket is complete?* Collectives meet in the
#   order in which they are called. If two ranks sent their buckets in different orders,
#   the gradients of different layers would be added up, or the sizes would not match.
# * *What waits?* `_finish`. So when `backward` returns, the gradients are averages.
#
# Does it train as one process does? 23 steps on digits, the uneven last batch included,
# from `demos/ddp/ddp_from_scratch.py`, which prints every step:

# %%
from parallel_by_hand.ddp.ddp_from_scratch import train_alone_and_with_ddp

rows = run_ranks(train_alone_and_with_ddp, 23, 2048)[0]
{
    "within 1e-6 of one process": all(gap <= 1e-6 for *_, gap, _ in rows),
    "replicas equal, bit for bit": all(equal for *_, equal in rows),
}

# %% [markdown]
# **Equal replicas, within 10⁻⁶ of the single process, after each of the 23 steps.**

# %% [markdown]
# ## Accumulation without traffic
#
# In lesson 8's gradient accumulation several micro-batches add up before the step. To
# average after each of them would be right, and wasteful. Inside `no_sync()` the hooks
# stay quiet; the last micro-batch then sends all that has accumulated.

# %%
from contextlib import nullcontext

from parallel_by_hand.ddp.ddp_from_scratch import flat_parameters, start_all_reduce


def accumulate(quietly: bool) -> tuple[int, torch.Tensor]:
    """One step of four micro-batches: messages sent, and parameters afterwards."""
    sent = []

    def count(message: torch.Tensor) -> dist.Work:
        sent.append(message)
        return start_all_reduce(message)

    replica = DistributedDataParallel(make_ddp_model(), 2048, all_reduce=count)
    for number in range(4):
        mine = slice(64 * number + dist.get_rank(), 64 * (number + 1), 2)
        with replica.no_sync() if quietly and number < 3 else nullcontext():
            (F.cross_entropy(replica(images[mine]), labels[mine]) / 4).backward()
    torch.optim.SGD(replica.parameters(), lr=0.1).step()
    return len(sent), flat_parameters(replica).cpu()


# %%
(loud, one), (quiet, other) = (run_ranks(accumulate, way)[0] for way in (False, True))
loud, quiet, bool((one - other).abs().max() <= 1e-6)

# %% [markdown]
# Eight messages without `no_sync`, two with it: two buckets, four micro-batches. **The
# same step with a quarter of the messages.** It works because our hook runs after the
# new gradient has been *accumulated*, and averages the whole sum. The older
# `register_hook` gets the newest micro-batch's gradient only. A hook that averages that
# leaves the rest different in each rank: the replicas drift apart without an error.
#
# In torch and in ours **the forward pass decides whether its backward sends**. So both
# belong inside `no_sync()`, or both outside:
#
# | forward | backward | sent | gradients 1 and 10 become |
# |---|---|---|---|
# | outside | inside | yes | 5.5 and 5.5 |
# | inside | outside | no | 1 and 10: the replicas drift apart |

# %% [markdown] tags=["instructor"]
# ## Exercise 2, hooks and quiet accumulation: 25 minutes
#
# It runs in ranks, as exercise 1 did. Expected: a hook that gets only the newest
# gradient, and a switch that one exception leaves off.

# %% [markdown]
# ## Exercise 2: hooks, and quiet accumulation
#
# Write `average_with_hooks(module)`. It hangs a hook on every parameter, so that after
# `backward` each gradient is the mean over all ranks; one all-reduce per parameter will
# do. It returns a function `no_sync`, to be used as `with no_sync():`.
#
# * A micro-batch inside sends nothing; its gradients only accumulate. The next one
#   outside averages all that has accumulated.
# * After the block the hooks work again, also if an exception ended it.
#
# *By hand first:* two micro-batches, the first inside. One weight; its gradients are 1,
# then 2 on rank 0, and 3, then 6 on rank 1. What does each rank hold at the end?
#
# <!-- exercise: 11b-no-sync -->
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
# does nothing while the switch is off, and else averages `parameter.grad`. In
# `no_sync`: switch off, `yield`, and on again in a `finally`.
# </details>

# %% exercise="11b-no-sync"
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
check("11b-no-sync", average_with_hooks)

# %% [markdown] tags=["why"]
# <!-- why: 11b-no-sync -->
# Why it works: a post-accumulate hook gets the parameter when `parameter.grad` already
# holds the sum over all micro-batches. The mean over ranks of that sum is the sum of
# the means, so nothing has been missed. By hand: (1 + 2 + 3 + 6) / 2 = 6 on both ranks.
# With only the newest gradient averaged, rank 0 would hold 1 + 4 and rank 1 would hold
# 3 + 4: different replicas from the first step on.

# %% [markdown] tags=["instructor"]
# ## Against torch's own: 15 minutes
#
# Ask for the ratio of step times in writing: people who have read 60 lines of Python
# expect them to be far behind C++. Discuss why they are not: the products and the
# messages are torch's in both.
#
# When late: run only the three trainings on the digits.

# %% [markdown]
# ## A parameter without a gradient
#
# A bucket leaves when its last gradient is ready. What if one never comes? In this
# model both ranks use the weight `both`, rank 0 alone uses `one`, and neither uses
# `none`. The red text is intentional.


# %% tags=["raises-exception"]
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "both", "one", "none":
            self.register_parameter(name, nn.Parameter(torch.ones(1, device=device())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.both + (x * self.one if dist.get_rank() == 0 else 0)


def gradients_of_branches(find: bool) -> list[float | None]:
    wrap = nn.parallel.DistributedDataParallel
    torchs = wrap(Branches(), find_unused_parameters=find)
    for _ in range(2):
        torchs.zero_grad()
        torchs(torch.full((1,), 8.0, device=device())).backward()
    return [p.grad if p.grad is None else p.grad.item() for p in torchs.parameters()]


run_ranks(gradients_of_branches, False)

# %% [markdown]
# Torch notices when the second step begins, and names the cure. With
# `find_unused_parameters=True` it looks through the graph of each forward, and counts
# gradients that will not come as zeros. A gradient that a rank does compute is 8 here.

# %%
guess("11b-branch", None, "Which gradient of `one` does each rank hold after backward?")

# %%
finding = run_ranks(gradients_of_branches, True)
reveal("11b-branch", finding[0][1])
finding

# %% [markdown]
# Rank 1 counts as a zero: the mean of 8 and 0 is 4. **Both ranks hold the same gradient
# of a weight that only one of them has used, and none of a weight that neither has
# used.** The search costs time in every step, so it is not the default. Our class has
# no such search: it raises an error at the end of that backward.

# %% [markdown]
# ## Torch's own
#
# Torch's class has the same name, lives in `torch.nn.parallel`, and its inner part is
# C++. Does it do as ours does? First its messages: their bytes in three steps, with its
# default buckets and with our limit of 1 MiB.

# %%
for bucket_mb in None, 1:
    print(run_ranks(ddp_beside_torch.bytes_of_messages, "torch's", bucket_mb)[0])

# %% [markdown]
# **In the first step torch sends all gradients in one message here. Its buckets come
# from the second step on**, in the order in which gradients became ready in the first
# step. Until torch knows that order, it waits for all of them. By default a bucket is
# full at 25 MiB, but the first one at 1 MiB: so something leaves early.
#
# With a limit of 1 MiB its messages are ours. So we draw both, without the slow link:
# real messages between two processes of this computer.


# %%
def draw(kind: str) -> Timeline:
    with Timeline() as timeline:
        run_ranks(ddp_beside_torch.draw_sixth_step, kind)
    return timeline


draw_timelines({kind: draw(kind) for kind in ("ours", "torch's")})

# %% [markdown]
# In each lane, `backward` and `wait` are above, and the messages below them. A hook
# marks the moment at which the last gradient is ready: there the bar of backward ends.
# **In both, the first message sets out before the last gradient is ready.** With gloo,
# several messages can travel at the same time, unlike on the wire above.
#
# On two cores, sending and computing share the cores: overlap hides waiting, not work.
# With GPUs these bars show when work was handed to the device; lesson 13a draws the
# device.

# %% [markdown]
# Is torch's faster? One drawn step cannot tell. We take the median of twelve rounds, in
# which both do the same steps in turn, so that a busy moment of the computer hits both.

# %%
print(f"ours / torch's: {run_ranks(ddp_beside_torch.ratio_of_steps)[0]:.2f} ×")

# %% [markdown]
# A ratio near 1 means that neither is clearly faster here. Matrix products and messages
# are torch's in both; ours adds a few Python calls for each gradient and each bucket.
# `demos/ddp/ddp_beside_torch.py` shows all this in a terminal;
# `tests/benchmarks/ddp_step_time.py` takes more rounds and several sizes.

# %% [markdown]
# ## Does it recognise digits?
#
# Three trainings with momentum, all images and an uneven last batch: alone, with torch's
# DDP, with ours. The test is on 382 images that no rank has seen. One pass over the
# images, its losses weighted as in 11a, is `train_digits_epoch` of
# [demos/ddp/train_digits.py](../demos/ddp/train_digits.py).

# %%
from parallel_by_hand.ddp import train_digits


def four_epochs(mode: str) -> list[tuple]:
    """Runs in each rank: loss and accuracy after each epoch."""
    model, rows = make_ddp_model(), []
    replica = train_digits.WRAPPERS[mode](model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(4):
        loss = train_digits.train_digits_epoch(replica, sgd, images, labels, epoch, 64)
        rows.append((loss, train_digits.digits_accuracy(model)))
    return rows


for mode in train_digits.WRAPPERS:
    rows = run_ranks(four_epochs, mode, world_size=1 if mode == "single" else 2)[0]
    for loss, accuracy in rows:
        print(f"{mode:6}  loss {loss:.6f}  held-out accuracy {accuracy:.4f}")

# %% [markdown]
# **All three have the same losses and the same accuracy.** That was the aim: a
# different way to the same model. Is it a faster way? Only if the computing that each
# rank is spared takes longer than the sending that overlap cannot hide. Lesson 11c
# measures it.
#
# In a terminal,
# `torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/ddp/train_digits.py --mode ddp`
# does the same, and `demos/ddp/own_ddp.py` is the script of your own from 11a.

# %% [markdown]
# ### The same idea elsewhere
#
# | library | what you write | what averages the gradients |
# |---|---|---|
# | PyTorch | `DistributedDataParallel(model)` | buckets, during backward |
# | Horovod, dormant since 0.28.1 in 2023 | `hvd.DistributedOptimizer(optimizer)` | several gradients to a message, during backward |
# | TensorFlow | `tf.distribute.MirroredStrategy()` | all-reduce in the training step |
# | JAX | `jax.jit` on a batch sharded over devices | all-reduce put in by the compiler |

# %% [markdown]
# ## What we saw
#
# * Gradients are ready from the last layer to the first. A hook sends each of them at
#   once, and only the last message is waited for.
# * Buckets make few messages of many gradients. They leave in one order on all ranks.
# * `no_sync` saves the messages of all micro-batches but the last. The hook must see
#   the accumulated gradient.
# * A parameter without a gradient keeps its bucket from leaving;
#   `find_unused_parameters=True` looks for it in every step.
#
# **The scorecard** of N ranks and P bytes of parameters:
#
# | | |
# |---|---|
# | equal to one process | after each step, to 10⁻⁶, if the loss is a mean over samples; replicas bit for bit; not with batch norm or dropout |
# | bytes each rank sends per step | 2 (N − 1)/N · P in a ring; with `no_sync` once for all micro-batches |
# | memory of each rank | P parameters, P gradients, P of buckets (none in torch with `gradient_as_bucket_view=True`), its own optimiser, activations of its part of the batch |
# | idle share | while the last buckets travel |
# | if one rank dies | the others get an error or wait; the training stops |

# %% [markdown]
# ## Next
#
# What has all this bought? Lesson 11c counts samples per second, predicts them from the
# parts of a step, and looks for the rest in a trace.
