"""Positions of a text on several ranks give what the whole text gives."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel_by_hand.context_parallel.bill_of_ways import bill_of_way
from parallel_by_hand.context_parallel.chunks import (
    DEALS,
    own_chunks,
    pairs_to_compute,
    zig_zag,
)
from parallel_by_hand.context_parallel.context_model import (
    MISTAKES,
    compare_with_whole_text,
)
from parallel_by_hand.context_parallel.ring_attention import RingAttention
from parallel_by_hand.context_parallel.seen_keys import (
    attend_to_piece,
    gradients_of_piece,
    merge_seen,
)
from sidebyside import run_ranks

WAYS = "ring", "gather", "heads"


def test_by_hand_both_sets_are_seen_as_7():
    mixed, log_sum = merge_seen(
        (torch.tensor([[4.0]]), torch.tensor([1.0]).log()),
        (torch.tensor([[8.0]]), torch.tensor([3.0]).log()),
    )
    assert mixed.item() == pytest.approx(7)
    assert log_sum.exp().item() == pytest.approx(4)


# Who works how much -------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_in_zig_zag_all_ranks_compute_alike_in_every_step(ranks):
    first, *others = pairs_to_compute(DEALS["zig-zag"], ranks, 16 * ranks)
    assert all(of_rank == first for of_rank in others)


def test_in_order_the_last_rank_of_four_does_seven_times_the_work():
    pairs = pairs_to_compute(DEALS["in order"], 4, 2**17)
    work = [sum(of_rank) for of_rank in pairs]
    assert work[3] / work[0] == pytest.approx(7, abs=0.01)
    slowest_in_each_step = map(max, zip(*pairs, strict=True))
    assert sum(slowest_in_each_step) == work[3], "the last rank waits for nobody"
    everything = 2**17 * (2**17 + 1) // 2
    for deal in DEALS.values():
        assert sum(map(sum, pairs_to_compute(deal, 4, 2**17))) == everything


# The bills ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4])
def test_the_scorecard_is_what_the_meter_says(n):
    bills = {way: run_ranks(bill_of_way, way, world_size=n) for way in WAYS}
    sent = {"ring": 6 * n - 4, "gather": 4 * (n - 1), "heads": 8 * (n - 1) / n}
    kept = {"ring": 4, "gather": 2 * n + 2, "heads": 4}
    for way, of_ranks in bills.items():
        for bill in of_ranks:
            assert bill["forward"] + bill["backward"] == sent[way]
            assert bill["kept"] == kept[way] + 1 / 8  # a log-sum for 8 numbers
    forward = {way: of_ranks[0]["forward"] for way, of_ranks in bills.items()}
    assert forward["ring"] == n / 2 * forward["heads"]


def test_by_autograd_four_ranks_keep_half_of_what_one_keeps():
    """The unit is what a rank's queries take, on four ranks a quarter of the whole."""
    one, four, of_longer_text = (
        run_ranks(bill_of_way, "ring, by autograd", *deal, world_size=n)[0]["kept"]
        for n, deal in ((1, ()), (4, ()), (4, ("zig-zag", 1024)))
    )
    assert four / 4 == pytest.approx(one / 2, rel=0.05)
    assert round(of_longer_text) == 172


# The model and its mistakes -----------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_mistake_shows_in_the_loss_and_each_in_the_gradients(mistake):
    for found in run_ranks(compare_with_whole_text, "ring", mistake):
        assert found["loss"] == pytest.approx(found["whole loss"], rel=0.02)
        assert found["gap"] > 0.03


def test_a_token_of_rank_0_counts_half_as_much_again_in_a_mean_of_means():
    found = run_ranks(compare_with_whole_text, "ring", "mean of means")
    assert [of_rank["counted"] for of_rank in found] == [8, 12]


# The library --------------------------------------------------------------------------


def attend_in_context_parallel() -> tuple[str, list[int]]:
    """Runs in each rank: how torch's context fails, and the positions it has dealt."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._context_parallel import _attention

    assert _attention._cp_options.rotate_method.name == "ALL_GATHER", "the default"
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    query, key, value = parts = list(torch.randn(3, 1, 2, 8, 4))
    places = torch.arange(8)
    F.scaled_dot_product_attention(query, key, value, is_causal=True)
    with context_parallel(mesh, buffers=[*parts, places], buffer_seq_dims=[2, 2, 2, 0]):
        assert query.shape == (1, 2, 4, 4), "its own positions"
        with pytest.raises(NotImplementedError) as caught:
            F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return str(caught.value), places.tolist()


@pytest.mark.everything
def test_torch_deals_in_zig_zag_and_fails_in_causal_attention_on_a_cpu():
    (message, first), (_, second) = run_ranks(attend_in_context_parallel)
    assert "attention_for_cpu" in message
    assert "does not have a sharding strategy" in message
    assert (first, second) == ([0, 1, 6, 7], [2, 3, 4, 5])


def attend_by_torchs_ring(method: str) -> tuple[float, list[dict[str, int]]]:
    """Runs in each rank: its algorithm with our kernels, beside ours, there and back.

    The largest gap of output and gradients, and the collectives of both ways.
    """
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor.experimental._context_parallel import _attention

    _attention.set_rotate_method(method)
    parts = [own_chunks(t, zig_zag, -2) for t in torch.randn(4, 1, 2, 24, 4)]
    *qkv, gradient = parts

    def ahead(query, key, is_causal):
        shape = query.shape[-2], key.shape[-2]
        return torch.ones(shape, dtype=torch.bool).triu(1) if is_causal else None

    def attend(query, key, value, is_causal):
        return attend_to_piece(query, key, value, ahead(query, key, is_causal))

    def go_back(query, key, value, out, logsumexp, grad, is_causal):
        seen, hidden = (out, logsumexp), ahead(query, key, is_causal)
        return gradients_of_piece(query, key, value, seen, grad, hidden)

    ring = _attention._templated_ring_attention
    with pytest.raises(RuntimeError, match="requires `is_causal=True`"):
        ring(dist.group.WORLD, 2, attend, *qkv)
    with CommDebugMode() as forward:
        seen = ring(dist.group.WORLD, 2, attend, *qkv, is_causal=True)
    back, given = _attention._templated_ring_attention_backward, (*qkv, *seen, True)
    with CommDebugMode() as backward:
        theirs = back(dist.group.WORLD, 2, go_back, gradient, "grad", *given)
    ours = [part.requires_grad_() for part in qkv]
    mixed = RingAttention.apply(*ours, zig_zag)
    mixed.backward(gradient)
    pairs = [(seen[0], mixed), *zip(theirs, (t.grad for t in ours), strict=True)]
    return max((a - b).abs().max().item() for a, b in pairs), [
        {str(op).rpartition(".")[2]: n for op, n in mode.get_comm_counts().items()}
        for mode in (forward, backward)
    ]


@pytest.mark.everything
@pytest.mark.parametrize(
    ("method", "forward", "backward"),
    [
        ("allgather", [("gather", 1)], [("gather", 1), ("all_to_all", 3)]),
        ("alltoall", [("all_to_all", 2)], [("all_to_all", 5)]),
    ],
)
def test_torch_gathers_or_passes_keys_on_and_gradients_go_round(
    method, forward, backward
):
    """On three ranks; a pass is an all-to-all with one receiver."""
    for gap, counts in run_ranks(attend_by_torchs_ring, method, world_size=3):
        assert gap < 1e-5
        for called, expected in zip(counts, (forward, backward), strict=True):
            assert list(called.values()) == [n for _, n in expected]
            for name, (kind, _) in zip(called, expected, strict=True):
                assert kind in name
