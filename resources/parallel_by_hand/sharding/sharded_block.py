"""Rows in the table of the transformer block: ZeRO-3, and the cuts of 14 to 16."""

from torch import Tensor

from parallel_by_hand.collectives.eight_collectives import finished
from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.transformer_block import (
    BlockCost,
    make_transformer_block,
)
from parallel_by_hand.sharding.flat_shards import ring_reduce_scatter, room_for_chunk
from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.ledger import (
    Ledger,
    PeakGradients,
    bytes_behind,
    optimizer_tensors,
)
from parallel_by_hand.sharding.measured_ledger import (
    MeasuredLedger,
    block_loss,
    sgd_with_momentum,
)
from parallel_by_hand.sharding.shard_links import RingLink
from parallel_by_hand.sharding.zero_3 import ZeRO3
from sidebyside import MessageMeter, device


class _WatchedRing(RingLink):
    """The ring, which notes the most bytes of gradients that are on their way."""

    def __init__(self):
        super().__init__()
        self.sums, self.peak = [], 0

    def reduce(self, mine: Tensor, flat: Tensor):
        self.sums.append(mine)
        room = room_for_chunk(flat)
        self.peak = max(self.peak, bytes_behind([*self.sums, flat, room]))
        mine.copy_(ring_reduce_scatter(flat, room))
        return finished()


def measure_block_in_units() -> MeasuredLedger:
    """Runs in each rank: the block sharded in two units, attention and MLP; two steps.

    Parameters are those that this rank keeps, and those that are gathered at the most;
    buffers are what gradients need on their way to the shards.
    Activations are counted with the same samples in a block that is not sharded: there
    a weight that autograd keeps can be told from an activation.
    """
    unsharded = make_transformer_block().to(device())
    with KeptBytes(unsharded) as activations:
        block_loss(unsharded, 0).backward()
    block = make_transformer_block().to(device())
    held, ring = [], _WatchedRing()
    with PeakGradients(block, beside=lambda: held) as peak:
        zero = ZeRO3(block, sgd_with_momentum, ring)
        held += zero.gradients
        for step in range(2):
            ring.sums.clear()
            with MessageMeter() as meter, GatheredLedger(zero.units) as gathered:
                block_loss(block, step).backward()
                zero.step()
    kept = bytes_behind([unit.kept for unit in zero.units])
    state = bytes_behind(optimizer_tensors(zero.optimizer))
    peaks = peak.bytes, state, ring.peak, activations.peak
    return MeasuredLedger(Ledger(kept + gathered.peak, *peaks), meter.bytes_sent)


def state_of_cuts(costs: list[BlockCost]) -> list[MeasuredLedger]:
    """Beside the sharded block: rows of one that is cut by layer, neuron or space."""
    return [
        MeasuredLedger(
            Ledger(*3 * [cost.parameters], activations=cost.activations), cost.sent
        )
        for cost in costs
    ]
