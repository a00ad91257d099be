"""Every rung is one training: the same numbers, and the cost that was predicted."""

import hashlib
import math
import re
from functools import cache
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from lessons.props.the_ladder import gap_of_row, update_late
from parallel_by_hand.capstone.ladder_rungs import PLANS, climb_first
from parallel_by_hand.capstone.ladder_table import climb_predicted, predict_ranks
from parallel_by_hand.capstone.language_model import (
    SMALL_MODEL,
    ModelSize,
    make_language_model,
    text_loss,
)
from parallel_by_hand.capstone.rung_predictions import (
    numbers_of_rung_layers,
    predict_rung,
)
from parallel_by_hand.capstone.simulated_rung import (
    print_beside_counted,
    print_simulated,
    simulate_rung,
    simulated_bytes,
    simulated_state,
)
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.strategy_wrappers import (
    ddp_ours,
    sharded_state,
    tensor_parallel,
)
from parallel_by_hand.capstone.text_batches import (
    batches,
    decode_text,
    encode_text,
    text_alphabet,
    text_batch,
    text_tokens,
)
from parallel_by_hand.capstone.text_training import Strategy, make_mesh, train
from parallel_by_hand.capstone.whole_training import (
    MODEL,
    collect_text_state,
    flat_numbers,
)
from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from parallel_by_hand.sharding.replicated_state import ReplicatedState
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import MessageMeter, load_moby_dick, run_ranks
from sidebyside.course.record import ROOT
from tests.quiet_loopback import least_on_loopback

# The text -----------------------------------------------------------------------------

SHA_256 = "f436a622e4aa3c6681bb6b263d968fa073b8cf612898b3a36bc1407e7e9cc540"


def test_the_text_is_the_one_whose_source_is_named():
    text = load_moby_dick()
    assert hashlib.sha256(text.encode()).hexdigest() == SHA_256
    note = (ROOT / "resources/data/moby_dick.LICENSE.txt").read_text(encoding="utf-8")
    assert SHA_256 in note and "public domain" in note and "CC0" in note
    assert len(text) == 405_090 and len(text_alphabet()) == 80
    assert "stdlib" not in text and "Gutenberg" not in text


def test_nobody_trains_on_what_is_held_out():
    train_part, held_out = load_moby_dick("train"), load_moby_dick("test")
    assert train_part + held_out == load_moby_dick()
    assert held_out.startswith("CHAPTER 41.") and 0.1 < len(held_out) / 405_090 < 0.12
    with pytest.raises(ValueError, match="one of all, train, test"):
        load_moby_dick("whale")


def test_tokens_are_characters_and_targets_follow_their_inputs():
    text = load_moby_dick("train")
    assert decode_text(encode_text(text[:500])) == text[:500]
    assert len(text_tokens("train")) == len(text)
    inputs, targets = text_batch(step=3, seed=1)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert all(decode_text(row) in text for row in inputs)


def test_a_batch_depends_on_the_seed_and_on_its_number_only():
    third = list(zip(range(4), batches(seed=7), strict=False))[3][1]
    again = next(batches(seed=7, first=3))
    assert all(torch.equal(a, b) for a, b in zip(third, again, strict=True))
    other = text_batch(3, seed=8)
    assert not torch.equal(third[0], other[0])


def test_the_untrained_model_guesses_and_each_position_sees_only_what_is_before():
    model = make_language_model(dtype=torch.float64)
    inputs, targets = text_batch(0)
    loss = text_loss(model(inputs), targets).item()
    assert abs(loss - math.log(80)) < 0.4
    changed = inputs.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 80
    gap = (model(changed) - model(inputs)).detach().view(8, 16, 80).abs().amax((0, 2))
    assert not gap[:9].any() and gap[9:].min() > 0


# The ladder ---------------------------------------------------------------------------


@cache
def first_trail(steps: int, dtype=torch.float32, size=SMALL_MODEL) -> torch.Tensor:
    """What the first rung leaves; it is climbed once, however many tests ask."""
    return climb_first(steps, dtype, size)[1]


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


@pytest.mark.everything
def test_training_learns():
    [training] = run_ranks(losses_of_training, world_size=1)
    assert sum(training[-5:]) / 5 < 0.8 * training[0]


def losses_of_training() -> list[float]:
    losses = []
    train(STRATEGIES["one process"], 40, after_step=lambda *s: losses.append(s[1]))
    return losses


def addresses_of_this_rank(name: str) -> list[int]:
    return train(STRATEGIES[name], steps=0).addresses.held.tolist()


@pytest.mark.everything
@pytest.mark.parametrize("name", ["ZeRO-3", "FSDP2 (torch)", "data x pipeline"])
def test_all_ranks_together_hold_every_number(name):
    ranks = run_ranks(addresses_of_this_rank, name, world_size=STRATEGIES[name].ranks)
    held = set().union(*ranks) - {0}
    assert held == set(range(1, 31_185))
    assert all(len(set(one)) < 31_184 for one in ranks)


@pytest.mark.everything
@pytest.mark.parametrize("name", PLANS)
def test_other_shapes_are_predicted_by_the_same_formulas(name):
    size = ModelSize(width=16, heads=2, blocks=4, length=8)
    for cost in predict_ranks(name, size, item=4):
        assert cost.memory > 0 and cost.sent >= 0
    if name in ("sequence", "data x pipeline", "ZeRO-2"):
        trail = first_trail(3, size=size)
        assert climb_predicted(name, trail, size=size).as_predicted


@pytest.mark.parametrize("name", [name for name in PLANS if name != "sequence"])
def test_lesson_19s_simulator_says_the_same_bytes(name):
    by_group = simulated_bytes(name)
    predicted = predict_rung(SMALL_MODEL, PLANS[name])
    assert [sum(sent.values()) for sent in by_group] == [c.sent for c in predicted]


@pytest.mark.parametrize("name", PLANS)
def test_lesson_19s_simulator_says_the_same_state_and_bubble(name):
    predicted = predict_rung(SMALL_MODEL, PLANS[name])
    borrowed = 0
    if PLANS[name].zero == "ZeRO-3":  # the largest layer, in two equal halves
        largest = max(map(sum, numbers_of_rung_layers(SMALL_MODEL)))
        borrowed = 4 * (largest + largest % 2)
    for stage, cost in zip(simulated_state(name), predicted, strict=True):
        assert stage == (cost.parameters - borrowed, cost.gradients, cost.momentum)
    assert simulate_rung(name).bubble == pytest.approx(predicted[0].bubble, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in PLANS if name != "sequence"])
def test_lesson_19s_activations_miss_by_no_more_than_the_lesson_says(name):
    [kept, *_] = (ledger.activations for ledger in simulate_rung(name).ledgers)
    [cost, *_] = predict_rung(SMALL_MODEL, PLANS[name])
    assert abs(kept / cost.activations - 1) < 0.155


def numbers_of_lines(printed: str) -> dict[str, list[str]]:
    """What stands behind each rung's name, by this name."""
    lines = [(line[:16].strip(), line[16:]) for line in printed.splitlines()]
    return {name: re.findall(r"\S+(?: %)?", rest) for name, rest in lines if name}


@pytest.mark.everything
def test_the_simulators_table_before_the_climb_is_what_the_climb_counts(capsys):
    print_simulated()
    before = numbers_of_lines(capsys.readouterr().out)
    assert len(before) == 13 and "sequence" not in before
    for name, (sent, state, *_) in before.items():
        costs = predict_ranks(name, SMALL_MODEL, 4)
        assert sent == f"{max(cost.sent for cost in costs):,}"  # as the ladder prints
        if name != "ZeRO-3":
            assert state == f"{sum(costs[0][1:4]):,}"
    rungs = [climb_predicted(name, first_trail(3)) for name in ("sequence", "1F1B")]
    sent, state, kept, bubble = before["1F1B"]
    cost = rungs[-1].ranks[0].cost
    assert sent == f"{cost.sent:,}" and bubble == "20 %"
    print_beside_counted(rungs)
    [(name, after)] = numbers_of_lines(capsys.readouterr().out).items()
    miss = f"{100 * (int(kept.replace(',', '')) / cost.activations - 1):+.0f} %"
    counted = f"{cost.activations:,}"
    assert name == "1F1B"
    assert after == [state, state, kept, counted, miss, bubble, bubble]


def test_lesson_19s_sequence_parallel_gathers_once_more():
    block = simulate_rung("sequence").sent["tensor"]
    assert block == simulate_rung("tensor").sent["tensor"]  # 16b's first form


def test_every_dimension_sends_less_than_it_would_alone():
    tensor, three = simulated_bytes("tensor")[0], simulated_bytes("2 x 2 x 2")[0]
    assert three["tensor"] == tensor["tensor"] / 4
    pipeline = simulated_bytes("1F1B")[0]
    assert three["pipeline"] == pipeline["pipeline"] / 2
    data = simulated_bytes("DDP (ours)")[0]
    assert 0.28 < three["data"] / data["data"] < 0.32
    assert three == {"tensor": 32_768, "pipeline": 8_192, "data": 38_080}


@pytest.mark.parametrize("batch", [8, 16, 32])
def test_activations_travel_with_the_batch_and_gradients_do_not(batch):
    [tensor] = predict_rung(SMALL_MODEL, PLANS["tensor"], batch)
    [data] = predict_rung(SMALL_MODEL, PLANS["DDP (ours)"], batch)
    assert tensor.sent == 131_072 * batch // 8 and data.sent == 124_736


def test_three_dimensions_hold_less_than_any_other_rung():
    memory = {
        name: max(cost.memory for cost in predict_ranks(name, SMALL_MODEL, 4))
        for name in PLANS
    }
    assert min(memory, key=memory.get) == "2 x 2 x 2"


# Going on under another strategy -----------------------------------------------------


def some_steps(name: str, steps: int, start=None):
    training = train(STRATEGIES[name], steps, dtype=torch.float64, start=start)
    return collect_text_state(training, steps + (start.step if start else 0))


@pytest.fixture(scope="module")
def whole():
    return run_ranks(some_steps, "one process", 5, world_size=1)[0]


@pytest.mark.everything
@pytest.mark.parametrize(
    ("before", "after"),
    [("2 x 2 x 2", "ZeRO-3"), ("FSDP2 (torch)", "1F1B"), ("ZeRO-1", "tensor")],
)
def test_a_run_goes_on_under_any_other_strategy(before, after, whole):
    first = run_ranks(some_steps, before, 3, world_size=STRATEGIES[before].ranks)[-1]
    then = run_ranks(some_steps, after, 2, first, world_size=STRATEGIES[after].ranks)[0]
    assert then.step == 5
    assert set(whole.numbers) == {MODEL, "momentum_buffer"}
    torch.testing.assert_close(then.numbers, whole.numbers, atol=1e-12, rtol=0)


# What does not match ------------------------------------------------------------------


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


# Groups -------------------------------------------------------------------------------


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


def wrong_group(training, mesh) -> None:
    """A planted bug: gradients are averaged over all ranks, not over the replicas."""
    ddp_ours(training, mesh)
    training.backward = training.backward_alone

    def complete() -> None:
        for p in training.model.parameters():
            p.grad /= 4
            dist.all_reduce(p.grad)

    training.complete = complete


def gap_of_wrapper(wrapper) -> float:
    mesh = {"data": 2, "tensor": 2}
    return gap_of_strategy(Strategy(mesh, {"tensor": tensor_parallel, "data": wrapper}))


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


@pytest.mark.everything
def test_an_average_over_the_wrong_group_is_another_training_run():
    right = run_ranks(gap_of_wrapper, sharded_state(ReplicatedState), world_size=4)
    wrong = run_ranks(gap_of_wrapper, wrong_group, world_size=4)
    assert all(gap < 1e-12 for gap in right) and max(wrong) > 1e-4
