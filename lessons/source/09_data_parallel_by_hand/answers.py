"""Wrong answers to the exercises of lesson 09, and unusual right ones."""

from itertools import pairwise

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong

# 09-scatter ---------------------------------------------------------------------------


def _scatter(batch, parts):
    return list(zip(*(tensor.tensor_split(parts) for tensor in batch), strict=True))


def scatter_in_chunks(batch, parts):
    return list(zip(*(tensor.chunk(parts) for tensor in batch), strict=True))


def scatter_by_split(batch, parts):
    size = max(1, len(batch[0]) // parts)
    return list(zip(*(tensor.split(size) for tensor in batch), strict=True))


def scatter_without_the_rest(batch, parts):
    size = len(batch[0]) // parts
    return [tuple(t[n * size : (n + 1) * size] for t in batch) for n in range(parts)]


def scatter_rest_to_the_last(batch, parts):
    size = len(batch[0]) // parts
    ends = [*(n * size for n in range(parts)), len(batch[0])]
    return [tuple(t[a:b] for t in batch) for a, b in pairwise(ends)]


def scatter_like_cards(batch, parts):
    return [tuple(tensor[n::parts] for tensor in batch) for n in range(parts)]


def scatter_copies(batch, parts):
    return [tuple(piece.clone() for piece in part) for part in _scatter(batch, parts)]


def scatter_contiguous(batch, parts):
    return [tuple(piece.contiguous() for piece in p) for p in _scatter(batch, parts)]


def scatter_images_only(batch, parts):
    return list(batch[0].tensor_split(parts))


def scatter_each_tensor(batch, parts):
    return [tensor.tensor_split(parts) for tensor in batch]


def scatter_detached(batch, parts):
    return [tuple(piece.detach() for piece in part) for part in _scatter(batch, parts)]


def scatter_two_tensors(batch, parts):
    images, labels = batch
    return _scatter((images, labels), parts)


def gather_detached(outputs):
    return torch.cat([output.detach() for output in outputs])


def gather_as_new_leaf(outputs):
    return torch.cat([output.detach() for output in outputs]).requires_grad_()


def gather_stacked(outputs):
    return torch.stack(outputs)


def gather_last_first(outputs):
    return torch.cat(outputs[::-1])


def gather_lists(outputs):
    return torch.tensor([row for output in outputs for row in output.tolist()])


def gather_that_empties_the_list(outputs):
    whole = outputs.pop(0)
    while outputs:
        whole = torch.cat([whole, outputs.pop(0)])
    return whole


def scatter_by_slices(batch, parts):
    size, more = divmod(len(batch[0]), parts)
    found, start = [], 0
    for part in range(parts):
        end = start + size + (part < more)
        found.append([tensor[start:end] for tensor in batch])
        start = end
    return tuple(found)


def gather_in_place(outputs):
    rows = sum(len(output) for output in outputs)
    whole, start = outputs[0].new_empty(rows, *outputs[0].shape[1:]), 0
    for output in outputs:
        whole[start : start + len(output)] = output
        start += len(output)
    return whole


def scatter_with_numpy(batch, parts):
    cuts = [len(a) for a in np.array_split(np.arange(len(batch[0])), parts)]
    pieces = [tensor.split(cuts) for tensor in batch]
    return [tuple(piece[n] for piece in pieces) for n in range(parts)]


# 09-reduce ----------------------------------------------------------------------------


def _reduce(replicas, sizes, combine, clear=True):
    for group in zip(*(replica.parameters() for replica in replicas), strict=True):
        pairs = list(zip(group, sizes, strict=True))
        terms = [(p.grad, s) for p, s in pairs if s and p.grad is not None]
        for parameter in group[0 if clear else len(group) :]:
            parameter.grad = None
        if terms:
            group[0].grad = combine(terms)


@wrong(
    "09-reduce",
    advice="The mean of means is not the mean",
    note="Right as long as all parts are equal.",
)
def reduce_mean_of_means(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g for g, _ in terms) / len(terms))


@wrong("09-reduce", advice="2.00 times the batch's gradient")
def reduce_sum(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g for g, _ in terms))


@wrong("09-reduce", advice="8.00 times the batch's gradient")
def reduce_sum_of_sums(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g * s for g, s in terms))


@wrong("09-reduce", advice="those of a replica without a gradient count, too")
def reduce_by_images_with_a_gradient(replicas, sizes):
    _reduce(
        replicas,
        sizes,
        lambda terms: sum(g * s for g, s in terms) / sum(s for _, s in terms),
    )


@wrong("09-reduce", advice="still has gradients")
def reduce_leaves_gradients(replicas, sizes):
    kept = [[p.grad for p in replica.parameters()] for replica in replicas]
    reduce_right(replicas, sizes)
    for replica, gradients in list(zip(replicas, kept, strict=True))[1:]:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            parameter.grad = gradient


@wrong("09-reduce", advice="leave this parameter alone")
def reduce_zeros_in_place_of_none(replicas, sizes):
    reduce_right(replicas, sizes)
    for parameter in replicas[0].parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


@wrong("09-reduce", advice="NaN when it is multiplied by 0", note="0 · NaN is NaN.")
def reduce_multiplies_nan(replicas, sizes):
    total = sum(sizes)
    for group in zip(*(replica.parameters() for replica in replicas), strict=True):
        terms = [
            p.grad * (size / total)
            for p, size in zip(group, sizes, strict=True)
            if p.grad is not None
        ]
        for parameter in group:
            parameter.grad = None
        if terms:
            group[0].grad = sum(terms)


@wrong("09-reduce", advice="that only other replicas have")
def reduce_skips_what_replica_0_lacks(replicas, sizes):
    first = [parameter.grad is None for parameter in replicas[0].parameters()]
    reduce_right(replicas, sizes)
    for missing, parameter in zip(first, replicas[0].parameters(), strict=True):
        if missing:
            parameter.grad = None


@wrong("09-reduce", advice="NoneType")
def reduce_without_none(replicas, sizes):
    total = sum(sizes)
    for group in zip(*(replica.parameters() for replica in replicas), strict=True):
        gradient = sum(
            p.grad * (size / total) for p, size in zip(group, sizes, strict=True)
        )
        for parameter in group:
            parameter.grad = None
        group[0].grad = gradient


@wrong("09-reduce", advice="comes later: the update")
def reduce_and_update(replicas, sizes):
    reduce_right(replicas, sizes)
    with torch.no_grad():
        for parameter in replicas[0].parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


@wrong("09-reduce", advice="has become")
def reduce_drops_empty_replicas(replicas, sizes):
    full = [r for r, size in zip(replicas, sizes, strict=True) if size]
    while 0 in sizes:
        sizes.remove(0)
    reduce_right(full, sizes)
    for replica in replicas:
        if replica not in full:
            replica.zero_grad()


@wrong("09-reduce", advice="parameters or buffers")
def reduce_means_of_buffers(replicas, sizes):
    reduce_right(replicas, sizes)
    for replica in replicas:
        for buffer in replica.buffers():
            buffer /= len(replicas)


@wrong("09-reduce", advice="in `.grad` of replica 0")
def reduce_returns(replicas, sizes):
    reduce_right(replicas, sizes)
    return [parameter.grad for parameter in replicas[0].parameters()]


def reduce_right(replicas, sizes):
    total = sum(sizes)
    _reduce(replicas, sizes, lambda terms: sum(g * s for g, s in terms) / total)


@right("09-reduce")
def reduce_with_stack(replicas, sizes):
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    for name, parameter in replicas[0].named_parameters():
        group = [replica.get_parameter(name) for replica in replicas]
        used = [n for n, p in enumerate(group) if sizes[n] and p.grad is not None]
        stacked = used and torch.stack([group[n].grad for n in used])
        for other in group:
            other.grad = None
        if used:
            shares_of_used = shares[used].to(stacked)
            parameter.grad = torch.tensordot(shares_of_used, stacked, dims=1)


@right("09-reduce")
def reduce_in_place(replicas, sizes):
    total, into = sum(sizes), list(replicas[0].parameters())
    for replica, size in zip(replicas, sizes, strict=True):
        for parameter in replica.parameters():
            if parameter.grad is not None:
                if size:
                    parameter.grad.mul_(size / total)
                else:
                    parameter.grad = None
    for replica in replicas[1:]:
        for mine, its in zip(into, replica.parameters(), strict=True):
            if its.grad is not None:
                mine.grad = its.grad if mine.grad is None else mine.grad.add_(its.grad)
                its.grad = None


# 09-museum ----------------------------------------------------------------------------

MEAN = "dist.all_reduce(parameter.grad)\nparameter.grad /= dist.get_world_size()"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), LONGEST)"
COUNT = "right = (model(x[mine]).argmax(1) == y[mine]).sum()"
REPAIRED = {
    "A": {3: "models = [make_model() for _ in range(replicas)]"},
    "B": {9: MEAN},
    "C": {3: "model = make_model()"},
    "D": {8: "loss = cross_entropy(model(x[mine]), y[mine]) * len(y[mine]) / len(y)",
          12: ""},
    "E": {8: "", 12: "sgd.step()\nsgd.zero_grad()"},
    "F": {7: "dist.all_reduce(right)\nyield right.item() / len(y)"},
    "G": {8: "", 12: CLIP + "\nsgd.step()"},
}  # fmt: skip


def _with(**changed) -> dict:
    return REPAIRED | changed


ANOTHER_WAY = {
    "A": {3: "models = [model, *(copy.deepcopy(model) for _ in range(replicas - 1))]"},
    "B": {7: "loss = cross_entropy(model(x[mine]), y[mine])\n"
             "(loss / dist.get_world_size()).backward()"},
    "C": {3: "model = make_model(seed=rank)\nfor parameter in model.parameters():\n"
             "    dist.broadcast(parameter.data, src=0)"},
    "D": {8: "loss = cross_entropy(model(x[mine]), y[mine], reduction='sum')\n"
             "loss = loss * ranks / len(y)"},
    "E": {8: "", 9: "for parameter in model.parameters():  # first of all",
          12: "sgd.step()\nmodel.zero_grad()"},
    "F": {5: "mine = slice(0, len(y))"},
    "G": {8: "", 12: CLIP + "\nsgd.step()"},
}  # fmt: skip
INDENTED = "dist.all_reduce(parameter.grad)\n" + 12 * " " + MEAN.splitlines()[1]
THIRD_WAY = _with(
    B={3: "sgd = torch.optim.SGD(model.parameters(), lr=LR / dist.get_world_size())"},
    F={6: "right = (model(x[mine]).argmax(1) == y[mine]).sum()\n"
          "dist.reduce(right, dst=0)", 7: "yield right.item() / len(y)"},
    A={3: "models = [make_model(0) for number in range(replicas)]"},
)  # fmt: skip


wrong(
    "09-scatter",
    advice="2 parts|3 parts.*How many pieces",
    note="chunk(4) of five rows returns three pieces.",
    name="in_chunks",
)((scatter_in_chunks, torch.cat))
wrong("09-scatter", advice="How many pieces", name="by_split")(
    (scatter_by_split, torch.cat)
)
wrong("09-scatter", advice="every row is in exactly one part", name="without_the_rest")(
    (scatter_without_the_rest, torch.cat)
)
wrong("09-scatter", advice="sizes differ by one at most", name="the_rest_to_the_last")(
    (scatter_rest_to_the_last, torch.cat)
)
wrong("09-scatter", advice="not all the rows in", name="like_cards")(
    (scatter_like_cards, torch.cat)
)
wrong("09-scatter", advice="who copies the rows", name="copies")(
    (scatter_copies, torch.cat)
)
wrong(
    "09-scatter",
    advice="who copies the rows",
    note="It copies where the batch is every second column of another.",
    name="makes_contiguous",
)((scatter_contiguous, torch.cat))
wrong("09-scatter", advice="what is in a part", name="images_only")(
    (scatter_images_only, torch.cat)
)
wrong("09-scatter", advice="how many parts", name="each_tensor")(
    (scatter_each_tensor, torch.cat)
)
wrong("09-scatter", advice="did something detach", name="cut_the_way_back")(
    (scatter_detached, torch.cat)
)
wrong("09-scatter", advice="unpack", name="two_tensors_only")(
    (scatter_two_tensors, torch.cat)
)
wrong("09-scatter", advice="detach", name="gather_detached")(
    (_scatter, gather_detached)
)
wrong(
    "09-scatter",
    advice="something detach",
    note="As our class does, which then calls backward by itself.",
    name="gather_as_a_new_leaf",
)((_scatter, gather_as_new_leaf))
wrong("09-scatter", advice="stack|shape", name="gather_stacked")(
    (_scatter, gather_stacked)
)
wrong("09-scatter", advice="part 0 first", name="gather_last_first")(
    (_scatter, gather_last_first)
)
wrong("09-scatter", advice="float64|detach", name="gather_lists")(
    (_scatter, gather_lists)
)
wrong("09-scatter", advice="whose list", name="empties_the_list")(
    (_scatter, gather_that_empties_the_list)
)
wrong("09-museum", advice="weights for 1 of 2 replicas", name="a_deep_copy_of_nothing")(
    _with(A={3: "models = [model for _ in range(replicas)]"})
)
wrong(
    "09-museum",
    advice="weights for 1 of 2",
    note="The step is right then, and there is still only one model.",
    name="a_shorter_step_of_one_model",
)(_with(A={10: "gradient = first.grad / replicas"}))
wrong("09-museum", advice="exhibit B, repaired, in 3 ranks", name="divides_by_two")(
    _with(B={9: "dist.all_reduce(parameter.grad)\nparameter.grad /= 2"})
)
wrong("09-museum", advice="start equal", name="another_seed")(
    _with(C={3: "model = make_model(rank + 1)"})
)
wrong("09-museum", advice="how many images stand behind", name="equal_parts_instead")(
    _with(D={7: "mine = my_share(y)"})
)
wrong(
    "09-museum",
    advice="apart in the end",
    note="The update is added behind the reduce, and the old one stays.",
    name="updates_twice",
)(_with(E={12: "sgd.step()\nsgd.zero_grad()"}))
wrong(
    "09-museum",
    advice=r"0\.853\d{7} on rank 0.*parts are not all of one size",
    note="So near that four digits are the same.",
    name="mean_of_shares",
)(
    _with(
        F={
            6: COUNT.replace("sum", "double().mean") + "\ndist.all_reduce(right)",
            7: "yield right.item() / ranks",
        }
    )
)
wrong(
    "09-museum",
    advice="a new line 9 that is not Python",
    name="number_of_the_line_copied_too",
)(_with(B={9: "9  " + MEAN.splitlines()[0]}))
wrong("09-museum", advice="May this block be empty", name="an_empty_block")(
    _with(B={9: ""})
)
wrong("09-museum", advice="on all ranks alike|that is clipped", name="no_clipping")(
    _with(G={8: ""})
)
wrong(
    "09-museum",
    advice="on all ranks alike|the gradient that is clipped",
    name="clips_before_and_after",
)(_with(G={12: CLIP + "\nsgd.step()"}))
wrong(
    "09-museum",
    advice="exhibit G",
    note="The sum is longer than the mean, so it is cut sooner.",
    name="clips_the_sum",
)(_with(G={8: "", 11: "", 12: CLIP + "\nsgd.step()"}))
wrong("09-museum", advice="C, D to go", name="some_are_left")(
    {"A": REPAIRED["A"], "B": REPAIRED["B"]}
)
wrong("09-museum", advice="the form of the answer", name="not_a_dictionary")(
    ["A 3", "B 9"]
)
wrong("09-museum", advice="the form of a repair", name="a_number_only")(_with(A=3))
wrong("09-museum", advice="rank 0", state="HUNG", name="rank_0_reduces_alone")(
    _with(
        F={
            6: COUNT + "\nif rank == 0: dist.all_reduce(right)",
            7: "yield right.item() / len(y)",
        }
    )
)
wrong("09-museum", advice="numbers of its lines", name="a_line_that_is_none")(
    _with(A={99: "pass"})
)
right("09-scatter", name="by_slices")((scatter_by_slices, gather_in_place))
right("09-scatter", name="numpy_says_where_to_cut")((scatter_with_numpy, torch.cat))
right("09-scatter", name="vertically")((_scatter, torch.concatenate))
right("09-museum", name="another_way")(ANOTHER_WAY)
right("09-museum", name="the_four_that_are_asked_for")(
    {name: REPAIRED[name] for name in "DCBA"}
)
right("09-museum", name="a_third_way")(THIRD_WAY)
right("09-museum", name="indented_as_in_the_program")(_with(B={9: INDENTED}))
