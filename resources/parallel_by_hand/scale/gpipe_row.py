"""GPipe's published speeds of a Transformer, simulated by lesson 15's timetable."""

from itertools import accumulate, pairwise

from parallel_by_hand.pipeline.schedule_rules import timetable, timetable_length
from parallel_by_hand.pipeline.schedules import gpipe
from parallel_by_hand.scale.published import (
    GPIPE_HIDDEN,
    GPIPE_LAYERS,
    GPIPE_SEQUENCE,
    GPIPE_VOCABULARY,
)

BACK = 3  # a backward and the forward that is computed again, in forwards


def _layer_times() -> list[float]:
    """Each layer, and at the end the matrix that gives 32,000 scores, in layers.

    FLOPs of a layer for one token: 24 h^2 + 4 s h; of the last matrix: 2 V h.
    """
    layer = 24 * GPIPE_HIDDEN**2 + 4 * GPIPE_SEQUENCE * GPIPE_HIDDEN
    return [1.0] * GPIPE_LAYERS + [2 * GPIPE_VOCABULARY * GPIPE_HIDDEN / layer]


def _balanced_stages(times: list[float], stages: int) -> list[float]:
    """Times of neighbouring layers' stages, the slowest as fast as can be."""
    ends = [0.0, *accumulate(times)]
    # layers, stages: slowest stage, where it is cut
    fewest: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, (0,))}
    for count in range(1, stages + 1):
        for end in range(count, len(ends)):
            fewest[end, count] = min(
                (max(fewest[cut, count - 1][0], ends[end] - ends[cut]), (*way, end))
                for cut in range(end)
                if (before := fewest.get((cut, count - 1))) and (way := before[1])
            )
    cuts = fewest[len(times), stages][1]
    return [ends[b] - ends[a] for a, b in pairwise(cuts)]


def _gpipe_seconds(partitions: int, micro_batches: int) -> float:
    """One batch, in forwards of the whole batch through one layer."""
    forward = [
        time / micro_batches for time in _balanced_stages(_layer_times(), partitions)
    ]
    backward = [BACK * time for time in forward]
    return timetable_length(
        timetable(gpipe(partitions, micro_batches), forward, backward)
    )


def simulated_throughput(partitions: int, micro_batches: int) -> float:
    """GPipe's, relative to two partitions and one micro-batch, as the paper counts."""
    return _gpipe_seconds(2, 1) / _gpipe_seconds(partitions, micro_batches)


def bare_formula(partitions: int, micro_batches: int) -> float:
    """For GPipe: the pipeline's working share, times its accelerators (lesson 15a)."""
    return partitions * micro_batches / (micro_batches + partitions - 1)
