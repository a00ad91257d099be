"""What a training step is made of: a model, a cluster, and a strategy."""

from dataclasses import dataclass
from typing import NamedTuple

from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME, group_size
from parallel_by_hand.sharding.ledger import MIXED, STRATEGIES, StateBytes
from parallel_by_hand.sharding.memory_ledger import Transformer

ADAPTERS = 0.01  # of the parameters: assumed, of the order of rank 16 in all matrices
RECOMPUTATIONS = "none", "selective", "full"


@dataclass(frozen=True)
class Model:
    """A plan's model, GPT-like: output and input share one table of the vocabulary."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int  # 0: the layers alone, as our measured runs are
    kv_heads: int = 0  # fewer than heads, if queries are grouped; 0: as many
    mlp: int = 0  # the width between the MLP's products; 0: four times `hidden`
    gated: bool = False  # an MLP of three products, not two
    experts: int = 1  # MLPs of a layer
    experts_per_token: int = 1  # those that a token goes through
    tied: bool = True  # else another table for the output, and none of positions

    @property
    def kv_hidden(self) -> int:
        """Numbers of a position's keys; of its values as many."""
        return self.hidden * (self.kv_heads or self.heads) // self.heads

    @property
    def mlp_hidden(self) -> int:
        return self.mlp or 4 * self.hidden

    @property
    def layer_matrices(self) -> int:
        """Numbers of the matrices of a layer: 12 h^2, if nothing else is said."""
        return self._matrices(self.experts)

    @property
    def active_matrices(self) -> int:
        """Those that a token meets."""
        return self._matrices(self.experts_per_token)

    @property
    def mlp_matrices(self) -> int:
        """Those of one MLP, which is an expert if there are several."""
        return (2 + self.gated) * self.hidden * self.mlp_hidden

    def _matrices(self, experts: int) -> int:
        attention = 2 * self.hidden * (self.hidden + self.kv_hidden)
        return attention + experts * self.mlp_matrices

    @property
    def active_numbers(self) -> int:
        """Parameters that a token meets."""
        return self.numbers - self.layers * (self.layer_matrices - self.active_matrices)

    @property
    def numbers(self) -> int:
        """Parameters, by 17's ledger, 12 l h^2 + 13 l h and what is at the ends."""
        h, a, v, s = self.hidden, self.heads, self.vocabulary, self.sequence
        other = self.layers * (self.layer_matrices - 12 * h**2)
        if not v:
            return self.layers * (12 * h**2 + 13 * h) + other
        other += 0 if self.tied else (v - s) * h
        return Transformer(h, self.layers, a, v, s).numbers + other


class Link(NamedTuple):
    """A link of a plan's cluster: seconds for a message, bytes per second each way."""

    alpha: float
    bandwidth: float


@dataclass(frozen=True)
class Cluster:
    """A plan's cluster, `nodes` of `gpus_per_node`. All sizes are those of one GPU."""

    gpus_per_node: int
    nodes: int
    peak_flops: float  # operations per second, by the data sheet
    efficiency: float  # the share of them that large products reach
    memory: float  # bytes
    memory_bandwidth: float  # bytes per second
    link_within: Link
    link_between: Link
    price: float = 0.0  # for an hour
    watts: float = 0.0  # while it works
    ring_of_all_cards: bool = False  # do a group's members in a node use a card each?
    attention: float = 0.0  # the efficiency of the scores' products; 0: as all others'
    contention: float = 0.0  # the share of a hidden message's time by which it slows
    passes: float = 2.0  # over the bytes between products; 2: written and read once
    launch: float = 0.0  # seconds that a layer's forward takes at least
    reserve: float = 0.0  # bytes for the driver's context, NCCL's buffers, and gaps

    @property
    def gpus(self) -> int:
        return self.gpus_per_node * self.nodes


@dataclass(frozen=True)
class Strategy:
    """The strategy of a plan: how many GPUs split what. Their product is all GPUs.

    A `state` without bytes of gradients means that the weights are frozen and adapters
    are trained (LoRA); gradients without an optimiser, that it is off-loaded: the host
    keeps its state, and updates.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    shard_stage: int = 0  # plain data parallel, to 3 of ZeRO
    micro_batch: int = 1  # sequences
    schedule: str = "1f1b"  # one of lesson 15's
    recomputation: str = "none"
    sequence_parallel: bool = False
    overlap: bool = False  # do data parallel's messages travel during backward?
    chunks: int = 2  # thin stages of a rank, if the schedule is interleaved
    state: StateBytes = MIXED  # of each number; they travel in the parameters' type
    fused_attention: bool = False  # keeps no scores, and goes without dropout
    context: int = 1  # ranks that share a sequence, and gather its keys and values
    hybrid: int = 1  # groups of data-parallel ranks that hold all shards each (FSDP)
    expert: int = 1  # neighbouring data-parallel ranks that share out the experts
    logit: int = 4  # bytes of each at the peak: one float32 if fused, plain three

    @property
    def gpus(self) -> int:
        return self.replicas * self.tensor * self.pipeline

    @property
    def replicas(self) -> int:
        """Ranks with the same part of the model: its gradients are summed over them."""
        return self.data * self.context

    @property
    def shard_ranks(self) -> int:
        """Those of them that share out what ZeRO shards."""
        return self.replicas // self.hybrid

    @property
    def stages(self) -> int:
        """Stages of the model: a rank of the pipeline has one, or `chunks`."""
        thin = self.schedule == "interleaved" and self.pipeline > 1
        return self.pipeline * (self.chunks if thin else 1)

    @property
    def frozen(self) -> bool:
        return not self.state.gradients

    @property
    def trained(self) -> float:
        """The share of all parameters that is."""
        return ADAPTERS if self.frozen else 1

    @property
    def shards(self) -> str:
        """17's name of the stage, such as "ZeRO-1"."""
        return STRATEGIES[self.shard_stage]

    def micro_batches(self, batch: int) -> int:
        """How many micro-batches a replica has of a batch of so many sequences."""
        return batch // (self.data * self.micro_batch)


def why_impossible(
    model: Model, cluster: Cluster, strategy: Strategy, batch: int
) -> str:
    """One sentence that says why this plan cannot run, or "" if it can."""
    s = strategy
    if s.gpus != cluster.gpus:
        context = (" x context", f" x {s.context}") if s.context > 1 else ("", "")
        return (
            f"data x tensor x pipeline{context[0]} is {s.data} x {s.tensor} x "
            f"{s.pipeline}{context[1]} = {s.gpus}, and there are {cluster.gpus} GPUs"
        )
    if model.sequence % s.context:
        return f"a sequence of {model.sequence} cannot be split over {s.context} ranks"
    if s.hybrid > 1 and s.shard_stage < 2:
        return f"hybrid sharding needs shard_stage 2 or 3, not {s.shard_stage}"
    if s.replicas % s.hybrid:
        return f"{s.replicas} data-parallel ranks cannot form {s.hybrid} equal groups"
    if model.kv_heads and model.heads % model.kv_heads:
        return f"{model.heads} heads cannot share {model.kv_heads} heads of keys"
    if model.experts_per_token > model.experts:
        return (
            f"a token cannot go to {model.experts_per_token} of {model.experts} experts"
        )
    if model.experts % s.expert or s.shard_ranks % s.expert:
        return (
            f"{model.experts} experts and {s.shard_ranks} data-parallel ranks cannot "
            f"be shared out over {s.expert}"
        )
    if model.hidden % model.heads:
        return f"{model.hidden} hidden numbers cannot be shared by {model.heads} heads"
    if model.heads % s.tensor:
        return f"{model.heads} heads cannot be split over {s.tensor} tensor ranks"
    if s.sequence_parallel and model.sequence % s.tensor:
        return f"a sequence of {model.sequence} cannot be split over {s.tensor} ranks"
    if s.stages > model.layers:
        return f"{s.stages} stages are more than the model's {model.layers} layers"
    return _why_words_are_unknown(s) or _why_not_cut(s, batch)


def _why_words_are_unknown(s: Strategy) -> str:
    if s.schedule not in SCHEDULES_BY_NAME:
        return f"schedule must be one of {', '.join(SCHEDULES_BY_NAME)}"
    if s.recomputation not in RECOMPUTATIONS:
        return f"recomputation must be one of {', '.join(RECOMPUTATIONS)}"
    if s.shard_stage not in range(len(STRATEGIES)):
        return f"shard_stage must be 0, 1, 2 or 3, not {s.shard_stage}"
    return ""


def _why_not_cut(s: Strategy, batch: int) -> str:
    if batch < 1 or batch % (s.data * s.micro_batch):
        return (
            f"a batch of {batch} cannot be cut into micro-batches of {s.micro_batch} "
            f"on {s.data} replicas"
        )
    if s.schedule == "interleaved":
        try:
            group_size(s.pipeline, s.micro_batches(batch))
        except ValueError as problem:
            return str(problem)
    return ""
