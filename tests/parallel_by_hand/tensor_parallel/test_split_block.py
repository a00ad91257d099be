"""The attention of a split block is the library's."""

import torch
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel import split_block


def test_causal_attention_is_the_librarys():
    query, key, value = torch.randn(3, 2, 3, 5, 4, dtype=torch.float64)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    ours = split_block.causal_attention(query, key, value)
    torch.testing.assert_close(ours, expected)
