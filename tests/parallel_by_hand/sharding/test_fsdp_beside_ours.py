"""What FSDP2 keeps of each number, and what it gathers for several micro-batches."""

import pytest
import torch
from torch import nn

from parallel_by_hand.sharding import (
    fsdp_beside_ours,
)
from parallel_by_hand.sharding.ledger import (
    bytes_behind,
)
from sidebyside import MessageMeter, device, run_ranks


def bytes_under_fsdp2(in_sixteen_bits: bool) -> tuple[list[float], set, set]:
    """Runs in each rank: bytes of parameters, gradients and averages for each number.

    After a step of Adam; then the types of these shards, and of what a layer sees.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    kind = torch.bfloat16 if in_sixteen_bits else None
    model = fsdp_beside_ours.make_wide_stack(16)
    for unit in [*model, model]:
        fully_shard(unit, mp_policy=MixedPrecisionPolicy(param_dtype=kind))
    seen = set()
    for layer in (part for part in model.modules() if isinstance(part, nn.Linear)):
        layer.register_forward_hook(
            lambda layer, x, y: seen.update({x[0].dtype, layer.weight.dtype, y.dtype})
        )
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters)
    model(torch.ones(4, 16, device=device())).sum().backward()
    optimizer.step()
    averages = [
        state[name].to_local()
        for state in optimizer.state.values()
        for name in ("exp_avg", "exp_avg_sq")
    ]
    shards = [
        [p.to_local() for p in parameters],
        [p.grad.to_local() for p in parameters],
        averages,
    ]
    numbers = sum(shard.numel() for shard in shards[0])
    whole = sum(p.numel() for p in parameters)
    assert 2 * numbers == whole, "half of each parameter on each of two ranks"
    types = {shard.dtype for some in shards for shard in some}
    return [bytes_behind(some) / numbers for some in shards], types, seen


@pytest.mark.everything
@pytest.mark.parametrize("in_sixteen_bits", [False, True])
def test_fsdp2_keeps_4_4_and_8_bytes_and_shows_16_bits_only_to_the_layers(
    in_sixteen_bits,
):
    kind = torch.bfloat16 if in_sixteen_bits else torch.float32
    for of_each, types, seen in run_ranks(bytes_under_fsdp2, in_sixteen_bits):
        assert of_each == [4, 4, 8]
        assert types == {torch.float32} and seen == {kind}


def gathers_with_fsdp2_kept_whole(
    after_forward: bool, after_backward: bool
) -> dict[str, int]:
    """Runs in each rank: what four micro-batches call, freed after these or kept."""
    model = fsdp_beside_ours.shard_by_torch(fsdp_beside_ours.make_wide_stack(16))
    with MessageMeter() as meter:
        for is_last in (False, False, False, True):
            model.set_requires_gradient_sync(is_last)
            if not after_forward:
                model.set_reshard_after_forward(False)
            model.set_reshard_after_backward(after_backward or is_last)
            model(torch.ones(4, 16, device=device())).sum().backward()
    return fsdp_beside_ours.count_fsdp2_names(meter.collectives)


@pytest.mark.everything
@pytest.mark.parametrize(
    ("freed", "gathers"),  # after forward, after backward; all-gathers of a unit
    [((True, True), 8), ((True, False), 5), ((False, True), 4), ((False, False), 1)],
)
def test_fsdp2_gathers_a_unit_once_for_four_micro_batches_if_it_is_never_freed(
    freed, gathers
):
    for calls in run_ranks(gathers_with_fsdp2_kept_whole, *freed):
        assert calls == {"all_gather": 3 * gathers, "reduce_scatter": 3}
