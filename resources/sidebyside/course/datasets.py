"""The real data that lessons and demos train on."""

import csv
import gzip
from pathlib import Path

import numpy as np
import torch

DATA = Path(__file__).resolve().parents[2] / "data"
TRAIN = 1415
"""Images 0 to 1414 are for training; the last 382 are kept for the test. The writers
filled in the same form one after the other: this is where the last three begin."""

PARTS = {"all": slice(None), "train": slice(0, TRAIN), "test": slice(TRAIN, None)}


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of a table in resources/data, each a text by column."""
    with open(DATA / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def load_digits(part: str = "all") -> tuple[torch.Tensor, torch.Tensor]:
    """Handwritten digits: images (float32, n x 64, 0 to 1) and labels (int64, n).

    `part` is "all" (1,797 images), "train" (1,415) or "test" (382, never to be
    trained on). E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten
    Digits, UCI, 1998, CC BY 4.0; see resources/data/digits.LICENSE.txt.
    """
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, not {part!r}")
    with gzip.open(DATA / "digits.csv.gz", "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)[PARTS[part]]
    images = torch.from_numpy(rows[:, :64] / 16)
    return images, torch.from_numpy(rows[:, 64]).long()


HELD_OUT_CHAPTER = "CHAPTER 41. "


def load_moby_dick(part: str = "all") -> str:
    """The first 42 chapters of Moby-Dick: 405,090 characters, 80 different ones.

    `part` is "all", "train" (chapters 1 to 40) or "test" (41 and 42, never to be
    trained on). Herman Melville, 1851, in the public domain; the file's source is in
    resources/data/moby_dick.LICENSE.txt.
    """
    with gzip.open(DATA / "moby_dick.txt.gz") as file:
        text = file.read().decode("utf-8")
    first_of_test = text.index(HELD_OUT_CHAPTER)
    parts = {"all": text, "train": text[:first_of_test], "test": text[first_of_test:]}
    if part not in parts:
        raise ValueError(f"part must be one of {', '.join(parts)}, not {part!r}")
    return parts[part]
