"""What FSDP2 and tensor parallel send in a step, and what of it is whole meanwhile."""

from collections import Counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NAMED = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
}


class CollectiveCall(NamedTuple):
    """A collective of this rank, among `ranks`; `size`: bytes of the whole tensor."""

    name: str
    size: int
    dtype: torch.dtype
    ranks: tuple[int, ...]

    @property
    def sent(self) -> int:
        """Bytes that a rank sends in a ring: (N - 1) / N, of an all-reduce twice."""
        trips = 2 if self.name == "all_reduce" else 1
        return trips * (len(self.ranks) - 1) * self.size // len(self.ranks)


class ShardingMeter(TorchDispatchMode):
    """`with ShardingMeter(model) as meter:` in a rank: `meter.calls`, `meter.whole`.

    `calls` has a `CollectiveCall` for each all-gather, reduce-scatter and all-reduce,
    of FSDP2 or DTensor. How a backend carries them out is not seen: gloo's
    reduce-scatter, for one, moves a whole all-reduce. `gathers` counts FSDP2's by the
    name of the unit, or "root", from the ranges that it marks for the profiler.
    `entries` has each operation with the bytes of gathered parameters that the units of
    `model` held after it, without what was still arriving; `whole` is the most. These
    are read from FSDP2's own lists (torch.distributed.fsdp._fully_shard._fsdp_state),
    which have no public name.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.calls: list[CollectiveCall] = []
        self.gathers: Counter[str] = Counter()
        self.units = [m for m in model.modules() if isinstance(m, FSDPModule)]
        self.entries: list[tuple[str, int]] = []

    @property
    def whole(self) -> int:
        return max((held for _, held in self.entries), default=0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor does it, with tensors of this rank
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if "c10d" in function.namespace and name in NAMED:
            self._note(NAMED[name], args)
        if function.namespace == "profiler":
            self._count_gather(str(args[0]))
        self.entries.append((name, sum(map(_bytes_gathered, self.units))))
        return result

    def _note(self, name: str, args: tuple) -> None:
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
        largest = max(tensors, key=lambda tensor: tensor.nbytes)
        calls = name, largest.nbytes, largest.dtype, _ranks_of_group(args)
        self.calls.append(CollectiveCall(*calls))

    def _count_gather(self, marked: str) -> None:
        """A range "FSDP::all_gather (unit)" begins; the root's has no unit."""
        label, _, unit = marked.partition(" ")
        if label == "FSDP::all_gather":
            self.gathers[unit.strip("()") or "root"] += 1

    def sent(self) -> Counter[str]:
        """Bytes that this rank sends, by collective."""
        total: Counter[str] = Counter()
        for call in self.calls:
            total[call.name] += call.sent
        return total

    def sent_between(self, per_machine: int) -> int:
        """Bytes that leave this rank's machine, which has so many ranks.

        In a ring in the order of ranks each rank sends to the next of the group.
        """
        mine, total = dist.get_rank(), 0
        for call in self.calls:
            right = call.ranks[(call.ranks.index(mine) + 1) % len(call.ranks)]
            total += call.sent if right // per_machine != mine // per_machine else 0
        return total


def _ranks_of_group(args: tuple) -> tuple[int, ...]:
    """FSDP2 gives the group itself, before all other objects; DTensor its name."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            return tuple(dist.get_process_group_ranks(dist.ProcessGroup.unbox(arg)))
    from torch.distributed.distributed_c10d import _resolve_process_group

    return tuple(dist.get_process_group_ranks(_resolve_process_group(args[-1])))


def _bytes_gathered(unit: nn.Module) -> int:
    """Bytes behind this unit's gathered parameters: 0 while they are freed."""
    groups = unit._get_fsdp_state()._fsdp_param_groups  # pyright: ignore
    gathered = [
        tensor
        for group in groups
        for parameter in group.fsdp_params
        for tensor in parameter.all_gather_outputs
    ]
    return sum(tensor.untyped_storage().nbytes() for tensor in gathered)
