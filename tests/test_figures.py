"""What a figure shows is said in words: in its output, below it, in an HTML export."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from sidebyside import figure
from sidebyside.course.record import ROOT
from sidebyside.timeline.figures import caption_of_figure

SOLUTIONS = sorted(ROOT.glob("solutions/*.ipynb"))


def test_a_figure_is_shown_with_its_description(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **options: shown.append((data, options))
    )
    fig, _ = figure(alt="loss & time")
    fig._ipython_display_()
    (picture, options), (below, _) = shown
    assert picture["image/png"].startswith(b"\x89PNG")
    assert picture["text/plain"] == "<figure: loss & time>"
    assert options == {"metadata": {"image/png": {"alt": "loss & time"}}, "raw": True}
    assert below == {"text/html": "<p><small>Figure: loss &amp; time</small></p>"}


def test_a_long_description_is_folded_away_and_keeps_its_lines():
    caption = caption_of_figure("schedule\nrank 0 | F0 <\nrank 1 | .  F0")
    assert "<pre>schedule\nrank 0 | F0 &lt;\nrank 1 | .  F0</pre></details>" in caption


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_each_stored_picture_is_described_in_its_metadata_and_below_it(path):
    for cell in nbformat.read(path, 4).cells:
        outputs = cell.get("outputs", [])
        for place, output in enumerate(outputs):
            kinds = [k for k in output.get("data", {}) if k.startswith("image/")]
            for kind in kinds:
                alt = output.metadata.get(kind, {}).get("alt", "")
                assert len(alt) >= 10 and not alt.startswith("a figure"), cell.source
                below = [after.get("data", {}) for after in outputs[place + 1 :][:1]]
                assert below == [{"text/html": caption_of_figure(alt)}], cell.source


@pytest.mark.parametrize(
    "kind", ["html", pytest.param("slides", marks=pytest.mark.everything)]
)
def test_an_exported_page_describes_its_pictures(tmp_path, kind):
    """With the settings that the course installs for Jupyter."""
    shutil.copy(ROOT / "resources/jupyter_config.json", tmp_path)
    solution = shutil.copy(SOLUTIONS[0], tmp_path)
    command = [sys.executable, "-m", "nbconvert", "--output=page", "--to", kind]
    subprocess.run(
        [*command, solution],
        env=os.environ | {"JUPYTER_CONFIG_DIR": str(tmp_path)},
        check=True,
    )
    (page,) = tmp_path.glob("page*.html")
    text = page.read_text(encoding="utf-8")
    assert 'alt="timeline of main, Ada, Ben, Cem, ' in text
    assert "No description has been provided" not in text
    assert ("reveal.js" in text) == (kind == "slides"), "its own kind of page"
