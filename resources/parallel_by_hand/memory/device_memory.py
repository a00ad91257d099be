"""A device with a budget: it counts the bytes of all living tensors."""

import weakref

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class DeviceFull(RuntimeError):
    """The budget does not allow the tensor that was asked for."""


class DeviceMemory(TorchDispatchMode):
    """`with DeviceMemory(budget) as memory:` counts tensors that torch makes inside.

    torch calls `__torch_dispatch__` for each operation, forward and backward. A tensor
    counts from the operation that makes it until nobody holds it any more; its views
    count nothing, nor do tensors on the meta device. `memory.now` and `memory.peak` are
    bytes. `DeviceFull` is raised by the operation with which `now` would exceed
    `budget`. What a kernel needs for itself is not seen. (On a GPU the allocator does
    all this by itself: see `torch.cuda.max_memory_allocated` and
    `set_per_process_memory_fraction`.)
    """

    def __init__(self, budget: int | None = None):
        super().__init__()
        self.budget, self.now, self.peak = budget, 0, 0
        self._known: dict[int, int] = {}  # bytes of each living storage

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        had = {id(storage) for storage in _storages((args, kwargs))}
        for storage in _storages(result):
            if id(storage) not in had:  # or it is a view, or changed in place
                self._count(storage, function)
        return result

    def _count(self, storage: torch.UntypedStorage, function) -> None:
        if id(storage) in self._known:
            return
        asked = storage.nbytes()
        if self.budget is not None and self.now + asked > self.budget:
            raise DeviceFull(
                f"this device has {_megabytes(self.budget)}:\n{_megabytes(self.now)} "
                f"are in use, and {function} asks for {_megabytes(asked)} more"
            )
        self._known[id(storage)] = asked
        self.now += asked
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, id(storage)).atexit = False

    def _free(self, place: int) -> None:
        self.now -= self._known.pop(place)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _storages(tree) -> list[torch.UntypedStorage]:
    """The memory behind each tensor in whatever an operation takes or gives."""
    tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
    return [tensor.untyped_storage() for tensor in tensors if not tensor.is_meta]


def training_state_bytes(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, int]:
    """Bytes of device memory: parameters, gradients, what the optimiser holds."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    held = tree_leaves(list(optimizer.state.values()))
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(g.nbytes for g in gradients),
        "optimiser": sum(t.nbytes for t in held if isinstance(t, Tensor)),
    }
