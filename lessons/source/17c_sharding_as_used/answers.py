"""Wrong answers to the exercises of lesson 17c."""

from math import ceil, prod

import torch
from torch.distributed.fsdp import FSDPModule

from lessons.source.sample_answers import right, wrong

from .checks import FAULTS

# 17c-bytes ----------------------------------------------------------------------------


def bytes_by(shapes, ranks, rank, each=16, gathered=2, cut=None, padded=True):
    def up(rows):
        return ceil(rows / ranks)

    cut = cut or (lambda rows: min(up(rows), max(0, rows - rank * up(rows))))
    kept = whole = 0
    for rows, *others in shapes:
        kept += each * cut(rows) * prod(others)
        whole += gathered * (ranks * up(rows) if padded else rows) * prod(others)
    return kept, whole


@wrong(
    "17c-bytes",
    advice="in how many bits; this is 14",
    note="Parameters are kept in bfloat16, they think, because they are gathered so.",
)
def parameters_in_sixteen_bits(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank, each=2 + 4 + 8)


@wrong(
    "17c-bytes",
    advice="in how many bits; this is 20",
    note="17a's master copy is added to the float32 shard, which is it.",
)
def another_master_copy(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank, each=20)


@wrong(
    "17c-bytes",
    advice="rounded up",
    note="Rounds down: the last rank has the rest, as if it could hold more.",
)
def rounds_down(shapes, ranks, rank):
    def cut(rows):
        down = rows // ranks
        return rows - (ranks - 1) * down if rank == ranks - 1 else down

    return bytes_by(shapes, ranks, rank, cut=cut)


@wrong(
    "17c-bytes",
    advice="rounded up",
    note="`tensor_split`'s rule: sizes that differ by one row at most.",
)
def as_tensor_split(shapes, ranks, rank):
    def cut(rows):
        return rows // ranks + (rank < rows % ranks)

    return bytes_by(shapes, ranks, rank, cut=cut)


@wrong(
    "17c-bytes",
    advice="the padding: how many rows",
    note="Gathers what the parameters have, without rows that fill up.",
)
def without_padding(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank, padded=False)


@wrong(
    "17c-bytes",
    advice="in how many bits parameters are gathered",
    note="Casts after the gather, as autocast does.",
)
def gathered_in_float32(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank, gathered=4)


@wrong(
    "17c-bytes",
    advice="rounded up",
    note="Counts the padding as kept: each rank has as many rows.",
)
def keeps_the_padding(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank, cut=lambda rows: ceil(rows / ranks))


@wrong(
    "17c-bytes",
    advice="first the bytes that are kept",
    note="Right numbers in the wrong order.",
)
def gathered_first(shapes, ranks, rank):
    return bytes_by(shapes, ranks, rank)[::-1]


@right("17c-bytes")
def by_chunks(shapes, ranks, rank):
    tensors = [torch.empty(shape, device="meta") for shape in shapes]
    pieces = [tensor.chunk(ranks) for tensor in tensors]
    own = [piece[rank] for piece in pieces if rank < len(piece)]
    kept = sum(16 * tensor.numel() for tensor in own)
    return kept, sum(2 * ranks * piece[0].numel() for piece in pieces)


@right("17c-bytes")
def row_by_row(shapes, ranks, rank):
    kept = whole = 0
    for rows, *others in shapes:
        c = (rows + ranks - 1) // ranks
        kept += sum(16 * prod(others) for row in range(rows) if row // c == rank)
        whole += 2 * c * ranks * prod(others)
    return [kept, whole]


# 17c-switches -------------------------------------------------------------------------


def parts_by(model, losses, after_forward, after_backward, sync):
    """Each part's backward, with switches by functions of the part."""
    model.set_reshard_after_forward(after_forward)
    for part, loss in enumerate(losses):
        model.set_reshard_after_backward(after_backward(part))
        model.set_requires_gradient_sync(sync(part))
        loss().backward()


@wrong(
    "17c-switches",
    advice="the two reshard switches",
    note="The two switches are swapped: m + 1 and m change places.",
)
def swapped(model, losses, gathers, scatters):
    m = len(losses)
    parts_by(
        model,
        losses,
        gathers in (2 * m, m),
        lambda part: part == m - 1 or gathers > m,
        lambda part: part == m - 1 or scatters == m,
    )


@wrong(
    "17c-switches",
    advice="set_requires_gradient_sync",
    note="Holds back all gradients: nobody sends the last ones.",
)
def never_sends(model, losses, gathers, scatters):
    m = len(losses)
    freed = gathers in (2 * m, m)
    parts_by(
        model,
        losses,
        gathers > m,
        lambda part: part == m - 1 or freed,
        lambda part: scatters == m,
    )


@wrong(
    "17c-switches",
    advice="still whole after the last backward",
    note="Nothing is freed at the end: the next forward does not see the update.",
)
def whole_after_the_last(model, losses, gathers, scatters):
    m = len(losses)
    parts_by(
        model,
        losses,
        gathers > m,
        lambda part: gathers in (2 * m, m),
        lambda part: part == m - 1 or scatters == m,
    )


@wrong(
    "17c-switches",
    advice="set_requires_gradient_sync",
    note="The switch stays as it was: gradients are sent in each backward.",
)
def sends_each(model, losses, gathers, scatters):
    m = len(losses)
    parts_by(
        model,
        losses,
        gathers > m,
        lambda part: part == m - 1 or gathers in (2 * m, m),
        lambda part: True,
    )


@wrong(
    "17c-switches",
    advice="when the switch must be set",
    note="Sets the switch after the backward that it is for.",
)
def too_late(model, losses, gathers, scatters):
    m = len(losses)
    model.set_reshard_after_forward(gathers > m)
    for part, loss in enumerate(losses):
        model.set_requires_gradient_sync(part == m - 1 or scatters == m)
        loss().backward()
        model.set_reshard_after_backward(gathers in (2 * m, m))


@wrong(
    "17c-switches",
    advice="0.33 times the right ones",
    note="Divides by the number of parts; the losses that are given are divided.",
)
def mean_of_parts(model, losses, gathers, scatters):
    shares = [lambda loss=loss: loss() / len(losses) for loss in losses]
    in_a_table(model, shares, gathers, scatters)


@wrong(
    "17c-switches",
    advice="each function once",
    note="Runs a micro-batch once more for the last, sent backward.",
)
def the_last_again(model, losses, gathers, scatters):
    in_a_table(model, [*losses, losses[-1]], gathers, scatters)


@wrong(
    "17c-switches",
    advice="and then its backward",
    note="All forwards first: a block that is still whole then is gathered less often.",
)
def forwards_first(model, losses, gathers, scatters):
    sum(loss() for loss in losses).backward()


@right("17c-switches")
def in_a_table(model, losses, gathers, scatters):
    m = len(losses)
    keep = {2 * m: (True, True), m + 1: (True, False), m: (False, True)}
    forward, backward = keep.get(gathers, (False, False))
    parts_by(
        model,
        losses,
        forward,
        lambda part: backward or part == m - 1,
        lambda part: scatters > 1 or part == m - 1,
    )


@right("17c-switches")
def frees_by_hand(model, losses, gathers, scatters):
    """Nothing is freed by a switch after the last backward, but by `reshard`."""
    m = len(losses)
    units = [unit for unit in model.modules() if isinstance(unit, FSDPModule)]
    for unit in units:
        unit.set_reshard_after_forward(gathers > m, recurse=False)
        unit.set_reshard_after_backward(gathers in (2 * m, m), recurse=False)
    for part, loss in enumerate(losses):
        model.set_requires_gradient_sync(part == m - 1 or scatters == m)
        loss().backward()
    for unit in units:
        unit.reshard()


# 17c-faults ---------------------------------------------------------------------------


def mixed_up(one: str, other: str) -> dict[str, str]:
    return FAULTS | {one: FAULTS[other], other: FAULTS[one]}


for one, other, advice, note in (
    ("P", "S", "how many gathers", "The most common one: both gather everything."),
    ("R", "T", "what it says of the shards", "Both keep many parameters."),
    ("P", "R", "how many gathers", "One unit, they think, is what is not cut."),
    ("Q", "S", "column `gradients`", "Whole is whole: look at the column's name."),
):
    name = f"{one}_for_{other}".lower()
    wrong("17c-faults", advice=advice, note=note, name=name)(mixed_up(one, other))
wrong(
    "17c-faults",
    advice="which parameters have had a gradient",
    note="The one that is not there: it changes no column that is twice as large.",
    name="mixed_precision",
)(FAULTS | {"T": "mixed precision"})
wrong(
    "17c-faults",
    advice="as the text spells them",
    note="Another spelling of a fault that is right.",
    name="misspelt",
)(FAULTS | {"T": "optimizer first"})
wrong(
    "17c-faults",
    advice="the keys P, Q, R, S and T",
    note="The other way round: the fault is the key.",
    name="the_other_way_round",
)({fault: program for program, fault in FAULTS.items()})
right("17c-faults", name="in_another_order")(dict(reversed(FAULTS.items())))


class Faults(dict):
    """A dictionary of one's own."""


right("17c-faults", name="own_dictionary")(Faults(FAULTS))
