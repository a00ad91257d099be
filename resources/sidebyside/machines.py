"""What this machine has, and how much of it a program may use."""

import importlib.metadata
import math
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil


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

    def __repr__(self) -> str:
        rows = {
            "usable cores": f"{self.usable_cores}   ({self.limit})",
            "logical cores": self.logical_cores,
            "physical cores": self.physical_cores,
            "memory": f"{self.memory_gb:.1f} GB",
            "GPUs": ", ".join(self.gpus) or "none",
            "Python": self.python,
            "torch": self.torch,
            "NumPy": self.numpy,
        }
        return "\n".join(f"{name:<15} {value}" for name, value in rows.items())

    def capacity(
        self, workers: int = 2, rounds: int = 5, seconds: float = 0.1
    ) -> float:
        """How much more work `workers` busy processes get done than one, measured now.

        In each round one process counts for a while alone, then all count at once. The
        result is the median over the rounds of (work of all) / (work of one): at
        most `workers`, at most the usable cores, and less where cores are shared.
        """
        from sidebyside.ranks import run_ranks

        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        counts = run_ranks(_count_steps_in_turn, rounds, seconds, world_size=workers)
        ratios = [
            sum(together) / alone
            for alone, *together in zip(
                [alone for alone, _ in counts[0]],
                *[[together for _, together in of_rank] for of_rank in counts],
                strict=True,
            )
        ]
        return min(statistics.median(ratios), float(workers))


def _count_steps_of_machine(seconds: float) -> float:
    """Steps per second of a pure Python loop, over about `seconds`."""
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(1000):
            steps += 1
    return steps / (time.perf_counter() - began)


def _count_steps_in_turn(rounds: int, seconds: float) -> list[tuple[float, float]]:
    """Runs in each rank: the speed of rank 0 alone, and of this rank among all."""
    import torch.distributed as dist

    speeds = []
    for _ in range(rounds):
        dist.barrier()
        alone = _count_steps_of_machine(seconds) if dist.get_rank() == 0 else 0.0
        dist.barrier()
        speeds.append((alone, _count_steps_of_machine(seconds)))
    return speeds


def machine() -> Machine:
    """Cores, memory, GPUs and versions of this machine, as this process sees them."""
    logical = os.cpu_count() or 1
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    )
    quota = _container_quota()
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
        memory_gb=psutil.virtual_memory().total / 1e9,
        python=platform.python_version(),
        torch=importlib.metadata.version("torch"),
        numpy=importlib.metadata.version("numpy"),
        limit=limit,
    )


def _container_quota(root: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores that a container's time quota allows; infinite where there is none."""
    try:
        quota, period = (root / "cpu.max").read_text().split()  # cgroup version 2
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text().strip()  # version 1
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return math.inf
    if quota == "max" or int(quota) <= 0:
        return math.inf
    return int(quota) / int(period)
