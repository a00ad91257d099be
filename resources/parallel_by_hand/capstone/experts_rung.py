"""A rung for lesson 16d's experts, predicted from the routers of one process."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.capstone.ladder_rungs import ClimbedRank, climb
from parallel_by_hand.capstone.language_model import SMALL_MODEL, make_language_model
from parallel_by_hand.capstone.strategy_wrappers import deal_rows
from parallel_by_hand.capstone.text_batches import text_batch
from parallel_by_hand.capstone.trainer import Strategy, Wrapper
from parallel_by_hand.experts.expert_layer import (
    ExpertLayer,
    complete_gradients,
    is_expert,
    split_experts,
)
from sidebyside import run_ranks

EXPERTS_MODEL = SMALL_MODEL._replace(experts=4)


def expert_parallel(training, mesh) -> None:
    """A wrapper: all ranks share rows, and the experts of each layer (lesson 16d)."""
    deal_rows(training, mesh)
    group = mesh.get_group()
    layers = [
        split_experts(layer, group) if isinstance(layer, ExpertLayer) else layer
        for layer in training.model
    ]
    training.model = nn.Sequential(*layers)
    alone, _ = dist.new_subgroups(1)  # no other rank has the same experts
    training.complete = lambda: complete_gradients(training.model, alone)


def predict_experts(trail: Tensor) -> tuple[int, int]:
    """What each of two ranks sends in the second step, and its state, both in bytes.

    `trail[0]` is the model before that step. Its routers say which tokens of one half
    of the batch visit experts of the other rank.
    """
    model = make_language_model(EXPERTS_MODEL, trail.dtype)
    nn.utils.vector_to_parameters(trail[0], model.parameters())
    model(text_batch(step=1)[0])
    half, crossing, counts = EXPERTS_MODEL.experts // 2, 0, 0
    for layer in model:
        if isinstance(layer, ExpertLayer):
            first, second = layer.chosen.chunk(2)
            crossing += int((first >= half).sum() + (second < half).sum())
            counts += EXPERTS_MODEL.experts + half  # all, then the other rank's
    shared = sum(p.numel() for n, p in model.named_parameters() if not is_expert(n))
    total, item = trail.shape[1], trail.itemsize
    # a row, an answer and their gradients: two of these four from each rank
    visits = 2 * crossing * EXPERTS_MODEL.width
    state = 3 * (shared + (total - shared) // 2) * item
    return (shared + visits) * item + counts * torch.int64.itemsize, state


def climb_experts(
    trail: Tensor, wrapper: Wrapper = expert_parallel
) -> list[ClimbedRank]:
    """Both ranks, compared with the trail of one process after every step."""
    strategy = Strategy({"experts": 2}, {"experts": wrapper})
    how = strategy, len(trail), trail.dtype, trail, EXPERTS_MODEL
    return [rank for rank, _ in run_ranks(climb, *how, world_size=2)]
