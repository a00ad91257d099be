"""Answers to the exercises of lesson 08 that people give; most are not right."""

import numpy as np
import torch
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong

# 08-shards


@wrong(
    "08-shards",
    advice="mean of the means",
    note="The bug of the lesson. Ask what one image of the small shard weighs.",
)
def mean_of_the_means(gradients, sizes):
    filled = [parts for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    return [sum(parts) / len(parts) for parts in zip(*filled, strict=True)]


@wrong(
    "08-shards", advice="0 times NaN", note="Zero weights do not help: 0 · NaN is NaN."
)
def multiplies_the_empty_shard_too(gradients, sizes):
    return [
        sum(n * part for n, part in zip(sizes, parts, strict=True)) / sum(sizes)
        for parts in zip(*gradients, strict=True)
    ]


@wrong("08-shards", advice="who else uses")
def writes_zeros_for_nan(gradients, sizes):
    for part in (part for parts in gradients for part in parts):
        part.nan_to_num_()
    return multiplies_the_empty_shard_too(gradients, sizes)


@wrong("08-shards", advice="the division")
def forgets_to_divide(gradients, sizes):
    filled = [(n, parts) for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    counts = [n for n, _ in filled]
    return [
        sum(n * part for n, part in zip(counts, parts, strict=True))
        for parts in zip(*(parts for _, parts in filled), strict=True)
    ]


@wrong("08-shards", advice="how many images")
def divides_by_the_shards(gradients, sizes):
    return [part / len(sizes) for part in forgets_to_divide(gradients, sizes)]


@wrong("08-shards", advice="a list of 1 tensors")
def returns_one_vector(gradients, sizes):
    return torch.cat([part.flatten() for part in by_stacking(gradients, sizes)])


@wrong("08-shards", advice="the shapes given")
def returns_flat_parts(gradients, sizes):
    return [part.flatten() for part in by_stacking(gradients, sizes)]


@wrong("08-shards", advice="who else uses")
def scales_in_place(gradients, sizes):
    for n, parts in zip(sizes, gradients, strict=True):
        for part in parts:
            part.mul_(n / sum(sizes))
    filled = [parts for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    return [sum(parts) for parts in zip(*filled, strict=True)]


@wrong("08-shards", advice="mean of the means|another one is not")
def weighs_the_first_parameter_only(gradients, sizes):
    return by_stacking(gradients, sizes)[:1] + mean_of_the_means(gradients, sizes)[1:]


@wrong("08-shards", advice="kind of number")
def loses_the_64_bits(gradients, sizes):
    return [part.float() for part in by_stacking(gradients, sizes)]


@wrong("08-shards", advice="how many images")
def weights_turned_round(gradients, sizes):
    return by_stacking(gradients, [n and sum(sizes) - n for n in sizes])


@right("08-shards")
def by_stacking(gradients, sizes):
    weights = torch.tensor([float(n) for n in sizes], dtype=torch.float64)
    combined = []
    for parts in zip(*gradients, strict=True):
        stacked = torch.stack(parts).nan_to_num()
        kind = stacked.dtype
        share = (weights / weights.sum()).to(kind)
        combined.append(torch.tensordot(share, stacked, dims=1))
    return combined


@right("08-shards")
def running_mean(gradients, sizes):
    """Counts so far; each shard moves the mean by its share. A tuple."""
    seen, mean = 0, None
    for n, parts in zip(sizes, gradients, strict=True):
        if not n:
            continue
        seen = seen + n
        if mean is None:
            mean = [part.clone() for part in parts]
        else:
            mean = [m + (p - m) * (n / seen) for m, p in zip(mean, parts, strict=True)]
    return tuple(mean)


# 08-accumulate


@wrong(
    "08-accumulate",
    advice="the last may be smaller",
    note="In most scripts. Right while the limit divides the batch.",
)
def divides_by_the_passes(model, images, labels, limit):
    model.zero_grad()
    parts = list(zip(images.split(limit), labels.split(limit), strict=True))
    total = 0.0
    for x, y in parts:
        loss = F.cross_entropy(model(x), y) / len(parts)
        loss.backward()
        total += loss.item()
    return total


@wrong("08-accumulate", advice="who divides by their number|smaller")
def never_divides(model, images, labels, limit):
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item() * len(y)
    return total / len(labels)


@wrong("08-accumulate", advice="sum over all images")
def sums_without_dividing(model, images, labels, limit):
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        total += loss.item()
    return total / len(labels)


@wrong(
    "08-accumulate",
    advice="lets go of what a pass has kept",
    note="Right gradients, and the memory of the whole batch.",
)
def goes_back_once(model, images, labels, limit):
    model.zero_grad()
    total = 0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        total = total + F.cross_entropy(model(x), y, reduction="sum") / len(labels)
    total.backward()
    return total.item()


@wrong("08-accumulate", advice="who still needs it")
def goes_back_and_retains(model, images, labels, limit):
    """All numbers are right; a pass is kept until `loss` gets its next value."""
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


@wrong("08-accumulate", advice="adds to it")
def keeps_the_old_gradient(model, images, labels, limit):
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


@wrong("08-accumulate", advice="smaller|number")
def clears_in_every_pass(model, images, labels, limit):
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


@wrong("08-accumulate", advice="left over")
def drops_the_last_images(model, images, labels, limit):
    whole = max(1, len(labels) // limit) * limit
    return in_a_while_loop(model, images[:whole], labels[:whole], limit)


@wrong("08-accumulate", advice="what is `limit` for")
def all_at_once(model, images, labels, limit):
    return in_a_while_loop(model, images, labels, len(labels))


@wrong("08-accumulate", advice="as few passes")
def one_by_one(model, images, labels, limit):
    return in_a_while_loop(model, images, labels, 1)


@wrong("08-accumulate", advice="limit|few passes")
def equal_passes_by_chunk(model, images, labels, limit):
    """`chunk` takes the number of passes, and makes one too large or too many."""
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.chunk(limit), labels.chunk(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


@wrong("08-accumulate", advice="who takes the step")
def takes_the_step_too(model, images, labels, limit):
    loss = in_a_while_loop(model, images, labels, limit)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return loss


@wrong("08-accumulate", advice="the mean over all")
def returns_the_last_loss(model, images, labels, limit):
    in_a_while_loop(model, images, labels, limit)
    with torch.no_grad():
        return F.cross_entropy(model.inner(images[-1:]), labels[-1:]).item()


@wrong("08-accumulate", advice="frozen parameters")
def thaws_what_is_frozen(model, images, labels, limit):
    model.requires_grad_(True)
    return in_a_while_loop(model, images, labels, limit)


@wrong("08-accumulate", advice="to be returned: a number")
def returns_nothing(model, images, labels, limit):
    in_a_while_loop(model, images, labels, limit)


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
def in_a_vector_of_one(model, images, labels, limit):
    return torch.as_tensor(in_a_while_loop(model, images, labels, limit)).reshape(1)


@right("08-accumulate")
def with_autograd_grad(model, images, labels, limit):
    """Adds up gradients of its own, and writes them at the end; equal passes."""
    trained = [p for p in model.parameters() if p.requires_grad]
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


@right("08-accumulate")
def with_torch_func(model, images, labels, limit):
    """The functional gradient, a dictionary, weighed and added up."""
    trained = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}

    def loss_of(weights, x, y):
        return F.cross_entropy(functional_call(model, weights, (x,)), y)

    sums, total = dict.fromkeys(trained, 0.0), 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        gradients, loss = grad_and_value(loss_of)(trained, x, y)
        for name, gradient in gradients.items():
            sums[name] = sums[name] + gradient * (len(y) / len(labels))
        total += loss.item() * len(y) / len(labels)
    for name, gradient in sums.items():
        model.get_parameter(name).grad = gradient
    return total


# 08-noise-scale


def _squares(steps):
    shard = sum(rows.square().sum(1).mean().item() for rows in steps) / len(steps)
    batch = sum(rows.mean(0).square().sum().item() for rows in steps) / len(steps)
    return shard, batch


@wrong(
    "08-noise-scale",
    advice="still in S",
    note="S is not |G|²; it has the batch's own noise in it.",
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


@wrong("08-noise-scale", advice="all steps")
def last_step_only(steps, each):
    return in_64_bit(steps[-1:], each)


@wrong("08-noise-scale", advice="all steps")
def first_step_only(steps, each):
    return in_64_bit(steps[:1], each)


@wrong("08-noise-scale", advice="above the line")
def upside_down(steps, each):
    return 1 / in_64_bit(steps, each)


@wrong("08-noise-scale", advice="each row is a mean")
def forgets_each(steps, each):
    return in_64_bit(steps, 1)


@wrong("08-noise-scale", advice="the second unknown")
def trace_alone(steps, each):
    shard, batch = _squares(steps)
    return (shard - batch) / (1 / each - 1 / (each * len(steps[0])))


@wrong("08-noise-scale", advice="one step's shards")
def all_steps_as_one_batch(steps, each):
    return in_64_bit([torch.cat(steps)], each)


@wrong("08-noise-scale", advice="two equations")
def squares_of_the_mean_shard(steps, each):
    """|mean| of the rows' lengths, squared: not the mean of squares."""
    shard = sum(rows.norm(dim=1).mean().item() ** 2 for rows in steps) / len(steps)
    batch = _squares(steps)[1]
    size = each * len(steps[0])
    trace = (shard - batch) / (1 / each - 1 / size)
    return trace / (batch - trace / size)


@wrong(
    "08-noise-scale",
    advice="how many images do all shards",
    note="B counts images. With 8 shards of 8 this divides by 0.",
)
def batch_is_the_number_of_shards(steps, each):
    shard, batch = _squares(steps)
    size = len(steps[0])
    trace = (shard - batch) / (1 / each - 1 / size) if size != each else 0.0
    return trace / (batch - trace / size)


@wrong("08-noise-scale", advice="returned as it is")
def no_estimate_below_zero(steps, each):
    return max(0.0, in_64_bit(steps, each))


@wrong("08-noise-scale", advice="who else uses|each row")
def changes_the_steps(steps, each):
    for rows in steps:
        rows.mul_(each)
    return in_64_bit(steps, each) / 1


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


# 08-scaling


@wrong(
    "08-scaling",
    advice="how many images are used",
    note="The script as it was: k times the images.",
)
def counts_in_its_own_updates(base, k, updates, warm_up, drop):
    """The script, as it was."""
    line = [base + (k - 1) * base * i / warm_up for i in range(warm_up)]
    return line + [k * base] * (drop - warm_up) + [k * base / 10] * (updates - drop)


@wrong(
    "08-scaling",
    advice="whose updates `warm_up` counts",
    note="The warm-up now fills the run, and the drop never comes.",
)
def repairs_the_length_only(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[: updates // k]


@wrong("08-scaling", advice="whose updates `drop` counts")
def warms_up_where_it_drops(base, k, updates, warm_up, drop):
    """The end of the warm-up still counts as warm-up, also where the drop is."""
    rates = []
    for used in range(0, updates - k + 1, k):
        if warm_up and used <= warm_up:
            rates.append(base + (k - 1) * base * used / warm_up)
        else:
            rates.append(k * base if used < drop else k * base / 10)
    return rates


@wrong("08-scaling", advice="how exact a rate")
def rounds_to_eight_places(base, k, updates, warm_up, drop):
    rates = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [round(rate, 8) for rate in rates]


@wrong("08-scaling", advice="whose updates `drop` counts")
def drops_too_late(base, k, updates, warm_up, drop):
    with_drop = every_kth_of_the_script(base, k, updates, warm_up, drop)
    without = every_kth_of_the_script(base, k, updates, warm_up, updates)
    return without[:drop] + with_drop[drop:]


@wrong("08-scaling", advice="whose updates `warm_up`")
def warms_up_too_long(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, 0, drop)
    line = [base + (k - 1) * base * i / warm_up for i in range(warm_up)]
    return line[: len(found)] + found[len(line) :]


@wrong("08-scaling", advice="fill a batch")
def keeps_the_unfilled_batch(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[::k]


@wrong("08-scaling", advice="how many times the rate")
def warms_up_to_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base if i * k >= warm_up else rate for i, rate in enumerate(found)]


@wrong("08-scaling", advice="where a warm-up begins")
def starts_at_the_scaled_rate(base, k, updates, warm_up, drop):
    return every_kth_of_the_script(base, k, updates, 0, drop)


@wrong("08-scaling", advice="where a warm-up begins")
def warms_up_from_zero(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [min(r, k * base * i * k / (warm_up or 1)) for i, r in enumerate(found)]


@wrong(
    "08-scaling",
    advice="the straight line",
    note="Rounded to whole updates: too steep if k does not divide warm_up.",
)
def divides_the_warm_up_first(base, k, updates, warm_up, drop):
    """Whole updates of the large run: the line is too steep if k does not divide."""
    short, late, found = warm_up // k, -(-drop // k), []
    for i in range(updates // k):
        rate = k * base if i >= short else base + (k - 1) * base * i / short
        found.append(rate / 10 if i >= late else rate)
    return found


@wrong("08-scaling", advice="no warm-up")
def needs_a_warm_up(base, k, updates, warm_up, drop):
    found = []
    for used in range(0, updates // k * k, k):
        rate = base + (k - 1) * base * min(1, used / warm_up)
        found.append(rate / 10 if used >= drop else rate)
    return found


@wrong("08-scaling", advice="a tenth of which")
def drops_below_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base / 10 if i * k >= drop else rate for i, rate in enumerate(found)]


@wrong("08-scaling", advice="one rate for each")
def returns_the_last_rate(base, k, updates, warm_up, drop):
    return every_kth_of_the_script(base, k, updates, warm_up, drop)[-1]


@right("08-scaling")
def every_kth_of_the_script(base, k, updates, warm_up, drop):
    """The script's own list: every k-th of its rates, as far as batches are full."""
    script = counts_in_its_own_updates(base, k, updates, warm_up, drop)
    return script[: updates // k * k : k]


@right("08-scaling")
def as_an_array(base, k, updates, warm_up, drop):
    used = k * np.arange(updates // k)
    rates = base * np.interp(used, [0, warm_up], [1, k]) if warm_up else base * k
    return rates * np.where(used >= drop, 0.1, 1.0)
