"""The page of a class shows what its files say, whatever they say."""

import json
import sys

import pytest

from sidebyside import __main__ as command
from sidebyside.exercises.class_page import class_page, read_class

OVERLAP = "03-overlap"


def record(state: str, tries: int, guessed: float, **more: object) -> dict:
    exercise = {"state": state, "tries": tries, **more}
    guess = {"value": guessed, "measured": 1, "unit": "×", "question": "How much?"}
    return {"exercises": {OVERLAP: exercise}, "guesses": {"03-two-threads": guess}}


@pytest.fixture
def folder(tmp_path):
    """Three learners, each in a file of another place."""
    folder = tmp_path / "class"
    waits = {"advice": "who waits?", "hints": 2}
    for name, content in {
        "ada.json": record("PASSED", 3, 2),
        "bob/progress.json": record("NOT YET", 4, 1.5, **waits),
        "<b>/.sidebyside/progress.json": record("HUNG", 1, 1e999, **waits),
        "bob/progress-before-reset.json": record("PASSED", 1, 1),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def test_each_learner_is_named_after_the_file_and_bad_files_are_told(folder):
    for name, content in (
        ("bad", "{"),
        ("wrong", '{"exercises": {"a": {"tries": "3"}}}'),
    ):
        (folder / f"{name}.json").write_text(content)
    records, faults = read_class(folder)
    assert list(records) == ["<b>", "ada", "bob"]
    assert faults == [
        f"{folder / name} is not a record of progress."
        for name in ("bad.json", "wrong.json")
    ]


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of each row of a table, without the head."""
    table = page.partition(f"<h2>{title}</h2>")[2].partition("</table>")[0]
    lines = table.splitlines()[1:]
    return [line[8:-10].split("</td><td>") for line in lines]


def test_the_page_shows_who_passed_where_people_are_stuck_and_what_they_guessed(folder):
    page = class_page(read_class(folder)[0])
    passed = {row[0]: row[1] for row in rows(page, "Who has passed what")}
    assert passed == {"ada": "1", "bob": "0", "&lt;b&gt;": "0"}
    assert rows(page, "Where people get stuck") == [
        [OVERLAP, "2", "1", "3", "4", "who waits? (2 ×)"]
    ]
    assert rows(page, "Guesses, for the board") == [
        ["03-two-threads", "How much?", "1.5, 2 ×", "1, 1, 1 ×"]
    ]


def test_the_command_writes_its_page_and_overwrites_no_other(
    folder, monkeypatch, capsys
):
    def call() -> str:
        monkeypatch.setattr(sys, "argv", ["sidebyside", "class", str(folder)])
        command.main()
        return capsys.readouterr().out

    page = folder / "class.html"
    for _ in range(2):
        assert call() == f"3 learners, written to {page}\n"
        assert page.read_text().count("<h2>") == 3
    page.write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        call()
    assert page.read_text() == "mine"
    assert "is not overwritten" in capsys.readouterr().err
