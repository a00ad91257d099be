"""The program for GPUs says what it has run, and its pretended GPUs are strict.

`--pretend` is how the program itself is tried where there is no GPU; what is no GPU's
must fail there, or a rehearsal would prove nothing.
"""

import os
import subprocess
import sys

import pytest

from tests.gpu.every_gpu_path import NOTHING, ROOT, Row, environment, run_one

PROGRAM = ROOT / "tests" / "gpu" / "every_gpu_path.py"
STRICT = """
import weakref
import torch, torch.distributed as dist
from sidebyside import device

def error_of(function):
    try:
        function()
    except Exception as error:
        return str(error)
    return "no error"

there, here = torch.ones(2, device="cuda"), torch.ones(2)
print("chosen:", device(), there.device)
print("sum:", error_of(lambda: there + here))
print("gpus:", error_of(lambda: there + torch.ones(2, device="cuda:1")))
dice = torch.Generator()
print("dice:", error_of(lambda: torch.rand(2, generator=dice, device="cuda")))
print("array:", error_of(lambda: there.numpy()))
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
print("rank:", device(), dist.get_backend())
print("message:", error_of(lambda: dist.all_reduce(here)))
dist.all_reduce(there)
print("moved:", (there.to("cuda:1") * 2).cpu().tolist(), there.to("cuda:1").device)
group = weakref.ref(dist.group.WORLD)
dist.destroy_process_group()
print("group:", "kept" if group() else "freed")
"""


def run_program(*arguments: str, **more) -> subprocess.CompletedProcess:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def test_without_a_gpu_it_says_so_and_nothing_has_failed():
    done = run_program(env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert (done.stdout.strip(), done.returncode) == (NOTHING, 0), done.stderr


def test_it_prints_a_table_and_writes_it_stamped_as_pretended(tmp_path):
    table = tmp_path / "table.txt"
    chosen = "00: the device that the instruments choose"
    done = run_program("--pretend", "2", "--only", chosen, "--to", str(table))
    assert done.returncode == 0, done.stdout + done.stderr
    head, row, tail, _ = table.read_text("utf-8").split("\n")
    assert head.startswith("PRETENDED, nothing ran on a GPU: ")
    assert row.split("  ")[0] == chosen[:44] and " cuda:0 " in row and " equal " in row
    assert tail == "1 paths, 0 of them failed or not run"


def test_its_status_says_that_a_path_did_not_end(tmp_path):
    few = "--only", "00: the device", "--minutes", "0", "--to", str(tmp_path / "t.txt")
    done = run_program("--pretend", "1", *few)
    assert "NO TIME" in done.stdout and done.returncode == 1, done.stderr


PATHS = (
    "13a: a product here, or on the GPU and back",
    "11: data parallel by torch's wrapper",
    "14a: a network cut in two",
    "15: pipeline, 1F1B",
    "16a: a layer split over ranks, beside the whole layer",
    "17: the stages of ZeRO beside DDP",
)


@pytest.mark.parametrize("path", PATHS)
def test_pretended_gpus_compute_what_the_cpu_computes(path, tmp_path):
    row = run_one(path, environment(2, str(tmp_path)), 400)
    assert row.result == "equal", row


def test_a_path_that_fails_or_hangs_has_a_row_like_the_others(tmp_path):
    env = environment(1, str(tmp_path))
    assert run_one("no such path", env, 200).result == "FAILED"
    assert run_one("13b", env, 0.01) == Row("13b", "", "HUNG", "no result after 0 s")
    assert run_one("13b", env, 0).result == "NO TIME"


def test_pretended_gpus_refuse_what_gpus_refuse(tmp_path):
    command = [sys.executable, "-c", STRICT]
    done = subprocess.run(
        command, env=environment(2, str(tmp_path)), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said["chosen"] == "cuda:0 cuda:0"
    assert "cpu and cuda:0" in said["sum"]
    assert "cuda:0 and cuda:1" in said["gpus"]
    assert "generator" in said["dice"]
    assert "numpy" in said["array"]
    assert said["rank"] == "cuda:0 nccl"
    assert "No backend type associated with device type cpu" in said["message"]
    assert said["moved"] == "[2.0, 2.0] cuda:1"
    assert said["group"] == "freed", "its threads could abort the interpreter's end"


PART = """
import torch.distributed as dist
from sidebyside import run_ranks

def backend_of_part():
    part = dist.new_group([0])
    is_member = part is not dist.GroupMember.NON_GROUP_MEMBER
    return dist.get_backend(part) if is_member else "none"

if __name__ == "__main__":
    print(run_ranks(backend_of_part))
"""


def test_ranks_of_pretended_gpus_may_have_a_group_without_the_others(tmp_path):
    script = tmp_path / "part.py"
    script.write_text(PART)
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment(2, str(tmp_path)), capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "['nccl', 'none']\n", done.stderr
