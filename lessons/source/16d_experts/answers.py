"""Wrong and unusual answers to the exercises of lesson 16d."""

# pyright: reportOptionalMemberAccess=false

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.experts import routing

# 16d-dispatch -------------------------------------------------------------------------


def dispatch_flat(choices, experts, pick):
    """Expert by expert what `pick` leaves of its places, and how many."""
    kept = [pick((choices == e).nonzero().flatten()) for e in range(experts)]
    return torch.cat(kept), torch.tensor([len(places) for places in kept])


@wrong(
    "16d-dispatch",
    advice="how many an expert takes of all its choices",
    note="They sort by expert and forget the capacity.",
)
def dispatch_without_capacity(chosen, experts, capacity):
    return routing.dispatch(chosen, experts)


@wrong(
    "16d-dispatch",
    advice="not the token's",
    note="They return tokens: the gate of a choice can no longer be found.",
)
def dispatch_to_tokens(chosen, experts, capacity):
    places, counts = routing.dispatch(chosen, experts, capacity)
    return places // chosen.shape[1], counts


@wrong(
    "16d-dispatch",
    advice="those that were made, or those kept",
    note="The counts are those before the drop: all-to-all would wait for more rows.",
)
def dispatch_with_counts_before_the_drop(chosen, experts, capacity):
    places, _ = routing.dispatch(chosen, experts, capacity)
    return places, routing.choices_of_experts(chosen, experts)


@wrong(
    "16d-dispatch",
    advice="expert 0's places first",
    note="The right ones are kept, in the order of the text.",
)
def dispatch_in_the_order_of_the_text(chosen, experts, capacity):
    places, counts = routing.dispatch(chosen, experts, capacity)
    return places.sort().values, counts


@wrong(
    "16d-dispatch",
    advice="which of an expert's choices are kept",
    note="All first choices go before all second ones, as in GShard.",
)
def dispatch_of_first_choices_first(chosen, experts, capacity):
    tokens, k = chosen.shape
    places, counts = routing.dispatch(chosen.T.contiguous(), experts, capacity)
    return places % tokens * k + places // tokens, counts


@wrong(
    "16d-dispatch",
    advice="also an expert that nobody chooses",
    note="`unique` leaves out the experts that nobody chose.",
)
def dispatch_with_counts_of_chosen_experts(chosen, experts, capacity):
    places, _ = routing.dispatch(chosen, experts, capacity)
    return places, chosen.flatten()[places].unique(return_counts=True)[1]


@wrong(
    "16d-dispatch",
    advice="places and counts, two tensors",
    note="They leave a list, a tensor for each expert, and do not join them.",
)
def dispatch_to_a_list(chosen, experts, capacity):
    places, counts = routing.dispatch(chosen, experts, capacity)
    return places.split(counts.tolist()), counts


@right("16d-dispatch")
def dispatch_by_queues(chosen, experts, capacity):
    queues = [[] for _ in range(experts)]
    for place, expert in enumerate(chosen.flatten().tolist()):
        if len(queues[expert]) < capacity:
            queues[expert].append(place)
    places = [place for queue in queues for place in queue]
    return torch.tensor(places), torch.tensor([len(queue) for queue in queues])


@right("16d-dispatch")
def dispatch_by_running_sums(chosen, experts, capacity):
    """Nobody loops: how many have chosen this expert so far?"""
    choices = chosen.flatten()
    asked = torch.nn.functional.one_hot(choices, experts)
    queue = (asked.cumsum(0) * asked).sum(1)
    order = choices.argsort(stable=True)
    return order[queue[order] <= capacity], asked.sum(0).clamp(max=capacity)


# 16d-combine --------------------------------------------------------------------------


@wrong(
    "16d-combine",
    advice="are they added",
    note="An assignment keeps one of two answers; so does `+=` with an index.",
)
def combine_by_assigning(answers, places, gates):
    total = answers.new_zeros(len(gates), answers.shape[1])
    total[places // gates.shape[1]] += gates.flatten()[places, None] * answers
    return total


@wrong(
    "16d-combine",
    advice="how much each answer counts",
    note="They add the answers and forget the gates.",
)
def combine_without_gates(answers, places, gates):
    return routing.combine(answers, places, torch.ones_like(gates) + 0 * gates)


@wrong(
    "16d-combine",
    advice="the order of the answers",
    note="They take the answers as if they were in the order of the text.",
)
def combine_in_the_order_of_the_text(answers, places, gates):
    return routing.combine(answers, places.sort().values, gates)


@wrong(
    "16d-combine",
    advice="do the others grow",
    note="The gates that are left are divided by their sum, as if nothing was dropped.",
)
def combine_with_gates_that_grow(answers, places, gates):
    used = torch.zeros_like(gates).flatten().index_fill(0, places, 1).view_as(gates)
    left = (gates * used).sum(1, keepdim=True).clamp(min=1e-9)
    return routing.combine(answers, places, gates / left)


@wrong(
    "16d-combine",
    advice="how gates enter the result",
    note="Without the gates' gradient the router never learns.",
)
def combine_with_detached_gates(answers, places, gates):
    return routing.combine(answers, places, gates.detach())


@wrong(
    "16d-combine",
    advice="tokens, choices, or answers",
    note="They use a place as a token: with two choices each there are too few rows.",
)
def combine_with_places_as_tokens(answers, places, gates):
    weighted = gates.flatten()[places, None] * answers
    total = answers.new_zeros(len(gates), answers.shape[1])
    return total.index_add(0, places, weighted)


@wrong(
    "16d-combine",
    advice="by which gate is it multiplied",
    note="They take each token's first gate, also for its second choice.",
)
def combine_with_first_gates(answers, places, gates):
    return routing.combine(answers, places, gates[:, :1].expand_as(gates))


@right("16d-combine")
def combine_in_a_table_of_choices(answers, places, gates):
    table = answers.new_zeros(gates.numel(), answers.shape[1])
    table = table.index_copy(0, places, answers).view(*gates.shape, -1)
    return (gates[..., None] * table).sum(1)


@right("16d-combine")
def combine_by_a_product(answers, places, gates):
    """A matrix that says how much of which answer each token gets."""
    columns = torch.arange(len(places))
    matrix = gates.new_zeros(len(gates), len(places))
    ours = places // gates.shape[1], columns
    return matrix.index_put(ours, gates.flatten()[places]) @ answers


# 16d-who-sums -------------------------------------------------------------------------


def sum_and_divide(layer, group_of, divisor_of):
    """All-reduce over `group_of(name)`; None: over all ranks, False: not at all."""
    for name, parameter in layer.named_parameters():
        group = group_of(name)
        if group is not False:
            dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= divisor_of(name)


def is_expert(name):
    return name.startswith("experts.")


def all_ranks(name):
    return dist.get_world_size()


@wrong(
    "16d-who-sums",
    advice="2 times what it should be",
    note="An expert's sum has the losses of all ranks in it, not of its replicas only.",
)
def divide_experts_by_replicas(layer, replicas):
    def divisor(name):
        return dist.get_world_size(replicas if is_expert(name) else None)

    sum_and_divide(layer, lambda n: replicas if is_expert(n) else None, divisor)


@wrong(
    "16d-who-sums",
    advice="ranks with other ones have anything to add",
    note="DDP's habit: gradients of different experts are added up.",
)
def sum_all_over_everyone(layer, replicas):
    sum_and_divide(layer, lambda name: None, all_ranks)


@wrong(
    "16d-who-sums",
    advice="which ranks have the same expert",
    note="They think that all-to-all has brought all gradients: not the other copy's.",
)
def sum_shared_only(layer, replicas):
    sum_and_divide(layer, lambda n: False if is_expert(n) else None, all_ranks)


@wrong(
    "16d-who-sums",
    advice="which ranks have a copy of it",
    note="All is summed over the replicas, what is shared too.",
)
def sum_all_over_replicas(layer, replicas):
    sum_and_divide(layer, lambda name: replicas, all_ranks)


@wrong(
    "16d-who-sums",
    advice="4 times what it should be.*mean of all ranks",
    note="The sums are right; nobody divides.",
)
def sum_without_dividing(layer, replicas):
    sum_and_divide(layer, lambda n: replicas if is_expert(n) else None, lambda n: 1)


@wrong(
    "16d-who-sums",
    advice="as it was before",
    note="They work on a copy: `parameter.grad / n` is a new tensor.",
)
def sum_copies(layer, replicas):
    for name, parameter in layer.named_parameters():
        gradient = parameter.grad / dist.get_world_size()
        dist.all_reduce(gradient, group=replicas if is_expert(name) else None)


@right("16d-who-sums")
def divide_first(layer, replicas):
    for name, parameter in layer.named_parameters():
        parameter.grad = parameter.grad / dist.get_world_size()
        dist.all_reduce(parameter.grad, group=replicas if is_expert(name) else None)


@right("16d-who-sums")
def sum_in_two_messages(layer, replicas):
    """One all-reduce for the experts, one for the rest."""
    for kind, group in (True, replicas), (False, None):
        some = [p for n, p in layer.named_parameters() if is_expert(n) == kind]
        flat = torch.cat([p.grad.flatten() for p in some]) / dist.get_world_size()
        dist.all_reduce(flat, group=group)
        for p, piece in zip(some, flat.split([p.numel() for p in some]), strict=True):
            p.grad.copy_(piece.view_as(p))
