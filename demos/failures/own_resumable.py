"""Training that survives the death of a rank, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2 --max-restarts 3
              demos/failures/own_resumable.py --checkpoint saved.pt --kill-at 25
              (one line; the kill is an experiment)
Look for: the last rank kills itself after step 25. torchrun starts all ranks again,
          they go on after step 20, and the loss is that of a run without the kill.
          (With torch 2.13 set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 first, or torchrun
          keeps one store for all restarts, and a rank may find a dead one's address.)
Try:      the same line again: it has nothing left to do. And without --checkpoint.
"""

import argparse
import contextlib
import os
import signal
import tempfile
import zipfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.nn import Dropout, Linear, ReLU, Sequential, functional
from torch.nn.parallel import DistributedDataParallel

EVERY, STEPS = 10, 60


def file_name(text: str) -> str:
    """The file's path, behind a link too, once 2 MB have been written beside it."""
    path = os.path.realpath(text)
    folder, name = os.path.split(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "not a file")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=name) as trial:
            trial.write(bytes(2_000_000))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    return path


def step_number(text: str) -> int:
    if len(text) > 2 or not text.isdecimal() or not 1 <= int(text) < STEPS:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 1 to {STEPS - 1}"
        )
    return int(text)


def save(state: dict, path: str) -> None:
    """The file under `path` is whole at any moment, old or new."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path + ".unfinished")  # left by a rank that was killed
    with open(path + ".unfinished", "xb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def start_or_go_on(path: str | None, device: str) -> tuple:
    """Layers, optimizer, noise of ranks, steps done, loss: new, or the checkpoint's."""
    layers = Sequential(Linear(64, 32), ReLU(), Dropout(0.1), Linear(32, 10)).to(device)
    sgd = torch.optim.SGD(layers.parameters(), lr=0.2, momentum=0.9)
    if not path or not os.path.exists(path):
        return layers, sgd, [], 0, 0.0
    saved = torch.load(path, map_location="cpu")
    layers.load_state_dict(saved["model"])
    sgd.load_state_dict(saved["optimizer"])
    if zipfile.ZipFile(path).testzip() or saved["step"] not in range(STEPS + 1):
        raise ValueError("the file is spoiled, or of another program")
    return layers, sgd, saved["noise"], saved["step"], saved["loss"]


def train(path: str | None, kill_at: int | None, device: str) -> float:
    """The loss of the last batch, as if nothing had happened."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    noise = torch.cuda if device == "cuda" else torch  # whose numbers dropout draws
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    layers, sgd, states, done, loss = start_or_go_on(path, device)
    model = DistributedDataParallel(layers)
    torch.manual_seed(1 + rank)  # each rank drops other neurons
    if rank < len(states):  # one rank more than before begins its own
        noise.set_rng_state(states[rank])
    if done and rank == 0:
        print(f"goes on after step {done}", flush=True)
    life = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    for step in range(done, STEPS):
        if (rank, step, life) == (ranks - 1, kill_at, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        epoch, place = divmod(step * 64, 4096)  # the step says which images are next
        dice = torch.Generator().manual_seed(epoch)
        batch = torch.randperm(4096, generator=dice)[place : place + 64]
        x, y = (data[batch[rank::ranks]].to(device) for data in (images, labels))
        total = functional.cross_entropy(model(x), y, reduction="sum")
        sgd.zero_grad()
        (total * ranks / 64).backward()  # DDP divides by the ranks
        sgd.step()
        if (step + 1) % EVERY == 0:
            states = [None] * ranks
            dist.all_gather_object(states, (noise.get_rng_state(), total.item()))
            states, totals = zip(*states, strict=True)
            loss = sum(totals) / 64
            if path and rank == 0:
                parts = {"model": layers.state_dict(), "optimizer": sgd.state_dict()}
                parts |= {"noise": states, "step": step + 1, "loss": loss}
                save(parts, path)
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=file_name, help="a file to go on from")
    parser.add_argument("--kill-at", type=step_number, help="a step, for an experiment")
    args = parser.parse_args()
    try:
        start_or_go_on(args.checkpoint, "cpu")
    except Exception:
        parser.error(f"argument --checkpoint: {args.checkpoint} is not of this program")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    torch.set_num_threads(1)

    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    loss = train(args.checkpoint, args.kill_at, device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
