"""What one layer of experts costs a rank, each way that four ranks share it."""

import torch
import torch.distributed as dist

from parallel_by_hand.experts.beside_whole import loss_of_layer
from parallel_by_hand.experts.expert_layer import (
    ExpertLayer,
    complete_gradients,
    is_expert,
    make_expert_layer,
    split_all_experts,
    split_experts,
)
from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.transformer_block import BlockCost
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, device

WIDTH, HIDDEN, TOKENS = 64, 64, 512


def cost_of_experts(way: str, experts: int = 8) -> BlockCost:
    """Runs in each rank: a step with 512 tokens in all, in 32 bits.

    `way` is "one rank", "DDP", "tensor" or "experts". All messages are sent by lesson
    10's own collectives, so that the meter sees them.
    """
    layer = make_expert_layer(WIDTH, HIDDEN, experts).to(device())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, generator=generator).to(device())
    if way == "tensor":
        layer = split_all_experts(layer)
    else:
        x = x.tensor_split(dist.get_world_size())[dist.get_rank()].clone()
    if way == "experts":
        layer = split_experts(layer, dist.group.WORLD)
    with messages_of_ours(), MessageMeter() as meter, KeptBytes(layer) as kept:
        loss_of_layer(layer, x.requires_grad_(), 0.01)[1].backward()
        if way in ("DDP", "experts"):
            complete_gradients(layer, _replicas(way))
    held = sum(p.nbytes for p in layer.parameters())
    return BlockCost(held, kept.peak, meter.bytes_sent)


def _replicas(way: str):
    """The ranks that have the same experts: with DDP all, with experts this one."""
    if way == "DDP":
        return dist.group.WORLD
    groups = [[rank] for rank in range(dist.get_world_size())]
    return dist.new_subgroups_by_enumeration(groups)[0]


def numbers_of_experts(layer: ExpertLayer) -> dict[str, int]:
    """The layer's parameters: all of them, and those that one token meets."""
    of_experts = sum(p.numel() for n, p in layer.named_parameters() if is_expert(n))
    total = sum(p.numel() for p in layer.parameters())
    unused = of_experts // len(layer.experts) * (len(layer.experts) - layer.router.k)
    return {"total": total, "active": total - unused}
