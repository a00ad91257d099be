"""Off-loading: the optimiser's numbers lie outside the device, and so is its update."""

import tempfile
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn

from parallel_by_hand.memory.recomputation import torch_with_one_thread


def _offloaded_tensor(folder: str, name: str, numbers: int) -> Tensor:
    """Zeros in a memory-mapped file, which stands for the memory of another place.

    The system keeps the file's pages in memory or writes them to the disk, as it likes.
    """
    path = Path(folder, name)
    return torch.from_file(str(path), shared=True, size=numbers, dtype=torch.float32)


def _adam_on_host(folder: str, shard: Tensor) -> tuple[nn.Parameter, torch.optim.Adam]:
    """A master copy of `shard` and an Adam, both with all their numbers on the host."""
    master = nn.Parameter(
        _offloaded_tensor(folder, "master", shard.numel()).copy_(shard)
    )
    adam = torch.optim.Adam([master], lr=0.001)
    averages = {
        name: _offloaded_tensor(folder, name, shard.numel())
        for name in ("exp_avg", "exp_avg_sq")
    }
    adam.state[master] = {"step": torch.tensor(0.0), **averages}
    return master, adam


@torch_with_one_thread()
def update_with_host(numbers: int, off_load: bool, steps: int = 5) -> dict:
    """Update a shard with made-up gradients: bytes on the device, seconds, the shard.

    The seconds are those of the shortest of `steps` updates.
    Off-loaded, each step copies the gradient out and the new parameters back: 4 bytes
    for each number, each way. On a GPU that is the trip over the PCIe bus.
    """
    generator = torch.Generator().manual_seed(0)
    shard = torch.randn(numbers, generator=generator)
    gradient = torch.randn(numbers, generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        if off_load:
            master, adam = _adam_on_host(folder, shard)
            master.grad = _offloaded_tensor(folder, "gradient", numbers)
        else:
            master = nn.Parameter(shard)
            adam = torch.optim.Adam([master], lr=0.001)
            master.grad = gradient
        durations = []
        for _ in range(steps):
            began = perf_counter()
            if off_load:
                master.grad.copy_(gradient)
            adam.step()
            if off_load:
                shard.copy_(master.detach())
            durations.append(perf_counter() - began)
        state = [t for t in adam.state[master].values() if t.numel() > 1]
    held = [shard, gradient] + ([] if off_load else state)
    return {
        "bytes": sum(t.nbytes for t in held),
        "seconds": min(durations),
        "shard": shard.clone(),
    }
