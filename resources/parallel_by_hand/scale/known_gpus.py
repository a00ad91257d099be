"""GPUs and the machines that hold them, from their data sheets.

What is not in a data sheet is said to be assumed. Each number stands here only.
"""

from dataclasses import replace

from parallel_by_hand.scale.training_plan import Cluster, Link
from parallel_by_hand.tensor_parallel.pair_costs import GPU_LINKS, H100_FLOPS

# NVIDIA A100 80 GB SXM data sheet: 312 TF/s in bfloat16, 2,039 GB/s, NVLink 600 GB/s
# both ways together, 400 W. DGX A100 data sheet: a 200 Gb/s card for each GPU.
# Assumed: what a message costs, and the share of the peak that products reach.
A100 = Cluster(
    gpus_per_node=8,
    nodes=1,
    peak_flops=312e12,
    efficiency=0.7,
    memory=80e9,
    memory_bandwidth=2.039e12,
    link_within=Link(5e-6, 300e9),
    link_between=Link(10e-6, 25e9),
    price=2.0,  # assumed: of the order that clouds ask for an hour
    watts=400.0,
)

# NVIDIA H100 SXM data sheet: 3.35 TB/s, 80 GB, 700 W; the rest is lesson 16a's.
WITHIN_H100, BETWEEN_H100 = GPU_LINKS.values()
H100 = Cluster(
    gpus_per_node=8,
    nodes=1,
    peak_flops=H100_FLOPS,
    efficiency=0.7,
    memory=80e9,
    memory_bandwidth=3.35e12,
    link_within=Link(5e-6, WITHIN_H100),
    link_between=Link(10e-6, BETWEEN_H100),
    price=4.0,  # assumed, as above
    watts=700.0,
)

# Shares of a link's bandwidth that rings reach: of NVLink assumed; of cards 91 of 100
# GB/s (github.com/NVIDIA/nccl-tests, issue 100: 16 A100 with four cards in a machine).
SHARE_WITHIN, SHARE_BETWEEN = 0.78, 0.9
CARD_SHOWS = 0.99 * 2**30 / 1e9  # of 80 "GB", torch reports 79.2 GiB
LAUNCHES = 80 * 6e-6  # assumed: kernels of a layer's forward, and seconds to start one


def _as_it_runs(
    gpu: Cluster,
    efficiency: float,
    passes: float,
    attention: float,
    launch: float = LAUNCHES,
) -> Cluster:
    """A GPU of a data sheet with what frameworks, NCCL and its driver make of it.

    Three numbers are fitted for each kind, `contention` is for all of them: see
    `published_table.py`.
    """
    within, between = gpu.link_within, gpu.link_between
    return replace(
        gpu,
        efficiency=efficiency,
        passes=passes,
        attention=attention,
        contention=0.8,
        ring_of_all_cards=True,
        launch=launch,
        memory=CARD_SHOWS * gpu.memory,
        reserve=1.5e9,  # assumed
        link_within=within._replace(bandwidth=SHARE_WITHIN * within.bandwidth),
        link_between=between._replace(bandwidth=SHARE_BETWEEN * between.bandwidth),
    )


FITTED_A100, FITTED_H100 = (0.78, 3.0, 0.55), (0.72, 4.0, 0.32)
# Measured by us, one H200, in torch without compiling: products reach 817 TF/s
# (measure_gpu.py); the others are fitted on own_runs.csv. Data sheet: 4.8 TB/s, 141 GB.
FITTED_H200 = 0.826, 5.0, 0.45, 0.7e-3
H200 = replace(H100, memory=141e9, memory_bandwidth=4.8e12, price=4.5)
FITTED = {
    "A100": _as_it_runs(A100, *FITTED_A100),
    "A100-40": _as_it_runs(
        replace(A100, memory=40e9, memory_bandwidth=1.555e12), *FITTED_A100
    ),
    "H100": _as_it_runs(H100, *FITTED_H100),
    "H200": _as_it_runs(H200, *FITTED_H200),
}

# Data sheets, operations in bfloat16 without sparsity: HGX B200
# 2.25 PF/s, 180 GB, 8 TB/s, NVLink 1.8 TB/s both ways, 1,000 W; GB200 NVL72 with 72
# GPUs in one NVLink domain, 186 GB, 1,200 W; L40S 362 TF/s, 864 GB/s, 48 GB, PCIe 4.0
# x16, 350 W; RTX 4090 165 TF/s, 1,008 GB/s, 24 GB, 450 W, without peer-to-peer
# transfers (half of PCIe assumed); TPU v5p 459 TF/s, 2,765 GB/s, 95 GB, links of 600
# GB/s both ways in all, watts assumed. Prices are assumed.
_SHEETS = {
    "B200": replace(
        H100, peak_flops=2.25e15, memory=180e9, memory_bandwidth=8e12,
        link_within=Link(5e-6, 900e9), price=6.0, watts=1000.0,
    ),
    "GB200": replace(
        H100, gpus_per_node=72, peak_flops=2.5e15, memory=186e9, memory_bandwidth=8e12,
        link_within=Link(5e-6, 900e9), price=7.0, watts=1200.0,
    ),
    "L40S": replace(
        A100, peak_flops=362e12, memory=48e9, memory_bandwidth=864e9,
        link_within=Link(10e-6, 32e9), price=1.0, watts=350.0,
    ),
    "RTX4090": replace(
        A100, peak_flops=165e12, memory=24e9, memory_bandwidth=1.008e12,
        link_within=Link(20e-6, 16e9), link_between=Link(30e-6, 1.25e9), price=0.4,
        watts=450.0,
    ),
    "TPUv5p": replace(
        A100, gpus_per_node=64, peak_flops=459e12, memory=95e9,
        memory_bandwidth=2.765e12, link_within=Link(5e-6, 300e9), price=4.2,
        watts=500.0,
    ),
}  # fmt: skip
UNFITTED = {
    name: _as_it_runs(sheet, *FITTED_A100 if sheet.watts < 500 else FITTED_H100)
    for name, sheet in _SHEETS.items()
}

GPUS = FITTED | UNFITTED
"""By name, as they run; those that are unfitted have the constants of the others."""
