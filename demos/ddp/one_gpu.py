"""Train on one GPU, in one small file; own_ddp.py, beside it, does the same on eight.

Run:      python demos/ddp/one_gpu.py
Look for: the loss falls, and most digits by other writers are recognised. In own_ddp.py
          several processes print the same lines; eight_gpus_tomorrow.md, a page in
          resources/paths, sets the two files side by side.
Try:      --bf16: the loss differs in its third decimal. --workers 2: it stays the same.
"""

import argparse
import gzip
import os
import signal
import tempfile
from pathlib import Path

import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, RandomSampler, Subset, TensorDataset

DIGITS = Path(__file__).parents[2] / "resources" / "data" / "digits.csv.gz"
BATCH, RATE = 64, 0.05


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


def digits() -> TensorDataset:
    """1,797 images with their labels; the last 382 are of writers kept for the test."""
    with gzip.open(DIGITS, "rt", encoding="ascii") as file:
        rows = torch.tensor([[float(n) for n in line.split(",")] for line in file])
    return TensorDataset(rows[:, :64] / 16, rows[:, 64].long())


def train(device: str, workers: int, bf16: bool, epochs: int = 3) -> torch.nn.Module:
    """The trained model; prints a line for each epoch."""
    data = digits()
    training = Subset(data, range(1415))
    held_out = Subset(data, range(1415, 1797))
    sampler = RandomSampler(training, generator=torch.Generator())
    how = {"num_workers": workers, "pin_memory": device == "cuda"}
    loader = DataLoader(training, BATCH, sampler=sampler, drop_last=True, **how)
    tests = DataLoader(held_out, BATCH, **how)
    torch.manual_seed(0)
    model = Sequential(Linear(64, 128), ReLU(), Linear(128, 10)).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for epoch in range(epochs):
        sampler.generator.manual_seed(epoch)
        sums = torch.zeros(2, device=device)  # of losses, of recognised images
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                loss = cross_entropy(model(x), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            sums[0] += loss.detach() / len(loader)
        with torch.no_grad():
            for x, y in tests:
                sums[1] += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        loss, right = sums.tolist()
        print(f"epoch {epoch + 1}: loss {loss:.4f}, recognised {right:.0f} of 382")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    parser.add_argument("--workers", choices=("0", "1", "2", "4", "8"), default="0")
    parser.add_argument("--bf16", action="store_true", help="products in 16 bits")
    args = parser.parse_args()
    for name in {"SIGINT", "SIGPIPE"} & set(dir(signal)):  # Ctrl-C, | head
        signal.signal(getattr(signal, name), signal.SIG_DFL)  # end without a traceback

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = train(device, int(args.workers), args.bf16)
    if args.save:
        with open(f"{args.save}.{os.getpid()}", "xb") as file:
            torch.save(model.state_dict(), file)
        os.replace(file.name, args.save)  # never half a file


if __name__ == "__main__":
    main()
