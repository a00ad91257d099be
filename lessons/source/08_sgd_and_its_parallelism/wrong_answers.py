"""Answers to the exercises of lesson 08 that people give; most are not right."""

import numpy as np
import torch
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F

from lessons.source.sample_answers import Right, Wrong

# 08-shards


def mean_of_the_means(gradients, sizes):
    filled = [parts for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    return [sum(parts) / len(parts) for parts in zip(*filled, strict=True)]


def multiplies_the_empty_shard_too(gradients, sizes):
    return [
        sum(n * part for n, part in zip(sizes, parts, strict=True)) / sum(sizes)
        for parts in zip(*gradients, strict=True)
    ]


def writes_zeros_for_nan(gradients, sizes):
    for part in (part for parts in gradients for part in parts):
        part.nan_to_num_()
    return multiplies_the_empty_shard_too(gradients, sizes)


def forgets_to_divide(gradients, sizes):
    filled = [(n, parts) for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    counts = [n for n, _ in filled]
    return [
        sum(n * part for n, part in zip(counts, parts, strict=True))
        for parts in zip(*(parts for _, parts in filled), strict=True)
    ]


def divides_by_the_shards(gradients, sizes):
    return [part / len(sizes) for part in forgets_to_divide(gradients, sizes)]


def returns_one_vector(gradients, sizes):
    return torch.cat([part.flatten() for part in by_stacking(gradients, sizes)])


def returns_flat_parts(gradients, sizes):
    return [part.flatten() for part in by_stacking(gradients, sizes)]


def scales_in_place(gradients, sizes):
    for n, parts in zip(sizes, gradients, strict=True):
        for part in parts:
            part.mul_(n / sum(sizes))
    filled = [parts for n, parts in zip(sizes, gradients, strict=True) if n > 0]
    return [sum(parts) for parts in zip(*filled, strict=True)]


def weighs_the_first_parameter_only(gradients, sizes):
    return by_stacking(gradients, sizes)[:1] + mean_of_the_means(gradients, sizes)[1:]


def loses_the_64_bits(gradients, sizes):
    return [part.float() for part in by_stacking(gradients, sizes)]


def weights_turned_round(gradients, sizes):
    return by_stacking(gradients, [n and sum(sizes) - n for n in sizes])


def by_stacking(gradients, sizes):
    weights = torch.tensor([float(n) for n in sizes], dtype=torch.float64)
    combined = []
    for parts in zip(*gradients, strict=True):
        stacked = torch.stack(parts).nan_to_num()
        kind = stacked.dtype
        share = (weights / weights.sum()).to(kind)
        combined.append(torch.tensordot(share, stacked, dims=1))
    return combined


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


def divides_by_the_passes(model, images, labels, limit):
    model.zero_grad()
    parts = list(zip(images.split(limit), labels.split(limit), strict=True))
    total = 0.0
    for x, y in parts:
        loss = F.cross_entropy(model(x), y) / len(parts)
        loss.backward()
        total += loss.item()
    return total


def never_divides(model, images, labels, limit):
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.item() * len(y)
    return total / len(labels)


def sums_without_dividing(model, images, labels, limit):
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        total += loss.item()
    return total / len(labels)


def goes_back_once(model, images, labels, limit):
    model.zero_grad()
    total = 0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        total = total + F.cross_entropy(model(x), y, reduction="sum") / len(labels)
    total.backward()
    return total.item()


def goes_back_and_retains(model, images, labels, limit):
    """All numbers are right; a pass is kept until `loss` gets its next value."""
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


def keeps_the_old_gradient(model, images, labels, limit):
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


def clears_in_every_pass(model, images, labels, limit):
    total = 0.0
    for x, y in zip(images.split(limit), labels.split(limit), strict=True):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


def drops_the_last_images(model, images, labels, limit):
    whole = max(1, len(labels) // limit) * limit
    return in_a_while_loop(model, images[:whole], labels[:whole], limit)


def all_at_once(model, images, labels, limit):
    return in_a_while_loop(model, images, labels, len(labels))


def one_by_one(model, images, labels, limit):
    return in_a_while_loop(model, images, labels, 1)


def equal_passes_by_chunk(model, images, labels, limit):
    """`chunk` takes the number of passes, and makes one too large or too many."""
    model.zero_grad()
    total = 0.0
    for x, y in zip(images.chunk(limit), labels.chunk(limit), strict=True):
        loss = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
        loss.backward()
        total += loss.item()
    return total


def takes_the_step_too(model, images, labels, limit):
    loss = in_a_while_loop(model, images, labels, limit)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return loss


def returns_the_last_loss(model, images, labels, limit):
    in_a_while_loop(model, images, labels, limit)
    with torch.no_grad():
        return F.cross_entropy(model.inner(images[-1:]), labels[-1:]).item()


def thaws_what_is_frozen(model, images, labels, limit):
    model.requires_grad_(True)
    return in_a_while_loop(model, images, labels, limit)


def returns_nothing(model, images, labels, limit):
    in_a_while_loop(model, images, labels, limit)


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


def in_a_vector_of_one(model, images, labels, limit):
    return torch.as_tensor(in_a_while_loop(model, images, labels, limit)).reshape(1)


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


def leaves_the_batchs_noise(steps, each):
    shard, batch = _squares(steps)
    size = each * len(steps[0])
    return (shard - batch) / (1 / each - 1 / size) / batch


def mean_of_the_ratios(steps, each):
    return sum(in_64_bit([rows], each) for rows in steps) / len(steps)


def last_step_only(steps, each):
    return in_64_bit(steps[-1:], each)


def first_step_only(steps, each):
    return in_64_bit(steps[:1], each)


def upside_down(steps, each):
    return 1 / in_64_bit(steps, each)


def forgets_each(steps, each):
    return in_64_bit(steps, 1)


def trace_alone(steps, each):
    shard, batch = _squares(steps)
    return (shard - batch) / (1 / each - 1 / (each * len(steps[0])))


def all_steps_as_one_batch(steps, each):
    return in_64_bit([torch.cat(steps)], each)


def squares_of_the_mean_shard(steps, each):
    """|mean| of the rows' lengths, squared: not the mean of squares."""
    shard = sum(rows.norm(dim=1).mean().item() ** 2 for rows in steps) / len(steps)
    batch = _squares(steps)[1]
    size = each * len(steps[0])
    trace = (shard - batch) / (1 / each - 1 / size)
    return trace / (batch - trace / size)


def batch_is_the_number_of_shards(steps, each):
    shard, batch = _squares(steps)
    size = len(steps[0])
    trace = (shard - batch) / (1 / each - 1 / size) if size != each else 0.0
    return trace / (batch - trace / size)


def no_estimate_below_zero(steps, each):
    return max(0.0, in_64_bit(steps, each))


def changes_the_steps(steps, each):
    for rows in steps:
        rows.mul_(each)
    return in_64_bit(steps, each) / 1


def in_64_bit(steps, each):
    """Solves the two equations as a linear system."""
    rows = torch.stack(steps).double()
    small, large = each, each * rows.shape[1]
    squares = [rows.square().sum(2).mean(), rows.mean(1).square().sum(1).mean()]
    system = np.array([[1, 1 / small], [1, 1 / large]])
    square, trace = np.linalg.solve(system, np.array([float(s) for s in squares]))
    return trace / square


def from_the_variance_of_shards(steps, each):
    """The unbiased variance over the rows of a step, times each; a tensor."""
    trace = each * torch.stack([rows.var(0).sum() for rows in steps]).mean()
    batch = torch.stack([rows.mean(0).square().sum() for rows in steps]).mean()
    return trace / (batch - trace / (each * len(steps[0])))


# 08-scaling


def counts_in_its_own_updates(base, k, updates, warm_up, drop):
    """The script, as it was."""
    line = [base + (k - 1) * base * i / warm_up for i in range(warm_up)]
    return line + [k * base] * (drop - warm_up) + [k * base / 10] * (updates - drop)


def repairs_the_length_only(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[: updates // k]


def warms_up_where_it_drops(base, k, updates, warm_up, drop):
    """The end of the warm-up still counts as warm-up, also where the drop is."""
    rates = []
    for used in range(0, updates - k + 1, k):
        if warm_up and used <= warm_up:
            rates.append(base + (k - 1) * base * used / warm_up)
        else:
            rates.append(k * base if used < drop else k * base / 10)
    return rates


def rounds_to_eight_places(base, k, updates, warm_up, drop):
    rates = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [round(rate, 8) for rate in rates]


def drops_too_late(base, k, updates, warm_up, drop):
    with_drop = every_kth_of_the_script(base, k, updates, warm_up, drop)
    without = every_kth_of_the_script(base, k, updates, warm_up, updates)
    return without[:drop] + with_drop[drop:]


def warms_up_too_long(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, 0, drop)
    line = [base + (k - 1) * base * i / warm_up for i in range(warm_up)]
    return line[: len(found)] + found[len(line) :]


def keeps_the_unfilled_batch(base, k, updates, warm_up, drop):
    return counts_in_its_own_updates(base, k, updates, warm_up, drop)[::k]


def warms_up_to_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base if i * k >= warm_up else rate for i, rate in enumerate(found)]


def starts_at_the_scaled_rate(base, k, updates, warm_up, drop):
    return every_kth_of_the_script(base, k, updates, 0, drop)


def warms_up_from_zero(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [min(r, k * base * i * k / (warm_up or 1)) for i, r in enumerate(found)]


def divides_the_warm_up_first(base, k, updates, warm_up, drop):
    """Whole updates of the large run: the line is too steep if k does not divide."""
    short, late, found = warm_up // k, -(-drop // k), []
    for i in range(updates // k):
        rate = k * base if i >= short else base + (k - 1) * base * i / short
        found.append(rate / 10 if i >= late else rate)
    return found


def needs_a_warm_up(base, k, updates, warm_up, drop):
    found = []
    for used in range(0, updates // k * k, k):
        rate = base + (k - 1) * base * min(1, used / warm_up)
        found.append(rate / 10 if used >= drop else rate)
    return found


def drops_below_the_base_rate(base, k, updates, warm_up, drop):
    found = every_kth_of_the_script(base, k, updates, warm_up, drop)
    return [base / 10 if i * k >= drop else rate for i, rate in enumerate(found)]


def returns_the_last_rate(base, k, updates, warm_up, drop):
    return every_kth_of_the_script(base, k, updates, warm_up, drop)[-1]


def every_kth_of_the_script(base, k, updates, warm_up, drop):
    """The script's own list: every k-th of its rates, as far as batches are full."""
    script = counts_in_its_own_updates(base, k, updates, warm_up, drop)
    return script[: updates // k * k : k]


def as_an_array(base, k, updates, warm_up, drop):
    used = k * np.arange(updates // k)
    rates = base * np.interp(used, [0, warm_up], [1, k]) if warm_up else base * k
    return rates * np.where(used >= drop, 0.1, 1.0)


WRONG = {
    "08-shards": [
        Wrong(
            "mean_of_the_means",
            mean_of_the_means,
            "mean of the means",
            note="The bug of the lesson. Ask what one image of the small shard weighs.",
        ),
        Wrong(
            "multiplies_the_empty_shard_too",
            multiplies_the_empty_shard_too,
            "0 times NaN",
            note="Zero weights do not help: 0 · NaN is NaN.",
        ),
        Wrong("writes_zeros_for_nan", writes_zeros_for_nan, "who else uses"),
        Wrong("forgets_to_divide", forgets_to_divide, "the division"),
        Wrong("divides_by_the_shards", divides_by_the_shards, "how many images"),
        Wrong("returns_one_vector", returns_one_vector, "a list of 1 tensors"),
        Wrong("returns_flat_parts", returns_flat_parts, "the shapes given"),
        Wrong("scales_in_place", scales_in_place, "who else uses"),
        Wrong(
            "weighs_the_first_parameter_only",
            weighs_the_first_parameter_only,
            "mean of the means|another one is not",
        ),
        Wrong("loses_the_64_bits", loses_the_64_bits, "kind of number"),
        Wrong("weights_turned_round", weights_turned_round, "how many images"),
    ],
    "08-accumulate": [
        Wrong(
            "divides_by_the_passes",
            divides_by_the_passes,
            "the last may be smaller",
            note="In most scripts. Right while the limit divides the batch.",
        ),
        Wrong("never_divides", never_divides, "who divides by their number|smaller"),
        Wrong("sums_without_dividing", sums_without_dividing, "sum over all images"),
        Wrong(
            "goes_back_once",
            goes_back_once,
            "lets go of what a pass has kept",
            note="Right gradients, and the memory of the whole batch.",
        ),
        Wrong("goes_back_and_retains", goes_back_and_retains, "who still needs it"),
        Wrong("keeps_the_old_gradient", keeps_the_old_gradient, "adds to it"),
        Wrong("clears_in_every_pass", clears_in_every_pass, "smaller|number"),
        Wrong("drops_the_last_images", drops_the_last_images, "left over"),
        Wrong("all_at_once", all_at_once, "what is `limit` for"),
        Wrong("one_by_one", one_by_one, "as few passes"),
        Wrong("equal_passes_by_chunk", equal_passes_by_chunk, "limit|few passes"),
        Wrong("takes_the_step_too", takes_the_step_too, "who takes the step"),
        Wrong("returns_the_last_loss", returns_the_last_loss, "the mean over all"),
        Wrong("thaws_what_is_frozen", thaws_what_is_frozen, "frozen parameters"),
        Wrong("returns_nothing", returns_nothing, "to be returned: a number"),
    ],
    "08-noise-scale": [
        Wrong(
            "leaves_the_batchs_noise",
            leaves_the_batchs_noise,
            "still in S",
            note="S is not |G|²; it has the batch's own noise in it.",
        ),
        Wrong(
            "mean_of_the_ratios",
            mean_of_the_ratios,
            "divide only at the end",
            note="Each step's ratio is noisy, and large where |G|² comes near 0.",
        ),
        Wrong("last_step_only", last_step_only, "all steps"),
        Wrong("first_step_only", first_step_only, "all steps"),
        Wrong("upside_down", upside_down, "above the line"),
        Wrong("forgets_each", forgets_each, "each row is a mean"),
        Wrong("trace_alone", trace_alone, "the second unknown"),
        Wrong("all_steps_as_one_batch", all_steps_as_one_batch, "one step's shards"),
        Wrong("squares_of_the_mean_shard", squares_of_the_mean_shard, "two equations"),
        Wrong(
            "batch_is_the_number_of_shards",
            batch_is_the_number_of_shards,
            "how many images do all shards",
            note="B counts images. With 8 shards of 8 this divides by 0.",
        ),
        Wrong("no_estimate_below_zero", no_estimate_below_zero, "returned as it is"),
        Wrong("changes_the_steps", changes_the_steps, "who else uses|each row"),
    ],
    "08-scaling": [
        Wrong(
            "counts_in_its_own_updates",
            counts_in_its_own_updates,
            "how many images are used",
            note="The script as it was: k times the images.",
        ),
        Wrong(
            "repairs_the_length_only",
            repairs_the_length_only,
            "whose updates `warm_up` counts",
            note="The warm-up now fills the run, and the drop never comes.",
        ),
        Wrong("drops_too_late", drops_too_late, "whose updates `drop` counts"),
        Wrong(
            "warms_up_where_it_drops",
            warms_up_where_it_drops,
            "whose updates `drop` counts",
        ),
        Wrong("rounds_to_eight_places", rounds_to_eight_places, "how exact a rate"),
        Wrong("warms_up_too_long", warms_up_too_long, "whose updates `warm_up`"),
        Wrong("keeps_the_unfilled_batch", keeps_the_unfilled_batch, "fill a batch"),
        Wrong(
            "warms_up_to_the_base_rate",
            warms_up_to_the_base_rate,
            "how many times the rate",
        ),
        Wrong(
            "starts_at_the_scaled_rate",
            starts_at_the_scaled_rate,
            "where a warm-up begins",
        ),
        Wrong("warms_up_from_zero", warms_up_from_zero, "where a warm-up begins"),
        Wrong(
            "divides_the_warm_up_first",
            divides_the_warm_up_first,
            "the straight line",
            note="Rounded to whole updates: too steep if k does not divide warm_up.",
        ),
        Wrong("needs_a_warm_up", needs_a_warm_up, "no warm-up"),
        Wrong(
            "drops_below_the_base_rate", drops_below_the_base_rate, "a tenth of which"
        ),
        Wrong("returns_the_last_rate", returns_the_last_rate, "one rate for each"),
    ],
}

RIGHT = {
    "08-shards": [
        Right("by_stacking", by_stacking),
        Right("running_mean", running_mean),
    ],
    "08-accumulate": [
        Right("in_a_while_loop", in_a_while_loop),
        Right("in_a_vector_of_one", in_a_vector_of_one),
        Right("with_autograd_grad", with_autograd_grad),
        Right("with_torch_func", with_torch_func),
    ],
    "08-noise-scale": [
        Right("in_64_bit", in_64_bit),
        Right("from_the_variance_of_shards", from_the_variance_of_shards),
    ],
    "08-scaling": [
        Right("every_kth_of_the_script", every_kth_of_the_script),
        Right("as_an_array", as_an_array),
    ],
}
