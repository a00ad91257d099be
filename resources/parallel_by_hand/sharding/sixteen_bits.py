"""Training in 16 bits: a float32 master copy, and a loss that is scaled."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sidebyside import device, load_digits


class SixteenBitsFormat(NamedTuple):
    """How training stores its numbers."""

    dtype: torch.dtype
    master: bool = True  # does the optimiser update a float32 copy?
    scale: int = 1  # by how much the loss is multiplied before backward


FORMATS = {
    "float32": SixteenBitsFormat(torch.float32),
    "bfloat16, master copy": SixteenBitsFormat(torch.bfloat16),
    "bfloat16 alone": SixteenBitsFormat(torch.bfloat16, master=False),
    "float16, master copy": SixteenBitsFormat(torch.float16),
    "float16, loss scaled": SixteenBitsFormat(torch.float16, scale=2**16),
}


class SixteenBitsOutcome(NamedTuple):
    """What training in 16 bits came to: loss, zeros, unchanged weights."""

    loss: float  # of the last epoch's images, all together
    zeros: float  # the share of the first gradients that is 0
    unchanged: float  # the share of the weights that the last update left as it was


def _flat_copy(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def train_in_format(
    format: SixteenBitsFormat, parts: int = 1, lr: float = 0.0003, epochs: int = 10
) -> SixteenBitsOutcome:
    """Train in 16 bits or 32 with Adam; each batch pretends to be one of `parts`.

    Its loss is divided by `parts`, as if others had the rest; we multiply the gradients
    by `parts` in float32, as if all the other parts had the same ones.
    """
    torch.manual_seed(0)
    layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    model = nn.Sequential(*layers).to(device(), format.dtype)
    weights = list(model.parameters())
    masters = [w.detach().float() if format.master else w for w in weights]
    adam = torch.optim.Adam(masters, lr=lr, foreach=False)
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    zeros = math.nan
    for batch in epochs * list(torch.arange(len(images)).split(64)):
        model.zero_grad()
        scores = model(images[batch].to(format.dtype)).float()
        loss = F.cross_entropy(scores, labels[batch])
        (loss / parts * format.scale).backward()
        if math.isnan(zeros):
            grads: list[Any] = [w.grad for w in weights]  # there after backward
            zeros = (_flat_copy(grads) == 0).double().mean().item()
        for master, weight in zip(masters, weights, strict=True):
            factor = parts / format.scale
            master.grad = (weight.grad.float() * factor).to(master.dtype)
        before = _flat_copy(masters)
        adam.step()
        for master, weight in zip(masters, weights, strict=True):
            weight.data.copy_(master.detach())
    moved = (_flat_copy(masters) != before).double().mean().item()
    with torch.no_grad():
        loss = F.cross_entropy(model(images.to(format.dtype)).float(), labels).item()
    return SixteenBitsOutcome(loss, zeros, 1 - moved)
