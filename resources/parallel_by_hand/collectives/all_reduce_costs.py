"""What each way to all-reduce costs, from alpha and beta, before anything is sent."""

from math import ceil, log2

WAYS = ("root", "tree", "ring", "halving-doubling")


def messages_and_bytes(way: str, ranks: int, size: float) -> tuple[int, float]:
    """How many messages of an all-reduce follow one another, and the bytes they carry.

    `size` is the tensor's, in bytes. A rank can send one message and receive one at
    the same time, but never two of a kind.
    """
    if way == "root":
        return 2 * (ranks - 1), 2 * (ranks - 1) * size
    if way == "tree":
        levels = ceil(log2(ranks))
        return 2 * levels, 2 * levels * size
    if way == "ring":
        return 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size
    if way == "halving-doubling":
        power = 2 ** int(log2(ranks))
        messages, carried = 2 * int(log2(ranks)), 2 * (power - 1) / power * size
        if power < ranks:  # the others give their tensors first, and get the sum
            messages, carried = messages + 2, carried + 2 * size
        return messages, carried
    raise ValueError(f"way must be one of {', '.join(WAYS)}, not {way!r}")


def predicted_seconds(
    way: str, ranks: int, size: float, alpha: float, beta: float
) -> float:
    """T = alpha * messages + beta * bytes: seconds for an all-reduce of `size`."""
    messages, carried = messages_and_bytes(way, ranks, size)
    return alpha * messages + beta * carried


def predicted_crossover(ranks: int, alpha: float, beta: float) -> float:
    """The bytes from which on a ring's all-reduce beats a tree's; 4 ranks or more."""
    tree, by_tree = messages_and_bytes("tree", ranks, 1)
    ring, by_ring = messages_and_bytes("ring", ranks, 1)
    if ring <= tree:
        raise ValueError(f"with {ranks} ranks, a tree has as many steps as a ring")
    return alpha * (ring - tree) / (beta * (by_tree - by_ring))
