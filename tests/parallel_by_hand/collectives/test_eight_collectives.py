"""All eight leave what the library leaves, and send what their docstrings say."""

import pytest
import torch.distributed as dist

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.who_holds_what import EIGHT, run_collectives
from sidebyside import consecutive_steps


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_ours_leaves_what_torchs_leaves_in_all_eight(world_size):
    ours = run_collectives(EIGHT, eight_collectives, world_size, size=3)
    torchs = run_collectives(EIGHT, dist, world_size, size=3)
    for name in EIGHT:
        assert ours[name].before == torchs[name].before
        assert ours[name].after == torchs[name].after, name
        assert all(not meter.collectives for meter in ours[name].meters), name
        assert all(meter.not_awaited == 0 for meter in ours[name].meters), name


@pytest.mark.parametrize("world_size", [2, 3])
def test_each_sends_what_its_docstring_says(world_size):
    runs = run_collectives(EIGHT, eight_collectives, world_size, size=5)
    piece, n = 5 * 8, world_size
    whole = n * piece
    for name in EIGHT:
        sent = [meter.bytes_sent for meter in runs[name].meters]
        if name in ("broadcast", "scatter"):
            assert sent == [(n - 1) * piece] + [0] * (n - 1)
        elif name in ("gather", "reduce"):
            assert sent == [0] + [piece] * (n - 1)
        elif name == "all_reduce":
            assert sent == [(n - 1) * whole] + [whole] * (n - 1)
            assert runs[name].meters[0].bytes_received == (n - 1) * whole
            assert consecutive_steps(runs[name].meters) == 2 * (n - 1)
        else:
            assert sent == [(n - 1) * piece] * n
            assert consecutive_steps(runs[name].meters) == n - 1
