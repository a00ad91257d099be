"""An asynchronous parameter server in one small file, with nothing but torch.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 3
              demos/parameter_server/own_parameter_server.py   (one line)
Look for: rank 0 serves, the others work. With two workers a gradient is one update old
          on average: it was made for parameters that have been changed since.
Try:      --updates 2000, and --save model.pt: rank 0 writes the parameters.
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
from torch.nn import functional


def whole_number(text: str) -> int:
    if not (text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 10_000):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 10000")
    return int(text)


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


def serve(weights: torch.Tensor, workers: range, updates: int) -> list[int]:
    """Change `weights` by each gradient as it comes; the staleness of each update."""
    letter, staleness = torch.empty(weights.numel() + 1), []

    def answer(worker: int, version: int) -> None:
        dist.send(torch.cat([weights.view(-1), torch.tensor([float(version)])]), worker)

    for worker in workers:
        answer(worker, 0)
    while len(staleness) < updates:
        worker = dist.recv(letter)  # from whoever comes first
        staleness.append(len(staleness) - int(letter[-1]))
        weights -= 0.5 * letter[:-1].view_as(weights)
        answer(worker, len(staleness))
    for _ in workers:
        answer(dist.recv(letter), -1)  # stop; the last gradients are not used
    return staleness


def work(images: torch.Tensor, labels: torch.Tensor, rank: int) -> None:
    """Pull, compute, push, until the server says -1."""
    letter, dice = torch.empty(640 + 1), torch.Generator().manual_seed(rank)
    dist.recv(letter, 0)
    while letter[-1] >= 0:
        mine = torch.randint(len(images), (32,), generator=dice)
        weights = letter[:-1].view(10, 64).clone().requires_grad_()
        functional.cross_entropy(images[mine] @ weights.T, labels[mine]).backward()
        letter[:-1] = weights.grad.view(-1)  # the version stays in the letter
        dist.send(letter, 0)
        dist.recv(letter, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=whole_number, default=400)
    parser.add_argument("--save", type=file_name, help="a file for the parameters")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", 1)) < 2:
        print("a server needs a worker: start two ranks or more, with torchrun")
        return

    # Without --local-addr torchrun listens on all networks.
    dist.init_process_group("gloo")  # letters from anyone: NCCL cannot receive them
    torch.manual_seed(0)  # the same data in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    if dist.get_rank() == 0:
        weights = torch.zeros(10, 64)
        staleness = serve(weights, range(1, dist.get_world_size()), args.updates)
        loss = functional.cross_entropy(images @ weights.T, labels)
        print(f"{args.updates} updates, mean staleness {sum(staleness) / args.updates}")
        print(f"loss {loss.item():.4f}")
        if args.save:
            with open(f"{args.save}.{os.getpid()}", "xb") as file:
                torch.save(weights, file)
            os.replace(file.name, args.save)  # never half a file
    else:
        work(images, labels, dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
