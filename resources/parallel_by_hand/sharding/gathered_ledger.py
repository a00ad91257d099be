"""A ledger of borrowed parameters: after each operation, how many bytes are whole."""

from collections.abc import Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parallel_by_hand.sharding.zero_3 import ShardedUnit

READS_NOTHING = {"detach", "new_zeros", "new_empty", "new_full", "new_ones"}
READS_NOTHING |= {"empty_like", "zeros_like", "ones_like", "full_like"}


class FreedTooEarly(RuntimeError):
    """An operation wanted to read parameters that had no memory behind them."""


class GatheredLedger(TorchDispatchMode):
    """`with GatheredLedger(units) as ledger:` watches every operation of torch inside.

    `ledger.entries` has a pair for each: its name, and the bytes of gathered parameters
    at that moment; `ledger.peak` is the most. An operation that reads what has been
    freed raises `FreedTooEarly`. Without the ledger some operations, such as a sum,
    read from address 0, which ends the process; others raise an error of torch.
    """

    def __init__(self, units: Sequence[ShardedUnit]):
        super().__init__()
        self.units, self.entries = units, []

    @property
    def now(self) -> int:
        return sum(unit.flat.untyped_storage().nbytes() for unit in self.units)

    @property
    def peak(self) -> int:
        return max((held for _, held in self.entries), default=0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if _short_name(function) not in READS_NOTHING:
            for tensor in tree_leaves((args, kwargs)):
                _refuse_freed(tensor, function)
        result = function(*args, **(kwargs or {}))
        self.entries.append((_short_name(function), self.now))
        return result


def _refuse_freed(tensor, function) -> None:
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta or not tensor.numel():
        return
    if not tensor.untyped_storage().nbytes():
        name = _short_name(function)
        raise FreedTooEarly(f"{name} reads parameters that have been freed")


def _short_name(function) -> str:
    return str(function).split(".")[1]
