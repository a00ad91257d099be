"""The simulator says what its parts say, and what two real ranks count."""

import json
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.pipeline.schedule_rules import bubble, peak_activations
from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale import pipeline_times
from parallel_by_hand.scale.calibration import link_of_rings
from parallel_by_hand.scale.held_to_this_machine import (
    fastest_first,
    hold_to_this_machine,
)
from parallel_by_hand.scale.known_gpus import A100, H100
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.stage_times import side_by_side
from parallel_by_hand.scale.step_arithmetic import (
    layer_flops,
    layer_seconds,
    step_flops,
)
from parallel_by_hand.scale.step_memory import kept_activations, layer_activations
from parallel_by_hand.scale.step_messages import link_of
from parallel_by_hand.scale.step_tables import print_memory
from parallel_by_hand.scale.this_machine import (
    MeasuredStep,
    measure_step,
    strategies_of_two,
)
from parallel_by_hand.scale.training_plan import (
    Cluster,
    Link,
    Model,
    Strategy,
    why_impossible,
)
from parallel_by_hand.sharding.beside_ddp import BUILT
from parallel_by_hand.sharding.ledger import MIXED, SINGLE, STRATEGIES, state_bytes
from parallel_by_hand.sharding.measured_ledger import adam, measure_state
from parallel_by_hand.sharding.memory_ledger import KEPT, Transformer
from parallel_by_hand.tensor_parallel.activation_bytes import LayerSize, published_bytes
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.pixel_model import (
    PixelModel,
    SplitPixelModel,
    pixel_batches,
)
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import (
    ENDS,
    split_block,
    sum_whole_parameters,
)
from sidebyside import MessageMeter, Timeline, device, run_ranks

LESSONS_MODEL = Model(
    layers=48, hidden=6144, heads=64, sequence=2048, vocabulary=51_200
)
LESSONS_CLUSTER = replace(A100, nodes=8)
LESSONS_STRATEGY = Strategy(data=2, tensor=8, pipeline=4, recomputation="full")
SMALL = Model(layers=8, hidden=512, heads=8, sequence=256, vocabulary=1000)
NODE = replace(A100, nodes=1)
FREE = replace(  # messages cost nothing, and nor does the memory's bandwidth
    A100, link_within=Link(0, 1e30), link_between=Link(0, 1e30), memory_bandwidth=1e30
)


def simulate(batch: int = 16, cluster: Cluster = NODE, model: Model = SMALL, **degrees):
    strategy = Strategy(**degrees)
    nodes = -(-strategy.gpus // cluster.gpus_per_node)
    if strategy.gpus < cluster.gpus_per_node:
        cluster = replace(cluster, gpus_per_node=strategy.gpus)
    return simulate_step(model, replace(cluster, nodes=nodes), strategy, batch)


# Throughput ---------------------------------------------------------------------------


def test_torch_counts_the_same_operations():
    shape = Model(layers=1, hidden=64, heads=4, sequence=16, vocabulary=0)
    x = torch.randn(2, 16, 64, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        y = make_transformer_block(64, 4)(x)
    assert counter.get_total_flops() == 2 * 16 * layer_flops(shape)
    with FlopCounterMode(display=False) as counter:
        y.sum().backward()
    assert counter.get_total_flops() == 2 * 2 * 16 * layer_flops(shape)


@pytest.mark.parametrize("batch", [1, 512])
def test_full_recomputation_is_megatrons_formula(batch):
    l, h, s, v = 24, 2304, 2048, 51_200  # noqa: E741
    megatron = 96 * batch * s * l * h**2 * (1 + s / (6 * h) + v / (16 * l * h))
    found = step_flops(Model(l, h, 24, s, v), batch, "full")
    assert found == pytest.approx(megatron, rel=1e-12)


def test_parameters_are_megatrons_formula_and_17s():
    l, h, s, v = 80, 12_288, 2048, 51_200  # noqa: E741
    model = Model(l, h, 96, s, v)
    megatron = 12 * l * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * l * h))
    assert model.numbers == pytest.approx(megatron, rel=1e-6)
    assert model.numbers == Transformer(h, l, 96, v, s).numbers
    layers = nn.Sequential(*(make_transformer_block(32, 4) for _ in range(3)))
    counted = sum(p.numel() for p in layers.parameters())
    assert Model(3, 32, 4, 8, 0).numbers == counted


def test_without_messages_and_bytes_a_step_takes_its_operations():
    for recomputation in ("none", "selective", "full"):
        step = simulate(cluster=FREE, data=8, recomputation=recomputation)
        assert step.hardware_utilisation == pytest.approx(FREE.efficiency, rel=1e-6)
        needed = step_flops(SMALL, 16) / step_flops(SMALL, 16, recomputation)
        share = step.model_utilisation / step.hardware_utilisation
        assert share == pytest.approx(needed)
        assert step.idle == pytest.approx(0, abs=1e-6)


def test_wide_layers_reach_more_of_the_peak():
    reached = []
    for hidden in (1536, 6144, 24_576):
        shape = replace(LESSONS_MODEL, hidden=hidden)
        seconds = sum(layer_seconds(shape, A100, Strategy(tensor=8)))
        reached.append(layer_flops(shape) / seconds)
    assert reached == sorted(reached)


# Memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 2, 8])
def test_activations_are_korthikantis_and_17s(t):
    s, b, h, a = 256, 3, 512, 8
    sbh = s * b * h
    model = Model(1, h, a, s, 0)
    plain = Strategy(tensor=t, micro_batch=b)
    split = replace(plain, sequence_parallel=True)
    kept = kept_activations
    assert kept(model, plain) == sbh * (10 + 24 / t + 5 * a * s / (h * t))
    assert kept(model, split) == sbh / t * (34 + 5 * a * s / h)
    selective = replace(split, recomputation="selective")
    assert kept(model, selective) == 34 * sbh / t
    assert kept(model, replace(plain, recomputation="full")) == 2 * sbh
    for precision, state in (("mixed", MIXED), ("single", SINGLE)):
        first, second = KEPT[precision]
        alone = Strategy(micro_batch=b, state=state)
        assert layer_activations(model, alone) == sbh * (first + second * a * s / h)


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("data", [1, 2, 8])
def test_the_ledger_is_17s(stage, data):
    for state in (MIXED, SINGLE):
        step = simulate(data=data, shard_stage=stage, state=state)
        found = step.memory
        expected = state_bytes(SMALL.numbers, data, STRATEGIES[stage], state)
        assert (found.parameters, found.gradients, found.optimiser) == expected


def test_stages_and_tensor_ranks_share_all_parameters():
    whole = simulate(batch=16).memory.parameters
    table = 2 * SMALL.vocabulary * SMALL.hidden  # the last stage has a copy
    for pipeline in (2, 4, 8):
        ledgers = simulate(pipeline=pipeline).ledgers
        assert sum(ledger.parameters for ledger in ledgers) == whole + table
    split = simulate(tensor=2).memory.parameters
    extra = SMALL.layers * 6 + SMALL.sequence + 2  # whole on both ranks, h numbers each
    assert 2 * split - whole == 2 * extra * SMALL.hidden


def test_15s_schedule_says_how_many_activations_are_kept():
    for name in ("gpipe", "1f1b", "interleaved", "zero-bubble"):
        step = simulate(
            batch=16, pipeline=4, schedule=name, model=replace(SMALL, vocabulary=0)
        )
        kept = kept_activations(step.model, step.strategy)
        layers = SMALL.layers // step.strategy.stages
        forwards = peak_activations(SCHEDULES_BY_NAME[name](4, 16))
        expected = [round(count * layers * kept) for count in forwards]
        assert [ledger.activations for ledger in step.ledgers] == expected


# The pipeline -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULES_BY_NAME)
def test_the_bubble_is_15s(name):
    for ranks, batch in ((2, 4), (4, 8), (4, 40)):
        step = simulate(batch=batch, pipeline=ranks, schedule=name)
        assert step.bubble == pytest.approx(bubble(step.slots), abs=1e-9)


@pytest.mark.parametrize("ranks,batch", [(2, 4), (4, 8), (8, 64)])
def test_equal_stages_have_the_textbooks_bubble(ranks, batch):
    layers = Model(8, 512, 8, 256, vocabulary=0)
    for name, again in product(("gpipe", "1f1b"), ("none", "full")):
        degrees = {"pipeline": ranks, "schedule": name, "recomputation": again}
        step = simulate(batch, FREE, layers, **degrees)
        assert step.bubble == pytest.approx((ranks - 1) / (batch + ranks - 1))


@pytest.mark.parametrize("ranks,batch", [(2, 4), (4, 8), (8, 64)])
def test_where_senders_wait_gpipe_has_a_larger_bubble_than_1f1b(ranks, batch):
    """GPipe's messages go one way first: the last stage waits for each of them, and on
    the way back the first one does. 1F1B's two stages send in turns.
    """
    slow = replace(FREE, link_within=Link(0, 2e9))
    layers = Model(8, 512, 8, 256, vocabulary=0)
    found, alternating = (
        simulate(batch, slow, layers, pipeline=ranks, schedule=name)
        for name in ("gpipe", "1f1b")
    )
    assert found.bubble > alternating.bubble
    if ranks == 2:
        computing = found.stages[0].computing
        message = found.stages[0].forward.pipeline
        length = (batch + 1) * computing + 2 * batch * message
        waiting = 1 - batch * (computing + message) / length
        assert found.bubble == pytest.approx(waiting) and waiting > 0.4
        assert alternating.bubble == pytest.approx(1 / (batch + 1))


def test_a_larger_last_stage_makes_the_bubble_larger_than_the_formula():
    formula = 3 / (8 + 3)
    for words in (51_200, 512_000):
        model = replace(LESSONS_MODEL, vocabulary=words)
        step = simulate_step(model, LESSONS_CLUSTER, LESSONS_STRATEGY, 16)
        assert step.bubble > formula


@pytest.mark.parametrize("name", SCHEDULES_BY_NAME)
@pytest.mark.parametrize("ends", [(1, 1), (1.1, 1.4)])
def test_a_long_step_is_continued_as_the_whole_timetable_goes_on(name, ends):
    for ranks, more in product((2, 3, 5), (0, 1)):
        count = ranks * (2 * pipeline_times.LONG + 1)
        count += more * (ranks if name == "interleaved" else 1)
        stages = ranks * (2 if name == "interleaved" else 1)
        forward = [1.0] * stages
        forward[0], forward[-1] = ends
        backward = tuple(2 * time for time in forward)
        plan = pipeline_times.PlanOfPipeline(
            name, ranks, count, 2, tuple(forward), backward
        )
        found = pipeline_times.run_on_paper(plan)
        whole = pipeline_times._run_all_of_it(plan)
        assert found.ends == pytest.approx(whole.ends) and found.kept == whole.kept


# Messages -----------------------------------------------------------------------------


def test_a_group_that_leaves_its_node_uses_the_slow_link():
    cluster = replace(A100, nodes=8)
    spans = {
        (8, 2, 4): ("within", "between", "between"),
        (16, 1, 4): ("between", "between", "between"),
        (2, 4, 8): ("within", "within", "between"),
    }
    for (tensor, data, pipeline), links in spans.items():
        strategy = Strategy(data=data, tensor=tensor, pipeline=pipeline)
        groups = "tensor", "data", "pipeline"
        assert tuple(link_of(g, cluster, strategy) for g in groups) == links


def test_data_parallel_is_10bs_ring():
    step = simulate(data=8, batch=8)
    alpha, bandwidth = A100.link_within
    size = 2 * SMALL.numbers
    assert step.sent["data"] == pytest.approx(2 * 7 / 8 * size, rel=1e-5)
    ring = predicted_seconds("ring", 8, size, alpha, 1 / bandwidth)
    assert step.spent["data"] == pytest.approx(ring, rel=1e-4)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_zero_sends_what_17_counts(micro_batches):
    half = 7 / 8 * 2 * SMALL.numbers
    halves = {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}
    for stage, expected in halves.items():
        step = simulate(batch=8 * micro_batches, data=8, shard_stage=stage)
        assert step.sent["data"] == pytest.approx(expected * half, rel=1e-5)


HELD = Model(layers=3, hidden=32, heads=4, sequence=8, vocabulary=0)
PACED = Link(0.001, 1e6)


@pytest.fixture(scope="module")
def held():
    """Real steps of two ranks of a stack of three blocks, for each strategy."""
    machine = Cluster(2, 1, 1e9, 1.0, 1e9, 1e9, PACED, PACED)
    return hold_to_this_machine(machine, HELD, 8, strategies_of_two(8), rounds=1)


@pytest.mark.parametrize("way", strategies_of_two(8))
def test_two_ranks_send_the_predicted_bytes_and_hold_the_predicted_parameters(
    held, way
):
    found = held[way]
    assert found.bytes_agree
    held_here = [measured.parameters for measured in found.measured]
    ledgers = found.step.ledgers * (1 if way == "pipeline" else 2)
    assert held_here == [ledger.parameters for ledger in ledgers]


def loss_of_stack(stack: nn.Module, step: int) -> torch.Tensor:
    return stack(torch.ones(2, 8, 32).to(device())).square().mean()


def ledger_of_stack(strategy: str):
    stack = nn.Sequential(*(make_transformer_block(32, 4) for _ in range(3)))
    return measure_state(strategy, stack.to(device()), loss_of_stack, adam)


@pytest.mark.parametrize("way", ["data", "ZeRO-1"])
def test_the_training_state_is_what_17_measures(held, way):
    strategy = held[way].step.strategy
    measured = run_ranks(ledger_of_stack, strategy.shards)[0].ledger
    predicted = held[way].step.memory
    counter = 4  # bytes: Adam's count of steps
    assert measured.parameters == predicted.parameters
    assert measured.gradients == predicted.gradients
    assert measured.optimiser == predicted.optimiser + counter


def bytes_of_sequence_parallel() -> int:
    block = make_transformer_block(32, 4)
    mine = split_block(block, ENDS["gather twice"]).to(device())
    x = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
    x = own_positions(x.to(device())).contiguous().requires_grad_()
    with messages_of_ours(), MessageMeter() as meter:
        mine(x).square().mean().backward()
        sum_whole_parameters(mine)
    return meter.bytes_sent


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 4])
def test_sequence_parallel_sends_the_predicted_bytes(ranks):
    layer = Model(1, 32, 4, 8, vocabulary=0)
    step = simulate(
        2,
        model=layer,
        tensor=ranks,
        micro_batch=2,
        sequence_parallel=True,
        state=SINGLE,
    )
    for sent in run_ranks(bytes_of_sequence_parallel, world_size=ranks):
        assert sent == step.sent["tensor"]


def bytes_of_words() -> int:
    [(tokens, labels)] = pixel_batches(2, 1)
    split = SplitPixelModel(PixelModel(32, 4), "tensor").to(device())
    with messages_of_ours(), MessageMeter() as meter:
        split(tokens.to(device()), labels.to(device())).backward()
    return meter.bytes_sent


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 4])
def test_embedding_logits_and_loss_send_the_predicted_bytes(ranks):
    model = Model(1, 32, 4, sequence=32, vocabulary=17)
    step = simulate(2, model=model, tensor=ranks, micro_batch=2, state=SINGLE)
    for sent in run_ranks(bytes_of_words, world_size=ranks):
        assert sent == step.sent["tensor"]


def seconds_on_link(ranks: list[MeasuredStep]) -> float:
    """What the messages that were counted take, one after the other."""
    return max(m.messages * PACED.alpha + m.sent / PACED.bandwidth for m in ranks)


@pytest.mark.everything
def test_over_a_slow_link_the_counted_messages_rank_as_predicted():
    machine = Cluster(2, 1, 1e12, 1.0, 1e9, 1e12, PACED, PACED)
    orders = []
    for shape, batch in ((Model(2, 96, 4, 16, 0), 4), (Model(4, 64, 4, 64, 0), 8)):
        ways = "data", "tensor", "pipeline"
        found = hold_to_this_machine(machine, shape, batch, ways, rounds=1)
        predicted = fastest_first(found, measured=False)
        counted = sorted(found, key=lambda way: seconds_on_link(found[way].measured))
        assert predicted == counted
        orders.append(predicted)
    assert orders == [["pipeline", "tensor", "data"], ["pipeline", "data", "tensor"]]


def measured_as_predicted(shape: Model, batch: int, *ways: str) -> bool:
    """Whether the seconds of real steps over the slow link rank as simulated ones."""
    machine = Cluster(2, 1, 1e12, 1.0, 1e9, 1e12, PACED, PACED)
    found = hold_to_this_machine(machine, shape, batch, ways, rounds=1, slow=PACED)
    return fastest_first(found, measured=True) == fastest_first(found, measured=False)


@pytest.mark.everything
@pytest.mark.parametrize(
    "shape,batch,ways",
    [
        (Model(2, 96, 4, 16, 0), 4, ("data", "tensor", "pipeline")),
        (Model(4, 64, 4, 64, 0), 8, ("data", "tensor")),  # here in the other order
    ],
)
def test_over_a_slow_link_measured_steps_rank_as_predicted(shape, batch, ways):
    """On a busy machine a step may be delayed by as much as the next way takes."""
    assert any(measured_as_predicted(shape, batch, *ways) for _ in range(3))


@pytest.mark.everything
def test_a_paced_step_takes_at_least_as_long_as_its_messages():
    shape, batch = Model(2, 96, 4, 16, 0), 4
    strategy = strategies_of_two(batch)["data"]
    task = shape, strategy, batch, 1, (PACED.alpha, 1 / PACED.bandwidth)
    for measured in run_ranks(measure_step, *task):
        at_least = measured.messages * PACED.alpha + measured.sent / PACED.bandwidth
        assert min(measured.seconds) >= at_least


def test_the_link_is_10bs_line_and_no_noise_makes_it_negative():
    sizes = 40_000, 640_000, 2_560_000
    line = {size: [2 * 1e-4 + size / 1e9, 1.0] for size in sizes}
    assert link_of_rings(line) == pytest.approx((1e-4, 1e9))
    for seconds in ((3.0, 2.0, 1.0), (0.1, 0.1, 9.0), (1.0, 1.0, 1.0)):
        noisy = {s: [time] for s, time in zip(sizes, seconds, strict=True)}
        assert min(link_of_rings(noisy)) > 0


# Overlap ------------------------------------------------------------------------------


def ends_one_by_one(computing: float, sending: float, units: int) -> float:
    ready = free = 0.0
    for _ in range(units):
        ready += computing / units
        free = max(free, ready) + sending / units
    return free


@pytest.mark.parametrize("units", [1, 2, 12])
def test_equal_units_overlap_as_if_walked_through_one_by_one(units):
    for computing, sending in product((0.0, 1.0, 3.0), (0.0, 0.5, 1.0, 7.0)):
        found = side_by_side(computing, sending, units)
        assert found == pytest.approx(ends_one_by_one(computing, sending, units))
    assert side_by_side(1, 1, 12) - 1 == pytest.approx(1 / 12), "one sticks out"


@pytest.mark.parametrize("stage", range(4))
def test_overlap_never_takes_longer_where_messages_cost_bytes_only(stage):
    at_once = replace(NODE, link_within=Link(0, 25e9))
    for pipeline in (1, 2):
        degrees = {"data": 4, "pipeline": pipeline, "shard_stage": stage}
        after, during = (
            simulate(cluster=at_once, overlap=overlap, **degrees) for overlap in (0, 1)
        )
        assert during.seconds <= after.seconds
        assert during.sent == after.sent


# Assembled ----------------------------------------------------------------------------

DEGREES = [
    dict(data=d, tensor=t, pipeline=p, shard_stage=z, recomputation=r, **more)
    for d, t, p in ((8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2), (4, 2, 1))
    for z, r in ((0, "none"), (1, "selective"), (2, "full"), (3, "full"))
    for more in (
        {},
        {"overlap": True, "sequence_parallel": True},
        {"schedule": "zero-bubble"},
    )
]


@pytest.mark.parametrize(
    "degrees", DEGREES, ids=lambda d: "-".join(map(str, d.values()))
)
def test_the_parts_of_a_step_are_the_step(degrees):
    step = simulate(**degrees)
    assert sum(step.spent.values()) == pytest.approx(step.seconds)
    assert 0 <= step.bubble <= step.idle + 1e-9 <= 1
    assert 0 < step.model_utilisation <= step.hardware_utilisation < 1
    assert sum(step.sent_over.values()) == pytest.approx(sum(step.sent.values()))
    if degrees["recomputation"] == "none":
        assert step.model_utilisation == step.hardware_utilisation


@pytest.mark.parametrize(
    "degrees", DEGREES[::5], ids=lambda d: "-".join(map(str, d.values()))
)
def test_the_timeline_ends_with_the_step_and_is_idle_as_long(degrees, tmp_path):
    step = simulate(**degrees)
    timeline = timeline_of_step(step)
    assert isinstance(timeline, Timeline)
    assert max(span.end for span in timeline.spans) == pytest.approx(step.seconds)
    computed = sum(
        span.duration
        for span in timeline.spans
        if "link" not in span.lane and not span.name.startswith("wait")
    )
    ranks = step.strategy.pipeline
    assert 1 - computed / (ranks * step.seconds) == pytest.approx(step.idle, abs=1e-6)
    with open(timeline.save(tmp_path / "step.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(timeline.spans)
    assert step.slots[-1].end <= step.seconds


def test_spans_of_a_gpu_do_not_overlap():
    for overlap in (False, True):
        step = simulate(data=2, tensor=2, pipeline=2, overlap=overlap)
        timeline = timeline_of_step(step)
        for lane in timeline.lanes:
            mine = [span for span in timeline.spans if span.lane == lane]
            for one, after in pairwise(mine):
                assert one.end <= after.start + 1e-12


def test_cost_and_energy_are_those_of_all_gpus():
    step = simulate(data=8)
    assert step.cost == pytest.approx(8 * A100.price * step.seconds / 3600)
    assert step.energy == pytest.approx(8 * A100.watts * step.seconds)
    assert H100.peak_flops > A100.peak_flops


@pytest.mark.everything
def test_ten_thousand_gpus_need_only_a_short_timetable(monkeypatch):
    """That is why they take a second: tests/benchmarks/planner_times.py."""
    played, play = [], pipeline_times._run_all_of_it

    def noted(plan):
        played.append(plan.microbatches)
        return play(plan)

    monkeypatch.setattr(pipeline_times, "_run_all_of_it", noted)
    pipeline_times.run_on_paper.cache_clear()
    model = Model(80, 12_288, 96, 2048, 51_200)
    strategy = Strategy(data=32, tensor=8, pipeline=40, recomputation="full")
    step = simulate_step(model, replace(A100, nodes=1280), strategy, 32 * 512)
    assert step.cluster.gpus == 10_240
    assert played and max(played) <= pipeline_times.LONG * 40 + 40  # of 512


IMPOSSIBLE = [
    ({"data": 3}, "3 x 1 x 1 = 3, and there are 8 GPUs"),
    ({"data": 8, "micro_batch": 3}, "a batch of 16 cannot be cut"),
    (
        {"tensor": 8, "model": Model(8, 512, 4, 256, 0)},
        "4 heads cannot be split",
    ),
    ({"pipeline": 8, "model": Model(4, 512, 8, 256, 0)}, "8 stages are more than"),
    ({"pipeline": 8, "schedule": "interleaved"}, "16 stages are more than"),
    (
        {"pipeline": 4, "data": 2, "schedule": "interleaved", "batch": 12},
        "needs a multiple of 4 micro-batches",
    ),
    (
        {"tensor": 8, "sequence_parallel": True, "model": Model(8, 512, 8, 250, 0)},
        "a sequence of 250",
    ),
    ({"data": 8, "shard_stage": 4}, "shard_stage must be 0, 1, 2 or 3"),
    ({"data": 8, "schedule": "2f2b"}, "schedule must be one of naive"),
    ({"data": 8, "recomputation": "some"}, "recomputation must be one of none"),
    ({"data": 8, "model": Model(8, 500, 8, 256, 0)}, "500 hidden numbers cannot be"),
]


@pytest.mark.parametrize("degrees,words", IMPOSSIBLE, ids=lambda x: str(x)[:30])
def test_what_cannot_be_is_said_in_a_sentence(degrees, words):
    degrees = dict(degrees)
    model, batch = degrees.pop("model", SMALL), degrees.pop("batch", 16)
    strategy = Strategy(**degrees)
    assert words in why_impossible(model, NODE, strategy, batch)
    with pytest.raises(ValueError, match=words.split(",")[0].replace("(", r"\(")):
        simulate_step(model, NODE, strategy, batch)


# What the lesson says -----------------------------------------------------------------


def lessons_step(**changes):
    strategy = replace(LESSONS_STRATEGY, **changes)
    return simulate_step(LESSONS_MODEL, LESSONS_CLUSTER, strategy, 16)


def test_a_slow_link_hides_backward_less_one_layer():
    small = Model(24, 2304, 24, 2048, 51_200)
    slow = replace(A100, nodes=2, link_between=Link(20e-6, 6e9))
    plan = Strategy(data=16, micro_batch=4, recomputation="selective")
    after = simulate_step(small, slow, plan, 64)
    during = simulate_step(small, slow, replace(plan, overlap=True), 64)
    backward = after.stages[0].backward.total
    assert after.ends[0].messages > backward
    hidden = after.seconds - during.seconds
    most = backward * 23 / 24
    assert 0.9 * most < hidden <= most, "24 messages also cost more alphas than one"
    assert [round(step.seconds, 2) for step in (after, during)] == [1.74, 1.30]
    faster = replace(slow, link_between=Link(20e-6, 8e9))
    better = simulate_step(small, faster, replace(plan, overlap=True), 64)
    share_hidden = hidden / after.ends[0].messages
    after = simulate_step(small, faster, plan, 64)
    assert (after.seconds - better.seconds) / after.ends[0].messages > share_hidden


def test_fewer_micro_batches_for_each_replica_leave_more_to_wait():
    model = Model(80, 12_288, 96, 2048, 51_200)
    strategy = Strategy(data=128, tensor=8, pipeline=10, recomputation="full")
    cluster = replace(A100, nodes=1280)
    step = simulate_step(model, cluster, strategy, 3072)
    assert strategy.micro_batches(3072) == 24
    assert step.spent["waiting"] > step.seconds / 4
    assert simulate_step(model, cluster, strategy, 6144).bubble < step.bubble


def test_tensor_parallel_sends_most_and_stays_within_a_node():
    step = lessons_step()
    assert step.sent["tensor"] > 10 * max(step.sent["data"], step.sent["pipeline"])
    assert step.sent_over["within"] == step.sent["tensor"]


def test_the_first_stage_sends_most_and_has_one_neighbour_and_the_word_table():
    step = lessons_step()
    first, middle = step.sent_by_ranks[:2]
    assert step.sent == first and first["pipeline"] < middle["pipeline"]
    message = 2 * LESSONS_MODEL.sequence * LESSONS_MODEL.hidden
    table = 2 * LESSONS_MODEL.vocabulary * LESSONS_MODEL.hidden / 8
    assert middle["pipeline"] == 2 * 8 * message
    assert first["pipeline"] == 8 * message + table, "a ring of two sends it once"
    assert first["data"] > middle["data"] + table


@pytest.mark.parametrize("parallel", [False, True])
def test_full_recomputation_is_busiest_and_slowest(parallel):
    found = {
        name: lessons_step(recomputation=name, sequence_parallel=parallel)
        for name in ("none", "selective", "full")
    }
    busiest = max(found.values(), key=lambda step: step.hardware_utilisation)
    slowest = max(found.values(), key=lambda step: step.seconds)
    assert busiest is slowest is found["full"]
    by_time = sorted(found, key=lambda name: found[name].seconds)
    by_model = sorted(found, key=lambda name: -found[name].model_utilisation)
    assert by_time == by_model


def test_16s_formula_in_16_bits_is_unchanged():
    size = LayerSize()
    for way, t in product(("tensor", "sequence", "gather twice"), (1, 2, 4)):
        assert published_bytes(way, size, t) == published_bytes(way, size, t, number=2)
    assert set(BUILT) == set(STRATEGIES[:3])


def test_waiting_idle_and_bubble_are_three_shares():
    step = lessons_step()
    spent = step.spent
    messages = spent["tensor"] + spent["pipeline"] + spent["data"]
    assert step.idle * step.seconds == pytest.approx(messages + spent["waiting"])
    assert spent["waiting"] / step.seconds < step.bubble < step.idle


def test_a_table_says_which_stages_it_leaves_out(capsys):
    for stages, dots in ((8, 0), (10, 1)):
        model = replace(SMALL, layers=stages)
        cluster = replace(NODE, gpus_per_node=stages)
        strategy = Strategy(pipeline=stages)
        print_memory(simulate_step(model, cluster, strategy, 16))
        lines = capsys.readouterr().out.splitlines()
        assert lines.count("...") == dots
        assert sum(line.startswith("stage") for line in lines) == 8
    assert lines[4].startswith("stage 3") and lines[6].startswith("stage 6")
