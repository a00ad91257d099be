"""What the checks of lesson 20a run in each rank, and what they note there."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from parallel_by_hand.capstone.language_model import ModelSize
from parallel_by_hand.capstone.strategy_wrappers import (
    pipeline_parallel,
    sequence_parallel,
    tensor_parallel,
)
from parallel_by_hand.capstone.trainer import Strategy, train
from parallel_by_hand.capstone.whole_state import flat_numbers
from parallel_by_hand.pipeline.schedules import one_f_one_b
from sidebyside import device

TINY = ModelSize(width=8, heads=2, blocks=1, length=8)
INSIDE = {  # what the wrapper is put round
    "nothing": {},
    "tensor": {"tensor": tensor_parallel},
    "sequence": {"tensor": sequence_parallel},
    "pipeline": {"tensor": pipeline_parallel(one_f_one_b, 2)},
}


def make_check_mesh(sizes: dict[str, int]):
    return init_device_mesh(
        device().type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)
    )


# 20a-wrapper --------------------------------------------------------------------------


class WrapperNotes(NamedTuple):
    """What one rank saw of a wrapper round a made-up training."""

    rows: list[int] | None  # dealt to this rank; None: no two tensors
    expected_rows: list[int]
    targets_follow: bool
    former_complete: int  # how often the former function was called
    gradients: list[list[float]]
    expected: list[list[float]]
    of_all_ranks: list[list[float]]  # had everybody been averaged


def try_wrapper(wrapper: Callable, sizes: dict[str, int]) -> WrapperNotes:
    """Runs in each rank: the wrapper on the dimension "data", with numbers by hand."""
    data = make_check_mesh(sizes)["data"]
    model = nn.Linear(3, 2, device=device(), dtype=torch.float64)
    training, calls = _made_up_training_to_wrap(model)
    wrapper(training, data)
    for place, p in enumerate(model.parameters()):
        p.grad = torch.full_like(p, 10.0**place * (dist.get_rank() + 1))
    rows = torch.arange(12 * data.size(), device=device())[:, None]
    taken, goals = _wrapper_deals_two_tensors(training.deal(rows, rows + 100))
    half = rows[len(rows) // 2 :].chunk(data.size())[data.get_local_rank()]
    training.complete()
    group = dist.get_process_group_ranks(data.get_group())
    return WrapperNotes(
        None if taken is None else taken.flatten().tolist(),
        half.flatten().tolist(),
        goals is not None and torch.equal(goals, taken + 100),
        len(calls),
        [p.grad.flatten().tolist() for p in model.parameters()],
        _mean_gradients_to_wrap(model, group),
        _mean_gradients_to_wrap(model, range(dist.get_world_size())),
    )


def _made_up_training_to_wrap(model: nn.Module) -> tuple[SimpleNamespace, list[str]]:
    """A training whose inner wrappers deal half of the rows and complete gradients."""
    calls, rank = [], dist.get_rank()

    def former_deal(inputs, targets):
        return inputs[len(inputs) // 2 :], targets[len(targets) // 2 :]

    def former_complete() -> None:
        calls.append("former")
        for p in model.parameters():
            p.grad += rank + 1

    return SimpleNamespace(
        model=model, deal=former_deal, complete=former_complete
    ), calls


def _mean_gradients_to_wrap(model: nn.Module, ranks) -> list[list[float]]:
    sizes = [p.numel() for p in model.parameters()]
    shares = sum(rank + 1 for rank in ranks) / len(ranks)
    return [size * [(10.0**at + 1) * shares] for at, size in enumerate(sizes)]


def _wrapper_deals_two_tensors(dealt) -> tuple:
    whole = isinstance(dealt, tuple | list) and len(dealt) == 2
    if whole and all(isinstance(part, torch.Tensor) for part in dealt):
        return tuple(dealt)
    return None, None


def train_with_wrapper(
    wrapper: Callable, sizes: dict[str, int], inside: list[str], batch: int
) -> dict[str, float]:
    """Runs in each rank: the largest difference from one process, for each inside."""
    given = {"size": TINY, "batch": batch, "dtype": torch.float64}
    trail = []
    train(
        Strategy({}, {}),
        2,
        **given,
        after_step=lambda *step: trail.append(flat_numbers(step[2].held())),
    )
    found = {}
    for name in inside:
        gaps = []

        def compare(step, loss, training, gaps=gaps) -> None:
            whole = torch.cat([trail[step].new_zeros(1), trail[step]])
            mine = whole[training.addresses.held.to(whole.device)]
            gap = (flat_numbers(training.held()) - mine).abs().max()
            gaps.append(gap.item())

        strategy = Strategy(sizes, INSIDE[name] | {"data": wrapper})
        train(strategy, 2, **given, after_step=compare)
        found[name] = torch.tensor(gaps).max().item()  # nan, if one is
    return found


# 20a-clip -----------------------------------------------------------------------------


class MeshClipCase(NamedTuple):
    """`split` and `whole` are numbers of each gradient."""

    split: tuple[int, ...]
    whole: tuple[int, ...]
    longest: float
    dtype: torch.dtype = torch.float64


class MeshClipNotes(NamedTuple):
    returned: object
    length: float
    squares: tuple[float, float]  # sums over split gradients and over whole ones
    twice: float  # the length with whole gradients counted on each tensor rank
    gradients: list[torch.Tensor]
    expected: list[torch.Tensor]
    moved: bool


def try_mesh_clips(
    clip: Callable, sizes: dict[str, int], cases: list[MeshClipCase]
) -> list[MeshClipNotes]:
    mesh = make_check_mesh(sizes)
    return [_try_mesh_clip(clip, mesh, seed, case) for seed, case in enumerate(cases)]


def _try_mesh_clip(clip, mesh, seed: int, case: MeshClipCase) -> MeshClipNotes:
    """This rank's part of gradients that all ranks draw whole."""
    tensor, mine, once, whole = mesh["tensor"], {}, 0.0, 0.0
    generator = torch.Generator().manual_seed(seed)
    for place, numbers in enumerate(case.split):
        parts = torch.randn(tensor.size(), numbers, generator=generator).to(case.dtype)
        once += parts.double().square().sum().item()
        mine[f"wide {place}"] = parts[tensor.get_local_rank()].clone().to(device())
    for place, numbers in enumerate(case.whole):
        norm = torch.randn(numbers, generator=generator).to(case.dtype)
        whole += norm.double().square().sum().item()
        mine[f"norm {place}"] = norm.to(device())
    length = (once + whole) ** 0.5
    factor = min(1.0, case.longest / length)
    expected = [(g * factor).cpu() for g in mine.values()]
    given = dict(mine)
    returned = clip(
        given, {name for name in mine if "wide" in name}, mesh, case.longest
    )
    return MeshClipNotes(
        returned,
        length,
        (once, whole),
        (once + tensor.size() * whole) ** 0.5,
        [given.get(name, g).cpu() for name, g in mine.items()],
        expected,
        any(given.get(name) is not g for name, g in mine.items()),
    )
