"""Published trainings in the simulator's words; the constants are those of the GPU."""

from dataclasses import replace
from typing import NamedTuple

from parallel_by_hand.scale import published as paper
from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.known_models import KNOWN_MODELS
from parallel_by_hand.scale.legal_strategies import fewest_chunks
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy


def selene(gpus: int) -> Cluster:
    """The machines of published runs: eight A100 each, as in Narayanan et al. 2021."""
    return replace(GPUS["A100"], nodes=gpus // 8)


class PublishedRun(NamedTuple):
    """What was run, and the TF/s per GPU that the paper reports."""

    name: str
    model: Model
    cluster: Cluster
    strategy: Strategy
    batch: int
    teraflops: float
    counted: str = "full"  # the recomputation in `teraflops`; Llama 3's have "none"


def gpt(layers: int, hidden: int, heads: int) -> Model:
    """The model of a published run, with the paper's sequences and vocabulary."""
    sizes = paper.MEGATRON_SEQUENCE, paper.MEGATRON_VOCABULARY
    return Model(layers, hidden, heads, *sizes)


def megatron_runs() -> list[PublishedRun]:
    """The runs of Table 1. What is left open is set by one rule for all rows.

    Micro-batches of one sequence; the fewest chunks of the interleaved schedule.
    Attention was not fused yet.
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
        cluster = selene(row.gpus)
        name = f"{row.billions} B"
        runs.append(
            PublishedRun(name, model, cluster, strategy, row.batch, row.teraflops)
        )
    return runs


def fixed_batch_strategy(name: str, gpus: int, micro_batch: int) -> Strategy:
    """Of Table 2's runs: "ZeRO-3", and "PTD" with 12 stages of 8 GPUs each."""
    common = {"micro_batch": micro_batch, "recomputation": "full"}
    if name == "ZeRO-3":
        return Strategy(data=gpus, shard_stage=3, overlap=True, **common)
    t, p = paper.TABLE_2_TENSOR, paper.TABLE_2_PIPELINE
    return Strategy(data=gpus // (t * p), tensor=t, pipeline=p, **common)


def fixed_batch_runs() -> list[PublishedRun]:
    """The runs of Table 2: one model and batch on 384, 768 and 1,536 GPUs, two ways."""
    model = gpt(paper.TABLE_2_LAYERS, paper.TABLE_2_HIDDEN, paper.TABLE_2_HEADS)
    return [
        PublishedRun(
            f"{row.strategy} on {row.gpus}",
            model,
            selene(row.gpus),
            fixed_batch_strategy(row.strategy, row.gpus, row.micro_batch),
            paper.TABLE_2_BATCH,
            row.teraflops,
        )
        for row in paper.MEGATRON_TABLE_2
    ]


def llama_runs() -> list[PublishedRun]:
    """The runs of Table 4. Chunks are not given: four, stages of one or two layers."""
    runs = []
    for row in paper.LLAMA_TABLE_4:
        strategy = Strategy(
            row.data, row.tensor, row.pipeline, shard_stage=1, overlap=True,
            schedule="interleaved", chunks=4, sequence_parallel=True,
            fused_attention=True, context=row.context,
        )  # fmt: skip
        runs.append(
            PublishedRun(
                f"405 B on {row.gpus:,}",
                replace(KNOWN_MODELS["llama3-405b"], sequence=row.sequence),
                replace(GPUS["H100"], nodes=row.gpus // 8),
                strategy,
                row.data * row.batch_of_replica,
                row.teraflops,
                "none",
            )
        )
    return runs


def known_in_2021(strategy: Strategy) -> bool:
    """Whether a published run of 2021 could use this: much was not known yet."""
    newer = strategy.sequence_parallel or strategy.recomputation == "selective"
    return not newer and strategy.shard_stage == 0
