"""Sixteen independent matrix products on threads between and within operations."""

from collections.abc import Sequence
from statistics import median
from time import perf_counter

import torch

from demos.dataflow.parts.dataflow_executor import execute_dataflow
from demos.dataflow.parts.operations import Operation
from demos.dataflow.parts.thread_devices import ThreadDevices

PRODUCTS = 16


def sixteen_products_with(
    pairs: Sequence[tuple[int, int]], size: int, rounds: int
) -> dict[tuple[int, int], float]:
    """Seconds (median) for each (inter, intra): devices, and torch's threads in each.

    The pairs take turns, so that a busy moment does not hit one of them alone.
    """
    matrix = torch.rand(size, size)
    took: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
    for _ in range(rounds):
        for inter, intra in pairs:
            graph = [
                Operation(
                    f"product {i}", (), i % inter, compute=lambda: matrix @ matrix
                )
                for i in range(PRODUCTS)
            ]
            with ThreadDevices(range(inter), intra) as machine:
                began = perf_counter()
                execute_dataflow(graph, machine)
                took[inter, intra].append(perf_counter() - began)
    return {pair: median(seconds) for pair, seconds in took.items()}
