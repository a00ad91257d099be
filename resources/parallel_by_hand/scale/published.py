"""Published measurements of large trainings: every row once, with its source."""

from ast import literal_eval
from types import SimpleNamespace

from sidebyside.course.datasets import read_table


def _rows(name: str) -> list[SimpleNamespace]:
    """The rows of a table in resources/data, numbers where it has no names."""
    return [
        SimpleNamespace(
            **{c: v if c == "strategy" else literal_eval(v) for c, v in row.items()}
        )
        for row in read_table(name)
    ]


# Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters
# Using Megatron-LM. Section 5: DGX A100, 80 GB each, eight 200 Gb/s HCAs a node.
MEGATRON_SEQUENCE, MEGATRON_VOCABULARY = 2048, 51_200  # section 5.1, all models

MEGATRON_TABLE_1 = _rows("megatron_table_1")
"""Weak scaling. Section 5.1: the interleaved schedule; its number of chunks and the
size of a micro-batch are not given."""
MEGATRON_TABLE_2 = _rows("megatron_table_2")
"""The rows of the 174.6 B model (GPT-3): batch 1536; PTD with 96 GPUs for each copy of
the model, of which 8 share each layer."""
TABLE_2_LAYERS, TABLE_2_HIDDEN, TABLE_2_HEADS, TABLE_2_BATCH = 96, 12_288, 96, 1536
TABLE_2_TENSOR, TABLE_2_PIPELINE = 8, 12

# Grattafiori et al. 2024, The Llama 3 Herd of Models.
LLAMA_TABLE_4 = _rows("llama_table_4")
"""405 B. DP is the product of the others' rest; the paper's latest version prints 4 in
the third row, the product of the row says 8."""

# Huang et al. 2019, GPipe, Table 2, Transformer-48.
GPIPE_PARTITIONS = 2, 4, 8
GPIPE_THROUGHPUT = {1: (1, 1.07, 1.3), 4: (1.7, 3.2, 4.8), 32: (1.8, 3.4, 6.3)}
"""Micro-batches: throughput for each number of partitions, relative to the first."""
GPIPE_LAYERS, GPIPE_HIDDEN, GPIPE_SEQUENCE, GPIPE_VOCABULARY = 48, 2048, 1024, 32_000
"""Section 3. The batch was adjusted to fit memory, so rows differ in more than M."""
