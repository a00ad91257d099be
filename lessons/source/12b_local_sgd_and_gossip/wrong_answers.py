"""Wrong answers to the exercises of lesson 12b, and unusual right ones."""

import math

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from demos.decentralised.gossip import agreement_factor, ring_mixing_matrix
from lessons.source.sample_answers import Right, Wrong

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


def forgets_the_last_round(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches, start=1):
        _step(model, batch, rate)
        if step % every == 0:
            _meet(model)
            meetings += 1
    return meetings


def meets_twice_at_the_end(model, batches, rate, every):
    meetings = forgets_the_last_round(model, batches, rate, every)
    _meet(model)
    return meetings + 1


def counts_from_zero(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches):
        _step(model, batch, rate)
        if step % every == 0:
            _meet(model)
            meetings += 1
    return meetings


def counts_from_zero_and_meets_last(model, batches, rate, every):
    meetings = 0
    for step, batch in enumerate(batches):
        _step(model, batch, rate)
        if step % every == 0 or step == len(batches) - 1:
            _meet(model)
            meetings += 1
    return meetings


def meets_at_the_end_only(model, batches, rate, every):
    for batch in batches:
        _step(model, batch, rate)
    if batches:
        _meet(model)
    return -(-len(batches) // every)


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


def keeps_old_gradients(model, batches, rate, every):
    sgd = torch.optim.SGD(_trained(model), lr=rate)
    for step, (x, y) in enumerate(batches, start=1):
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            _meet(model)
    return -(-len(batches) // every)


def uses_momentum(model, batches, rate, every):
    sgd = torch.optim.SGD(_trained(model), lr=rate, momentum=0.9)
    for step, (x, y) in enumerate(batches, start=1):
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == len(batches):
            _meet(model)
    return -(-len(batches) // every)


def only_full_rounds(model, batches, rate, every):
    full = len(batches) // every * every
    return forgets_the_last_round(model, batches[:full], rate, every)


def empties_the_list(model, batches, rate, every):
    step = meetings = 0
    while batches:
        _step(model, batches.pop(0), rate)
        step += 1
        if step % every == 0 or not batches:
            _meet(model)
            meetings += 1
    return meetings


def in_rounds(model, batches, rate, every):
    starts = range(0, len(batches), every)
    for start in starts:
        for batch in batches[start : start + every]:
            _step(model, batch, rate)
        _meet(model)
    return len(starts)


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


def second_with_its_sign(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(max(torch.linalg.eigvalsh(weights)[-2].item(), 0), fold)


def modulus_of_the_second(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(torch.linalg.eigvalsh(weights)[-2].abs().item(), fold)


def _factor(weights) -> float:
    return torch.linalg.eigvalsh(weights).abs().sort().values[-2].item()


def rounds_down(weights, fold):
    if len(weights) == 1:
        return 0
    exact = _rounds(_factor(weights), fold)
    if exact in (1, math.inf):
        return exact
    return math.floor(math.log(fold) / -math.log(_factor(weights)))


def not_rounded(weights, fold):
    if len(weights) == 1:
        return 0
    factor = _factor(weights)
    if factor > 1 - 1e-9:
        return math.inf
    return 1 if factor < 1e-9 else math.log(fold) / -math.log(factor)


def without_special_cases(weights, fold):
    return math.ceil(math.log(fold) / -math.log(_factor(weights)))


def one_rank_raises(weights, fold):
    return _rounds(_factor(weights), fold)


def largest_eigenvalue(weights, fold):
    return _rounds(torch.linalg.eigvalsh(weights).abs().max().item(), fold)


def smallest_eigenvalue(weights, fold):
    if len(weights) == 1:
        return 0
    return _rounds(torch.linalg.eigvalsh(weights).abs().min().item(), fold)


def skips_all_ones(weights, fold):
    """The largest modulus that is not 1: pairs that never meet seem to agree."""
    if len(weights) == 1:
        return 0
    moduli = torch.linalg.eigvalsh(weights).abs()
    rest = moduli[moduli < 1 - 1e-9]
    return _rounds(rest.max().item(), fold) if len(rest) else math.inf


def squared_distance(weights, fold):
    return 0 if len(weights) == 1 else _rounds(_factor(weights) ** 2, fold)


def one_round_too_many(weights, fold):
    return 0 if len(weights) == 1 else _rounds(_factor(weights), fold) + 1


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


def changes_the_weights(weights, fold):
    answer = 0 if len(weights) == 1 else _rounds(_factor(weights), fold)
    weights -= 1 / len(weights)
    return answer


def zero_for_never(weights, fold):
    answer = 0 if len(weights) == 1 else _rounds(_factor(weights), fold)
    return 0 if answer == math.inf else answer


def norm_of_what_is_left(weights, fold):
    """NumPy's: the norm of W minus the matrix that takes the mean."""
    left = weights.numpy() - 1 / len(weights)
    factor = np.linalg.norm(left, 2)
    if factor > 1 - 1e-9 or factor < 1e-9:
        return math.inf if factor > 0.5 else int(len(weights) > 1)
    return np.ceil(np.log(fold) / -np.log(factor))


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


def a_third(ranks):
    return 1 / 3


def nothing_of_its_own(ranks):
    return 0


def one_half(ranks):
    return 0.5


def one_over_ranks(ranks):
    return 1 / ranks


def even_formula(ranks):
    both = math.cos(2 * math.pi / ranks) - 1
    return -both / (2 - both)


def coarse_grid(ranks):
    grid = [step / 20 for step in range(21)]
    return min(grid, key=lambda a: agreement_factor(ring_mixing_matrix(ranks, a)))


def second_with_its_sign_smallest(ranks):
    def second(a):
        return torch.linalg.eigvalsh(ring_mixing_matrix(ranks, a))[-2].item()

    return min((step / 1000 for step in range(1001)), key=second)


def returns_the_factor(ranks):
    return agreement_factor(ring_mixing_matrix(ranks, fine_grid(ranks)))


def weight_of_a_neighbour(ranks):
    return (1 - crossing(ranks)) / 2


def may_be_negative(ranks):
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    both = max(cosines) + min(cosines)
    return both / (2 - both)


def crossing(ranks):
    cosines = [math.cos(2 * math.pi * k / ranks) for k in range(1, ranks)]
    both = max(cosines) + min(cosines)
    return -both / (2 - both)


def fine_grid(ranks):
    cosines = np.cos(2 * np.pi * np.arange(1, ranks) / ranks)
    grid = np.arange(0, 1001)[:, None] / 1000
    worst = np.abs(grid + (1 - grid) * cosines).max(1)
    return grid[worst.argmin(), 0]


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


WRONG = {
    "12b-local": [
        Wrong(
            "no_last_meeting",
            forgets_the_last_round,
            "if they do not fill a round",
            note="No error, a good loss, and as many models as ranks.",
        ),
        Wrong("two_last_meetings", meets_twice_at_the_end, "held twice"),
        Wrong("counts_from_zero", counts_from_zero, "counted from 1"),
        Wrong("first_step_too", counts_from_zero_and_meets_last, "counted from 1"),
        Wrong("only_at_the_end", meets_at_the_end_only, "not only at the end"),
        Wrong("each_step", meets_after_each_step, "not after each step"),
        Wrong("sum", _local_with(_sum_of_models), "its mean over all ranks"),
        Wrong("sends_frozen", _local_with(_meet_with_frozen), "number that is trained"),
        Wrong("sends_buffers", _local_with(_meet_with_buffers), "number that is"),
        Wrong("layer_by_layer", module_by_module, "a meeting does|that is trained"),
        Wrong("mean_of_a_copy", _local_with(_mean_of_copies), "what a meeting does"),
        Wrong("model_of_rank_0", _local_with(_model_of_rank_0), "what a meeting does"),
        Wrong("gathers", _local_with(_gather_all), "dist.all_reduce, and no other"),
        Wrong("averages_gradients", averages_gradients, "what a meeting does"),
        Wrong("old_gradients", keeps_old_gradients, "a meeting does|every"),
        Wrong("momentum", uses_momentum, "what a meeting does"),
        Wrong("drops_the_rest", only_full_rounds, "a meeting does"),
        Wrong("empties_the_list", empties_the_list, "not the batches"),
        Wrong("returns_nothing", _local_with(_meet, _nothing), "number of meetings"),
        Wrong("returns_model", _local_with(_meet, _meetings_and_model), "number of"),
    ],
    "12b-rounds": [
        Wrong(
            "second_with_sign",
            second_with_its_sign,
            "eigenvalue -1|the modulus",
            note="Case (b) by hand tells: they swap for ever.",
        ),
        Wrong("modulus_of_second", modulus_of_the_second, "eigenvalue -1|the modulus"),
        Wrong("rounds_down", rounds_down, "not yet enough"),
        Wrong("not_rounded", not_rounded, "a whole number"),
        Wrong("no_special_cases", without_special_cases, "never fades|math.inf|alone"),
        Wrong("one_rank_raises", one_rank_raises, "one rank alone"),
        Wrong("largest", largest_eigenvalue, "lasts longest"),
        Wrong("smallest", smallest_eigenvalue, "eigenvalue|lasts longest"),
        Wrong("skips_all_ones", skips_all_ones, "eigenvalue -1|never hear"),
        Wrong("squared_distance", squared_distance, "lasts longest"),
        Wrong("one_too_many", one_round_too_many, "is one fewer enough"),
        Wrong("one_start", from_rank_0, "lasts longest|never hear|not yet enough"),
        Wrong("changes_the_weights", changes_the_weights, "may change: nothing"),
        Wrong("zero_for_never", zero_for_never, "for ever"),
    ],
    "12b-weights": [
        Wrong(
            "nothing_of_its_own",
            nothing_of_its_own,
            "never agrees. Which pattern",
            note="It sounds right that listening only is fastest.",
        ),
        Wrong("a_third", a_third, "would a"),
        Wrong("one_half", one_half, "a smaller weight"),
        Wrong("one_over_ranks", one_over_ranks, "would a"),
        Wrong("even_formula", even_formula, "would a smaller"),
        Wrong("coarse_grid", coarse_grid, "would a"),
        Wrong("sign_forgotten", second_with_its_sign_smallest, "never agrees|would a"),
        Wrong("the_factor", returns_the_factor, "would a"),
        Wrong("weight_of_a_neighbour", weight_of_a_neighbour, "would a"),
        Wrong("sign_of_the_formula", may_be_negative, "from 0 to 1"),
    ],
}
RIGHT = {
    "12b-local": [
        Right("in_rounds", in_rounds),
        Right("one_flat_message", one_flat_message),
    ],
    "12b-rounds": [
        Right("norm_of_what_is_left", norm_of_what_is_left),
        Right("round_by_round", round_by_round),
    ],
    "12b-weights": [
        Right("fine_grid", fine_grid),
        Right("ternary_search", ternary_search),
    ],
}
