"""The checks of lesson 16a: a layer by rows, the conjugate functions, one too many."""

import os
from collections.abc import Sequence

import torch

from sidebyside import run_ranks
from sidebyside.exercises import exercise, trying

from .row_layers_and_branches import (
    BranchSize,
    ConjugateKind,
    RowLayerSize,
    TensorParallelNotes,
    try_branches,
    try_conjugates,
    try_row_layer,
)

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))
RANKS = 2, 3, 1, 5, 8
MEETING = "what this line needs; and where a rank was killed, whether all ranks give a "
MEETING += "collective tensors of the same shape"
SINGLE, DOUBLE = torch.float32, torch.float64


def _tensor_parallel_close(got: torch.Tensor, expected: torch.Tensor) -> bool:
    close = 1e-4 if expected.dtype == SINGLE else 1e-9
    same = got.shape == expected.shape
    return same and torch.allclose(got.to(expected.dtype), expected, close, close)


def _expect_tensor_parallel_result(
    expect, rank: int, what: str, got, expected, think: str
) -> None:
    """A tensor with the expected shape, numbers and type."""
    where = f"on rank {rank}, {what}"
    a_tensor = isinstance(got, torch.Tensor)
    expect(a_tensor, got=f"{where}: {got}", think="what is asked for: a tensor")
    expect(
        got.shape == expected.shape,
        got=f"{where} has shape {tuple(got.shape)}, not {tuple(expected.shape)}",
        think="which shape this has in the unsplit layer, and what of it a rank holds",
    )
    expect(
        got.dtype == expected.dtype,
        got=f"{where} has the type {got.dtype}, not {expected.dtype}",
        think="what makes a tensor of another type on the way",
    )
    expect(
        _tensor_parallel_close(got, expected),
        got=f"{where}: {_tensor_parallel_numbers(got)} instead of "
        f"{_tensor_parallel_numbers(expected)}",
        think=think,
    )


def _tensor_parallel_numbers(tensor: torch.Tensor) -> str:
    first = ", ".join(f"{number:.4g}" for number in tensor.flatten()[:3].tolist())
    return f"[{first}{', ...' if tensor.numel() > 3 else ''}]"


def _expect_tensor_parallel_calls(
    expect, rank: int, when: str, sent: list[str], wanted: list[str], optional=False
) -> None:
    """Exactly these collectives, and no message beside them; or none, if optional."""
    meant = "one all_reduce" if wanted else "nothing"
    calls = ", ".join(sent) or "nothing"
    expect(
        sent == wanted or (optional and not sent),
        got=f"{when}, rank {rank} sent {calls} instead of {meant}",
        think="who already has the numbers that are needed here, and who has only a "
        "summand of them",
    )


def _expect_tensor_parallel_inputs_kept(expect, notes: TensorParallelNotes) -> None:
    expect(
        not notes.not_awaited,
        got="an all-reduce that was begun with async_op=True, and no wait() for it",
        think="when its sum is there",
    )
    expect(
        not notes.changed,
        got=f"other numbers in {', '.join(notes.changed)} than before the call",
        think="what dist.all_reduce does to the tensor that it is given",
    )


# 16a-row ------------------------------------------------------------------------------

LAYERS = [
    RowLayerSize(3, 2, 4, DOUBLE),
    RowLayerSize(1, 2, 4, DOUBLE),
    RowLayerSize(5, 7, 3, DOUBLE),
    RowLayerSize(3, 16, 1, SINGLE),
    RowLayerSize(4, 1, 2, DOUBLE),  # most ranks hold no inputs
    RowLayerSize(0, 6, 5, DOUBLE),
    RowLayerSize(8, 8, 8, DOUBLE),
]
GRADIENTS = "the output", "gradient of x_part", "gradient of rows", "gradient of bias"


@exercise(
    "16a-row",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives, also those without inputs",
)
def check_16a_row(row_forward, row_backward):
    for ranks, layers in [(2, LAYERS[:1]), *((ranks, LAYERS) for ranks in RANKS)]:
        args = row_forward, row_backward, layers
        think = "which tensors have the same shape on all ranks: only those can be "
        think += "added up by a collective"
        with trying(f"both functions in {ranks} ranks", think=think):
            found = run_ranks(try_row_layer, *args, world_size=ranks, timeout=PATIENCE)
        for size, of_ranks in zip(layers, zip(*found, strict=True), strict=True):
            _expect_row_layer(size, of_ranks)


def _expect_row_layer(
    size: RowLayerSize, of_ranks: Sequence[TensorParallelNotes]
) -> None:
    call = f"{size.samples} samples, {size.inputs} inputs and {size.outputs} outputs"
    with trying(f"{call} in {len(of_ranks)} ranks") as expect:
        for rank, notes in enumerate(of_ranks):
            there, back = notes.sent
            alone = len(of_ranks) == 1 or not size.samples
            _expect_tensor_parallel_calls(
                expect, rank, "in row_forward", there, ["all_reduce"], alone
            )
            _expect_tensor_parallel_calls(expect, rank, "in row_backward", back, [])
        for rank, notes in enumerate(of_ranks):
            _expect_tensor_parallel_inputs_kept(expect, notes)
            expect(
                len(notes.got) == 4,
                got=f"row_backward returned {notes.got[1]}",
                think="what is to be returned: three gradients, as a tuple",
            )
            for name, got, expected in zip(
                GRADIENTS, notes.got, notes.expected, strict=True
            ):
                think = _think_of_row_layer(name, got, expected, len(of_ranks))
                _expect_tensor_parallel_result(expect, rank, name, got, expected, think)


def _think_of_row_layer(name: str, got, expected: torch.Tensor, ranks: int) -> str:
    if name == "the output":
        return "how often the bias is counted, and when the summands are complete"
    if isinstance(got, torch.Tensor) and got.shape == expected.shape:
        if _tensor_parallel_close(got, ranks * expected) or _tensor_parallel_close(
            got * ranks, expected
        ):
            return "the number of ranks: the gradient of the output is already whole"
        if name == "gradient of bias" and got.numel():
            return "how many samples use the bias, and what becomes of their gradients"
    return "which two factors made the output, and which of them is transposed"


# 16a-conjugates -----------------------------------------------------------------------

KINDS = [
    ConjugateKind((3,), DOUBLE),
    ConjugateKind((2, 3, 5), SINGLE),
    ConjugateKind((4, 6), DOUBLE, contiguous=False),
    ConjugateKind((), DOUBLE),
    ConjugateKind((0, 4), DOUBLE),
]


@exercise(
    "16a-conjugates",
    in_ranks=True,
    when_hung="whether every rank calls the same collectives",
)
def check_16a_conjugates(CopyToRanks, SumOverRanks):
    with trying("CopyToRanks and SumOverRanks") as expect:
        for answer in (CopyToRanks, SumOverRanks):
            expect(
                hasattr(answer, "apply"),
                got=answer,
                think="what an autograd function is: a class with forward, backward "
                "and, from torch.autograd.Function, apply",
            )
    for ranks in RANKS:
        args = CopyToRanks, SumOverRanks, KINDS
        with trying(f"x of several shapes in {ranks} ranks", think=MEETING):
            found = run_ranks(try_conjugates, *args, world_size=ranks, timeout=PATIENCE)
        for kind, of_ranks in zip(KINDS, zip(*found, strict=True), strict=True):
            for rank, (copied, summed, both) in enumerate(of_ranks):
                _expect_copy_to_ranks(kind, rank, ranks, copied)
                _expect_sum_over_ranks(kind, rank, ranks, summed)
                _expect_both_conjugates(kind, rank, ranks, both)
            _expect_conjugates_same_bits(kind, of_ranks)


def _conjugates_add_nothing(kind: ConjugateKind, ranks: int) -> bool:
    return ranks == 1 or 0 in kind.shape


def _of_conjugate_shape(kind: ConjugateKind, ranks: int) -> str:
    dense = "" if kind.contiguous else ", on odd ranks not contiguous,"
    return f"x of shape {kind.shape}{dense} in {ranks} ranks"


def _expect_copy_to_ranks(
    kind: ConjugateKind, rank: int, ranks: int, notes: TensorParallelNotes
) -> None:
    total_of_gradient, x, _ = notes.expected[1:]
    with trying(f"CopyToRanks.apply(x), {_of_conjugate_shape(kind, ranks)}") as expect:
        _expect_tensor_parallel_inputs_kept(expect, notes)
        _expect_tensor_parallel_calls(expect, rank, "forward", notes.sent[0], [])
        _expect_tensor_parallel_calls(
            expect,
            rank,
            "backward",
            notes.sent[1],
            ["all_reduce"],
            _conjugates_add_nothing(kind, ranks),
        )
        think = "what the copy of a number is"
        _expect_tensor_parallel_result(expect, rank, "the copy", notes.got[0], x, think)
        for got in notes.got[1:]:
            think = "by how many paths x influences the loss: the gradients of all "
            think += "of them are added, also in a second backward"
            if not kind.contiguous:
                think = "what lies at the same place in memory on both ranks"
            _expect_tensor_parallel_result(
                expect, rank, "the gradient", got, total_of_gradient, think
            )


def _expect_sum_over_ranks(
    kind: ConjugateKind, rank: int, ranks: int, notes: TensorParallelNotes
) -> None:
    total, _, _, gradient = notes.expected
    with trying(f"SumOverRanks.apply(x), {_of_conjugate_shape(kind, ranks)}") as expect:
        _expect_tensor_parallel_inputs_kept(expect, notes)
        _expect_tensor_parallel_calls(
            expect,
            rank,
            "forward",
            notes.sent[0],
            ["all_reduce"],
            _conjugates_add_nothing(kind, ranks),
        )
        _expect_tensor_parallel_calls(expect, rank, "backward", notes.sent[1], [])
        think = "what is asked for: the sum over the ranks"
        if not kind.contiguous:
            think = "what lies at the same place in memory on both ranks"
        _expect_tensor_parallel_result(
            expect, rank, "the sum", notes.got[0], total, think
        )
        for got in notes.got[1:]:
            think = "the gradient of a sum with respect to one of its summands"
            _expect_tensor_parallel_result(
                expect, rank, "the gradient", got, gradient, think
            )


def _expect_both_conjugates(
    kind: ConjugateKind, rank: int, ranks: int, notes: TensorParallelNotes
) -> None:
    call = "SumOverRanks.apply(f(CopyToRanks.apply(x))).sum().backward()"
    with trying(f"{call}, {_of_conjugate_shape(kind, ranks)}") as expect:
        _expect_tensor_parallel_inputs_kept(expect, notes)
        _expect_tensor_parallel_calls(
            expect,
            rank,
            "forward",
            notes.sent[0],
            ["all_reduce"],
            _conjugates_add_nothing(kind, ranks),
        )
        _expect_tensor_parallel_calls(
            expect,
            rank,
            "backward",
            notes.sent[1],
            ["all_reduce"],
            _conjugates_add_nothing(kind, ranks),
        )
        think = "a tensor that is not contiguous, such as the gradient of sum()"
        for name, got, expected in zip(
            ("the sum", "the gradient"), notes.got, notes.expected, strict=True
        ):
            _expect_tensor_parallel_result(expect, rank, name, got, expected, think)


def _expect_conjugates_same_bits(kind: ConjugateKind, of_ranks: Sequence) -> None:
    with trying(
        f"SumOverRanks.apply(x), {_of_conjugate_shape(kind, len(of_ranks))}"
    ) as expect:
        sums = [summed.got[0] for _, summed, _ in of_ranks]
        expect(
            all(torch.equal(sums[0], other) for other in sums),
            got="sums that differ between ranks",
            think="what every rank adds to the sum afterwards",
        )


# 16a-one-too-many ---------------------------------------------------------------------

BRANCHES = [
    BranchSize(3, 4, 8, 8, DOUBLE),
    BranchSize(5, 3, 7, 10, DOUBLE),
    BranchSize(2, 6, 16, 1, SINGLE),  # most ranks have no neuron of the second
    BranchSize(0, 4, 5, 6, DOUBLE),
    BranchSize(1, 1, 3, 9, DOUBLE),
    BranchSize(3, 4, 8, 8, DOUBLE),  # once more, with other matrices
]
RESULTS = (
    "the output",
    "the gradient of x",
    "the gradient of A1",
    "the gradient of B1",
    "the gradient of A2",
    "the gradient of B2",
)


@exercise(
    "16a-one-too-many",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives, also those without neurons",
)
def check_16a_one_too_many(lean_branches):
    for ranks in RANKS:
        args = lean_branches, BRANCHES
        with trying(f"lean_branches(x, first, second) in {ranks} ranks", think=MEETING):
            found = run_ranks(try_branches, *args, world_size=ranks, timeout=PATIENCE)
        for size, of_ranks in zip(BRANCHES, zip(*found, strict=True), strict=True):
            _expect_branches(size, of_ranks)


def _expect_branches(size: BranchSize, of_ranks: Sequence[TensorParallelNotes]) -> None:
    ranks = len(of_ranks)
    call = f"{size.samples} samples, {size.inputs} inputs, branches of {size.first} "
    call += f"and {size.second} neurons in {ranks} ranks"
    needed = ranks > 1 and size.samples
    with trying(f"lean_branches(x, first, second): {call}") as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_tensor_parallel_inputs_kept(expect, notes)
            think = "what each rank adds to the sum, and what is added only once"
            _expect_tensor_parallel_result(
                expect, rank, RESULTS[0], notes.got[0], notes.expected[0], think
            )
            expect(
                len(notes.got) == len(RESULTS),
                got="an output that autograd does not follow",
                think="which functions autograd can go back through",
            )
            expect(
                not notes.unknown_to_autograd,
                got="a warning: autograd has gone back through dist.all_reduce, of "
                "which it knows nothing",
                think="which of the two conjugate functions stands there",
            )
        for rank, notes in enumerate(of_ranks):
            for name, got, expected in zip(
                RESULTS[1:], notes.got[1:], notes.expected[1:], strict=True
            ):
                think = _think_of_branches(name)
                _expect_tensor_parallel_result(expect, rank, name, got, expected, think)
            for when, sent in zip(("forward", "backward"), notes.sent, strict=True):
                expect(
                    sent == ["all_reduce"] or (not sent and not needed),
                    got=f"{when}, {len(sent)} calls on rank {rank}: {', '.join(sent)}",
                    think="which sums can be taken before the ranks are summed over, "
                    "and whether both branches use the same copy",
                )


def _think_of_branches(name: str) -> str:
    if name == "the gradient of x":
        return (
            "the paths by which x influences the loss: through this rank's neurons, "
            "through the others', and past all of them. Which of these are summed over "
            "the ranks"
        )
    return (
        "what lies between the neurons and the loss, and what each function does back"
    )
