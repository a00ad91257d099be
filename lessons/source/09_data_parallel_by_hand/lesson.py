# ---
# title: 09 Data parallel by hand
# question: How do several copies of a model share one batch and stay one model?
# needs: two CPU cores, no GPU
# minutes: 80
# ---

# %% [markdown]
# # 9. Data parallel by hand: several copies, one training
#
# Lesson 8 showed: without batch norm and dropout, the gradient of a batch is the mean
# of the gradients of its equal parts. So several workers can compute one gradient, each
# from its own part.
#
# Here we build that, with threads and then with processes. Then you visit a museum of
# programs that train in parallel, raise no error, and are wrong.
#
# *You will be able to* name the seven phases of a data-parallel step, count what goes
# through each device, and find the mistake in a training that does not complain.
#
# *Before this:* lesson 8. *Time:* {reading} minutes to read, 40 for two exercises. *Needs:*
# two CPU cores, no GPU. With two GPUs the same cells use them; this is untested.

# %% [markdown] tags=["instructor"]
# ## Seven phases and a copy that copies nothing: 20 minutes
#
# Draw two boxes, device 0 and device 1, and let the class place the seven phases. Most
# people forget two: that the weights have to go out again before the next step, and that
# the gradients have to come back.
#
# When late: skip the cell with the storages, keep the step's length.

# %% [markdown]
# ## The yardstick
#
# First the training as you know it: one model, batches of 64 digits, plain SGD. We keep
# all parameters after each step and compare everything else with them.

# %%
import torch

from sidebyside import load_digits

torch.set_num_threads(1)  # one model computes on one core
images, labels = load_digits("train")
batches = list(zip(images.split(64), labels.split(64), strict=True))[:22]

# %%
from torch import nn

from parallel_by_hand.data_parallel.data_parallel_threads import replica_places

places = replica_places(2)  # two GPUs, or the CPU twice


def parameters_of(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


# %%
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_threads import make_digit_model


def train_alone(model: nn.Module) -> torch.Tensor:
    """All parameters before the first step and after each step, one row each."""
    sgd, history = torch.optim.SGD(model.parameters(), lr=0.1), [parameters_of(model)]
    for x, y in batches:
        sgd.zero_grad()
        F.cross_entropy(model(x.to(places[0])), y.to(places[0])).backward()
        sgd.step()
        history.append(parameters_of(model))
    return torch.stack(history)


alone = train_alone(make_digit_model().to(places[0]))
alone.shape

# %% [markdown]
# ## Seven phases
#
# Now two devices. Training in which each has a copy of the model and a part of every
# batch is called **data parallel**. One process drives both, with a thread for each:
#
# ```mermaid
# flowchart LR
#   accTitle: The seven phases of a data-parallel step
#   accDescr: Device 0 sends weights and images to both replicas and collects outputs.
#   W["weights<br>(device 0)"] -- "1 replicate" --> A["replica 0"]
#   W --> B["replica 1"]
#   X["batch<br>(device 0)"] --> A
#   X -- "2 scatter" --> B
#   A & B -- "3 forward, 4 gather" --> O["outputs<br>(device 0)"]
#   O -- "5 loss" --> L["one number<br>(device 0)"]
#   L -- "6 backward, reduce" --> G["gradients<br>(device 0)"]
#   G -- "7 update" --> W
# ```
#
# | | phase |
# |---|---|
# | 1 | *replicate*: copy the weights to each device |
# | 2 | *scatter*: cut the batch, and send each device its part |
# | 3 | *forward*, on all devices at once |
# | 4 | *gather*: collect the outputs |
# | 5 | *loss* of the whole batch |
# | 6 | *backward* on all devices at once, then *reduce*: add up the gradients |
# | 7 | *update*, on device 0 |
#
# This is the design of `torch.nn.DataParallel`. On a CPU the devices are simulated; the
# threads are real.

# %% [markdown]
# ## Phase 1: replicate
#
# A copy on each device is a *replica*. Here are two, on the CPU, made with torch's
# `.to`. Each gets half of the batch. `ThreadedReplicas`, shown below, adds up their
# gradients on replica 0, which takes the step.
#
# A step is a vector: the change of all parameters. How long is it, compared with one
# model's? Before you say 1, look at the line that makes the replicas.

# %%
from sidebyside import guess

model = make_digit_model()
replicas = [model.to("cpu") for _ in range(2)]
question = "The length of their step, divided by the length of one model's?"
guess("09-shared", None, question, "×")

# %%
from parallel_by_hand.data_parallel.data_parallel_threads import ThreadedReplicas
from sidebyside import reveal

shared = ThreadedReplicas(model, [torch.device("cpu")] * 2)
shared.replicas = replicas
shared.step(*batches[0])
step = parameters_of(model) - alone[0]
reveal("09-shared", float(step.norm() / (alone[1] - alone[0]).norm()), computed=True)

# %% [markdown]
# Twice as long, without any error. Where is the mistake? `data_ptr()` is the address of
# a tensor's numbers, so it tells how many models there are:

# %%
from parallel_by_hand.data_parallel.data_parallel_threads import replicate


def storages(replicas: list) -> int:
    return len({next(replica.parameters()).data_ptr() for replica in replicas})


real = replicate(make_digit_model().to(places[0]), places)
print("with model.to:", storages(replicas), " with replicate:", storages(real))
print("model.to returns the same model:", model.to("cpu") is model)

# %% [markdown]
# `model.to` moves the model and returns it; it never makes a second. So both halves of
# the batch went into one `.grad`, and the reduce added that to itself. **Two replicas
# that share storage take a step twice as long.** `replicate` uses `copy.deepcopy` for all
# replicas but the first.

# %% [markdown]
# ## Phases 2 and 4: scatter and gather
#
# To **scatter** is to deal the parts of one tensor to several workers. To **gather** is
# the way back: one tensor from what they all return. A batch cannot always be divided
# equally, and the last one of an epoch may have fewer images than there are devices.

# %% [markdown] tags=["instructor"]
# ## Exercise 1 in class, bytes and memory: 15 minutes
#
# Exercise 1 takes 10. Its trap is `torch.chunk`: five images in four chunks are three
# pieces, not four. Ask for (5, 4) at the board before anybody runs the check.
#
# Then the seven phases run, and the bytes. Let people say what grows with the number of
# replicas before the table is shown. "Device 0" is the word to take home.
#
# When late: show the table of bytes only.

# %% [markdown]
# ## Exercise 1: scatter and gather
#
# `scatter(batch, parts)`: `batch` is a tuple of tensors with equally many rows, such as
# images and labels. Return a list of exactly `parts` tuples, each with a part of every
# tensor. Rows stay in order, and sizes differ by one at most.
#
# `gather(outputs)`: from a list of tensors, one for each part, return one tensor with
# all rows in order. A backward from the result brings each output its own gradient.
#
# *By hand first:* how many rows has each part if 5 rows are dealt to 4 parts?
#
# <!-- exercise: 09-scatter -->
# <details><summary>Hint 1: a question</summary>
#
# Torch has three functions that cut a tensor: `split`, `chunk` and `tensor_split`. How
# many pieces does each return when 5 rows are to become 4 pieces?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Cut each tensor of the batch into a list of pieces, then take the first piece of every
# tensor, the second of every tensor, and so on. `zip` does that.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# `zip(*(tensor.tensor_split(parts) for tensor in batch))` gives the tuples. Torch's
# concatenation keeps the gradients' way back, as long as nothing is detached.
# </details>


# %% exercise="09-scatter"
def scatter(batch: tuple, parts: int) -> list[tuple]:
    """The batch in so many parts, in order, whose sizes differ by one at most."""
    ### BEGIN SOLUTION
    pieces = [tensor.tensor_split(parts) for tensor in batch]
    return list(zip(*pieces, strict=True))
    ### END SOLUTION


def gather(outputs: list[torch.Tensor]) -> torch.Tensor:
    """All rows of all outputs, in order."""
    ### BEGIN SOLUTION
    return torch.cat(outputs)
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("09-scatter", scatter, gather)

# %% [markdown] tags=["why"]
# <!-- why: 09-scatter -->
# Why it works: `tensor_split` always returns as many pieces as you ask for, the larger
# ones first, and they are views. By hand: 2, 1, 1, 1. `chunk` would round the size up
# to 2 and return three pieces: one device would get no call at all. `torch.cat`
# remembers where each row came from, so autograd can bring each row's gradient back.

# %% [markdown]
# ## All seven
#
# Below, `send_weights` overwrites the weights of all replicas but the first. `self.run`
# calls a function once for each replica, each in a thread of its own.

# %%
from sidebyside import show

show(ThreadedReplicas.step)
show(ThreadedReplicas.reduce)

# %% [markdown]
# `slopes` are the gradients of the loss with respect to the outputs. `loss.backward()`
# stops there, and each replica's thread goes on from its own part. `reduce` adds
# without dividing, because the loss is a mean over *all* outputs already.

# %%
together = ThreadedReplicas(make_digit_model().to(places[0]), places)
history = [parameters_of(together.replicas[0])]
for x, y in batches:
    together.step(x, y)
    history.append(parameters_of(together.replicas[0]))
print(
    "within 1e-6 after every step:",
    bool((torch.stack(history) - alone).abs().max() <= 1e-6),
)

# %% [markdown]
# **Two replicas in threads train as one model does, to within 10⁻⁶ after every step.**

# %% [markdown]
# ## What goes through device 0
#
# The class counts every byte to or from device 0, here in a step of two replicas. By
# what factor do those of weights and gradients grow with eight?

# %%
print({what: count // len(batches) for what, count in together.traffic.items()})
guess("09-device-0", None, "8 replicas, not 2: by what factor do the bytes grow?", "×")


# %%
def bytes_through_device_0(replicas: int) -> int:
    many = ThreadedReplicas(make_digit_model(), [torch.device("cpu")] * replicas)
    many.step(*batches[0])
    return many.traffic["weights"] + many.traffic["gradients"]


passing = {n: bytes_through_device_0(n) for n in (2, 4, 8)}
reveal("09-device-0", passing[8] / passing[2], computed=True)

# %% [markdown]
# **In our class device 0 sends weights to N − 1 others and receives N − 1 gradients.**
#
# In an **all-reduce** every worker gives its gradients and gets the sum. Lesson 10b
# builds one in which each worker sends $2(N - 1)/N$ times its gradients, and receives
# as much.
#
# Memory is lopsided, too. Below is what each device holds at the end of a backward,
# computed, in bytes, without what autograd keeps.

# %%
weights = sum(p.nbytes for p in together.replicas[0].parameters())
print("replicas  through device 0  through each worker of an all-reduce")
for n, count in passing.items():
    print(f"{n:8}  {count:16,}  {2 * 2 * (n - 1) * weights // n:36,}")

x, y = batches[0]
pixels, scores = x[0].nbytes, 4 * 10  # bytes for each image
for name, rows in ("device 0", len(x)), ("device 1", len(x) // 2):
    held = {"weights": weights, "gradients": weights, "images": rows * pixels}
    print(name, held | {"outputs": rows * scores, "slopes": rows * scores})

# %% [markdown]
# **Device 0 holds the whole batch and all outputs; each other device only its own
# part.** Device 0 alone holds the optimiser's numbers, such as momentum. So it is
# the first to run out of memory.

# %% [markdown] tags=["instructor"]
# ## Processes instead of threads: 15 minutes
#
# Put the list of seven phases next to the code of `step_in_rank` and cross out what is
# gone: replicate, gather, and device 0. Ask why nobody has to send weights. (All start
# equal, get equal gradients and do the same arithmetic.)
#
# When late: skip dropout and batch norm, say them in one sentence.

# %% [markdown]
# ## The same with processes
#
# Now each replica lives in a process of its own, a rank. It cuts out its part of the
# batch, and only gradients travel: laid end to end in one message, summed over the
# ranks by `dist.all_reduce` of `torch.distributed`, and laid back.

# %%
from parallel_by_hand.data_parallel.data_parallel_processes import (
    step_in_rank,
    sum_gradients_over_ranks,
)

show(step_in_rank)
show(sum_gradients_over_ranks)

# %% [markdown]
# There is no gather and no device 0. Each rank sees the loss of its own part only. So
# it divides the sum of its losses by the size of the *whole* batch: then the sum over
# the ranks is lesson 8's mean over all images.
#
# The replicas stay equal: they start from the same seed, get the same sum, bit for bit,
# and do the same arithmetic with it.

# %%
from sidebyside import device, run_ranks


def train_replica(batches: list) -> tuple[torch.Tensor, int]:
    """Runs in each rank: all parameters after each step, and the bytes of a message."""
    model = make_digit_model().to(device())
    sgd, history = torch.optim.SGD(model.parameters(), lr=0.1), [parameters_of(model)]
    for x, y in batches:
        size = step_in_rank(model, sgd, x.to(device()), y.to(device()))
        history.append(parameters_of(model))
    return torch.stack(history), size


(first, message), (second, _) = run_ranks(train_replica, batches)
print("replicas equal, bit for bit:", torch.equal(first, second))
print("within 1e-6 of one process:", bool((first - alone).abs().max() <= 1e-6))
print("bytes in a message:", message)

# %% [markdown]
# **Two replicas in processes are equal bit for bit after every step, and within 10⁻⁶ of
# one process.**

# %% [markdown]
# ## When threads lose
#
# Threads share the GIL of lesson 3. Torch's operations release it, and the Python code
# between two operations needs it back. A thread that has to wait for the GIL is put to
# sleep and woken, which costs some microseconds of CPU time.
#
# The next cell counts the calls of a forward in two networks, and times one call. Then
# it asks about the deep one:

# %%
from time import perf_counter

from lessons.props.data_parallel_by_hand import IMAGES, make_deep, make_wide

for make in make_wide, make_deep:
    layers, matrices = list(make()), [p for p in make().parameters() if p.dim() == 2]
    work = sum(IMAGES[make] // 2 * matrix.numel() for matrix in matrices)
    each = work // len(layers) // 1000
    print(f"{make.__name__}: {len(layers)} calls of {each:,} thousand multiplications")
    network, x = make(), torch.rand(IMAGES[make] // 2, 64)
    network(x)  # the first call is slower
    start = perf_counter()
    network(x)
    print(f"  time of a call: {1e6 * (perf_counter() - start) / len(layers):.0f} µs")
question = "Deep: CPU time of forward in two threads, divided by one by one?"
guess("09-threads", None, question, "×")

# %%
from lessons.props.data_parallel_by_hand import step_three_ways
from sidebyside import draw_timelines

deep = step_three_ways(make_deep)
two, one = (deep[way].cpu("forward") for way in ("threads", "one by one"))
reveal("09-threads", two / one)
draw_timelines(deep, cpu=True)

# %% [markdown]
# This is the deep network, the fastest of 24 steps each way; the solid part of a bar is
# time on a core. At many of the 201 calls one thread hands the GIL to the other.
# Backward of torch's own layers runs in C++ and, where it calls no Python, needs no
# GIL.

# %% [markdown]
# The wide network's threads spend their time in products that have released the GIL, so
# with two free cores the forwards lie side by side.

# %%
wide = step_three_ways(make_wide)
two, one = (wide[way].cpu("forward") for way in ("threads", "one by one"))
print(f"CPU time of forward in two threads: {two / one:.1f} × that of one by one")
draw_timelines(wide, cpu=True)

# %% [markdown]
# So threads can gain and lose. PyTorch's documentation recommends processes.

# %% [markdown]
# ## What does not match
#
# We put a layer between the two linear ones and take one step, alone and in ranks, from
# the same seed. One rank is the control.

# %%
import copy

from parallel_by_hand.data_parallel.data_parallel_threads import largest_difference


def layers_that_match(batch: tuple) -> dict[str, bool]:
    """Runs in each rank: with which layers is its step the step of one process?"""
    x, y = (tensor.to(device()) for tensor in batch)
    found = {}
    for layer in nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(64):
        one = make_digit_model().insert(1, layer).to(device())
        replica = copy.deepcopy(one)
        torch.manual_seed(1)
        F.cross_entropy(one(x), y).backward()
        torch.optim.SGD(one.parameters(), lr=0.1).step()
        torch.manual_seed(1)
        step_in_rank(replica, torch.optim.SGD(replica.parameters(), lr=0.1), x, y)
        found[type(layer).__name__] = largest_difference(one, replica) <= 1e-6
    return found


# %%
for ranks in 1, 2:
    print(ranks, run_ranks(layers_that_match, batches[0], world_size=ranks)[0])

# %% [markdown]
# **With dropout or batch norm two ranks do not take the step of one process**, and one
# rank does. Dropout draws a mask: two ranks with equal seeds draw equal masks for their
# halves. Batch norm takes its means from the images that it sees, and each replica sees
# half of them. Such trainings are fine, but compare step by step without these layers.

# %% [markdown] tags=["instructor"]
# ## The bug museum: 30 minutes
#
# Two people per screen. They read the meter first and say which of four families it is:
# replicas apart from the start, apart later, together with a wrong step, or a wrong
# report. Only then do they read the program.
#
# The check passes with A to D; it tries E, F and G where they are there. When late: A
# and B in class.

# %% [markdown]
# ## The bug museum, first room
#
# Seven small programs, A to G, finish without an error; each has one planted mistake. A
# has its replicas in one process; the others run in every rank. At the start and after
# each step `yield` shows the model to a meter, which compares two ranks with one
# process.

# %% [markdown]
# Start with the meter's readings, below each program: *are the replicas equal? From
# when on? How long is the first step, as a vector?* "0.500 of its way off" means: where
# one process moves its weights by a distance of 10, these end 5 from them.

# %%
from parallel_by_hand.data_parallel.museum_meter import show_exhibits

show_exhibits("AB")

# %% [markdown]
# `LR` is the learning rate, and `my_share` a slice: every second image for each of two
# ranks.

# %%
show_exhibits("CDE")

# %% [markdown]
# D's batches have 32 images for each rank but the last, which has 9: 41 for two ranks.
# F is a test. In G, `clip_grad_norm_` shortens the gradient to `LONGEST` if it is
# longer.

# %%
show_exhibits("FG")

# %% [markdown]
# ## Exercise 2: repair the exhibits
#
# Say what should stand in the wrong lines of A to D. E, F and G are for those who have
# time. `repairs` has a dictionary for each letter:
#
# ```python
# repairs = {"A": {3: "the new line 3"}, "B": {...}, ...}
# ```
#
# A new text gets its line's indentation. It may contain `\n`; `""` leaves the line out.
# Change three lines at most, and no `yield` of a model.
#
# A repaired program takes the step of one process, for any number of ranks. G clips the
# batch's gradient to `LONGEST`; F yields the accuracy on all images.
#
# *By hand first:* in which two exhibits does the step grow with the number of ranks?
#
# <!-- exercise: 09-museum -->
# <details><summary>Hint 1: a question</summary>
#
# For each exhibit: which of the seven phases is missing, in the wrong place, or done with
# the wrong numbers? For A count the models in memory, for C look at the start, for E and
# G at the order of the lines.
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# A: `model.to` makes no second model. B: a sum is not a mean. C: which rank has which
# seed? D: lesson 8's weights. E: what does the update use? F: whose images are counted?
# G: of which gradient is the length the same on all ranks?
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# A 3: a new model for each. B 9: also divide by the world size. C 3: one seed for all.
# D 8: multiply the loss by this rank's share of the batch, times `ranks`. E: the update
# belongs in front of `sgd.zero_grad()`. F 6, 7: all-reduce `right`, divide by all
# images. G: line 8 belongs in front of `sgd.step()`.
# </details>

# %% exercise="09-museum"
repairs = ...  # {"A": {line: "new text"}, "B": ...}
### BEGIN SOLUTION
repairs = {
    "A": {3: "models = [make_model() for _ in range(replicas)]"},
    "B": {
        9: "dist.all_reduce(parameter.grad)\nparameter.grad /= dist.get_world_size()"
    },
    "C": {3: "model = make_model(seed=0)"},
    "D": {
        8: "loss = cross_entropy(model(x[mine]), y[mine]) * len(y[mine]) / len(y)",
        12: "",
    },
    "E": {8: "", 12: "sgd.step()\nsgd.zero_grad()"},
    "F": {7: "dist.all_reduce(right)\nyield right.item() / len(y)"},
    "G": {
        8: "",
        12: "nn.utils.clip_grad_norm_(model.parameters(), LONGEST)\nsgd.step()",
    },
}
### END SOLUTION

# %%
check("09-museum", repairs)

# %% [markdown] tags=["why"]
# <!-- why: 09-museum -->
# Why it works. A: two models, two `.grad`. B: all-reduce sums, one process takes a
# mean. C: equal steps from different places stay apart; one seed for all makes one
# place. D: sums divided by all images can be added up. E: the update used the rank's
# own gradient, so every replica went its own way. F: right answers of all ranks,
# divided by all images. G: ranks clip to the same length what points elsewhere; the
# length that counts is that of the batch's gradient. By hand: A and B.

# %% [markdown]
# ## The library's call
#
# In torch phases 1 to 4 are one call, `nn.DataParallel(model)(x)`; loss, backward and
# update remain yours. Without GPUs it calls the model itself.
#
# | design | PyTorch | TensorFlow | JAX |
# |---|---|---|---|
# | one process drives all devices | `nn.DataParallel` | `tf.distribute.MirroredStrategy` | one program, arrays sharded over devices |
# | one process for each device or machine | `DistributedDataParallel` | `MultiWorkerMirroredStrategy` | `jax.distributed.initialize`, then the same |

# %% [markdown]
# ## A script of your own
#
# This is a whole data-parallel training without this course's instruments, started by
# `torchrun`, torch's launcher, from `init_process_group`, where the ranks meet, to
# `destroy_process_group`. Rank 0 saves the model.
#
# ```
# torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/data_parallel/own_data_parallel.py --save model.pt
# ```
#
# All ranks are here, so `--local-addr` saves torchrun a look-up of this machine's name,
# which may have no address. torchrun's port is open on all network interfaces: 11a says
# how to restrict that.

# %%
from demos.data_parallel.own_data_parallel import train
from sidebyside import run_demo

show(train)
run_demo("data_parallel/own_data_parallel.py")

# %% [markdown]
# Without `torchrun`, as here, it is a group of one rank; two ranks print the same loss.
# `data_parallel/data_parallel_threads.py`, `data_parallel/data_parallel_processes.py`
# and `data_parallel/bug_museum.py` show the rest of this lesson in a terminal.

# %% [markdown]
# ## The scorecard
#
# | N replicas, P bytes of parameters | threads, device 0 | processes, all-reduce |
# |---|---|---|
# | equal to one process ¹ | after each step, to 10⁻⁶ | after each step, to 10⁻⁶; replicas bit for bit |
# | bytes sent per step | device 0: (N − 1) P of weights, also images and slopes; each other: P of gradients, and outputs | each rank: 2 (N − 1)/N · P |
# | memory | device 0: P parameters, P gradients, all of the optimiser, the whole batch; others: 2 P and their part | each rank: P parameters, P gradients, P for the message, its own optimiser; here also the whole batch |
# | activations | each: of its part | each: of its part |
# | idle share | all but device 0, while it copies weights, adds up and updates | the time of the all-reduce |
# | if one dies | a thread's error is raised by the step; if the process dies, all replicas are gone | the others get an error or wait; the training stops |
#
# ¹ Without batch norm or dropout, and with a loss that is a mean over samples.

# %% [markdown]
# ## What we saw
#
# * A data-parallel step has seven phases. With a process for each replica, two are
#   gone: replicate and gather.
# * Threads lose where Python is busy.
# * Seven mistakes raise no error. Whether the replicas agree, and how long the first
#   step is, tell most of them apart.

# %% [markdown]
# ## Next
#
# Everything now depends on `dist.all_reduce`. How can all ranks get the sum without one
# device through which everything goes? Lesson 10a opens the box.
