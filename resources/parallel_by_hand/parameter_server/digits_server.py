"""The digits trained by a parameter server: rank 0 serves, the other ranks work."""

from collections.abc import Callable
from time import perf_counter, sleep
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from parallel_by_hand.parameter_server.server_and_workers import (
    everyone_may_go_on,
    letter_group,
    serve_at_once,
    serve_in_step,
    work,
)
from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from sidebyside.timeline.spans import label_process


class DigitsServerUpdate(NamedTuple):
    """One update at a server: whose gradient, how stale, when, and the share after."""

    worker: int | None  # None: the mean of all workers
    staleness: int  # updates between the worker's pull and this update
    seconds: float  # since the server began
    share: Tensor


def digits_start(seed: int = 0) -> Tensor:
    """The parameters at the start, as one vector of 1,210 numbers."""
    return parameters_to_vector(digits_network(seed).parameters()).detach().cpu()


class DigitsGradient:
    """For the digits' server: the gradient of 32 images, and a nap beside it."""

    def __init__(self, worker: int, seconds: float = 0.0, images: int = 32):
        self.worker, self.seconds, self.images = worker, seconds, images
        self.model = digits_network()

    def __call__(self, parameters: Tensor, version: int) -> Tensor:
        sleep(self.seconds)
        pixels, labels = digits_here("train")
        dice = torch.Generator().manual_seed(1000 * version + self.worker)
        mine = torch.randint(len(pixels), (self.images,), generator=dice)
        mine = mine.to(pixels.device)
        start = parameters.to(pixels.device)
        vector_to_parameters(start, self.model.parameters())
        return flat_gradient(self.model, pixels[mine], labels[mine]).cpu()


def digits_server_loss(parameters: Tensor) -> float:
    """The loss over all 1,415 images of the training set."""
    pixels, labels = digits_here("train")
    model = digits_network()
    vector_to_parameters(parameters.to(pixels.device), model.parameters())
    with torch.no_grad():
        return F.cross_entropy(model(pixels), labels).item()


def train_digits_with_server(
    design: str,
    naps: list[float],
    rate: float,
    updates: int,
    servers: int = 1,
    who_goes_on: Callable = everyone_may_go_on,
) -> list[DigitsServerUpdate]:
    """Runs in each rank; the updates of this server, and none from a worker."""
    rank, start = dist.get_rank(), digits_start()
    label_process(f"server {rank}" if rank < servers else f"worker {rank}")
    letter_group()
    DigitsGradient(0)(start, 0)  # the first one takes longer: torch warms up
    dist.barrier()
    workers = range(servers, dist.get_world_size())
    if rank >= servers:
        worker = rank - servers
        work(DigitsGradient(worker, naps[worker]), range(servers), len(start))
        return []
    diary, began = [], perf_counter()

    def note(version: int, worker: int | None, staleness: int, share: Tensor) -> None:
        seconds = perf_counter() - began
        diary.append(DigitsServerUpdate(worker, staleness, seconds, share.clone()))

    share = start.tensor_split(servers)[rank].clone()
    if design == "in step":
        serve_in_step(share, workers, rate, updates, note)
    else:
        serve_at_once(share, workers, rate, updates, note, who_goes_on)
    return diary


def losses_over_time(diary: list[DigitsServerUpdate], every: int = 1) -> list[tuple]:
    """The digits' (updates, seconds, loss) after every so many; one server held all."""
    chosen = list(enumerate(diary, 1))[every - 1 :: every]
    rows = [
        (n, update.seconds, digits_server_loss(update.share)) for n, update in chosen
    ]
    return [(0, 0.0, digits_server_loss(digits_start())), *rows]
