"""The row of ZeRO-3 in the table of the transformer block."""

from torch import Tensor

from demos.model_parallel.parts.transformer_block import make_transformer_block
from demos.pipeline.parts.kept_bytes import KeptBytes
from demos.sharding.parts.gathered_ledger import GatheredLedger
from demos.sharding.parts.ledger import (
    Ledger,
    PeakGradients,
    bytes_behind,
    optimizer_tensors,
)
from demos.sharding.parts.measured_ledger import (
    Measured,
    block_loss,
    sgd_with_momentum,
)
from demos.sharding.parts.shard_links import RingLink
from demos.sharding.parts.zero_3 import ZeRO3
from sidebyside import MessageMeter, device


def measure_block_in_units() -> Measured:
    """Runs in each rank: two steps of the block in two units, attention and MLP.

    Parameters are those that this rank keeps, and those that are gathered at the most.
    Activations are counted with the same samples in a block that is not sharded: there
    a weight that autograd keeps can be told from an activation.
    """
    unsharded = make_transformer_block().to(device())
    with KeptBytes(unsharded) as activations:
        block_loss(unsharded, 0).backward()
    block = make_transformer_block().to(device())
    held: list[Tensor] = []
    with PeakGradients(block, beside=lambda: held) as peak:
        zero = ZeRO3(block, sgd_with_momentum, RingLink())
        held += zero.gradients
        for step in range(2):
            with MessageMeter() as meter, GatheredLedger(zero.units) as gathered:
                block_loss(block, step).backward()
                zero.step()
    kept = bytes_behind([unit.kept for unit in zero.units])
    state = bytes_behind(optimizer_tensors(zero.optimizer))
    ledger = Ledger(kept + gathered.peak, peak.bytes, state, 0, activations.peak)
    return Measured(ledger, meter.bytes_sent)
