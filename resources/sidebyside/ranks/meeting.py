"""How ranks meet: torch.distributed is initialised, at this machine's own address."""

import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta

from sidebyside.ranks.messages import StorePortMessage


def rank_meets_others(
    rank: int, world_size: int, send: Callable, receive: Callable
) -> None:
    """Initialise torch.distributed; rank 0 offers the meeting point on a free port.

    `send` and `receive` take and bring the port: they lead to the parent.
    """
    import torch
    import torch.distributed as dist

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(world_size))
    torch.set_num_threads(1)
    dist.set_debug_level_from_env()  # torch was imported with an older environment
    if rank == 0:
        store = _rank_store_on_loopback()
        send(StorePortMessage(store.port))
    else:
        port = receive().port
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
    rank_joins_group(rank, world_size, store=store)


def _rank_store_on_loopback():
    """A store that only this machine can reach: left to itself, it would listen on
    all of the machine's networks."""
    import torch.distributed as dist

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("127.0.0.1", 1))  # sends nothing, but looks for the way
        listener = socket.create_server(("127.0.0.1", 0))
    except OSError as error:
        raise ConnectionError(
            "ranks meet at 127.0.0.1, this machine's own address, and it cannot be "
            f"used: {error}. On Linux `ip link set lo up` sets it up."
        ) from None
    port = listener.getsockname()[1]
    if os.name == "nt":  # its libraries do not share file descriptors
        listener.close()
        return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def keep_gloo_on_loopback() -> None:
    """For ranks that are all on this machine: else gloo listens on its network, too."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def rank_joins_group(rank: int, world_size: int, timeout: float = 0, **meeting) -> None:
    """NCCL with a GPU for each rank where there are enough, else gloo on the CPU."""
    import torch
    import torch.distributed as dist

    here = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    if dist.is_nccl_available() and torch.cuda.device_count() >= here:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "nccl"
    else:
        backend = "gloo"
        if here == world_size:
            keep_gloo_on_loopback()
    if timeout:
        meeting["timeout"] = timedelta(seconds=timeout)
    dist.init_process_group(backend, rank=rank, world_size=world_size, **meeting)
