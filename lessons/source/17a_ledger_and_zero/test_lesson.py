"""Every byte is predicted and found, and ZeRO trains what data parallel trains."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from parallel_by_hand.sharding import shard_timelines
from parallel_by_hand.sharding.beside_ddp import networks_trained_side_by_side
from parallel_by_hand.sharding.flat_shards import (
    ring_reduce_scatter,
)
from parallel_by_hand.sharding.ledger import (
    MIXED,
    SINGLE,
    STRATEGIES,
    predicted_ledger,
    state_bytes,
)
from parallel_by_hand.sharding.ledger_pictures import (
    NUMBERS,
    PUBLISHED,
    row_of_the_paper,
)
from parallel_by_hand.sharding.measured_ledger import (
    BUILT,
    LAYERS,
    adam,
    bytes_of_accumulation,
    digits_activations,
    measure_digits,
    own_rows_of_digits,
    sgd_with_momentum,
)
from parallel_by_hand.sharding.sixteen_bits import FORMATS, train_in_format
from sidebyside import Timeline, run_ranks
from tests.quiet_loopback import least_on_loopback

PRECISIONS = {torch.float32: SINGLE, torch.bfloat16: MIXED}

# The ledger ---------------------------------------------------------------------------


def ledgers_of_all() -> dict[tuple, tuple]:
    return {
        (name, dtype): (
            measure_digits(name, dtype).ledger,
            len(own_rows_of_digits(0)[0]),
        )
        for name in BUILT
        for dtype in PRECISIONS
    }


def test_the_ledger_is_predicted_to_the_byte():
    for found in run_ranks(ledgers_of_all, world_size=(ranks := 3)):
        for (name, dtype), (ledger, samples) in found.items():
            kept = digits_activations(samples, dtype.itemsize)
            wanted = predicted_ledger(LAYERS, ranks, name, PRECISIONS[dtype], kept)
            assert ledger == wanted, (name, dtype)


@pytest.mark.everything
def test_more_ranks_leave_the_training_state_of_ddp_as_it_is():
    one, four = (run_ranks(measure_digits, "DDP", world_size=n)[0] for n in (1, 4))
    for alone, among_four in zip(one.ledger[:3], four.ledger[:3], strict=True):
        assert alone <= among_four < alone + 20, "padding only"
    assert four.ledger.activations < 0.3 * one.ledger.activations


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_formula_gives_the_papers_table(model):
    for ranks, published in PUBLISHED[model].items():
        assert row_of_the_paper(model, ranks) == published


def test_the_formula_gives_the_papers_figure():
    sizes = [state_bytes(NUMBERS["7.5B"], 64, name).total / 1e9 for name in STRATEGIES]
    assert [f"{size:.1f}" for size in sizes] == ["120.0", "31.4", "16.6", "1.9"]
    assert MIXED.optimiser / MIXED.total == 0.75
    assert MIXED.total == SINGLE.total == 16


# Sixteen bits -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained_in_formats() -> dict:
    settings = {"": 1, ", one part of many": 2**16}
    return {
        name + setting: run_ranks(train_in_format, format, parts, world_size=1)[0]
        for name, format in FORMATS.items()
        for setting, parts in settings.items()
    }


@pytest.mark.everything
def test_bfloat16_needs_a_master_copy(trained_in_formats):
    float32 = trained_in_formats["float32"]
    copy = trained_in_formats["bfloat16, master copy"]
    alone = trained_in_formats["bfloat16 alone"]
    assert copy.loss == pytest.approx(float32.loss, abs=0.02)
    assert alone.loss > float32.loss + 0.1
    assert alone.unchanged > 0.5 > 0.2 > copy.unchanged


@pytest.mark.everything
def test_float16_needs_a_scaled_loss(trained_in_formats):
    many = ", one part of many"
    float32 = trained_in_formats["float32" + many]
    assert trained_in_formats["float16, master copy" + many].zeros > 0.85
    assert trained_in_formats["float16, master copy" + many].loss > float32.loss + 0.5
    for name in ("float16, loss scaled", "bfloat16, master copy"):
        assert trained_in_formats[name + many].loss == pytest.approx(
            float32.loss, abs=0.02
        )


def test_float16_rounds_to_0_what_the_lesson_says():
    small = torch.tensor([2.9e-8, 3.1e-8]).half()
    assert small[0] == 0 < small[1]
    bfloat = torch.tensor([1.0]).bfloat16()
    assert torch.nextafter(bfloat, 2 * bfloat) == 1.0078125


def test_autocast_leaves_parameters_gradients_and_averages_in_float32():
    layer = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(layer.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = layer(torch.randn(3, 8))
    made.float().sum().backward()
    optimizer.step()
    averages = [t for state in optimizer.state.values() for t in state.values()]
    kept = [*layer.parameters(), *(p.grad for p in layer.parameters()), *averages]
    assert made.dtype == torch.bfloat16
    assert {tensor.dtype for tensor in kept} == {torch.float32}


# The same numbers ---------------------------------------------------------------------


def largest_gaps(make_optimizer, steps: int = 10) -> dict[str, float]:
    gaps: dict[str, float] = {}
    for networks in networks_trained_side_by_side(steps, make_optimizer):
        flat = {name: flat_numbers(network) for name, network in networks.items()}
        for name, numbers in flat.items():
            gap = (numbers - flat["DDP"]).abs().max().item()
            gaps[name] = torch.tensor([gap, gaps.get(name, 0)]).max().item()
    return gaps


def flat_numbers(network: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach()


@pytest.mark.parametrize(
    ("ranks", "make_optimizer"), [(2, adam), (3, sgd_with_momentum)], ids=str
)
def test_zero_equals_ddp_after_every_step(ranks, make_optimizer):
    close = 0 if ranks <= 2 else 1e-5
    for gaps in run_ranks(largest_gaps, make_optimizer, world_size=ranks):
        assert all(gap <= close for gap in gaps.values())


# The same bytes -----------------------------------------------------------------------


def bytes_of_all() -> dict[str, int]:
    return {name: measure_digits(name).sent for name in BUILT}


def test_both_stages_send_what_ddp_sends():
    for sent in run_ranks(bytes_of_all, world_size=(ranks := 3)):
        flat, by_layer = (
            sum(-(-numbers // ranks) for numbers in some) * 4 * 2 * (ranks - 1)
            for some in ([sum(LAYERS)], LAYERS)
        )
        assert sent == {"DDP": flat, "ZeRO-1": flat, "ZeRO-2": by_layer}


@pytest.mark.everything
@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_accumulation_saves_zero_2_only_the_all_gathers(micro_batches):
    sent = {
        name: run_ranks(bytes_of_accumulation, name, micro_batches)[0] for name in BUILT
    }
    assert sent["DDP"] == sent["ZeRO-1"]
    assert sent["ZeRO-2"] / sent["ZeRO-1"] == (micro_batches + 1) / 2


def megabytes_of_both() -> tuple[float, float]:
    flat = torch.ones(4_000_000)
    pieces = list(flat.chunk(4))
    ours = megabytes_per_rank(lambda: ring_reduce_scatter(flat), 3)
    return ours, megabytes_per_rank(lambda: dist.reduce_scatter(pieces[0], pieces), 3)


@pytest.mark.everything
@pytest.mark.skipif(not loopback_bytes(), reason="no loopback interface is counted")
def test_gloos_reduce_scatter_sends_twice_as_much():
    ours, gloos = least_on_loopback(megabytes_of_both, 13.2, 26.4)
    assert ours == pytest.approx(12, rel=0.1) and gloos == pytest.approx(24, rel=0.1)


def megabytes_of_the_library() -> tuple[float, float]:
    network = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))  # 8.4 MB
    replica = nn.parallel.DistributedDataParallel(network)
    sharded = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam)

    def backward() -> None:
        replica(torch.ones(1, 512)).sum().backward()

    backward()
    sharded.step()
    return megabytes_per_rank(backward, 2), megabytes_per_rank(sharded.step, 2)


@pytest.mark.everything
@pytest.mark.skipif(not loopback_bytes(), reason="no loopback interface is counted")
def test_the_librarys_stage_1_sends_one_and_a_half_times_what_ddp_sends():
    all_reduce, broadcasts = least_on_loopback(megabytes_of_the_library, 13.8, 6.9)
    assert all_reduce == pytest.approx(2 * 3 / 4 * 8.4, rel=0.1)
    assert broadcasts == pytest.approx(3 / 4 * 8.4, rel=0.1)


# Flat parameters ----------------------------------------------------------------------


# Timelines ----------------------------------------------------------------------------


def spans_of(way: str) -> dict[str, list]:
    with Timeline() as timeline:
        run_ranks(shard_timelines.step_over_slow_link, way, 10)
    of_rank_0 = [s for s in timeline.spans if "rank 0" in str(s.lane)]
    names = {s.name for s in of_rank_0}
    return {name: [s for s in of_rank_0 if s.name == name] for name in names}


@pytest.mark.everything
@pytest.mark.parametrize("way", shard_timelines.WAYS)
def test_the_timelines_show_what_travels_when(way):
    spans = spans_of(way)
    assert len(spans["forward"]) == len(spans["backward"]) == 4
    last_backward = max(s.end for s in spans["backward"])
    first_scatter = min(s.start for s in spans["reduce-scatter"])
    assert (first_scatter > last_backward) == (way == "ZeRO-1")
    assert len(spans["reduce-scatter"]) == (1 if way == "ZeRO-1" else 4)
    assert min(s.start for s in spans["all-gather"]) > max(
        s.end for s in spans["update"]
    )


def scatters_beside_backward(way: str) -> int:
    """How many of rank 0's scatters travel while one of its layers goes back."""
    spans = spans_of(way)
    return sum(
        any(scatter.start < b.end and b.start < scatter.end for b in spans["backward"])
        for scatter in spans["reduce-scatter"]
    )


@pytest.mark.everything
def test_only_overlapped_does_backward_go_on_while_gradients_travel():
    assert scatters_beside_backward("ZeRO-1") == 0
    assert scatters_beside_backward("ZeRO-2") == 0
    tries = (scatters_beside_backward("ZeRO-2, overlapped") for _ in range(5))
    assert 3 in tries, "all but the last; a busy machine may begin one too late"
