"""A router chooses with its bias and weighs without it; a capacity drops the latest."""

import pytest
import torch

from parallel_by_hand.experts.routing import (
    Router,
    balance_loss,
    choices_of_experts,
    dispatch,
    move_bias,
    sequence_balance_loss,
)


def make_router(bias: list[float] | None = None) -> tuple[Router, torch.Tensor]:
    torch.manual_seed(0)
    router = Router(8, 4, 2).double()
    if bias:
        router.bias.copy_(torch.tensor(bias))
    return router, torch.randn(50, 8, dtype=torch.double)


def test_gates_come_from_the_scores_without_the_bias():
    router, tokens = make_router([0, 0, 10, 10])
    routing = router(tokens)
    assert set(routing.chosen.flatten().tolist()) == {2, 3}
    scores = (tokens @ router.weight.T).sigmoid()[:, 2:]
    expected = scores / scores.sum(1, keepdim=True)
    ours = routing.gates.gather(1, routing.chosen.argsort(1))
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(routing.gates.sum(1), torch.ones(50).double())


def test_the_bias_has_no_gradient_and_no_optimiser_moves_it():
    router, tokens = make_router()
    assert [name for name, _ in router.named_parameters()] == ["weight"]
    assert not router.bias.requires_grad
    router(tokens).gates[:, 0].sum().backward()
    assert router.bias.grad is None and router.weight.grad.abs().max() > 0


def test_the_bias_moves_against_what_was_chosen():
    bias = torch.zeros(3)
    move_bias(bias, torch.tensor([5, 3, 1]), 0.1)
    torch.testing.assert_close(bias, torch.tensor([-0.1, 0.0, 0.1]))


def test_the_balancing_loss_is_1_if_all_are_chosen_equally_often():
    shares = torch.tensor([[0.7, 0.1, 0.1, 0.1]]).requires_grad_()
    assert balance_loss(shares, torch.tensor([5, 5, 5, 5])).item() == pytest.approx(1)
    loss = balance_loss(shares, torch.tensor([10, 0, 0, 0]))
    assert loss.item() == pytest.approx(2.8)
    loss.backward()  # only the score of what was chosen counts
    torch.testing.assert_close(shares.grad, torch.tensor([[4.0, 0, 0, 0]]))


def test_the_loss_of_sequences_is_the_mean_of_each_ones_balancing_loss():
    one = [[0.7, 0.1, 0.1, 0.1], [0.4, 0.2, 0.2, 0.2]]  # both choose expert 0
    other = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]]
    shares = torch.tensor([one, other])
    losses = [sequence_balance_loss(each[None], 1).item() for each in shares]
    assert losses == pytest.approx([4 * 0.55, 2 * 0.4 + 2 * 0.4])
    assert sequence_balance_loss(shares, 1).item() == pytest.approx(1.9)
    choices = choices_of_experts(shares[0].topk(2).indices, 4)
    expected = balance_loss(shares[0], choices)
    torch.testing.assert_close(sequence_balance_loss(shares[:1], 2), expected)


CHOSEN = torch.tensor([[0, 1], [0, 2], [0, 1]])


@pytest.mark.parametrize(
    ("capacity", "before", "places", "counts"),
    [
        (None, None, [0, 2, 4, 1, 5, 3], [3, 2, 1]),
        (2, None, [0, 2, 1, 5, 3], [2, 2, 1]),
        (2, [1, 3, 0], [0, 3], [1, 0, 1]),
        (0, None, [], [0, 0, 0]),
    ],
)
def test_the_first_in_the_text_are_kept(capacity, before, places, counts):
    before = before and torch.tensor(before)
    got, kept = dispatch(CHOSEN, 3, capacity, before)
    assert (got.tolist(), kept.tolist()) == (places, counts)
    assert choices_of_experts(CHOSEN, 3).tolist() == [3, 2, 1]


def test_ranks_that_count_before_each_other_drop_what_one_rank_drops():
    chosen = torch.randint(5, (30, 2), generator=torch.Generator().manual_seed(0))
    whole, _ = dispatch(chosen, 5, 7)
    found, before = [], torch.zeros(5, dtype=torch.long)
    for first in range(0, 30, 10):
        part = chosen[first : first + 10]
        places, _ = dispatch(part, 5, 7, before)
        found += (places + 2 * first).tolist()
        before = before + choices_of_experts(part, 5)
    assert sorted(found) == sorted(whole.tolist())
