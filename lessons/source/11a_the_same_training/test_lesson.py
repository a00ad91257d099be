"""Lesson 11a: two ranks train as one process does, and what makes it another training.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from parallel_by_hand.ddp.ddp_from_scratch import make_ddp_model
from parallel_by_hand.machines.two_machines import free_port_for_machines
from sidebyside import device, load_digits, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN, said_by

# The data -----------------------------------------------------------------------------


def test_the_digits_are_all_there_and_their_licence_is_beside_them():
    images, labels = load_digits()
    assert (images.shape, images.dtype) == ((1797, 64), torch.float32)
    assert (images.min(), images.max()) == (0, 1)
    assert labels.dtype == torch.int64
    of_each_digit = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert labels.bincount().tolist() == of_each_digit
    licence = (ROOT / "resources/data/digits.LICENSE.txt").read_text()
    assert "CC BY 4.0" in licence and "10.24432/C50P49" in licence


def test_the_held_out_digits_are_not_among_those_for_training():
    train, test = load_digits("train"), load_digits("test")
    for part, whole in zip(zip(train, test, strict=True), load_digits(), strict=True):
        assert torch.equal(torch.cat(part), whole)
    assert (len(train[0]), len(test[0])) == (1415, 382)
    with pytest.raises(ValueError, match="all, train, test"):
        load_digits("half")


# The same training -------------------------------------------------------------------


def gradient_with_an_empty_share() -> bool:
    """Rank 1 has no image at all; the weighted loss does not mind."""
    alone, replica = make_ddp_model(), DistributedDataParallel(make_ddp_model())
    images, labels = (tensor[:3].to(device()) for tensor in load_digits("train"))
    F.cross_entropy(alone(images), labels).backward()
    mine = slice(0, 3 if dist.get_rank() == 0 else 0)
    loss = F.cross_entropy(replica(images[mine]), labels[mine], reduction="sum")
    (loss * dist.get_world_size() / 3).backward()
    pairs = zip(alone.parameters(), replica.parameters(), strict=True)
    return all(torch.allclose(a.grad, b.grad, atol=1e-6) for a, b in pairs)


def test_a_rank_may_have_no_image_at_all():
    assert run_ranks(gradient_with_an_empty_share) == [True, True]


def test_with_drop_last_the_sampler_leaves_the_rest_out():
    sampler = DistributedSampler(range(1415), num_replicas=2, rank=0, drop_last=True)
    assert len(list(sampler)) == 707


# torchrun -----------------------------------------------------------------------------


WHERE_THEY_MEET = """
import os, psutil
import torch.distributed as dist

port = int(os.environ["MASTER_PORT"])
dist.init_process_group("gloo")
for process in psutil.Process(), psutil.Process().parent():
    for place in process.net_connections("inet"):
        if place.status == "LISTEN" and place.laddr.port == port:
            print(place.laddr.ip)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.everything
@pytest.mark.parametrize("alone", [True, False])
def test_torchrun_opens_its_port_on_all_network_interfaces(alone, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WHERE_THEY_MEET)
    where = [] if alone else ["--master-port", free_port_for_machines()]
    said = said_by(*TORCHRUN, *where, script, TMPDIR=str(tmp_path))
    assert set(said.split()) & {"::", "0.0.0.0"}
