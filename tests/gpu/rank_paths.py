"""What ranks do on GPUs: lessons 10 to 17, with as many ranks as GPUs, two at the most.

Each function returns device, result and figure; it raises if a result is not the CPU's.
With one GPU there is one rank on NCCL; what two ranks do there is said, too.
"""

import os
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn import functional as F

from sidebyside import device, load_digits, run_ranks

Row = tuple[str, str, str]


def ranks_with_gpus() -> int:
    return max(1, min(2, torch.cuda.device_count()))


def place_and_backend() -> tuple[str, str]:
    """Runs in each rank."""
    return str(device()), dist.get_backend()


def places_of_ranks(world_size: int) -> str:
    chosen = run_ranks(place_and_backend, world_size=world_size)
    return ", ".join(f"{place} {backend}" for place, backend in chosen)


def backend_chosen() -> Row:
    """00: NCCL with a GPU for each rank, else gloo and the CPU"""
    gpus = torch.cuda.device_count()
    chosen = run_ranks(place_and_backend, world_size=ranks_with_gpus())
    expected = [(f"cuda:{rank}", "nccl") for rank in range(len(chosen))]
    assert chosen == expected, f"{chosen} instead of {expected}"
    too_many = run_ranks(place_and_backend, world_size=gpus + 1)
    assert set(too_many) == {("cpu", "gloo")}, too_many
    return f"{len(chosen)} GPUs", "equal", f"nccl; {gpus + 1} ranks: gloo on the CPU"


def ways_to_all_reduce() -> Row:
    """10b: four ways to all-reduce beside the library's"""
    gaps = run_ranks(gaps_of_all_reduces, world_size=ranks_with_gpus())[0]
    assert max(gaps.values()) < 1e-5, gaps
    shown = f"{len(gaps)} ways, largest gap {max(gaps.values()):.0e}"
    return places_of_ranks(ranks_with_gpus()), "equal", shown


def gaps_of_all_reduces() -> dict[str, float]:
    """Runs in each rank."""
    from parallel_by_hand.collectives.all_reduces import ALL_REDUCES

    dice = torch.Generator().manual_seed(dist.get_rank())
    mine, gaps = torch.rand(1000, generator=dice).to(device()), {}
    expected = mine.clone()
    dist.all_reduce(expected)
    for name, all_reduce in ALL_REDUCES.items():
        tensor = mine.clone()
        all_reduce(tensor)
        gaps[name] = (tensor - expected).abs().max().item()
    return gaps


def digits_losses_on_cpu(steps: int) -> list[float]:
    """Lesson 11's training in this process, without any device."""
    from parallel_by_hand.ddp.ddp_from_scratch import make_ddp_model

    model = make_ddp_model().cpu()
    sgd, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    images, labels = load_digits("train")
    for x, y in zip(images.split(64)[:steps], labels.split(64), strict=False):
        loss = F.cross_entropy(model(x), y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def check_ddp_rows(ranks: list[list[tuple]]) -> str:
    """Alone, together and on the CPU the losses are the same, and so are replicas."""
    gap = 0.0
    for rows in ranks:
        expected = digits_losses_on_cpu(len(rows))
        for (_, alone, together, difference, equal), loss in zip(
            rows, expected, strict=True
        ):
            assert equal, "replicas differ"
            gap = max(gap, abs(alone - loss), abs(together - loss), difference)
    assert gap < 1e-4, f"largest gap {gap}"
    return f"{len(ranks[0])} steps, largest gap {gap:.0e}"


def own_ddp() -> Row:
    """11: data parallel by our wrapper"""
    from parallel_by_hand.ddp.ddp_from_scratch import train_alone_and_with_ddp

    ranks = run_ranks(train_alone_and_with_ddp, 10, 2048, world_size=ranks_with_gpus())
    return places_of_ranks(ranks_with_gpus()), "equal", check_ddp_rows(ranks)


def torch_ddp() -> Row:
    """11: data parallel by torch's wrapper"""
    args = SimpleNamespace(mode="ddp", lr=0.1, epochs=2, batch=64, checkpoint=None)
    world_size = ranks_with_gpus()
    ours = run_ranks(train_digits_quietly, args, world_size=world_size)[0]
    args.mode = "single"
    alone = run_ranks(train_digits_quietly, args, world_size=1, timeout=90)[0]
    assert abs(ours["loss"] - alone["loss"]) < 1e-4, (ours, alone)
    return (
        places_of_ranks(world_size),
        "equal",
        f"loss {ours['loss']:.6f} after 2 epochs",
    )


def train_digits_quietly(args) -> dict:
    """Runs in each rank; the lines for each epoch go nowhere."""
    from parallel_by_hand.ddp.train_digits import train_digits_replica

    return train_digits_replica(args, os.devnull)


def ranks_share_gpu() -> Row:
    """11: more ranks than GPUs, on gloo, all their tensors on one GPU"""
    world_size = torch.cuda.device_count() + 1
    ranks = run_ranks(ddp_on_shared_gpu, 5, world_size=world_size)
    return f"cuda:0, {world_size} ranks", "equal", check_ddp_rows(ranks)


def ddp_on_shared_gpu(steps: int) -> list[tuple]:
    """Runs in each rank: the course would compute on the CPU here."""
    from parallel_by_hand.ddp import ddp_from_scratch

    assert dist.get_backend() == "gloo"
    del os.environ["CUDA_VISIBLE_DEVICES"]
    ddp_from_scratch.device = lambda: torch.device("cuda", 0)
    return ddp_from_scratch.train_alone_and_with_ddp(steps, 2048)


def pipeline_losses(make: str, ranks: int) -> tuple[list[float], list[float]]:
    """Losses of a pipeline, and of the whole network on this process's own device."""
    from demos.pipeline import train_pipeline
    from parallel_by_hand.pipeline import schedules

    schedule = getattr(schedules, make)(ranks, 4)
    args = SimpleNamespace(epochs=2, batch=128, lr=0.005)  # no faster: rounding grows
    found = run_ranks(
        train_pipeline.train_pipeline_stages, schedule, args, world_size=ranks
    )
    train_pipeline.device = lambda: torch.device("cpu")
    return found[-1]["losses"], train_pipeline.train_pipeline_in_one_process(args)[1]


def pipeline_equal_to_cpu(make: str, ranks: int) -> Row:
    ours, alone = pipeline_losses(make, ranks)
    gap = max(abs(a - b) for a, b in zip(ours, alone, strict=True))
    assert gap < 1e-3, f"largest gap {gap}"
    return places_of_ranks(ranks), "equal", f"losses of 2 epochs within {gap:.0e}"


def pipeline_gpipe() -> Row:
    """15: pipeline, GPipe's schedule"""
    return pipeline_equal_to_cpu("gpipe", ranks_with_gpus())


def pipeline_1f1b() -> Row:
    """15: pipeline, 1F1B"""
    return pipeline_equal_to_cpu("one_f_one_b", ranks_with_gpus())


def pipeline_with_too_few_gpus() -> Row:
    """15: pipeline, more ranks than GPUs"""
    place, _, figure = pipeline_equal_to_cpu("gpipe", torch.cuda.device_count() + 1)
    why = "gloo sends CPU tensors only, so these ranks compute on the CPU"
    return place, "says why not", f"{why}; {figure}"


def cut_network() -> Row:
    """14a: a network cut in two"""
    from parallel_by_hand.model_parallel.cut_training import train_part

    counts = [4, 4][: ranks_with_gpus()] if ranks_with_gpus() > 1 else [8]
    parts = run_ranks(train_part, counts, 4, world_size=len(counts))
    # one more than there are GPUs: gloo on the CPU
    spread = [8 // (n := torch.cuda.device_count() + 1)] * n
    spread[-1] += 8 - sum(spread)
    on_cpu = run_ranks(train_part, spread, 4, world_size=len(spread))
    gap = abs(parts[-1].losses[-1] - on_cpu[-1].losses[-1])
    assert gap < 1e-3, f"losses differ by {gap}"
    return places_of_ranks(len(counts)), "equal", f"losses of 4 steps within {gap:.0e}"


def tensor_parallel() -> Row:
    """16a: a layer split over ranks, beside the whole layer"""
    from parallel_by_hand.tensor_parallel.mlp import meter_block

    found = run_ranks(meter_block, "pair", 64, 32, world_size=ranks_with_gpus())
    gap = max(gap for rank in found for gap in rank["gaps"].values())
    assert gap < 1e-10, f"largest gap {gap}"
    return places_of_ranks(ranks_with_gpus()), "equal", f"largest gap {gap:.0e}"


def context_parallel_of_torch() -> Row:
    """16c: torch's context_parallel beside our ring"""
    count = ranks_with_gpus()
    gap = max(run_ranks(gap_to_context_parallel, world_size=count))
    assert gap < 0.03, f"largest gap {gap}, of the largest number"
    return places_of_ranks(count), "equal", f"bfloat16 beside float32: gap {gap:.0e}"


def gap_to_context_parallel() -> float:
    """Runs in each rank: of output and gradients, in shares of the largest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    from parallel_by_hand.context_parallel.chunks import own_chunks, zig_zag
    from parallel_by_hand.context_parallel.ring_attention import RingAttention

    torch.manual_seed(0)
    parts = list(torch.randn(3, 1, 4, 512, 64).to(device(), torch.bfloat16))
    ours = [own_chunks(t.float(), zig_zag, 2).requires_grad_() for t in parts]
    mixed = RingAttention.apply(*ours, zig_zag)
    mixed.sum().backward()
    mesh = init_device_mesh(device().type, (dist.get_world_size(),))
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3):
        theirs = [part.detach().requires_grad_() for part in parts]
        out = F.scaled_dot_product_attention(*theirs, is_causal=True)
        out.sum().backward()
    pairs = [
        (mixed, out),
        *((a.grad, b.grad) for a, b in zip(ours, theirs, strict=True)),
    ]
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in pairs)


def sharded_training() -> Row:
    """17: the stages of ZeRO beside DDP"""
    from parallel_by_hand.sharding.zero_from_scratch import WAYS, train_in_stage

    count, gap = ranks_with_gpus(), 0.0
    plain = run_ranks(train_in_stage, "DDP", world_size=count)[0]
    for way in WAYS:
        found = run_ranks(train_in_stage, way, world_size=count)[0]
        for ours, theirs in zip(found["losses"], plain["losses"], strict=True):
            gap = max(gap, abs(ours - theirs))
    assert gap < 1e-4, f"largest gap {gap}"
    return places_of_ranks(count), "equal", f"{len(WAYS)} ways, losses within {gap:.0e}"
