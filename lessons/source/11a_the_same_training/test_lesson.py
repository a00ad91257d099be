"""Lesson 11a: two ranks train as one process does, and what makes it another training.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import pytest
import torch

from parallel_by_hand.machines.two_machines import free_port_for_machines
from sidebyside import load_digits
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN, said_by


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
