# ---
# title: 08 SGD and its parallelism
# question: Every step of training needs the step before. What is left to do side by side?
# needs: one CPU core, no GPU
# minutes: 100
# ---

# %% [markdown]
# # 8. SGD and where its parallelism is
#
# In lesson 7 any worker could take any task. In training, each step starts from the
# weights that the previous step left: a second worker cannot begin with step 2 while
# the first one is busy with step 1. What can be shared is *one step*. How is it cut
# into parts, is anything lost, and how many parts are worth having?
#
# *You will be able to* combine gradients of shares of any size, train with batches that
# do not fit into memory, and measure how many workers your training can use.
#
# *Before this:* lesson 7. *Time:* {reading} minutes to read, 55 for three exercises, 10 for a
# fourth, which is optional. *Needs:* one CPU core, no GPU. With a GPU the same cells use
# it.

# %% [markdown] tags=["instructor"]
# ## The loop, and how many images it takes: 8 minutes
#
# Draw the chain of steps on the board: w0, g0, w1, g1, w2. Ask where a second person
# could help. Most say "take every second step". Let them find out what g1 needs. What
# remains is the sum inside one g.
#
# When late: run the first cell, show the two panels.

# %% [markdown]
# ## The loop
#
# The images are 1,415 handwritten digits, 8 × 8 pixels. The network has one
# hidden layer and 1,210 parameters. The *loss* is the mean, over all images, of how
# surprised the network is by the right answer.

# %%
import torch

from parallel_by_hand.sgd.digits_network import digits_here, digits_network

torch.set_num_threads(1)  # one core: so that nothing here runs in parallel unasked
images, labels = digits_here("train")
model = digits_network()

# %%
from torch.nn import functional as F

sgd = torch.optim.SGD(model.parameters(), lr=0.5)
for update in range(201):
    loss = F.cross_entropy(model(images), labels)
    if update % 50 == 0:
        print(f"update {update:3}  loss {loss.item():.3f}")
    sgd.zero_grad()
    loss.backward()
    sgd.step()

# %% [markdown]
# `backward` computes the **gradient** of the **loss**: for each parameter, how fast the
# loss grows with it. `step` moves every parameter against its gradient; the **learning
# rate**, here 0.5, sets how far.
#
# **Each update needs the weights of the update before.** But inside one update, the
# loss is a mean over 1,415 images, and here no image needs any other. Lesson 9 comes to
# layers that look at the whole batch.

# %% [markdown]
# ## How many images for one update?
#
# All of them are the *full batch*. A **mini-batch** is some images, drawn at random.
# Its gradient is only an estimate, and training with it is called *stochastic gradient
# descent*, **SGD**. One pass through all images is an *epoch*.
#
# Three trainings each see every image twice, at the same learning rate.

# %%
from parallel_by_hand.sgd.batch_size import loss_along_updates

runs = {
    batch: loss_along_updates(digits_network(), batch, epochs=2, rate=0.1)
    for batch in (1, 16, 1415)
}
for batch, points in runs.items():
    print(f"batch {batch:4}  updates {points[-1][0]:4}  loss {points[-1][2]:.1f}")

# %% [markdown]
# Each run has seen the same images, but small batches make more updates. Batches of 16
# stay behind single images at the same learning rate, having taken a sixteenth of the
# steps; with ten times the rate they reach 0.3, too.

# %%
from sidebyside import COLOURS, figure

fig, axes = figure(1, 2, sharey=True, alt="loss against updates and against seconds")
for (batch, points), colour in zip(runs.items(), COLOURS, strict=False):
    for ax, measured in zip(axes, list(zip(*points, strict=True))[:2], strict=True):
        losses = [loss for _, _, loss in points]
        ax.semilogx(measured, losses, color=colour, marker=".")
        place = measured[-1], losses[-1] + (0.25 if batch == 1415 else -0.4)
        ax.text(*place, f"batch {batch}", color=colour, ha="center")
axes[0].set(xlabel="updates", ylabel="loss", ylim=(-0.3, 3), xmargin=0.15)
axes[1].set(xlabel="seconds", xmargin=0.15)
fig

# %% [markdown]
# Against *updates*, batches of 16 are ahead of single images: their steps are better.
# Against *seconds* they are ahead by nearly as much, since an update takes hardly
# longer.

# %% [markdown] tags=["instructor"]
# ## What a batch costs: 4 minutes
#
# Ask for the two parts of the bill before the guess: what is kept for every image, and
# what is kept once. The guess is then a subtraction and a multiplication.
#
# When late: the guess only, no figure.

# %% [markdown]
# ## What a batch costs
#
# For `backward`, autograd keeps what it will need again: inputs, outputs of layers,
# some weights. The list below is for a batch of one and of two images.

# %%
from parallel_by_hand.sgd.batch_size import kept_for_backward
from sidebyside import guess, show

show(kept_for_backward)
print([kept_for_backward(digits_network(), images[:b], labels[:b]) for b in (1, 2)])
guess("08-bytes", None, "How many bytes are kept for a batch of 1,000?", "bytes")

# %%
from parallel_by_hand.sgd.batch_size import samples_per_second
from sidebyside import reveal

sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
kept = [kept_for_backward(digits_network(), images[:b], labels[:b]) for b in sizes]
reveal("08-bytes", kept[-1], computed=True)
fig, axes = figure(1, 2, height=2.6, alt="bytes and throughput against batch size")
axes[0].plot(sizes, [bytes / 1000 for bytes in kept], "o-", color=COLOURS[0])
axes[0].set(xlabel="batch", ylabel="kept (KB)")
wide = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 10)
).to(images.device)
for units, network, colour in (16, model, COLOURS[1]), (256, wide, COLOURS[0]):
    speeds = [samples_per_second(network, b) for b in sizes]
    axes[1].loglog(sizes, speeds, "o-", color=colour)
    axes[1].text(1000, speeds[-1] / 3, f"{units} units", color=colour, ha="right")
axes[1].set(xlabel="batch", ylabel="samples/s")
fig

# %% [markdown]
# **What autograd keeps is a straight line: 368 bytes for each image and 644 once**,
# nearly all of these for the weights of the second layer. Throughput rises with the
# batch, since every update has a cost of its own, until the images are most of the
# work: early for 256 hidden units, late or not at all for 16. From there on, a larger
# batch brings one device no more speed.

# %% [markdown] tags=["instructor"]
# ## Shards: 6 minutes
#
# Four numbers on the board, 1 2 3 10. The mean of all; the mean of the two halves'
# means; then cut them 3 and 1. Nobody needs a formula afterwards.
#
# When late: the 64-bit line can go.

# %% [markdown]
# ## The gradient of a batch, from its shards
#
# Cut a batch of 64 images into four *shards* of 16. Each has a mean loss of its own, and
# a gradient of that. Is the mean of the four gradients the gradient of the whole batch?

# %%
from parallel_by_hand.sgd.digits_network import flat_gradient
from parallel_by_hand.sgd.gradient_shards import cut_into_shards


def off_by(sizes: list[int], number: torch.dtype) -> float:
    """How far the mean of the shards' gradients is from the batch's."""
    model, pixels = digits_network().to(number), images.to(number)
    shards = cut_into_shards(pixels, labels, sizes)
    gradients = torch.stack([flat_gradient(model, *shard) for shard in shards])
    batch = flat_gradient(model, pixels[: sum(sizes)], labels[: sum(sizes)])
    return (gradients.mean(0) - batch).abs().max().item()


print("32 bit, within 1e-6: ", off_by([16, 16, 16, 16], torch.float32) <= 1e-6)
print("64 bit, within 1e-13:", off_by([16, 16, 16, 16], torch.float64) <= 1e-13)

# %% [markdown]
# In a network without batch norm or dropout, and with a loss that is a mean over
# samples, **the mean of equal shards' gradients is the gradient of the batch**, up to
# rounding. The gradient of a sum is the sum of the gradients. *That is where the
# parallelism of training is.* Now shards of 48 and 16:

# %%
print(f"off by {off_by([48, 16], torch.float64):.3f}, also in 64 bit")

# %% [markdown]
# **For unequal shards the mean of the means is another gradient.** An image in the
# shard of 16 weighs three times as much in it as one in the shard of 48. No error is
# raised. It happens with the last batch of an epoch, which is rarely full.

# %% [markdown]
# ## Exercise 1: shards of any size
#
# Write `batch_gradient(gradients, sizes)`. Shard `i` has `sizes[i]` images, and
# `gradients[i]` is the gradient of their *mean* loss: a list of tensors, one for each
# parameter. Return the gradient of the mean loss of all images, in the same form; leave
# what you are given as it is.
#
# By hand first: one parameter; 3 images with the gradient 2, and 1 image with the
# gradient 10. What is the gradient of the four?
# <!-- exercise: 08-shards -->
#
# <details><summary>Hint 1: a question</summary>
#
# If the mean of three numbers is 2, what is their sum? What else do you need for the
# mean of all four?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Multiply each shard's gradient by its size, add up, and divide once by the number of
# all images.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `zip(*gradients)` gives, for each parameter, the tensors of all shards. For each of
# these: `sum(size * g for ...) / sum(sizes)`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 1: 10 minutes
#
# The check says when the answer is the plain mean. Ask then how much one image of the
# small shard weighs.


# %% exercise="08-shards"
def batch_gradient(gradients: list, sizes: list[int]) -> list[torch.Tensor]:
    """The gradient of all images' mean loss, one tensor for each parameter."""
    ### BEGIN SOLUTION
    images = sum(sizes)
    return [
        sum(n / images * part for n, part in zip(sizes, parts, strict=True))
        for parts in zip(*gradients, strict=True)
    ]
    ### END SOLUTION


# %%
from sidebyside import check, forget, hint, progress, solution

check("08-shards", batch_gradient)

# %% [markdown] tags=["why"]
# <!-- why: 08-shards -->
# Why it works: size times mean is the sum over the shard's images. Sums may be added in
# any grouping, and one division at the end makes the mean. Weighting by n / images does
# both at once. By hand: $(3 \cdot 2 + 1 \cdot 10) / 4 = 4$, where the mean of the means
# would be 6. A shard without images does no harm here: **the mean loss of no images is
# NaN, and torch makes every gradient of it 0.** Only the mean of the *losses* becomes
# NaN.

# %% [markdown] tags=["instructor"]
# ## Space or time: 4 minutes
#
# Let the class say what the two pictures have in common before you do: the same shards,
# the same additions. Only the axis differs.
#
# When late: show the picture, go on to the exercise.

# %% [markdown]
# ## In space or in time
#
# Four workers can compute the four shards side by side. One worker can compute them in
# turn and add up. Here the device is simulated: it sleeps 5 ms for each image. The
# gradients are real.

# %%
from parallel_by_hand.sgd.gradient_shards import gradients_in_space, gradients_in_time
from sidebyside import Timeline, draw_timelines

shards = cut_into_shards(images, labels, [16, 16, 16, 16])
with Timeline() as space:
    side_by_side = gradients_in_space(digits_network(), shards)
with Timeline() as time:
    in_turn = gradients_in_time(digits_network(), shards)
print(all(torch.equal(a, b) for a, b in zip(side_by_side, in_turn, strict=True)))
draw_timelines({"in space": space, "in time": time}, stamp="simulated")

# %% [markdown]
# The same four gradients, bit for bit. Side by side they need four devices; in turn,
# four times the time, and one device with memory for 16 images.
#
# The second way is **gradient accumulation**, and each part is a **micro-batch**. In
# torch, `backward` *adds* to `.grad`. That is why the loop calls `zero_grad`.

# %% [markdown]
# ## Exercise 2: more images than fit
#
# Write `accumulate(model, images, labels, limit)`. The device has memory for `limit`
# images, and for what autograd keeps of them: let the images go through `model` in
# several passes, each image once. The number of images is a multiple of `limit`.
#
# Afterwards each `.grad` is the gradient of the mean cross-entropy of *all* images.
# Return that mean.
#
# By hand first: four images with the losses 1, 2, 3, 10 and a limit of 2. What does
# each pass add to the mean?
# <!-- exercise: 08-accumulate -->
#
# <details><summary>Hint 1: a question</summary>
#
# How many images does the mean speak of, and how many of them does one pass see?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# `F.cross_entropy(..., reduction="sum")`, divided by the number of *all* images, makes
# each pass a part of the one mean. Call `backward` in every pass.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# `model.zero_grad()`. Then for each pair from `images.split(limit)` and
# `labels.split(limit)`: compute the part, `part.backward()`, and add `part.item()` to
# the total.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 2: 15 minutes
#
# The most common wrong answer forgets to divide: every pass adds its own mean. The
# second adds up the losses and goes back once: right numbers, and the memory of the
# whole batch. Ask both what the picture says.


# %% exercise="08-accumulate"
def accumulate(model, images: torch.Tensor, labels: torch.Tensor, limit: int) -> float:
    """Leave the whole batch's gradient in `.grad`; return its mean loss."""
    ### BEGIN SOLUTION
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        part = F.cross_entropy(model(x), y, reduction="sum") / len(images)
        part.backward()
        total += part.item()
    return total
    ### END SOLUTION


# %%
check("08-accumulate", accumulate)

# %% [markdown] tags=["why"]
# <!-- why: 08-accumulate -->
# Why it works: each pass contributes its share of one mean, already divided by the
# right number, and `.grad` adds the shares. `backward` lets go of what autograd kept,
# so that two passes are never in memory together. By hand: 3 / 4 from the first pass
# and 13 / 4 from the second make 4.

# %% [markdown] tags=["instructor"]
# ## Noise: 8 minutes
#
# The guess works best after a reminder of lesson 5: four times as many points, half the
# error of pi. It is the same law. For the noise scale draw two arrows: the true
# gradient, and the cloud of mini-batch gradients around its tip. Ask when a larger batch
# is wasted.
#
# When late: skip the fit.

# %% [markdown]
# ## How noisy is a small batch?
#
# How large a batch is worth having? Every batch estimates the gradient of all images.
# `gradient_spread` draws 200 batches, in which an image may come twice, and says how
# far their gradients typically are from it. In lesson 5, how did the error of pi shrink?

# %%
from parallel_by_hand.sgd.gradient_noise import gradient_spread

print(f"batch 1: {gradient_spread(digits_network(), 1):.1f}")
guess("08-spread", None, "And the spread of batches of 64?", "")

# %%
import numpy as np

sizes = [1, 4, 16, 64, 256]
spreads = [gradient_spread(digits_network(), batch) for batch in sizes]
reveal("08-spread", round(spreads[3], 2), computed=True)
slope, height = np.polyfit(np.log(sizes), np.log(spreads), 1)
fig, ax = figure(height=2.4, alt="spread of the gradient against batch size, a line")
ax.loglog(sizes, spreads, "o", color=COLOURS[1])
ax.loglog(sizes, np.exp(height) * np.array(sizes) ** slope, color="black")
ax.set(xlabel="batch B", ylabel="spread")
ax.set_yticks([0.25, 0.5, 1, 2], [0.25, 0.5, 1, 2])
ax.minorticks_off()
print(f"spread = {np.exp(height):.1f} * B ** {slope:.2f}")
fig

# %% [markdown]
# **The spread falls as $1/\sqrt{B}$.** Four times the batch, half the noise. That helps
# while the noise drowns the gradient of all images, $G$. Once $G$ stands clearly out of
# it, more images hardly change the step.
#
# How large is the noise? Take one parameter and two images whose gradients are 4 and
# −2. Then $G$ is 1, and a single image is off by 3, up or down.
#
# | batch | possible gradients, equally often | mean of their squares |
# |---|---|---|
# | 1 image | 4, −2 | (16 + 4) / 2 = 10 = 1 + 9 |
# | 2 images | 4, 1, 1, −2 | (16 + 1 + 1 + 4) / 4 = 5.5 = 1 + 9/2 |
#
# Each mean is $G^2$ = 1 plus the square of the noise: 9 for one image, half of that for
# two. In a batch of 9 images, noise and $G$ are equally large: 9 is the **noise
# scale**.

# %% [markdown]
# With many parameters, squares are added up over all of them. The square of one image's
# noise is then $\operatorname{tr}(\Sigma)$, the sum of the variances or *trace* of
# their covariance matrix. For the gradient $g_B$ of $B$ images, on average
#
# $$|g_B|^2 = |G|^2 + \frac{\operatorname{tr}(\Sigma)}{B}, \qquad
# B_\text{noise} = \frac{\operatorname{tr}(\Sigma)}{|G|^2}.$$
#
# This is the *simple* noise scale of McCandlish et al. 2018. In a large training, $G$
# from all images costs too much. But $|g_B|^2$ at *two* batch sizes makes two equations
# for two unknowns, and a step has two sizes already: the shard and the batch.

# %% [markdown]
# ## Exercise 3: measure the noise scale
#
# Write `noise_scale(steps, each)`, which returns $\operatorname{tr}(\Sigma)/|G|^2$.
# `steps` has one tensor for each step of a training, with one row for each shard: its
# gradient as one vector, the mean over `each` images. The rows of a step are its batch.
#
# A single step is noisy: average $|g|^2$ over all shards of *all* steps, and over the
# batches of all steps; divide only at the end.
#
# By hand first: one step, one parameter, `each` = 1, two shards with the gradients 3
# and 1. Which two equations follow?
# <!-- exercise: 08-noise-scale -->
#
# <details><summary>Hint 1: a question</summary>
#
# The batch's gradient is the mean of the rows. Which comes first, the mean or the
# square?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Call s the mean $|g|^2$ of shards, which have b images, and S that of batches, which
# have B. Subtract: s − S = tr(Σ) · (1/b − 1/B). Then put tr(Σ) into one of them.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# For each step, `rows.square().sum(1).mean()` and `rows.mean(0).square().sum()`; take
# the means s and S over the steps. `trace = (s - S) / (1 / each - 1 / batch)`, and |G|²
# is `S - trace / batch`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 3: 20 minutes
#
# By hand: 5 and 4, so tr = 2 and |G|² = 3. Most people take |G|² = 4: the batch's own noise is
# still in it. Ask what the 4 would be if the true gradient were 0.


# %% exercise="08-noise-scale"
def noise_scale(steps: list[torch.Tensor], each: int) -> float:
    """tr(Σ) / |G|² from the shards' gradients, a row for each shard, step by step."""
    ### BEGIN SOLUTION
    batch = each * len(steps[0])
    shard_square = sum(rows.square().sum(1).mean().item() for rows in steps)
    batch_square = sum(rows.mean(0).square().sum().item() for rows in steps)
    shard_square, batch_square = shard_square / len(steps), batch_square / len(steps)
    trace = (shard_square - batch_square) / (1 / each - 1 / batch)
    return trace / (batch_square - trace / batch)
    ### END SOLUTION


# %%
check("08-noise-scale", noise_scale)

# %% [markdown] tags=["why"]
# <!-- why: 08-noise-scale -->
# Why it works: averaging n independent estimates leaves the true gradient as it is and
# divides the noise by n. The shard and the batch differ in the noise alone, and the
# difference says how large that is. Without its own noise, the batch's mean $|g|^2$ is
# |G|². By hand: 5 = |G|² + tr and 4 = |G|² + tr/2, so tr = 2, |G|² = 3, and the noise
# scale is 2/3. Dividing in each step would average ratios whose denominator may come
# near 0.

# %% [markdown] tags=["instructor"]
# ## The test: 6 minutes
#
# Say what is tuned and why before you run it: with one rate for all sizes, the knee
# would be that of the rate. Point at the band: it is wide. A factor of a few is what the
# paper promises, and what we get.
#
# When late: run it during the break.

# %% [markdown]
# ## Does it predict anything?
#
# First the estimate, from trainings with 8 shards of 8 images until the loss is 0.4.
# There are two learning rates, with three starts each.

# %%
from parallel_by_hand.sgd.gradient_noise import (
    noise_scale_from_two_sizes,
    squared_norms_in_training,
)

estimates = []
for rate, seed in [(rate, seed) for rate in (0.5, 1.0) for seed in range(3)]:
    of_shards, of_batches = squared_norms_in_training(rate, 0.4, seed)
    estimates.append(noise_scale_from_two_sizes(8, of_shards, 64, of_batches))
print("rate 0.5:", *(f"{e:.0f}" for e in estimates[:3]))
print("rate 1.0:", *(f"{e:.0f}" for e in estimates[3:]))

# %% [markdown]
# The noise scale depends on the path: here it is between 10 and 70, and larger at the
# smaller rate.
#
# How many updates does it take to reach that loss? **For each batch size the learning
# rate is tuned**: of seven rates from 1/16 to 4, with three random starts each, the
# fastest counts. The *knee* is here the batch that needs twice the fewest updates.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.sgd.gradient_noise import fewest_updates, fit_knee

tuned = fewest_updates(0.4, sizes=(1, 4, 16, 64, 1415))
for batch, (count, rate) in tuned.items():
    print(f"batch {batch:4}  best rate {rate:5}  updates {count:3.0f}")
updates = {batch: count for batch, (count, _) in tuned.items()}
fewest, at = fit_knee(updates)
fig, ax = figure(height=2.8, alt="updates against batch size, knee and estimate")
ax.loglog(list(updates), list(updates.values()), "o", color=COLOURS[1], ms=8)
every = np.geomspace(1, 1415)
ax.loglog(every, fewest * (1 + at / every), color="black")
ax.axvline(at, color="black", ls=":")
ax.text(at * 0.9, 400, f"knee: {at:.0f}", ha="right")
ax.axvspan(min(estimates), max(estimates), color=COLOURS[0], alpha=0.2)
ax.text(max(estimates) * 1.1, 400, "noise scale, estimated", color=COLOURS[0])
ax.set(xlabel="batch B", ylabel="updates to loss 0.4")
ax.set_yticks([30, 60, 125, 250, 500], [30, 60, 125, 250, 500])
ax.minorticks_off()
fig

# %% [markdown]
# The black line is McCandlish's form, fitted: $U \cdot (1 + B_\text{knee}/B)$, with $U$
# the fewest updates. **At these two rates, knee and noise scale agree within a factor
# of five.** The knee took more than a hundred trainings, the noise scale six.
#
# How many workers are worth having, if each computes efficiently with $b$ images? The
# batch of $R = B_\text{noise}/b$ workers is the noise scale:
#
# | workers | R / 2 | R | 2 R | 4 R |
# |---|---|---|---|---|
# | updates | 3 U | 2 U | 1.5 U | 1.25 U |
#
# From R on, twice the workers save a quarter, then a sixth. With 8 images each, our R
# is two to seven.

# %% [markdown] tags=["instructor"]
# ## Large batches: 5 minutes
#
# The intervals matter more than the means: ask which rows are really different.
#
# When late: quote Goyal's numbers only.

# %% [markdown]
# ## The learning rate of a large batch
#
# From batch 1 to 4 the best rate above grew fourfold, after that by less than the
# batch. **Linear scaling** is the rule of Goyal et al. 2017: $k$ times the batch, $k$
# times the rate. Below the noise scale, one large step replaces $k$ small ones. Early
# in training, so large a step may be unstable: **warm-up** begins with the small rate
# and raises it over the first epochs.
#
# We train ten epochs from twelve starts, with batch 8 and with 128, above our noise
# scale.

# %% tags=["nbval-ignore-output"]
from parallel_by_hand.sgd.large_batch import (
    errors_after_epochs,
    large_batch_rates,
    mean_and_interval,
)

print("wrong in % of the held-out images: mean and interval")
print(f"{'':<22} {'base rate 0.10':>14} {'base rate 0.15':>14}")
runs = {}
for name in large_batch_rates(0.1):
    batch = large_batch_rates(0.1)[name][0]
    rates = [large_batch_rates(base)[name][1] for base in (0.1, 0.15)]
    runs[name] = errors_after_epochs(batch, rates, seeds=12)
    print(f"{name:<22}", end="")
    for errors in runs[name]:
        mean, half = mean_and_interval(errors)
        print(f"{mean:>9.1f} ± {half:.1f}", end="")
    print()

# %%
alt = "the percentage wrong of each run, for four ways to train at two base rates"
fig, axes = figure(1, 2, height=2.2, sharey=True, alt=alt)
for column, (ax, base) in enumerate(zip(axes, (0.1, 0.15), strict=True)):
    for place, errors in enumerate(runs.values()):
        ax.plot(errors[column], [place] * 12, "o", color=COLOURS[place], alpha=0.5)
    ax.set(xlabel=f"wrong (%), base rate {base}")
axes[0].set_yticks(range(len(runs)), runs)
axes[0].invert_yaxis()
fig

# %% [markdown]
# The table shows means with 95 % intervals, the figure a dot for each run. Unscaled,
# the large batch is left behind: it makes a sixteenth of the updates. Scaled with
# warm-up it comes close to the small batch.
#
# Goyal et al. trained ResNet-50 on ImageNet with batches of 8,192: 24.84 % wrong
# without warm-up, 23.74 % with it, 23.60 % with a small batch. At base rate 0.15 our
# toy has that order: without warm-up some runs fail. At 0.1 the scaled rate is stable
# from the start, and warm-up brings nothing.
#
# All this is SGD. Adam and AdamW divide a step by the size of recent gradients, and
# there the usual rule is $\sqrt k$ (Malladi et al. 2022). Lesson 11c says why.

# %% [markdown]
# ## What a script forgot
#
# A training makes `updates` updates, counted from 0. Its rate is `base`, and from
# update `drop` on a tenth of that. A script is to repeat it with `k` times the batch,
# linear scaling and a warm-up. It lists the rate of each update:


# %%
def rates_of_the_script(base, k, updates, warm_up, drop) -> list[float]:
    """With k times the batch, 'as Goyal et al. do it'."""
    rates = []
    for update in range(updates):
        if update < warm_up:
            rates.append(base + (k - 1) * base * update / warm_up)
        elif update < drop:
            rates.append(k * base)
        else:
            rates.append(k * base / 10)
    return rates


print("k = 1:", rates_of_the_script(0.5, 1, updates=8, warm_up=4, drop=6))
print("k = 2:", rates_of_the_script(0.5, 2, updates=8, warm_up=4, drop=6))

# %% [markdown]
# For `k` = 1 the list is right. What did the script forget for `k` = 2?

# %% [markdown]
# ## Exercise 4: repair it (optional)
#
# Write `scaled_rates(base, k, updates, warm_up, drop)`: the list of the large run's
# rates. `updates`, `warm_up` and `drop` count updates of the *small* run, all multiples
# of `k`.
#
# The large run uses as many images. Its rate rises on a straight line from `base` to
# `k` × `base`, which it reaches when it has used as many images as the small run before
# update `warm_up`. When it has used as many as the small run before `drop`, the rate
# falls to a tenth.
#
# By hand first: the four rates that the last call above should return.
# <!-- exercise: 08-scaling -->
#
# <details><summary>Hint 1: a question</summary>
#
# The small run used 8 batches. How many of these does the script use with `k` = 2, whose
# batches are twice as large? And how many has it used when its warm-up ends?
#
# </details>
#
# <details><summary>Hint 2: an idea</summary>
#
# Before its update i, the large run has used i · k batches of the small run. Compare
# *this* number with `warm_up` and `drop`.
#
# </details>
#
# <details><summary>Hint 3: almost the code</summary>
#
# The script with two changes: fewer updates, and in all three comparisons `used`, the
# batches of the small run, instead of `update`.
#
# </details>

# %% [markdown] tags=["instructor"]
# ## Exercise 4, optional: 10 minutes
#
# The length is the easy half. To those who repair nothing else, give 960 updates, `k` =
# 16 and a drop at 576: 60 updates are left, and no update has the number 576.


# %% exercise="08-scaling"
def scaled_rates(base, k: int, updates: int, warm_up: int, drop: int) -> list[float]:
    """The learning rate of each update with k times the batch."""
    ### BEGIN SOLUTION
    found = []
    for update in range(updates // k):
        used = update * k  # batches of the small run
        if used < warm_up:
            found.append(base + (k - 1) * base * used / warm_up)
        elif used < drop:
            found.append(k * base)
        else:
            found.append(k * base / 10)
    return found
    ### END SOLUTION


# %%
check("08-scaling", scaled_rates)

# %% [markdown] tags=["why"]
# <!-- why: 08-scaling -->
# Why it works: the script compared its own updates with numbers that count updates of
# the small run. So it used `k` times the images, and warmed up and dropped `k` times
# too late. Goyal et al. count in epochs, and so in images: 90 epochs, a warm-up over
# the first 5, drops after 30, 60 and 80, whatever the batch. By hand: before the four
# updates, 0, 2, 4 and 6 small batches have been used, so the rates are 0.5, 0.75, 1.0
# and 0.1.

# %% [markdown] tags=["instructor"]
# ## Averaging models: 4 minutes
#
# Ask for the number of messages first. Then: why should the average of two good networks
# be a good network? Two maps of a city, one turned by 90°, each right; lay one over the
# other.
#
# When late: leave it as reading.

# %% [markdown]
# ## One message instead of hundreds?
#
# *ParallelSGD*, by Zinkevich et al. 2010, sends one message in all: each worker trains
# alone on its own share of the images, and in the end the *models* are averaged. We try
# four workers and 200 steps on three problems. The first has no hidden layer; its loss
# is *convex*: every local minimum is the lowest.

# %%
from parallel_by_hand.sgd import parallel_sgd
from parallel_by_hand.sgd.digits_network import digits_softmax

batches = parallel_sgd.worker_batches(workers=4, steps=200)
problems = {
    "convex": (digits_softmax, [digits_softmax() for _ in range(4)]),
    "network, one start": (digits_network, [digits_network() for _ in range(4)]),
    "network, own starts": (digits_network, [digits_network(w) for w in range(4)]),
}
print(f"{'held-out loss':<20}  best alone  worst alone  1 average  200 averages")
for name, (make, models) in problems.items():
    once = parallel_sgd.average_models_once(models, batches, make)
    each = parallel_sgd.average_gradients_each_step(make(), batches)
    alone = [parallel_sgd.held_out(model)[0] for model in models]
    average, shared = (parallel_sgd.held_out(model)[0] for model in (once, each))
    print(f"{name:<20} {min(alone):>11.2f} {max(alone):>12.2f}", end="")
    print(f"{average:>11.2f} {shared:>13.2f}")

# %% [markdown]
# **On the convex problem one message does nearly as well as 200**, and better than any
# worker alone. For networks from one start, the average is here worse than the best of
# them. **The average of networks that started differently is here worse than any of
# them.** Why?

# %%
trained = models[0]
other = parallel_sgd.in_another_order(trained)
average = parallel_sgd.mean_of_models([trained, other], digits_network)
print("same answers:", torch.allclose(trained(images), other(images), atol=1e-4))
losses = [parallel_sgd.held_out(m)[0] for m in (trained, other, average)]
print("held-out losses: {:.2f}, {:.2f}, average {:.2f}".format(*losses))

# %% [markdown]
# `other` is the same network with its hidden units in another order. It gives the same
# answers, yet the average is far worse: it mixes units that do different jobs. Networks
# that start apart have no order in common. So we share gradients, at every step.

# %% [markdown]
# ## In torch and elsewhere
#
# | here | PyTorch | elsewhere |
# |---|---|---|
# | accumulation | `backward` adds to `.grad` | Transformers: `gradient_accumulation_steps`; Lightning: `accumulate_grad_batches`; JAX: `optax.MultiSteps` |
# | warm-up | `torch.optim.lr_scheduler.LinearLR` | JAX: `optax.linear_schedule` |
#
# ## The scorecard
#
# P is the bytes of a model's parameters, and of its gradients.
#
# | | accumulation, 1 worker | gradients each step, N workers | models averaged once |
# |---|---|---|---|
# | equal to one process | to rounding ¹ | to rounding ¹ | no |
# | bytes each worker has to share | 0 | P in each step | P in all |
# | memory of each worker | 2 P, one micro-batch | 2 P, one shard | 2 P, its own batch |
# | idle | never | until the slowest is done | at the end |
# | if one worker dies | all stops | all stops | its share is missing |
#
# ¹ Without batch norm or dropout, and with a loss that is a mean over samples, which a
# contrastive loss is not.

# %% [markdown]
# ## What we saw
#
# * The images of one update can be shared; unequal shards need weights.
# * The noise scale tells roughly how many workers are worth having.
# * A larger batch needs a larger learning rate; near the largest stable one, a warm-up.
#   Warm-up and decay count images.
#
# ## Next
#
# After each step, the models of all workers must be equal again. Lesson 9 builds that
# by hand.
