"""Training under each strategy, with everything counted that a rank holds and sends."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.sharding.ledger import Ledger, PeakGradients, count_ledger
from parallel_by_hand.sharding.replicated_state import ReplicatedState
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.sharding.zero_2 import ZeRO2
from sidebyside import MessageMeter, device, load_digits

BUILT = {"DDP": ReplicatedState, "ZeRO-1": ZeRO1, "ZeRO-2": ZeRO2}
adam = partial(torch.optim.Adam, lr=0.01, foreach=False)
sgd_with_momentum = partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False)


def make_digits_network(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """The measured ledger's network: 21,450 parameters in 6 layers, always equal."""
    torch.manual_seed(0)
    hidden = [part for _ in range(5) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(64, 10)).to(device(), dtype)


LAYERS = 5 * [64 * 64 + 64] + [64 * 10 + 10]  # parameters of each layer of that network


def own_rows_of_digits(step: int, batch: int = 64) -> tuple[Tensor, Tensor]:
    """For the measured ledger: this rank's images and labels of a batch, every N-th."""
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    mine = torch.arange(step * batch, (step + 1) * batch) % len(images)
    mine = mine[dist.get_rank() :: dist.get_world_size()]
    return images[mine], labels[mine]


def digits_loss_for_ledger(network: nn.Module, step: int) -> Tensor:
    """What the measured ledger trains: this rank's loss."""
    images, labels = own_rows_of_digits(step)
    dtype = next(network.parameters()).dtype
    return F.cross_entropy(network(images.to(dtype)).float(), labels)


def digits_activations(samples: int, size: int = 4) -> int:
    """Bytes that autograd keeps for so many samples, in numbers of `size` bytes.

    Each layer keeps its inputs, the loss its logarithms of probabilities in float32,
    the labels (8 bytes each), and one number that it divides by.
    """
    return samples * (size * 6 * 64 + 4 * 10 + 8) + 4


class MeasuredLedger(NamedTuple):
    """The ledger counted, and the bytes sent in a step."""

    ledger: Ledger
    sent: int  # bytes of one step


def _measure_state(
    strategy: str,
    network: nn.Module,
    loss_of: Callable[[nn.Module, int], Tensor],
    make_optimizer: Callable,
) -> MeasuredLedger:
    """Runs in each rank: two steps; what this rank holds and sends in the second."""
    held: list[Tensor] = []
    with PeakGradients(network, beside=lambda: held) as peak:
        trained = BUILT[strategy](network, make_optimizer)
        held += trained.gradients
        for step in range(2):
            with MessageMeter() as meter, KeptBytes(network) as kept:
                loss_of(network, step).backward()
                trained.step()
    ledger = count_ledger(trained, network, peak.bytes, kept.peak)
    return MeasuredLedger(ledger, meter.bytes_sent)


def measure_digits(strategy: str, dtype: torch.dtype = torch.float32) -> MeasuredLedger:
    """Runs in each rank: the ledger of the network on digits, trained by Adam."""
    return _measure_state(
        strategy, make_digits_network(dtype), digits_loss_for_ledger, adam
    )


def block_loss(block: nn.Module, step: int) -> Tensor:
    """For the measured ledger: the mean square of the block's output for sequences."""
    generator = torch.Generator().manual_seed(1 + step)
    sequences = torch.randn(8, 16, 64, generator=generator).to(device())
    mine = sequences[dist.get_rank() :: dist.get_world_size()].requires_grad_()
    return block(mine).square().mean()


def measure_block(strategy: str) -> MeasuredLedger:
    """Runs in each rank: the ledger of the transformer block, SGD with momentum."""
    block = make_transformer_block().to(device())
    return _measure_state(strategy, block, block_loss, sgd_with_momentum)


def print_state_table(rows: dict[str, list[MeasuredLedger]]) -> None:
    """The measured ledger, a line for each rank: bytes held, bytes sent in a step."""
    names = [*Ledger._fields, "sent"]
    print(f"{'':<9}rank" + "".join(f"{name:>12}" for name in names))
    for strategy, ranks in rows.items():
        for rank, (ledger, sent) in enumerate(ranks):
            columns = "".join(f"{count:12,}" for count in (*ledger, sent))
            print(f"{strategy:<9}{rank:4}{columns}")


def bytes_of_accumulation(strategy: str, micro_batches: int) -> int:
    """Runs in each rank: bytes measured for a step with so many backwards before it."""
    network = make_digits_network()
    trained = BUILT[strategy](network, adam)
    with MessageMeter() as meter:
        for part in range(micro_batches):
            (digits_loss_for_ledger(network, part) / micro_batches).backward()
        trained.step()
    return meter.bytes_sent
