"""All four ways give the library's sum; what they send, and what it costs, is known."""

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives import all_reduce_four_ways, link_cost
from parallel_by_hand.collectives import paced_link as pacing
from parallel_by_hand.collectives.all_reduce_costs import (
    WAYS,
    messages_and_bytes,
    predicted_crossover,
    predicted_seconds,
)
from parallel_by_hand.collectives.all_reduce_four_ways import (
    found_crossover,
    meter_every_way,
    time_over_paced_link,
)
from parallel_by_hand.collectives.all_reduces import ALL_REDUCES, ring_all_reduce
from parallel_by_hand.collectives.paced_link import PacedLink, paced_link
from parallel_by_hand.collectives.published_all_reduces import H100_MICROSECONDS
from sidebyside import Timeline, consecutive_steps, device, run_ranks
from sidebyside.course.lesson_format import read_lesson

RANKS = [1, 2, 3, 4, 8]
LENGTHS = [0, 1, 7, 64, 1000]


def sums_of_all_ways() -> dict[tuple, tuple[torch.Tensor, torch.Tensor]]:
    """Runs in each rank: (ours, the library's) for each way, length and type."""
    torch.manual_seed(dist.get_rank())
    pairs = {}
    for way, length in ((way, length) for way in ALL_REDUCES for length in LENGTHS):
        for dtype in (torch.float32, torch.float64):
            ours = torch.randn(length, dtype=dtype)
            library = ours.clone()
            ALL_REDUCES[way](ours)
            dist.all_reduce(library)
            pairs[way, length, dtype] = ours, library
    return pairs


@pytest.mark.parametrize("ranks", RANKS)
def test_every_way_gives_the_librarys_sum_and_the_same_bits_to_all(ranks):
    of_ranks = run_ranks(sums_of_all_ways, world_size=ranks)
    for case, (ours, library) in of_ranks[0].items():
        torch.testing.assert_close(ours, library, msg=str(case))
        assert all(torch.equal(ours, pairs[case][0]) for pairs in of_ranks), case


def meters_of_lengths() -> list[dict]:
    return [meter_every_way(length) for length in LENGTHS]


@pytest.mark.parametrize("ranks", [*RANKS, 5])
def test_the_meter_finds_the_promised_messages_bytes_and_steps(ranks):
    of_ranks = run_ranks(meters_of_lengths, world_size=ranks)
    for place, length in enumerate(LENGTHS):
        meters = {way: [rank[place][way] for rank in of_ranks] for way in WAYS}
        for way in WAYS:
            expected = messages_and_bytes(way, ranks, 4 * length)[0]
            assert consecutive_steps(meters[way]) == expected, (way, length)
        root = meters["root"][0]
        assert root.bytes_sent == root.bytes_received == 4 * (ranks - 1) * length
        for meter in meters["ring"]:
            assert meter.messages_sent == 2 * (ranks - 1)
            if length % ranks == 0:
                assert meter.bytes_sent == 4 * 2 * (ranks - 1) * length // ranks
            assert meter.bytes_sent <= 4 * 2 * (length - length // ranks)


def test_the_timeline_of_a_ring_names_each_chunk_in_both_halves():
    with Timeline() as timeline:
        run_ranks(lambda: ring_all_reduce(torch.ones(3)), world_size=3)
    of_rank_0 = [span.name for span in timeline.spans if span.lane == "rank 0"]
    assert of_rank_0 == ["reduce 0", "reduce 2", "gather 1", "gather 0"]


# Rounding -----------------------------------------------------------------------------


def test_the_ways_add_in_different_orders():
    def sums() -> dict[str, torch.Tensor]:
        seed = torch.Generator().manual_seed(dist.get_rank())
        numbers = torch.rand(1000, generator=seed)
        totals = {way: numbers.clone() for way in ALL_REDUCES}
        for way, total in totals.items():
            ALL_REDUCES[way](total)
        return totals

    found = run_ranks(sums, world_size=4)[0]
    for way in ("tree", "ring", "halving-doubling"):
        assert not torch.equal(found[way], found["root"])
        torch.testing.assert_close(found[way], found["root"])


def test_trainings_on_two_ranks_and_on_four_drift_apart():
    names = {"__name__": "__main__", "torch": torch, "dist": dist}  # as in a notebook
    names |= {"device": device, "ring_all_reduce": ring_all_reduce}
    cells = read_lesson(Path(__file__).parent).code_cells
    exec(next(c.source for c in cells if "def train_round_ring" in c.source), names)
    two, four = (run_ranks(names["train_round_ring"], world_size=n)[0] for n in (2, 4))
    differ = (two != four).sum(1)
    assert 0 < differ[0] < differ[-1], "after the first step and after the last"
    torch.testing.assert_close(two, four, atol=1e-6, rtol=0)


# The paced link -----------------------------------------------------------------------


def times_by_counted_sleep(*case) -> dict[tuple[str, int], float]:
    """Runs in each rank: `time_over_paced_link` by a clock that only sleeping moves.

    Each message brings its sender's time along: its receiver goes on no earlier.
    """
    clock, on_their_way = SimpleNamespace(now=0.0), []
    send, receive, barrier = dist.isend, dist.irecv, dist.barrier

    def sleep(seconds: float) -> None:
        clock.now += seconds

    def start_together() -> None:
        barrier()
        clock.now = 0.0

    def send_with_time(tensor, *to, **options):
        now = torch.tensor([clock.now], dtype=torch.float64)
        on_their_way.append((send(now, *to, **options), now))
        return send(tensor, *to, **options)

    def receive_with_time(tensor, *of, **options):
        sent = torch.empty(1, dtype=torch.float64)
        works = [receive(room, *of, **options) for room in (sent, tensor)]

        def wait() -> bool:
            done = [work.wait() for work in works]
            clock.now = max(clock.now, sent.item())
            return all(done)

        return SimpleNamespace(wait=wait)

    ways = {"isend": send_with_time, "irecv": receive_with_time}
    with (
        mock.patch.multiple(dist, barrier=start_together, **ways),
        mock.patch.multiple(pacing, sleep=sleep, perf_counter=lambda: clock.now),
        mock.patch.object(all_reduce_four_ways, "perf_counter", lambda: clock.now),
    ):
        seconds = time_over_paced_link(*case)
    for work, _ in on_their_way:
        work.wait()
    return seconds


def test_over_the_paced_link_ranks_sleep_as_long_as_predicted():
    case = WAYS, [32], 1.0, 0.25, 1
    for counted in run_ranks(times_by_counted_sleep, *case, world_size=4):
        for way in WAYS:
            assert counted[way, 32] == predicted_seconds(way, 4, 32, 1.0, 0.25), way


def test_over_the_paced_link_a_tree_is_faster_below_400_kb_and_a_ring_above():
    sizes = [100_000, 200_000, 400_000, 800_000, 1_600_000]
    case = ["tree", "ring"], sizes, 0.02, 40e-9, 1
    counted = run_ranks(times_by_counted_sleep, *case, world_size=4)[0]
    tree, ring = ([counted[way, size] for size in sizes] for way in ("tree", "ring"))
    assert tree[0] < ring[0] and ring[-1] < tree[-1]
    assert found_crossover(sizes, tree, ring) == pytest.approx(400_000)


def test_messages_that_come_in_at_once_queue(monkeypatch):
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(pacing, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(
        pacing, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds)
    )
    link = PacedLink(alpha=1.0, beta=0.5)
    arrived = SimpleNamespace(wait=lambda: True)
    for expected in (10.0, 13.0, 16.0):
        pacing.Arriving(link, torch.ones(1), arrived).wait()
        assert clock.now == expected


def leave_the_link() -> tuple[bool, int, float]:
    before = dist.isend, dist.irecv
    with pytest.raises(KeyError), paced_link(0.001, 0):
        raise KeyError
    restored = (dist.isend, dist.irecv) == before
    other, got = 1 - dist.get_rank(), torch.zeros(1)
    with paced_link(0.001, 0):
        if dist.get_rank() == 0:
            dist.send(torch.ones(1), other)
            source = 1
        else:
            source = dist.recv(got)  # from any rank
        dist.all_reduce(got)
    return restored, source, got.item()


def test_the_link_is_restored_and_any_source_can_be_received_from():
    assert run_ranks(leave_the_link) == [(True, 1, 1.0), (True, 0, 1.0)]


# What it costs ------------------------------------------------------------------------

SIZES = [4**k for k in range(3, 12)]


def test_the_fit_recovers_a_line_and_predicts_a_size_it_has_not_seen():
    random, alpha, beta = np.random.default_rng(0), 50e-6, 0.5e-9
    timed = {
        size: list((alpha + beta * size) * random.lognormal(0, 0.1, 12))
        for size in SIZES
        if size != 2**20
    }
    link = link_cost.fit_with_intervals(timed)
    assert link["alpha"] == pytest.approx(alpha, rel=0.1)
    assert link["alpha interval"][0] <= link["alpha"] <= link["alpha interval"][1]
    assert link["beta interval"][0] <= link["beta"] <= link["beta interval"][1]
    predicted = link["alpha"] + link["beta"] * 2**20
    assert predicted == pytest.approx(alpha + beta * 2**20, rel=0.1)


def test_errors_in_seconds_would_lose_the_latency():
    random, alpha, beta = np.random.default_rng(1), 50e-6, 0.5e-9
    worse = 0
    for _ in range(50):
        noisy = [(alpha + beta * s) * random.lognormal(0, 0.2) for s in SIZES]
        ours = link_cost.fit_link_cost(SIZES, noisy)[0]
        plain = np.polyfit(SIZES, noisy, 1)[1]
        worse += abs(plain - alpha) > abs(ours - alpha)
    assert worse > 40


def test_messages_of_all_sizes_are_timed_in_every_round():
    for timed in run_ranks(link_cost.time_messages, [64, 1000], 2, 1):
        assert {size: len(seconds) for size, seconds in timed.items()} == {
            64: 2,
            1000: 2,
        }


def test_tree_and_ring_cross_at_the_predicted_size():
    alpha, beta = 0.02, 40e-9
    assert predicted_crossover(4, alpha, beta) == pytest.approx(400_000)
    for ranks in (4, 5, 8, 100):
        size = predicted_crossover(ranks, alpha, beta)
        times = [predicted_seconds(w, ranks, size, alpha, beta) for w in WAYS[1:3]]
        assert times[0] == pytest.approx(times[1])
    for ranks in (2, 3):  # as many steps: a ring is never slower
        with pytest.raises(ValueError):
            predicted_crossover(ranks, alpha, beta)
    sizes = [100_000, 300_000, 500_000, 900_000]
    tree, ring = (
        [predicted_seconds(way, 4, size, alpha, beta) for size in sizes]
        for way in ("tree", "ring")
    )
    assert found_crossover(sizes, tree, ring) == pytest.approx(400_000)
    slower = [2 * seconds for seconds in tree]
    assert found_crossover(sizes, tree, slower) == 900_000, "never faster"
    assert found_crossover(sizes, slower, tree) == 100_000, "always faster"


def test_the_published_table_has_the_bus_bandwidths_that_were_printed_with_it():
    printed = {8_589_934_592: 467.54, 16_777_216: 149.56, 1_048_576: 22.58}
    carried, seconds, _ = link_cost.gpu_link()
    table = dict(
        zip(H100_MICROSECONDS, zip(carried, seconds, strict=True), strict=True)
    )
    for size, bandwidth in printed.items():
        bytes_on_link, time = table[size]
        assert bytes_on_link / time / 1e9 == pytest.approx(bandwidth, rel=1e-3)


def test_the_published_residuals_have_a_shape():
    carried, seconds, fitted = link_cost.gpu_link()
    ratios = np.array(seconds) / np.array(fitted)
    middle = (np.array(carried) > 2e5) & (np.array(carried) < 2e8)
    assert ratios[middle].min() > 1.1, "slower than the line, one and all"
    assert ratios[middle].max() == pytest.approx(2.5, abs=0.01)
    ends = ratios[~middle][1:]
    assert ends.min() > 0.8 and ends.max() < 1.2, "off by a fifth or less"
