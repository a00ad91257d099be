"""The cost of each way to attend to other ranks' positions, and how right it is."""

import torch
import torch.distributed as dist

from parallel_by_hand.context_parallel.chunks import DEALS, own_chunks
from parallel_by_hand.context_parallel.other_ways import WAYS, for_all_heads
from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.split_block import causal_attention
from sidebyside import MessageMeter, device


def bill_of_way(
    way: str,
    deal: str = "zig-zag",
    positions: int = 64,
    heads: int = 4,
    heads_of_keys: int = 4,
    d: int = 8,
) -> dict:
    """Runs in each rank: attention, forward and backward, beside the whole one.

    In units of the bytes of this rank's queries: `forward` and `backward`, what it
    sends by lesson 10's own messages, and `kept`, what autograd keeps in between. Then
    the largest gap of outputs and of all gradients, in 64 bits.
    """
    torch.manual_seed(0)  # the same on every rank
    shapes = [(1, n, positions, d) for n in (heads, heads_of_keys, heads_of_keys)]
    whole = [torch.randn(shape, dtype=torch.float64).to(device()) for shape in shapes]
    mine = [own_chunks(part, DEALS[deal], -2).requires_grad_() for part in whole]
    whole = [part.requires_grad_() for part in whole]
    expected = causal_attention(whole[0], *for_all_heads(*whole))
    expected.square().sum().backward()
    dist.barrier()
    with messages_of_ours(), KeptBytes() as kept:
        with MessageMeter() as forward:
            ours = WAYS[way](*mine, DEALS[deal])
        bytes_kept = kept.now
        with MessageMeter() as backward:
            ours.square().sum().backward()
    unit = mine[0].nbytes
    gradients = zip((t.grad for t in mine), (t.grad for t in whole), strict=True)
    pairs = [(ours, expected), *gradients]
    gaps = [(a - own_chunks(b, DEALS[deal], -2)).abs().max().item() for a, b in pairs]
    return {
        "forward": forward.bytes_sent / unit,
        "backward": backward.bytes_sent / unit,
        "kept": bytes_kept / unit,
        "output": gaps[0],
        "gradients": max(gaps[1:]),
    }
