"""The checks of lesson 16a: a layer by rows, the conjugate functions, one too many."""

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, run_trial

from .row_layers_and_branches import (
    BranchSize,
    RowLayerSize,
    TensorParallelNotes,
    try_branches,
    try_conjugates,
    try_row_layer,
)

RANKS = 2, 3, 5
CLOSE = 1e-4  # rounding in 32 bits


def _expect_calls(expect, rank: int, notes: TensorParallelNotes, *wanted: str) -> None:
    """Forward and backward exactly these collectives, and no message beside them."""
    for when, sent, meant in zip(
        ("forward", "backward"), notes.sent, wanted, strict=True
    ):
        expect(
            sent == ([meant] if meant else []),
            got=f"{when}, rank {rank} sent {', '.join(sent) or 'nothing'} instead of "
            f"{'one ' + meant if meant else 'nothing'}",
            think="which ranks already have the numbers needed here, and which have "
            "only a summand of them",
        )


def _expect_inputs_kept(expect, notes: TensorParallelNotes) -> None:
    expect(
        not notes.changed,
        got=f"other numbers in {', '.join(notes.changed)} than before the call",
        think="what dist.all_reduce does to the tensor that it is given",
    )


# 16a-row ------------------------------------------------------------------------------

LAYERS = [RowLayerSize(3, 30, 4), RowLayerSize(1, 30, 1)]
OF_ROWS = {
    "the output": "how often each summand counts, and the bias: once, not N or 1/N",
    "gradient of bias": "how many samples use the bias, and what becomes of their "
    "gradients. All ranks hold the bias, and the whole gradient of the output",
    "gradient of x_part": "which two factors made the output, and which of them is "
    "transposed. Is there anything to divide, by samples or by ranks",
}


@exercise(
    "16a-row", in_ranks=True, when_hung="whether all ranks call the same collectives"
)
def check_16a_row(row_forward, row_backward):
    for ranks in RANKS:
        args = row_forward, row_backward, LAYERS
        think = "what this line needs; where shapes do not fit, which two parts can be "
        think += "multiplied, and which a collective can add up"
        with trying(f"both functions in {ranks} ranks", think=think):
            found = run_trial(try_row_layer, *args, ranks=ranks)
        for size, of_ranks in zip(LAYERS, zip(*found, strict=True), strict=True):
            call = f"{size.samples} samples, {size.inputs} inputs and {size.outputs}"
            with trying(f"{call} outputs in {ranks} ranks") as expect:
                for rank, notes in enumerate(of_ranks):
                    _expect_row_layer(expect, rank, notes)


def _expect_row_layer(expect, rank: int, notes: TensorParallelNotes) -> None:
    _expect_inputs_kept(expect, notes)
    _expect_calls(expect, rank, notes, "all_reduce", "")
    expect(
        len(notes.got) == 4,
        got=f"row_backward returned {notes.got[1]}",
        think="what is to be returned: three gradients, as a tuple",
    )
    names = "the output", "gradient of x_part", "gradient of rows", "gradient of bias"
    for name, got, expected in zip(names, notes.got, notes.expected, strict=True):
        think = OF_ROWS.get(name, OF_ROWS["gradient of x_part"])
        expect_tensor(expect, f"on rank {rank}, {name}", got, expected, think, CLOSE)


# 16a-conjugates -----------------------------------------------------------------------

SHAPES = [(3,), (2, 3, 5)]
OF_CONJUGATES = {
    "the copy": "what the copy of a number is",
    "the gradient of the copy": "by how many paths x influences the loss: the "
    "gradients of all of them are added",
    "the sum": "what is asked for: the sum over the ranks",
    "the gradient of the sum": "the gradient of a sum with respect to one of its "
    "summands",
    "the sum of both": "the sum over the ranks of what each has computed",
    "the gradient through both": "by how many paths x influences the loss",
}


@exercise(
    "16a-conjugates",
    in_ranks=True,
    when_hung="whether every rank calls the same collectives",
)
def check_16a_conjugates(CopyToRanks, SumOverRanks):
    calls = {
        "CopyToRanks.apply(x)": ("", "all_reduce"),
        "SumOverRanks.apply(x)": ("all_reduce", ""),
        "SumOverRanks.apply(f(CopyToRanks.apply(x))).sum()": ("all_reduce",) * 2,
    }
    for ranks in RANKS:
        args = CopyToRanks, SumOverRanks, SHAPES
        think = "what this line needs, and whether a collective gets a tensor of its "
        think += "own, a clone, of the same shape on all ranks"
        with trying(f"both functions in {ranks} ranks", think=think):
            found = run_trial(try_conjugates, *args, ranks=ranks)
        for place, shape in enumerate(SHAPES):
            for way, (call, wanted) in enumerate(calls.items()):
                with trying(f"{call}, shape {shape}, {ranks} ranks") as expect:
                    for rank, of_rank in enumerate(found):
                        notes = of_rank[place][way]
                        _expect_inputs_kept(expect, notes)
                        _expect_calls(expect, rank, notes, *wanted)
                        _expect_conjugate(expect, rank, way, notes)


def _expect_conjugate(expect, rank: int, way: int, notes: TensorParallelNotes) -> None:
    names = list(OF_CONJUGATES)[2 * way : 2 * way + 2]
    for name, got, expected in zip(names, notes.got, notes.expected, strict=True):
        think = OF_CONJUGATES[name]
        expect_tensor(expect, f"on rank {rank}, {name}", got, expected, think, CLOSE)


# 16a-one-too-many ---------------------------------------------------------------------

BRANCHES = [BranchSize(3, 4, 8, 8), BranchSize(5, 3, 7, 10), BranchSize(1, 1, 9, 6)]
OF_MATRICES = "what lies between the neurons and the loss, and what each function does "
OF_MATRICES += "back"
OF_BRANCHES = {
    "the output": "x and the two products, of gelu and of tanh: what each rank adds to "
    "the sum, and what is added only once",
    "the gradient of x": "the paths by which x influences the loss: through this "
    "rank's neurons, through the others', and past all of them. Which of these are "
    "summed over the ranks",
    **{f"the gradient of {matrix}": OF_MATRICES for matrix in ("A1", "B1", "A2", "B2")},
}


@exercise(
    "16a-one-too-many",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives",
)
def check_16a_one_too_many(lean_branches):
    trials = [(1, BRANCHES), (2, BRANCHES[:1])]  # with one, only the formula counts
    for ranks, sizes in [*trials, *((ranks, BRANCHES) for ranks in RANKS)]:
        args = lean_branches, sizes
        call = f"lean_branches(x, first, second) in {ranks} ranks"
        with trying(call, think="the output, and the way back from it on every rank"):
            found = run_trial(try_branches, *args, ranks=ranks)
        for size, of_ranks in zip(sizes, zip(*found, strict=True), strict=True):
            told = f"{size.samples} samples, {size.inputs} inputs, branches of "
            told += f"{size.first} and {size.second} neurons"
            with trying(f"{call}: {told}") as expect:
                _expect_branches(expect, of_ranks)


def _expect_branches(expect, of_ranks) -> None:
    for rank, notes in enumerate(of_ranks):
        _expect_inputs_kept(expect, notes)
        for (name, think), got, expected in zip(
            OF_BRANCHES.items(), notes.got, notes.expected, strict=True
        ):
            if len(of_ranks) == 1:
                think = "the formula of the two branches: gelu and tanh, each between "
                think += "its two matrices, and x. Here nothing comes from other ranks"
            expect_tensor(
                expect, f"on rank {rank}, {name}", got, expected, think, CLOSE
            )
        for when, sent in zip(("forward", "backward"), notes.sent, strict=True):
            expect(
                sent == ["all_reduce"],
                got=f"{when}, {len(sent)} calls on rank {rank}: {', '.join(sent)}",
                think="which sums can be taken before the ranks are summed over, and "
                "whether both branches use the same copy",
            )
