"""What this machine has, and how much of it a program may use."""

import contextlib
import importlib.metadata
import math
import os
import platform
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import psutil

from sidebyside.measure.step_counter import speeds_together, step_counters


@dataclass(frozen=True)
class Machine:
    """The machine as this process may use it; shown as a table."""

    usable_cores: int
    logical_cores: int
    physical_cores: int
    memory_gb: float
    python: str
    torch: str
    numpy: str
    limit: str

    @property
    def gpus(self) -> tuple[str, ...]:
        """Their names. Asking imports torch, which takes seconds."""
        import torch

        count = torch.cuda.device_count()
        return tuple(torch.cuda.get_device_name(place) for place in range(count))

    def rows(self) -> dict[str, object]:
        """What the table says, by the name of each row."""
        return {
            "usable cores": f"{self.usable_cores}   ({self.limit})",
            "logical cores": self.logical_cores,
            "physical cores": self.physical_cores,
            "memory": f"{self.memory_gb:.1f} GB",
            "GPUs": ", ".join(self.gpus) or "none",
            "Python": self.python,
            "torch": self.torch,
            "NumPy": self.numpy,
        }

    def __repr__(self) -> str:
        return "\n".join(f"{name:<15} {value}" for name, value in self.rows().items())

    def capacity(
        self, workers: int = 2, rounds: int = 5, seconds: float = 0.1
    ) -> float:
        """How much more work `workers` busy processes get done than one, measured now.

        In each round one process counts for a while alone, then all count at once. The
        result is the median over the rounds of (work of all) / (work of one): at
        most `workers`, and less where cores are shared.
        """
        from sidebyside.ranks.launch import check_number_of_processes

        check_number_of_processes("workers", workers)
        ratios = []
        with step_counters(workers) as counters:
            for _ in range(rounds):
                [alone] = speeds_together(counters[:1], seconds)
                ratios.append(sum(speeds_together(counters, seconds)) / alone)
        return min(statistics.median(ratios), float(workers))


def machine() -> Machine:
    """Cores, memory, GPUs and versions of this machine, as this process sees them."""
    logical = os.cpu_count() or 1
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    )
    quota, memory = _group_limits()
    usable = max(1, math.floor(min(affinity, quota)))
    limit = "all of them"
    if quota < affinity:
        limit = f"a container limit of {quota:g}"
    elif affinity < logical:
        limit = "the others are not assigned to this process"
    return Machine(
        usable_cores=usable,
        logical_cores=logical,
        physical_cores=psutil.cpu_count(logical=False) or logical,
        memory_gb=min(memory, psutil.virtual_memory().total) / 1e9,
        python=platform.python_version(),
        torch=importlib.metadata.version("torch"),
        numpy=importlib.metadata.version("numpy"),
        limit=limit,
    )


def _group_limits(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> tuple[float, float]:
    """Cores and bytes that this process's control groups allow; infinite without limit.

    Such a group, a container's or a job's, has no more than each that it is part of. Of
    version 1 only the root is read: in a container this is the container's own.
    """
    path = re.search("^0::/(.*)", own.read_text(), re.M) if own.exists() else None
    group = root / (path[1] if path else "")
    cores, memory = [math.inf], _numbers(root / "memory/memory.limit_in_bytes")
    for folder in (group, *group.parents):
        if quota := _numbers(folder / "cpu.max"):
            cores.append(quota[0] / quota[1])
        memory += _numbers(folder / "memory.max")
    if (quota := _numbers(root / "cpu/cpu.cfs_quota_us")) and quota[0] > 0:
        cores.append(quota[0] / _numbers(root / "cpu/cpu.cfs_period_us")[0])
    return min(cores), min(memory, default=math.inf)


def _numbers(file: Path) -> list[float]:
    """What a file of a control group says, "max" as infinite; none without the file."""
    with contextlib.suppress(OSError):
        return [float(word.replace("max", "inf")) for word in file.read_text().split()]
    return []
