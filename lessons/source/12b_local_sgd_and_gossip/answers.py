"""Wrong answers to the exercises of lesson 12b, and unusual right ones."""

import math

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from demos.decentralised.gossip import agreement_factor, ring_mixing_matrix
from lessons.source.sample_answers import right, wrong

# 12b-local ----------------------------------------------------------------------------


def _trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def _step(model, batch, rate) -> None:
    trained = _trained(model)
    loss = F.cross_entropy(model(batch[0]), batch[1])
    gradients = torch.autograd.grad(loss, trained)
    with torch.no_grad():
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter -= rate * gradient


def _meet(model) -> None:
    for parameter in _trained(model):
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


@wrong(
    "12b-local",
    advice="if they do not fill a round",
    note="No error, a good loss, and as many models as ranks.",
)
def forgets_the_last_round(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches, start=1):
        _step(model, batch, rate)
        if step % every == 0:
            _meet(model)
            meetings += 1
    return meetings


@wrong("12b-local", advice="held twice")
def meets_twice_at_the_end(model, batches, rate, every):
    meetings = forgets_the_last_round(model, batches, rate, every)
    _meet(model)
    return meetings + 1


@wrong("12b-local", advice="counted from 1")
def counts_from_zero(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches):
        _step(model, batch, rate)
        if step % every == 0:
            _meet(model)
            meetings += 1
    return meetings


@wrong("12b-local", advice="counted from 1")
def counts_from_zero_and_meets_last(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches):
        _step(model, batch, rate)
        if step % every == 0 or step == len(batches) - 1:
            _meet(model)
            meetings += 1
    return meetings


@wrong("12b-local", advice="not only at the end")
def meets_at_the_end_only(model, batches, rate, every):
    for batch in batches:
        _step(model, batch, rate)
    if batches:
        _meet(model)
    return -(-len(batches) // every)


@wrong("12b-local", advice="not after each step")
def meets_after_each_step(model, batches, rate, every):
    for batch in batches:
        _step(model, batch, rate)
        _meet(model)
    return -(-len(batches) // every)


def _local_with(meet, returns=None):
    def train_locally(model, batches, rate, every):
        meetings = 0
        for step, batch in enumerate(batches, start=1):
            _step(model, batch, rate)
            if step % every == 0 or step == len(batches):
                meet(model)
                meetings += 1
        return meetings if returns is None else returns(model, batches, every)

    return train_locally


def _sum_of_models(model) -> None:
    for parameter in _trained(model):
        dist.all_reduce(parameter.data)


def _meet_with_frozen(model) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


def _meet_with_buffers(model) -> None:
    _meet(model)
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()


@wrong("12b-local", advice="a meeting does|that is trained")
def module_by_module(model, batches, rate, every):
    """A weight that two layers share steps twice, and is sent twice."""
    own = [p for m in model for p in m.parameters() if p.requires_grad]
    for step, (x, y) in enumerate(batches, start=1):
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), own)
        with torch.no_grad():
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter -= rate * gradient
            if step % every == 0 or step == len(batches):
                for parameter in own:
                    dist.all_reduce(parameter.data)
                    parameter /= dist.get_world_size()
    return -(-len(batches) // every)


def _mean_of_copies(model) -> None:
    for parameter in _trained(model):
        copy = parameter.detach().clone()
        dist.all_reduce(copy)
        copy /= dist.get_world_size()


def _model_of_rank_0(model) -> None:
    for parameter in _trained(model):
        dist.broadcast(parameter.data, 0)


def _gather_all(model) -> None:
    for parameter in _trained(model):
        every = [torch.empty_like(parameter.data) for _ in range(dist.get_world_size())]
        dist.all_gather(every, parameter.data)
        parameter.data.copy_(torch.stack(every).mean(0))


@wrong("12b-local", advice="what a meeting does")
def averages_gradients(model, batches, rate, every):
    """Gradients of the last step of a round are averaged, models never."""
    meetings = 0
    for step, (x, y) in enumerate(batches, start=1):
        trained = _trained(model)
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), trained)
        meeting = step % every == 0 or step == len(batches)
        with torch.no_grad():
            for parameter, gradient in zip(trained, gradients, strict=True):
                if meeting:
                    dist.all_reduce(gradient)
                    gradient /= dist.get_world_size()
                parameter -= rate * gradient
        meetings += meeting
    return meetings


@wrong("12b-local", advice="a meeting does|every")
def keeps_old_gradients(model, batches, rate, every):
    sgd = torch.optim.SGD(_trained(model), lr=rate)
    for step, (x, y) in enumerate(batches, start=1):
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            _meet(model)
    return -(-len(batches) // every)


@wrong("12b-local", advice="what a meeting does")
def uses_momentum(model, batches, rate, every):
    sgd = torch.optim.SGD(_trained(model), lr=rate, momentum=0.9)
    for step, (x, y) in enumerate(batches, start=1):
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            _meet(model)
    return -(-len(batches) // every)


@wrong("12b-local", advice="a meeting does")
def only_full_rounds(model, batches, rate, every):
    full = len(batches) // every * every
    return forgets_the_last_round(model, batches[:full], rate, every)


@wrong("12b-local", advice="not the batches")
def empties_the_list(model, batches, rate, every):
    step = meetings = 0
    while batches:
        _step(model, batches.pop(0), rate)
        step += 1
        if step % every == 0 or not batches:
            _meet(model)
            meetings += 1
    return meetings


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
    sgd, meetings = torch.optim.SGD(_trained(model), lr=rate), 0
    for step, (x, y) in enumerate(batches, start=1):
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            flat = parameters_to_vector(_trained(model)).detach()
            flat /= dist.get_world_size()
            dist.all_reduce(flat)
            vector_to_parameters(flat, _trained(model))
            meetings += 1
    return np.int64(meetings)


# 12b-rounds ---------------------------------------------------------------------------


def _rounds(factor: float, fold: float):
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.ceil(math.log(fold) / -math.log(factor))


@wrong(
    "12b-rounds",
    advice="eigenvalue -1|the modulus",
    note="Case (b) by hand tells: they swap for ever.",
)
def second_with_its_sign(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(max(torch.linalg.eigvalsh(weights)[-2].item(), 0), fold)


@wrong("12b-rounds", advice="eigenvalue -1|the modulus")
def modulus_of_the_second(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(torch.linalg.eigvalsh(weights)[-2].abs().item(), fold)


def _factor(weights) -> float:
    return torch.linalg.eigvalsh(weights).abs().sort().values[-2].item()


@wrong("12b-rounds", advice="not yet enough")
def rounds_down(weights, fold):
    if len(weights) == 1:
        return 0
    exact = _rounds(_factor(weights), fold)
    if exact in (1, math.inf):
        return exact
    return math.floor(math.log(fold) / -math.log(_factor(weights)))


@wrong("12b-rounds", advice="a whole number")
def not_rounded(weights, fold):
    if len(weights) == 1:
        return 0
    factor = _factor(weights)
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.log(fold) / -math.log(factor)


@wrong("12b-rounds", advice="never fades|math.inf|alone")
def without_special_cases(weights, fold):
    return math.ceil(math.log(fold) / -math.log(_factor(weights)))


@wrong("12b-rounds", advice="one rank alone")
def one_rank_raises(weights, fold):
    return _rounds(_factor(weights), fold)


@wrong("12b-rounds", advice="lasts longest")
def largest_eigenvalue(weights, fold):
    return _rounds(torch.linalg.eigvalsh(weights).abs().max().item(), fold)


@wrong("12b-rounds", advice="eigenvalue|lasts longest")
def smallest_eigenvalue(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(torch.linalg.eigvalsh(weights).abs().min().item(), fold)


@wrong("12b-rounds", advice="eigenvalue -1|never hear")
def skips_all_ones(weights, fold):
    """The largest modulus that is not 1: pairs that never meet seem to agree."""
    if len(weights) == 1:
        return 0
    moduli = torch.linalg.eigvalsh(weights).abs()
    rest = moduli[moduli < 1 - 1e-9]
    return _rounds(rest.max().item(), fold) if len(rest) else math.inf


@wrong("12b-rounds", advice="lasts longest")
def squared_distance(weights, fold):
    return 0 if len(weights) == 1 else _rounds(_factor(weights) ** 2, fold)


@wrong("12b-rounds", advice="is one fewer enough")
def one_round_too_many(weights, fold):
    return 0 if len(weights) == 1 else _rounds(_factor(weights), fold) + 1


@wrong("12b-rounds", advice="lasts longest|never hear|not yet enough")
def from_rank_0(weights, fold):
    """Tried from one start only, where others may take longer."""
    held = torch.zeros(len(weights), dtype=weights.dtype)
    held[0] = 1
    begin = (held - held.mean()).norm()
    for turn in range(400):
        if (held - held.mean()).norm() <= begin / fold:
            return turn
        held = weights @ held
    return math.inf


@wrong("12b-rounds", advice="may change: nothing")
def changes_the_weights(weights, fold):
    answer = 0 if len(weights) == 1 else _rounds(_factor(weights), fold)
    weights -= 1 / len(weights)
    return answer


@wrong("12b-rounds", advice="for ever")
def zero_for_never(weights, fold):
    answer = 0 if len(weights) == 1 else _rounds(_factor(weights), fold)
    return 0 if answer == math.inf else answer


@right("12b-rounds")
def norm_of_what_is_left(weights, fold):
    """NumPy's: the norm of W minus the matrix that takes the mean."""
    left = weights.numpy() - 1 / len(weights)
    factor = np.linalg.norm(left, 2)
    if factor > 1 - 1e-9 or factor < 1e-9:
        return math.inf if factor > 0.5 else int(len(weights) > 1)
    return np.ceil(np.log(fold) / -np.log(factor))


@right("12b-rounds")
def round_by_round(weights, fold):
    if len(weights) == 1:
        return 0
    factor, left, rounds = _factor(weights), 1.0, 0
    if factor > 1 - 1e-9:
        return float("inf")
    while left > 1 / fold:
        left *= factor
        rounds += 1
    return rounds


# 12b-weights --------------------------------------------------------------------------


@wrong("12b-weights", advice="would a")
def a_third(ranks):
    return 1 / 3


@wrong(
    "12b-weights",
    advice="never agrees. Which pattern",
    note="It sounds right that listening only is fastest.",
)
def nothing_of_its_own(ranks):
    return 0


@wrong("12b-weights", advice="a smaller weight")
def one_half(ranks):
    return 0.5


@wrong("12b-weights", advice="would a")
def one_over_ranks(ranks):
    return 1 / ranks


@wrong("12b-weights", advice="would a smaller")
def even_formula(ranks):
    both = math.cos(2 * math.pi / ranks) - 1
    return -both / (2 - both)


@wrong("12b-weights", advice="would a")
def coarse_grid(ranks):
    grid = [step / 20 for step in range(21)]
    return min(grid, key=lambda a: agreement_factor(ring_mixing_matrix(ranks, a)))


@wrong("12b-weights", advice="never agrees|would a")
def second_with_its_sign_smallest(ranks):
    def second(a):
        return torch.linalg.eigvalsh(ring_mixing_matrix(ranks, a))[-2].item()

    return min((step / 1000 for step in range(1001)), key=second)


@wrong("12b-weights", advice="would a")
def returns_the_factor(ranks):
    return agreement_factor(ring_mixing_matrix(ranks, fine_grid(ranks)))


@wrong("12b-weights", advice="would a")
def weight_of_a_neighbour(ranks):
    return (1 - crossing(ranks)) / 2


@wrong("12b-weights", advice="from 0 to 1")
def may_be_negative(ranks):
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    both = max(cosines) + min(cosines)
    return both / (2 - both)


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
    return torch.tensor((low + high) / 2)


def _meetings_and_model(model, batches, every):
    return model


def _nothing(model, batches, every):
    return None


wrong("12b-local", advice="its mean over all ranks", name="sum")(
    _local_with(_sum_of_models)
)
wrong("12b-local", advice="number that is trained", name="sends_frozen")(
    _local_with(_meet_with_frozen)
)
wrong("12b-local", advice="number that is", name="sends_buffers")(
    _local_with(_meet_with_buffers)
)
wrong("12b-local", advice="what a meeting does", name="mean_of_a_copy")(
    _local_with(_mean_of_copies)
)
wrong("12b-local", advice="what a meeting does", name="model_of_rank_0")(
    _local_with(_model_of_rank_0)
)
wrong("12b-local", advice="dist.all_reduce, and no other", name="gathers")(
    _local_with(_gather_all)
)
wrong("12b-local", advice="number of meetings", name="returns_nothing")(
    _local_with(_meet, _nothing)
)
wrong("12b-local", advice="number of", name="returns_model")(
    _local_with(_meet, _meetings_and_model)
)
