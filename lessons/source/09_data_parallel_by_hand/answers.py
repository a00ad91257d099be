"""Wrong answers to the exercises of lesson 09, and unusual right ones."""

from itertools import pairwise

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong

# 09-scatter ---------------------------------------------------------------------------


def scatter_right(batch, parts):
    return list(zip(*(tensor.tensor_split(parts) for tensor in batch), strict=True))


def with_cat(scatter):
    return scatter, torch.cat


def after_scatter(gather):
    return scatter_right, gather


@wrong(
    "09-scatter",
    advice="a list of 3.*how many pieces",
    note="chunk(4) of five rows returns three pieces.",
    given=with_cat,
)
def scatter_in_chunks(batch, parts):
    return list(zip(*(tensor.chunk(parts) for tensor in batch), strict=True))


@wrong(
    "09-scatter",
    advice="every row is in exactly one part",
    note="Rounded down, and the rows beyond the last full part are forgotten.",
    given=with_cat,
)
def scatter_without_the_rest(batch, parts):
    size = len(batch[0]) // parts
    return [tuple(t[n * size : (n + 1) * size] for t in batch) for n in range(parts)]


@wrong(
    "09-scatter",
    advice="sizes differ by one at most",
    note="All that is left over goes to the last part, which is then the largest.",
    given=with_cat,
)
def scatter_rest_to_the_last(batch, parts):
    size = len(batch[0]) // parts
    ends = [*(n * size for n in range(parts)), len(batch[0])]
    return [tuple(t[a:b] for t in batch) for a, b in pairwise(ends)]


@wrong(
    "09-scatter",
    advice="too many values to unpack",
    note="Images and labels are only an example of a batch.",
    given=with_cat,
)
def scatter_images_and_labels(batch, parts):
    images, labels = (tensor.tensor_split(parts) for tensor in batch)
    return list(zip(images, labels, strict=True))


@wrong(
    "09-scatter",
    advice="detach",
    note="Without the graph, nothing leads back from the loss to the replicas.",
    given=after_scatter,
)
def gather_detached(outputs):
    return torch.cat([output.detach() for output in outputs])


@wrong(
    "09-scatter",
    advice="stack",
    note="stack adds a dimension, and wants parts of equal size.",
    given=after_scatter,
)
def gather_stacked(outputs):
    return torch.stack(outputs)


def gather_in_place(outputs):
    rows = sum(len(output) for output in outputs)
    whole, start = outputs[0].new_empty(rows, *outputs[0].shape[1:]), 0
    for output in outputs:
        whole[start : start + len(output)] = output
        start += len(output)
    return whole


@right("09-scatter", given=lambda scatter: (scatter, gather_in_place))
def scatter_by_slices(batch, parts):
    size, more = divmod(len(batch[0]), parts)
    found, start = [], 0
    for part in range(parts):
        end = start + size + (part < more)
        found.append([tensor[start:end] for tensor in batch])
        start = end
    return tuple(found)


@right("09-scatter", given=with_cat)
def scatter_with_numpy(batch, parts):
    cuts = [len(a) for a in np.array_split(np.arange(len(batch[0])), parts)]
    pieces = [tensor.split(cuts) for tensor in batch]
    return [tuple(piece[n] for piece in pieces) for n in range(parts)]


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

wrong(
    "09-museum",
    advice="weights for 1 of 2 replicas",
    note="The list has as many entries, and all of them are one model.",
    name="one_model_in_a_list",
)(_with(A={3: "models = [model for _ in range(replicas)]"}))
wrong(
    "09-museum",
    advice="exhibit B, repaired, 3 replicas",
    note="The number of ranks that one has just tried, written into the program.",
    name="divides_by_two",
)(_with(B={9: "dist.all_reduce(parameter.grad)\nparameter.grad /= 2"}))
wrong(
    "09-museum",
    advice="start equal",
    note="Any seed but 0 is thought to do, and rank is still in it.",
    name="another_seed",
)(_with(C={3: "model = make_model(rank + 1)"}))
wrong(
    "09-museum",
    advice="how many images stand behind",
    note="They look for the mistake in the shares, which may well be unequal.",
    name="equal_parts_instead",
)(_with(D={7: "mine = my_share(y)"}))
wrong(
    "09-museum",
    advice="apart in the end",
    note="The update is added behind the reduce, and the old one stays.",
    name="updates_twice",
)(_with(E={12: "sgd.step()\nsgd.zero_grad()"}))
MEAN_OF_SHARES = {
    6: COUNT.replace("sum", "double().mean") + "\ndist.all_reduce(right)",
    7: "yield right.item() / ranks",
}
wrong(
    "09-museum",
    advice=r"0\.853\d{7} on rank 0.*parts are not all of one size",
    note="So near that four digits are the same.",
    name="mean_of_shares",
)(_with(F=MEAN_OF_SHARES))
right("09-museum", name="another_way")(ANOTHER_WAY)
right("09-museum", name="the_four")({name: REPAIRED[name] for name in "DCBA"})
