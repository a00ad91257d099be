"""Lesson 09: replicas in threads and in processes train as one model does.

Every planted mistake is tested to misbehave; the check tells a right repair. Every
sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import copy
from weakref import ref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lessons.props import data_parallel_by_hand as wide_and_deep
from parallel_by_hand.collectives.all_reduce_four_ways import meter_all_reduce
from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.data_parallel import museum_meter
from parallel_by_hand.data_parallel.data_parallel_processes import (
    train_beside_one_process,
)
from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    call_in_threads,
    call_one_by_one,
    largest_difference,
    make_digit_model,
    replicate,
)
from parallel_by_hand.data_parallel.exhibits import EXHIBITS
from sidebyside import Timeline, load_digits, run_ranks

CPU = torch.device("cpu")


# Threads ------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [call_in_threads, call_one_by_one])
@pytest.mark.parametrize(("replicas", "batch"), [(1, 64), (2, 64), (3, 65), (8, 60)])
def test_replicas_in_threads_train_as_one_model_after_every_step(replicas, batch, run):
    images, labels = load_digits("train")
    alone = make_digit_model().double()
    together = ThreadedReplicas(copy.deepcopy(alone), [CPU] * replicas, run=run)
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(5):
        x = images[step * batch : (step + 1) * batch].double()
        y = labels[step * batch : (step + 1) * batch]
        sgd.zero_grad()
        loss = F.cross_entropy(alone(x), y)
        loss.backward()
        sgd.step()
        assert together.step(x, y) == pytest.approx(loss.item(), abs=1e-12)
        assert largest_difference(alone, together.replicas[0]) < 1e-13


def step_of(replicas: list[nn.Module]) -> torch.Tensor:
    together = ThreadedReplicas(replicas[0], [CPU] * len(replicas))
    together.replicas = replicas
    before = nn.utils.parameters_to_vector(replicas[0].parameters()).detach().clone()
    together.step(*[tensor[:64] for tensor in load_digits("train")])
    return nn.utils.parameters_to_vector(replicas[0].parameters()).detach() - before


def test_to_copies_nothing_and_shared_storage_makes_a_step_twice_as_long():
    tensor, model = torch.ones(1), make_digit_model()
    assert tensor.to(CPU) is tensor and model.to(CPU) is model
    another = make_digit_model()
    assert another.to("meta") is another
    shared = step_of([model, model.to(CPU)])
    right = step_of(replicate(make_digit_model(), [CPU] * 2))
    torch.testing.assert_close(shared, 2 * right)
    model = make_digit_model()
    torch.testing.assert_close(step_of([model] * 3), 4 * right)


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_device_0_sends_all_other_replicas_their_weights(replicas):
    together = ThreadedReplicas(make_digit_model(), [CPU] * replicas)
    together.step(*[tensor[:64] for tensor in load_digits("train")])
    assert together.traffic["weights"] == (replicas - 1) * 19_240
    assert together.traffic["gradients"] == (replicas - 1) * 19_240
    assert together.traffic["images"] == 64 * 256 - 64 * 256 // replicas
    assert together.traffic["outputs"] == together.traffic["slopes"]


@pytest.mark.parametrize(("ranks", "each"), [(2, 38_480), (4, 57_720), (8, 67_340)])
def test_a_worker_of_an_all_reduce_sends_and_receives_what_the_lesson_prints(
    ranks, each
):
    gradients = sum(p.numel() for p in make_digit_model().parameters())
    case = meter_all_reduce, ring_all_reduce, gradients
    meters = [meter for meter, _ in run_ranks(*case, world_size=ranks)]
    counts = [meter.bytes_sent + meter.bytes_received for meter in meters]
    assert sum(counts) == ranks * each
    assert counts == pytest.approx([each] * ranks, rel=1e-3)  # chunks are not all equal


class WatchedReplicas(ThreadedReplicas):
    """Notes the bytes of what is there after a backward, for each device."""

    def __init__(self, *args):
        super().__init__(*args)
        self.seen, self.held = {}, []

    def scatter(self, what: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        shards = super().scatter(what, tensor)
        self.seen[what] = [ref(part) for part in (tensor, *shards[1:])]
        return shards

    def gather(self, outputs: list[torch.Tensor]) -> torch.Tensor:
        whole = super().gather(outputs)
        self.seen["outputs"] = [ref(part) for part in (whole, *outputs[1:])]
        return whole

    def reduce(self) -> None:
        for place, replica in enumerate(self.replicas):
            weights = list(replica.parameters())
            held = {what: parts[place]().nbytes for what, parts in self.seen.items()}
            held["weights"] = sum(weight.nbytes for weight in weights)
            held["gradients"] = sum(weight.grad.nbytes for weight in weights)
            self.held.append(held)
        super().reduce()


def test_each_device_holds_what_the_lesson_prints():
    together = WatchedReplicas(make_digit_model(), [CPU] * 2)
    together.step(*[tensor[:64] for tensor in load_digits("train")])
    both = {"weights": 19_240, "gradients": 19_240}
    assert together.held == [
        both | {"images": 16_384, "outputs": 2560, "slopes": 2560},
        both | {"images": 8192, "outputs": 1280, "slopes": 1280},
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without GPUs")
def test_without_gpus_data_parallel_calls_the_model_itself():
    model, (images, _) = make_digit_model(), load_digits("train")
    assert torch.equal(nn.DataParallel(model)(images), model(images))


# Processes ----------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "batch"), [(1, 64), (2, 64), (2, 65), (3, 64)])
def test_ranks_train_as_one_process_after_every_step(ranks, batch):
    arguments = train_beside_one_process, 5, batch
    for rows in run_ranks(*arguments, world_size=ranks):
        for distance, equal, sent in rows:
            assert distance <= 1e-6
            assert equal, "bit for bit"
            assert sent == 19_240


# The picture --------------------------------------------------------------------------


def test_the_fastest_step_is_one_whole_step():
    together = ThreadedReplicas(make_digit_model(), [CPU] * 2)
    batch = [tensor[:8] for tensor in load_digits("train")]
    with Timeline() as timeline:
        for _ in range(4):
            together.step(*batch)
    step = wide_and_deep.fastest_step(timeline, 4)
    names = sorted((span.lane, span.name) for span in step.spans)
    alone = [("main", "device 0 alone")] * 3 + [("main", "update")]
    in_lanes = [
        (f"replica {number}", name)
        for number in (0, 1)
        for name in ("backward", "forward")
    ]
    assert names == alone + in_lanes
    assert step.cpu("forward") >= 0
    updates = [s for s in timeline.spans if s.name == "update"]
    assert step.seconds <= updates[-1].end


# The museum ---------------------------------------------------------------------------


def apart(found) -> float:
    return (torch.stack(found.models) - found.models[0]).abs().max().item()


def test_every_exhibit_misbehaves_as_its_meter_says():
    ranks = 3
    codes = {name: museum_meter.repaired_exhibit(name, {}) for name in EXHIBITS}
    found = museum_meter.look_at_exhibits(codes, ranks)
    assert abs(found["F"].said[0] - museum_meter.exhibit_accuracy_alone()) > 0.002
    assert found["A"].storages == 1
    lengths = {}
    for name in "ABCDEG":
        first = found[name].models[0]
        alone = museum_meter.train_exhibit_alone(name, ranks, first[0])
        assert (first - alone)[-1].norm() > 0.1 * (alone[-1] - alone[0]).norm()
        lengths[name] = (
            (first[1] - first[0]).norm() / (alone[1] - alone[0]).norm()
        ).item()
    assert {name for name in "ABCDEG" if apart(found[name]) > 0.01} == {"C", "E"}
    assert lengths["A"] == pytest.approx(ranks) == lengths["B"]
    starts = [model[0] for model in found["C"].models]
    assert not torch.equal(starts[0], starts[1])
