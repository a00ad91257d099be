"""Pictures to touch: in a real browser, what the script computes is Python's."""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lessons.props.all_reduce_and_its_cost import NUMBERS, touch_ring
from parallel_by_hand.collectives.all_reduce_four_ways import meter_all_reduce
from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.pipeline import touch_schedule as schedules
from parallel_by_hand.pipeline.schedule_rules import bubble, peak_activations
from parallel_by_hand.pipeline.schedules import read_schedule
from parallel_by_hand.pipeline.workbench import workbench
from parallel_by_hand.scale import touch_memory as memory
from parallel_by_hand.sharding import touch_ledger as ledger
from sidebyside import run_ranks
from sidebyside.timeline.figures import caption_of_figure
from sidebyside.timeline.touchable import TRUST
from tests.lab import browser_page, chromium, jupyterlab

pytestmark = [
    pytest.mark.everything,
    pytest.mark.skipif(
        chromium() is None and not os.environ.get("CI"),
        reason="this machine has no Chromium",
    ),
]
PICTURES = {
    "schedule": lambda: schedules.touch_schedule("gpipe", 4, 8),
    "ring": lambda: touch_ring(4),
    "ledger": lambda: ledger.touch_ledger(7.5, 64),
    "memory": lambda: memory.touch_memory("llama3-70b", "H100", 4, 4, 4),
}
COMPUTED = "all => all.map(one => document.querySelector('.touchable').compute(one))"


@pytest.fixture(scope="module")
def page():
    with browser_page(width=900) as page:
        yield page


@pytest.fixture
def opened(page, tmp_path):
    def opened(name: str):
        path = tmp_path / "picture.html"
        head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8">'
        path.write_text(head + PICTURES[name]().live, encoding="utf-8")
        page.goto(path.as_uri())
        return page

    return opened


def settings_of(choices: Mapping[str, Sequence], every: int = 1) -> Iterator[dict]:
    """Each combination of choices, or one of so many."""
    combined = islice(product(*choices.values()), 0, None, every)
    return (dict(zip(choices, values, strict=True)) for values in combined)


def test_a_schedule_is_that_of_python(opened):
    asked = list(settings_of(schedules.CHOICES, every=7))
    found = opened("schedule").evaluate(COMPUTED, asked)
    for settings, one in zip(asked, found, strict=True):
        try:
            plan, slots = schedules.plan_of_settings(settings)
        except ValueError as problem:
            assert one["problem"] == str(problem)
            continue
        assert one["plan"] == plan, settings
        assert sorted(map(tuple, one["slots"])) == slots, settings
        assert one["bubble"] == pytest.approx(bubble(slots)), settings
        assert one["kept"] == peak_activations(plan), settings


@pytest.mark.parametrize("kind", ["interleaved", "zero-bubble"])
def test_a_plan_that_was_saved_runs_in_ranks(opened, tmp_path, capsys, kind):
    page = opened("schedule")
    page.get_by_label("schedule").select_option(kind)
    page.get_by_role("slider", name="stages").fill("1")  # the second choice: 3
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as plan.txt").click()
    assert saved.value.suggested_filename == "plan.txt"
    saved.value.save_as(tmp_path / "plan.txt")
    plan = read_schedule((tmp_path / "plan.txt").read_text())
    settings = dict(zip(schedules.CHOICES, (kind, 3, 8, 1, "none"), strict=True))
    assert plan == schedules.plan_of_settings(settings)[0]
    assert workbench(plan, seconds=0.002) is not None
    assert capsys.readouterr().out.startswith("legal")


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_ring_has_sent_what_a_meter_counts_in_ranks(opened, ranks):
    asked = [{"ranks": ranks, "step": step} for step in range(2 * ranks - 1)]
    found = opened("ring").evaluate(COMPUTED, asked)
    meters = run_ranks(meter_all_reduce, ring_all_reduce, NUMBERS, world_size=ranks)
    assert {meter.bytes_sent for meter, _ in meters} == {found[-1]["sent"]}
    assert [one["sent"] for one in found] == [
        step * found[1]["sent"] for step in range(len(asked))
    ]
    assert (found[0]["done"], found[-1]["done"]) == (0, ranks**2)
    assert found[ranks - 1]["done"] == ranks, "one chunk each, after reduce-scatter"


@pytest.mark.parametrize(
    ("name", "choices", "rows", "room", "every"),
    [
        ("ledger", ledger.CHOICES, ledger.states_of_settings, ledger.MEMORY, 7),
        ("memory", memory.CHOICES, memory.ledgers_of_settings, memory.ROOM, 997),
    ],
)
def test_a_ledger_is_that_of_python(opened, name, choices, rows, room, every):
    asked = list(settings_of(choices, every))
    found = opened(name).evaluate(COMPUTED, asked)
    for settings, one in zip(asked, found, strict=True):
        expected = {row: list(parts) for row, parts in rows(settings).items()}
        assert one["rows"].keys() == expected.keys()
        assert one["room"] == room[settings["card"]]
        for row, parts in expected.items():  # a half of a byte may be rounded up
            assert one["rows"][row] == pytest.approx(parts, rel=0, abs=1), settings


def test_jupyterlab_shows_the_still_picture_until_it_is_trusted(page, tmp_path):
    ring = PICTURES["ring"]()
    png = b64encode(ring._repr_png_()).decode()
    words = caption_of_figure(ring.alt)
    bundles = {"image/png": png}, {"text/html": words}, {"text/html": ring.live}
    shown = [new_output("display_data", bundle) for bundle in bundles]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
    cell = new_code_cell("touch_ring(4)", outputs=shown)
    notebook = new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "ring.ipynb")
    private = tmp_path / "private"
    with jupyterlab(tmp_path, "ring.ipynb", private) as url:
        page.goto(url)
        picture, sentence = page.locator(".jp-OutputArea img"), page.get_by_text(TRUST)
        sentence.wait_for()
        assert picture.is_visible() and not page.locator(".touchable.live").count()
        NotebookNotary(data_dir=str(private / "data")).sign(notebook)
        page.reload()
        step = page.get_by_role("slider", name="step")
        step.press("ArrowRight")
        page.get_by_text("Reduce-scatter, step 1 of 3").wait_for()
        step.press("ArrowRight")
        page.get_by_text("Reduce-scatter, step 2 of 3").wait_for()
        words = page.get_by_text("Figure: ")
        assert not (picture.is_visible() or words.is_visible() or sentence.is_visible())
        page.emulate_media(media="print")
        assert picture.is_visible() and words.is_visible() and not step.is_visible()
        page.emulate_media(media="screen")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_read_out_fits_a_telephone_and_is_not_on_paper(opened, name):
    page = opened(name)
    page.set_viewport_size({"width": 400, "height": 800})
    fits = "document.documentElement.scrollWidth <= innerWidth"
    page.wait_for_function(fits)
    said = page.locator(".said[aria-live=polite]")
    sliders, lists = page.get_by_role("slider"), page.get_by_role("combobox")
    assert sliders.count() + lists.count() == len(page.locator(".control").all())
    for slider in sliders.all():
        before = said.inner_text()
        slider.press("ArrowLeft" if slider.input_value() != "0" else "ArrowRight")
        assert said.inner_text() != before
        assert slider.get_attribute("aria-valuetext") in slider.evaluate(
            "slider => slider.labels[0].innerText"
        )
    page.emulate_media(media="print")
    assert not said.is_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 900, "height": 900})
