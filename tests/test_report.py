"""A report is one page that shows whatever it is given, and can be read back."""

import base64

import pytest

from parallel_by_hand.capstone.report_facts import (
    exercises_section,
    guesses_section,
)
from parallel_by_hand.capstone.report_page import (
    KIND,
    NoReport,
    read_report,
    report_page,
    write_report_page,
)
from sidebyside import guess, reveal
from sidebyside.course.record import changed_record

HOSTILE = "</script><script>document.title = 'run'</script><!-- <b>bold & 'quoted'"
PICTURE = base64.b64encode(b"a picture").decode()


def table(*rows: list[str], title: str = "Ladder", keys: int = 1) -> dict:
    columns = ["rung", "bytes", "seconds"]
    return {
        "title": title,
        "note": "",
        "columns": columns,
        "keys": keys,
        "rows": list(rows),
    }


def report(name: str = "laptop", *sections: dict) -> dict:
    return {
        "kind": KIND,
        "name": name,
        "written": "2026-01-31",
        "sections": list(sections),
    }


def rows_of(page: str) -> list[list[str]]:
    """The cells of each row of the body, in a browser's order."""
    found = []
    for row in page.split("<tbody>", 1)[1].split("</tbody>", 1)[0].split("<tr>")[1:]:
        cells = [cell.partition(">")[2] for cell in row.split("<td")[1:]]
        found.append([cell.partition("<")[0] for cell in cells])
    return found


def test_a_page_is_read_back_as_it_was_written(tmp_path):
    mine = report("laptop", table(["DDP", "12", "3"]))
    write_report_page(tmp_path / "mine.html", mine)
    assert read_report(tmp_path / "mine.html") == mine
    assert [path.name for path in tmp_path.iterdir()] == ["mine.html"]


def test_rows_about_the_same_thing_stand_side_by_side():
    mine = report("a", table(["one", "1", "2"], ["two", "3", "4"]))
    other = report("b", table(["two", "5", "6"], ["three", "7", "8"]))
    assert rows_of(report_page(mine, other)) == [
        ["one", "1", "2", "", ""],
        ["two", "3", "4", "5", "6"],
        ["three", "", "", "7", "8"],
    ]


def test_no_text_of_a_report_becomes_part_of_the_page(tmp_path):
    picture = {"title": HOSTILE, "note": HOSTILE, "pictures": []}
    picture["pictures"].append({"alt": HOSTILE + '"', "png": PICTURE})
    rows = table([HOSTILE, HOSTILE, HOSTILE])
    rows |= {"note": HOSTILE, "columns": [HOSTILE] * 3}
    mine = report(HOSTILE, rows, picture)
    page = report_page(mine, mine)
    assert page.count("<script") == page.count("</script") == 1
    assert "<!--" not in page
    assert "<b>" not in page
    assert "://" not in page, "it asks nobody for anything"
    write_report_page(tmp_path / "mine.html", mine)
    assert read_report(tmp_path / "mine.html") == mine


BROKEN = {
    "another page": "<html>hello</html>",
    "no list": '<script type="application/json" id="reports">7</script>',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_another_page_is_no_report(text, tmp_path):
    (tmp_path / "other.html").write_text(text)
    with pytest.raises(NoReport, match="not a page that my_report has written"):
        read_report(tmp_path / "other.html")


# What it is filled with ---------------------------------------------------------------


def test_guesses_stand_beside_what_was_measured():
    guess("00-capacity", 2, "How much more?", "×")
    reveal("00-capacity", 1.6)
    guess("01-batch", 10, "How many?")
    guess("01-three", None, "Not guessed, not run")
    reveal("15a-slots", 5, "slots", computed=True)
    assert guesses_section()["rows"] == [
        ["00-capacity", "How much more?", "2 ×", "1.6 ×", "off by a factor 1.2"],
        ["01-batch", "How many?", "10", "", ""],
        ["15a-slots", "", "", "5 slots, computed", ""],
    ]


def test_each_lesson_has_its_exercises_counted():
    empty = exercises_section()["rows"]
    assert empty[-1][1].startswith("0 of ")
    with changed_record() as record:
        record["exercises"]["03-overlap"] = {"state": "PASSED", "tries": 2, "hints": 1}
    rows = {row[0]: row[1:] for row in exercises_section()["rows"]}
    (lesson,) = [title for title in rows if title.startswith("03")]
    assert rows[lesson][0].startswith("1 of ")
    assert rows[lesson][1] == "overlap: PASSED (2 tries, 1 hint)"
    assert rows["all lessons"][0] == empty[-1][1].replace("0", "1", 1)
