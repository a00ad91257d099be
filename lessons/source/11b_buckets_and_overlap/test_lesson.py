"""Lesson 11b: our DistributedDataParallel trains as one process does, and as torch's.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import pytest

from parallel_by_hand.ddp import ddp_beside_torch, overlap
from sidebyside import Timeline, run_ranks


def spans_by_rank(fn, *args) -> list[dict]:
    """For each rank: its backward, and when its messages set out."""
    with Timeline() as timeline:
        run_ranks(fn, *args)
    found = []
    for rank in "rank 0", "rank 1":
        spans = [s for s in timeline.spans if s.lane.startswith(rank)]
        found.append(
            {
                "backward": next(s for s in spans if s.name == "backward"),
                "messages": sorted(s.start for s in spans if s.name == "message"),
            }
        )
    return found


def missing_when_sent(step) -> list[int]:
    """Runs in each rank: at each message, how many gradients are not there yet."""
    model, missing, start = overlap.four_sleeping_layers(), [], overlap.SlowLink.start
    overlap.four_sleeping_layers = lambda: model

    def note(link, message):
        missing.append(sum(p.grad is None for p in model.parameters()))
        return start(link, message)

    overlap.SlowLink.start = note
    step(1)
    return missing


def test_hooks_let_each_message_set_out_before_the_next_gradient_is_ready():
    for found in run_ranks(missing_when_sent, overlap.step_during_backward):
        assert found == [3, 2, 1, 0] * 2
    for found in run_ranks(missing_when_sent, overlap.step_after_backward):
        assert found == [0] * 8


@pytest.mark.parametrize("kind", ["ours", "torch's"])
def test_the_first_message_sets_out_before_the_last_gradient_is_ready(kind):
    """There the span `backward` ends; the rest of the call is the span `wait`."""
    for rank in spans_by_rank(ddp_beside_torch.draw_sixth_step, kind):
        assert len(rank["messages"]) == 3
        assert rank["backward"].start < rank["messages"][0] < rank["backward"].end
