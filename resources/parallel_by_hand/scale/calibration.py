"""Measure this machine's constants: what `Cluster` needs, from sizes not predicted."""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.link_cost import fit_link_cost, typical_seconds
from parallel_by_hand.devices.roofline import (
    copy_vector,
    least_seconds,
    multiply_matrix,
)
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.this_machine import MeasuredStep, measure_step, time_rings
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy
from parallel_by_hand.sharding.ledger import SINGLE
from sidebyside import run_ranks

CALIBRATED_ON = Model(layers=2, hidden=128, heads=4, sequence=64, vocabulary=0)
CALIBRATED_BATCH = 8
RING_SIZES = [40_000, 160_000, 640_000, 2_560_000]
MEMORY = 4e9  # bytes: more than any of our runs needs


def _measure_roof() -> tuple[float, float]:
    """Runs in each rank, at once: operations per second, bytes per second."""
    torch.set_num_threads(1)
    product, copy = multiply_matrix(256, 512), copy_vector(2_000_000)
    dist.barrier()
    seconds = least_seconds([product, copy], rounds=10)
    return product.flops / seconds[product], copy.bytes / seconds[copy]


def step_seconds(measured: Sequence[MeasuredStep]) -> float:
    """For calibration, the typical round: each takes as long as its slowest rank."""
    rounds = zip(*(m.seconds for m in measured), strict=True)
    slowest = [max(of_ranks) for of_ranks in rounds]
    return float(typical_seconds(slowest))


def link_of_rings(timed: dict[int, list[float]]) -> Link:
    """The calibrated link, 10b's line: fitted to the shortest times of rings.

    Where noise would make a constant negative, the smallest size gives alpha and the
    largest one the bandwidth.
    """
    shortest = {size: min(rounds) for size, rounds in timed.items()}
    two_alphas, beta = fit_link_cost(list(shortest), list(shortest.values()))
    if two_alphas <= 0 or beta <= 0:
        smallest, largest = min(shortest), max(shortest)
        two_alphas, beta = shortest[smallest], shortest[largest] / largest
    return Link(two_alphas / 2, 1 / beta)


def calibrate(rounds: int = 5) -> Cluster:
    """This machine as a cluster of two: one efficiency, so that one small step fits.

    Both ranks make the small step at the same time and send nothing: each has its own
    half of the cores' memory bandwidth.
    """
    roofs = run_ranks(_measure_roof, world_size=2)
    peak, bandwidth = (min(column) for column in zip(*roofs, strict=True))
    link = link_of_rings(run_ranks(time_rings, RING_SIZES, world_size=2)[0])
    machine = Cluster(2, 1, peak, 1.0, MEMORY, bandwidth, link, link)
    alone = Strategy(micro_batch=CALIBRATED_BATCH, state=SINGLE)
    task = CALIBRATED_ON, alone, CALIBRATED_BATCH, rounds
    measured = run_ranks(measure_step, *task, world_size=2)
    return replace(machine, efficiency=_fit_efficiency(machine, step_seconds(measured)))


def _fit_efficiency(machine: Cluster, seconds: float) -> float:
    """The efficiency with which the calibration's step takes so many seconds."""
    alone = replace(machine, gpus_per_node=1)
    strategy = Strategy(micro_batch=CALIBRATED_BATCH, state=SINGLE)
    low, high = 0.001, 4.0
    for _ in range(50):
        middle = (low * high) ** 0.5
        step = simulate_step(
            CALIBRATED_ON, replace(alone, efficiency=middle), strategy, CALIBRATED_BATCH
        )
        low, high = (middle, high) if step.seconds > seconds else (low, middle)
    return middle


def print_constants(machine: Cluster) -> None:
    """What was calibrated on this machine."""
    alpha, bandwidth = machine.link_within
    print(
        f"a billion operations take {1e12 / machine.peak_flops:.1f} ms in a large "
        f"product; a step reaches {100 * machine.efficiency:.0f} % of that speed"
    )
    print(
        f"memory {machine.memory_bandwidth / 1e9:.1f} GB/s; "
        f"a message {1e6 * alpha:.0f} µs and {bandwidth / 1e6:.0f} MB/s"
    )
