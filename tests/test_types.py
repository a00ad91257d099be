"""The instruments and the subject hold what their annotations promise."""

import subprocess
import sys

import pytest

from lessons.source.build import ROOT


@pytest.mark.everything
def test_types_hold():
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
