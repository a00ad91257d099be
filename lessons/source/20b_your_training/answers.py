"""Wrong answers to the exercises of lesson 20b, and unusual right ones."""

import itertools
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.capstone.language_model import text_loss

# 20b-pairs ----------------------------------------------------------------------------


def bits_by(firsts_of=lambda text: text[:-1], log=math.log2, words=len):
    """A model of pairs with one thing done otherwise."""

    def pair_bits(text, held_out, alphabet):
        pairs, firsts = Counter(pairwise(text)), Counter(firsts_of(text))
        bits = [
            -log((pairs[a, b] + 1) / (firsts[a] + words(alphabet)))
            for a, b in pairwise(held_out)
        ]
        return sum(bits) / len(bits)

    return pair_bits


wrong(
    "20b-pairs",
    advice=r"n\(a\) = 2.* last character begins none",
    name="last_character",
    note="`text.count(a)` counts the last character, which begins no pair.",
)(bits_by(firsts_of=lambda text: text))
wrong(
    "20b-pairs",
    advice="to the base 2",
    name="nats",
    note="`math.log` is the natural logarithm.",
)(bits_by(log=math.log))
wrong(
    "20b-pairs",
    advice="nothing was counted",
    name="smoothed_above_only",
    note="They add 1 above the line and forget V below it.",
)(bits_by(words=lambda alphabet: 0))


@wrong(
    "20b-pairs",
    advice="Overlapping pairs of text count",
    note="`str.count` does not count pairs that overlap, such as both in `aaa`.",
)
def bits_of_nonoverlapping_pairs(text, held_out, alphabet):
    bits = [
        -math.log2((text.count(a + b) + 1) / (text[:-1].count(a) + len(alphabet)))
        for a, b in pairwise(held_out)
    ]
    return sum(bits) / len(bits)


@wrong(
    "20b-pairs",
    advice=r"n\(a\) = 2, V = 2, P = 0.25",
    note="They divide by all pairs: the chance of the pair, not of b after a.",
)
def bits_of_joint_chances(text, held_out, alphabet):
    pairs, size = Counter(pairwise(text)), len(alphabet) ** 2
    total = max(0, len(text) - 1)
    bits = [-math.log2((pairs[p] + 1) / (total + size)) for p in pairwise(held_out)]
    return sum(bits) / len(bits)


@wrong(
    "20b-pairs",
    advice="go through the whole text",
    state="HUNG",
    note="Right, and a book would take hours.",
)
def bits_with_a_pass_for_each_pair(text, held_out, alphabet):
    total = 0.0
    for a, b in pairwise(held_out):
        together = sum(pair == (a, b) for pair in pairwise(text))
        first = sum(c == a for c in text[:-1])
        total -= math.log2((together + 1) / (first + len(alphabet)))
    return total / (len(held_out) - 1)


@right("20b-pairs")
def bits_by_matrix(text, held_out, alphabet):
    place = {character: number for number, character in enumerate(alphabet)}
    counts = np.ones((len(alphabet), len(alphabet)))
    for a, b in itertools.pairwise(text):
        counts[place[a], place[b]] += 1
    chances = counts / counts.sum(1, keepdims=True)
    numbers = [place[character] for character in held_out]
    return -np.log2(chances[numbers[:-1], numbers[1:]]).mean()


@right("20b-pairs")
def bits_by_cross_entropy(text, held_out, alphabet):
    pairs = torch.ones(len(alphabet), len(alphabet), dtype=torch.float64)
    for a, b in pairwise(map(alphabet.index, text)):
        pairs[a, b] += 1
    asked = torch.tensor([alphabet.index(c) for c in held_out])
    return F.cross_entropy(pairs.log()[asked[:-1]], asked[1:]) / math.log(2)


# 20b-place ----------------------------------------------------------------------------


def place_by(
    rounded=lambda windows, batch: -(-windows // batch),
    cut=lambda whole, rank, ranks: whole[rank::ranks],
):
    def windows_of_step(step, rank, ranks, batch, windows, order):
        epoch, place = divmod(step, rounded(windows, batch))
        return cut(order(epoch)[place * batch : (place + 1) * batch], rank, ranks)

    return windows_of_step


wrong(
    "20b-place",
    advice="in which epoch is step",
    name="no_short_batch",
    note="`windows // batch` forgets the short last batch: later epochs shift.",
)(place_by(lambda windows, batch: max(1, windows // batch)))


@wrong(
    "20b-place",
    advice="in which epoch is step",
    note="They take the order of epoch 0 for all epochs.",
)
def place_in_the_first_order(step, rank, ranks, batch, windows, order):
    return place_by()(step, rank, ranks, batch, windows, lambda epoch: order(0))


wrong(
    "20b-place",
    advice="dealt to this rank",
    name="one_piece",
    note="They cut the batch into consecutive pieces instead of dealing it.",
)(place_by(cut=lambda whole, rank, ranks: np.array_split(whole, ranks)[rank].tolist()))
wrong(
    "20b-place",
    advice="dealt to this rank",
    name="whole_batch",
    note="They forget to take their share.",
)(place_by(cut=lambda whole, rank, ranks: whole))


@wrong(
    "20b-place",
    advice="in which epoch|once is enough",
    note="They let a batch run on into the next epoch.",
)
def place_across_epochs(step, rank, ranks, batch, windows, order):
    numbers = range(step * batch, (step + 1) * batch)
    orders = {n // windows: order(n // windows) for n in numbers}
    return [orders[n // windows][n % windows] for n in numbers][rank::ranks]


@wrong(
    "20b-place",
    advice="the last batch of an epoch",
    note="They fill the last batch up from the beginning, as DistributedSampler does.",
)
def place_padded(step, rank, ranks, batch, windows, order):
    epoch, place = divmod(step, -(-windows // batch))
    numbers = order(epoch)
    whole = [numbers[(place * batch + i) % windows] for i in range(batch)]
    return whole[rank::ranks]


@right("20b-place")
def place_by_numbers(step, rank, ranks, batch, windows, order):
    epoch, place = divmod(step, -(-windows // batch))
    places = range(place * batch + rank, min(windows, (place + 1) * batch), ranks)
    numbers = order(epoch)
    return [numbers[p] for p in places]


@right("20b-place")
def place_by_slices(step, rank, ranks, batch, windows, order):
    epoch, place = divmod(step, math.ceil(windows / batch))
    numbers = np.array(order(epoch))
    return numbers[place * batch + rank : min(windows, (place + 1) * batch) : ranks]


# 20b-fast -----------------------------------------------------------------------------


def _rows(inputs, targets):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return inputs[rank::ranks], targets[rank::ranks]


def _own_gradients(model, inputs, targets, scale):
    """This rank's loss and gradients, each times scale(own rows, all rows, ranks)."""
    x, y = _rows(inputs, targets)
    loss = text_loss(model(x), y) * scale(len(x), len(inputs), dist.get_world_size())
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return [loss.detach().view(1), *gradients]


def _update(model, gradients, lr):
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= lr * gradient


def _summed(parts):
    flat = torch.cat([part.flatten() for part in parts])
    dist.all_reduce(flat)
    sizes = [part.numel() for part in parts]
    pieces = zip(flat.split(sizes), parts, strict=True)
    return [piece.view_as(part) for piece, part in pieces]


def share(own, rows, ranks):
    return own / rows


def fast_by(scale=share, sum_up=_summed, gradients=_own_gradients):
    """The shared training with one thing done otherwise."""

    def fast_training(model, batches, lr):
        losses = []
        for inputs, targets in batches:
            parts = sum_up(gradients(model, inputs, targets, scale))
            _update(model, parts[1:], lr)
            losses.append(parts[0].item())
        return losses

    return fast_training


def _mean_loss_of_all(parts):
    """Gradients as they are, the loss alone from everybody."""
    dist.all_reduce(parts[0])
    return parts


def _sum_for_each(parts):
    for part in parts:
        dist.all_reduce(part)
    return parts


wrong(
    "20b-fast",
    advice="unequal shares|rows of all ranks",
    name="means_of_means",
    note="The mean of the ranks' means is right only if all have equally many.",
)(fast_by(lambda own, rows, ranks: 1 / ranks))


wrong(
    "20b-fast",
    advice="the gradient of the mean",
    name="no_sum",
    note="They sum the loss and forget the gradients.",
)(fast_by(sum_up=_mean_loss_of_all))
wrong(
    "20b-fast",
    advice="may travel together",
    state="TOO SLOW",
    name="many_messages",
    note="A message for each parameter: alpha, paid again and again.",
)(fast_by(sum_up=_sum_for_each))


def _of_whole_batch(model, inputs, targets, scale):
    """Right, and no faster than one process."""
    loss = text_loss(model(inputs), targets)
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def _row_by_row(model, inputs, targets, scale):
    x, y = _rows(inputs, targets)
    total = [torch.zeros(1, dtype=next(model.parameters()).dtype)]
    total += [torch.zeros_like(p) for p in model.parameters()]
    for row, goal in zip(x.split(1), y.split(1), strict=True):
        loss = text_loss(model(row), goal) / len(inputs)
        parts = [loss, *torch.autograd.grad(loss, list(model.parameters()))]
        for sum_, part in zip(total, parts, strict=True):
            sum_ += part.detach()
    return total


def _all_but_the_last(parts):
    silent = dist.get_rank() and dist.get_rank() == dist.get_world_size() - 1
    return parts if silent else _summed(parts)


wrong(
    "20b-fast",
    advice="could share the work",
    state="TOO SLOW",
    name="alone",
    note="Right, and every rank does all of it.",
)(fast_by(gradients=_of_whole_batch, sum_up=lambda parts: parts))
wrong(
    "20b-fast",
    advice="few large operations",
    state="TOO SLOW",
    name="row_by_row",
    note="They share the rows but keep the slow loop over them.",
)(fast_by(gradients=_row_by_row))


wrong(
    "20b-fast",
    advice="sends as often",
    state="HUNG",
    name="one_silent_rank",
    note="The last rank leaves out a collective that the others call.",
)(fast_by(sum_up=_all_but_the_last))


@right("20b-fast")
def fast_by_ddp(model, batches, lr):
    """torch's DDP, which divides by the ranks; momentum-free SGD of torch."""
    replica, ranks = DistributedDataParallel(model), dist.get_world_size()
    sgd, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for inputs, targets in batches:
        x, y = _rows(inputs, targets)
        loss = text_loss(replica(x), y) * len(x) / len(inputs)
        sgd.zero_grad()
        (loss * ranks).backward()
        sgd.step()
        losses.append(loss.detach())
    total = torch.stack(losses)
    dist.all_reduce(total)
    return total.tolist()


def _of_consecutive_rows(model, inputs, targets, scale):
    """In two micro-batches, whose gradients add up."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = inputs.tensor_split(ranks)[rank], targets.tensor_split(ranks)[rank]
    model.zero_grad()
    total = torch.zeros(1, dtype=next(model.parameters()).dtype)
    for part, goal in zip(x.chunk(2), y.chunk(2), strict=True):
        loss = F.cross_entropy(model(part), goal.flatten(), reduction="sum")
        (loss / targets.numel()).backward()
        total += loss.detach() / targets.numel()
    return [total, *(p.grad for p in model.parameters())]


right("20b-fast", name="pieces")(fast_by(gradients=_of_consecutive_rows))
