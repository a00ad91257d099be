"""How many lines of Python each layer of the course has.

Run:      python tests/benchmarks/lines_by_layer.py
Look for: the last column, the lines that git knows; a file counts where it fits first.
"""

import re
import subprocess
from collections import Counter

from sidebyside.course.record import ROOT

LAYERS = {  # how the path of a file goes
    "lessons: the text": r"lessons/source/\d.*/lesson\.py",
    "lessons: checks": r"lessons/source/\d.*/checks\.py",
    "lessons: answers": r"lessons/source/\d.*/answers\.py",
    "lessons: tests": r"lessons/source/\d.*/test_\w+\.py",
    "lessons: beside checks": r"lessons/source/\d",
    "lessons: props": r"lessons/props/",
    "lessons: the build": r"lessons/",
    "demos": r"demos/",
    "instruments": r"resources/sidebyside/",
    "the subject": r"resources/",
    "tests": r"tests/|\.",
}


def main() -> None:
    command = ["git", "ls-files", "*.py"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).split()
    files, lines = Counter(), Counter()
    for name in names:
        layer = next(one for one, start in LAYERS.items() if re.match(start, name))
        files[layer] += 1
        lines[layer] += len((ROOT / name).read_text(encoding="utf-8").splitlines())
    for layer in LAYERS:
        print(f"{layer:<26} {files[layer]:5,} files {lines[layer]:8,} lines")
    print(f"{'all':<26} {len(names):5,} files {lines.total():8,} lines")


if __name__ == "__main__":
    main()
