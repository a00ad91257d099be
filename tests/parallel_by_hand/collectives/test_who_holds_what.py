"""What each rank holds before and after, in numbers and in letters."""

import torch.distributed as dist

from parallel_by_hand.collectives.who_holds_what import EIGHT, run_collectives


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


def test_the_drawing_is_described_in_letters():
    from parallel_by_hand.collectives.collective_drawing import draw_collectives
    from parallel_by_hand.collectives.collective_writing import collective_text

    runs = run_collectives(["reduce"], dist, 2)
    text = collective_text("reduce", runs["reduce"])
    assert text.splitlines()[2] == "rank 0 |  1  . | 11  ."
    assert text.splitlines()[3].endswith("|  ?  .")
    assert text in draw_collectives(runs).alt
