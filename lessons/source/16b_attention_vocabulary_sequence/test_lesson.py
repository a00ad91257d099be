"""Split attention, vocabulary and sequence give what the whole model gives."""

from functools import partial
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.transformer_block import (
    block_cut_by_layer,
    make_transformer_block,
)
from parallel_by_hand.tensor_parallel import (
    pixel_model,
    ring_attention,
    split_block,
    vocabulary,
)
from parallel_by_hand.tensor_parallel.activation_bytes import (
    LayerSize,
    kept_by_layer,
    published_bytes,
)
from parallel_by_hand.tensor_parallel.block_rows import (
    block_cut_by_neuron,
    compare_split_block,
)
from parallel_by_hand.tensor_parallel.conjugates import sum_over_ranks
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.sequence_conjugates import (
    gather_sequence,
    own_positions,
    scatter_sum,
)
from parallel_by_hand.tensor_parallel.split_layers import own_part
from sidebyside import MessageMeter, run_ranks

WAYS = list(split_block.ENDS)

# Attention and the block --------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 5])  # one more than heads
def test_a_block_split_by_heads_calls_two_all_reduces_each_way(ranks):
    for found in run_ranks(compare_split_block, world_size=ranks):
        assert found["calls"] == (["all_reduce"] * 2, ["all_reduce"] * 2)
        assert found["output"] < 1e-12 and found["gradient of x"] < 1e-10


def test_causal_attention_is_the_librarys():
    query, key, value = torch.randn(3, 2, 3, 5, 4, dtype=torch.float64)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    ours = split_block.causal_attention(query, key, value)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_halves_of_an_all_reduce_move_its_bytes(ranks):
    found = {w: run_ranks(compare_split_block, w, world_size=ranks)[0] for w in WAYS}
    for way in WAYS:
        assert found[way]["output"] < 1e-12 and found[way]["gradient of x"] < 1e-10
    halves = sorted(["all_gather", "reduce_scatter"] * 2)
    for calls in found["sequence"]["calls"]:
        assert sorted(calls) == halves
    assert found["sequence"]["bytes"] == found["tensor"]["bytes"]
    assert found["tensor"]["bytes"] == 8 * (ranks - 1) / ranks * 2 * 12 * 24 * 4
    assert found["gather twice"]["bytes"] == 1.25 * found["tensor"]["bytes"]
    assert found["gather twice"]["calls"][1].count("all_gather") == 4


def gradients_of_conjugates() -> list[torch.Tensor]:
    """Runs in each rank: what comes back through each function, and what should."""
    x = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(0))
    part = own_positions(x).clone().requires_grad_()
    weight = 1.0 + dist.get_rank()
    (gather_sequence(part) * x * weight).sum().backward()
    total = sum(range(1, dist.get_world_size() + 1))
    summand = x.clone().requires_grad_()
    (scatter_sum(summand) * own_positions(x)).sum().backward()
    return [part.grad, own_positions(x) * total, summand.grad, x]


@pytest.mark.parametrize("ranks", [1, 3])
def test_gathering_and_scattering_go_back_through_each_other(ranks):
    for got, expected, gradient, x in run_ranks(
        gradients_of_conjugates, world_size=ranks
    ):
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(gradient, x)


@pytest.mark.everything
def test_the_tables_rows_are_what_the_lesson_says():
    whole = run_ranks(block_cut_by_layer, world_size=1)[0]
    rows = {way: run_ranks(block_cut_by_neuron, way) for way in WAYS}
    for way in WAYS:
        assert rows[way][0] == rows[way][1], "both ranks hold and send as much"
        assert whole.parameters / 2 < rows[way][0].parameters < 0.51 * whole.parameters
    tensor, sequence, twice = (rows[way][0] for way in WAYS)
    assert sequence.sent == tensor.sent and twice.sent == 1.25 * tensor.sent
    kept = [row.activations for row in (tensor, sequence, twice)]
    assert kept == sorted(kept, reverse=True)
    assert kept[2] == pytest.approx(whole.activations / 2, rel=0.01)


# The vocabulary -----------------------------------------------------------------------


def embedding_beside_whole() -> float:
    """Runs in each rank: gaps of the embedding and of its gradient."""
    torch.manual_seed(0)
    whole = nn.Embedding(17, 3).double()
    split = vocabulary.VocabularyEmbedding(whole)
    tokens = torch.randint(17, (4, 5))
    with MessageMeter() as meter:
        ours = split(tokens)
        ours.square().sum().backward()
    assert meter.collectives == ["all_reduce"]
    whole(tokens).square().sum().backward()
    gaps = ours - whole(tokens), split.table.grad - own_part(whole.weight.grad, 0)
    return torch.stack([gap.abs().max() for gap in gaps]).max().item()


@pytest.mark.parametrize("ranks", [3])
def test_a_split_embedding_is_the_whole_one_and_sends_once(ranks):
    assert max(run_ranks(embedding_beside_whole, world_size=ranks)) < 1e-12


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("scale", [1, 1000])
def test_both_losses_are_the_whole_one_and_v_sixths_apart_in_bytes(ranks, scale):
    bills = {}
    for way in vocabulary.LOSSES:
        found = run_ranks(vocabulary.meter_loss, way, 48, 8, scale, world_size=ranks)
        bills[way] = found[0]["bytes"]
        for one in found:
            assert one["loss"] < 1e-10 and one["gradient"] < 1e-10
    assert bills["parallel"] == 3 * 2 * (ranks - 1) / ranks * 8 * 4
    assert bills["gathered"] == 48 / 6 * bills["parallel"]


def loss_of_exercise(labels: list[int]) -> tuple[float, list]:
    logits = torch.tensor([[0.0, 3.0, 4.0]]).double()
    logits[:, 1:] = logits[:, 1:].log()
    rank = dist.get_rank()
    part = logits[:, 2:] if rank else logits[:, :2]
    part = part.clone().requires_grad_()
    loss = vocabulary.vocabulary_cross_entropy(part, torch.tensor(labels), 2 * rank)
    loss.backward()
    return loss.item(), part.grad[0].tolist()


def test_the_numbers_of_exercise_1():
    (loss, first), (_, second) = run_ranks(loss_of_exercise, [1])
    assert loss == pytest.approx(0.98, abs=0.005)
    assert first == pytest.approx([1 / 8, -5 / 8]) and second == pytest.approx([1 / 2])


def maximum_by_ours() -> tuple[torch.Tensor, torch.Tensor, int]:
    mine = torch.randn(6, generator=torch.Generator().manual_seed(dist.get_rank()))
    ours, theirs = mine.clone(), mine.clone()
    with messages_of_ours(), MessageMeter() as meter:
        dist.all_reduce(ours, op=dist.ReduceOp.MAX)
    dist.all_reduce(theirs, op=dist.ReduceOp.MAX)
    return ours, theirs, meter.bytes_sent


@pytest.mark.parametrize("ranks", [3])
def test_our_maximum_is_the_librarys_and_costs_what_a_sum_costs(ranks):
    for ours, theirs, sent in run_ranks(maximum_by_ours, world_size=ranks):
        assert torch.equal(ours, theirs)
        assert sent == 2 * (ranks - 1) / ranks * 6 * 4


# The whole model ----------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_the_split_model_equals_the_whole_one_after_every_step(way, ranks):
    for gaps, losses in run_ranks(
        pixel_model.train_beside_whole, way, world_size=ranks
    ):
        assert len(gaps) == 10 and all(gap < 1e-6 for gap in gaps)
        assert losses[-1] < losses[0] - 0.5


def numbers_sent_by_model(way: str) -> float:
    """Runs in each rank: what one step's forward and backward send, in numbers."""
    split = pixel_model.SplitPixelModel(pixel_model.PixelModel(), way)
    tokens, labels = pixel_model.pixel_batches(16, 1)[0]
    with messages_of_ours(), MessageMeter() as meter:
        split(tokens, labels).backward()
    return meter.bytes_sent / 4


@pytest.mark.parametrize(
    "way, block, words", [("tensor", 8, 4), ("sequence", 8, 4), ("gather twice", 10, 5)]
)
def test_the_model_sends_what_the_scorecard_says(way, block, words):
    s, h = 16 * 32, 32
    sent = run_ranks(numbers_sent_by_model, way, world_size=4)
    assert set(sent) == {3 / 4 * ((block + words) * s * h + 6 * s)}


def train_with_fault(fault: str) -> float:
    """Runs in each rank: the gap after two steps, with one thing left out."""
    plain = split_block.ENDS["tensor"]
    faults = {
        "no sum of norms": mock.patch.object(
            pixel_model, "sum_whole_parameters", lambda model: None
        ),
        "own maximum": mock.patch.object(
            vocabulary, "maximum_over_ranks", lambda logits: logits.detach().amax(-1)
        ),
        "no copy": mock.patch.dict(
            split_block.ENDS, {"tensor": plain._replace(enter=F.linear)}
        ),
    }
    with faults[fault]:
        way = "sequence" if fault == "no sum of norms" else "tensor"
        gaps, _ = pixel_model.train_beside_whole(way, steps=2)
    return gaps[-1]


@pytest.mark.everything
@pytest.mark.parametrize("fault", ["no sum of norms", "own maximum", "no copy"])
def test_what_is_left_out_is_seen_at_once(fault):
    assert max(run_ranks(train_with_fault, fault)) > 1e-4


def words_of_ranks() -> int:
    return len(
        pixel_model.SplitPixelModel(pixel_model.PixelModel(), "tensor").words.table
    )


def test_the_words_of_the_model_are_not_shared_evenly():
    assert run_ranks(words_of_ranks, world_size=4) == [5, 4, 4, 4]


# Exercise 2: which gradients are summands ---------------------------------------------


def sums_of_out_bias() -> tuple[float, list[float]]:
    """Runs in each rank: one number's gradient here and whole; loss: sum of outputs."""
    whole = make_transformer_block(4, 2)[0]
    mine = split_block.split_block(
        nn.Sequential(whole, make_transformer_block(4, 2)[1]),
        split_block.ENDS["sequence"],
    )[0]
    x = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0))
    mine(own_positions(x).contiguous()).sum().backward()
    whole(x).sum().backward()
    return mine.out.bias.grad[0].item(), whole.out.bias.grad[0].item()


def test_the_numbers_of_exercise_2():
    for mine, whole in run_ranks(sums_of_out_bias):
        assert (mine, whole) == (2, 4)


# What a layer keeps -------------------------------------------------------------------

SIZES = [LayerSize(64, 2, 64, 4), LayerSize(16, 3, 32, 8)]


@pytest.mark.parametrize("size", SIZES)
def test_a_layer_keeps_what_the_paper_says_to_the_byte(size):
    whole = run_ranks(kept_by_layer, "tensor", size, world_size=1)[0]
    left_over = 8 * size.s * size.b  # two norms, mean and spread, two bytes each
    assert whole - published_bytes("tensor", size, 1) == left_over
    for way in WAYS:
        kept = run_ranks(kept_by_layer, way, size, world_size=4)
        norms = left_over if way == "tensor" else left_over / 4
        assert set(kept) == {published_bytes(way, size, 4) + norms}


def test_the_papers_case_leaves_1024_bytes_and_the_variants_ratios():
    size = SIZES[0]
    kept = partial(run_ranks, kept_by_layer, "tensor", size, world_size=1)
    whole = kept()[0]
    assert whole - published_bytes("tensor", size, 1) == 1024
    assert kept("torch")[0] / whole == pytest.approx(1.11, abs=0.005)
    assert kept("torch", "fused")[0] / whole == pytest.approx(0.67, abs=0.005)


@pytest.mark.everything
def test_fused_attention_keeps_nothing_that_grows_with_the_square_of_the_text():
    kept = {}
    for attention in ("plain", "fused"):
        for s in (32, 64):
            settings = "tensor", LayerSize(s, 2, 64, 4), "torch", attention
            kept[attention, s] = run_ranks(kept_by_layer, *settings, world_size=1)[0]
    assert kept["fused", 64] == 2 * kept["fused", 32]
    assert kept["plain", 64] > 2.4 * kept["plain", 32]


def test_tensor_parallel_leaves_ten_whole_and_sequence_parallel_none():
    size = LayerSize(s=1, b=1, h=1, a=0)
    for t in (1, 2, 4, 8):
        assert published_bytes("tensor", size, t) == 10 + 24 / t
        assert published_bytes("gather twice", size, t) == 34 / t


# The ring -----------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_ring_gives_the_attention_of_the_whole(ranks, causal):
    found = run_ranks(ring_attention.try_ring_attention, 8, 3, causal, world_size=ranks)
    for one in found:
        assert one["gap"] < 1e-12
        assert one["bytes"] == (ranks - 1) * 2 * 8 // ranks * 3 * 4
    if causal:
        assert [one["pieces"] for one in found] == list(range(1, ranks + 1))


def test_zigzag_lets_all_ranks_see_equally_many_pieces():
    ranks = 4
    halves = [(rank, 2 * ranks - 1 - rank) for rank in range(ranks)]
    assert len({sum(half + 1 for half in mine) for mine in halves}) == 1


def test_merging_is_attention_to_both_even_where_exponentials_are_infinite():
    query, key, value = torch.randn(3, 6, 4, dtype=torch.float64)
    query = 5000 * query
    pieces = zip(key.split([2, 4]), value.split([2, 4]), strict=True)
    seen = [ring_attention.attend_to_piece(query, *piece) for piece in pieces]
    expected = ring_attention.attend_to_piece(query, key, value)
    for ours, theirs in zip(ring_attention.merge_seen(*seen), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    by_hand = ring_attention.merge_seen(
        (torch.tensor([[4.0]]), torch.tensor([1.0]).log()),
        (torch.tensor([[8.0]]), torch.tensor([3.0]).log()),
    )
    assert by_hand[0].item() == pytest.approx(7)


# The library --------------------------------------------------------------------------


def losses_of_library() -> tuple[float, int]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor, parallel
    from torch.distributed.tensor.debug import CommDebugMode

    torch.manual_seed(0)
    whole, labels = torch.randn(6, 17).double(), torch.randint(17, (6,))
    ours = own_part(whole, 1).requires_grad_()
    first = vocabulary.first_own_word(17)
    vocabulary.vocabulary_cross_entropy(ours, labels, first).backward()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    theirs = distribute_tensor(whole, mesh, [Shard(1)]).requires_grad_()
    with parallel.loss_parallel(), CommDebugMode() as mode:
        F.cross_entropy(theirs, labels).backward()
    gap = (ours.grad - theirs.grad.to_local()).abs().max().item()
    return gap, mode.get_total_counts()


def test_the_librarys_loss_calls_three_all_reduces():
    for gap, calls in run_ranks(losses_of_library):
        assert gap < 1e-12 and calls == 3


def attend_in_context_parallel() -> str:
    """Runs in each rank: how torch's ring fails, after the same call without it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    query, key, value = parts = list(torch.randn(3, 1, 2, 8, 4))
    F.scaled_dot_product_attention(query, key, value, is_causal=True)
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
        assert query.shape == (1, 2, 4, 4), "its own positions"
        with pytest.raises(NotImplementedError) as caught:
            F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return str(caught.value)


@pytest.mark.everything
def test_on_a_cpu_causal_attention_fails_in_torchs_ring():
    for message in run_ranks(attend_in_context_parallel):
        assert "attention_for_cpu" in message
        assert "does not have a sharding strategy" in message


def calls_of_ours() -> list[str]:
    part = torch.randn(4, 3).requires_grad_()
    with MessageMeter() as meter:
        labels = torch.zeros(4, dtype=torch.int64)
        vocabulary.vocabulary_cross_entropy(
            part, labels, 3 * dist.get_rank()
        ).backward()
    return meter.collectives


def test_our_loss_calls_three_all_reduces_and_none_backward():
    assert run_ranks(calls_of_ours) == [["all_reduce"] * 3] * 2
    assert sum_over_ranks is vocabulary.sum_over_ranks
