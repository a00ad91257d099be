"""The checks of lesson 14b: the halo, the bytes of three cuts, the plan of cells."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_single_messages, run_trial

from .halo_programs import HaloCase, HaloNotes, expected_of_halo, try_halo

# 14b-halo -----------------------------------------------------------------------------

STRIPS = [  # ranks, and the rows of each in one case after another
    (2, [(4, 4)]),
    (2, [(1, 1), (3, 2), (1, 6)]),
    (3, [(1, 1, 1), (2, 1, 3), (4, 4, 4)]),
    (1, [(5,)]),
    (5, [(2, 3, 1, 1, 2)]),
]


@exercise(
    "14b-halo",
    in_ranks=True,
    when_hung="to which rank each one sends, and whether that one receives",
)
def check_14b_halo(halo):
    for ranks, rows in STRIPS:
        cases = [HaloCase(of_ranks) for of_ranks in rows]
        cases.append(HaloCase(rows[0], 1, 1, 1))
        think = "a rank's neighbours, and the shapes that travel and are returned"
        with trying(f"Halo.apply(strip) in {ranks} ranks, and backward", think=think):
            notes = run_trial(try_halo, halo, cases, ranks=ranks)
        for seed, of_ranks in enumerate(zip(*notes, strict=True)):
            _expect_halo(cases[seed], seed, of_ranks)


def _expect_halo(case: HaloCase, seed: int, of_ranks: Sequence[HaloNotes]) -> None:
    call = f"Halo.apply(strip) in {len(of_ranks)} ranks, with {case.rows} rows"
    wanted = expected_of_halo(case, seed)
    with trying(call) as expect:
        for rank, (notes, (forward, _)) in enumerate(
            zip(of_ranks, wanted, strict=True)
        ):
            _expect_halo_forward(expect, rank, len(of_ranks), notes, forward)
        _expect_halo_messages(expect, case, "forward", [n.there for n in of_ranks])
    with trying(f"backward of {call}") as expect:
        for rank, (notes, (_, backward)) in enumerate(
            zip(of_ranks, wanted, strict=True)
        ):
            _expect_halo_backward(expect, rank, len(of_ranks), notes, backward)
        _expect_halo_messages(expect, case, "backward", [n.back for n in of_ranks])


def _expect_halo_forward(expect, rank: int, ranks: int, notes, wanted) -> None:
    found = notes.forward
    tensor = isinstance(found, torch.Tensor)
    got = f"on rank {rank}, {found if isinstance(found, str) else found.shape}"
    think = f"what is to be returned: a tensor of shape {tuple(wanted.shape)}"
    expect(tensor and found.shape == wanted.shape, got=got, think=think)
    for name, part, other, edge in (
        ("above", slice(1), rank - 1, "last"),
        ("below", slice(-1, None), rank + 1, "first"),
    ):
        think = f"the row {name}: the {edge} of rank {other}'s strip"
        if not 0 <= other < ranks:
            think = f"the row {name}: zeros, where there is no neighbour"
        right = torch.equal(found[:, :, part], wanted[:, :, part])
        expect(right, got=f"on rank {rank}, another row {name}", think=think)
    inner = torch.equal(found, wanted)
    think = "the strip itself: it stays as it is, between the two new rows"
    expect(inner, got=f"on rank {rank}, other inner rows", think=think)


def _expect_halo_backward(expect, rank: int, ranks: int, notes, wanted) -> None:
    found = notes.backward
    think = "what backward returns: the gradient of the strip, of the strip's shape"
    expect(found is not None, got=f"on rank {rank}, no gradient", think=think)
    for name, part, other, side in (
        ("first", slice(1), rank - 1, "below"),
        ("last", slice(-1, None), rank + 1, "above"),
    ):
        think = f"the copy of this row on rank {other}, {side} its strip: the gradient "
        think += "of that copy has to come here, and is added"
        if not 0 <= other < ranks:
            think = "this row, of which no other rank has a copy: its gradient stays"
        if wanted.shape[2] == 1:
            think = "a strip of one row: each neighbour has a copy of it"
        right = torch.allclose(found[:, :, part], wanted[:, :, part], 1e-4, 1e-4)
        got = f"on rank {rank}, a wrong gradient of the {name} row"
        expect(right, got=got, think=think)
    right = torch.allclose(found, wanted, 1e-4, 1e-4)
    think = "the rows that no neighbour has seen: their gradient passes through"
    expect(right, got=f"on rank {rank}, wrong gradients of inner rows", think=think)


def _expect_halo_messages(expect, case: HaloCase, way: str, meters: list) -> None:
    ranks = len(meters)
    row = case.batch * case.channels * case.width * 4
    for rank, meter in enumerate(meters):
        expect_single_messages(expect, rank, meter)
        neighbours = [r for r in (rank - 1, rank + 1) if 0 <= r < ranks]
        sent = {to: size for to, size in meter.sent_to.items() if size}
        expect(
            sent == dict.fromkeys(neighbours, row),
            got=f"{way}, rank {rank} sent {sent or 'nothing'} (bytes by rank)",
            think=f"what travels: one row, {row} bytes, to each neighbour",
        )


# 14b-bytes ----------------------------------------------------------------------------

KEYS = ("layers", "channels", "space")
NETWORKS = [(1, 2, 4), (1, 16, 16, 10), (3, 8, 4, 6), (1, 6, 2, 4, 8, 10), (5, 12, 2)]
IMAGES = [(64, 8, 8), (1, 4, 6), (7, 9, 5), (16, 224, 100)]


@exercise("14b-bytes")
def check_14b_bytes(bytes_sent):
    _expect_bytes_in_space(bytes_sent, 1, (1, 2, 4), 2, 5)
    for channels, (batch, height, width) in product(NETWORKS, IMAGES):
        _expect_bytes_in_space(bytes_sent, batch, channels, height, width)


def _expect_bytes_in_space(
    bytes_sent, batch: int, channels, height: int, width: int
) -> None:
    with trying(
        f"bytes_sent({batch}, {channels}, {height}, {width})", channels
    ) as expect:
        got = bytes_sent(batch, channels, height, width)
        form = 'the form of the answer: a dictionary with "layers", "channels", "space"'
        expect(isinstance(got, Mapping) and set(got) == set(KEYS), got=got, think=form)
        parts = _parts_of_bytes_in_space(batch, channels, height, width)
        for way in KEYS:
            right = 4 * sum(parts[way].values())
            told = ", ".join(f"{name} {4 * n}" for name, n in parts[way].items())
            think = f"what travels by {way}, at four bytes a number: {told}"
            shown = f"by {way}, {got[way]} instead of {right}"
            expect(got[way] == right, got=shown, think=think)


def _parts_of_bytes_in_space(
    batch, channels, height, width
) -> dict[str, dict[str, int]]:
    """The numbers that travel, by what they are."""
    inner, scores = channels[1:-1], batch * channels[-1]
    maps, rows = sum(inner) * batch * height * width, sum(inner) * batch * width
    pairs = list(pairwise(channels))
    cut = "maps, or their gradients, at the cheapest cut: one rank sends one of these"
    return {
        "layers": {cut: batch * min(inner) * height * width},
        "channels": {"maps and their gradients": maps, "scores, both ways": scores},
        "space": {
            "the row of each image": batch * channels[0] * width,
            "rows of each map, as wide as the image, both ways": 2 * rows,
            "sums of each image, both ways": 2 * scores,
            "gradients of weights": sum(9 * a * b for a, b in pairs),
            "gradients of biases": sum(b for _, b in pairs),
        },
    }


# 14b-wavefront ------------------------------------------------------------------------

GRIDS = [(2, 3), (1, 1), (1, 5), (4, 1), (3, 3), (5, 2), (8, 13)]


@exercise("14b-wavefront")
def check_14b_wavefront(plan_cells):
    for layers, steps in GRIDS:
        with trying(f"plan_cells({layers}, {steps})") as expect:
            plan = _expect_wavefront_plan(
                expect, plan_cells(layers, steps), layers, steps
            )
            _expect_wavefront_order(expect, plan, layers, steps)
            _expect_one_cell_at_once(expect, plan, layers)
            for cell in sorted(plan, key=plan.get):
                needs = _needs_of_wavefront_cell(cell, layers, steps)
                ends = [plan[need] + _slots_of_wavefront_cell(need) for need in needs]
                could = max(ends, default=0)
                got = f"{cell} begins at {plan[cell]}, and could begin earlier: {could}"
                think = f"what this cell waits for: is it more than {needs}?"
                expect(plan[cell] == could, got=got, think=think)


def _slots_of_wavefront_cell(cell: tuple) -> int:
    return 1 if cell[0] == "F" else 2


def _expect_wavefront_plan(expect, got, layers: int, steps: int) -> dict[tuple, int]:
    think = 'the form: {("F", 0, 0): 0, ...}, with "F" and "B", layer and step'
    expect(isinstance(got, Mapping), got=got, think=think)
    cells = set(product("FB", range(layers), range(steps)))
    odd = next((key for key in got if key not in cells), None)
    expect(odd is None, got=f"a key {odd!r}", think=think)
    missing = next((cell for cell in sorted(cells) if cell not in got), None)
    expect(missing is None, got=f"a plan without {missing}", think=think)
    think = "when a cell begins: a whole number from 0"
    for cell, begin in got.items():
        expect(begin >= 0, got=f"{cell}: {begin!r}", think=think)
    return {cell: int(begin) for cell, begin in got.items()}


def _needs_of_wavefront_cell(cell: tuple, layers: int, steps: int) -> list[tuple]:
    kind, layer, step = cell
    if kind == "F":
        before = [("F", layer - 1, step), ("F", layer, step - 1)]
    else:
        before = [("B", layer + 1, step), ("B", layer, step + 1)]
        before.append(("F", layers - 1, steps - 1))
    return [b for b in before if 0 <= b[1] < layers and 0 <= b[2] < steps]


def _expect_wavefront_order(expect, plan: dict, layers: int, steps: int) -> None:
    for cell in sorted(plan, key=plan.get):
        for before in _needs_of_wavefront_cell(cell, layers, steps):
            ended = plan[before] + _slots_of_wavefront_cell(before)
            think = f"when {before} has ended, and how long it takes"
            if cell[0] == "B" and before[0] == "F":
                think = f"what the loss needs: {before} ends at {ended}"
            got = f"{cell} begins at {plan[cell]}, and needs {before}"
            expect(
                plan[cell] >= ended, got=f"{got}, which ends at {ended}", think=think
            )


def _expect_one_cell_at_once(expect, plan: dict, layers: int) -> None:
    for layer in range(layers):
        mine = sorted((cell for cell in plan if cell[1] == layer), key=plan.get)
        for cell, after in pairwise(mine):
            free = plan[cell] + _slots_of_wavefront_cell(cell)
            got = f"{cell} begins at {plan[cell]} and {after} at {plan[after]}"
            think = "how many things a rank does at a time"
            expect(plan[after] >= free, got=got, think=think)
