"""What crosses the link is what the text says."""

import re

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from parallel_by_hand.machines.compressed_gradients import WAYS_TO_SEND, train_over_link
from parallel_by_hand.machines.hosts import FORBIDDEN
from sidebyside import run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import said_by


def refused_hook() -> str:
    replica = DistributedDataParallel(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError) as refused:
        replica.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return str(refused.value)


@pytest.mark.skipif(dist.is_nccl_available(), reason="this torch has NCCL")
def test_without_nccl_the_hook_for_bfloat16_is_refused():
    [said] = run_ranks(refused_hook, world_size=1)
    assert re.search("BF16 .* required .* NCCL", said)


def all_ways() -> dict:
    """Runs in each rank."""
    return {way: train_over_link(way) for way in WAYS_TO_SEND}


def test_replicas_are_equal_and_send_the_bytes_of_the_text():
    trained = run_ranks(all_ways, timeout=300)
    for way in WAYS_TO_SEND:
        assert torch.equal(trained[0][way].parameters, trained[1][way].parameters), way
    matrices = [(512, 64), (512, 512), (10, 512)]
    numbers = sum(rows * columns + rows for rows, columns in matrices)
    thin = sum(2 * (rows + columns) + rows for rows, columns in matrices)
    expected = {
        "as they are": 4 * numbers,
        "16 bits": 2 * numbers,
        "PowerSGD": 4 * thin,
        "top-k": 8 * round(numbers / 100),
        "top-k, forgets": 8 * round(numbers / 100),
        "local SGD": 4 * numbers // 8,
    }
    assert numbers == 301_066
    assert {way: trained[0][way].bytes_per_step for way in WAYS_TO_SEND} == expected


@pytest.mark.everything
def test_two_hosts_says_in_one_sentence_that_there_are_none():
    said = said_by(ROOT / "demos/machines/two_hosts.py", **{FORBIDDEN: "1"})
    assert (
        said == f"no two hosts here: the environment variable {FORBIDDEN} forbids it\n"
    )


@pytest.mark.everything
def test_the_demo_goes_on_with_a_simulated_link():
    demo = ROOT / "demos/machines/hierarchical_all_reduce.py"
    said = said_by(demo, "--megabytes", "0.1", **{FORBIDDEN: "1"})
    assert said.startswith("simulated inside one machine: ")
    assert "150,000" in said and "100,000" in said
