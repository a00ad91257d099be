"""Published measurements of large trainings: every row once, with its source."""

from typing import NamedTuple

# Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters
# Using Megatron-LM. Section 5: DGX A100, 80 GB each, eight 200 Gb/s HCAs a node.
MEGATRON_SEQUENCE, MEGATRON_VOCABULARY = 2048, 51_200  # section 5.1, all models


class MegatronRow(NamedTuple):
    """A published row of Table 1. `teraflops` are per GPU, recomputation counted."""

    billions: float
    heads: int
    hidden: int
    layers: int
    tensor: int
    pipeline: int
    gpus: int
    batch: int
    teraflops: int


MEGATRON_TABLE_1 = [
    MegatronRow(1.7, 24, 2304, 24, 1, 1, 32, 512, 137),
    MegatronRow(3.6, 32, 3072, 30, 2, 1, 64, 512, 138),
    MegatronRow(7.5, 32, 4096, 36, 4, 1, 128, 512, 142),
    MegatronRow(18.4, 48, 6144, 40, 8, 1, 256, 1024, 135),
    MegatronRow(39.1, 64, 8192, 48, 8, 2, 512, 1536, 138),
    MegatronRow(76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140),
    MegatronRow(145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148),
    MegatronRow(310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155),
    MegatronRow(529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163),
    MegatronRow(1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163),
]
"""Weak scaling. Section 5.1: the interleaved schedule; its number of chunks and the
size of a micro-batch are not given."""


class FixedBatchRow(NamedTuple):
    """A published row of Table 2: one model, one batch, more and more GPUs."""

    strategy: str  # "ZeRO-3" or "PTD", pipeline, tensor and data parallel together
    gpus: int
    micro_batch: int  # sequences
    teraflops: int


MEGATRON_TABLE_2 = [
    FixedBatchRow("ZeRO-3", 384, 4, 144),
    FixedBatchRow("ZeRO-3", 768, 2, 88),
    FixedBatchRow("ZeRO-3", 1536, 1, 44),
    FixedBatchRow("PTD", 384, 1, 153),
    FixedBatchRow("PTD", 768, 1, 149),
    FixedBatchRow("PTD", 1536, 1, 141),
]
"""The rows of the 174.6 B model (GPT-3): batch 1536; PTD with 96 GPUs for each copy of
the model, of which 8 share each layer."""
TABLE_2_LAYERS, TABLE_2_HIDDEN, TABLE_2_HEADS, TABLE_2_BATCH = 96, 12_288, 96, 1536
TABLE_2_TENSOR, TABLE_2_PIPELINE = 8, 12

# Grattafiori et al. 2024, The Llama 3 Herd of Models.


class LlamaRow(NamedTuple):
    """A published row of Table 4. `teraflops` are per GPU, of the model alone."""

    gpus: int
    tensor: int
    context: int
    pipeline: int
    data: int
    sequence: int
    batch_of_replica: int
    teraflops: int


LLAMA_TABLE_4 = [
    LlamaRow(8192, 8, 1, 16, 64, 8192, 32, 430),
    LlamaRow(16384, 8, 1, 16, 128, 8192, 16, 400),
    LlamaRow(16384, 8, 16, 16, 8, 131_072, 16, 380),
]
"""405 B. DP is the product of the others' rest; the paper's latest version prints 4 in
the third row, the product of the row says 8."""

# Huang et al. 2019, GPipe, Table 2, Transformer-48.
GPIPE_PARTITIONS = 2, 4, 8
GPIPE_THROUGHPUT = {1: (1, 1.07, 1.3), 4: (1.7, 3.2, 4.8), 32: (1.8, 3.4, 6.3)}
"""Micro-batches: throughput for each number of partitions, relative to the first."""
GPIPE_LAYERS, GPIPE_HIDDEN, GPIPE_SEQUENCE, GPIPE_VOCABULARY = 48, 2048, 1024, 32_000
"""Section 3. The batch was adjusted to fit memory, so rows differ in more than M."""
