"""Lesson 11b: our DistributedDataParallel trains as one process does, and as torch's.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import copy
import importlib
import os
import re
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.ddp import ddp_beside_torch, overlap, train_digits
from parallel_by_hand.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    ddp_replicas_equal,
    fill_buckets,
    make_ddp_model,
    start_all_reduce,
    train_alone_and_with_ddp,
)
from sidebyside import RankFailed, Timeline, device, load_digits, run_ranks
from sidebyside.course.record import ROOT

TORCHS = nn.parallel.DistributedDataParallel


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
        difference = torch.stack([(a - b).abs().max() for a, b in pairs]).max().item()
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
    """For each rank: its backward, and when its messages set out."""
    with Timeline() as timeline:
        run_ranks(fn, *args)
    found = []
    for rank in "rank 0", "rank 1":
        spans = [s for s in timeline.spans if s.lane.startswith(rank)]
        found.append(
            {
                "backward": next(s for s in spans if s.name == "backward"),
                "messages": sorted(s.start for s in spans if s.name == "message"),
            }
        )
    return found


def sleeps_of_link(milliseconds: float) -> list[float]:
    """Runs in each rank: how long the slow link sleeps for two messages."""
    link, slept = overlap.SlowLink(milliseconds), []
    overlap.sleep = slept.append
    for size in 1, 1000:
        link.start(torch.ones(size, device=overlap.device())).wait()
    return slept


def test_the_slow_link_sleeps_as_long_for_every_message():
    assert run_ranks(sleeps_of_link, 30) == [[0.03, 0.03]] * 2


def missing_when_sent(step) -> list[int]:
    """Runs in each rank: at each message, how many gradients are not there yet."""
    model, missing, start = overlap.four_sleeping_layers(), [], overlap.SlowLink.start
    overlap.four_sleeping_layers = lambda: model

    def note(link, message):
        missing.append(sum(p.grad is None for p in model.parameters()))
        return start(link, message)

    overlap.SlowLink.start = note
    step(1)
    return missing


def test_hooks_let_each_message_set_out_before_the_next_gradient_is_ready():
    for found in run_ranks(missing_when_sent, overlap.step_during_backward):
        assert found == [3, 2, 1, 0] * 2
    for found in run_ranks(missing_when_sent, overlap.step_after_backward):
        assert found == [0] * 8


def gradients_of_sleeping_layers(step) -> list[torch.Tensor]:
    """The gradients that the optimiser would get in each rank."""
    kept = []
    layers = overlap.four_sleeping_layers
    model = layers()
    model.zero_grad = lambda: kept.append([p.grad.clone() for p in model.parameters()])
    overlap.four_sleeping_layers = lambda: model
    step(1)
    overlap.four_sleeping_layers = layers
    return kept[0]


def test_both_ways_through_the_slow_link_give_the_same_gradients():
    steps = overlap.step_after_backward, overlap.step_during_backward
    after, during = (run_ranks(gradients_of_sleeping_layers, step) for step in steps)
    for one, other in zip(after + after[::-1], during + during, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["ours", "torch's"])
def test_the_first_message_sets_out_before_the_last_gradient_is_ready(kind):
    """There the span `backward` ends; the rest of the call is the span `wait`."""
    for rank in spans_by_rank(ddp_beside_torch.draw_sixth_step, kind):
        assert len(rank["messages"]) == 3
        assert rank["backward"].start < rank["messages"][0] < rank["backward"].end


def test_torchs_buckets_come_with_the_second_step_and_are_then_ours():
    sent = {
        (kind, limit): run_ranks(ddp_beside_torch.bytes_of_messages, kind, limit)[0]
        for kind, limit in [("ours", 1), ("torch's", 1), ("torch's", None)]
    }
    ours, torchs, by_default = sent.values()
    assert ours[0] == ours[1] == torchs[1] == torchs[2] == [4239400, 4198400, 266240]
    assert torchs[0] == by_default[0] == [sum(ours[0])]
    assert by_default[1] == by_default[2] == [4239400, 4198400 + 266240]


# The demos ----------------------------------------------------------------------------


def refused(name: str, monkeypatch, capsys, *args: object) -> str:
    """What the demo says on one line when it ends with status 2 before it starts."""
    demo = importlib.import_module(f"demos.ddp.{name}")
    monkeypatch.setattr(sys, "argv", ["demo", *map(str, args)])
    monkeypatch.setattr(demo, "run_ranks", lambda *_, **__: pytest.fail("it started"))
    with pytest.raises(SystemExit) as stop:
        demo.main()
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("demo", "args", "allowed"),
    [
        ("ddp_from_scratch", ["--ranks", "0"], "whole number from 1 to 64, not 0"),
        ("ddp_from_scratch", ["--bucket-bytes", "x"], "whole number from 1 to"),
        ("overlap", ["--link", "-3"], "a number from 0.1 to"),
        ("ddp_beside_torch", ["--bucket-mb", "0"], "a number from 1 to"),
        ("train_digits", ["--mode", "threads"], "single.*ddp.*ours"),
        ("train_digits", ["--mode", "single", "--ranks", 2], "must be 1 with"),
        ("train_digits", ["--epochs", "-1"], "whole number from 1 to"),
        ("train_digits", ["--lr", "nan"], "a number from"),
        ("train_digits", ["--checkpoint", "no/such/folder/x.pt"], "folder that exists"),
    ],
)
def test_a_demo_refuses_what_cannot_be(demo, args, allowed, monkeypatch, capsys):
    assert re.search(allowed, refused(demo, monkeypatch, capsys, *args))


def trained(mode: str, epochs: int, checkpoint: Path | None, ranks: int = 2) -> dict:
    args = {"lr": 0.1, "batch": 64, "save_every": 1, "mode": mode, "epochs": epochs}
    args = Namespace(checkpoint=checkpoint, **args)
    train = train_digits.train_digits_replica
    return run_ranks(train, args, os.devnull, world_size=ranks)[0]


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(
    tmp_path, monkeypatch, capsys
):
    """Even in another mode and with another number of ranks."""
    checkpoint = tmp_path / "digits.pt"
    whole = trained("single", 4, None, ranks=1)
    trained("ddp", 2, checkpoint)
    assert trained("ours", 4, checkpoint) == pytest.approx(whole, abs=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["digits.pt"]

    def said(*args: object) -> str:
        again = "--checkpoint", checkpoint, *args
        return refused("train_digits", monkeypatch, capsys, *again)

    assert "has 4 epochs" in said("--epochs", 4)
    assert "was trained with --lr 0.1" in said("--lr", 1)
    checkpoint.write_text("not one")
    assert "is not a checkpoint" in said()


@pytest.mark.everything
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


@pytest.mark.everything
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal")
def test_a_rank_that_is_warned_under_torchrun_makes_all_save_and_end(tmp_path):
    """Slurm warns every process: torchrun must not hear it, as resources/slurm says."""
    checkpoint = tmp_path / "digits.pt"
    deaf = ["sh", "-c", 'trap "" USR1; exec "$@"', "-"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    script = ["--standalone", str(ROOT / "demos/ddp/train_digits.py")]
    endless = ["--epochs", "100000", "--save-every", "100000", "--checkpoint"]
    training = subprocess.Popen(
        [*deaf, *torchrun, *script, *endless, str(checkpoint)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},  # torchrun leaves a folder there
    )
    try:
        assert training.stdout.readline().startswith("epoch    1")
        assert not checkpoint.exists()
        ranks = psutil.Process(training.pid).children()
        (second,) = (rank for rank in ranks if rank.environ().get("RANK") == "1")
        for process in training, second:
            process.send_signal(signal.SIGUSR1)
        said = training.communicate(timeout=100)[0]
    finally:
        if training.poll() is None:
            os.killpg(training.pid, signal.SIGKILL)
            training.communicate()
    assert training.returncode == 0
    assert said.splitlines()[-1].startswith("warned; the same command goes on")

    epochs = torch.load(checkpoint)["epoch"] + 1
    whole, rest = (trained("ours", epochs, file) for file in (None, checkpoint))
    assert rest == whole, "exactly as if never stopped"
