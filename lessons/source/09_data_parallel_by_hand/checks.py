"""The checks of lesson 09: scatter and gather, the museum's repairs."""

import torch

from parallel_by_hand.data_parallel import museum_meter
from parallel_by_hand.data_parallel.changed_lines import syntax_complaint
from parallel_by_hand.data_parallel.exhibits import EXHIBITS
from sidebyside import RankFailed, RanksHung
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import patience

# 09-scatter ---------------------------------------------------------------------------


@exercise("09-scatter")
def check_09_scatter(scatter, gather):
    for rows, parts in [(12, 4), (13, 2), (5, 4), (7, 1), (10, 8), (2, 3)]:
        images = torch.arange(rows * 6, dtype=torch.float64).view(rows, 2, 3)
        batch = images, torch.arange(rows) * 10, torch.arange(rows) % 3
        _try_scatter(scatter, batch, parts)
    for sizes in [(3, 2), (5,), (3, 1, 4, 1, 5)]:
        _try_gather(gather, [torch.randn(n, 10) for n in sizes])


def _try_scatter(scatter, batch: tuple, parts: int) -> None:
    rows = len(batch[0])
    tried = f"scatter(a batch of {len(batch)} tensors with {rows} rows, {parts})"
    with trying(tried, batch) as expect:
        got = scatter(batch, parts)
        expect(
            isinstance(got, list | tuple),
            got=got,
            think="what is to be returned: a list with a tuple for each part",
        )
        expect(
            len(got) == parts,
            got=f"a list of {len(got)}",
            think=f"the list of {parts} parts for {rows} rows: does each hold a piece "
            "of every tensor, and how many pieces does your way to cut return?",
        )
        whole = all(isinstance(p, tuple | list) and len(p) == len(batch) for p in got)
        expect(
            whole and all(isinstance(t, torch.Tensor) for p in got for t in p),
            got=f"a part of type {type(got[0]).__name__}",
            think="what is in a part: a tuple with a piece of each tensor of the batch",
        )
        sizes = [len(part[0]) for part in got]
        for place, pieces in enumerate(zip(*got, strict=True)):
            cut = [len(piece) for piece in pieces]
            expect(
                cut == sizes
                and sum(cut) == rows
                and torch.equal(torch.cat(pieces), batch[place]),
                got=f"batch[{place}] in pieces of {cut}, not all its rows in order",
                think="whether every row is in exactly one part, and where it stands",
            )
        expect(
            max(sizes) - min(sizes) <= 1,
            got=f"parts of {sizes} rows",
            think="how to deal so that sizes differ by one at most",
        )


def _try_gather(gather, values: list[torch.Tensor]) -> None:
    sizes = [len(value) for value in values]
    outputs = [value.clone().requires_grad_() for value in values]
    with trying(f"gather(outputs of {sizes} rows)") as expect:
        whole = gather([output * 2 for output in outputs])
        right = torch.cat(values) * 2
        expect(
            isinstance(whole, torch.Tensor),
            got=whole,
            think="what is to be returned: one tensor with all rows",
        )
        expect(
            whole.shape == right.shape,
            got=f"a tensor of {tuple(whole.shape)}",
            think=f"the shape of all rows together: {tuple(right.shape)}",
        )
        expect(
            torch.equal(whole, right),
            got="rows in another order, or changed",
            think="the order of the outputs: part 0 first",
        )
        expect(
            whole.grad_fn is not None,
            got="a tensor that does not know where it came from",
            think="what autograd needs to bring gradients back to each output: did "
            "something detach them",
        )
        slope = torch.arange(whole.numel(), dtype=whole.dtype).view(whole.shape)
        whole.backward(slope)
        for output, part in zip(outputs, slope.split(sizes), strict=True):
            expect(
                output.grad is not None and torch.equal(output.grad, part * 2),
                got="an output without its own gradient",
                think="which rows of the result came from which output",
            )


# 09-museum ----------------------------------------------------------------------------

SEVERAL = 2, 3, 1  # ranks
MOST = 3  # lines that may change
NEEDED = "ABCD"  # the others are for those who have time


@exercise("09-museum", in_ranks=True)
def check_09_museum(repairs):
    with trying("repairs") as expect:
        expect(
            isinstance(repairs, dict) and repairs and set(repairs) <= set(EXHIBITS),
            got=repairs,
            think='the form of the answer: {"A": {3: "new text"}, "B": ...}',
        )
    codes = {name: _repaired_exhibit(name, repairs[name]) for name in sorted(repairs)}
    for ranks in SEVERAL:
        found = _look_at_repaired_exhibits(codes, ranks)
        for name in codes:
            with trying(f"exhibit {name}, repaired, {ranks} replicas") as expect:
                _expect_repaired_exhibit(expect, name, found[name], ranks)
    with trying("repairs") as expect:
        missing = [name for name in NEEDED if name not in repairs]
        expect(
            not missing,
            got=f"right repairs of {', '.join(codes)}; {', '.join(missing)} to go",
            think="the next exhibit: what does its meter say",
        )


def _repaired_exhibit(name: str, changes) -> str:
    with trying(f'repairs["{name}"]') as expect:
        form = isinstance(changes, dict) and changes
        expect(
            form and all(isinstance(text, str) for text in changes.values()),
            got=changes,
            think='the form of a repair: {line: "new text"}',
        )
        lines = museum_meter.exhibit_lines(name)
        expect(
            all(number in range(2, len(lines) + 1) for number in changes),
            got=f"lines {', '.join(map(repr, changes))}",
            think=f"the numbers of its lines: 2 to {len(lines)}",
        )
        expect(
            len(changes) <= MOST,
            got=f"{len(changes)} changed lines",
            think="which lines are wrong: three at most may change",
        )
        said = syntax_complaint(name, lines, changes)
        expect(
            not said,
            got="a program that is not Python",
            think=f"what Python says of the new lines: {said}. Is a block empty?",
        )
        code = museum_meter.repaired_exhibit(name, changes)
        museum_meter.program_of_exhibit(code, name)
    return code


def _look_at_repaired_exhibits(codes: dict, ranks: int) -> dict:
    """All in one launch; if that fails, one by one, to know which it was."""
    try:
        return museum_meter.look_at_exhibits(codes, ranks, timeout=patience())
    except (RankFailed, RanksHung):
        for name in codes:
            tried = f"exhibit {name}, repaired, {ranks} replicas"
            with trying(tried, think="what the new lines do, each in its place"):
                code = {name: codes[name]}
                museum_meter.look_at_exhibits(code, ranks, timeout=patience())
        raise


def _expect_repaired_exhibit(expect, name: str, found, ranks: int) -> None:
    if name == "F":
        right = museum_meter.exhibit_accuracy_alone()
        off = abs(found.said[0] - right) if found.said else 1
        shown = f"{found.said[0]:.10f} on rank 0" if found.said else "no number"
        expect(
            off < 1e-6,  # in 32 bits, too
            got=f"{shown}; one process with all images says {right:.10f}",
            think="which images were counted, and by how many is divided. The ranks' "
            "parts are not all of one size",
        )
        return
    if name == "A":
        expect(
            found.storages == ranks,
            got=f"weights for {found.storages} of {ranks} replicas",
            think="how many models there are in memory: each replica needs its own",
        )
    first = found.models[0]
    batches = len(museum_meter.museum_batches(name, ranks))
    expect(
        len(first) == batches + 1,
        got=f"{len(first) - 1} steps of {batches}",
        think="what the program trains on: all of its batches",
    )
    apart = (torch.stack(found.models) - first)[:, [0, -1]].abs().amax((0, 2))
    expect(
        not apart[0],
        got=f"replicas that are {apart[0]:.3f} apart at the start",
        think="what makes all replicas start equal",
    )
    expect(
        not apart[1],
        got=f"replicas that are {apart[1]:.1e} apart in the end",
        think="what every replica has to know before it takes its step, and what it "
        "does after it",
    )
    alone = museum_meter.train_exhibit_alone(name, ranks, first[0])
    _expect_steps_of_exhibit(expect, name, first, alone)


def _expect_steps_of_exhibit(expect, name: str, first, alone) -> None:
    off = (first - alone).abs().max().item()
    if off < 1e-9:
        return
    step, right = first[1] - first[0], alone[1] - alone[0]
    times = (step @ right / (right @ right)).item()
    thoughts = {
        "D": "how many images stand behind each rank's mean, and what divides the sum",
        "G": "the gradient that is clipped: is it the batch's, on all ranks alike, and "
        "clipped once",
    }
    think = thoughts.get(name, "what is summed, by what it is divided, and what "
                         "is in .grad when the step is taken")  # fmt: skip
    expect(
        (step - times * right).abs().max() > 1e-9,
        got=f"a first step {times:.2f} times as long as one process's",
        think=think,
    )
    expect(False, got=f"steps off by {off:.1e} from one process's", think=think)
