"""The checks of lesson 08: shards, accumulation, the noise scale, linear scaling."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

# 08-shards ----------------------------------------------------------------------------

SHARDS = [[3, 1], [4, 4], [5], [1, 2, 3], [7, 0, 2], [0, 6], [9, 1, 1, 1, 4]]
SHARDS += [[0, 0, 3, 8, 0, 1, 2, 5], [100, 1], [2, 2, 2, 1], [61, 1, 1, 1]]


@exercise("08-shards")
def check_08_shards(batch_gradient):
    by_hand = [torch.tensor([2.0])], [torch.tensor([10.0])]
    call = "batch_gradient([[tensor([2.])], [tensor([10.])]], [3, 1])"
    _expect_batch_gradient(
        batch_gradient, call, list(by_hand), [3, 1], [torch.tensor([4.0])]
    )
    for place, sizes in enumerate(SHARDS):
        _try_shards(batch_gradient, sizes, seed=place)


def _try_shards(batch_gradient, sizes: list[int], seed: int) -> None:
    """One sample is one random gradient: the batch's is the mean of all of them."""
    dice = torch.Generator().manual_seed(seed)
    shapes = [(3, 2), (3,), ()]
    samples = [torch.randn(sum(sizes), *shape, generator=dice) for shape in shapes]
    wanted = [all_of_them.mean(0) for all_of_them in samples]
    cuts = [all_of_them.split(sizes) for all_of_them in samples]
    gradients = [[part.mean(0) for part in parts] for parts in zip(*cuts, strict=True)]
    call = f"batch_gradient(gradients, {sizes})"
    _expect_batch_gradient(batch_gradient, call, gradients, sizes, wanted)


def _expect_batch_gradient(batch_gradient, call, gradients, sizes, wanted) -> None:
    think = "what each shard brings: one tensor per parameter"
    with trying(call, gradients, sizes, think=think) as expect:
        got = batch_gradient(gradients, sizes)
        form = f"a list of {len(wanted)} tensors, one for each parameter"
        good = isinstance(got, list | tuple) and len(got) == len(wanted)
        good = good and all(isinstance(part, torch.Tensor) for part in got)
        expect(good, got=got, think=form)
        shapes = [tuple(part.shape) for part in got]
        right = [tuple(part.shape) for part in wanted]
        think = f"the shapes given: {right}"
        expect(shapes == right, got=f"shapes {shapes}", think=think)
        empty = "an empty shard: its gradient is NaN, and what is 0 times NaN?"
        expect(not any(part.isnan().any() for part in got), got="NaN", think=empty)
        for part, want, *shards in zip(got, wanted, *gradients, strict=True):
            _expect_batch_gradient_tensor(expect, part, want, shards, sizes)


def _expect_batch_gradient_tensor(expect, part, want, shards, sizes) -> None:
    think = "for how many images each shard speaks, and by how much to divide"
    filled = [shard for size, shard in zip(sizes, shards, strict=True) if size > 0]
    if torch.allclose(part, sum(filled) / len(filled)):
        think = "this is the mean of the means: a shard of 1 counts like one of 61"
    elif torch.allclose(part, want * sum(sizes), rtol=1e-4):
        think = "the division: this is the gradient of a sum over all images"
    first, should = part.flatten()[0].item(), want.flatten()[0].item()
    expect(
        torch.allclose(part, want, rtol=1e-5, atol=1e-5),
        got=f"{first:.6f} in the first place, where {should:.6f} is right",
        think=think,
    )


# 08-accumulate ------------------------------------------------------------------------

# images, limit
PASSES = [(5, 4), (8, 4), (7, 2), (1, 1), (1, 8), (12, 5), (6, 1), (16, 16), (9, 40)]
PASSES += [(33, 8), (64, 63)]


class AccumulatingNetwork(nn.Module):
    """A network that notes each pass forward, and each backward through it."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner, self.notes = inner, []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.notes.append(("forward", images[:, 0].tolist()))
        output = self.inner(images)
        if output.requires_grad:
            output.register_hook(lambda _: self.notes.append(("backward", [])))
        return output


def accumulating_network(frozen: bool, stale: bool) -> AccumulatingNetwork:
    torch.manual_seed(8)
    inner = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    for parameter in inner[0].parameters():
        parameter.requires_grad_(not frozen)
    for parameter in inner.parameters():
        if stale and parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, 100.0)
    return AccumulatingNetwork(inner)


@exercise("08-accumulate")
def check_08_accumulate(accumulate):
    for place, (images, limit) in enumerate(PASSES):
        frozen, stale = place % 3 == 2, place % 3 != 0
        _try_accumulate(accumulate, images, limit, frozen, stale)


def _try_accumulate(accumulate, count, limit, frozen, stale) -> None:
    dice = torch.Generator().manual_seed(count)
    images = torch.randn(count, 6, generator=dice, dtype=torch.float64)
    images[:, 0] = torch.arange(count)  # each image carries its number
    images[:, 0] /= 10
    labels = torch.randint(4, (count,), generator=dice)
    model = accumulating_network(frozen, stale)
    oracle = accumulating_network(frozen, stale=False)
    loss = F.cross_entropy(oracle(images), labels)
    loss.backward()
    call = f"accumulate(model, images, labels, {limit}) with {count} images"
    call += ", some parameters frozen" if frozen else ""
    call += ", after an earlier backward" if stale else ""
    think = "the last pass: does it have fewer images?"
    with trying(call, images, labels, think=think) as expect:
        got = accumulate(model, images, labels, limit)
        _expect_accumulating_passes(expect, model, images[:, 0].tolist(), limit)
        _expect_accumulated(expect, model, oracle, stale, count, limit)
        value = _one_number(got)
        expect(value is not None, got=got, think="what is to be returned: a number")
        near = math.isclose(value, loss.item(), rel_tol=1e-5, abs_tol=1e-7)
        came = f"a loss of {value:.4f}, and the mean over all is {loss.item():.4f}"
        think = "the loss that is returned: is it the mean over all images?"
        expect(near, got=came, think=think)


def _one_number(got) -> float | None:
    """A number, or a tensor with one number, of whatever shape."""
    return as_number(got.squeeze() if isinstance(got, torch.Tensor) else got)


def _expect_accumulating_passes(
    expect, model, numbers: list[float], limit: int
) -> None:
    passes = [seen for kind, seen in model.notes if kind == "forward"]
    sizes = [len(seen) for seen in passes]
    think = "at most so many images at a time: what is `limit` for?"
    came = f"passes of {sizes} images"
    expect(sizes == [] or max(sizes) <= limit, got=came, think=think)
    seen = sorted(number for some in passes for number in some)
    think = "whether every image passes exactly once, also those that are left over"
    expect(seen == sorted(numbers), got=came, think=think)
    fewest = -(-len(numbers) // limit)
    think = "as few passes as possible: how many images fit into one?"
    expect(len(passes) == fewest, got=came, think=think)
    order = [kind for kind, _ in model.notes]
    think = (
        "when autograd lets go of what a pass has kept: what comes between two passes?"
    )
    alternate = order == ["forward", "backward"] * len(passes)
    expect(alternate, got=", ".join(order), think=think)


def _expect_accumulated(expect, model, oracle, stale, count, limit) -> None:
    names = dict(oracle.inner.named_parameters())
    for name, parameter in model.inner.named_parameters():
        right = names[name]
        same = torch.equal(parameter.detach(), right.detach())
        think = "who takes the step: the optimiser, later"
        expect(same, got=f"{name} has changed", think=think)
        think = "frozen parameters: `.grad` stays None, and `requires_grad` False"
        expect(parameter.requires_grad == right.requires_grad, got=name, think=think)
        if right.grad is None:
            expect(parameter.grad is None, got=f"{name}.grad", think=think)
            continue
        think = "where backward puts the gradient: `.grad` of every trained parameter"
        expect(parameter.grad is not None, got=f"{name}.grad is None", think=think)
        think = _advice_on_accumulated_gradient(
            parameter.grad, right.grad, stale, count, limit
        )
        close = torch.allclose(parameter.grad, right.grad, rtol=1e-5, atol=1e-6)
        came = f"{name}.grad is off by {(parameter.grad - right.grad).abs().max():.2g}"
        expect(close, got=came, think=think)


def _advice_on_accumulated_gradient(
    got, right, stale: bool, count: int, limit: int
) -> str:
    passes = -(-count // limit)
    if stale and torch.allclose(got - 100, right, rtol=1e-3, atol=1e-4):
        return "what `.grad` held before you began: backward adds to it"
    if torch.allclose(got, right * count, rtol=1e-3, atol=1e-5):
        return "the division: this is the gradient of the sum over all images"
    if torch.allclose(got, right * passes, rtol=1e-3, atol=1e-5):
        return "the division: passes add up, and who divides by their number?"
    return "by which number each pass is divided: the last may be smaller"


# 08-noise-scale -----------------------------------------------------------------------


def right_noise_scale(steps: list[torch.Tensor], each: int) -> float:
    shards = torch.stack(steps).double()  # steps x shards x parameters
    small = shards.square().sum(2).mean().item()
    large = shards.mean(1).square().sum(1).mean().item()
    batch = each * shards.shape[1]
    trace = (small - large) / (1 / each - 1 / batch)
    return trace / (large - trace / batch)


def _steps_with_gradient_noise(steps, shards, each, parameters) -> list[torch.Tensor]:
    """Steps whose true gradient shrinks, with the noise of `each` images."""
    dice = torch.Generator().manual_seed(steps * 100 + shards)
    found = []
    for step in range(steps):
        true = torch.ones(parameters) * (1 + steps) / (1 + step)
        rows = torch.randn(shards, parameters, generator=dice) * 2 / each**0.5
        found.append(true + rows)
    return found


@exercise("08-noise-scale")
def check_08_noise_scale(noise_scale):
    by_hand = [torch.tensor([[3.0], [1.0]])]
    _try_noise_scale(noise_scale, by_hand, 1, "[tensor([[3.], [1.]])]")
    # steps, shards, each, parameters
    cases = [(1, 2, 1, 3), (1, 4, 8, 20), (5, 2, 4, 7), (12, 3, 16, 5), (40, 5, 1, 9)]
    cases += [(7, 8, 8, 11), (3, 4, 100, 2)]
    for steps, shards, each, parameters in cases:
        given = _steps_with_gradient_noise(steps, shards, each, parameters)
        _try_noise_scale(noise_scale, given, each, f"{steps} steps of {shards} shards")
    same = [torch.ones(4, 3)] * 2  # no noise at all
    _try_noise_scale(noise_scale, same, 8, "2 steps of 4 equal shards")


def _try_noise_scale(noise_scale, steps, each: int, shown: str) -> None:
    right = right_noise_scale(steps, each)
    think = "what a step is: a tensor, one row for each shard"
    with trying(f"noise_scale({shown}, {each})", steps, think=think) as expect:
        got = noise_scale(steps, each)
        value = _one_number(got)
        expect(value is not None, got=got, think="what is to be returned: a number")
        expect(math.isfinite(value), got=got, think="what you divide by: can it be 0?")
        close = math.isclose(value, right, rel_tol=1e-3, abs_tol=1e-4)
        think = _advice_on_noise_scale(value, steps, each)
        expect(close, got=f"{value:.4f}, where {right:.4f} is right", think=think)


def _noise_scale_with_batch(batch: int, small: float, large: float, each: int) -> float:
    """The noise scale of those who take `batch` for the number of images."""
    trace = (small - large) / (1 / each - 1 / batch) if batch != each else math.inf
    square = large - trace / batch
    return trace / square if square and math.isfinite(trace) else math.inf


def _advice_on_noise_scale(value: float, steps, each: int) -> str:
    shards = torch.stack(steps).double()
    small = shards.square().sum(2).mean().item()
    large = shards.mean(1).square().sum(1).mean().item()
    batch = each * shards.shape[1]
    trace = (small - large) / (1 / each - 1 / batch)

    def near(other: float) -> bool:
        return math.isclose(value, other, rel_tol=1e-3, abs_tol=1e-6)

    if right_noise_scale(steps, each) < 0 <= value:
        return "an estimate below 0: it is to be returned as it is"
    if near(_noise_scale_with_batch(len(steps[0]), small, large, each)):
        return "B, the batch: how many images do all shards of a step have together?"
    if near(trace / large):
        return "|G|²: the batch's own noise, tr(Σ) / B, is still in S"
    if near(trace):
        return "the second unknown: the noise scale is tr(Σ) divided by |G|²"
    if near((large - trace / batch) / trace) if trace else False:
        return "which of the two is above the line: the noise or the gradient?"
    if near(right_noise_scale(steps, 1)) or near(right_noise_scale(steps, 1) / each):
        return "each row is a mean over `each` images: where does that number come in?"
    if len(steps) > 1:
        of_steps = [right_noise_scale([step], each) for step in steps]
        if near(sum(of_steps) / len(steps)) or near(of_steps[0]) or near(of_steps[-1]):
            return (
                "all steps: average the squares over them, and divide only at the end"
            )
        if near(right_noise_scale([torch.cat(steps)], each)):
            return "the batch: it is one step's shards, not those of all steps"
    return "the two equations: which squares are averaged, and 1/b - 1/B"


# 08-scaling ---------------------------------------------------------------------------

# base, k, updates, warm_up, drop
SCHEDULES = [(0.5, 2, 8, 4, 6), (0.1, 1, 6, 3, 5), (0.1, 4, 40, 12, 32)]
SCHEDULES += [(0.2, 3, 30, 10, 20), (0.05, 8, 100, 20, 60), (0.3, 4, 43, 8, 36)]
SCHEDULES += [(0.1, 4, 24, 0, 16), (0.1, 4, 24, 8, 24), (0.1, 5, 25, 0, 25)]
SCHEDULES += [(0.4, 8, 64, 5, 32), (1.5, 6, 36, 36, 36), (0.1, 3, 12, 0, 0)]
SCHEDULES += [(0.1, 8, 7, 2, 5), (0.1, 4, 0, 0, 0), (0.1, 16, 1000, 100, 600)]
SCHEDULES += [(0.2, 4, 32, 16, 16)]


@exercise("08-scaling")
def check_08_scaling(scaled_rates):
    for schedule in SCHEDULES:
        base, k, updates, warm_up, drop = schedule
        think = "the smallest numbers: no warm-up, or not one full batch"
        with trying(
            f"scaled_rates({base}, {k}, {updates}, warm_up={warm_up}, drop={drop})",
            think=think,
        ) as expect:
            got = scaled_rates(*schedule)
            form = "what is to be returned: a list with one rate for each update"
            expect(hasattr(got, "__len__"), got=got, think=form)
            values = [as_number(rate) for rate in got]
            expect(None not in values, got=got, think=form)
            _expect_scaled_updates(expect, len(values), k, updates)
            for place, value in enumerate(values):
                right = _right_scaled_rate(place * k, base, k, warm_up, drop)
                came = f"{value:.6g} for update {place}, where {right:.6g} is right"
                think = _advice_on_scaled_rate(value, place, schedule)
                expect(math.isclose(value, right, rel_tol=1e-6), got=came, think=think)


def _right_scaled_rate(used: float, base, k, warm_up, drop) -> float:
    """The rate after so many batches of the small run have been used."""
    if used < warm_up:
        return base + (k - 1) * base * used / warm_up
    return k * base if used < drop else k * base / 10


def _expect_scaled_updates(expect, found: int, k: int, updates: int) -> None:
    came = f"{found} updates, where {updates // k} are right"
    think = f"how many images are used: one update of these uses {k} small batches"
    if found == updates // k + 1:
        think = "the last images: do they fill a batch?"
    expect(found == updates // k, got=came, think=think)


def _advice_on_scaled_rate(value: float, place: int, schedule) -> str:
    base, k, _, warm_up, drop = schedule
    used = place * k
    own_line = _right_scaled_rate(place, base, k, warm_up, warm_up)
    if 0 < place < warm_up and math.isclose(value, own_line, rel_tol=1e-6):
        return "whose updates `warm_up` counts, and how many images that is"
    if used >= drop and math.isclose(value, k * base, rel_tol=1e-6):
        return "whose updates `drop` counts, and how many images that is"
    if used < warm_up:
        if place == 0:
            return "where a warm-up begins: which rate was stable from the start?"
        return "the straight line: which part of the warm-up's images has been used?"
    if math.isclose(value, base, rel_tol=1e-6):
        return "linear scaling: k times the batch, and how many times the rate?"
    if used < drop:
        return "what the rate is when the warm-up is over, and how long it stays"
    return "the drop: a tenth of which rate, and from which image on?"
