"""Run a solution notebook and keep what its cells put out, the same on any machine."""

import os
import re
import tempfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from lessons.source.notebooks import BuildError, code_cells, tags
from sidebyside import machine
from sidebyside.course.record import ROOT

CELL_SECONDS = 120
QUIET = 0.8  # of what the cores allow: less, and other programs are using them


def require_a_quiet_machine() -> None:
    """Raise BuildError where times and speedups measured now would mislead readers.

    The capacity is lesson 00's, for two workers. It is measured three times and the
    lowest counts: a crowd that disturbs the one process as much as the two hides in a
    single measurement. On one core 1 is all there is to get.
    """
    here = machine()
    allowed = min(2, here.usable_cores, here.physical_cores)
    capacity = min(here.capacity(workers=2) for _ in range(3))
    if capacity < QUIET * allowed:
        raise BuildError(
            f"this machine is busy: two processes get {capacity:.2f} × the work of one "
            f"done, not {QUIET * allowed:.2f} × or more, so the solution was not "
            "executed; wait until other programs are done, or add --busy"
        )


def at_free_ports(start: Callable):
    """What start() returns. Twice more if somebody took a port that it had picked."""
    for again in (True, True, False):
        try:
            return start()
        except RuntimeError as error:
            if not again or "Kernel died before replying" not in str(error):
                raise


def execute(nb: NotebookNode, folder: Path) -> None:
    """Run every cell, in `folder`, with this interpreter; store the outputs."""
    folder.mkdir(exist_ok=True)
    metadata = nb.metadata.copy()
    specs = KernelSpecManager(kernel_dirs=[])  # knows this interpreter only

    def run() -> None:
        NotebookClient(
            nb,
            km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs),
            timeout=CELL_SECONDS,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        ).execute(env=environment, stdout=DEVNULL, stderr=DEVNULL, cleanup_kc=True)

    with tempfile.TemporaryDirectory() as private:
        progress = str(Path(private, "progress.json"))
        environment = os.environ | {
            "SIDEBYSIDE_PROGRESS": progress,
            "SIDEBYSIDE_PAGE": "solution",  # check and progress do not say what is next
        }
        environment.pop("PYTEST_CURRENT_TEST", None)  # hides what children print
        try:
            at_free_ports(run)
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            raise BuildError(f"a cell of the solution failed:\n\n{error}") from None
    nb.metadata = metadata  # without the version of this interpreter
    for cell in code_cells(nb):
        cell.outputs = _normalise_outputs(cell.outputs)
        raised = any(output.output_type == "error" for output in cell.outputs)
        if "raises-exception" in tags(cell) and not raised:
            raise BuildError(f"this cell should raise and did not:\n\n{cell.source}")


def keep_outputs(nb: NotebookNode, path: Path) -> bool:
    """Take over the outputs in `path` if all code is as it was. True if so."""
    if not path.exists():
        return False
    new, old = code_cells(nb), code_cells(nbformat.read(path, as_version=4))
    if [(cell.source, tags(cell)) for cell in new] != [
        (cell.source, tags(cell)) for cell in old if cell.execution_count is not None
    ]:
        return False
    for cell, stored in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = stored.outputs, stored.execution_count
    return True


def figures(solution: NotebookNode, root: Path) -> dict[Path, bytes]:
    """The picture of each cell that is marked figure="name", for the README."""
    found = {}
    for cell in code_cells(solution):
        if name := cell.metadata.get("figure"):
            data = [output.get("data", {}) for output in cell.outputs]
            picture = next(d["image/png"] for d in data if "image/png" in d)
            found[root / f"resources/figures/{name}.png"] = b64decode(picture)
    return found


def normalise(text: str) -> str:
    """Take out what belongs to this machine only: where things are installed."""
    start = r"[~/][^\s'\"\x1b(]*"
    text = re.sub(start + r"/ipykernel_\d+/\d+\.py", "<cell>", text)
    text = re.sub(start + r"/site-packages/", "site-packages/", text)
    text = re.sub(start + r"/lib/python3\.\d+/", "python/", text)
    for root in (str(ROOT), str(ROOT).replace(str(Path.home()), "~", 1)):
        text = text.replace(root + os.sep, "").replace(root, ".")
    temporary = re.escape(tempfile.gettempdir()) + r"/[^\s'\"\x1b),;:]*"
    return re.sub(temporary, "<temporary>", text)


def _normalise_outputs(value):
    """The same outputs with every text normalised, pictures untouched."""
    if isinstance(value, list):
        return [_normalise_outputs(item) for item in value]
    if isinstance(value, dict):
        pairs = value.items()
        return NotebookNode(
            {
                k: v if k.startswith("image/") else _normalise_outputs(v)
                for k, v in pairs
            }
        )
    return normalise(value) if isinstance(value, str) else value
