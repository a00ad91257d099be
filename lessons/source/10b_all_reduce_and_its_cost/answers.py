"""Wrong answers to the exercises of lesson 10b, some of them published as right."""

import math

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.collectives.eight_collectives import exchange

# 10b-ring -----------------------------------------------------------------------------


def _at_once(outgoing, right: int, incoming, left: int) -> None:
    exchange({right: outgoing}, {left: incoming})


def _send_first(outgoing, right: int, incoming, left: int) -> None:
    dist.send(outgoing, right)
    dist.recv(incoming, left)


def _even_ranks_send_first(outgoing, right: int, incoming, left: int) -> None:
    if dist.get_rank() % 2 == 0:
        _send_first(outgoing, right, incoming, left)
    else:
        dist.recv(incoming, left)
        dist.send(outgoing, right)


def _ring(tensor, turn=_at_once, cut=torch.Tensor.tensor_split, first_gathered=1):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = cut(tensor.view(-1), ranks)
    for step in range(2 * (ranks - 1)):
        adds = step < ranks - 1
        out = (rank - step - (0 if adds else first_gathered - 1)) % ranks
        arriving = chunks[(out - 1) % ranks]
        received = torch.empty_like(arriving)
        turn(chunks[out], (rank + 1) % ranks, received, (rank - 1) % ranks)
        arriving.copy_(arriving + received if adds else received)


@wrong(
    "10b-ring",
    advice="one chunk of the tensor|added up",
    note="Published as a ring all-reduce more than once: the sum is right.",
)
def ring_of_whole_tensors(tensor):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    travelling = tensor.clone()
    for _ in range(ranks - 1):
        received = torch.empty_like(travelling)
        _at_once(travelling, (rank + 1) % ranks, received, (rank - 1) % ranks)
        tensor.add_(received)
        travelling = received


@wrong(
    "10b-ring",
    advice="send.*think about.*who receives",
    state="HUNG",
    note="All ranks send, and nobody receives.",
)
def ring_that_only_sends_first(tensor):
    _ring(tensor, _send_first)


@wrong(
    "10b-ring",
    advice="are there as many as ranks",
    note="`chunk` returns fewer pieces than ranks where the tensor is short.",
)
def ring_of_torch_chunks(tensor):
    _ring(tensor, cut=torch.Tensor.chunk)


@wrong(
    "10b-ring",
    advice="which is finished",
    note="The second half begins with a neighbouring chunk.",
)
def ring_off_by_one(tensor):
    _ring(tensor, first_gathered=2)


@wrong(
    "10b-ring",
    advice="`tensor` itself",
    note="The chunks are views of a copy; the caller's tensor stays as it was.",
)
def ring_on_a_copy(tensor):
    _ring(tensor.clone())


@wrong(
    "10b-ring",
    advice="while it sends",
    note="Even ranks send first, which avoids the deadlock and takes twice the steps.",
)
def ring_one_after_the_other(tensor):
    _ring(tensor, _even_ranks_send_first)


@wrong(
    "10b-ring",
    advice="the dtype: torch.float64",
    note="What arrives is rounded to 32 bits, whatever the tensor has.",
)
def ring_in_32_bits(tensor):
    def turn(outgoing, right, incoming, left):
        _at_once(outgoing, right, incoming, left)
        incoming.copy_(incoming.float())

    _ring(tensor, turn)


@right("10b-ring")
def ring_in_one_loop(tensor):
    _ring(tensor)


@right("10b-ring")
def ring_of_rounded_up_chunks(tensor):
    """Right: all chunks have the size of the longest, but for the last ones."""

    def cut(flat, ranks):
        size = -(-flat.numel() // ranks)
        return [flat[i * size : (i + 1) * size] for i in range(ranks)]

    _ring(tensor, cut=cut)


@right("10b-ring")
def ring_of_requests(tensor):
    def turn(outgoing, right: int, incoming, left: int) -> None:
        request = dist.isend(outgoing, right)
        dist.recv(incoming, left)
        request.wait()

    _ring(tensor, turn)


# 10b-fit ------------------------------------------------------------------------------


@wrong(
    "10b-fit",
    advice="Did you take errors in seconds",
    note="The default of every library. Let them print alpha: it may be < 0.",
)
def fit_in_seconds(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1)
    return alpha, beta


@wrong(
    "10b-fit",
    advice="what your weights multiply",
    note="The weights squared: polyfit multiplies errors, not their squares.",
)
def fit_weights_squared(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds) ** 2)
    return alpha, beta


@wrong(
    "10b-fit",
    advice="first alpha",
    note="polyfit gives the slope first.",
)
def fit_swapped(sizes, seconds):
    return tuple(reversed(fit_as_weighted_polynomial(sizes, seconds)))


@wrong(
    "10b-fit",
    advice="which errors are to be small",
    note="The fastest message is taken for the latency.",
)
def fit_smallest_time(sizes, seconds):
    alpha = min(seconds)
    rest = [(t - alpha) / s for s, t in zip(sizes, seconds, strict=True)]
    return alpha, sum(rest) / len(rest)


@wrong(
    "10b-fit",
    advice="which errors are to be small",
    note="A straight line in a log-log plot is a power law, another curve.",
)
def fit_of_logarithms(sizes, seconds):
    slope, intercept = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return math.exp(intercept), slope


@wrong(
    "10b-fit",
    advice="which errors are to be small",
    note="The line through the shortest and the longest message; the rest is unused.",
)
def fit_through_both_ends(sizes, seconds):
    (small, quick), *_, (large, slow) = sorted(zip(sizes, seconds, strict=True))
    beta = (slow - quick) / (large - small)
    return quick - beta * small, beta


@right("10b-fit")
def fit_as_weighted_polynomial(sizes, seconds):
    return np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))[::-1]


@right("10b-fit")
def fit_with_torch(sizes, seconds):
    size, time = torch.tensor([sizes, seconds], dtype=torch.float64)
    rows = torch.stack([1 / time, size / time], dim=1)
    return torch.linalg.lstsq(rows, torch.ones(len(sizes), 1).double()).solution[:, 0]


# 10b-choose ---------------------------------------------------------------------------


def _choose_with(
    levels=lambda ranks: math.ceil(math.log2(ranks)), latencies=None, parts=None
):
    """The quickest way, for a tree of so many `levels`."""

    def fastest(size, ranks, alpha, beta):
        messages = {"root": 2 * (ranks - 1), "tree": 2 * levels(ranks)}
        messages["ring"] = messages["root"]
        sizes = {"root": size, "tree": size, "ring": size / (parts or ranks)}
        times = {
            way: (latencies or count) * alpha + count * beta * sizes[way]
            for way, count in messages.items()
        }
        return min(times, key=times.get)

    return fastest


wrong(
    "10b-choose",
    advice="how the logarithm is rounded: 3 ranks need as many levels as 4. Or",
    note="Five ranks need three levels.",
    name="levels_rounded_down",
)(_choose_with(levels=lambda ranks: int(math.log2(ranks))))
wrong(
    "10b-choose",
    advice="how long each is",
    note="S where S/N belongs: the ring's messages are chunks.",
    name="whole_tensors_in_the_ring",
)(_choose_with(parts=1))
wrong(
    "10b-choose",
    advice="logarithm is rounded",
    note="A tree of 5 ranks has three levels, not 2.3.",
    name="levels_not_rounded",
)(_choose_with(levels=math.log2))
wrong(
    "10b-choose",
    advice="how many messages follow",
    note="As if all messages were on their way at once: alpha is paid once.",
    name="one_latency",
)(_choose_with(latencies=1))


@wrong(
    "10b-choose",
    advice="how many messages",
    note="The lesson's crossover is that of four ranks; it moves with N.",
)
def choose_crossover_of_four(size, ranks, alpha, beta):
    return "tree" if size * beta < 0.8 * alpha else "ring"


@wrong(
    "10b-choose",
    advice="how many messages follow",
    note="400 KB is the crossover of one link and one number of ranks.",
)
def choose_by_bytes_only(size, ranks, alpha, beta):
    return "tree" if size < 400_000 else "ring"


@right("10b-choose")
def choose_by_crossover(size, ranks, alpha, beta):
    """Solved for the size, without computing any time."""
    levels, steps = (ranks - 1).bit_length(), ranks - 1
    if steps <= levels:
        return "ring"
    gained = beta * size * (levels - steps / ranks)
    return "tree" if gained < alpha * (steps - levels) else "ring"


right("10b-choose", name="by_times")(_choose_with())
