"""Gradients over a slow link: as they are, compressed, or sent less often."""

from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from parallel_by_hand.machines.collective_bytes import CollectiveBytes
from sidebyside import device, load_digits

RATE_OF_LEARNING, BATCH = 0.3, 64  # images of each rank
EVERY = 8  # steps between two meetings of local SGD
KEPT = 0.01  # of all numbers are sent by top-k
WAYS_TO_SEND = (
    "as they are",
    "16 bits",
    "PowerSGD",
    "top-k",
    "top-k, forgets",
    "local SGD",
)


class CompressedTraining(NamedTuple):
    """What a rank reports of compressed training: bytes and seconds per step over
    eight settled steps; the loss over all training images; all parameters."""

    bytes_per_step: int
    seconds_per_step: float
    loss: float
    parameters: Tensor


def wide_digits_network() -> nn.Sequential:
    """The network whose gradients are compressed: 301,066 numbers, 1.2 MB a step."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
        return nn.Sequential(*layers, nn.Linear(512, 10)).to(device())


def top_k_mean(gradient: Tensor, memory: Tensor, k: int) -> Tensor:
    """Compressed gradients: the mean over all ranks of the k largest that each one has.

    What is not sent now stays in `memory`, and is added to the next gradient: this is
    *error feedback*. Seide et al., 2014 (for 1 bit); Aji and Heafield, 2017; Stich et
    al., 2018. Each rank sends k places (4 bytes) and k values to each of the others.
    """
    memory += gradient
    places = memory.abs().topk(k).indices
    values = memory[places]
    memory[places] = 0
    ranks = dist.get_world_size()
    all_places = [torch.empty_like(places, dtype=torch.int32) for _ in range(ranks)]
    all_values = [torch.empty_like(values) for _ in range(ranks)]
    dist.all_gather(all_places, places.int())
    dist.all_gather(all_values, values)
    total = torch.zeros_like(gradient)
    for where, what in zip(all_places, all_values, strict=True):
        total[where.long()] += what
    return total / ranks


class _SendsTopK:
    """backward, then the gradients become the mean of what all ranks have sent."""

    def __init__(self, model: nn.Module, forgets: bool = False):
        self.model, self.forgets = model, forgets
        self.parameters = list(model.parameters())
        self.memory = torch.zeros_like(parameters_to_vector(self.parameters).detach())

    def average_gradients(self) -> None:
        grads: list[Any] = [p.grad for p in self.parameters]  # there after backward
        flat = parameters_to_vector(grads)
        mean = top_k_mean(flat, self.memory, round(KEPT * len(flat)))
        if self.forgets:
            self.memory.zero_()
        at = 0
        for p in self.parameters:
            p.grad.copy_(mean[at : at + p.numel()].view_as(p))
            at += p.numel()


def _replica(model: nn.Module, way: str) -> nn.Module:
    """The model in torch's DDP, with the hook that sends its gradients this way."""
    if way not in WAYS_TO_SEND[:3]:
        return model
    # One bucket: PowerSGD sends three times for each, one after another. With gloo the
    # messages of several buckets can change places, on one rank and not on the other.
    replica = DistributedDataParallel(model, bucket_cap_mb=25)
    if way == "as they are":
        replica.register_comm_hook(None, default_hooks.allreduce_hook)
    elif way == "16 bits":
        replica.register_comm_hook(None, default_hooks.fp16_compress_hook)
    else:
        state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        replica.register_comm_hook(state, powerSGD_hook)
    return replica


def train_over_link(way: str, steps: int = 4 * EVERY) -> CompressedTraining:
    """Runs in each rank: train on its share of the digits, sending `way`."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = wide_digits_network()
    replica = _replica(model, way)
    top_k = _SendsTopK(model, way.endswith("forgets")) if "top-k" in way else None
    sgd = torch.optim.SGD(model.parameters(), lr=RATE_OF_LEARNING)
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    dice, notes = torch.Generator().manual_seed(rank), []
    with CollectiveBytes() as sent:
        for step in range(1, steps + 1):
            mine = torch.randint(len(images) // ranks, (BATCH,), generator=dice)
            x, y = images[rank::ranks][mine], labels[rank::ranks][mine]
            began, before = perf_counter(), sent.bytes
            sgd.zero_grad()
            nn.functional.cross_entropy(replica(x), y).backward()
            if top_k:
                top_k.average_gradients()
            sgd.step()
            if way == "local SGD" and (step % EVERY == 0 or step == steps):
                average_parameters(model)
            notes.append((sent.bytes - before, perf_counter() - began))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images), labels).item()
    flat = parameters_to_vector(model.parameters()).detach().clone()
    return CompressedTraining(*_settled(notes), loss, flat.cpu())


def _settled(notes: list[tuple[int, float]]) -> tuple[int, float]:
    """Bytes per step in the last eight, and seconds per step in the fastest eight after
    the first: PowerSGD begins after two steps, and a busy machine only adds time."""
    rounds = [notes[at : at + EVERY] for at in range(0, len(notes), EVERY)]
    whole = [one for one in rounds if len(one) == EVERY]
    bytes_sent = sum(size for size, _ in whole[-1]) // EVERY
    return bytes_sent, min(sum(s for _, s in one) / EVERY for one in whole[1:] or whole)


def average_parameters(model: nn.Module) -> None:
    """Instead of compressed gradients: every rank gets the mean of all models."""
    flat = parameters_to_vector(model.parameters()).detach()
    dist.all_reduce(flat)
    vector_to_parameters(flat / dist.get_world_size(), model.parameters())


def describe_training(way: str, found: CompressedTraining) -> str:
    """A line of the table of compressed gradients."""
    seconds = f"{1000 * found.seconds_per_step:.0f} ms"
    return f"{way:<15} {found.bytes_per_step:14,} {seconds:>15} {found.loss:6.2f}"
