"""Count the bytes that autograd keeps for the backward passes still to come."""

from collections import Counter

import torch
from torch import Tensor, nn


class KeptBytes(torch.autograd.graph.saved_tensors_hooks):
    """`with KeptBytes(module) as kept:`, and `kept.peak` is the most bytes kept.

    Autograd tells us of every tensor that it saves. A tensor saved twice counts once,
    and the module's own parameters count not at all: they are there anyway. On a GPU
    the device's own count, `torch.cuda.max_memory_allocated`, says more.
    """

    def __init__(self, *modules: nn.Module):
        super().__init__(self._save, lambda saved: saved.tensor)
        self.parameters = {p.data_ptr() for m in modules for p in m.parameters()}
        self.times_saved: Counter[int] = Counter()
        self.now = self.peak = 0

    def __enter__(self):
        super().__enter__()
        return self

    def _save(self, tensor: Tensor) -> "_KeptTensor":
        return _KeptTensor(tensor, self)

    def add(self, tensor: Tensor) -> None:
        place = tensor.data_ptr()
        if place not in self.parameters:
            self.times_saved[place] += 1
            if self.times_saved[place] == 1:
                self.now += tensor.nbytes
                self.peak = max(self.peak, self.now)

    def remove(self, tensor: Tensor) -> None:
        place = tensor.data_ptr()
        if place not in self.parameters:
            self.times_saved[place] -= 1
            if self.times_saved[place] == 0:
                self.now -= tensor.nbytes


class _KeptTensor:
    """A saved tensor; it says goodbye when autograd lets go of it."""

    def __init__(self, tensor: Tensor, meter: KeptBytes):
        self.tensor, self.meter = tensor.detach(), meter
        meter.add(tensor)

    def __del__(self):
        self.meter.remove(self.tensor)
