"""A small model on one node, and its simulated steps."""

from dataclasses import replace

from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy

SMALL = Model(layers=8, hidden=512, heads=8, sequence=256, vocabulary=1000)
NODE = replace(A100, nodes=1)
FREE = replace(  # messages cost nothing, and nor does the memory's bandwidth
    A100, link_within=Link(0, 1e30), link_between=Link(0, 1e30), memory_bandwidth=1e30
)


def simulate(batch: int = 16, cluster: Cluster = NODE, model: Model = SMALL, **degrees):
    strategy = Strategy(**degrees)
    nodes = -(-strategy.gpus // cluster.gpus_per_node)
    if strategy.gpus < cluster.gpus_per_node:
        cluster = replace(cluster, gpus_per_node=strategy.gpus)
    return simulate_step(model, replace(cluster, nodes=nodes), strategy, batch)
