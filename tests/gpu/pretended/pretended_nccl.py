"""NCCL for GPUs that do not exist: gloo carries the messages, and the CPU has none."""

import functools
import weakref

import torch
import torch.distributed as dist
from pretended_gpus import GpuTensor
from torch.distributed import distributed_c10d
from torch.utils._pytree import tree_leaves

COLLECTIVES = (
    *("all_reduce", "broadcast", "reduce", "gather", "scatter", "send", "recv"),
    *("all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single"),
    *("reduce_scatter", "reduce_scatter_tensor"),
)
SINGLE_MESSAGES = ("isend", "irecv")  # torch asks whether an operation is one of these
nccl_groups = weakref.WeakSet()  # a group that is destroyed is to be freed


def on_gpus_only(function):
    """The function, refusing the CPU's tensors in a group that has NCCL."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        group = kwargs.get("group") or dist.group.WORLD
        if group in nccl_groups:
            for leaf in tree_leaves((args, kwargs)):
                if isinstance(leaf, torch.Tensor) and not isinstance(leaf, GpuTensor):
                    raise RuntimeError(
                        f"{function.__name__}: No backend type associated with device "
                        "type cpu"
                    )
        return function(*args, **kwargs)

    return call


def pretend_nccl() -> None:
    usual_init, usual_backend = dist.init_process_group, dist.get_backend
    usual_group = dist.new_group

    @functools.wraps(usual_init)
    def init_process_group(backend=None, *args, **kwargs):
        usual_init("gloo", *args, **kwargs)
        if backend != "gloo":
            nccl_groups.add(dist.group.WORLD)

    @functools.wraps(usual_group)
    def new_group(*args, backend=None, **kwargs):
        group = usual_group(*args, backend=None, **kwargs)
        is_member = group is not dist.GroupMember.NON_GROUP_MEMBER
        if is_member and (backend == "nccl" or (backend is None and nccl_groups)):
            nccl_groups.add(group)  # without a backend it has that of the whole
        return group

    def get_backend(group=None) -> str:
        group = group or dist.group.WORLD
        if group in nccl_groups:
            return "nccl"
        return usual_backend(group)

    dist.is_nccl_available = lambda: True
    torch.cuda.nccl.version = lambda: (0, 0, 0)  # torch writes it into its log
    dist.init_process_group, dist.new_group = init_process_group, new_group
    dist.get_backend = get_backend
    for name in COLLECTIVES:
        setattr(dist, name, on_gpus_only(getattr(dist, name)))
    for name in SINGLE_MESSAGES:
        wrapped = on_gpus_only(getattr(dist, name))
        setattr(dist, name, wrapped)
        setattr(distributed_c10d, name, wrapped)
