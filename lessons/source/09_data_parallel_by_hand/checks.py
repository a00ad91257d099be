"""The checks of lesson 09: scatter and gather, the reduce, the museum's repairs."""

import copy
import os

import torch
from torch import nn
from torch.nn import functional as F

from demos.data_parallel.parts import museum_meter
from demos.data_parallel.parts.changed_lines import syntax_complaint
from demos.data_parallel.parts.exhibits import EXHIBITS
from sidebyside import RankFailed, RanksHung
from sidebyside.exercises import exercise, trying

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))


# 09-scatter ---------------------------------------------------------------------------

DEALS = [(12, 3), (13, 2), (5, 4), (3, 5), (1, 1), (7, 1), (10, 8), (0, 2), (29, 8)]


@exercise("09-scatter")
def check_09_scatter(scatter, gather):
    for rows, parts in DEALS:
        images = torch.arange(rows * 6, dtype=torch.float64).view(rows, 2, 3)
        labels = torch.arange(rows) * 10
        _try_scatter(scatter, (images, labels), rows, parts)
    _try_scatter(scatter, (torch.randn(9),), 9, 4)
    _try_scatter(scatter, tuple(torch.randn(11, n) for n in (1, 2, 3)), 11, 3)
    every_second = torch.randn(6, 8)[:, ::2], torch.arange(18)[::3]
    _try_scatter(scatter, every_second, 6, 4)  # which are views themselves
    for sizes in [(3, 2), (2, 2, 2), (1, 1, 1, 0), (0, 4), (5,), (3, 1, 4, 1, 5)]:
        _try_gather(gather, [torch.randn(n, 10, dtype=torch.float64) for n in sizes])
    _try_gather(gather, [torch.randn(n) for n in (2, 3)])
    _try_gather(gather, [torch.randn(n, 2, 2) for n in (2, 0, 1)])
    _try_scatter_and_gather(scatter, gather)


def _try_scatter(scatter, batch: tuple, rows: int, parts: int) -> None:
    with trying(f"scatter(a batch of {rows} rows, {parts})", batch) as expect:
        got = scatter(batch, parts)
        expect(
            isinstance(got, list | tuple),
            got=got,
            think="what is to be returned: a list with a tuple for each part",
        )
        expect(
            len(got) == parts,
            got=f"{len(got)} parts",
            think=f"how many parts are asked for: {parts}, also where some are empty. "
            "How many pieces does the function return with which you cut",
        )
        whole = all(isinstance(p, tuple | list) and len(p) == len(batch) for p in got)
        expect(
            whole and all(isinstance(t, torch.Tensor) for p in got for t in p),
            got=f"a part of type {type(got[0]).__name__}",
            think="what is in a part: a tuple with a piece of each tensor of the batch",
        )
        sizes = [len(part[0]) for part in got]
        _expect_scattered_rows(expect, batch, got, sizes)
        expect(
            max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True),
            got=f"parts of {sizes} rows",
            think="how to deal so that sizes differ by one at most, larger parts first",
        )
        for part in got:
            _expect_scattered_views(expect, batch, part)


def _expect_scattered_rows(expect, batch: tuple, parts: list, sizes: list) -> None:
    for number, tensor in enumerate(batch):
        pieces = [part[number] for part in parts]
        expect(
            all(piece.dtype == tensor.dtype for piece in pieces),
            got=f"pieces of type {pieces[0].dtype}, from {tensor.dtype}",
            think="what may change when a tensor is cut: nothing in the numbers",
        )
        expect(
            all(piece.shape[1:] == tensor.shape[1:] for piece in pieces),
            got=f"pieces of the shapes {[tuple(piece.shape) for piece in pieces]}",
            think="what stays when rows are dealt: each row as it is, in empty parts "
            "as well",
        )
        expect(
            [len(piece) for piece in pieces] == sizes,
            got=f"pieces of {[len(p) for p in pieces]} rows beside {sizes}",
            think="which label belongs to which image: equal cuts for all tensors",
        )
        expect(
            torch.equal(torch.cat(pieces), tensor),
            got=f"parts of {sizes} rows, which are not all the rows in their order",
            think="whether every row is in exactly one part, and where it stands",
        )


def _expect_scattered_views(expect, batch: tuple, part: tuple) -> None:
    for piece, tensor in zip(part, batch, strict=True):
        same = piece.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
        expect(
            same or not piece.numel(),
            got="a part with storage of its own",
            think="who copies the rows: the parts are to be views of the batch",
        )


def _try_gather(gather, values: list[torch.Tensor]) -> None:
    sizes = [len(value) for value in values]
    outputs = [value.clone().requires_grad_() for value in values]
    with trying(f"gather(outputs of {sizes} rows)", values) as expect:
        whole = gather([output * 2 for output in outputs])
        _expect_gathered(expect, whole, torch.cat(values) * 2)
        _expect_way_back_from_gather(expect, whole)
        whole_slope = torch.arange(whole.numel(), dtype=whole.dtype).view(whole.shape)
        whole.backward(whole_slope)
        for output, slope in zip(outputs, whole_slope.split(sizes), strict=True):
            expect(
                output.grad is not None and torch.equal(output.grad, slope * 2),
                got="an output without its own gradient",
                think="which rows of the result came from which output",
            )
    with trying(f"gather(outputs of {sizes} rows), none of which has a gradient"):
        given = list(values)
        gather(given)
    with trying("the list of outputs after gather") as expect:
        same = len(given) == len(values)
        expect(
            same and all(map(torch.equal, given, values)),
            got="another list than before",
            think="whose list it is: others may use it after you",
        )


def _expect_gathered(expect, whole, right: torch.Tensor) -> None:
    expect(
        isinstance(whole, torch.Tensor),
        got=whole,
        think="what is to be returned: one tensor with all rows",
    )
    expect(
        whole.shape == right.shape and whole.dtype == right.dtype,
        got=f"a tensor of {tuple(whole.shape)}, {whole.dtype}",
        think=f"the shape of all rows together: {tuple(right.shape)}, {right.dtype}",
    )
    expect(
        torch.equal(whole, right),
        got="rows in another order, or changed",
        think="the order of the outputs: part 0 first",
    )


def _expect_way_back_from_gather(expect, whole: torch.Tensor) -> None:
    expect(
        whole.requires_grad and whole.grad_fn is not None,
        got="a tensor that does not know where it came from",
        think="what autograd needs to bring gradients back to each output: did "
        "something detach them",
    )


def _try_scatter_and_gather(scatter, gather) -> None:
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    with trying("gather of what scatter gave, then backward") as expect:
        parts = scatter((x,), 3)
        whole = gather([part[0] ** 2 for part in parts])
        _expect_way_back_from_gather(expect, whole)
        whole.sum().backward()
        expect(
            x.grad is not None and torch.equal(x.grad, 2 * x.detach()),
            got="not the gradient of the whole",
            think="whether scatter has cut the gradients' way back",
        )


# 09-reduce ----------------------------------------------------------------------------


@exercise("09-reduce")
def check_09_reduce(reduce_gradients):
    for sizes in [[4, 4], [3, 1], [6], [5, 1, 9], [2, 2, 2], [7, 1, 1, 2, 3, 1, 4, 8]]:
        _try_reduce(reduce_gradients, sizes)
    _try_reduce(reduce_gradients, [5, 3], dtype=torch.float32)
    _try_reduce(reduce_gradients, [5, 3], frozen=True)
    _try_reduce(reduce_gradients, [5, 0, 3])
    _try_reduce(reduce_gradients, [0, 4, 2])
    _try_reduce(reduce_gradients, [0, 4, 0], empty_is_none=True)
    _try_reduce(reduce_gradients, [3, 5, 2], unused_in=(1,))
    _try_reduce(reduce_gradients, [3, 5, 2], unused_in=(0,))
    _try_reduce(reduce_gradients, [0, 5, 2], unused_in=(1, 2))


def _try_reduce(
    reduce_gradients, sizes, dtype=torch.float64, frozen=False, empty_is_none=False,
    unused_in=(),
) -> None:  # fmt: skip
    replicas = _replicas_after_backward(sizes, dtype, frozen, empty_is_none, unused_in)
    before = [value.clone() for value in replicas[0].state_dict().values()]
    own = [
        [_replica_gradient_without_nan(p.grad) for p in replica.parameters()]
        for replica in replicas
    ]
    tried = f"reduce_gradients(replicas, {sizes})"
    tried += ", where one parameter is frozen" if frozen else ""
    if unused_in:
        tried += f", where replicas {unused_in} have not used one of the parameters"
    given, given_sizes = list(replicas), list(sizes)
    with trying(tried, given_sizes) as expect:
        returned = reduce_gradients(given, given_sizes)
        expect(
            returned is None,
            got=returned,
            think="where the result belongs: in `.grad` of replica 0",
        )
        expect(
            len(given) == len(replicas)
            and all(map(_is_same_replica_tensor, given, replicas)),
            got="another list of replicas than before",
            think="whose list it is: others use it after you",
        )
        for replica in replicas:
            unmoved = all(map(torch.equal, replica.state_dict().values(), before))
            expect(
                unmoved,
                got="parameters or buffers that have moved",
                think="which step comes later: the update",
            )
        right = _right_reduction_of_replicas(own, sizes)
        _expect_reduction_of_replicas(expect, replicas, right, own, sizes)


def _is_same_replica_tensor(one, other) -> bool:
    return one is other


def _replica_gradient_without_nan(gradient):
    return None if gradient is None or gradient.isnan().any() else gradient.clone()


class _BranchingReplica(nn.Module):
    """A network with one parameter that only some replicas use."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)
        self.extra = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.ones(3))
        self.uses_extra = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.last(torch.tanh(self.first(x)))
        return scores * self.extra if self.uses_extra else scores


def _replicas_after_backward(sizes, dtype, frozen, empty_is_none, unused_in) -> list:
    torch.manual_seed(9)
    model = _BranchingReplica().to(dtype)
    model.first.bias.requires_grad_(not frozen)
    replicas = [copy.deepcopy(model) for _ in sizes]
    for number, (replica, size) in enumerate(zip(replicas, sizes, strict=True)):
        replica.uses_extra = number not in unused_in
        if size or not empty_is_none:
            x, y = torch.randn(size, 5, dtype=dtype), torch.arange(size) % 3
            F.cross_entropy(replica(x), y).backward()
            if not size:  # on every version the mean of nothing is NaN for all
                for parameter in replica.parameters():
                    parameter.grad = torch.full_like(parameter, torch.nan)
    return replicas


def _right_reduction_of_replicas(own: list[list], sizes: list) -> list:
    right = []
    for gradients in zip(*own, strict=True):
        pairs = zip(gradients, sizes, strict=True)
        terms = [g * s / sum(sizes) for g, s in pairs if s and g is not None]
        right.append(sum(terms) if terms else None)
    return right


def _expect_reduction_of_replicas(
    expect, replicas, right: list, own: list[list], sizes
) -> None:
    close = 1e-9 if replicas[0].extra.dtype == torch.float64 else 1e-5
    got = [parameter.grad for parameter in replicas[0].parameters()]
    for gradient, wanted in zip(got, right, strict=True):
        if wanted is None:
            expect(
                gradient is None,
                got="a gradient where no replica with images has one",
                think="what None tells the optimiser: leave this parameter alone",
            )
            continue
        expect(
            gradient is not None,
            got="a parameter of replica 0 without its gradient",
            think="the gradients that only other replicas have: they count as well",
        )
        expect(
            not gradient.isnan().any(),
            got="NaN",
            think="what becomes of NaN when it is multiplied by 0",
        )
        expect(
            gradient.dtype == wanted.dtype,
            got=f"a gradient of type {gradient.dtype}",
            think="which type the parameter has",
        )
    _expect_weighing_of_replicas(expect, got, right, own, sizes, close)
    for replica in replicas[1:]:
        expect(
            all(parameter.grad is None for parameter in replica.parameters()),
            got="a replica that still has gradients",
            think="to what the next backward of the other replicas would add",
        )


def _expect_weighing_of_replicas(expect, got, right, own, sizes, close: float) -> None:
    present = [place for place, wanted in enumerate(right) if wanted is not None]
    flat = torch.cat([got[place].flatten() for place in present])
    wanted = torch.cat([right[place].flatten() for place in present])
    off = (flat - wanted).abs().max().item()
    if off < close:
        return
    times = (flat @ wanted / (wanted @ wanted)).item()
    if (flat - times * wanted).abs().max() < close:
        think = "by what the sum is divided: how many images are there"
        expect(False, got=f"{times:.2f} times the batch's gradient", think=think)
    full = [g for g, size in zip(own, sizes, strict=True) if size]
    means = torch.cat(
        [(sum(g[p] for g in full if g[p] is not None) / len(full)).flatten()
         for p in present]
    )  # fmt: skip
    think = "how often each replica's mean has to count"
    if (flat - means).abs().max() < close:
        think += ". The mean of means is not the mean"
    elif any(g[p] is None for g in full for p in present):
        think += ", and each parameter's images: those of a replica without a gradient "
        think += "count, too"
    expect(False, got=f"gradients that are off by {off:.1e}", think=think)


# 09-museum ----------------------------------------------------------------------------

SEVERAL = 2, 3, 5, 1  # ranks
MOST = 3  # lines that may change
NEEDED = "ABCD"  # the others are for those who have time


@exercise("09-museum", in_ranks=True)
def check_09_museum(repairs):
    with trying("repairs") as expect:
        expect(
            isinstance(repairs, dict) and repairs,
            got=repairs,
            think='the form of the answer: {"A": {3: "new text"}, ...}',
        )
        strangers = [name for name in repairs if name not in EXHIBITS]
        expect(
            not strangers,
            got=f"exhibits {strangers}",
            think=f"the names of the exhibits: {', '.join(EXHIBITS)}",
        )
    codes = {name: _repaired_exhibit(name, repairs[name]) for name in sorted(repairs)}
    for ranks in SEVERAL:
        found = _look_at_repaired_exhibits(codes, ranks)
        for name in codes:
            with trying(
                f"exhibit {name}, repaired, {_with_museum_ranks(name, ranks)}"
            ) as expect:
                _expect_repaired_exhibit(expect, name, found[name], ranks)
    with trying("repairs") as expect:
        missing = [name for name in NEEDED if name not in repairs]
        expect(
            not missing,
            got=f"right repairs of {', '.join(codes)}; {', '.join(missing)} to go",
            think="the next exhibit: what does its meter say",
        )


def _with_museum_ranks(name: str, ranks: int) -> str:
    return f"with {ranks} replicas" if name == "A" else f"in {ranks} ranks"


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
        _expect_exhibit_in_python(expect, name, changes)
        code = museum_meter.repaired(name, changes)
        yields = [line.strip() for line in lines if "yield model" in line]
        kept = [line.strip() for line in code.splitlines() if "yield model" in line]
        expect(
            kept == yields,
            got="other yields than before",
            think="who looks at the models: the yields have to stay",
        )
        museum_meter.program_of_exhibit(code, name)
    return code


def _expect_exhibit_in_python(expect, name: str, changes: dict) -> None:
    """Name the new line that is no Python, or say that together they are none."""
    lines = museum_meter.exhibit_lines(name)
    if not (said := syntax_complaint(name, lines, changes)):
        return
    for number, text in changes.items():
        if error := syntax_complaint(name, lines, {number: text}):
            think = f"what Python says of it: {error}"
            if not text.strip():
                think += ". May this block be empty"
            expect(False, got=f"a new line {number} that is not Python", think=think)
    think = f"what Python says of the repaired program: {said}"
    expect(False, got="new lines that together are not Python", think=think)


def _look_at_repaired_exhibits(codes: dict, ranks: int) -> dict:
    """All in one launch; if that fails, one by one, to know which it was."""
    try:
        return museum_meter.look_at_exhibits(codes, ranks, timeout=PATIENCE)
    except (RankFailed, RanksHung):
        for name in codes:
            think = "what the new lines do, each in its place"
            with trying(
                f"exhibit {name}, repaired, {_with_museum_ranks(name, ranks)}",
                think=think,
            ):
                museum_meter.look_at_exhibits(
                    {name: codes[name]}, ranks, timeout=PATIENCE
                )
        raise


def _expect_repaired_exhibit(expect, name: str, found, ranks: int) -> None:
    if name == "F":
        right = museum_meter.accuracy_alone()
        off = abs(found.said[0] - right) if found.said else 1
        digits = 4 if off > 1e-3 else 10  # so that the two can be told apart
        shown = f"{found.said[0]:.{digits}f} on rank 0" if found.said else "no number"
        expect(
            off < 1e-9,
            got=f"{shown}; one process with all images says {right:.{digits}f}",
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
    expect(
        step.any(),
        got="replicas that do not move",
        think="which line changes the parameters, and with which gradient",
    )
    if (step - times * right).abs().max() < 1e-9:
        think = "what is summed and by what it is divided, and in every step"
        if name == "G":
            think = "whose gradient has the length that counts, and on all ranks alike"
        got = f"a first step {times:.2f} times as long as one process's"
        if abs(times - 1) < 1e-9:
            got = f"a right first step, and later ones that are off by {off:.1e}"
            think = "what is left over from the step before, and done at each step"
        expect(False, got=got, think=think)
    thoughts = {
        "D": "how many images stand behind each rank's mean",
        "G": "the gradient that is clipped: is it the batch's, and clipped once",
    }
    think = thoughts.get(name, "the order of reduce and update, and what each uses")
    expect(False, got=f"steps off by {off:.1e} from one process's", think=think)
