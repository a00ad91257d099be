"""A transfer that takes its locks in one order moves the money."""

from parallel_by_hand.races import deadlock


def test_transfer_in_order_moves_the_money():
    one, two = deadlock.Account(1, 10), deadlock.Account(2, 0)
    deadlock.transfer_in_order(two, one, 4)
    assert (one.balance, two.balance) == (14, -4)
