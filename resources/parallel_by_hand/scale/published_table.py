"""A table of published trainings, simulated and held to what they measured.

Three numbers are fitted for each of A100 and H100: the share of the peak that products
reach, the share that attention reaches, and how often what lies between products moves
its bytes. A fourth, by how much messages that travel meanwhile slow computing down, is
the same for both. They were found on a grid, for the smallest mean miss of the rows in
`PUBLISHED_RUNS` and of four with long texts from the same table of llm-foundry (MPT-7b
with 65,536 tokens on both GPUs, MPT-125m with 65,536 on A100, MPT-1b with 32,768 on
H100). The other 123 rows of that table, with 512 to 65,536 tokens and in 8 bits, are
missed by 5 % on the average, Megatron's Table 1 by 6 %, Llama 3's by 12 %.
"""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from parallel_by_hand.scale.known_gpus import (
    CARD_SHOWS,
    GPUS,
    SHARE_BETWEEN,
)
from parallel_by_hand.scale.simulated_step import SimulatedStep, simulate_step
from parallel_by_hand.scale.step_arithmetic import step_flops
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from sidebyside.course.datasets import DATA

PUBLISHED_RUNS = "published_runs.csv"
OWN_RUNS = DATA / "own_runs.csv"

_COLUMNS: dict[str, Callable] = dict.fromkeys(("source", "family", "model", "gpu"), str)
_COLUMNS |= dict.fromkeys(("schedule", "recomputation"), str)
_COLUMNS |= dict.fromkeys(
    ("layers", "hidden", "heads", "vocabulary", "sequence", "gpus", "gpus_per_node",
     "data", "tensor", "pipeline", "chunks", "shard_stage", "sequence_parallel",
     "fused_attention", "batch", "micro_batch"), int,
)  # fmt: skip
_COLUMNS |= dict.fromkeys(
    ("memory_gb", "cards_gb_s_per_gpu", "tokens_per_s_per_gpu"), float
)
OPTIONAL = {  # column: its value where there is none
    "kv_heads": 0, "mlp_width": 0, "gated_mlp": 0, "experts": 1, "experts_per_token": 1,
    "tied": 1, "context": 1, "hsdp": 1, "precision": "bf16",
    "expert_parallel": 1, "logit_bytes": 4,
}  # fmt: skip
PRECISIONS = {"bf16": 1, "fp8": 2}  # products in 8 bits have twice the peak


class PublishedRow(NamedTuple):
    """A row of the published table: what was run, and its tokens per second and GPU."""

    name: str
    family: str
    gpu: str
    model: Model
    cluster: Cluster
    strategy: Strategy
    batch: int
    tokens_per_second: float


class HeldRow(NamedTuple):
    """A row of the published table beside its simulated step; `miss` is a share."""

    row: PublishedRow
    step: SimulatedStep

    @property
    def tokens_per_second(self) -> float:
        tokens = self.row.batch * self.row.model.sequence
        return tokens / (self.step.seconds * self.row.cluster.gpus)

    @property
    def miss(self) -> float:
        return self.tokens_per_second / self.row.tokens_per_second - 1


def read_published_rows(path: Path | None = None) -> list[PublishedRow]:
    """The table of published trainings, from a CSV file; or the course's own.

    `batch` is sequences of the whole job, `cards_gb_s_per_gpu` one direction. Raises
    ValueError with a sentence if a column or a value is not understood.
    """
    path = path or DATA / PUBLISHED_RUNS
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        known = [*_COLUMNS, *OPTIONAL]
        for wrong, what in (
            ([c for c in columns if c not in known], "unknown columns"),
            ([c for c in _COLUMNS if c not in columns], "columns that are missing"),
        ):
            if wrong:
                raise ValueError(
                    f"{what}: {', '.join(wrong)}; a table has {', '.join(_COLUMNS)}, "
                    f"and may have {', '.join(OPTIONAL)}"
                )
        return [_row(n, values) for n, values in enumerate(reader, start=1)]


def _row(number: int, values: dict[str, str]) -> PublishedRow:
    read = dict(OPTIONAL)
    for column, text in values.items():
        kind = _COLUMNS.get(column, type(OPTIONAL.get(column, "")))
        try:
            if text or kind is str:
                read[column] = kind(text)
        except ValueError:
            raise ValueError(f"row {number}: {column} is no number: {text}") from None
    try:
        return _understood(read)
    except KeyError as missing:
        raise ValueError(f"row {number}: {missing.args[0]} is empty") from None
    except ValueError as problem:
        raise ValueError(f"row {number}: {problem}") from None


def _understood(read: dict) -> PublishedRow:
    gpu = read["gpu"]
    variant = f"{gpu}-{read['memory_gb']:g}"
    if gpu not in GPUS:
        raise ValueError(f"gpu must be one of {', '.join(GPUS)}, not {gpu}")
    if read["precision"] not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}")
    if read["gpus"] % read["gpus_per_node"]:
        raise ValueError("gpus must be a multiple of gpus_per_node")
    found = GPUS.get(variant, GPUS[gpu])
    faster = PRECISIONS[read["precision"]]
    cards = SHARE_BETWEEN * 1e9 * read["cards_gb_s_per_gpu"]
    cluster = replace(
        found,
        gpus_per_node=read["gpus_per_node"],
        nodes=read["gpus"] // read["gpus_per_node"],
        memory=CARD_SHOWS * 1e9 * read["memory_gb"],
        peak_flops=faster * found.peak_flops,
        attention=found.attention / faster,  # stays in 16 bits
        link_between=found.link_between._replace(bandwidth=cards),
    )
    model = Model(
        *(read[c] for c in ("layers", "hidden", "heads", "sequence", "vocabulary")),
        kv_heads=read["kv_heads"],
        mlp=read["mlp_width"],
        gated=bool(read["gated_mlp"]),
        experts=read["experts"],
        experts_per_token=read["experts_per_token"],
        tied=bool(read["tied"]),
    )
    strategy = Strategy(
        *(read[c] for c in ("data", "tensor", "pipeline", "shard_stage")),
        micro_batch=read["micro_batch"],
        schedule=read["schedule"] or "1f1b",
        recomputation=read["recomputation"],
        sequence_parallel=bool(read["sequence_parallel"]),
        overlap=read["shard_stage"] > 1,  # as FSDP and DeepSpeed do
        chunks=read["chunks"],
        fused_attention=bool(read["fused_attention"]),
        context=read["context"],
        hybrid=read["hsdp"],
        expert=read["expert_parallel"],
        logit=read["logit_bytes"],
    )
    by_the_way = read["batch"], read["tokens_per_s_per_gpu"]
    name = f"{read['model']} on {read['gpus']}"
    old = read["shard_stage"] == 3 and "2021" in read["source"]
    family = "ZeRO-3 of 2021" if old else read["family"]
    return PublishedRow(name, family, gpu, model, cluster, strategy, *by_the_way)


def hold_rows(rows: list[PublishedRow]) -> list[HeldRow]:
    """Each row of the table beside what the simulator makes of it."""
    held = []
    for number, row in enumerate(rows, start=1):
        try:
            step = simulate_step(row.model, row.cluster, row.strategy, row.batch)
        except ValueError as problem:
            raise ValueError(f"row {number}: {problem}") from None
        held.append(HeldRow(row, step))
    return held


def _misses_of_constant(held: list[HeldRow]) -> list[float]:
    """What each row misses by if all reach one utilisation, the best for these rows."""
    reached = []
    for row, _ in held:
        needed = step_flops(row.model, 1) / row.model.sequence  # for a token
        reached.append(row.tokens_per_second * needed / row.cluster.peak_flops)

    def missed(constant: float) -> list[float]:
        return [constant / one - 1 for one in reached]

    def mean_miss(constant: float) -> float:
        return mean(map(abs, missed(constant)))

    return missed(min(reached, key=mean_miss))


def mean_misses(held: list[HeldRow]) -> dict[str, tuple[int, float, float]]:
    """By family of the table: rows, the simulator's mean miss, the best constant's."""
    families: dict[str, list[tuple[float, float]]] = {}
    for one, constant in zip(held, _misses_of_constant(held), strict=True):
        pair = abs(one.miss), abs(constant)
        families.setdefault(one.row.family, []).append(pair)
    return {
        family: (len(pairs), mean(ours for ours, _ in pairs), mean(c for _, c in pairs))
        for family, pairs in families.items()
    }


def facts_of_rows(held: list[HeldRow]) -> dict:
    """The table for JSON: each row's prediction and miss, and mean misses by family."""
    rows = [
        {
            "row": one.row.name,
            "family": one.row.family,
            "measured_tokens_per_s_per_gpu": one.row.tokens_per_second,
            "predicted_tokens_per_s_per_gpu": one.tokens_per_second,
            "miss": one.miss,
            "seconds": one.step.seconds,
            "memory_gb": sum(one.step.memory) / 1e9,
            "fits": one.step.fits,
        }
        for one in held
    ]
    families = {
        family: {"rows": rows, "mean_miss": ours, "mean_miss_of_constant": constant}
        for family, (rows, ours, constant) in mean_misses(held).items()
    }
    return {"rows": rows, "families": families}


def print_mean_misses(held: list[HeldRow]) -> None:
    """The simulator's and the best constant's, by family."""
    print(f"{'mean miss':<20} rows  simulator  best constant")
    for family, (rows, ours, constant) in mean_misses(held).items():
        print(f"{family:<20} {rows:4} {ours:10.1%} {constant:14.1%}")


def print_rows(held: list[HeldRow]) -> None:
    """The published table, row by row beside the simulator; then the mean misses."""
    print(f"{'tokens/s per GPU':<26} published  simulated    miss      memory")
    for one in held:
        room = "" if one.step.fits else "  does not fit"
        print(
            f"{one.row.name:<26} {one.row.tokens_per_second:9,.0f} "
            f"{one.tokens_per_second:10,.0f} {one.miss:+7.1%} "
            f"{sum(one.step.memory) / 1e9:8.1f} GB{room}"
        )
    print()
    print_mean_misses(held)
