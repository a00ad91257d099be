"""The ledger of training: the bytes that each rank holds, predicted and counted.

The formulas are those of Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models, 2020, section 5. Counting goes through the memory behind the
tensors: views of one memory count once, and what is padding counts too.
"""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

STRATEGIES = "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"
SHARDED = {  # what is cut into one shard for each rank; the rest every rank has whole
    "DDP": (),
    "ZeRO-1": ("optimiser",),
    "ZeRO-2": ("optimiser", "gradients"),
    "ZeRO-3": ("optimiser", "gradients", "parameters"),
}


class StateBytes(NamedTuple):
    """Bytes of the training state: on one rank, or for each number of the model."""

    parameters: int
    gradients: int
    optimiser: int

    @property
    def total(self) -> int:
        return sum(self)


MIXED = StateBytes(2, 2, 12)  # 16 bits; Adam's two averages and a float32 master copy
SINGLE = StateBytes(4, 4, 8)  # float32 and Adam's two averages: FSDP2's default
PRECISIONS = {"mixed": MIXED, "single": SINGLE}


def state_bytes(
    numbers: int, ranks: int, strategy: str, of_each: StateBytes = MIXED
) -> StateBytes:
    """What each of `ranks` holds of a model with so many parameters; all in bytes.

    Shards are equal, so the model is padded to a multiple of `ranks` where anything is
    sharded. For parameters in several flat tensors, add up what they need apart. What
    an optimiser holds beside its numbers (Adam's step counter) is not in it.
    """
    shard = -(-numbers // ranks)
    whole = shard * ranks if SHARDED[strategy] else numbers
    sizes = (
        size * (shard if part in SHARDED[strategy] else whole)
        for part, size in zip(StateBytes._fields, of_each, strict=True)
    )
    return StateBytes(*sizes)


class Ledger(NamedTuple):
    """Bytes that one rank really holds, at the most at one time in each column."""

    parameters: int = 0
    gradients: int = 0
    optimiser: int = 0
    buffers: int = 0
    activations: int = 0


def bytes_behind(tensors: Iterable[Tensor]) -> int:
    """For the ledger: bytes of the memory behind tensors; views of one count once."""
    memories = [tensor.untyped_storage() for tensor in tensors]
    return sum({memory.data_ptr(): memory.nbytes() for memory in memories}.values())


def optimizer_tensors(optimizer: Optimizer) -> list[Tensor]:
    """What the ledger counts for the optimiser: averages, momentum, step counters."""
    leaves = tree_leaves(list(optimizer.state.values()))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


class PeakGradients:
    """The ledger's gradients: `with PeakGradients(module) as peak:`, then `peak.bytes`.

    Each time that a gradient is ready, the bytes of all `.grad` of the module's
    parameters are counted, and of the tensors that `beside()` names. What a strategy
    frees in a hook is still seen if this begins before the strategy hooks in.
    """

    def __init__(self, module: nn.Module, beside=lambda: []):
        self.parameters, self.beside, self.bytes = list(module.parameters()), beside, 0

    def __enter__(self) -> "PeakGradients":
        self.hooks = [
            p.register_post_accumulate_grad_hook(self._count) for p in self.parameters
        ]
        return self

    def __exit__(self, *exception) -> None:
        for hook in self.hooks:
            hook.remove()

    def _count(self, parameter: nn.Parameter) -> None:
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        self.bytes = max(self.bytes, bytes_behind([*gradients, *self.beside()]))


def count_ledger(strategy, module: nn.Module, gradients: int, activations: int):
    """The ledger of this rank, from the tensors that `strategy` holds for `module`.

    Gradients and activations come and go, so their peaks are counted as they do: by
    `PeakGradients` and by lesson 14's `KeptBytes`. A master copy that is a view of the
    parameters counts with them.
    """
    parameters = [unit.flat for unit in strategy.units] + list(module.parameters())
    places = {tensor.untyped_storage().data_ptr() for tensor in parameters}
    state = [*strategy.masters, *optimizer_tensors(strategy.optimizer)]
    state = [t for t in state if t.untyped_storage().data_ptr() not in places]
    return Ledger(
        bytes_behind(parameters),
        gradients,
        bytes_behind(state),
        bytes_behind([*strategy.buffers, *module.buffers()]),
        activations,
    )


ADAMS_COUNTER = 4  # bytes: one float32 number for each tensor that Adam updates


def predicted_ledger(
    layers: list[int],
    ranks: int,
    strategy: str,
    of_each: StateBytes = SINGLE,
    activations: int = 0,
    counter: int = ADAMS_COUNTER,
) -> Ledger:
    """What a rank holds in DDP and ZeRO-1 to 3 as written here; in bytes.

    `layers` are the numbers of parameters of each layer. DDP and ZeRO-1 keep all in one
    flat tensor, and have room for one chunk that arrives. ZeRO-2 has a flat tensor for
    each layer, a bucket of the largest one and room for one chunk of it; its gradients
    are the shards and, at the most, those of one layer that is being computed. ZeRO-3
    gathers one layer at a time. Its gradients leave a layer, the last one first, in a
    flat tensor, with room for one chunk; the shards that arrived before lie beside it.
    `counter`: what the optimiser counts in for each flat tensor; SGD counts nothing.
    """
    flats = layers if strategy in ("ZeRO-2", "ZeRO-3") else [sum(layers)]
    flats = [ranks * -(-numbers // ranks) for numbers in flats]  # with their padding
    state = [state_bytes(numbers, ranks, strategy, of_each) for numbers in flats]
    parameters, gradients, optimiser = (
        sum(column) for column in zip(*state, strict=True)
    )
    buffers = of_each.gradients * max(flats) // ranks if ranks > 1 else 0
    if strategy == "ZeRO-2":
        gradients += of_each.gradients * max(layers)
        buffers += of_each.gradients * max(flats)
    if strategy == "ZeRO-3":
        parameters += of_each.parameters * max(flats)
        gradients += of_each.gradients * max(layers)
        leaving = [
            flat + (flat // ranks if ranks > 1 else 0) + sum(flats[at:]) // ranks
            for at, flat in enumerate(flats)
        ]
        buffers = of_each.gradients * max(leaving)
    optimiser += counter * len(flats)
    return Ledger(parameters, gradients, optimiser, buffers, activations)
