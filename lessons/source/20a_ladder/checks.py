"""The checks of lesson 20a: a wrapper, the order of a mesh, clipping on it."""

from itertools import accumulate, permutations, product
from math import prod
from operator import mul

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial

from .wrappers_and_mesh_clips import (
    MeshClipCase,
    train_with_wrapper,
    try_mesh_clips,
    try_wrapper,
)

# 20a-wrapper --------------------------------------------------------------------------

BY_HAND = [
    {"data": 2, "tensor": 2},
    {"tensor": 2, "data": 2},
    {"data": 3},
    {"data": 2, "pipeline": 2, "tensor": 2},
]
TRAINED = [
    ({"data": 3}, ["nothing"], 6),
    ({"data": 2, "tensor": 2}, ["tensor", "pipeline"], 8),
]


@exercise(
    "20a-wrapper",
    in_ranks=True,
    when_hung="whether every rank of the group calls each all-reduce, in one order",
)
def check_20a_wrapper(data_parallel):
    for sizes in BY_HAND:
        call = f"data_parallel on a mesh of {_mesh_in_words(sizes)}"
        think = "the former functions, kept apart, and the rows of theirs that you cut"
        with trying(call, think=think):
            args = data_parallel, sizes
            world = prod(sizes.values())
            found = run_trial(try_wrapper, *args, ranks=world, seconds=30)
        with trying(call) as expect:
            for rank, notes in enumerate(found):
                _expect_wrapper_rows(expect, rank, notes)
            for rank, notes in enumerate(found):
                _expect_wrapper_gradients(expect, rank, notes)
    for sizes, inside, batch in TRAINED:
        call = f"two steps of training on a mesh of {_mesh_in_words(sizes)}"
        with trying(call, think="what the former functions still have to do") as expect:
            given = data_parallel, sizes, inside, batch
            world = prod(sizes.values())
            ranks = run_trial(train_with_wrapper, *given, ranks=world, seconds=30)
            for name in inside:
                gap = torch.tensor([found[name] for found in ranks]).max().item()
                expect(
                    gap <= 1e-9,
                    got=f"round {name}, numbers that differ from one process by "
                    f"{gap:.1e}",
                    think="which gradients are averaged, when, and over whom",
                )


def _mesh_in_words(sizes: dict[str, int]) -> str:
    return " x ".join(f"{ranks} ({name})" for name, ranks in sizes.items())


def _expect_wrapper_rows(expect, rank: int, notes) -> None:
    expect(
        notes.rows is not None,
        got=f"on rank {rank}, a `deal` that does not return two tensors",
        think="what `training.deal` has to return",
    )
    expect(
        notes.rows == notes.expected_rows,
        got=f"on rank {rank}, from `training.deal`, rows "
        f"{_some_wrapper_rows(notes.rows)} instead of "
        f"{_some_wrapper_rows(notes.expected_rows)}",
        think="whether `training.deal` is your function now, and cuts what the former "
        "`deal` gives"
        if len(notes.rows) > len(notes.expected_rows)
        else "the rows that the former `deal` gives, and this rank's number within "
        "the dimension: its part is consecutive",
    )
    expect(
        notes.targets_follow,
        got=f"on rank {rank}, targets of other rows than the inputs",
        think="the targets, which are dealt as the inputs are",
    )


def _some_wrapper_rows(rows: list[int]) -> str:
    return str(rows) if len(rows) < 7 else f"[{rows[0]}, ..., {rows[-1]}]"


def _expect_wrapper_gradients(expect, rank: int, notes) -> None:
    expect(
        notes.former_complete == 1,
        got=f"on rank {rank}, the former `complete` called {notes.former_complete} "
        "times",
        think="how often it runs, and what has to wait for it",
    )
    of_all = _wrapper_gradients_alike(notes.gradients, notes.of_all_ranks)
    expect(
        _wrapper_gradients_alike(notes.gradients, notes.expected),
        got=f"on rank {rank}, gradients {_first_wrapper_gradients(notes.gradients)} "
        f"instead of {_first_wrapper_gradients(notes.expected)}",
        think="which ranks hold the same part of the model: a group, not all ranks"
        if of_all
        else "what `.grad` is then, the mean over this group's ranks: who is in it, by "
        "what the sum is divided, and that the former `complete` comes first",
    )


def _first_wrapper_gradients(gradients: list[list[float]]) -> list[float]:
    return [round(numbers[0], 4) for numbers in gradients]


def _wrapper_gradients_alike(some: list[list[float]], other: list[list[float]]) -> bool:
    pairs = zip(some, other, strict=True)
    return all(
        torch.allclose(torch.tensor(a), torch.tensor(b), 1e-6, 0) for a, b in pairs
    )


# 20a-inside ---------------------------------------------------------------------------

MESHES = [
    ({"data": 2, "tensor": 2, "pipeline": 2}, (30, 40, 8)),
    ({"data": 4, "tensor": 8, "pipeline": 2}, (30, 40, 8)),
    ({"data": 8, "tensor": 4}, (50, 10)),
    ({"data": 6, "tensor": 2, "pipeline": 2}, (90, 50, 50)),
    ({"data": 3, "tensor": 4, "pipeline": 2}, (7, 5, 4)),
    ({"data": 2, "tensor": 4, "pipeline": 2}, (30, 40, 25)),
    ({"data": 2, "context": 2, "tensor": 4, "pipeline": 4}, (9, 30, 40, 25)),
    ({"pipeline": 3, "data": 3}, (10**12, 10**12 + 1)),
]


def _dimensions_not_inside(order, ranks: dict[str, int], per_node: int) -> list[str]:
    """By its definition: go to every rank, and see in which nodes its groups lie."""
    places = list(product(*(range(ranks[name]) for name in order)))
    node = {place: number // per_node for number, place in enumerate(places)}
    outside = []
    for at, name in enumerate(order):
        groups: dict[tuple, set[int]] = {}
        for place in places:
            groups.setdefault(place[:at] + place[at + 1 :], set()).add(node[place])
        if any(len(nodes) > 1 for nodes in groups.values()):
            outside.append(name)
    return outside


@exercise("20a-inside")
def check_20a_inside(order_of_mesh):
    for ranks, sizes in MESHES:
        sent = dict(zip(ranks, sizes, strict=True))
        world = prod(ranks.values())
        for per_node in (n for n in range(1, world + 1) if world % n == 0):
            _expect_order_of_mesh(order_of_mesh, ranks, sent, per_node)


def _expect_order_of_mesh(
    order_of_mesh, ranks: dict, sent: dict, per_node: int
) -> None:

    def not_inside(order) -> tuple[int, list[str]]:
        outside = _dimensions_not_inside(order, ranks, per_node)
        return sum(sent[name] for name in outside), outside

    least, fewest = min(map(not_inside, permutations(ranks)))
    call = f"order_of_mesh({ranks}, {sent}, {per_node})"
    with trying(call, ranks, sent) as expect:
        got = order_of_mesh(ranks, sent, per_node)
        expect(
            isinstance(got, list | tuple) and sorted(map(str, got)) == sorted(ranks),
            got=got,
            think="what is asked for: each dimension's name, once, in a list",
        )
        found, outside = not_inside(got)
        expect(
            found == least,
            got=f"{list(got)}: not inside are {outside}, {found} bytes, where {fewest} "
            f"are possible, {least} bytes",
            think=_think_of_mesh_order(got, ranks, per_node),
        )


def _think_of_mesh_order(order, ranks: dict[str, int], per_node: int) -> str:
    blocks = accumulate((ranks[name] for name in reversed(order)), mul)
    across = [block for block in blocks if block < per_node and per_node % block]
    if across:
        return (
            f"blocks of {across[0]} consecutive ranks in nodes of {per_node}: does "
            "each block lie in one node?"
        )
    return (
        "over how many consecutive ranks a group reaches, where the last dimension "
        "counts fastest, and which dimensions then fit into a node: not always the "
        "one with most bytes"
    )


# 20a-clip -----------------------------------------------------------------------------

CLIPS = [
    MeshClipCase((2,), (3,), 0.5),
    MeshClipCase((4, 1), (2, 5), 1.0, torch.float32),
    MeshClipCase((2,), (1,), 100.0),  # short enough
    MeshClipCase((30, 30), (40,), 9.9),  # between counted once and counted twice
]
CLOSE = 1e-5  # 32 bits are enough
MESHES_TO_CLIP_ON = [
    {"data": 2, "tensor": 2},
    {"tensor": 2, "data": 1},
    {"data": 2, "tensor": 1},
    {"tensor": 3, "data": 2},
]


@exercise(
    "20a-clip",
    in_ranks=True,
    when_hung="whether every rank calls the all-reduce",
)
def check_20a_clip(clip_on_mesh):
    for sizes in MESHES_TO_CLIP_ON:
        call = f"clip_on_mesh on a mesh of {_mesh_in_words(sizes)}"
        with trying(call, think="which of its gradients a rank has whole"):
            args = clip_on_mesh, sizes, CLIPS
            found = run_trial(
                try_mesh_clips, *args, ranks=prod(sizes.values()), seconds=30
            )
        for case, of_ranks in zip(CLIPS, zip(*found, strict=True), strict=True):
            shapes = f"split {list(case.split)}, whole {list(case.whole)}"
            with trying(f"{call}: {shapes}, longest {case.longest}") as expect:
                for rank, notes in enumerate(of_ranks):
                    _expect_mesh_clip_length(expect, rank, case, notes)
                for rank, notes in enumerate(of_ranks):
                    _expect_mesh_clipped(expect, rank, case, notes)


def _expect_mesh_clip_length(expect, rank: int, case: MeshClipCase, notes) -> None:
    returned = expect.number(notes.returned, "the length", f"on rank {rank}")
    twice = abs(returned - notes.twice) <= CLOSE * notes.twice
    think = (
        "a gradient that is whole on every tensor rank: it counts once"
        if twice
        else "the squares of split gradients, {:.4g} over the tensor group, and those "
        "of whole ones, {:.4g}: one root, before clipping".format(*notes.squares)
    )
    expect(
        abs(returned - notes.length) <= CLOSE * notes.length,
        got=f"on rank {rank}, length {returned:.9g} instead of {notes.length:.9g}",
        think=think,
    )


def _expect_mesh_clipped(expect, rank: int, case: MeshClipCase, notes) -> None:
    expect(
        not notes.moved,
        got=f"on rank {rank}, gradients in other memory than before",
        think="what in place means: who else holds these tensors",
    )
    kinds = ["split"] * len(case.split) + ["whole"] * len(case.whole)
    trios = zip(kinds, notes.gradients, notes.expected, strict=True)
    for kind, got, expected in trios:
        expect(
            got.shape == expected.shape
            and torch.allclose(got, expected, CLOSE, CLOSE * case.longest),
            got=f"on rank {rank}, a {kind} gradient that begins {got[:2].tolist()} "
            f"instead of {expected[:2].tolist()}; the length is {notes.length:.4g}",
            think="by what all gradients are multiplied, split or whole, and when",
        )
