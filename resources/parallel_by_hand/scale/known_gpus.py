"""Two kinds of machines with eight GPUs, from their data sheets.

What is not in a data sheet is said to be assumed. Each number stands here only.
"""

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

KNOWN_GPUS = {"A100": A100, "H100": H100}
