"""The arithmetic of a step: operations, and the seconds that one GPU computes.

Additions and multiplications are counted as in Narayanan et al. 2021 (Megatron-LM),
appendix: a product of matrices has 2 for each pair of numbers, and only products count.
"""

from parallel_by_hand.devices.roofline import RooflineOperation, seconds_under_roof
from parallel_by_hand.scale.step_memory import layer_activations, matrices_of_group
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy

HOST_LINK = 25e9  # PCIe 4.0 x16: 32 GB/s by its standard; the share is assumed
HOST_ADAM = 0.26e-9  # seconds for a number: Ren et al. 2021 (ZeRO-Offload), Table 4
BACKWARD = 2  # forwards: a product has two factors, and each has a gradient


def layer_flops(model: Model) -> float:
    """Forward of a layer for one token: 24 h^2 (1 + s / (6 h)) for a GPT."""
    return 2 * model.active_matrices + score_flops(model)


def score_flops(model: Model) -> float:
    """The part of it that selective recomputation repeats: scores, and their mixing."""
    return 4 * model.sequence * model.hidden


def head_flops(model: Model) -> float:
    """Forward of the logits, for one token."""
    return 2 * model.hidden * model.vocabulary


def step_flops(model: Model, batch: int, recomputation: str = "none") -> float:
    """Operations of all GPUs for a batch of sequences, what is computed twice included.

    "full" is Megatron's 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)). "none" is what the
    model needs, for the *model* FLOPs utilisation.
    """
    again = {"none": 0, "selective": score_flops(model), "full": layer_flops(model)}
    layer = (1 + BACKWARD) * layer_flops(model) + again[recomputation]
    head = (1 + BACKWARD) * head_flops(model)
    return batch * model.sequence * (model.layers * layer + head)


def layer_seconds(
    model: Model, cluster: Cluster, strategy: Strategy
) -> tuple[float, float]:
    """Forward and backward of a layer for a micro-batch: seconds that a GPU computes.

    Products are under 13's roofline, and read their weights. What lies between them
    (norms, GELU, softmax, dropout) writes and reads what the layer keeps, and does no
    product: the memory's bandwidth decides.
    """
    tokens = strategy.micro_batch * model.sequence / strategy.context
    scores = score_flops(model)
    if cluster.attention:
        scores *= cluster.efficiency / cluster.attention
    flops = tokens * (2 * model.active_matrices + scores) / strategy.tensor
    weights = strategy.state.parameters * matrices_of_group(model, strategy)
    weights /= strategy.tensor
    kept = layer_activations(model, strategy, scores=False)
    scores = layer_activations(model, strategy) - kept
    moved = cluster.passes * kept + 2 * scores
    forward = _roof_of_step(cluster, flops, weights) + _roof_of_step(cluster, 0, moved)
    forward = max(forward, cluster.launch)
    backward = BACKWARD * forward
    if strategy.frozen:
        dense = tokens * 2 * model.active_matrices / strategy.tensor
        backward -= _roof_of_step(cluster, dense, 0)
    again = 0.0
    if strategy.recomputation == "full":
        again = forward
    elif strategy.recomputation == "selective":
        flops = tokens * score_flops(model) / strategy.tensor
        again = _roof_of_step(cluster, flops, 0) + _roof_of_step(cluster, 0, 2 * scores)
    return forward, backward + again


def head_seconds(
    model: Model, cluster: Cluster, strategy: Strategy
) -> tuple[float, float]:
    """The same for the logits and the loss, on the last stage; float32 logits."""
    tokens = strategy.micro_batch * model.sequence / strategy.context
    flops = tokens * head_flops(model) / strategy.tensor
    table = model.vocabulary / strategy.tensor
    weights = strategy.state.parameters * model.hidden * table
    logits = 4 * tokens * table
    forward = _roof_of_step(cluster, flops, weights) + _roof_of_step(
        cluster, 0, cluster.passes * logits
    )
    unneeded = _roof_of_step(cluster, flops, 0) if strategy.frozen else 0.0
    return forward, BACKWARD * forward - unneeded


def unneeded_flops(model: Model, batch: int) -> float:
    """Of `step_flops`: the gradients of all weights, where these are frozen."""
    weights = model.layers * model.active_matrices + model.hidden * model.vocabulary
    return 2 * batch * model.sequence * weights


def update_seconds(state: float, cluster: Cluster) -> float:
    """The optimiser reads and writes the state that this GPU updates: bytes decide."""
    return _roof_of_step(cluster, 0, 2 * state)


def off_loaded_seconds(numbers: float, size: float, cluster: Cluster) -> float:
    """Gradients go to the host and parameters come back, `size` bytes for each GPU; in
    between a node's processors update so many numbers of each of its GPUs.
    """
    return size / HOST_LINK + cluster.gpus_per_node * numbers * HOST_ADAM


def _roof_of_step(cluster: Cluster, flops: float, size: float) -> float:
    operation = RooflineOperation("", flops, size, run=lambda: None)
    reached = cluster.peak_flops * cluster.efficiency
    return seconds_under_roof(operation, reached, cluster.memory_bandwidth)
