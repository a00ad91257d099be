"""The bold sentences of lesson 10a hold, beyond the sizes that the lesson shows."""

import warnings

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.loopback_meter import (
    loopback_bytes,
    megabytes_per_rank,
)
from parallel_by_hand.collectives.who_holds_what import EIGHT, run_collectives
from sidebyside import MessageMeter, consecutive_steps, run_ranks
from tests.hanging_ranks import how_they_hang
from tests.quiet_loopback import least_on_loopback

ONE_TO_ALL, ALL_TO_ONE = ["broadcast", "scatter"], ["gather", "reduce"]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
def test_ours_leaves_what_torchs_leaves_in_all_eight(world_size):
    ours = run_collectives(EIGHT, eight_collectives, world_size, size=3)
    torchs = run_collectives(EIGHT, dist, world_size, size=3)
    for name in EIGHT:
        assert ours[name].before == torchs[name].before
        assert ours[name].after == torchs[name].after, name
        assert all(not meter.collectives for meter in ours[name].meters), name
        assert all(meter.not_awaited == 0 for meter in ours[name].meters), name


def test_who_holds_what_is_as_the_definitions_say():
    runs, ranks = run_collectives(EIGHT, dist, 3), range(3)
    sums = {c: 111 * (c + 1) for c in ranks}
    everyone = {r: 10**r for r in ranks}
    assert runs["broadcast"].after == [{0: 1}] * 3
    assert runs["scatter"].after == [{0: 1}, {1: 2}, {2: 3}]
    assert runs["gather"].after == [everyone, {}, {}]
    assert runs["reduce"].after == [{0: 111}, {0: None}, {0: None}]
    assert runs["all_gather"].after == [everyone] * 3
    assert runs["reduce_scatter"].after == [{r: sums[r]} for r in ranks]
    assert runs["all_reduce"].after == [sums] * 3
    swapped = [{s: (r + 1) * 10**s for s in ranks} for r in ranks]
    assert runs["all_to_all"].after == swapped


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_each_sends_what_its_docstring_says(world_size):
    runs = run_collectives(EIGHT, eight_collectives, world_size, size=5)
    piece, n = 5 * 8, world_size
    whole = n * piece
    for name in EIGHT:
        sent = [meter.bytes_sent for meter in runs[name].meters]
        if name in ONE_TO_ALL:
            assert sent == [(n - 1) * piece] + [0] * (n - 1)
        elif name in ALL_TO_ONE:
            assert sent == [0] + [piece] * (n - 1)
        elif name == "all_reduce":
            assert sent == [(n - 1) * whole] + [whole] * (n - 1)
            assert runs[name].meters[0].bytes_received == (n - 1) * whole
            assert consecutive_steps(runs[name].meters) == 2 * (n - 1)
        else:
            assert sent == [(n - 1) * piece] * n
            assert consecutive_steps(runs[name].meters) == n - 1


def other_types_and_shapes() -> None:
    for dtype in torch.float64, torch.int16:
        tensor = torch.full((2, 3), dist.get_rank() + 1, dtype=dtype)
        eight_collectives.all_reduce(tensor)
        assert (tensor == 6).all() and tensor.dtype == dtype
    nothing = torch.empty(0)
    eight_collectives.reduce_scatter(nothing, [torch.empty(0) for _ in range(3)])


def test_ours_take_any_type_and_shape_and_nothing():
    run_ranks(other_types_and_shapes, world_size=3)


def all_reduce_in_two_halves() -> tuple[list, list]:
    ranks = dist.get_world_size()
    tensor = torch.arange(2.0 * ranks) + dist.get_rank()
    pieces = [piece.clone() for piece in tensor.chunk(ranks)]
    mine = torch.empty_like(pieces[0])
    eight_collectives.reduce_scatter(mine, pieces)
    eight_collectives.all_gather(pieces, mine)
    dist.all_reduce(tensor)
    return torch.cat(pieces).tolist(), tensor.tolist()


def test_reduce_scatter_and_then_all_gather_end_where_all_reduce_ends():
    for halves, whole in run_ranks(all_reduce_in_two_halves, world_size=3):
        assert halves == whole


def request_for_piece_thrown_away() -> None:
    if dist.get_rank() == 0:
        dist.isend(torch.ones(1), 1)
    dist.barrier()  # so that the other receives later
    if dist.get_rank() == 1:
        dist.recv(torch.empty(1), 0)


@pytest.mark.everything
def test_a_message_whose_request_is_thrown_away_does_not_arrive_with_gloo():
    how_they_hang(request_for_piece_thrown_away, "rank 1 waits in recv")


def left_by_reduce() -> int:
    tensor = torch.tensor([10 ** dist.get_rank()])
    dist.reduce(tensor, dst=0)
    return tensor.item()


def test_after_a_reduce_only_the_roots_tensor_is_the_sum():
    root, *others = run_ranks(left_by_reduce, world_size=3)
    assert root == 111 and 111 not in others


def bytes_of_three() -> tuple[float, float, float]:
    pieces = list(torch.ones(1_000_000).chunk(4))
    room = torch.empty_like(pieces[0])
    calls = (
        lambda: eight_collectives.reduce_scatter(room, pieces),
        lambda: dist.reduce_scatter(room, pieces),
        lambda: dist.all_gather(pieces, room),
    )
    return tuple(megabytes_per_rank(call) / 4 for call in calls)


@pytest.mark.skipif(not loopback_bytes(), reason="no loopback interface is counted")
def test_gloos_reduce_scatter_sends_a_whole_all_reduce_and_ours_does_not():
    ours, gloos, all_gather = least_on_loopback(bytes_of_three, 0.9, 1.65, 0.9)
    assert ours == pytest.approx(0.75, abs=0.15)  # others may send meanwhile
    assert gloos == pytest.approx(1.5, abs=0.15)
    assert all_gather == pytest.approx(0.75, abs=0.15)


def warnings_of_names() -> dict[str, list[str]]:
    found, ranks = {}, dist.get_world_size()
    one, all_of_them = torch.ones(1), torch.ones(ranks)
    for name in "all_gather_into_tensor", "all_gather_single":
        found[name] = _warnings_of(getattr(dist, name), all_of_them.clone(), one)
    for name in "reduce_scatter_tensor", "reduce_scatter_single":
        found[name] = _warnings_of(getattr(dist, name), one.clone(), all_of_them)
    return found


def _warnings_of(call, *args) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(*args)
    return [str(warning.message) for warning in said]


def test_the_old_names_warn_and_name_the_new_ones():
    found = run_ranks(warnings_of_names)[0]
    assert "all_gather_single" in found["all_gather_into_tensor"][0]
    assert "reduce_scatter_single" in found["reduce_scatter_tensor"][0]
    assert not found["all_gather_single"] and not found["reduce_scatter_single"]


def steps_of_swaps(order) -> MessageMeter:
    pieces = [torch.ones(1) for _ in range(dist.get_world_size())]
    received = [torch.empty(1) for _ in pieces]
    with MessageMeter() as meter:
        order(received, pieces)
    return meter


def test_a_tournament_takes_fewer_steps_than_rank_after_rank():
    from .answers import pieces_in_list_of_pairs, pieces_in_tournament

    steps = [
        consecutive_steps(run_ranks(steps_of_swaps, order, world_size=4))
        for order in (pieces_in_list_of_pairs, pieces_in_tournament)
    ]
    assert steps[1] < steps[0]


def test_the_drawing_is_described_in_letters():
    from parallel_by_hand.collectives.collective_drawing import draw_collectives
    from parallel_by_hand.collectives.collective_writing import collective_text

    runs = run_collectives(["reduce"], dist, 2)
    text = collective_text("reduce", runs["reduce"])
    assert text.splitlines()[2] == "rank 0 |  1  . | 11  ."
    assert text.splitlines()[3].endswith("|  ?  .")
    assert text in draw_collectives(runs).alt


def test_a_name_that_is_none_of_the_eight_is_refused():
    with pytest.raises(ValueError, match="broadcast, scatter"):
        run_collectives(["allreduce"])
