"""Customers at counters are served once each, one at a time, in an open shop."""

import pytest

from parallel_by_hand.performance.queue_simulation import serve_customers


@pytest.mark.parametrize("counters", [1, 3])
def test_every_customer_is_served_once_after_the_opening(counters):
    timeline = serve_customers(4, counters, seconds=0.01, opening=0.05)
    opening, *customers = sorted(timeline.spans, key=lambda s: s.start)
    assert opening.name == "open the shop"
    assert {s.name for s in customers} == {f"customer {c}" for c in range(1, 5)}
    assert len(customers) == 4
    assert all(customer.start >= opening.end for customer in customers)
    for lane in timeline.lanes:
        mine = [s for s in customers if s.lane == lane]
        ends, starts = [s.end for s in mine], [s.start for s in mine]
        assert ends[:-1] <= starts[1:], "a counter serves one customer at a time"
