"""Digits, trained alone, with torch's DDP, or with ours."""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.checkpoints.atomic_file import save_atomically
from parallel_by_hand.checkpoints.resuming import why_not_resume
from parallel_by_hand.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    make_ddp_model,
)
from sidebyside import device, load_digits
from sidebyside.programs.scratch import scratch_file

WRAPPERS = {
    "single": lambda model: model,
    "ddp": nn.parallel.DistributedDataParallel,
    "ours": DistributedDataParallel,
}
SETTINGS = ("batch", "lr")  # a run that is continued must not change these


def train_digits_replica(args: argparse.Namespace, report: str) -> dict:
    """Runs in each rank; rank 0 writes checkpoints and a line for each epoch."""
    model = make_ddp_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    done = 0
    warnings = _expect_warning() if args.checkpoint else []
    if args.checkpoint and args.checkpoint.exists():
        saved = torch.load(args.checkpoint, map_location=device())
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["epoch"]
    replica = WRAPPERS[args.mode](model)
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    for epoch in range(done, args.epochs):
        began = perf_counter()
        loss = train_digits_epoch(replica, optimizer, images, labels, epoch, args.batch)
        result = {"epoch": epoch + 1, "loss": loss, "accuracy": digits_accuracy(model)}
        is_last = epoch + 1 == args.epochs or any_rank_has(warnings)
        if dist.get_rank() == 0:
            if args.checkpoint and (is_last or (epoch + 1) % args.save_every == 0):
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch + 1,
                } | {name: getattr(args, name) for name in SETTINGS}
                save_atomically(state, args.checkpoint)
            seconds = perf_counter() - began
            with open(report, "a", encoding="utf-8") as file:
                file.write(
                    f"epoch {epoch + 1:4}  loss {loss:.6f}"
                    f"  held-out accuracy {result['accuracy']:.4f}  {seconds:.3f} s\n"
                )
        if is_last:
            break
    return result


def _expect_warning() -> list[int]:
    """An empty list, to which the signal SIGUSR1 adds its number: time is nearly up."""
    warnings: list[int] = []
    if hasattr(signal, "SIGUSR1"):  # not on Windows
        signal.signal(signal.SIGUSR1, lambda number, _: warnings.append(number))
    return warnings


def any_rank_has(warnings: list[int]) -> bool:
    """The same answer in each rank that trains digits, so that all stop together."""
    count = torch.tensor(float(len(warnings)), device=device())
    dist.all_reduce(count)
    return count.item() > 0


def train_digits_epoch(
    replica, optimizer, images, labels, epoch: int, size: int
) -> float:
    """One pass over the images in this epoch's order; the mean loss per image."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    deck = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
    total = torch.zeros((), device=images.device)
    for batch in deck.to(images.device).split(size):
        mine = batch[rank::world_size]  # perhaps one fewer than others have, or none
        loss = F.cross_entropy(replica(images[mine]), labels[mine], reduction="sum")
        optimizer.zero_grad()
        (loss * world_size / len(batch)).backward()  # DDP divides by world_size
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / len(images)


@torch.no_grad()
def digits_accuracy(model: nn.Module) -> float:
    """The share of the held-out images that is recognised."""
    images, labels = (tensor.to(device()) for tensor in load_digits("test"))
    return (model(images).argmax(1) == labels).float().mean().item()


@contextmanager
def report_digits_training(checkpoint: Path | None) -> Iterator[str]:
    """A file whose lines appear here at once; what ranks print appears at the end."""
    file, path = scratch_file()
    finished = Event()

    def follow() -> None:
        at_the_end = False
        while not at_the_end:
            at_the_end = finished.wait(0.1)
            print(file.read().decode(), end="", flush=True)

    thread = Thread(target=follow)
    thread.start()
    try:
        yield path
    except KeyboardInterrupt:
        later = "with --checkpoint FILE it could go on later"
        if checkpoint and checkpoint.exists():
            later = "the same command goes on from the last checkpoint"
        with open(path, "a", encoding="utf-8") as lines:
            lines.write(f"interrupted; {later}\n")
        raise
    finally:
        finished.set()
        thread.join()
        file.close()


def why_not_train_digits_on(args: argparse.Namespace) -> str:
    """What keeps this run from going on where the checkpoint stopped, or nothing."""
    if not args.checkpoint:
        return ""
    settings = {name: getattr(args, name) for name in SETTINGS}
    model = make_ddp_model()
    momentum = {i: {"momentum_buffer": p} for i, p in enumerate(model.parameters())}
    groups = torch.optim.SGD(model.parameters()).state_dict()["param_groups"]
    optimizer = {"state": momentum, "param_groups": groups}
    like = settings | {"model": model.state_dict(), "optimizer": optimizer, "epoch": 1}
    return why_not_resume(args.checkpoint, like, settings, "epoch", args.epochs)
