"""Published trainings in the simulator's words, with one set of constants for all."""

from dataclasses import replace
from typing import NamedTuple

from parallel_by_hand.scale import published as paper
from parallel_by_hand.scale.known_gpus import A100, H100
from parallel_by_hand.scale.legal_strategies import fewest_chunks
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy

EFFICIENCY = 0.6278
"""The one number that is fitted, on one row: Megatron's 145.6 B. `fitted_efficiency`
finds it; all other rows, and other machines, use it as it is. All other constants are
from data sheets, in known_gpus.py."""


def selene(gpus: int, efficiency: float = EFFICIENCY) -> Cluster:
    """Machines with eight A100 each, as in Narayanan et al. 2021."""
    return replace(A100, nodes=gpus // 8, efficiency=efficiency)


def grand_teton_cluster(gpus: int, efficiency: float = EFFICIENCY) -> Cluster:
    """Machines with eight H100 each, as in Grattafiori et al. 2024."""
    return replace(H100, nodes=gpus // 8, efficiency=efficiency)


class PublishedRun(NamedTuple):
    """What was run, and the TF/s per GPU that the paper reports.

    `recomputation` is counted in them: "full" for Megatron's, "none" for Llama 3's.
    """

    name: str
    model: Model
    cluster: Cluster
    strategy: Strategy
    batch: int
    teraflops: float
    counted: str = "full"


def gpt(layers: int, hidden: int, heads: int) -> Model:
    sizes = paper.MEGATRON_SEQUENCE, paper.MEGATRON_VOCABULARY
    return Model(layers, hidden, heads, *sizes)


def megatron_runs(efficiency: float = EFFICIENCY) -> list[PublishedRun]:
    """Table 1. What the paper leaves open is set by one rule for all rows.

    Micro-batches of one sequence; the fewest chunks of the interleaved schedule.
    """
    runs = []
    for row in paper.MEGATRON_TABLE_1:
        strategy = Strategy(
            data=row.gpus // (row.tensor * row.pipeline),
            tensor=row.tensor,
            pipeline=row.pipeline,
            schedule="interleaved" if row.pipeline > 1 else "1f1b",
            chunks=fewest_chunks(row.layers, row.pipeline),
            recomputation="full",
        )
        model = gpt(row.layers, row.hidden, row.heads)
        cluster = selene(row.gpus, efficiency)
        name = f"{row.billions} B"
        runs.append(
            PublishedRun(name, model, cluster, strategy, row.batch, row.teraflops)
        )
    return runs


def fixed_batch_strategy(name: str, gpus: int, micro_batch: int) -> Strategy:
    """Table 2's two families: "ZeRO-3", and "PTD" with 12 stages of 8 GPUs each."""
    common = {"micro_batch": micro_batch, "recomputation": "full"}
    if name == "ZeRO-3":
        return Strategy(data=gpus, shard_stage=3, overlap=True, **common)
    t, p = paper.TABLE_2_TENSOR, paper.TABLE_2_PIPELINE
    return Strategy(data=gpus // (t * p), tensor=t, pipeline=p, **common)


def fixed_batch_runs(efficiency: float = EFFICIENCY) -> list[PublishedRun]:
    """Table 2: one model and one batch on 384, 768 and 1,536 GPUs, in two ways."""
    model = gpt(paper.TABLE_2_LAYERS, paper.TABLE_2_HIDDEN, paper.TABLE_2_HEADS)
    return [
        PublishedRun(
            f"{row.strategy} on {row.gpus}",
            model,
            selene(row.gpus, efficiency),
            fixed_batch_strategy(row.strategy, row.gpus, row.micro_batch),
            paper.TABLE_2_BATCH,
            row.teraflops,
        )
        for row in paper.MEGATRON_TABLE_2
    ]


def llama_runs(efficiency: float = EFFICIENCY) -> list[PublishedRun]:
    """Table 4 without its third row: our simulator has no context parallel.

    The paper computes no activations again. Its strategy fits only if the attention's
    scores are not kept, which is "selective" here. Chunks are not given: four, with 63
    or 64 thin stages of two layers and the rest of one.
    """
    sizes = paper.LLAMA_LAYERS, paper.LLAMA_HIDDEN, paper.LLAMA_HEADS
    runs = []
    for row in paper.LLAMA_TABLE_4:
        if row.context > 1:
            continue
        strategy = Strategy(
            row.data, row.tensor, row.pipeline, shard_stage=1, overlap=True,
            schedule="interleaved", chunks=4, recomputation="selective",
            sequence_parallel=True,
        )  # fmt: skip
        runs.append(
            PublishedRun(
                f"405 B on {row.gpus:,}",
                Model(*sizes, row.sequence, paper.LLAMA_VOCABULARY),
                grand_teton_cluster(row.gpus, efficiency),
                strategy,
                row.data * row.batch_of_replica,
                row.teraflops,
                "none",
            )
        )
    return runs


def known_in_2021(strategy: Strategy) -> bool:
    """Without sequence parallel, selective recomputation, and ZeRO in a pipeline."""
    newer = strategy.sequence_parallel or strategy.recomputation == "selective"
    return not newer and strategy.shard_stage == 0
