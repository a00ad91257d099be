"""Three networks for handwritten digits, layer by layer, and the meter at each cut."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut
from parallel_by_hand.model_parallel.cut_training import batches_to_cut, step_of_part
from sidebyside import MessageMeter, device

STEPS_IN_TIME = 8  # an image is read row by row


class _LSTMLayer(nn.Module):
    """One layer of a recurrent network: a sequence in, a sequence out."""

    def __init__(self, entering: int, leaving: int):
        super().__init__()
        self.lstm = nn.LSTM(entering, leaving, batch_first=True)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.lstm(sequence)[0]


class _LastTimeStep(nn.Module):
    """The last element of each sequence."""

    def forward(self, sequence: Tensor) -> Tensor:
        return sequence[:, -1]


def networks_to_cut() -> dict[str, dict[str, nn.Module]]:
    """The layers of each network by name, the same in every process."""
    torch.manual_seed(0)
    relu = nn.ReLU
    return {
        "fully connected": {
            "512": nn.Sequential(nn.Linear(64, 512), relu()),
            "256": nn.Sequential(nn.Linear(512, 256), relu()),
            "128": nn.Sequential(nn.Linear(256, 128), relu()),
            "64": nn.Sequential(nn.Linear(128, 64), relu()),
            "10": nn.Linear(64, 10),
        },
        "convolutional": {
            "conv 1": nn.Sequential(
                nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), relu()
            ),
            "conv 2": nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), relu()),
            "pool 1": nn.MaxPool2d(2),
            "conv 3": nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), relu()),
            "pool 2": nn.MaxPool2d(2),
            "128": nn.Sequential(nn.Flatten(), nn.Linear(128, 128), relu()),
            "10": nn.Linear(128, 10),
        },
        "recurrent": {
            "LSTM 1": nn.Sequential(
                nn.Unflatten(1, (STEPS_IN_TIME, 8)), _LSTMLayer(8, 64)
            ),
            "LSTM 2": _LSTMLayer(64, 64),
            "LSTM 3": _LSTMLayer(64, 64),
            "last step": _LastTimeStep(),
            "10": nn.Linear(64, 10),
        },
    }


class MeteredCut(NamedTuple):
    """What one rank noted at one cut."""

    network: str
    after: str  # the layer before the cut
    sent: int  # bytes
    parameters: int  # on this rank


def meter_every_cut(batch: int = 32) -> list[MeteredCut]:
    """Runs in each of two ranks: one step at each possible cut of each network."""
    rank = dist.get_rank()
    images, labels = (data.to(device()) for data in batches_to_cut(1, batch)[0])
    found = []
    for network, layers in networks_to_cut().items():
        modules = list(layers.values())
        for cut, after in enumerate(list(layers)[:-1], 1):
            halves = [nn.Sequential(*modules[:cut]), nn.Sequential(*modules[cut:])]
            with torch.no_grad():  # what shape to expect
                shape = halves[0].to(device())(images).shape
            mine = halves[rank].to(device())
            with MessageMeter() as meter:
                step_of_part(mine, images, labels, tuple(shape))
            held = sum(p.numel() for p in mine.parameters())
            found.append(MeteredCut(network, after, meter.bytes_sent, held))
    return found


def meter_cut_in_time(batch: int = 32, before: int = 4) -> int:
    """Runs in each of two ranks: bytes of a network cut between two time steps."""
    images, labels = (data.to(device()) for data in batches_to_cut(1, batch)[0])
    rows = images.view(batch, STEPS_IN_TIME, -1)
    torch.manual_seed(0)
    lstm = nn.LSTM(8, 64, num_layers=3, batch_first=True).to(device())
    head = nn.Linear(64, 10).to(device())
    with MessageMeter() as meter:
        if dist.get_rank() == 0:
            _, state = lstm(rows[:, :before])
            loss = SendForward.apply(torch.stack(state), 1)
        else:
            state = receive_across_cut((2, 3, batch, 64), 0)
            outputs, _ = lstm(rows[:, before:], (state[0], state[1]))
            loss = F.cross_entropy(head(outputs[:, -1]), labels)
        loss.backward()
    return meter.bytes_sent
