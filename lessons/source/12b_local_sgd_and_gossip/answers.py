"""Wrong answers to the exercises of lesson 12b, and unusual right ones."""

import copy
import math

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.decentralised.gossip import agreement_factor, ring_mixing_matrix

# 12b-local ----------------------------------------------------------------------------


def _step(model, batch, rate) -> None:
    trained = list(model.parameters())
    loss = F.cross_entropy(model(batch[0]), batch[1])
    gradients = torch.autograd.grad(loss, trained)
    with torch.no_grad():
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter -= rate * gradient


def _meet(model) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


def _last_of_round(step, steps, every):
    return step % every == 0 or step == steps


def _train_with(meet=_meet, when=_last_of_round):
    def train_locally(model, batches, rate, every):
        meetings = 0
        for step, batch in enumerate(batches, start=1):
            _step(model, batch, rate)
            if when(step, len(batches), every):
                meet(model)
                meetings += 1
        return meetings

    return train_locally


wrong(
    "12b-local",
    advice="do not fill a round",
    note="No error, a good loss, and as many models as ranks.",
    name="forgets_the_last_round",
)(_train_with(when=lambda step, steps, every: step % every == 0))


@wrong(
    "12b-local",
    advice="what a meeting does",
    note="They average gradients, as DDP does. The models have drifted apart by then.",
)
def averages_gradients(model, batches, rate, every):
    meetings = 0
    for step, (x, y) in enumerate(batches, start=1):
        trained = list(model.parameters())
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), trained)
        meeting = _last_of_round(step, len(batches), every)
        with torch.no_grad():
            for parameter, gradient in zip(trained, gradients, strict=True):
                if meeting:
                    dist.all_reduce(gradient)
                    gradient /= dist.get_world_size()
                parameter -= rate * gradient
        meetings += meeting
    return meetings


wrong(
    "12b-local",
    advice="how often the ranks meet",
    note="Data-parallel training: right models for H = 1, and H times the traffic.",
    name="meets_after_each_step",
)(_train_with(when=lambda step, steps, every: True))


@wrong(
    "12b-local",
    advice="gradient of this batch alone|its mean",
    note="all_reduce gives a sum; they forget to divide.",
    given=_train_with,
)
def sum_of_models(model) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)


@wrong(
    "12b-local",
    advice="what a meeting does",
    note="The mean is taken, and never put into the model.",
    given=_train_with,
)
def mean_of_copies(model) -> None:
    _meet(copy.deepcopy(model))


@wrong(
    "12b-local",
    advice="gradient of this batch alone",
    note="The gradients of earlier batches are added to, for want of zero_grad.",
)
def keeps_old_gradients(model, batches, rate, every):
    sgd = torch.optim.SGD(list(model.parameters()), lr=rate)
    for step, (x, y) in enumerate(batches, start=1):
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if _last_of_round(step, len(batches), every):
            _meet(model)
    return -(-len(batches) // every)


@right("12b-local")
def in_rounds(model, batches, rate, every):
    starts = range(0, len(batches), every)
    for start in starts:
        for batch in batches[start : start + every]:
            _step(model, batch, rate)
        _meet(model)
    return len(starts)


@right("12b-local")
def one_flat_message(model, batches, rate, every):
    sgd, meetings = torch.optim.SGD(list(model.parameters()), lr=rate), 0
    for step, (x, y) in enumerate(batches, start=1):
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            flat = parameters_to_vector(list(model.parameters())).detach()
            flat /= dist.get_world_size()
            dist.all_reduce(flat)
            vector_to_parameters(flat, list(model.parameters()))
            meetings += 1
    return meetings


# 12b-rounds ---------------------------------------------------------------------------


def _rounds(factor: float, fold: float):
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.ceil(math.log(fold) / -math.log(factor))


@wrong(
    "12b-rounds",
    advice="eigenvalue -1",
    note="The ring of four, by hand, tells: they swap for ever.",
)
def second_with_its_sign(weights, fold):
    return _rounds(max(torch.linalg.eigvalsh(weights)[-2].item(), 0), fold)


def _factor(weights) -> float:
    return torch.linalg.eigvalsh(weights).abs().sort().values[-2].item()


@wrong(
    "12b-rounds",
    advice="would fewer rounds do",
    note="int() or // cuts off: after so many rounds it is not yet enough.",
)
def rounds_down(weights, fold):
    exact = _rounds(_factor(weights), fold)
    if exact in (1, math.inf):
        return exact
    return math.floor(math.log(fold) / -math.log(_factor(weights)))


@wrong(
    "12b-rounds",
    advice="whole number",
    note="They return what the logarithms give; but rounds are counted.",
)
def not_rounded(weights, fold):
    factor = _factor(weights)
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.log(fold) / -math.log(factor)


@wrong(
    "12b-rounds",
    advice="for ever|never hear",
    note="They trust the logarithm where the modulus is 1.",
)
def without_special_cases(weights, fold):
    return math.ceil(math.log(fold) / -math.log(_factor(weights)))


@wrong(
    "12b-rounds",
    advice="lasts longest",
    note="The largest modulus is always 1 and belongs to the mean itself.",
)
def largest_eigenvalue(weights, fold):
    return _rounds(torch.linalg.eigvalsh(weights).abs().max().item(), fold)


@wrong(
    "12b-rounds",
    advice="lasts longest|never hear",
    note="Tried from one start only, where others may take longer.",
)
def from_rank_0(weights, fold):
    held = torch.zeros(len(weights), dtype=weights.dtype)
    held[0] = 1
    begin = (held - held.mean()).norm()
    for turn in range(400):
        if (held - held.mean()).norm() <= begin / fold:
            return turn
        held = weights @ held
    return math.inf


@right("12b-rounds")
def norm_of_what_is_left(weights, fold):
    """NumPy's: the norm of W minus the matrix that takes the mean."""
    left = weights.numpy() - 1 / len(weights)
    factor = np.linalg.norm(left, 2)
    if factor > 1 - 1e-9 or factor < 1e-9:
        return math.inf if factor > 0.5 else 1
    return np.ceil(np.log(fold) / -np.log(factor))


@right("12b-rounds")
def round_by_round(weights, fold):
    factor, left, rounds = _factor(weights), 1.0, 0
    if factor > 1 - 1e-9:
        return float("inf")
    while left > 1 / fold:
        left *= factor
        rounds += 1
    return rounds


# 12b-weights --------------------------------------------------------------------------


@wrong(
    "12b-weights",
    advice="from -0.3333 to -0.3333",
    note="The weight of the text above, whatever the ring.",
)
def a_third(ranks):
    return 1 / 3


@wrong(
    "12b-weights",
    advice="from -1.0000",
    note="It sounds right that listening only is fastest.",
)
def nothing_of_its_own(ranks):
    return 0


@wrong(
    "12b-weights",
    advice="from 0.0000 to 0.5000",
    note="Safe, and slow: no eigenvalue is negative.",
)
def one_half(ranks):
    return 0.5


@wrong(
    "12b-weights",
    advice="from -0.5000 to 0.2500",
    note="As in an average over all ranks. But a peer hears of two only.",
)
def one_over_ranks(ranks):
    return 1 / ranks


@wrong(
    "12b-weights",
    advice="from 0.1429 to 0.1429",
    note="The smallest cosine taken for -1, which is wrong for odd rings.",
)
def even_formula(ranks):
    both = math.cos(2 * math.pi / ranks) - 1
    return -both / (2 - both)


@wrong(
    "12b-weights",
    advice="from -0.5000 to -0.5000",
    note="They return the weight that a neighbour gets.",
)
def weight_of_a_neighbour(ranks):
    return (1 - crossing(ranks)) / 2


def crossing(ranks):
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    both = max(cosines) + min(cosines)
    return -both / (2 - both)


@right("12b-weights")
def fine_grid(ranks):
    cosines = np.cos(2 * np.pi * np.arange(1, ranks) / ranks)
    grid = np.arange(0, 1001)[:, None] / 1000
    worst = np.abs(grid + (1 - grid) * cosines).max(1)
    return grid[worst.argmin(), 0]


@right("12b-weights")
def ternary_search(ranks):
    low, high = 0.0, 1.0
    for _ in range(40):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        worst = [agreement_factor(ring_mixing_matrix(ranks, a)) for a in (one, two)]
        low, high = (low, two) if worst[0] < worst[1] else (one, high)
    return (low + high) / 2
