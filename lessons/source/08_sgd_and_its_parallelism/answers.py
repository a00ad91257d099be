"""Answers to the exercises of lesson 08 that people give; most are not right."""

import numpy as np
import torch
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong

# 08-shards ----------------------------------------------------------------------------


@wrong(
    "08-shards",
    advice="mean of the means",
    note="The bug of the lesson. Ask what one image of the small shard weighs.",
)
def mean_of_the_means(gradients, sizes):
    return [sum(parts) / len(parts) for parts in zip(*gradients, strict=True)]


@wrong(
    "08-shards",
    advice="the division",
    note="The means become sums, and the sums are never divided.",
)
def forgets_to_divide(gradients, sizes):
    return [
        sum(n * part for n, part in zip(sizes, parts, strict=True))
        for parts in zip(*gradients, strict=True)
    ]


@wrong(
    "08-shards",
    advice="how many images",
    note="Weighed by images, and then divided by the number of shards.",
)
def divides_by_the_shards(gradients, sizes):
    return [part / len(sizes) for part in forgets_to_divide(gradients, sizes)]


@wrong(
    "08-shards",
    advice="a list of 1 tensors",
    note="All parameters in one flat vector; a list was asked for.",
)
def returns_one_vector(gradients, sizes):
    return torch.cat([part.flatten() for part in by_stacking(gradients, sizes)])


@wrong(
    "08-shards",
    advice="the shapes given",
    note="Each tensor is flattened on the way and does not get its shape back.",
)
def returns_flat_parts(gradients, sizes):
    return [part.flatten() for part in by_stacking(gradients, sizes)]


@wrong(
    "08-shards",
    advice="who else uses",
    note="mul_ writes into the caller's gradients; the next use finds them changed.",
)
def scales_in_place(gradients, sizes):
    for n, parts in zip(sizes, gradients, strict=True):
        for part in parts:
            part.mul_(n / sum(sizes))
    return [sum(parts) for parts in zip(*gradients, strict=True)]


@right("08-shards")
def by_stacking(gradients, sizes):
    share = torch.tensor(sizes) / sum(sizes)
    stacks = [torch.stack(parts) for parts in zip(*gradients, strict=True)]
    return [torch.tensordot(share, stack, dims=1) for stack in stacks]


@right("08-shards")
def running_mean(gradients, sizes):
    """Counts so far; each shard moves the mean by its share. A tuple."""
    seen, mean = 0, [0 * part for part in gradients[0]]
    for n, parts in zip(sizes, gradients, strict=True):
        seen += n
        mean = [m + (p - m) * (n / seen) for m, p in zip(mean, parts, strict=True)]
    return tuple(mean)


# 08-accumulate ------------------------------------------------------------------------


@wrong(
    "08-accumulate",
    advice="nothing divides by their number",
    note="Each pass adds its own mean: the gradient is as many times too long.",
)
def adds_the_means_of_the_passes(model, images, labels, limit):
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item()
    return total


@wrong(
    "08-accumulate",
    advice="lets go of what a pass has kept",
    note="Right gradients, and the memory of the whole batch.",
)
def goes_back_once(model, images, labels, limit):
    model.zero_grad()
    losses = [
        F.cross_entropy(model(x), y, reduction="sum")
        for x, y in zip(images.split(limit), labels.split(limit), strict=True)
    ]
    loss = sum(losses) / len(labels)
    loss.backward()
    return loss.item()


@wrong(
    "08-accumulate",
    advice="sum over all images",
    note="The sum over all images in place of their mean.",
)
def sums_without_dividing(model, images, labels, limit):
    loss = in_a_while_loop(model, images, labels, limit)
    for parameter in model.parameters():
        parameter.grad *= len(labels)
    return loss


@wrong(
    "08-accumulate",
    advice="adds to it",
    note="backward adds to what `.grad` held before.",
)
def keeps_the_old_gradient(model, images, labels, limit, in_every_pass=False):
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        if in_every_pass:
            model.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


@wrong(
    "08-accumulate",
    advice="passes before the last",
    note="zero_grad stands inside the loop, so only the last pass counts.",
)
def clears_in_every_pass(model, images, labels, limit):
    return keeps_the_old_gradient(model, images, labels, limit, in_every_pass=True)


@wrong(
    "08-accumulate",
    advice="the mean over all",
    note="The variable of the loop still holds the last pass's loss.",
)
def returns_the_last_loss(model, images, labels, limit):
    in_a_while_loop(model, images, labels, limit)
    with torch.no_grad():
        return F.cross_entropy(model.inner(images[-1:]), labels[-1:]).item()


@right("08-accumulate")
def in_a_while_loop(model, images, labels, limit):
    """Counts by hand; returns a tensor."""
    for parameter in model.parameters():
        parameter.grad = None
    start, total = 0, torch.zeros(())
    while start < len(labels):
        x, y = images[start : start + limit], labels[start : start + limit]
        loss = F.cross_entropy(model(x), y) * (len(y) / len(labels))
        loss.backward()
        total = total + loss.detach()
        start += limit
    return total


@right("08-accumulate")
def with_autograd_grad(model, images, labels, limit):
    """Adds up gradients of its own, and writes them at the end; equal passes."""
    trained = list(model.parameters())
    sums, total = [torch.zeros_like(p) for p in trained], 0.0
    passes = -(-len(labels) // limit)
    for x, y in zip(
        images.tensor_split(passes), labels.tensor_split(passes), strict=True
    ):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        for place, gradient in enumerate(torch.autograd.grad(loss, trained)):
            sums[place] += gradient
        total += loss.item()
    for parameter, gradient in zip(trained, sums, strict=True):
        parameter.grad = gradient / len(labels)
    return np.float64(total / len(labels))


# 08-noise-scale -----------------------------------------------------------------------


def _squares(steps):
    shard = sum(rows.square().sum(1).mean().item() for rows in steps) / len(steps)
    batch = sum(rows.mean(0).square().sum().item() for rows in steps) / len(steps)
    return shard, batch


@wrong(
    "08-noise-scale",
    advice="still in it",
    note="The mean |g|² of batches is not |G|²; it has the batch's own noise in it.",
)
def leaves_the_batchs_noise(steps, each):
    shard, batch = _squares(steps)
    size = each * len(steps[0])
    return (shard - batch) / (1 / each - 1 / size) / batch


@wrong(
    "08-noise-scale",
    advice="divide only at the end",
    note="Each step's ratio is noisy, and large where |G|² comes near 0.",
)
def mean_of_the_ratios(steps, each):
    return sum(in_64_bit([rows], each) for rows in steps) / len(steps)


@wrong(
    "08-noise-scale",
    advice="above the line",
    note="The ratio is turned round: signal over noise.",
)
def upside_down(steps, each):
    return 1 / in_64_bit(steps, each)


@wrong(
    "08-noise-scale",
    advice="two equations, here .* for shards",
    note="Each row is taken for the gradient of one image.",
)
def forgets_each(steps, each):
    return in_64_bit(steps, 1)


@wrong(
    "08-noise-scale",
    advice="the second unknown",
    note="tr(Σ) is found and returned; |G|² is still missing.",
)
def trace_alone(steps, each):
    shard, batch = _squares(steps)
    return (shard - batch) / (1 / each - 1 / (each * len(steps[0])))


@wrong(
    "08-noise-scale",
    advice="for batches: are they yours",
    note="The rows of all steps are averaged, as if taken from the same weights.",
)
def all_steps_as_one_batch(steps, each):
    return in_64_bit([torch.cat(steps)], each)


@right("08-noise-scale")
def in_64_bit(steps, each):
    """Solves the two equations as a linear system."""
    rows = torch.stack(steps).double()
    small, large = each, each * rows.shape[1]
    squares = [rows.square().sum(2).mean(), rows.mean(1).square().sum(1).mean()]
    system = np.array([[1, 1 / small], [1, 1 / large]])
    square, trace = np.linalg.solve(system, np.array([float(s) for s in squares]))
    return trace / square


@right("08-noise-scale")
def from_the_variance_of_shards(steps, each):
    """The unbiased variance over the rows of a step, times each; a tensor."""
    trace = each * torch.stack([rows.var(0).sum() for rows in steps]).mean()
    batch = torch.stack([rows.mean(0).square().sum() for rows in steps]).mean()
    return trace / (batch - trace / (each * len(steps[0])))


# 08-scaling ---------------------------------------------------------------------------


@wrong(
    "08-scaling",
    advice="how many images are used",
    note="The script as it was: k times the images.",
)
def counts_in_its_own_updates(base, k, updates, warm_up, drop):
    line = [base + (k - 1) * base * i / warm_up for i in range(warm_up)]
    return line + [k * base] * (drop - warm_up) + [k * base / 10] * (updates - drop)


@wrong(
    "08-scaling",
    advice="whose updates `warm_up` counts",
    note="The warm-up now fills the run, and the drop never comes.",
)
def repairs_the_length_only(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[: updates // k]


@wrong(
    "08-scaling",
    advice="whose updates does `drop` count",
    note="The drop is left at the number of updates of the small run.",
)
def drops_too_late(base, k, updates, warm_up, drop):
    with_drop = every_kth_of_the_script(base, k, updates, warm_up, drop)
    without = every_kth_of_the_script(base, k, updates, warm_up, updates)
    return without[:drop] + with_drop[drop:]


@wrong(
    "08-scaling",
    advice="how many times the rate",
    note="After the warm-up the rate falls back to the small run's.",
)
def warms_up_to_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base if i * k >= warm_up else rate for i, rate in enumerate(found)]


@wrong(
    "08-scaling",
    advice="where a warm-up begins",
    note="The line begins at 0, as in other recipes; here it begins at the base rate.",
)
def warms_up_from_zero(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [min(r, k * base * i * k / warm_up) for i, r in enumerate(found)]


@wrong(
    "08-scaling",
    advice="a tenth of which",
    note="A tenth of the base rate, not of the scaled one.",
)
def drops_below_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base / 10 if i * k >= drop else rate for i, rate in enumerate(found)]


@right("08-scaling")
def every_kth_of_the_script(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[::k]


@right("08-scaling")
def as_an_array(base, k, updates, warm_up, drop):
    used = k * np.arange(updates // k)
    rates = base * np.interp(used, [0, warm_up], [1, k])
    return rates * np.where(used >= drop, 0.1, 1.0)
