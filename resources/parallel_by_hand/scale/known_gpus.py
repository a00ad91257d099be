"""GPUs and the machines that hold them, from the table of their data sheets."""

from dataclasses import replace

from parallel_by_hand.scale.training_plan import Cluster, Link
from sidebyside.course.datasets import read_table

# Shares of a link's bandwidth that rings reach: of NVLink assumed; of cards 91 of 100
# GB/s (github.com/NVIDIA/nccl-tests, issue 100: 16 A100 with four cards in a machine).
SHARE_WITHIN, SHARE_BETWEEN = 0.78, 0.9
CARD_SHOWS = 0.99 * 2**30 / 1e9  # of 80 "GB", torch reports 79.2 GiB
LAUNCHES = 80 * 6e-6  # assumed: kernels of a layer's forward, and seconds to start one

_ROWS = {row.pop("name"): row for row in read_table("gpus")}
UNFITTED = [name for name, row in _ROWS.items() if row["fitted"] == "no"]


def _by_data_sheet(row: dict[str, str]) -> Cluster:
    """One machine; it is assumed that products reach 0.7 of the peak."""
    return Cluster(
        gpus_per_node=int(row["gpus_per_node"]),
        nodes=1,
        peak_flops=1e12 * float(row["peak_tflops"]),
        efficiency=0.7,
        memory=1e9 * float(row["memory_gb"]),
        memory_bandwidth=1e9 * float(row["memory_gb_s"]),
        link_within=Link(float(row["within_s"]), 1e9 * float(row["within_gb_s"])),
        link_between=Link(float(row["between_s"]), 1e9 * float(row["between_gb_s"])),
        price=float(row["price"]),
        watts=float(row["watts"]),
    )


def _as_it_runs(row: dict[str, str]) -> Cluster:
    """The same with what frameworks, NCCL and the driver make of it."""
    gpu = _by_data_sheet(row)
    within, between = gpu.link_within, gpu.link_between
    return replace(
        gpu,
        efficiency=float(row["efficiency"]),
        passes=float(row["passes"]),
        attention=float(row["attention"]),
        contention=0.8,
        ring_of_all_cards=True,
        launch=float(row["launch"] or LAUNCHES),
        memory=CARD_SHOWS * gpu.memory,
        reserve=1.5e9,  # assumed
        link_within=within._replace(bandwidth=SHARE_WITHIN * within.bandwidth),
        link_between=between._replace(bandwidth=SHARE_BETWEEN * between.bandwidth),
    )


A100, H100 = (_by_data_sheet(_ROWS[name]) for name in ("A100", "H100"))
GPUS = {name: _as_it_runs(row) for name, row in _ROWS.items()}
"""By name, as they run; those that are unfitted have the constants of the others."""
