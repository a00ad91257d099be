"""Lesson 11: our DistributedDataParallel trains as one process does, and as torch's.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import copy
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.ddp import ddp_from_scratch, overlap, train_digits
from demos.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    ddp_replicas_equal,
    fill_buckets,
    flat_parameters,
    make_ddp_model,
    start_all_reduce,
    train_alone_and_with_ddp,
)
from sidebyside import RankFailed, Timeline, device, load_digits, run_ranks
from sidebyside.record import ROOT

TORCHS = nn.parallel.DistributedDataParallel


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


# The same training --------------------------------------------------------------------


ONE_EACH, SOME, ONE_FOR_ALL = 1, 2048, 10**9  # bytes of a bucket


@pytest.mark.parametrize(
    ("world_size", "bucket_bytes"),
    [(1, SOME), (2, ONE_EACH), (2, SOME), (2, ONE_FOR_ALL), (3, SOME)],
)
def test_ours_is_the_single_process_after_every_step(world_size, bucket_bytes):
    """The uneven last batch included."""
    found = run_ranks(train_alone_and_with_ddp, 23, bucket_bytes, world_size=world_size)
    for rows in found:
        assert [row[0] for row in rows] == [64] * 22 + [7]
        for _, loss_alone, loss_together, difference, equal in rows:
            assert loss_together == pytest.approx(loss_alone, abs=1e-6)
            assert difference <= 1e-6
            assert equal, "replicas are equal bit for bit"


def steps_of_both(between: nn.Module, micro_batches: int) -> list[tuple]:
    """Ours and torch's: other seeds in each rank, a frozen parameter, micro-batches."""
    rank = dist.get_rank()
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))

    def model() -> nn.Module:
        torch.manual_seed(rank)
        made = nn.Sequential(nn.Linear(64, 32), between, nn.Linear(32, 10))
        made[2].bias.requires_grad_(False)
        return copy.deepcopy(made).to(device())

    replicas = [DistributedDataParallel(model(), 2048), TORCHS(model())]
    optimizers = [torch.optim.SGD(r.parameters(), lr=0.1) for r in replicas]
    rows = []
    for step in range(6):
        batch = torch.arange(64 * step, 64 * (step + 1))
        losses = []
        for replica, optimizer in zip(replicas, optimizers, strict=True):
            *quiet, last = batch.chunk(micro_batches)
            for part in quiet:
                with replica.no_sync():
                    mine = part[rank::2]
                    F.cross_entropy(replica(images[mine]), labels[mine]).backward()
            mine = last[rank::2]
            loss = F.cross_entropy(replica(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        ours, torchs = (r.module.state_dict().values() for r in replicas)
        pairs = zip(ours, torchs, strict=True)
        difference = max((a - b).abs().max().item() for a, b in pairs)
        equal = ddp_replicas_equal(replicas[0])
        rows.append((abs(losses[0] - losses[1]), difference, equal))
    return rows


@pytest.mark.parametrize(
    ("between", "micro_batches"), [(nn.BatchNorm1d(32), 1), (nn.ReLU(), 4)]
)
def test_ours_is_torchs_after_every_step(between, micro_batches):
    for rows in run_ranks(steps_of_both, between, micro_batches):
        for loss, parameters_and_buffers, equal in rows:
            assert loss <= 1e-6
            assert parameters_and_buffers <= 1e-6
            assert equal


def test_under_adam_a_sum_in_place_of_a_mean_hides():
    """Against the way that the weights have gone: all of it, or less than 1 %."""
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


def drift_with_batch_norm() -> float:
    """How far batch norm over shares gets from one process in a step."""
    torch.manual_seed(0)
    alone = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 10)).to(device())
    torch.manual_seed(0)
    replica = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 10)).to(device())
    replica = DistributedDataParallel(replica)
    images, labels = (tensor[:64].to(device()) for tensor in load_digits("train"))
    mine = slice(dist.get_rank(), None, 2)
    F.cross_entropy(alone(images), labels).backward()
    F.cross_entropy(replica(images[mine]), labels[mine]).backward()
    for model in alone, replica:
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    return (flat_parameters(alone) - flat_parameters(replica)).abs().max().item()


def test_a_network_with_batch_norm_does_not_train_as_in_one_process():
    assert min(run_ranks(drift_with_batch_norm)) > 1e-5


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


# Messages -----------------------------------------------------------------------------


def sizes_of(buckets: list[list[nn.Parameter]]) -> list[list[int]]:
    return [[p.nbytes for p in bucket] for bucket in buckets]


def test_buckets_are_filled_from_the_last_parameter_and_none_is_lost():
    parameters = [nn.Parameter(torch.zeros(n)) for n in (25, 2, 3, 25)]
    assert sizes_of(fill_buckets(parameters, 105)) == [[100, 12], [8, 100]]
    assert sizes_of(fill_buckets(parameters, 1)) == [[100], [12], [8], [100]]
    assert sizes_of(fill_buckets(parameters, 10**6)) == [[100, 12, 8, 100]]
    assert fill_buckets([], 105) == []


def output_of_a_frozen_replica() -> float:
    replica = DistributedDataParallel(nn.Linear(2, 1).requires_grad_(False))
    return replica(torch.ones(1, 2, device="cpu")).item()


def test_a_model_in_which_all_is_frozen_has_no_bucket():
    one, other = run_ranks(output_of_a_frozen_replica)
    assert one == other


def messages_of_a_step() -> dict:
    """What travels in a plain backward, inside no_sync, and where gradients live."""
    sent = []

    def count(message: torch.Tensor) -> dist.Work:
        sent.append(message.nbytes)
        return start_all_reduce(message)

    replica = DistributedDataParallel(make_ddp_model(), 2048, all_reduce=count)
    images, labels = (tensor[:8].to(device()) for tensor in load_digits("train"))
    found = {}
    for name in "plain", "again":
        F.cross_entropy(replica(images), labels).backward()
        found[name], sent[:] = list(sent), []
    with replica.no_sync():
        F.cross_entropy(replica(images), labels).backward()
    found["quiet"] = list(sent)
    parameters = list(replica.parameters())
    found["shared"] = len(parameters) - len({p.grad.data_ptr() for p in parameters})
    return found


def test_a_backward_sends_each_bucket_once_and_nothing_inside_no_sync():
    for found in run_ranks(messages_of_a_step):
        assert found["plain"] == found["again"] == [2600, 16640]
        assert found["quiet"] == []
        assert found["shared"] == 0


def leave_out_a_layer() -> None:
    replica = DistributedDataParallel(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]))
    replica.module[1](torch.ones(1, 2, device="cpu")).sum().backward()


def test_a_parameter_without_a_gradient_is_an_error_and_not_a_hang():
    with pytest.raises(RankFailed, match="got no gradient"):
        run_ranks(leave_out_a_layer, timeout=20)


def spans_by_rank(fn, *args) -> list[dict]:
    """For each rank: when backward ended, and when its messages set out."""
    with Timeline() as timeline:
        run_ranks(fn, *args)
    found = []
    for rank in "rank 0", "rank 1":
        spans = [s for s in timeline.spans if s.lane.startswith(rank)]
        found.append(
            {
                "backward": next(s for s in spans if s.name == "backward"),
                "messages": sorted(s.start for s in spans if s.name == "all-reduce"),
            }
        )
    return found


def test_after_backward_nothing_overlaps():
    for rank in spans_by_rank(
        overlap.through_slow_link, overlap.average_after_backward, 1000
    ):
        assert len(rank["messages"]) == 8
        assert rank["messages"][0] >= rank["backward"].end


@pytest.mark.parametrize(
    "average", [overlap.average_during_backward, overlap.average_in_torchs_way]
)
def test_the_first_message_sets_out_before_backward_ends(average):
    for rank in spans_by_rank(overlap.inside_this_computer, average):
        assert len(rank["messages"]) == 3
        assert rank["backward"].start < rank["messages"][0] < rank["backward"].end


# The demos ----------------------------------------------------------------------------


def refused(demo, monkeypatch, capsys, *args: object) -> str:
    """What the demo says on one line when it ends with status 2 before it starts."""
    monkeypatch.setattr(sys, "argv", ["demo", *map(str, args)])
    monkeypatch.setattr(demo, "run_ranks", lambda *_, **__: pytest.fail("it started"))
    with pytest.raises(SystemExit) as stop:
        demo.main()
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("demo", "args", "allowed"),
    [
        (ddp_from_scratch, ["--ranks", "0"], "whole number from 1 to 64, not 0"),
        (ddp_from_scratch, ["--bucket-bytes", "x"], "whole number from 1 to"),
        (overlap, ["--link", "-3"], "a number from 0.1 to"),
        (train_digits, ["--mode", "threads"], "single.*ddp.*ours"),
        (train_digits, ["--mode", "single", "--ranks", 2], "must be 1 with"),
        (train_digits, ["--epochs", "-1"], "whole number from 1 to"),
        (train_digits, ["--lr", "nan"], "a number from"),
        (train_digits, ["--checkpoint", "no/such/folder/x.pt"], "folder that exists"),
    ],
)
def test_a_demo_refuses_what_cannot_be(demo, args, allowed, monkeypatch, capsys):
    assert re.search(allowed, refused(demo, monkeypatch, capsys, *args))


def run_train(*args: object, status: int = 0) -> str:
    script = str(ROOT / "demos/ddp/train_digits.py")
    done = subprocess.run(
        [sys.executable, script, *map(str, args)], capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(
    tmp_path, monkeypatch, capsys
):
    """Even in another mode and with another number of ranks."""
    checkpoint = tmp_path / "digits.pt"
    whole = run_train("--mode", "single", "--epochs", 4)
    run_train("--mode", "ddp", "--epochs", 2, "--checkpoint", checkpoint)
    rest = run_train("--mode", "ours", "--epochs", 4, "--checkpoint", checkpoint)
    assert [p.name for p in tmp_path.iterdir()] == ["digits.pt"]
    assert [line[:10] for line in rest.splitlines()[:2]] == ["epoch    3", "epoch    4"]
    assert (
        rest.splitlines()[-1].partition("epochs")[2]
        == (whole.splitlines()[-1].partition("epochs")[2])
    )

    def said(*args: object) -> str:
        again = "--checkpoint", checkpoint, *args
        return refused(train_digits, monkeypatch, capsys, *again)

    assert "has 4 epochs" in said("--epochs", 4)
    assert "was trained with --lr 0.1" in said("--lr", 1)
    checkpoint.write_text("not one")
    assert "is not a checkpoint" in said()


def test_an_interrupted_training_can_be_continued(tmp_path):
    checkpoint = tmp_path / "digits.pt"
    script = str(ROOT / "demos/ddp/train_digits.py")
    command = [sys.executable, script, "--epochs", "100000", "--checkpoint"]
    training = subprocess.Popen(
        [*command, str(checkpoint)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert training.stdout.readline().startswith("epoch    1")  # at once, not later
        os.kill(training.pid, signal.SIGINT)
        said = training.communicate(timeout=60)[0]
    finally:
        if training.poll() is None:
            os.killpg(training.pid, signal.SIGKILL)
            training.communicate()
    assert training.returncode == -signal.SIGINT
    assert said.splitlines()[-1].startswith("interrupted; the same command goes on")
    assert torch.load(checkpoint)["epoch"] >= 1


def test_torchrun_starts_the_same_training(monkeypatch, tmp_path):
    script = str(ROOT / "demos/ddp/train_digits.py")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "--standalone", script, "--epochs", "2"],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},  # torchrun leaves a folder there
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(sys, "argv", ["demo", "--epochs", "2"])
    args = train_digits.parse_digits_arguments()
    here = run_ranks(train_digits.train_replica, args, os.devnull)[0]
    assert len(done.stdout.splitlines()) == 3, "one line per epoch, one at the end"
    assert done.stdout.splitlines()[-1] == (
        f"ours, ranks: 2, epochs: 2, loss {here['loss']:.6f}, "
        f"held-out accuracy {here['accuracy']:.4f}"
    )


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
def test_torchrun_opens_its_port_on_all_network_interfaces(alone, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WHERE_THEY_MEET)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = ["--standalone"] if alone else ["--master-port", str(port)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *where, str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert set(done.stdout.split()) & {"::", "0.0.0.0"}, done.stderr
