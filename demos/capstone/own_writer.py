"""A language model that goes on and writes, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/capstone/own_writer.py   (one line)
Look for: the loss falls, and rank 0 writes a line of text in the end. With a
          checkpoint the same command goes on where it stopped, with other ranks too.
Try:      --steps 2000 --checkpoint whale.pt, and --text with a book of your own.
"""

import argparse
import gzip
import os
import signal
import tempfile
import zipfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BOOK = Path(__file__).parents[2] / "resources" / "data" / "moby_dick.txt.gz"
LENGTH, BATCH, EVERY = 32, 32, 50


class Writer(nn.Module):
    """A recurrent network: the scores of the next character after each one."""

    def __init__(self, words: int, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.scores = nn.Linear(width, words)

    def forward(self, tokens):
        return self.scores(self.memory(self.embedding(tokens))[0])


def start_or_go_on(checkpoint: str | None, words: int, device: str) -> tuple:
    """The model, its optimizer and the steps done: none, or the checkpoint's."""
    torch.manual_seed(0)
    model = Writer(words).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=0.005, foreach=False)
    if not checkpoint or not os.path.exists(checkpoint):
        return model, adam, 0
    saved = torch.load(checkpoint, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    adam.load_state_dict(saved["adam"])
    if zipfile.ZipFile(checkpoint).testzip() or saved["step"] not in range(10**7):
        raise ValueError("the file is spoiled, or of another program")
    return model, adam, saved["step"]


def train_writer(tokens, words: int, steps: int, checkpoint: str, device: str):
    """The trained model; goes on from the checkpoint, and saves every 50 steps."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model, adam, first = start_or_go_on(checkpoint, words, device)
    replica = DistributedDataParallel(model)
    for step in range(first, steps):
        dice = torch.Generator().manual_seed(step)  # the place follows from the step
        starts = torch.randint(len(tokens) - LENGTH, (BATCH, 1), generator=dice)
        rows = tokens[(starts + torch.arange(LENGTH + 1)).tensor_split(ranks)[rank]]
        x, y = rows[:, :-1].to(device), rows[:, 1:].to(device)
        total = functional.cross_entropy(replica(x).mT, y, reduction="sum")
        adam.zero_grad()
        (total * ranks / (BATCH * LENGTH)).backward()  # DDP divides by the ranks
        adam.step()
        done = step + 1
        if rank == 0 and (done % EVERY == 0 or done == steps):
            loss = total.item() / max(1, y.numel())
            print(f"step {done}: loss of this rank's rows {loss:.3f}", flush=True)
            if checkpoint:
                state = {"model": model.state_dict(), "adam": adam.state_dict()}
                with open(f"{checkpoint}.{os.getpid()}", "xb") as file:
                    torch.save(state | {"step": done}, file)
                os.replace(file.name, checkpoint)  # never half a file
    dist.barrier()
    return model


@torch.no_grad()
def write(model, start, characters: int, device: str) -> list[int]:
    tokens = list(start)
    for _ in range(characters):
        scores = model(torch.tensor([tokens[-LENGTH:]], device=device))[0, -1]
        tokens.append(torch.multinomial((scores / 0.7).softmax(0), 1).item())
    return tokens


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


def count(text: str) -> int:
    if not (text.isdecimal() and len(text) < 8 and int(text)):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 9,999,999")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=count, default=100, help="in all; default: 100")
    parser.add_argument("--text", default=str(BOOK), help="a book")
    parser.add_argument("--checkpoint", type=file_name, help="to save and go on")
    args = parser.parse_args()
    try:
        read = gzip.open if args.text.endswith(".gz") else open
        with read(args.text, "rt", encoding="utf-8") as file:
            book = file.read()
    except (OSError, EOFError, UnicodeDecodeError):
        parser.error(f"argument --text: {args.text} cannot be read as text")
    if len(book) <= LENGTH:
        parser.error(f"argument --text: {args.text} has at most {LENGTH} characters")
    alphabet = sorted(set(book))
    try:
        start_or_go_on(args.checkpoint, len(alphabet), "cpu")
    except Exception:
        told = f"{args.checkpoint} is not of this program and text"
        parser.error(f"argument --checkpoint: {told}")
    for name in {"SIGINT", "SIGPIPE"} & set(dir(signal)):  # Ctrl-C, | head
        signal.signal(getattr(signal, name), signal.SIG_DFL)  # end without a traceback
    torch.set_num_threads(1)
    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    place = {character: number for number, character in enumerate(alphabet)}
    tokens = torch.tensor([place[character] for character in book])
    model = train_writer(tokens, len(alphabet), args.steps, args.checkpoint, device)
    if dist.get_rank() == 0:
        written = write(model, tokens[:LENGTH].tolist(), 90, device)
        print(repr("".join(alphabet[token] for token in written[LENGTH:])))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
