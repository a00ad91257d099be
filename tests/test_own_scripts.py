"""Scripts of your own: torch alone, one launch for all, one result on any ranks.

A person takes them to work, so they are started here as a person starts them.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from demos.ddp import one_gpu, own_ddp
from sidebyside import run_ranks
from tests.process_state import TORCHRUN, said_by

DEMOS = Path(__file__).parents[1] / "demos"
SCRIPTS = {script.stem: script for script in sorted(DEMOS.glob("*/own_*.py"))}
LAUNCH = """
    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
"""
ON_CPU_ONLY = "own_parameter_server", "own_watchdog"


class Start(NamedTuple):
    """By torchrun: how far what is saved may be from what one rank saves."""

    ranks: int
    arguments: str = ""
    apart: float = 1e-4
    says: str = r"loss of the last batch \d\.\d+\n"


STARTS = {
    "own_compressed_ddp": Start(2, apart=0.1),
    "own_data_parallel": Start(2),
    "own_ddp": Start(2, says=r"(epoch \d: loss \d\.\d{4}, recognised \d+ of 382\n){3}"),
    "own_experts": Start(2),
    "own_halo_exchange": Start(3, apart=1e-3),
    "own_local_sgd": Start(2, says="[12] ranks?, 10 meetings, one model: True\n"),
    "own_model_parallel": Start(2),
    "own_parameter_server": Start(3, "--updates 50", says=r"50 up.*\nloss [0-2]\..*\n"),
    "own_pipeline": Start(3),
    "own_sharded_optimizer": Start(2),
    "own_tensor_parallel": Start(2),
    "own_two_dimensions": Start(4, "--tensor 2"),
    "own_vocabulary_parallel": Start(2),
    "own_writer": Start(2, "--steps 3", apart=0.05, says="step 3: .*\n.*\n"),
}
OTHER_RESULT_ALONE = "own_local_sgd", "own_parameter_server"
FAILS_ON_PURPOSE = "own_resumable", "own_watchdog"  # see their lessons, 18b and 18c
GOES_ON = "own_2d_training", "own_fully_sharded"  # see their lessons, 17b and 17c


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_needs_torch_alone(name):
    tree = ast.parse(SCRIPTS[name].read_text(encoding="utf-8"))
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    packages = {module.split(".")[0] for module in imported}
    assert packages - sys.stdlib_module_names == {"torch"}


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in ON_CPU_ONLY])
def test_its_launch_is_that_of_all(name):
    assert SCRIPTS[name].read_text(encoding="utf-8").count(LAUNCH[1:]) == 1


def test_all_try_the_file_that_they_save_in_the_same_way():
    """With the rank in its name where each rank saves its own layers."""
    tried = [re.search(r"def file_name.*?return path\n", script.read_text(), re.DOTALL)
             for script in SCRIPTS.values()]  # fmt: skip
    texts = [found[0] for found in tried if found]
    assert len(texts) == len(SCRIPTS) - 3 and len(set(texts)) == 2


def test_each_is_started_by_torchrun_here_or_in_its_lesson():
    assert sorted(SCRIPTS) == sorted({*STARTS, *FAILS_ON_PURPOSE, *GOES_ON})


def test_one_gpu_and_its_ddp_form_train_the_same(capfd):
    """Four digits of the losses, and all parameters within rounding."""
    alone = one_gpu.train("cpu", workers=0, bf16=False)
    told = capfd.readouterr().out
    for replica in run_ranks(own_ddp.train, "cpu", 1, False, world_size=2):
        torch.testing.assert_close(replica.state_dict(), alone.state_dict())
    assert capfd.readouterr().out.replace("rank 0 | ", "") == told


# Started ------------------------------------------------------------------------------

RUN_AND_NAME_THREADS = """
import contextlib, faulthandler, os, runpy, sys, time
usual = faulthandler.dump_traceback_later  # a script's watchdog shall not bite here
faulthandler.dump_traceback_later = lambda seconds, **more: usual(60, **more)
seconds, sys.argv = int(sys.argv[1]), sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as stop:
    assert not stop.code, stop.code
def threads():
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{thread}/comm") as file:
                yield file.read().strip()
end = time.monotonic() + seconds  # one that has ended is listed for a moment
while any("gloo" in name for name in threads()) and time.monotonic() < end:
    time.sleep(0.1)
for name in threads():
    print("thread:", name)
"""
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the threads' names in /proc"
)


def named_tensors(saved: object, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(saved, torch.Tensor):
        yield name, saved
    elif isinstance(saved, dict):
        for key, value in saved.items():
            yield from named_tensors(value, f"{name}{key}.")


def tensors_saved_in(folder: Path) -> list[torch.Tensor]:
    """Of all files, in order: where each rank saves its layers, rank 0's come first."""
    files = (torch.load(path, map_location="cpu") for path in sorted(folder.iterdir()))
    found = [pair for saved in files for pair in named_tensors(saved)]
    assert not any("module." in name for name, _ in found), "as if without DDP"
    return [tensor for _, tensor in found]


@pytest.mark.everything
@pytest.mark.parametrize("name", SCRIPTS)
def test_alone_it_leaves_no_thread_and_by_torchrun_it_trains_the_same(name, tmp_path):
    """A thread of gloo that lives on can abort the interpreter while it ends.

    torch.distributed.nn takes the group of the moment as its functions' default. The
    first optimizer imports it, so a group that stands by then is never freed. DTensor
    has caches that keep the group, and FSDP2 uses it: there the script has to wait for
    the threads.
    """
    script, start = SCRIPTS[name], STARTS.get(name)
    one, several = tmp_path / "one", tmp_path / "several"
    for folder in one, several, tmp_path / "logs":
        folder.mkdir()
    option = "--checkpoint" if name == "own_writer" else "--save"
    asked = [option, one / "m", *start.arguments.split()] if start else []
    if name == "own_two_dimensions":
        asked = asked[:2]
    keeps = re.search(r"distributed\.(tensor|fsdp)", script.read_text())
    watched = "-c", RUN_AND_NAME_THREADS, "0" if keeps else "10"
    alone, threads = said_by(*watched, script, *asked).split("thread:", 1)
    assert "python" in threads
    if keeps:
        assert "gloo" in threads, "it need not wait any longer"
        assert "    dist.destroy_process_group()\n    time.sleep(" in script.read_text()
    else:
        assert "gloo" not in threads
    if start is None:
        return

    torchrun = *TORCHRUN, "--nproc-per-node"
    asked = option, several / "m", *start.arguments.split()
    leaves = {"TMPDIR": str(tmp_path / "logs")}  # torchrun leaves a folder there
    together = said_by(*torchrun, start.ranks, script, *asked, **leaves)
    assert re.fullmatch(start.says, together)
    saved = tensors_saved_in(several)
    assert saved and len(list(several.iterdir())) in (1, start.ranks)
    if name not in OTHER_RESULT_ALONE:
        assert alone == together or start.apart > 1e-4
        for by_one, by_several in zip(tensors_saved_in(one), saved, strict=True):
            torch.testing.assert_close(by_one, by_several, atol=start.apart, rtol=0)
