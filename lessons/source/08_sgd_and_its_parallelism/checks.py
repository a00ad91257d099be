"""The checks of lesson 08: shards, accumulation, the noise scale, linear scaling."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

# 08-shards ----------------------------------------------------------------------------

SHARDS = [[3, 1], [4, 4], [5], [1, 2, 3], [9, 1, 1, 1, 4], [61, 1, 1, 1]]


@exercise("08-shards")
def check_08_shards(batch_gradient):
    by_hand = [torch.tensor([2.0])], [torch.tensor([10.0])]
    call = "batch_gradient([[tensor([2.])], [tensor([10.])]], [3, 1])"
    _expect_batch_gradient(
        batch_gradient, call, list(by_hand), [3, 1], [torch.tensor([4.0])]
    )
    dice = torch.Generator().manual_seed(8)
    for sizes in SHARDS:  # a sample is a gradient: the batch's is the mean of all
        samples = [torch.randn(sum(sizes), *s, generator=dice) for s in [(3, 2), (3,)]]
        cuts = zip(*(all_of_them.split(sizes) for all_of_them in samples), strict=True)
        gradients = [[part.mean(0) for part in parts] for parts in cuts]
        wanted = [all_of_them.mean(0) for all_of_them in samples]
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
        for part, want, *shards in zip(got, wanted, *gradients, strict=True):
            part = part.to(want)
            think = "for how many images each shard speaks, and by how much to divide"
            if torch.allclose(part, sum(shards) / len(shards)):
                think = "the mean of the means, as here: how much does one image weigh?"
            elif torch.allclose(part, want * sum(sizes), rtol=1e-4):
                think = "the division: this is the gradient of a sum over all images"
            first, should = part.flatten()[0].item(), want.flatten()[0].item()
            came = f"{first:.6f} in the first place, where {should:.6f} is right"
            near = torch.allclose(part, want, rtol=1e-5, atol=1e-5)
            expect(near, got=came, think=think)


# 08-accumulate ------------------------------------------------------------------------

# images, limit
PASSES = [(6, 2), (4, 2), (8, 4), (12, 3), (6, 1), (16, 16), (32, 8)]


class AccumulatingNetwork(nn.Module):
    """A network that notes each pass forward, and each backward through it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        layers = nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)
        self.inner, self.notes = nn.Sequential(*layers).double(), []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.notes.append(("forward", images[:, 0].tolist()))
        output = self.inner(images)
        if output.requires_grad:
            output.register_hook(lambda _: self.notes.append(("backward", [])))
        return output


@exercise("08-accumulate")
def check_08_accumulate(accumulate):
    for place, (images, limit) in enumerate(PASSES):
        _try_accumulate(accumulate, images, limit, stale=place > 0)


def _try_accumulate(accumulate, count: int, limit: int, stale: bool) -> None:
    dice = torch.Generator().manual_seed(count)
    images = torch.randn(count, 6, generator=dice, dtype=torch.float64)
    images[:, 0] = torch.arange(count) / 10  # each image carries its number
    labels = torch.randint(4, (count,), generator=dice)
    model, oracle, last_pass = (AccumulatingNetwork() for _ in range(3))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 100.0) if stale else None
    loss = F.cross_entropy(oracle(images), labels)
    loss.backward()
    F.cross_entropy(last_pass(images[-limit:]), labels[-limit:]).backward()
    call = f"accumulate(model, images, labels, {limit}) with {count} images"
    call += ", after an earlier backward" if stale else ""
    think = "how many images go through the model at a time"
    with trying(call, images, labels, think=think) as expect:
        got = accumulate(model, images, labels, limit)
        _expect_accumulating_passes(expect, model, images[:, 0].tolist(), limit)
        _expect_accumulated(expect, model, oracle, last_pass, stale, count)
        value = expect.number(got)
        near = math.isclose(value, loss.item(), rel_tol=1e-5, abs_tol=1e-7)
        came = f"a loss of {value:.4f}, and the mean over all is {loss.item():.4f}"
        think = "the loss that is returned: is it the mean over all images?"
        expect(near, got=came, think=think)


def _expect_accumulating_passes(
    expect, model, numbers: list[float], limit: int
) -> None:
    passes = [seen for kind, seen in model.notes if kind == "forward"]
    sizes = [len(seen) for seen in passes]
    think = "at most so many images at a time: what is `limit` for?"
    came = f"passes of {sizes} images"
    expect(sizes == [] or max(sizes) <= limit, got=came, think=think)
    seen = sorted(number for some in passes for number in some)
    think = "whether every image passes exactly once"
    expect(seen == sorted(numbers), got=came, think=think)
    order = [kind for kind, _ in model.notes]
    think = (
        "when autograd lets go of what a pass has kept: what comes between two passes?"
    )
    alternate = order == ["forward", "backward"] * len(passes)
    expect(alternate, got=", ".join(order), think=think)


def _expect_accumulated(expect, model, oracle, last_pass, stale, count: int) -> None:
    passes = sum(kind == "forward" for kind, _ in model.notes)
    for (name, parameter), right, last in zip(
        model.inner.named_parameters(),
        oracle.parameters(),
        last_pass.parameters(),
        strict=True,
    ):
        think = "where backward puts the gradient: `.grad` of every parameter"
        expect(parameter.grad is not None, got=f"{name}.grad is None", think=think)

        def is_right(gradient, right=right.grad) -> bool:
            return torch.allclose(gradient, right, rtol=1e-5, atol=1e-6)

        think = "what each pass adds to `.grad`, and by which number it is divided"
        if stale and is_right(parameter.grad - 100):
            think = "what `.grad` held before you began: backward adds to it"
        elif is_right(parameter.grad / count):
            think = "the division: this is the gradient of the sum over all images"
        elif is_right(parameter.grad / passes):
            think = "the division: passes add up, and nothing divides by their number"
        elif any(is_right(parameter.grad * n, last.grad) for n in (1, passes)):
            think = "the passes before the last: `.grad` holds nothing of them any more"
        came = f"{name}.grad is off by {(parameter.grad - right.grad).abs().max():.2g}"
        expect(is_right(parameter.grad), got=came, think=think)


# 08-noise-scale -----------------------------------------------------------------------


def _noise_scale(steps: list[torch.Tensor], each: int, batch: int) -> tuple:
    """tr(Σ), |G|², and the mean |g|² of batches, from `batch` images in each step."""
    shards = torch.stack(steps).double()  # steps x shards x parameters
    small = shards.square().sum(2).mean().item()
    large = shards.mean(1).square().sum(1).mean().item()
    trace = (small - large) / (1 / each - 1 / batch)
    return trace, large - trace / batch, large


@exercise("08-noise-scale")
def check_08_noise_scale(noise_scale):
    by_hand = [torch.tensor([[3.0], [1.0]])]
    _try_noise_scale(noise_scale, by_hand, 1, "[tensor([[3.], [1.]])]")
    # steps, shards, each, parameters
    cases = [(1, 2, 1, 3), (5, 2, 4, 7), (12, 3, 16, 5), (40, 5, 1, 9), (7, 8, 8, 11)]
    for steps, shards, each, parameters in cases:
        dice = torch.Generator().manual_seed(steps * 100 + shards)
        given = []
        for step in range(steps):  # the true gradient shrinks, the noise does not
            noise = torch.randn(shards, parameters, generator=dice) * 2 / each**0.5
            given.append((1 + steps) / (1 + step) + noise)
        _try_noise_scale(noise_scale, given, each, f"{steps} steps of {shards} shards")


def _try_noise_scale(noise_scale, steps, each: int, shown: str) -> None:
    trace, square, _ = _noise_scale(steps, each, each * len(steps[0]))
    right = trace / square
    think = "what a step is: a tensor, one row for each shard"
    with trying(f"noise_scale({shown}, {each})", steps, think=think) as expect:
        got = noise_scale(steps, each)
        value = expect.number(got)
        expect(math.isfinite(value), got=got, think="what you divide by: can it be 0?")
        close = math.isclose(value, right, rel_tol=1e-3, abs_tol=1e-4)
        think = _advice_on_noise_scale(value, steps, each)
        expect(close, got=f"{value:.4f}, where {right:.4f} is right", think=think)


def _advice_on_noise_scale(value: float, steps, each: int) -> str:
    batch = each * len(steps[0])
    trace, square, large = _noise_scale(steps, each, batch)
    of_steps = [_noise_scale([step], each, batch) for step in steps]
    mean_ratio = sum(t / s for t, s, _ in of_steps) / len(steps)
    for number, think in [
        (trace / large, "|G|²: is the batch's own noise, tr(Σ) / B, still in it?"),
        (trace, "the second unknown: the noise scale is tr(Σ) divided by |G|²"),
        (
            square / trace,
            "which of the two is above the line: the noise or the gradient?",
        ),
        (
            mean_ratio,
            "all steps: average the squares over them, and divide only at the end",
        ),
    ]:
        if math.isclose(value, number, rel_tol=1e-3):
            return think
    return (
        f"the two equations, here {square + trace / each:.4g} = |G|² + tr(Σ) / {each} "
        f"for shards, {large:.4g} = |G|² + tr(Σ) / {batch} for batches: are they yours?"
    )


# 08-scaling ---------------------------------------------------------------------------

# base, k, updates, warm_up, drop
SCHEDULES = [(0.5, 2, 8, 4, 6), (0.1, 1, 6, 3, 5), (0.1, 4, 40, 12, 32)]
SCHEDULES += [(0.2, 3, 30, 9, 21), (0.05, 8, 96, 16, 64), (0.1, 16, 960, 96, 576)]


@exercise("08-scaling")
def check_08_scaling(scaled_rates):
    for schedule in SCHEDULES:
        base, k, updates, warm_up, drop = schedule
        call = f"scaled_rates({base}, {k}, {updates}, warm_up={warm_up}, drop={drop})"
        with trying(call) as expect:
            got = scaled_rates(*schedule)
            form = "what is to be returned: a list with one rate for each update"
            expect(hasattr(got, "__len__"), got=got, think=form)
            values = [as_number(rate) for rate in got]
            expect(None not in values, got=got, think=form)
            came = f"{len(values)} updates, where {updates // k} are right"
            think = "how many images are used: one update of these uses "
            think += f"{k} small batches"
            expect(len(values) == updates // k, got=came, think=think)
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


def _advice_on_scaled_rate(value: float, place: int, schedule) -> str:
    base, k, _, warm_up, drop = schedule
    used = place * k
    own_line = _right_scaled_rate(place, base, k, warm_up, warm_up)
    if 0 < place < warm_up and math.isclose(value, own_line, rel_tol=1e-6):
        return "whose updates `warm_up` counts, and how many images that is"
    if used >= drop and math.isclose(value, k * base, rel_tol=1e-6):
        return "from which update on the rate falls: whose updates does `drop` count?"
    if used < warm_up:
        if place == 0:
            return "where a warm-up begins: which rate was stable from the start?"
        return "the straight line: from where to where, and how much of it is behind?"
    if math.isclose(value, base, rel_tol=1e-6):
        return "linear scaling: k times the batch, and how many times the rate?"
    if used < drop:
        return "what the rate is when the warm-up is over, and how long it stays"
    return "the drop: a tenth of which rate, and from which image on?"
