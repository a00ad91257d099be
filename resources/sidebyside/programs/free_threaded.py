"""A demo once more, on a free-threaded Python, where one is installed."""

import os
import subprocess
from shutil import which

from sidebyside.course.record import ROOT


def run_without_gil(path: str, *args: object) -> None:
    """Show what `demos/<path>` prints there, or say why it cannot run.

    That Python need not have the course installed, only the packages that the demo
    imports.
    """
    python = which("python3.14t") or which("python3.13t")
    if not python:
        print("There is no python3.14t or python3.13t on the PATH.")
        return
    module = path.removesuffix(".py").replace("/", ".")
    run = f"from demos.{module} import main; main()"
    course = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'resources'}",
        "PYTHONUTF8": "1",  # Windows would write × in another encoding
    }
    demo = subprocess.run(
        [python, "-c", run, *map(str, args)],
        env=os.environ | course,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    if demo.returncode:
        print(f"{python} cannot run it. {demo.stdout.splitlines()[-1]}")
    else:
        print(demo.stdout)
