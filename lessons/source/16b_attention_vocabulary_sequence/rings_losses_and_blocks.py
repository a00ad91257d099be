"""What the checks of lesson 16b run in each rank, and what they note there."""

import copy
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import ENDS, split_block
from sidebyside import MessageMeter, device


def result_beside_whole(value: object) -> Tensor | str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return value.detach().cpu().clone()


def random_whole_tensor(seed: int, *shape: int) -> Tensor:
    """The same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.double).to(device())


# 16b-cross-entropy --------------------------------------------------------------------


class CrossEntropyCase(NamedTuple):
    positions: int
    more_words: int  # than ranks
    scale: float = 1.0
    gap: float = 0.0  # the words of rank 0 lie lower by this
    level: bool = False  # the largest logit is 0 on all ranks


class CrossEntropyNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: list  # the loss, the gradient; a tensor or the name of what is none
    expected: list[Tensor]
    collectives: list[list[str]]  # forward, backward
    handed: float  # numbers given to all-reduces forward, for each position
    changed: list[str]


def try_cross_entropy(
    loss: Callable, cases: list[CrossEntropyCase]
) -> list[CrossEntropyNotes]:
    return [_try_one_cross_entropy(loss, *entry) for entry in enumerate(cases)]


def _make_vocabulary_logits(
    seed: int, case: CrossEntropyCase
) -> tuple[Tensor, Tensor, int, int]:
    """All logits, the labels, and the first and last + 1 of this rank's words.

    Each rank has one word at least; labels are the first and last words of ranks.
    """
    ranks, rank = dist.get_world_size(), dist.get_rank()
    words = ranks + case.more_words
    generator = torch.Generator().manual_seed(seed)
    inner = 1 + torch.randperm(words - 1, generator=generator)[: ranks - 1]
    cuts = [0, *sorted(inner.tolist()), words]
    logits = case.scale * random_whole_tensor(seed, case.positions, words)
    logits[:, : cuts[1]] -= case.gap
    if case.level:
        for of_rank in logits.tensor_split(cuts[1:-1], dim=1):
            of_rank -= of_rank.amax(1, keepdim=True)
    edges = torch.tensor(cuts[:-1] + [cut - 1 for cut in cuts[1:]])
    chosen = torch.randperm(len(edges), generator=generator).repeat(case.positions)
    labels = edges[chosen[: case.positions]].to(device())
    return logits, labels, cuts[rank], cuts[rank + 1]


def _try_one_cross_entropy(
    loss: Callable, seed: int, case: CrossEntropyCase
) -> CrossEntropyNotes:
    whole, labels, first, end = _make_vocabulary_logits(seed, case)
    part = whole[:, first:end].clone().requires_grad_()
    kept = {"logits": part.detach().clone(), "labels": labels.clone()}
    whole.requires_grad_()
    expected = F.cross_entropy(whole, labels)
    (3 * expected).backward()
    handed, gradient = 0, "nothing"
    original = dist.ProcessGroup.allreduce

    def counted(group, tensors, *args, **options):
        nonlocal handed
        handed += sum(leaf.numel() for leaf in tree_leaves(tensors))
        return original(group, tensors, *args, **options)

    dist.barrier()
    counting = mock.patch.object(dist.ProcessGroup, "allreduce", counted)
    with counting, MessageMeter() as forward:
        got = loss(part, labels, first)
    with MessageMeter() as backward, suppress(UserWarning), warnings.catch_warnings():
        warnings.filterwarnings("error", "c10d::")  # it has no autograd kernel
        if isinstance(got, Tensor) and got.requires_grad and got.numel() == 1:
            (3 * got).sum().backward()
            gradient = result_beside_whole(part.grad)
    now = {"logits": part.detach(), "labels": labels}
    return CrossEntropyNotes(
        [result_beside_whole(got), gradient],
        [result_beside_whole(expected), result_beside_whole(whole.grad[:, first:end])],
        [meter.collectives for meter in (forward, backward)],
        handed / case.positions,
        [name for name in now if not torch.equal(now[name], kept[name])],
    )


# 16b-one-too-many ---------------------------------------------------------------------


class SequenceBlockNotes(NamedTuple):
    """The gradients of one rank's parameters, and what they should be."""

    width: int
    names: list[str]
    got: list
    expected: list[Tensor]
    collectives: list[str]
    changed: list[str]


def try_complete_sequence_blocks(complete: Callable) -> list[SequenceBlockNotes]:
    """With up to four ranks, no more than there are heads."""
    return [_try_one_sequence_block(complete, width) for width in (8, 12)]


def _try_one_sequence_block(complete: Callable, width: int) -> SequenceBlockNotes:
    whole = make_transformer_block(width, 4).double().to(device())
    mine = split_block(whole, ENDS["sequence"])
    x = random_whole_tensor(width, 2, 2 * dist.get_world_size(), width)
    whole(x).square().sum().backward()
    mine(own_positions(x).contiguous()).square().sum().backward()
    kept = {name: p.detach().clone() for name, p in mine.named_parameters()}
    dist.barrier()
    with MessageMeter() as meter:
        complete(mine)
    gradients = copy.deepcopy(whole)  # with gradients in place of parameters
    for place, parameter in zip(
        gradients.parameters(), whole.parameters(), strict=True
    ):
        place.data = parameter.grad
    named = dict(mine.named_parameters())
    return SequenceBlockNotes(
        width,
        list(named),
        [result_beside_whole(p.grad) for p in named.values()],
        [
            result_beside_whole(part)
            for part in split_block(gradients, ENDS["sequence"]).parameters()
        ],
        meter.collectives + ["send"] * meter.messages_sent,
        [name for name, p in named.items() if not torch.equal(p.detach(), kept[name])],
    )
