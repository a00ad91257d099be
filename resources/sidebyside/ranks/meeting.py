"""How ranks meet: torch.distributed is initialised, at this machine's own address.

The meeting point is a file: a TCPStore would ask for the name of 127.0.0.1, for which
a laptop without its network may wait for minutes.
"""

import os
import socket
import sys
from datetime import timedelta


def rank_meets_others(rank: int, world_size: int, store: str) -> None:
    """Initialise torch.distributed; the ranks find each other by the file `store`."""
    import torch
    import torch.distributed as dist

    os.environ.pop("GLOO_SOCKET_IFNAME", None)  # another one than this machine's own
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(world_size))
    torch.set_num_threads(1)
    dist.set_debug_level_from_env()  # torch was imported with an older environment
    _require_loopback()
    rank_joins_group(rank, world_size, store=dist.FileStore(store, world_size))


def _require_loopback() -> None:
    """gloo's own error would not say what is missing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 1))  # sends nothing, but looks for the way
    except OSError as error:
        raise ConnectionError(
            "ranks meet at 127.0.0.1, this machine's own address, and it cannot be "
            f"used: {error}. On Linux `ip link set lo up` sets it up."
        ) from None


def keep_gloo_on_loopback() -> None:
    """For ranks that are all on this machine: else gloo listens on its network, too."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _from_gpu_to_cpu(storage, location: str):
    """For `register_package`: the storage as it lies on the CPU, or None."""
    return storage if location.startswith("cuda") else None


def rank_joins_group(rank: int, world_size: int, timeout: float = 0, **meeting) -> None:
    """NCCL with a GPU for each rank where there are enough, else gloo on the CPU.

    A rank on gloo sees no GPU, which torch's FSDP2, meshes and PowerSGD would take, and
    tensors that the caller has on a GPU arrive on the CPU.
    """
    import torch
    import torch.distributed as dist

    here = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    if dist.is_nccl_available() and torch.cuda.device_count() >= here:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "nccl"
    else:
        backend = "gloo"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        torch.serialization.register_package(0, lambda s: None, _from_gpu_to_cpu)
        if here == world_size:
            keep_gloo_on_loopback()
    if timeout:
        meeting["timeout"] = timedelta(seconds=timeout)
    dist.init_process_group(backend, rank=rank, world_size=world_size, **meeting)
