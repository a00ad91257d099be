"""The lines that a page gives to paste do what the page says, as they stand."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import repeat

import pytest
import torch

from sidebyside.course.record import ROOT

UNDER_DETAIL = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
assert "Wrapper" in type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__
DDP(torch.nn.Linear(1, 1))(torch.ones(1)).backward()
"""


def lines_to_paste(path: str) -> str:
    text = (ROOT / "resources/paths" / path).read_text(encoding="utf-8")
    return "\n".join(
        re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    )


@pytest.mark.everything
def test_lines_for_a_slow_job_time_twenty_steps_and_trace_two(tmp_path, monkeypatch):
    pasted, steps = {}, []
    exec(lines_to_paste("my_job_is_slow.md"), pasted)

    def step(batch: torch.Tensor) -> None:
        steps.append(batch.sum().item())

    batches = repeat(torch.ones(8))
    assert pasted["samples_per_second"](step, batches, batch_size=8) > 0
    assert len(steps) == 5 + 20
    monkeypatch.chdir(tmp_path)
    pasted["trace_steps"](step, batches)
    events = json.loads((tmp_path / "trace_0.json").read_text())["traceEvents"]
    names = [event.get("name", "") for event in events]
    assert names.count("aten::item") == sum("ProfilerStep" in name for name in names)
    assert {"ProfilerStep#5", "ProfilerStep#6"} <= set(names)


@pytest.mark.everything
def test_ddp_on_gloo_dies_under_detail_and_a_line_lets_it_train():
    detail = os.environ | {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}

    def ending(lines: str) -> int:
        command = [sys.executable, "-c", f"import torch\n{lines}{UNDER_DETAIL}"]
        return subprocess.run(command, env=detail).returncode

    assert ending("") == -signal.SIGSEGV
    assert ending(lines_to_paste("my_job_hangs.md")) == 0
