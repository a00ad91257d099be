"""Wrong answers to the exercises of lesson 09, and unusual right ones."""

from itertools import pairwise

import numpy as np
import torch

from lessons.source.sample_answers import Right, Wrong

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


def reduce_mean_of_means(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g for g, _ in terms) / len(terms))


def reduce_sum(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g for g, _ in terms))


def reduce_sum_of_sums(replicas, sizes):
    _reduce(replicas, sizes, lambda terms: sum(g * s for g, s in terms))


def reduce_by_images_with_a_gradient(replicas, sizes):
    _reduce(
        replicas,
        sizes,
        lambda terms: sum(g * s for g, s in terms) / sum(s for _, s in terms),
    )


def reduce_leaves_gradients(replicas, sizes):
    kept = [[p.grad for p in replica.parameters()] for replica in replicas]
    reduce_right(replicas, sizes)
    for replica, gradients in list(zip(replicas, kept, strict=True))[1:]:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            parameter.grad = gradient


def reduce_zeros_in_place_of_none(replicas, sizes):
    reduce_right(replicas, sizes)
    for parameter in replicas[0].parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


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


def reduce_skips_what_replica_0_lacks(replicas, sizes):
    first = [parameter.grad is None for parameter in replicas[0].parameters()]
    reduce_right(replicas, sizes)
    for missing, parameter in zip(first, replicas[0].parameters(), strict=True):
        if missing:
            parameter.grad = None


def reduce_without_none(replicas, sizes):
    total = sum(sizes)
    for group in zip(*(replica.parameters() for replica in replicas), strict=True):
        gradient = sum(
            p.grad * (size / total) for p, size in zip(group, sizes, strict=True)
        )
        for parameter in group:
            parameter.grad = None
        group[0].grad = gradient


def reduce_and_update(replicas, sizes):
    reduce_right(replicas, sizes)
    with torch.no_grad():
        for parameter in replicas[0].parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def reduce_drops_empty_replicas(replicas, sizes):
    full = [r for r, size in zip(replicas, sizes, strict=True) if size]
    while 0 in sizes:
        sizes.remove(0)
    reduce_right(full, sizes)
    for replica in replicas:
        if replica not in full:
            replica.zero_grad()


def reduce_means_of_buffers(replicas, sizes):
    reduce_right(replicas, sizes)
    for replica in replicas:
        for buffer in replica.buffers():
            buffer /= len(replicas)


def reduce_returns(replicas, sizes):
    reduce_right(replicas, sizes)
    return [parameter.grad for parameter in replicas[0].parameters()]


def reduce_right(replicas, sizes):
    total = sum(sizes)
    _reduce(replicas, sizes, lambda terms: sum(g * s for g, s in terms) / total)


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

WRONG = {
    "09-scatter": [
        Wrong(
            "in_chunks",
            (scatter_in_chunks, torch.cat),
            "2 parts|3 parts.*How many pieces",
            note="chunk(4) of five rows returns three pieces.",
        ),
        Wrong("by_split", (scatter_by_split, torch.cat), "How many pieces"),
        Wrong(
            "without_the_rest",
            (scatter_without_the_rest, torch.cat),
            "every row is in exactly one part",
        ),
        Wrong(
            "the_rest_to_the_last",
            (scatter_rest_to_the_last, torch.cat),
            "sizes differ by one at most",
        ),
        Wrong("like_cards", (scatter_like_cards, torch.cat), "not all the rows in"),
        Wrong("copies", (scatter_copies, torch.cat), "who copies the rows"),
        Wrong(
            "makes_contiguous",
            (scatter_contiguous, torch.cat),
            "who copies the rows",
            note="It copies where the batch is every second column of another.",
        ),
        Wrong("images_only", (scatter_images_only, torch.cat), "what is in a part"),
        Wrong("each_tensor", (scatter_each_tensor, torch.cat), "how many parts"),
        Wrong(
            "cut_the_way_back", (scatter_detached, torch.cat), "did something detach"
        ),
        Wrong("two_tensors_only", (scatter_two_tensors, torch.cat), "unpack"),
        Wrong("gather_detached", (_scatter, gather_detached), "detach"),
        Wrong(
            "gather_as_a_new_leaf",
            (_scatter, gather_as_new_leaf),
            "something detach",
            note="As our class does, which then calls backward by itself.",
        ),
        Wrong("gather_stacked", (_scatter, gather_stacked), "stack|shape"),
        Wrong("gather_last_first", (_scatter, gather_last_first), "part 0 first"),
        Wrong("gather_lists", (_scatter, gather_lists), "float64|detach"),
        Wrong(
            "empties_the_list", (_scatter, gather_that_empties_the_list), "whose list"
        ),
    ],
    "09-reduce": [
        Wrong(
            "mean_of_means",
            reduce_mean_of_means,
            "The mean of means is not the mean",
            note="Right as long as all parts are equal.",
        ),
        Wrong("sum", reduce_sum, "2.00 times the batch's gradient"),
        Wrong("sum_of_sums", reduce_sum_of_sums, "8.00 times the batch's gradient"),
        Wrong(
            "images_with_a_gradient",
            reduce_by_images_with_a_gradient,
            "those of a replica without a gradient count, too",
        ),
        Wrong("leaves_gradients", reduce_leaves_gradients, "still has gradients"),
        Wrong(
            "zeros_for_none",
            reduce_zeros_in_place_of_none,
            "leave this parameter alone",
        ),
        Wrong(
            "multiplies_nan",
            reduce_multiplies_nan,
            "NaN when it is multiplied by 0",
            note="0 · NaN is NaN.",
        ),
        Wrong(
            "skips_what_replica_0_lacks",
            reduce_skips_what_replica_0_lacks,
            "that only other replicas have",
        ),
        Wrong("stumbles_over_none", reduce_without_none, "NoneType"),
        Wrong("updates_too", reduce_and_update, "comes later: the update"),
        Wrong("changes_buffers", reduce_means_of_buffers, "parameters or buffers"),
        Wrong("drops_sizes", reduce_drops_empty_replicas, "has become"),
        Wrong("returns_gradients", reduce_returns, "in `.grad` of replica 0"),
    ],
    "09-museum": [
        Wrong(
            "a_deep_copy_of_nothing",
            _with(A={3: "models = [model for _ in range(replicas)]"}),
            "weights for 1 of 2 replicas",
        ),
        Wrong(
            "a_shorter_step_of_one_model",
            _with(A={10: "gradient = first.grad / replicas"}),
            "weights for 1 of 2",
            note="The step is right then, and there is still only one model.",
        ),
        Wrong(
            "divides_by_two",
            _with(B={9: "dist.all_reduce(parameter.grad)\nparameter.grad /= 2"}),
            "exhibit B, repaired, in 3 ranks",
        ),
        Wrong(
            "another_seed", _with(C={3: "model = make_model(rank + 1)"}), "start equal"
        ),
        Wrong(
            "equal_parts_instead",
            _with(D={7: "mine = my_share(y)"}),
            "how many images stand behind",
        ),
        Wrong(
            "updates_twice",
            _with(E={12: "sgd.step()\nsgd.zero_grad()"}),
            "apart in the end",
            note="The update is added behind the reduce, and the old one stays.",
        ),
        Wrong(
            "mean_of_shares",
            _with(
                F={
                    6: COUNT.replace("sum", "double().mean")
                    + "\ndist.all_reduce(right)",
                    7: "yield right.item() / ranks",
                }
            ),
            r"0\.853\d{7} on rank 0.*parts are not all of one size",
            note="So near that four digits are the same.",
        ),
        Wrong(
            "number_of_the_line_copied_too",
            _with(B={9: "9  " + MEAN.splitlines()[0]}),
            "a new line 9 that is not Python",
        ),
        Wrong("an_empty_block", _with(B={9: ""}), "May this block be empty"),
        Wrong("no_clipping", _with(G={8: ""}), "on all ranks alike|that is clipped"),
        Wrong(
            "clips_before_and_after",
            _with(G={12: CLIP + "\nsgd.step()"}),
            "on all ranks alike|the gradient that is clipped",
        ),
        Wrong(
            "clips_the_sum",
            _with(G={8: "", 11: "", 12: CLIP + "\nsgd.step()"}),
            "exhibit G",
            note="The sum is longer than the mean, so it is cut sooner.",
        ),
        Wrong("some_are_left", {"A": REPAIRED["A"], "B": REPAIRED["B"]}, "C, D to go"),
        Wrong("not_a_dictionary", ["A 3", "B 9"], "the form of the answer"),
        Wrong("a_number_only", _with(A=3), "the form of a repair"),
        Wrong(
            "rank_0_reduces_alone",
            _with(
                F={
                    6: COUNT + "\nif rank == 0: dist.all_reduce(right)",
                    7: "yield right.item() / len(y)",
                }
            ),
            "rank 0",
            state="HUNG",
        ),
        Wrong("a_line_that_is_none", _with(A={99: "pass"}), "numbers of its lines"),
    ],
}

RIGHT = {
    "09-scatter": [
        Right("by_slices", (scatter_by_slices, gather_in_place)),
        Right("numpy_says_where_to_cut", (scatter_with_numpy, torch.cat)),
        Right("vertically", (_scatter, torch.concatenate)),
    ],
    "09-reduce": [
        Right("stacked", reduce_with_stack),
        Right("in_place", reduce_in_place),
    ],
    "09-museum": [
        Right("another_way", ANOTHER_WAY),
        Right("the_four_that_are_asked_for", {name: REPAIRED[name] for name in "DCBA"}),
        Right("a_third_way", THIRD_WAY),
        Right("indented_as_in_the_program", _with(B={9: INDENTED})),
    ],
}
