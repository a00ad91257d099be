"""What the checks of lesson 16b run in each rank, and what they note there."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.tensor_parallel.ring_attention import attend_to_piece
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import ENDS, split_block
from sidebyside import MessageMeter, device

METHODS = (
    "allreduce",
    "allgather",
    "_allgather_base",
    "all_gather_single",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "alltoall",
    "alltoall_base",
    "all_to_all_single",
)


class CallsOfRingsAndLosses:
    """`with calls.noted():` around each call notes what this rank has sent in it."""

    def __init__(self):
        self.collectives: list[list[str]] = []
        self.handed: list[int] = []  # numbers given to collectives, for each call
        self.sent_to: list[dict[int, int]] = []  # bytes of messages to each rank
        self.not_awaited = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        self._handed, self._under_way = 0, []
        with MessageMeter() as meter, ExitStack() as stack:
            for name in METHODS:
                if hasattr(dist.ProcessGroup, name):
                    wrapper = self._counting(getattr(dist.ProcessGroup, name))
                    patch = mock.patch.object(dist.ProcessGroup, name, wrapper)
                    stack.enter_context(patch)
            for name in ("wait", "is_completed", "get_future", "synchronize"):
                wrapper = self._asking(getattr(dist.Work, name))
                stack.enter_context(mock.patch.object(dist.Work, name, wrapper))
            yield
        names = [name for name in meter.collectives if name != "barrier"]
        self.collectives.append(names)
        self.handed.append(self._handed)
        self.sent_to.append(meter.sent_to)
        self.not_awaited += len(self._under_way)

    def _counting(self, method: Callable) -> Callable:
        def count(group, *args, **options):
            given = [tree_leaves(arg) for arg in args]
            sizes = [
                sum(t.numel() for t in leaves if isinstance(t, Tensor))
                for leaves in given
                if any(isinstance(t, Tensor) for t in leaves)
            ]
            self._handed += min(sizes, default=0)  # of inputs and room for outputs
            work = method(group, *args, **options)
            if work is not None:
                self._under_way.append(work)
            return work

        return count

    def _asking(self, method: Callable) -> Callable:
        def ask(work, *args, **options):
            self._under_way = [other for other in self._under_way if other is not work]
            return method(work, *args, **options)

        return ask


def ring_or_loss_result(value: object) -> Tensor | str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return value.detach().cpu().clone()


def random_ring_or_loss_tensor(seed: int, dtype: torch.dtype, *shape: int) -> Tensor:
    """The same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).to(device())


# 16b-cross-entropy --------------------------------------------------------------------


class CrossEntropyCase(NamedTuple):
    positions: int
    more_words: int  # than ranks
    dtype: torch.dtype
    scale: float = 1.0
    shift: float = 0.0  # of all logits
    gap: float = 0.0  # the words of rank 0 lie lower by this


class CrossEntropyNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: list  # the loss, the gradient; a tensor or the name of what is none
    expected: list[Tensor]
    size: float  # of the largest logit
    collectives: list[list[str]]  # forward, backward
    numbers: list[float]  # that were sent, for each position
    changed: list[str]
    not_awaited: int
    unknown_to_autograd: bool


def try_cross_entropy(
    loss: Callable, cases: list[CrossEntropyCase]
) -> list[CrossEntropyNotes]:
    return [_try_one_cross_entropy(loss, *entry) for entry in enumerate(cases)]


def _cut_vocabulary(seed: int, words: int) -> list[int]:
    """Where each rank's words begin, and the end: each has one at least."""
    generator = torch.Generator().manual_seed(seed)
    cuts = 1 + torch.randperm(words - 1, generator=generator)
    return [0, *sorted(cuts[: dist.get_world_size() - 1].tolist()), words]


def _make_vocabulary_logits(
    seed: int, case: CrossEntropyCase
) -> tuple[Tensor, Tensor, int, int]:
    """All logits, the labels, and the first and last + 1 of this rank's words."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    words = ranks + case.more_words
    cuts = _cut_vocabulary(seed, words)
    logits = case.scale * random_ring_or_loss_tensor(
        seed, case.dtype, case.positions, words
    )
    logits = logits + case.shift
    logits[:, : cuts[1]] -= case.gap
    edges = torch.tensor(cuts[:-1] + [cut - 1 for cut in cuts[1:]])
    generator = torch.Generator().manual_seed(seed)
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
    calls, gradient = CallsOfRingsAndLosses(), "nothing"
    dist.barrier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with calls.noted():
            got = loss(part, labels, first)
        result = ring_or_loss_result(got)
        with calls.noted():
            if isinstance(got, Tensor) and got.requires_grad and got.numel() == 1:
                (3 * got).sum().backward()
                gradient = ring_or_loss_result(part.grad)
    # another call must not disturb the first one's result
    loss((whole.detach()[:, first:end] + 1).requires_grad_(), labels.flip(0), first)
    changed = [
        name
        for name, now in (("logits", part.detach()), ("labels", labels))
        if not torch.equal(now, kept[name])
    ]
    if isinstance(got, Tensor) and not torch.equal(ring_or_loss_result(got), result):
        changed.append("an earlier result")
    sent = [
        handed + sum(to.values()) / part.element_size()
        for handed, to in zip(calls.handed, calls.sent_to, strict=True)
    ]
    return CrossEntropyNotes(
        [result, gradient],
        [ring_or_loss_result(expected), ring_or_loss_result(whole.grad[:, first:end])],
        whole.detach().abs().max().item(),
        calls.collectives,
        [numbers / case.positions for numbers in sent],
        changed,
        calls.not_awaited,
        any("autograd kernel" in str(warning.message) for warning in caught),
    )


# 16b-one-too-many ---------------------------------------------------------------------


class SequenceBlockCase(NamedTuple):
    width: int
    heads: int
    positions: int  # of each rank
    blocks: int = 1
    frozen: str = ""  # parameters whose names end so


class SequenceBlockNotes(NamedTuple):
    """The gradients of one rank's parameters, and what they should be."""

    names: list[str]
    got: list
    expected: list
    collectives: list[str]
    messages: int  # bytes
    needed: int  # parameters whose gradients are summands
    changed: list[str]
    not_awaited: int


def try_complete_sequence_blocks(
    complete: Callable, cases: list[SequenceBlockCase]
) -> list[SequenceBlockNotes]:
    return [_try_one_sequence_block(complete, *entry) for entry in enumerate(cases)]


def _make_sequence_blocks(case: SequenceBlockCase) -> nn.Sequential:
    blocks = [
        make_transformer_block(case.width, case.heads) for _ in range(case.blocks)
    ]
    whole = (nn.Sequential(*blocks) if case.blocks > 1 else blocks[0]).double()
    for name, parameter in whole.named_parameters():
        parameter.data += 0.1 * random_ring_or_loss_tensor(
            len(name), torch.double, *parameter.shape
        )
        parameter.requires_grad_(not (case.frozen and name.endswith(case.frozen)))
    return whole.to(device())


def _split_sequence_blocks(
    whole: nn.Sequential, case: SequenceBlockCase
) -> nn.Sequential:
    ends = ENDS["sequence"]
    if case.blocks == 1:
        return split_block(whole, ends)
    return nn.Sequential(*(split_block(block, ends) for block in whole))


def _try_one_sequence_block(
    complete: Callable, seed: int, case: SequenceBlockCase
) -> SequenceBlockNotes:
    whole = _make_sequence_blocks(case)
    mine = _split_sequence_blocks(whole, case)
    if case.frozen:
        for name, parameter in mine.named_parameters():
            parameter.requires_grad_(not name.endswith(case.frozen))
    positions = case.positions * dist.get_world_size()
    x = random_ring_or_loss_tensor(seed, torch.double, 2, positions, case.width)
    whole(x).square().sum().backward()
    mine(own_positions(x).contiguous()).square().sum().backward()
    kept = {name: p.detach().clone() for name, p in mine.named_parameters()}
    calls = CallsOfRingsAndLosses()
    dist.barrier()
    with calls.noted():
        complete(mine)
    gradients = copy.deepcopy(whole)  # with gradients in place of parameters
    for place, parameter in zip(
        gradients.parameters(), whole.parameters(), strict=True
    ):
        none = torch.zeros_like(parameter)
        place.data = none if parameter.grad is None else parameter.grad
    named = dict(mine.named_parameters())
    whole_ones = "norm.weight", "norm.bias", "out.bias", "narrow.bias"
    return SequenceBlockNotes(
        list(named),
        [ring_or_loss_result(p.grad) for p in named.values()],
        [
            ring_or_loss_result(g if p.requires_grad else None)
            for g, p in zip(
                _split_sequence_blocks(gradients, case).parameters(),
                named.values(),
                strict=True,
            )
        ],
        calls.collectives[0],
        sum(calls.sent_to[0].values()),
        sum(n.endswith(whole_ones) and p.requires_grad for n, p in named.items()),
        [n for n, p in named.items() if not torch.equal(p.detach(), kept[n])],
        calls.not_awaited,
    )


# 16b-ring -----------------------------------------------------------------------------


class RingAttentionCase(NamedTuple):
    positions: int  # of each rank
    d: int
    dtype: torch.dtype
    scale: float = 1.0


class RingAttentionNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: object
    expected: Tensor
    collectives: list[str]
    sent_to: dict[int, int]
    largest: int  # numbers in the largest tensor that was made
    changed: list[str]


class LargestRingTensor(TorchDispatchMode):
    """`numbers` is how many the largest tensor holds that torch makes inside."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.numbers = max(self.numbers, leaf.numel())
        return result


def try_attention_rounds(
    attend_round: Callable, cases: list[RingAttentionCase]
) -> list[RingAttentionNotes]:
    return [_try_one_ring_attention(attend_round, *entry) for entry in enumerate(cases)]


def _try_one_ring_attention(
    attend_round: Callable, seed: int, case: RingAttentionCase
) -> RingAttentionNotes:
    positions = case.positions * dist.get_world_size()
    shape = 1, positions, case.d
    whole = [
        factor * random_ring_or_loss_tensor(3 * seed + place, case.dtype, *shape)
        for place, factor in enumerate((case.scale, case.scale, 1))
    ]
    expected = own_positions(attend_to_piece(*whole)[0])[0]
    mine = [own_positions(tensor)[0].contiguous() for tensor in whole]
    kept = [tensor.clone() for tensor in mine]
    calls = CallsOfRingsAndLosses()
    dist.barrier()
    with calls.noted(), LargestRingTensor() as largest:
        got = attend_round(*mine)
    result = ring_or_loss_result(got)
    attend_round(*(tensor + 1 for tensor in mine))
    changed = [
        name
        for name, now, before in zip(("query", "key", "value"), mine, kept, strict=True)
        if not torch.equal(now, before)
    ]
    if isinstance(got, Tensor) and not torch.equal(ring_or_loss_result(got), result):
        changed.append("an earlier result")
    return RingAttentionNotes(
        result,
        ring_or_loss_result(expected),
        calls.collectives[0],
        calls.sent_to[0],
        largest.numbers,
        changed,
    )
