"""Lesson 11a: two ranks train as one process does, and what makes it another training.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from demos.ddp.ddp_from_scratch import flat_parameters, make_ddp_model
from demos.machines.parts.two_machines import free_port
from sidebyside import device, load_digits, run_ranks
from sidebyside.record import ROOT

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


# The same training, and another -------------------------------------------------------


def test_under_adam_a_sum_in_place_of_a_mean_hides():
    """Against the distance the weights have moved: all of it, or less than 1 %."""
    images, labels = load_digits("train")
    start = flat_parameters(make_ddp_model().cpu())

    def trained(optimizer: type, lr: float, factor: float) -> torch.Tensor:
        model = make_ddp_model().cpu()
        steps = optimizer(model.parameters(), lr=lr)
        for x, y in zip(images.split(64)[:22], labels.split(64)[:22], strict=True):
            steps.zero_grad()
            (factor * F.cross_entropy(model(x), y)).backward()
            steps.step()
        return flat_parameters(model)

    def mistake(optimizer: type, lr: float) -> float:
        right = trained(optimizer, lr, 1)
        difference = trained(optimizer, lr, 2) - right
        return (difference.norm() / (right - start).norm()).item()

    assert mistake(torch.optim.Adam, 1e-3) < 0.01
    assert mistake(torch.optim.SGD, 0.1) > 0.9


def drift_with_norm(norm: type) -> float:
    """How far a network with this norm gets from one process in a step."""
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(norm(64), nn.Linear(64, 10)).to(device()))
    alone, replica = models[0], DistributedDataParallel(models[1])
    images, labels = (tensor[:64].to(device()) for tensor in load_digits("train"))
    mine = slice(dist.get_rank(), None, 2)
    F.cross_entropy(alone(images), labels).backward()
    F.cross_entropy(replica(images[mine]), labels[mine]).backward()
    for model in alone, replica:
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    return (flat_parameters(alone) - flat_parameters(replica)).abs().max().item()


def test_batch_norm_trains_another_model_and_layer_norm_the_same():
    assert min(run_ranks(drift_with_norm, nn.BatchNorm1d)) > 1e-5
    assert all(gap < 1e-6 for gap in run_ranks(drift_with_norm, nn.LayerNorm))


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


def loss_after_ten_passes(batch: int, lr: float) -> float:
    images, labels = load_digits("train")
    model = make_ddp_model().cpu()
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    pairs = list(zip(images.split(batch), labels.split(batch), strict=True))
    for x, y in 10 * pairs:
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()
        sgd.step()
    return F.cross_entropy(model(images), labels).item()


def test_twice_the_batch_needs_twice_the_rate_to_get_as_far():
    small, same_rate = loss_after_ten_passes(64, 0.1), loss_after_ten_passes(128, 0.1)
    assert same_rate > 2 * small
    assert loss_after_ten_passes(128, 0.2) < 1.1 * small


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


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.everything
def test_torchrun_opens_its_port_on_all_network_interfaces(alone, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WHERE_THEY_MEET)
    where = ["--standalone"] if alone else ["--master-port", str(free_port())]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *where, str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert set(done.stdout.split()) & {"::", "0.0.0.0"}, done.stderr
