"""In a real notebook kernel: cells that are interrupted, kernels that are killed."""

import os
import signal

import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from lessons.source.execution import at_free_ports
from tests.process_state import is_alive, wait_until

DEFINITIONS = """
import os, time
from pathlib import Path
import torch, torch.distributed as dist
from sidebyside import run_ranks

def sleep(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)

def total():
    tensor = torch.tensor([10 ** dist.get_rank()])
    dist.all_reduce(tensor)
    return tensor.item()
"""


class Notebook:
    """A kernel, and a folder where the processes that it starts leave their ids."""

    def __init__(self, pids, scratch):
        self.pids, self.scratch = pids, scratch
        own = os.environ | {"TMPDIR": str(self.scratch)}
        self.manager, self.client = at_free_ports(lambda: start_new_kernel(env=own))
        assert self.run(DEFINITIONS) == ""

    def run(self, code: str) -> str:
        """Run a cell; what it shows, or the name and the text of its error."""
        return self.outcome(self.client.execute(code))

    def outcome(self, cell: str) -> str:
        while (reply := self.client.get_shell_msg(timeout=200)) and (
            reply["parent_header"].get("msg_id") != cell
        ):
            pass
        shown = ""
        while message := self.client.get_iopub_msg(timeout=200):
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "execute_result":
                shown += content["data"]["text/plain"]
            elif message["msg_type"] == "stream":
                shown += content["text"]
            elif message["msg_type"] == "error":
                shown += "\n".join(content["traceback"])
            elif content.get("execution_state") == "idle":
                return shown

    def start_sleeping(self) -> str:
        """Begin a cell in which three ranks sleep, and wait until they do."""
        cell = self.client.execute(
            f"run_ranks(sleep, {str(self.pids)!r}, world_size=3)"
        )
        wait_until(lambda: len(list(self.pids.iterdir())) == 3)
        return cell

    def ranks_alive(self) -> list[int]:
        pids = [int(file.name) for file in self.pids.iterdir()]
        return [pid for pid in pids if is_alive(pid)]

    def descendants(self) -> list[psutil.Process]:
        kernel = psutil.Process(self.manager.provisioner.pid)
        return kernel.children(recursive=True)

    def end(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path_factory):
    made = Notebook(tmp_path_factory.mktemp("pids"), tmp_path_factory.mktemp("short"))
    yield made
    made.end()


def test_interrupting_the_cell_stops_every_rank_and_the_kernel_stays_usable(notebook):
    cell = notebook.start_sleeping()
    notebook.manager.interrupt_kernel()
    assert notebook.outcome(cell) == (
        "KeyboardInterrupt: interrupted while ranks were running; they have ended"
    )
    assert notebook.ranks_alive() == []
    assert notebook.run("run_ranks(total)") == "[11, 11]"


def test_a_killed_kernel_leaves_no_process_and_no_file(notebook):
    notebook.start_sleeping()
    family = notebook.descendants()
    os.kill(notebook.manager.provisioner.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, family)))
    wait_until(lambda: not list(notebook.scratch.iterdir()))


OWN_POOL = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
pool = ProcessPoolExecutor(2, get_context("forkserver"))
list(pool.map(abs, [-1, -2]))
"""


@pytest.mark.everything
def test_a_kernel_that_is_shut_down_leaves_no_process_and_no_file(notebook):
    assert notebook.run("run_ranks(total)") == "[11, 11]"
    assert notebook.run(OWN_POOL) == "[1, 2]"
    family = notebook.descendants()
    kernel = notebook.manager.provisioner.pid
    groups = {os.getpgid(process.pid) for process in family}
    assert os.getpgid(kernel) not in groups, "the kernel would wait for them in vain"
    notebook.manager.shutdown_wait_time = 120  # killed on the way it would leave files
    notebook.manager.shutdown_kernel()
    wait_until(lambda: not any(map(is_alive, family)))
    wait_until(lambda: not list(notebook.scratch.iterdir()))
