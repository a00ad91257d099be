"""The lines that a page gives to paste do what the page says, as they stand."""

import json
import re
from itertools import repeat

import pytest
import torch

from sidebyside.course.record import ROOT

SLOW = ROOT / "resources/paths/my_job_is_slow.md"


@pytest.mark.everything
def test_lines_for_a_slow_job_time_twenty_steps_and_trace_two(tmp_path, monkeypatch):
    pasted, steps = {}, []
    text = SLOW.read_text(encoding="utf-8")
    for lines in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(lines, pasted)

    def step(batch: torch.Tensor) -> None:
        steps.append(batch.sum().item())

    batches = repeat(torch.ones(8))
    assert pasted["samples_per_second"](step, batches, batch_size=8) > 0
    assert len(steps) == 5 + 20
    monkeypatch.chdir(tmp_path)
    pasted["trace_two_steps"](step, batches)
    events = json.loads((tmp_path / "trace_0.json").read_text())["traceEvents"]
    names = [event.get("name", "") for event in events]
    assert names.count("aten::item") == sum("ProfilerStep" in name for name in names)
    assert {"ProfilerStep#5", "ProfilerStep#6"} <= set(names)
