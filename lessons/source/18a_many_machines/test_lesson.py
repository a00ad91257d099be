"""What crosses the link is what the text says."""

import re

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

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
