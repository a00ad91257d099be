"""Training without a middle: a step of one's own, then a round of gossip."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from parallel_by_hand.decentralised.gossip import gossip_round, gossip_weights_of_rank
from parallel_by_hand.decentralised.local_sgd import (
    LocalRun,
    flat_parameters,
    local_batches,
    local_step,
)
from parallel_by_hand.sgd.digits_network import digits_network
from sidebyside import MessageMeter


def gossip_models(model: nn.Module, weights: dict[int, float]) -> None:
    """In training by gossip, a model becomes the weighted mean with its neighbours'."""
    flat = flat_parameters(model)
    gossip_round(flat, weights)
    vector_to_parameters(flat, model.parameters())


def train_by_gossip(weights: Tensor, steps: int = 128) -> LocalRun:
    """Runs in each rank: after each step a round with the weights of the matrix.

    Decentralised SGD (Lian et al., 2017). No meeting ends the training: the models
    are close, and not equal.
    """
    model, row = digits_network(), gossip_weights_of_rank(weights)
    batches = local_batches(dist.get_rank(), dist.get_world_size(), steps)
    history = [flat_parameters(model)]
    with MessageMeter() as meter:
        for mine in batches:
            local_step(model, mine)
            gossip_models(model, row)
            history.append(flat_parameters(model))
    return LocalRun(torch.stack(history).cpu(), meter)
