"""Lesson 17c: traffic as a picture, small trials, and programs whose memory stays."""

# `fully_shard` gives the module back, as torch types do not say.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.flop_counter import FlopCounterMode

from parallel_by_hand.memory.device_memory import DeviceMemory
from parallel_by_hand.sharding.background_checkpoint import make_two_dimensions
from parallel_by_hand.sharding.clipping import clip_over_meshes
from parallel_by_hand.sharding.sharding_meter import ShardingMeter
from parallel_by_hand.sharding.stack_to_shard import (
    make_stack,
    recompute,
    shard_in_order,
    stack_loss,
    state_of_rank,
)
from sidebyside import COLOURS, device, figure


class TrafficOfStep(NamedTuple):
    """One step of one rank; all in bytes but the loss of the whole batch."""

    kept: int  # of parameters
    whole: int  # gathered, at the most
    sent: Counter[str]  # by collective
    between: int  # of it, to another machine of two ranks each
    loss: float


def measure_traffic(
    way: str = "sharded", autocast: bool = False, **choices
) -> TrafficOfStep:
    """Runs in each rank: one step, sharded over all, "hybrid" or "data × tensor"."""
    parts = dist.get_world_size()
    ranks = dist.get_rank(), parts
    if way == "hybrid":
        sizes, names = (parts // 2, 2), ("replica", "shard")
        choices["mesh"] = init_device_mesh(device().type, sizes, mesh_dim_names=names)
    if way == "data × tensor":
        mesh = make_two_dimensions(tensor=2)
        choices |= {"mesh": mesh["data"], "tensor": mesh["tensor"]}
        ranks = mesh["data"].get_local_rank(), mesh["data"].size()
    model = shard_in_order(make_stack(), **choices)
    sixteen = torch.autocast(device().type, torch.bfloat16, enabled=autocast)
    with ShardingMeter(model) as meter:
        with sixteen:
            loss = stack_loss(model, 0, *ranks)
        loss.backward()
    mean = loss.detach() / parts
    dist.all_reduce(mean)
    kept, _, _ = state_of_rank(model, torch.optim.SGD(model.parameters()))
    between = meter.sent_between(per_machine=2)
    return TrafficOfStep(kept, meter.whole, meter.sent(), between, mean.item())


def print_traffic(found: Mapping[str, TrafficOfStep]) -> None:
    """A line for each way: bytes of one rank, and the loss."""
    names = "kept", "whole", "all_gather", "reduce_scatter"
    print(f"{'':<25}" + "".join(f"{name:>16}" for name in names) + "    loss")
    for way, one in found.items():
        sizes = one.kept, one.whole, *(one.sent[name] for name in names[2:])
        columns = "".join(f"{size:16,}" for size in sizes)
        print(f"{way:<25}{columns}{one.loss:8.4f}")


def draw_places(found: Mapping[str, list[TrafficOfStep]]):
    """Two bars for each way: KB that rings send within machines, and between."""
    fig, ax = figure(height=2.3, stamp="computed", alt="")
    words = []
    for row, (way, ranks) in enumerate(found.items()):
        between = sum(one.between for one in ranks)
        within = sum(one.sent.total() for one in ranks) - between
        words.append(f"{way}: {within:,} bytes within machines, {between:,} between")
        for bar, (place, size) in enumerate(
            {"within": within, "between": between}.items()
        ):
            colour, y = COLOURS[bar], row + 0.4 * bar - 0.2
            ax.barh(y, size / 1000, 0.36, color=colour)
            text = f"{place} {size / 1000:,.0f}"
            ax.text(size / 1000 + 15, y, text, va="center", color=colour, fontsize=8)
    ax.set_yticks(range(len(found)), list(found))
    ax.invert_yaxis()
    ax.set_xlim(right=1.2 * ax.get_xlim()[1])
    ax.set_xlabel("KB that four ranks send in one step")
    fig.alt = "; ".join(words)
    return fig


def measure_recompute(again: str) -> tuple[int, float]:
    """Bytes that live after the forward of a stack, and the matrix products of the
    whole step as a multiple of those of its forward."""
    model = make_stack().to(device())
    if again != "nothing":
        for at, block in enumerate(model[:-1]):
            model[at] = recompute(block, selective=again == "all but products")
    with DeviceMemory() as memory, FlopCounterMode(display=False) as counter:
        loss = stack_loss(model, 0, 0, 1)
        kept, forward = memory.now, counter.get_total_flops()
        loss.backward()
    return kept, counter.get_total_flops() / forward


def operations_compiled() -> list[list[str]]:
    """Runs in each rank: what `torch.compile` hands to its compiler in two steps."""
    graphs = []

    def look(module, inputs):
        calls = [node for node in module.graph.nodes if node.op == "call_function"]
        graphs.append([node.target.__name__ for node in calls])
        return module.forward  # as it is: nothing is compiled here

    model = shard_in_order(make_stack(), compiler=look)
    for step in range(2):
        stack_loss(model, step, dist.get_rank(), dist.get_world_size()).backward()
    return graphs


def draw_whole(found: Mapping[str, Sequence[tuple[str, int]]], whole: int):
    """A strip for each setting: how much of the model is gathered in the course of one
    step, after each operation. `whole`: bytes of all parameters."""
    words = []
    fig, axes = figure(len(found), height=3, stamp="measured here", sharex=True)
    for ax, (off, entries), colour in zip(axes, found.items(), COLOURS, strict=False):
        held = [size / whole for _, size in entries]
        times = [place / len(held) for place in range(len(held))]
        ax.fill_between(times, held, step="mid", color=colour, lw=0)
        ax.set(ylim=(0, 1.1), yticks=[0, 1], yticklabels=["0 %", "100 %"], xticks=[])
        ax.set_title(f"off: {off}", fontsize=9, loc="left", color=colour, pad=2)
        mean = sum(held) / len(held)
        words.append(f"off {off}: at most {max(held):.0%}, {mean:.0%} on average")
    axes[-1].set_xlabel("four micro-batches, operation by operation")
    fig.alt = "share of the parameters that is gathered; " + "; ".join(words)
    return fig


def shards_after_own_draw() -> bool:
    """Runs in each rank: do all ranks hold the same numbers, once each has drawn?"""
    torch.manual_seed(0)
    with torch.device("meta"):
        layer = nn.Linear(8, 8)
    fully_shard(layer)
    layer.to_empty(device=device())
    nn.init.uniform_(layer.weight.to_local())
    mine = layer.weight.to_local().detach()
    pieces = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, mine)
    return all(torch.equal(piece, mine) for piece in pieces)


def step_with_overflow(where: int | None, tensor: int = 1) -> tuple[float, bool]:
    """Runs in each rank: one step whose gradient overflows in rank `where`'s shard.

    The scale afterwards, which was 1024, and whether this rank has updated its shard.
    """
    mesh = make_two_dimensions(tensor)
    data, split = mesh["data"], mesh["tensor"] if tensor > 1 else None
    model = shard_in_order(make_stack(1), data, split)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    scaler = torch.amp.GradScaler(device().type, init_scale=1024.0)
    loss = stack_loss(model, 0, data.get_local_rank(), data.size())
    scaler.scale(loss).backward()
    shard = model[0].wide.weight
    if dist.get_rank() == where:
        shard.grad.to_local()[0] = torch.inf
    before = shard.to_local().detach().clone()
    scaler.step(sgd)
    scaler.update()
    return scaler.get_scale(), not torch.equal(shard.to_local(), before)


def clipped_norm() -> tuple[str, list[int], float]:
    """Runs in each of four ranks, data × tensor: what torch's own clipping says, how
    many parameters lie on each mesh, and the norm that is put together from both."""
    mesh = make_two_dimensions(tensor=2)
    model = shard_in_order(make_stack(), mesh["data"], mesh["tensor"])
    stack_loss(model, 0, mesh["data"].get_local_rank(), mesh["data"].size()).backward()
    said = ""
    try:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    except RuntimeError as error:
        said = str(error).split(",")[0]
    meshes = [parameter.device_mesh.ndim for parameter in model.parameters()]
    norm = clip_over_meshes(model.parameters(), 1.0)
    return said, [meshes.count(2), meshes.count(1)], norm.item()


# Programs whose memory does not shrink ------------------------------------------------


class KeptInStep(NamedTuple):
    """What a rank keeps: in bytes, but for the number of gathers in the step."""

    parameters: int
    gradients: int  # after the first of two micro-batches
    optimiser: int
    whole: int  # gathered, at the most
    gathers: int


def keep_in_step(program: str) -> KeptInStep:
    """Runs in each rank: a step of the healthy program, or of one of P, Q, R, S, T."""
    model, mesh = make_stack(), None
    adam = torch.optim.Adam(model.parameters(), foreach=False)
    if program == "R":
        sizes, names = (dist.get_world_size(), 1), ("replica", "shard")
        mesh = init_device_mesh(device().type, sizes, mesh_dim_names=names)
    if program == "P":
        fully_shard(model)
    else:
        shard_in_order(model, mesh)
    if program == "S":
        model.set_reshard_after_forward(False)
    if program != "T":
        adam = torch.optim.Adam(model.parameters(), foreach=False)
    gradients, share = [], (dist.get_rank(), dist.get_world_size())
    with ShardingMeter(model) as meter:
        for last in (False, True):
            model.set_requires_gradient_sync(last or program != "Q")
            stack_loss(model, 0, *share).backward()
            gradients.append(_bytes_of_gradients(model))
    adam.step()
    parameters, _, optimiser = state_of_rank(model, adam)
    own = {id(parameter) for parameter in model.parameters()}
    others = [p for p in adam.param_groups[0]["params"] if id(p) not in own]
    parameters += sum(other.nbytes for other in others)
    return KeptInStep(
        parameters, gradients[0], optimiser, meter.whole, meter.gathers.total()
    )


def _bytes_of_gradients(model: nn.Module) -> int:
    """In shards, and whole ones that FSDP2 holds back."""
    held = [
        parameter._unsharded_param.grad
        for unit in model.modules()
        if isinstance(unit, FSDPModule)
        for group in unit._get_fsdp_state()._fsdp_param_groups
        for parameter in group.fsdp_params
    ]
    shards = [p.grad.to_local() for p in model.parameters() if p.grad is not None]
    return sum(g.nbytes for g in [*held, *shards] if g is not None)


def print_kept(programs: Mapping[str, KeptInStep]) -> None:
    print(f"{'':<8}" + "".join(f"{name:>12}" for name in KeptInStep._fields))
    for program, kept in programs.items():
        print(f"{program:<8}" + "".join(f"{count:12,}" for count in kept))
