"""The checks of lesson 11a: shards, and ranks that stop together."""

import operator
import pickle
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from statistics import mean

from sidebyside import run_ranks
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial
from sidebyside.ranks.by_value import packed_answer

from .losses_of_ranks import StopCase, try_stop

# 11a-shard ----------------------------------------------------------------------------

DECKS = [(6, 1), (12, 3), (13, 2), (14, 4), (2, 3), (29, 8), (1415, 5), (1415, 2)]
EPOCHS = 0, 1, 2, 7


@exercise("11a-shard", seconds=60)
def check_11a_shard(shard):
    sent = packed_answer(shard)  # before the first call: it remembers none
    for samples, world_size in DECKS:
        for epoch in EPOCHS:
            _expect_shards_dealt(shard, samples, world_size, epoch)
    _expect_shards_shuffled(shard)
    _expect_same_shard_elsewhere(shard, sent)


def _own_shard(shard: Callable, *call: int) -> list[int]:
    """What a rank gets, in plain whole numbers."""
    think = "what is to be returned: a list of indices, which are whole numbers"
    with trying(f"shard{call}", think=think) as expect:
        got = shard(*call)
        expect(hasattr(got, "__iter__"), got=got, think=think)
        return [operator.index(sample) for sample in got]


def _expect_shards_dealt(shard, samples: int, world_size: int, epoch: int) -> None:
    hands, again = (
        [_own_shard(shard, samples, r, world_size, epoch) for r in range(world_size)]
        for _ in range(2)
    )
    dealt = Counter(sample for hand in hands for sample in hand)
    with trying(f"shard({samples}, rank, {world_size}, {epoch}), each rank") as expect:
        expect(
            again == hands,
            got="two different answers to the same calls",
            think="where the randomness comes from. Ranks cannot talk here: equal "
            "arguments have to give equal decks",
        )
        twice = sorted(sample for sample in dealt if dealt[sample] > 1)
        think = "the deck: do all ranks shuffle the same one, and does each take other "
        think += "cards of it?"
        if len(dealt) == samples > dealt.total() - world_size:
            think = "what is left over: must all ranks get equally many?"
        expect(not twice, got=f"dealt more than once: {twice[:10]}", think=think)
        missing = sorted(set(range(samples)) - set(dealt))
        expect(
            not missing,
            got=f"{len(dealt)} samples, without {missing[:10]}",
            think="whether every sample is dealt exactly once, also when the number of "
            "ranks does not divide the number of samples",
        )
        sizes = [len(hand) for hand in hands]
        expect(
            max(sizes) - min(sizes) <= 1,
            got=f"shards of {sizes} samples",
            think="how to deal so that no two ranks differ by more than one sample",
        )


def _expect_shards_shuffled(shard) -> None:
    hands = {epoch: _own_shard(shard, 1415, 0, 2, epoch) for epoch in EPOCHS}
    for epoch, hand in hands.items():
        with trying(f"shard(1415, 0, 2, {epoch})") as expect:
            steps = {after - before for before, after in pairwise(hand)}
            expect(
                len(steps) > 50,
                got=f"{', '.join(map(str, hand[:8]))}, ...: an order with a pattern",
                think="the order in which a rank gets its own indices: what makes it "
                f"random in epoch {epoch}?",
            )
    for one, other in combinations(EPOCHS, 2):
        with trying(f"shard(1415, 0, 2, epoch) for epochs {one} and {other}") as expect:
            expect(
                hands[one] != hands[other],
                got="the same order in both epochs",
                think="what `epoch` is for: what does set_epoch change in torch's "
                "sampler?",
            )
            expect(
                set(hands[one]) != set(hands[other]),
                got="the same samples, in another order",
                think="what is shuffled first and dealt afterwards. Rank 0 should not "
                "see the same half of the data for ever",
            )


def _expect_same_shard_elsewhere(shard, sent: bytes) -> None:
    """A fresh interpreter has its own seed for hash()."""
    calls = [(1415, 1, 2, 7), (13, 0, 2, 2), (29, 5, 8, 1)]
    args = sent, calls
    there = run_ranks(_shards_elsewhere, *args, world_size=1, start_method="spawn")[0]
    for call, hand in zip(calls, there, strict=True):
        with trying(f"shard{call} in two processes") as expect:
            expect(
                hand == _own_shard(shard, *call),
                got="two different answers",
                think="what differs from process to process: the seed of hash(), and "
                "whatever was drawn or kept before",
            )


def _shards_elsewhere(sent: bytes, calls: list[tuple]) -> list[list[int]]:
    shard = pickle.loads(sent)
    return [_own_shard(shard, *call) for call in calls]


# 11a-stop -----------------------------------------------------------------------------

STOPS = [
    StopCase([[9, 7, 5, 4, 2, 1], [4, 3, 2, 1], [12, 11, 9, 8, 6, 4, 2]], 4, 9),
    StopCase([[5, 3, 1], [9, 7, 5]], 4, 8),
    StopCase([[9, 8, 7], [7, 8, 9]], 2, 5),
    StopCase([[2, 2, 1], [4, 3, 1]], 3, 5),
    StopCase([[7, 5, 3, 2]], 3.5, 6),
]
RULES = [  # instead of the mean, and what to think about
    (sum, "the sum, or the mean: by what is it divided"),
    (min, "how many ranks have reached the target: is one enough"),
    (lambda losses: losses[0], "the other ranks' losses: this one is rank 0's"),
]


def _steps_until(case: StopCase, rule: Callable) -> int:
    """The steps until `rule` of all ranks' losses is at most the target."""
    for step, loss in enumerate(_after_each_step(case, rule), 1):
        if loss <= case.target:
            return step
    return case.most


def _after_each_step(case: StopCase, rule: Callable) -> list[float]:
    steps = range(case.most)
    return [rule([mine[: n + 1][-1] for mine in case.losses]) for n in steps]


@exercise(
    "11a-stop",
    in_ranks=True,
    when_hung="whose loss decides: which ranks still take a step when one has stopped",
)
def check_11a_stop(train_until):
    for case in STOPS:
        ranks, right = len(case.losses), _steps_until(case, mean)
        tried = f"train_until(step, {case.target}, {case.most}) in {ranks} ranks with "
        with trying(f"{tried}the losses {case.losses}") as expect:
            found = run_trial(try_stop, train_until, case, ranks=ranks)
            for rank, (returned, steps) in enumerate(found):
                means = [round(loss, 2) for loss in _after_each_step(case, mean)]
                think = f"the mean of all losses after each step, {means}: which is "
                think += f"the first that is at most {case.target}?"
                others = [
                    why for rule, why in RULES if _steps_until(case, rule) == steps
                ]
                expect(
                    steps == right,
                    got=f"{steps} steps on rank {rank}, where {right} are right",
                    think=others[0] if others else think,
                )
                expect(
                    as_number(returned) == right,
                    got=f"{returned!r} on rank {rank}, after {right} steps",
                    think="what is to be returned: the number of steps taken",
                )
