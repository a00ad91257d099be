"""Wrong answers to the exercises of lesson 10b, some of them published as right."""

import math
from itertools import pairwise

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.collectives.all_reduces import all_reduce_at_root
from parallel_by_hand.collectives.eight_collectives import exchange

# 10b-ring -----------------------------------------------------------------------------


def _around() -> tuple[int, int, int, int]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return rank, ranks, (rank + 1) % ranks, (rank - 1) % ranks


def _turn(chunks, outgoing: int, incoming: int) -> torch.Tensor:
    """Send one chunk to the right while another arrives."""
    _, _, right, left = _around()
    received = torch.empty_like(chunks[incoming])
    exchange({right: chunks[outgoing]}, {left: received})
    return received


def _ring_of(chunks, first_gathered: int = 1) -> None:
    rank, ranks, _, _ = _around()
    for step in range(ranks - 1):
        into = (rank - step - 1) % ranks
        chunks[into].add_(_turn(chunks, (rank - step) % ranks, into))
    for step in range(ranks - 1):
        out = (rank + first_gathered - step) % ranks
        into = (out - 1) % ranks
        chunks[into].copy_(_turn(chunks, out, into))


@wrong(
    "10b-ring",
    advice="one chunk of the tensor|added up",
    note="Published as a ring all-reduce more than once: the sum is right.",
)
def ring_of_whole_tensors(tensor):
    _, ranks, right, left = _around()
    travelling = tensor.clone()
    for _ in range(ranks - 1):
        received = torch.empty_like(travelling)
        exchange({right: travelling}, {left: received})
        tensor.add_(received)
        travelling = received


@wrong(
    "10b-ring",
    advice="send.*think about.*who receives",
    state="HUNG",
    note="All ranks send, and nobody receives.",
)
def ring_that_only_sends_first(tensor):
    rank, ranks, right, left = _around()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        into = (rank - step - 1) % ranks
        received = torch.empty_like(chunks[into])
        dist.send(chunks[(rank - step) % ranks], right)
        dist.recv(received, left)
        chunks[into].add_(received)


@wrong(
    "10b-ring",
    advice="shorter than the ring",
    note="`chunk` returns fewer pieces than ranks where the tensor is short; "
    "`tensor_split` does not.",
)
def ring_of_torch_chunks(tensor):
    _ring_of(tensor.view(-1).chunk(dist.get_world_size()))


@wrong(
    "10b-ring",
    advice="Follow one chunk|itself",
    note="Rounded down: the numbers beyond the last full chunk are never added.",
)
def ring_without_the_rest(tensor):
    ranks = dist.get_world_size()
    size = tensor.numel() // ranks
    flat = tensor.view(-1)
    _ring_of([flat[i * size : (i + 1) * size] for i in range(ranks)])


@wrong(
    "10b-ring",
    advice="which is finished",
    note="Each rank has one finished chunk; the second half, which hands them "
    "round, is missing.",
)
def ring_first_half_only(tensor):
    rank, ranks, _, _ = _around()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(ranks - 1):
        into = (rank - step - 1) % ranks
        chunks[into].add_(_turn(chunks, (rank - step) % ranks, into))


@wrong(
    "10b-ring",
    advice="which is finished",
    note="The second half begins with chunk r instead of r + 1.",
)
def ring_off_by_one(tensor):
    _ring_of(tensor.view(-1).tensor_split(dist.get_world_size()), first_gathered=0)


@wrong(
    "10b-ring",
    advice="`tensor` itself",
    note="The chunks are views of a copy; the caller's tensor stays as it was.",
)
def ring_on_a_copy(tensor):
    _ring_of(tensor.clone().view(-1).tensor_split(dist.get_world_size()))


@wrong(
    "10b-ring",
    advice="all_reduce of the library",
    note="The call whose inside is asked for.",
)
def ring_of_the_library(tensor):
    dist.all_reduce(tensor)


@wrong(
    "10b-ring",
    advice="while it sends",
    note="Even ranks send first, which avoids the deadlock and takes twice the steps.",
)
def ring_one_after_the_other(tensor):
    """Even ranks send first: no deadlock, and twice the steps."""
    rank, ranks, right, left = _around()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(2 * (ranks - 1)):
        into = (rank - step - 1) % ranks
        received = torch.empty_like(chunks[into])
        if rank % 2 == 0:
            dist.send(chunks[(rank - step) % ranks], right)
            dist.recv(received, left)
        else:
            dist.recv(received, left)
            dist.send(chunks[(rank - step) % ranks], right)
        if step < ranks - 1:
            chunks[into].add_(received)
        else:
            chunks[into].copy_(received)


@right(
    "10b-ring",
)
def ring_in_one_loop(tensor):
    rank, ranks, right, left = _around()
    chunks = tensor.view(-1).tensor_split(ranks)
    for step in range(2 * ranks - 2):
        arriving = chunks[(rank - step - 1) % ranks]
        received = torch.empty_like(arriving)
        request = dist.isend(chunks[(rank - step) % ranks], right)
        dist.recv(received, left)
        request.wait()
        arriving.copy_(received if step >= ranks - 1 else arriving + received)


@right(
    "10b-ring",
)
def ring_that_skips_empty_chunks(tensor):
    rank, ranks, right, left = _around()
    flat = tensor.view(-1)
    ends = [i * len(flat) // ranks for i in range(ranks + 1)]
    chunks = [flat[a:b] for a, b in pairwise(ends)]
    for step in range(2 * (ranks - 1)):
        outgoing, arriving = (chunks[(rank - step - i) % ranks] for i in (0, 1))
        works, received = [], torch.empty_like(arriving)
        if len(received):
            works.append(dist.irecv(received, left))
        if len(outgoing):
            works.append(dist.isend(outgoing.clone(), right))
        for work in works:
            work.wait()
        arriving.copy_(arriving + received if step < ranks - 1 else received)


wrong(
    "10b-ring",
    advice="right neighbour|is asked",
    note="All send to rank 0, which adds up and sends back: it carries the traffic"
    " of all.",
    name="root",
)(all_reduce_at_root)


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
    advice="first alpha",
    note="polyfit gives the slope first.",
)
def fit_swapped(sizes, seconds):
    return tuple(reversed(fit_as_weighted_polynomial(sizes, seconds)))


@wrong(
    "10b-fit",
    advice="what your weights mult",
    note="The root of the weights: polyfit multiplies errors, not their squares.",
)
def fit_weights_of_squares(sizes, seconds):
    beta, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.sqrt(seconds))
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
    advice="which errors are to be small",
    note="A line through two messages; the others count for nothing.",
)
def fit_first_and_last(sizes, seconds):
    (a, s), (b, t) = min(zip(sizes, seconds)), max(zip(sizes, seconds))  # noqa: B905
    beta = (t - s) / (b - a)
    return s - beta * a, beta


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
    advice="of the same size",
    note="A dict by size keeps the last message of each.",
)
def fit_one_time_of_each_size(sizes, seconds):
    times = dict(zip(sizes, seconds, strict=True))
    return fit_as_weighted_polynomial(list(times), list(times.values()))


@right(
    "10b-fit",
)
def fit_as_weighted_polynomial(sizes, seconds):
    return np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))[::-1]


@right(
    "10b-fit",
)
def fit_with_torch(sizes, seconds):
    size, time = torch.tensor([sizes, seconds], dtype=torch.float64)
    rows = torch.stack([1 / time, size / time], dim=1)
    return torch.linalg.lstsq(rows, torch.ones(len(sizes), 1).double()).solution[:, 0]


# 10b-choose ---------------------------------------------------------------------------


def _choose(root, tree, ring) -> str:
    times = {"root": root, "tree": tree, "ring": ring}
    return min(times, key=times.get)


@wrong(
    "10b-choose",
    advice="how the logarithm is rounded: 3 ranks need as many levels as 4. Or",
    note="Five ranks need three levels.",
)
def choose_levels_rounded_down(size, ranks, alpha, beta):
    levels, message = int(math.log2(ranks)), alpha + beta * size
    ring = 2 * (ranks - 1) * (alpha + beta * size / ranks)
    return _choose(2 * (ranks - 1) * message, 2 * levels * message, ring)


@wrong(
    "10b-choose",
    advice="logarithm is rounded",
    note="A tree of 5 ranks has three levels, not 2.3.",
)
def choose_levels_not_rounded(size, ranks, alpha, beta):
    levels, message = math.log2(ranks), alpha + beta * size
    ring = 2 * (ranks - 1) * (alpha + beta * size / ranks)
    return _choose(2 * (ranks - 1) * message, 2 * levels * message, ring)


@wrong(
    "10b-choose",
    advice="how long each is",
    note="S where S/N belongs: the ring's messages are chunks.",
)
def choose_whole_tensors_in_the_ring(size, ranks, alpha, beta):
    message = alpha + beta * size
    return _choose(
        2 * (ranks - 1) * message,
        2 * math.ceil(math.log2(ranks)) * message,
        2 * (ranks - 1) * message,
    )


@wrong(
    "10b-choose",
    advice="how many messages follow",
    note="As if all messages were on their way at once: alpha is paid once.",
)
def choose_one_latency(size, ranks, alpha, beta):
    levels = math.ceil(math.log2(ranks))
    return _choose(
        alpha + 2 * (ranks - 1) * beta * size,
        alpha + 2 * levels * beta * size,
        alpha + 2 * (ranks - 1) / ranks * beta * size,
    )


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
    note="The ring sends least; for small tensors its many steps cost more.",
)
def choose_ring_always(size, ranks, alpha, beta):
    return "ring"


@wrong(
    "10b-choose",
    advice="how many messages follow",
    note="For few ranks the root seems simplest; the ring is never slower.",
)
def choose_root_for_few(size, ranks, alpha, beta):
    if ranks <= 4:
        return "root"
    return choose_by_crossover(size, ranks, alpha, beta)


@wrong(
    "10b-choose",
    advice="how many messages follow",
    note="400 KB is the crossover of one link and one number of ranks.",
)
def choose_by_bytes_only(size, ranks, alpha, beta):
    return "tree" if size < 400_000 else "ring"


@right(
    "10b-choose",
)
def choose_by_crossover(size, ranks, alpha, beta):
    """Solved for the size, without computing any time."""
    levels, steps = (ranks - 1).bit_length(), ranks - 1
    if steps <= levels:
        return "ring"
    gained = beta * size * (levels - steps / ranks)
    return "tree" if gained < alpha * (steps - levels) else "ring"


@right(
    "10b-choose",
)
def choose_step_by_step(size, ranks, alpha, beta):
    """Counts levels by doubling, and adds message after message."""
    levels = 0
    while 2**levels < ranks:
        levels += 1
    ring = sum(alpha + beta * (size / ranks) for _ in range(2 * (ranks - 1)))
    tree = sum(alpha + beta * size for _ in range(2 * levels))
    root = sum(alpha + beta * size for _ in range(2 * (ranks - 1)))
    return sorted([(ring, "ring"), (tree, "tree"), (root, "root")])[0][1]
