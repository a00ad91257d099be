"""Peers on a ring that average with their two neighbours, until all agree."""

from random import Random

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.collectives.eight_collectives import exchange
from sidebyside import device


def ring_mixing_matrix(ranks: int, self_weight: float = 1 / 3) -> Tensor:
    """Row r: how much each rank's value counts in the new value of rank r."""
    weights = torch.eye(ranks, dtype=torch.float64) * self_weight
    for rank in range(ranks):
        for neighbour in ((rank + 1) % ranks, (rank - 1) % ranks):
            weights[rank, neighbour] += (1 - self_weight) / 2
    return weights


def agreement_factor(weights: Tensor) -> float:
    """The second-largest eigenvalue modulus of a symmetric mixing matrix.

    Each round multiplies the distance to the mean by this at most, and in the long run
    by just this, if the start has a part in that direction. Xiao and Boyd, 2004.
    """
    moduli = torch.linalg.eigvalsh(weights).abs().sort(descending=True).values
    return moduli[1].item() if len(moduli) > 1 else 0.0


def gossip_weights_of_rank(weights: Tensor) -> dict[int, float]:
    """This rank's row: a weight for itself and for each of its neighbours."""
    rank, row = dist.get_rank(), weights[dist.get_rank()].tolist()
    return {other: w for other, w in enumerate(row) if w or other == rank}


def gossip_round(mine: Tensor, weights: dict[int, float]) -> None:
    """`mine` becomes the weighted mean of this rank's and its neighbours' tensors."""
    rank = dist.get_rank()
    arrived = {other: torch.empty_like(mine) for other in weights if other != rank}
    exchange(dict.fromkeys(arrived, mine), arrived)
    mine *= weights[rank]
    for other, tensor in arrived.items():
        mine += weights[other] * tensor


def gossip_values(rounds: int, weights: Tensor) -> list[float]:
    """Runs in each rank: its value at the start and after each round."""
    row, ranks = gossip_weights_of_rank(weights), dist.get_world_size()
    mine = torch.zeros(1, dtype=torch.float64, device=device())
    mine += ranks * (dist.get_rank() == 0)
    values = [mine.item()]
    for _ in range(rounds):
        gossip_round(mine, row)
        values.append(mine.item())
    return values


def random_neighbours(ranks: int, meetings: int, seed: int = 0) -> list[tuple]:
    """Pairs of neighbours on the ring that gossip, drawn one after another."""
    dice = Random(seed)
    first = [dice.randrange(ranks) for _ in range(meetings)]
    return [(rank, (rank + 1) % ranks) for rank in first]


def gossip_in_pairs(pairs: list[tuple]) -> list[float]:
    """Runs in each rank: its value at the start and after each meeting of any pair.

    No rounds: a rank waits for its own partners only. Boyd et al., 2006.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = torch.zeros(1, dtype=torch.float64, device=device())
    mine += ranks * (rank == 0)
    values = [mine.item()]
    for one, other in pairs:
        if rank in (one, other) and one != other:
            partner, arrived = one + other - rank, torch.empty_like(mine)
            exchange({partner: mine}, {partner: arrived})
            mine = (mine + arrived) / 2
        values.append(mine.item())
    return values


def pair_factor(ranks: int) -> float:
    """By how much gossip in pairs shrinks the squared distance: at most, on average.

    The second-largest eigenvalue of the mean of all pairs' mixing matrices.
    """
    every = [torch.eye(ranks, dtype=torch.float64) for _ in range(ranks)]
    for rank, matrix in enumerate(every):
        pair = [rank, (rank + 1) % ranks]
        matrix[pair, :] = matrix[pair, :].mean(0)
    return agreement_factor(torch.stack(every).mean(0))


def distances(of_ranks: list[list[float]]) -> Tensor:
    """How far gossiping ranks are from their mean: at the start, after each round."""
    values = torch.tensor(of_ranks, dtype=torch.float64)
    return (values - values.mean(0)).norm(dim=0)


def last_factor(far: Tensor) -> float:
    """The factor of the last round of gossip that left a distance above rounding."""
    last = int((far > 1e-9).sum()) - 1
    return (far[last] / far[last - 1]).item()
