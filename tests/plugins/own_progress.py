"""Every test has a record of progress of its own; the learner's is never touched."""

import pytest


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("SIDEBYSIDE_PROGRESS", str(tmp_path / "progress.json"))
