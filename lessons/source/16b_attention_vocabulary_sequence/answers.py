"""Wrong answers to the exercises of lesson 16b."""

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.tensor_parallel.conjugates import sum_over_ranks
from parallel_by_hand.tensor_parallel.split_block import (
    HELD_WHOLE,
    sum_whole_parameters,
)

# 16b-cross-entropy --------------------------------------------------------------------


def largest_of_all(logits):
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest[:, None]


def own_labels(logits, labels, first):
    """Which labels are this rank's words, and their columns."""
    mine = (labels >= first) & (labels < first + logits.shape[1])
    return mine, ((labels - first) * mine)[:, None]


def loss_of_shifted(shifted, labels, first, total_of=sum_over_ranks):
    mine, place = own_labels(shifted, labels, first)
    of_label = sum_over_ranks(shifted.gather(1, place)[:, 0] * mine)
    return (total_of(shifted.exp().sum(1)).log() - of_label).mean()


@wrong(
    "16b-cross-entropy",
    advice="by each rank the same number",
    note="Sums that have been scaled differently can't be added up.",
)
def loss_with_own_maximum(logits, labels, first):
    largest = logits.detach().amax(1, keepdim=True)
    return loss_of_shifted(logits - largest, labels, first)


@wrong(
    "16b-cross-entropy",
    advice="whose word|not this rank's word",
    note="They forget to subtract `first` from the labels.",
)
def loss_with_local_labels(logits, labels, first):
    shifted = logits - largest_of_all(logits)
    return loss_of_shifted(shifted, labels, 0)


@wrong(
    "16b-cross-entropy",
    advice="whose exponential is finite",
    note="They subtract nothing, so the exponentials of large logits are infinite.",
)
def loss_without_maximum(logits, labels, first):
    return loss_of_shifted(logits, labels, first)


@wrong(
    "16b-cross-entropy",
    advice="by which functions autograd can go back",
    note="They all-reduce a tensor that autograd follows, and forget `detach`.",
)
def loss_with_tracked_maximum(logits, labels, first):
    largest = logits.amax(1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return loss_of_shifted(logits - largest[:, None], labels, first)


@wrong(
    "16b-cross-entropy",
    advice="what every rank adds to it",
    note="They sum the exponentials of this rank's words only.",
)
def loss_of_own_words(logits, labels, first):
    shifted = logits - largest_of_all(logits)
    return loss_of_shifted(shifted, labels, first, total_of=lambda total: total)


@wrong(
    "16b-cross-entropy",
    advice="whose word the label is",
    note="Clamped, and not multiplied by 0: every rank adds something.",
)
def loss_of_any_label(logits, labels, first):
    """Another rank's label is looked up too, somewhere."""
    shifted = logits - largest_of_all(logits)
    place = (labels - first).clamp(0, logits.shape[1] - 1)[:, None]
    of_label = sum_over_ranks(shifted.gather(1, place)[:, 0])
    return (sum_over_ranks(shifted.exp().sum(1)).log() - of_label).mean()


@wrong(
    "16b-cross-entropy",
    advice="which three numbers of each position|how often it is summed",
    note="The loss is right, and its gradient N times too small.",
)
def loss_meaned_over_ranks(logits, labels, first):
    loss = loss_of_shifted(logits - largest_of_all(logits), labels, first)
    return sum_over_ranks(loss) / dist.get_world_size()


@wrong(
    "16b-cross-entropy",
    advice="which three numbers of each position",
    note="The loss is right, and the whole vocabulary has travelled.",
)
def loss_by_gathering(logits, labels, first):
    words = torch.tensor(first + logits.shape[1])
    dist.all_reduce(words, op=dist.ReduceOp.MAX)
    padded = F.pad(logits, (first, int(words) - first - logits.shape[1]))
    return F.cross_entropy(sum_over_ranks(padded), labels)


@right("16b-cross-entropy")
def loss_with_joined_sums(logits, labels, first):
    """Both sums in one all-reduce, and the label by comparing with all own words."""
    shifted = logits - largest_of_all(logits)
    words = torch.arange(first, first + logits.shape[1], device=logits.device)
    is_label = labels[:, None] == words
    both = torch.stack([shifted.exp().sum(1), torch.where(is_label, shifted, 0).sum(1)])
    total, of_label = sum_over_ranks(both)
    return total.log().sub(of_label).sum() / len(labels)


class LossByHand(Function):
    """Megatron's way: the softmax is kept, and backward takes it from there."""

    @staticmethod
    def forward(ctx, logits, labels, first):
        shifted = logits - largest_of_all(logits)
        mine, place = own_labels(logits, labels, first)
        both = torch.stack(
            [shifted.exp().sum(1), shifted.gather(1, place)[:, 0] * mine]
        )
        dist.all_reduce(both)
        softmax = shifted.exp() / both[0][:, None]
        ctx.save_for_backward(softmax, mine, place)
        return (both[0].log() - both[1]).mean()

    @staticmethod
    def backward(ctx, gradient):
        softmax, mine, place = ctx.saved_tensors
        of_logits = softmax.clone()
        of_logits.scatter_add_(1, place, -mine[:, None].to(softmax.dtype))
        return gradient * of_logits / len(mine), None, None


@right("16b-cross-entropy")
def loss_by_hand(logits, labels, first):
    return LossByHand.apply(logits, labels, first)


# 16b-one-too-many ---------------------------------------------------------------------


@wrong(
    "16b-one-too-many",
    advice="whose neurons these are",
    note="Right on two ranks; on four, wide.bias is as long as narrow.bias.",
)
def complete_by_shape(block):
    """All vectors as long as a norm's."""
    width = next(p for n, p in block.named_parameters() if "norm" in n).shape
    for parameter in block.parameters():
        if parameter.shape == width:
            dist.all_reduce(parameter.grad)


@wrong(
    "16b-one-too-many",
    advice="which positions",
    note="They forget the biases that are held whole.",
)
def complete_norms_only(block):
    for name, parameter in block.named_parameters():
        if "norm" in name:
            dist.all_reduce(parameter.grad)


@wrong(
    "16b-one-too-many",
    advice="whose neurons these are",
    note="They leave the function as it is shown.",
)
def complete_as_it_was(block):
    for name, parameter in block.named_parameters():
        if "norm" in name or name.endswith("bias"):
            dist.all_reduce(parameter.grad)


@wrong(
    "16b-one-too-many",
    advice="which positions this parameter has seen",
    note="They think that sequence parallel leaves nothing to be summed.",
)
def complete_nothing(block):
    pass


@wrong(
    "16b-one-too-many",
    advice="whose neurons these are",
    note="To be safe. It adds up gradients of different neurons.",
)
def complete_everything(block):
    for parameter in block.parameters():
        dist.all_reduce(parameter.grad)


@wrong(
    "16b-one-too-many",
    advice="not the mean over ranks",
    note="They average, as in data parallel.",
)
def complete_by_mean(block):
    sum_whole_parameters(block)
    for name, parameter in block.named_parameters():
        if name.endswith(HELD_WHOLE):
            parameter.grad /= dist.get_world_size()


@right("16b-one-too-many")
def complete_joined(block):
    """All summands in one long vector: one all-reduce."""
    named = block.named_parameters()
    found = [p.grad for n, p in named if n.endswith(HELD_WHOLE)]
    joined = torch.cat([gradient.flatten() for gradient in found])
    dist.all_reduce(joined)
    pieces = joined.split([gradient.numel() for gradient in found])
    for gradient, piece in zip(found, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


@right("16b-one-too-many")
def complete_by_modules(block):
    """Norms by their type, row layers by what they have and columns have not."""
    under_way = []
    for module in block.modules():
        whole = list(module.parameters()) if isinstance(module, nn.LayerNorm) else []
        if hasattr(module, "leave"):
            whole.append(module.bias)
        for parameter in whole:
            under_way.append(dist.all_reduce(parameter.grad, async_op=True))
    for work in under_way:
        work.wait()
