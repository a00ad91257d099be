"""A stack of blocks that learns the digits, sharded in the order of real trainers."""

# `fully_shard` gives the module back, as torch types do not say.
# pyright: reportReturnType=false, reportAttributeAccessIssue=false

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from parallel_by_hand.memory.device_memory import DeviceMemory
from parallel_by_hand.model_parallel.transformer_block import MLPHalf
from sidebyside import device, load_digits

WIDTH = 64  # the pixels of an image
FLOAT32 = MixedPrecisionPolicy()
BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
BF16_SUMS = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.bfloat16)


def make_stack(blocks: int = 3) -> nn.Sequential:
    """Blocks of a norm and an MLP, and a last layer; the same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(*(MLPHalf(WIDTH) for _ in range(blocks)), nn.Linear(WIDTH, 10))


def stack_loss(model: nn.Module, step: int, part: int, parts: int) -> Tensor:
    """The loss of one of `parts` equal shares of step's batch of 96 images."""
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    mine = torch.arange(step * 96, step * 96 + 96)[part::parts]
    return F.cross_entropy(model(images[mine]).float(), labels[mine])


def recompute(block: nn.Module, selective: bool) -> nn.Module:
    """`block` keeps its input; if `selective`, the results of its products, too."""
    ops = torch.ops.aten
    products = [ops.mm.default, ops.addmm.default]
    context = partial(create_selective_checkpoint_contexts, products)
    options: dict[str, Any] = {"context_fn": context} if selective else {}
    return checkpoint_wrapper(block, **options)


def shard_in_order(
    model: nn.Sequential,
    mesh: DeviceMesh | None = None,
    tensor: DeviceMesh | None = None,
    again: str = "nothing",  # or "all", or "all but products"
    compiler: Any = None,  # a backend of torch.compile
    policy: MixedPrecisionPolicy = FLOAT32,
) -> nn.Sequential:
    """Cut the products, recompute, compile, shard: each wraps what was before it."""
    for at, block in enumerate(list(model)[:-1]):
        if tensor:
            plan = {"wide": ColwiseParallel(), "narrow": RowwiseParallel()}
            parallelize_module(block, tensor, plan)
        if again != "nothing":
            model[at] = block = recompute(block, selective=again == "all but products")
        if compiler:
            block.compile(backend=compiler)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def load_weights(model: nn.Module, whole: dict[str, Any]) -> None:
    """Rank 0's `whole` weights, sent to each rank that keeps a part of them.

    The other ranks may give an empty dictionary. One tensor is sent at a time.
    """
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, whole, options=options)


def state_of_rank(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[int]:
    """Bytes of parameters, gradients and optimiser state that this rank keeps."""
    from parallel_by_hand.sharding.ledger import optimizer_tensors

    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters if p.grad is not None]
    kinds = parameters, gradients, optimizer_tensors(optimizer)
    return [sum(_local_bytes(tensor) for tensor in tensors) for tensors in kinds]


def _local_bytes(tensor: Tensor) -> int:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes


class LocalMemory(DeviceMemory):
    """Counts what a rank has of each DTensor, not the whole that it stands for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor does it, with tensors of this rank
        return super().__torch_dispatch__(function, types, args, kwargs)


def bytes_to_build(on_meta: bool) -> tuple[int, bool]:
    """Runs in each rank: most bytes while a sharded stack is made, and whether it is
    the one of `make_stack`. A thread of the backend may hold a small tensor longer; the
    whole weights that rank 0 sends are not counted."""
    whole = make_stack().to(device())
    with LocalMemory() as memory:
        with torch.device("meta") if on_meta else nullcontext():
            model = shard_in_order(make_stack())
        if on_meta:
            model.to_empty(device=device())
            load_weights(model, whole.state_dict() if dist.get_rank() == 0 else {})
    pairs = zip(model.parameters(), whole.parameters(), strict=True)
    return memory.peak, all(torch.equal(mine.full_tensor(), w) for mine, w in pairs)
