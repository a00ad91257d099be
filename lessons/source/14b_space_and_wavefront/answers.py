"""Wrong answers to the exercises of lesson 14b, and unusual right ones."""

from itertools import pairwise

import numpy as np
import torch
import torch.distributed as dist

from demos.model_parallel.own_halo_exchange import WithHalo
from lessons.source.sample_answers import right, wrong
from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.model_parallel.convolution_cuts import bytes_of_splits

# 14b-halo -----------------------------------------------------------------------------


def _neighbours() -> tuple[int, int, list[int]]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank, ranks, [r for r in (rank - 1, rank + 1) if 0 <= r < ranks]


def _arriving(first: torch.Tensor, last: torch.Tensor) -> list[torch.Tensor]:
    """`first` goes to the rank above, `last` below; what comes from above and below."""
    rank, _, others = _neighbours()
    rooms = {r: torch.zeros_like(first).contiguous() for r in (rank - 1, rank + 1)}
    edges = {rank - 1: first.contiguous(), rank + 1: last.contiguous()}
    exchange({r: edges[r] for r in others}, {r: rooms[r] for r in others})
    return [rooms[rank - 1], rooms[rank + 1]]


def _edges(tensor: torch.Tensor) -> list[torch.Tensor]:
    return _arriving(tensor[:, :, :1], tensor[:, :, -1:])


def _with_edges(strip: torch.Tensor) -> torch.Tensor:
    above, below = _edges(strip)
    return torch.cat([above, strip, below], dim=2)


def _home(gradient: torch.Tensor) -> torch.Tensor:
    above, below = _edges(gradient)
    own = gradient[:, :, 1:-1].clone()
    own[:, :, :1] += above
    own[:, :, -1:] += below
    return own


class RightHalo(torch.autograd.Function):
    """What the wrong ones inherit, and spoil one half of."""

    @staticmethod
    def forward(ctx, strip):
        return _with_edges(strip)

    @staticmethod
    def backward(ctx, gradient):
        return _home(gradient)


@wrong(
    "14b-halo",
    advice="the copy of this row on rank 1, above its strip",
    note="Backward only cuts the halo off: its gradient never gets home.",
)
class CutsTheHaloOff(RightHalo):
    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, :, 1:-1].clone()


@wrong(
    "14b-halo",
    advice="added",
    note="`=` for `+=`: the strip's own gradient of its edge is lost.",
)
class ReplacesInsteadOfAdding(RightHalo):
    @staticmethod
    def backward(ctx, gradient):
        rank, _, others = _neighbours()
        above, below = _edges(gradient)
        own = gradient[:, :, 1:-1].clone()
        if rank - 1 in others:
            own[:, :, :1] = above
        if rank + 1 in others:
            own[:, :, -1:] = below
        return own


@wrong(
    "14b-halo",
    advice="wrong gradient of the",
    note="They follow the direction of the message instead of the row: what "
    "comes from above is about the first row.",
)
class AddsToTheOtherEdge(RightHalo):
    @staticmethod
    def backward(ctx, gradient):
        above, below = _edges(gradient)
        own = gradient[:, :, 1:-1].clone()
        own[:, :, -1:] += above
        own[:, :, :1] += below
        return own


@wrong(
    "14b-halo",
    advice="the first of rank 1's strip",
    note="They send the row that lies farthest from the neighbour.",
)
class SendsTheWrongEdge(RightHalo):
    @staticmethod
    def forward(ctx, strip):
        above, below = _arriving(strip[:, :, -1:], strip[:, :, :1])
        return torch.cat([above, strip, below], dim=2)


@wrong(
    "14b-halo",
    advice="no neighbour",
    note="As some libraries pad pictures. The convolution pads with zeros.",
)
class RepeatsTheBorder(RightHalo):
    @staticmethod
    def forward(ctx, strip):
        rank, ranks, _ = _neighbours()
        above, below = _edges(strip)
        above = above if rank > 0 else strip[:, :, :1]
        below = below if rank < ranks - 1 else strip[:, :, -1:]
        return torch.cat([above, strip, below], dim=2)


@wrong(
    "14b-halo",
    advice="whether that one receives",
    note="Everybody waits for a row before anybody sends one.",
    state="HUNG",
)
class ReceivesBeforeItSends(RightHalo):
    @staticmethod
    def forward(ctx, strip):
        rank, _, others = _neighbours()
        rooms = {r: torch.zeros_like(strip[:, :, :1]).contiguous() for r in others}
        for other in others:
            dist.recv(rooms[other], other)
        for other in others:
            edge = strip[:, :, :1] if other < rank else strip[:, :, -1:]
            dist.send(edge.contiguous(), other)
        return torch.cat([rooms.get(rank - 1), strip, rooms.get(rank + 1)], dim=2)


@right("14b-halo")
class WithSendsFirst(torch.autograd.Function):
    """isend to both, then recv; rows put into a tensor of zeros; padding backward."""

    @staticmethod
    def forward(ctx, strip):
        rank, _, others = _neighbours()
        batch, channels, rows, width = strip.shape
        whole = strip.new_zeros(batch, channels, rows + 2, width)
        whole[:, :, 1:-1] = strip
        edges = {rank - 1: strip[:, :, 0], rank + 1: strip[:, :, -1]}
        sent = [(e, dist.isend(e, r)) for r in others for e in [edges[r].contiguous()]]
        for other in others:
            room = torch.empty_like(whole[:, :, 0]).contiguous()
            dist.recv(room, other)
            whole[:, :, 0 if other < rank else -1] = room
        for _, work in sent:
            work.wait()
        return whole

    @staticmethod
    def backward(ctx, gradient):
        above, below = _edges(gradient)
        pad = torch.nn.functional.pad
        lower = gradient.shape[2] - 3
        inner = gradient[:, :, 1:-1]
        return inner + pad(above, (0, 0, 0, lower)) + pad(below, (0, 0, lower, 0))


# 14b-bytes ----------------------------------------------------------------------------


def _weights(channels) -> int:
    return sum(9 * a * b + b for a, b in pairwise(channels))


@wrong(
    "14b-bytes",
    advice="both ways|what travels",
    note="The gradient of everything that was swapped comes back.",
)
def forgets_the_way_back(batch, channels, height, width):
    inner = sum(channels[1:-1])
    return {
        "layers": 4 * batch * min(channels[1:-1]) * height * width,
        "channels": 2 * batch * (inner * height * width + channels[-1]),
        "space": 4 * (batch * (channels[0] + inner) * width + batch * channels[-1])
        + 4 * _weights(channels),
    }


@wrong(
    "14b-bytes",
    advice="row of each image",
    note="Nobody needs the gradient of the image.",
)
def image_row_both_ways(batch, channels, height, width):
    answer = bytes_of_splits(batch, channels, height, width)
    return answer | {"space": answer["space"] + 4 * batch * channels[0] * width}


@wrong(
    "14b-bytes",
    advice="160 instead of 80",
    note="The text asks for what one rank sends.",
)
def adds_up_both_ranks(batch, channels, height, width):
    answer = bytes_of_splits(batch, channels, height, width)
    return {way: 2 * sent for way, sent in answer.items()}


@wrong(
    "14b-bytes",
    advice="four bytes a number",
    note="Numbers instead of bytes: each takes four.",
)
def counts_numbers(batch, channels, height, width):
    answer = bytes_of_splits(batch, channels, height, width)
    return {way: sent // 4 for way, sent in answer.items()}


@wrong(
    "14b-bytes",
    advice="cheapest cut",
    note="They cut behind the first layer, though fewer channels may cross later.",
)
def cuts_after_the_first(batch, channels, height, width):
    answer = bytes_of_splits(batch, channels, height, width)
    return answer | {"layers": 4 * batch * channels[1] * height * width}


@wrong(
    "14b-bytes",
    advice="scores, both ways",
    note="Maps are counted, and the scores at the end are forgotten.",
)
def forgets_the_scores(batch, channels, height, width):
    answer = bytes_of_splits(batch, channels, height, width)
    scores = 4 * batch * channels[-1]
    return answer | {"channels": answer["channels"] - scores}


@right("14b-bytes")
def bytes_in_numpy(batch, channels, height, width):
    inner = np.array(channels[1:-1])
    channels = np.array(channels)
    weights = (9 * channels[:-1] * channels[1:] + channels[1:]).sum()
    rows = channels[0] + 2 * inner.sum()
    return {
        "space": 4 * (batch * (width * rows + 2 * channels[-1]) + weights),
        "layers": inner.min() * np.int64(4 * batch * height * width),
        "channels": 4 * batch * (height * width * inner.sum() + channels[-1]),
    }


@right("14b-bytes")
def bytes_message_by_message(batch, channels, height, width):
    sent = {"layers": [], "channels": [], "space": [batch * channels[0] * width]}
    for maps in channels[1:-1]:
        for _way in ("there", "back"):
            sent["channels"].append(batch * maps / 2 * height * width)
            sent["space"].append(batch * maps * width)
    sent["layers"] = [batch * min(channels[1:-1]) * height * width]
    sent["channels"] += [batch * channels[-1] / 2] * 2
    sent["space"] += [batch * channels[-1]] * 2
    sent["space"] += [(9 * a + 1) * b for a, b in pairwise(channels)]
    return {way: 4.0 * sum(numbers) for way, numbers in sent.items()}


# 14b-wavefront ------------------------------------------------------------------------


def _plan(layers, steps, turn, length=2, back=None) -> dict:
    back = back or (lambda layer, step: layers - 1 - layer + steps - 1 - step)
    plan = {}
    for layer in range(layers):
        for step in range(steps):
            plan["F", layer, step] = layer + step
            plan["B", layer, step] = turn + length * back(layer, step)
    return plan


@wrong(
    "14b-wavefront",
    advice="how long it takes",
    note="They turn the forward plan round, where everything takes one slot.",
)
def backward_takes_one_slot(layers, steps):
    return _plan(layers, steps, steps + layers - 1, length=1)


@wrong(
    "14b-wavefront",
    advice="has ended",
    note="The same order for both ways: but backward needs the step after.",
)
def back_in_the_order_of_forward(layers, steps):
    return _plan(layers, steps, steps + layers - 1, back=lambda a, b: a + b)


@wrong(
    "14b-wavefront",
    advice="could begin earlier",
    note="The cut of 14a: each layer waits for the whole one below.",
)
def layer_after_layer(layers, steps):
    plan, at = {}, 0
    for layer in range(layers):
        for step in range(steps):
            plan["F", layer, step] = at
            at += 1
    for layer in reversed(range(layers)):
        for step in reversed(range(steps)):
            plan["B", layer, step] = at
            at += 2
    return plan


@wrong(
    "14b-wavefront",
    advice="the form",
    note="They stop when the question of the text above is answered.",
)
def forwards_only(layers, steps):
    return {("F", a, b): a + b for a in range(layers) for b in range(steps)}


@wrong(
    "14b-wavefront",
    advice="has ended",
    note="All steps of a layer at once: a rank would have to do them together.",
)
def steps_at_the_same_time(layers, steps):
    plan = {("F", a, b): a for a in range(layers) for b in range(steps)}
    for layer in range(layers):
        for step in range(steps):
            plan["B", layer, step] = layers + 2 * (layers - 1 - layer)
    return plan


@wrong(
    "14b-wavefront",
    advice="the form",
    note="Layer and step are swapped in the keys.",
)
def step_before_layer(layers, steps):
    plan = _plan(layers, steps, steps + layers - 1)
    return {(kind, step, layer): begin for (kind, layer, step), begin in plan.items()}


@right("14b-wavefront")
def one_waits_for_two(layers, steps):
    """Cell by cell, each as early as what it needs allows."""
    ends = {}

    def run(cell, needs, takes):
        begin = max((ends[need] for need in needs if need in ends), default=0)
        ends[cell] = begin + takes
        return begin

    plan = {}
    for step in range(steps):
        for layer in range(layers):
            cell = "F", layer, step
            plan[cell] = run(cell, [("F", layer - 1, step), ("F", layer, step - 1)], 1)
    for step in reversed(range(steps)):
        for layer in reversed(range(layers)):
            cell, loss = ("B", layer, step), ("F", layers - 1, steps - 1)
            needs = [("B", layer + 1, step), ("B", layer, step + 1), loss]
            plan[cell] = run(cell, needs, 2)
    return plan


@right("14b-wavefront")
def plan_in_numpy(layers, steps):
    grid = np.add.outer(np.arange(layers), np.arange(steps))
    plan = {}
    for (layer, step), begin in np.ndenumerate(grid):
        plan["F", layer, step] = begin
        plan["B", layer, step] = steps + layers - 1 + 2 * (grid.max() - begin)
    return plan


right("14b-halo", name="all messages in one batch")(WithHalo)
