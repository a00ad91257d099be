"""Every rung is one training: the same numbers, and the cost that was predicted."""

from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from lessons.props.the_ladder import gap_of_row, update_late
from parallel_by_hand.capstone.ladder_rungs import PLANS, climb_first
from parallel_by_hand.capstone.ladder_table import climb_predicted, predict_ranks
from parallel_by_hand.capstone.language_model import SMALL_MODEL
from parallel_by_hand.capstone.rung_predictions import predict_rung
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.strategy_wrappers import sharded_state
from parallel_by_hand.capstone.text_batches import text_batch
from parallel_by_hand.capstone.trainer import Strategy, make_mesh, train
from parallel_by_hand.capstone.whole_state import flat_numbers
from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, run_ranks
from tests.quiet_loopback import least_on_loopback


@cache
def first_trail(steps: int, dtype=torch.float32) -> torch.Tensor:
    """What the first rung leaves; it is climbed once, however many tests ask."""
    return climb_first(steps, dtype)[1]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_rung_equals_the_first_after_every_one_of_20_steps_as_predicted(name):
    rung = climb_predicted(name, first_trail(20, torch.float64), torch.float64)
    assert all(len(rank.gaps) == 20 for rank in rung.ranks)
    assert rung.gap <= 1e-12
    assert rung.as_predicted


@pytest.mark.everything
@pytest.mark.parametrize("name", STRATEGIES)
def test_in_32_bits_it_equals_within_rounding(name):
    rung = climb_predicted(name, first_trail(20))
    assert rung.gap <= 1e-5 and rung.as_predicted


STEPS = 2  # a short while, in which others may be quiet


def steps_on(training, batch) -> None:
    for _ in range(STEPS):
        training.step(*batch)


def megabytes_of_ddp(name: str = "DDP (torch)") -> tuple[float]:
    """Of a step; two pairs of ranks train at once, each pair as the rung does."""
    two_rungs = {"pairs": 2, "data": 2}
    strategy = Strategy(two_rungs, STRATEGIES[name].wrappers)
    training, batch = train(strategy, 3), text_batch(3)  # its buckets are arranged
    sent = megabytes_per_rank(lambda: steps_on(training, batch))
    return (sent / STEPS,)


def megabytes_of_fsdp2() -> tuple[float]:
    return megabytes_of_ddp("FSDP2 (torch)")


@pytest.mark.everything
@pytest.mark.skipif(
    not loopback_bytes() or torch.cuda.is_available(),
    reason="no loopback interface is counted, or messages take another way",
)
@pytest.mark.parametrize(
    ("name", "count", "gloos", "more"),
    [
        ("DDP (torch)", megabytes_of_ddp, 1, 1.15),
        # gloo's reduce_scatter sends a whole all-reduce (10a): four halves, not three
        ("FSDP2 (torch)", megabytes_of_fsdp2, 4 / 3, 1.15),
    ],
)
def test_torchs_own_messages_are_those_predicted_and_a_little_more(
    name, count, gloos, more
):
    """The system counts: headers come on top, and what others send meanwhile."""
    [cost, _] = predict_ranks(name, SMALL_MODEL, item=4)
    expected = gloos * cost.sent / 1e6
    [sent] = least_on_loopback(count, more * expected)
    assert expected <= sent <= more * expected


@pytest.mark.parametrize("batch", [8, 16, 32])
def test_activations_travel_with_the_batch_and_gradients_do_not(batch):
    [tensor] = predict_rung(SMALL_MODEL, PLANS["tensor"], batch)
    [data] = predict_rung(SMALL_MODEL, PLANS["DDP (ours)"], batch)
    assert tensor.sent == 131_072 * batch // 8 and data.sent == 124_736


@pytest.mark.parametrize(
    "name", ["dropout", "batch norm", "as if asynchronous, one step late"]
)
def test_another_training_run_differs_in_64_bits_too(name):
    assert gap_of_row(name, steps=8, dtype=torch.float64) > 1e-3


def test_a_late_update_takes_the_gradient_of_the_step_before():
    weight, taken = torch.nn.Parameter(torch.zeros(1)), []
    training = SimpleNamespace(
        model=torch.nn.ParameterList([weight]),
        update=lambda: taken.append(weight.grad.item()),
    )
    update_late(training, None)
    for gradient in (1.0, 2.0, 3.0):
        weight.grad = torch.tensor([gradient])
        training.update()
    assert taken == [1.0, 2.0]


def test_another_order_of_sums_is_rounding():
    name = "sums in another order"
    assert gap_of_row(name, steps=8, dtype=torch.float64) < 1e-12
    assert gap_of_row(name, steps=8) < 1e-5


def sums_in_groups() -> dict[str, list[float]]:
    mesh = make_mesh(Strategy({"data": 2, "tensor": 2}, {}))
    found = {}
    for name in ("data", "tensor"):
        group, place = mesh[name].get_group(), mesh[name].get_local_rank()
        with messages_of_ours(), MessageMeter() as meter:
            mine = torch.full((3,), 10.0**place)
            dist.all_reduce(mine, group=group)
            pieces = [torch.empty(1) for _ in range(mesh[name].size())]
            dist.all_gather(pieces, mine[:1] + place, group=group)
        sent = meter.bytes_sent, len(meter.collectives)
        found[name] = [*mine.tolist(), *torch.cat(pieces).tolist(), *sent]
    return found


def test_messages_of_ours_stay_in_the_group_that_is_named():
    for found in run_ranks(sums_in_groups, world_size=4):
        assert found["data"] == found["tensor"] == [11, 11, 11, 11, 12, 16, 0]


def gap_of_strategy(strategy: Strategy) -> float:
    trail, gaps = [], []
    train(
        STRATEGIES["one process"],
        2,
        dtype=torch.float64,
        after_step=lambda *s: trail.append(flat_numbers(s[2].held())),
    )

    def compare(step, loss, training) -> None:
        whole = torch.cat([trail[step].new_zeros(1), trail[step]])
        gap = flat_numbers(training.held()) - whole[training.addresses.held]
        gaps.append(gap.abs().max())

    train(strategy, 2, dtype=torch.float64, after_step=compare)
    return torch.stack(gaps).max().item()


def gap_of_three_dimensions_with_zero_1() -> float:
    inside = STRATEGIES["2 x 2 x 2"].wrappers
    wrappers = inside | {"data": sharded_state(ZeRO1)}
    mesh = STRATEGIES["2 x 2 x 2"].mesh
    return gap_of_strategy(Strategy(mesh, wrappers))


@pytest.mark.everything
def test_zero_1_takes_the_place_of_ddp_in_three_dimensions():
    gaps = run_ranks(gap_of_three_dimensions_with_zero_1, world_size=8)
    assert all(gap < 1e-12 for gap in gaps)
