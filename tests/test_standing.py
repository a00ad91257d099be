"""progress, forget and PASSED tell learners where they stand and what comes next."""

import time

import pytest

from sidebyside import check, forget, guess, progress, reveal
from sidebyside.course import lesson_format, paths
from sidebyside.course.record import changed_record, read_record, record_file
from sidebyside.exercises.check import exercise
from sidebyside.exercises.expectations import Expect
from sidebyside.exercises.first_page import first_page
from sidebyside.exercises.judge import _exercises

LESSON = """# ---
# title: {number} Planted
# ---

# %% [markdown]
# ## To read
# ### Deeper

# %%
reveal("{number}-much", 3)

# %% [markdown]
# ## Exercises

# %% exercise="{number}-one"
one = 1

# %% [markdown] tags=["why"]
# <!-- why: {number}-one -->
# One is one.

# %% exercise="{number}-two"
two = 2
"""
PATH = """# Two lessons

| minutes | where | what you do there |
|---|---|---|
| 5 | [map](../README.md), [98a](../../lessons/98a_planted.ipynb#To-read) | guess |
| 7 | [a page](../checklists/hang.md) | read |
| 20 | exercise `98b-one` in [98b](../../lessons/98b_planted.ipynb) | once |
| 3 | [another](../README.md) | read |
"""
STAYS = "The code in your cells stays."
KEPT = "What was recorded before is kept in {}."


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """A course with the lessons 98a, 98b and 99, of two exercises each."""
    monkeypatch.setattr(lesson_format, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / paths.FOLDER).mkdir(parents=True)
    (tmp_path / paths.FOLDER / "two.md").write_text(PATH)
    ids = []
    for number in "98a", "98b", "99":
        room = tmp_path / f"lessons/source/{number}_planted"
        room.mkdir(parents=True)
        (room / "lesson.py").write_text(LESSON.format(number=number))
        ids += [f"{number}-one", f"{number}-two"]
    for id in ids:
        exercise(id, seconds=20)(lambda n: Expect("n")(n == 1, think="one"))
    yield
    for id in ids:
        del _exercises[id]


def put(**states: str) -> None:
    """Record a state of an exercise of 98a: one="PASSED"."""
    with changed_record() as record:
        for name, state in states.items():
            record["exercises"][f"98a-{name}"] = {"state": state, "tries": 1}


@pytest.fixture
def said(capsys):
    """The lines that were printed since it was called before."""
    return lambda: capsys.readouterr().out.splitlines()


# What comes next ----------------------------------------------------------------------


def test_passed_shows_why_it_works_and_not_yet_does_not(said):
    assert check("98a-one", 1).message == "98a-one: PASSED"
    assert said() == ["98a-one: PASSED", "One is one.", "Next: 98a-two."]
    check("98a-one", 2)
    assert "One is one." not in said()


@pytest.mark.parametrize(
    ("id", "next_line"),
    [
        ("98a-two", "Next: lesson 98b Planted."),
        ("99-two", "This was the last lesson; progress() shows what is still open."),
    ],
)
def test_passed_names_what_is_open_or_the_next_lesson(id, next_line, said):
    check(id, 1)
    assert said()[-1] == next_line


def test_the_page_of_a_solution_says_itself_what_follows(said, monkeypatch):
    monkeypatch.setenv("SIDEBYSIDE_PAGE", "solution")
    check("98a-one", 1)
    progress("98a")
    assert said()[0] == "98a-one: PASSED"
    assert not any("Next" in line or "One" in line for line in said())


# progress -----------------------------------------------------------------------------


def test_progress_shows_each_state_and_counts_what_was_passed(said):
    put(one="PASSED", two="NOT YET")
    progress("98a")
    assert said()[:5] == [
        "98a Planted  1 passed, 1 not yet",
        "    98a-one  PASSED",
        "    98a-two  NOT YET",
        "",
        "1 of 2 exercises passed",
    ]
    progress("98")
    assert "1 of 4 exercises passed" in said()


def test_progress_of_the_course_shows_only_the_current_lesson_in_full(said):
    put(one="PASSED", two="PASSED")
    progress()
    assert [line for line in said() if not line.startswith("Time")] == [
        "98a Planted  2 passed",
        "98b Planted  2 not started",
        "    98b-one  NOT STARTED",
        "    98b-two  NOT STARTED",
        "99 Planted   2 not started",
        "",
        "2 of 6 exercises passed",
        "Next: 98b-one, in lesson 98b Planted.",
    ]


def test_what_is_passed_stays_passed_until_it_is_forgotten():
    for answer, state in [(2, "NOT YET"), (1, "PASSED"), (2, "PASSED")]:
        check("99-one", answer)
        assert read_record()["exercises"]["99-one"]["state"] == state
    passed = {"state": "PASSED", "tries": 2, "advice": "one"}
    assert read_record()["exercises"]["99-one"] == passed, "as it was when it passed"
    forget("99-one")
    assert read_record()["exercises"] == {}


@pytest.mark.parametrize(
    ("states", "lesson", "next_line"),
    [
        ({}, None, "Next: 98a-one, in lesson 98a Planted."),
        ({"one": "PASSED"}, None, "Next: 98a-two, in lesson 98a Planted."),
        ({"one": "HUNG"}, None, 'Next: 98a-one again, and hint("98a-one") helps.'),
        ({"one": "PASSED", "two": "PASSED"}, "98a", "Next: lesson 98b Planted."),
    ],
)
def test_progress_says_what_to_do_next(states, lesson, next_line, said):
    put(**states)
    progress(lesson)
    assert said()[-1] == next_line


@pytest.mark.parametrize("lesson", ["9", "98c", 3.5])
def test_an_unknown_lesson_is_answered_with_those_there_are(lesson, said):
    progress(lesson)
    assert said() == [f"There is no lesson {lesson}; there are: 98a, 98b, 99."]


@pytest.mark.parametrize("path", ["gil", max])
def test_an_unknown_path_is_answered_with_those_there_are(path, said):
    progress(path)
    assert said() == [f"There is no path {path}; there are: two."]


def test_a_path_has_ticks_for_what_the_record_knows(said):
    """A page is read when a later step is done."""

    def ticks() -> str:
        progress("two")
        return "".join(line[2] for line in said() if " min  " in line)

    assert ticks() == "    "
    reveal("98a-much", 3)
    assert ticks() == "✓   "
    forget("98a-much")
    with changed_record() as record:
        record["exercises"]["98b-one"] = {"state": "PASSED"}
    assert ticks() == " ✓✓ "
    progress("two", done=4)
    said()
    assert ticks() == " ✓✓✓", "a guess is not said, it is made"
    progress("two", done=1)
    assert said()[:2] == [
        "Two lessons: 8 of 35 minutes left",
        "     1    5 min  map, 98a",
    ]
    progress()
    assert 'Two lessons: 8 of 35 minutes left, see progress("two")' in said()


def test_the_time_between_changes_counts_unless_it_is_a_pause(said, monkeypatch):
    now = 1_000_000
    monkeypatch.setattr(time, "time", lambda: now)
    for minutes in 0, 20, 25, 40, -5, 16:
        now += minutes * 60
        guess("98a-much", 3)
    said()
    progress()
    assert "Time spent: 1 h 1 min, between" in "\n".join(said())
    forget()
    progress()
    assert "Time spent: 0 min, between" in "\n".join(said())


def test_the_first_page_has_paths_lessons_and_the_next_step(said):
    assert "**Next: [98a Planted](98a_planted.ipynb)**" in first_page()
    put(one="PASSED", two="PASSED")
    page = first_page()
    assert "**Next: [98b Planted](98b_planted.ipynb)**" in page
    assert "| ✓ | [98a Planted](98a_planted.ipynb) |  | 2 of 2 |" in page
    assert "<details><summary><b>Two lessons</b>: 35 of 35 minutes left" in page
    progress("two")
    page = first_page()
    step = "[map](../resources/README.md), [98a](98a_planted.ipynb#To-read)"
    assert f"**Next: {step}, on the path *Two" in page
    assert "<details open><summary><b>Two lessons</b>" in page
    assert "|   | 7 | [a page](../resources/checklists/hang.md) | read |" in page


# forget -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "forgotten", "line"),
    [
        ("98a-one", {"98a-one"}, "98a-one is as on the first day."),
        ("98a-much", {"98a-much"}, "98a-much is as on the first day."),
        ("98a", {"98a-one", "98a-much"}, "Lesson 98a is as on the first day."),
        (98, {"98a-one", "98a-much"}, "Lesson 98 is as on the first day."),
        (
            None,
            {"98a-one", "98a-much", "99-one"},
            "All exercises and guesses are as on the first day.",
        ),
    ],
)
def test_an_exercise_a_guess_a_lesson_or_all_are_forgotten(what, forgotten, line, said):
    put(one="PASSED")
    guess("98a-much", 3)
    check("99-one", 1)
    said()
    forget(what)
    kept = record_file().with_name("progress-before-reset.json")
    assert said() == [f"{line} {STAYS}", KEPT.format(kept)]
    record = read_record()
    left = {*record["exercises"], *record["guesses"]}
    assert left == {"98a-one", "98a-much", "99-one"} - forgotten


@pytest.mark.parametrize("what", ["97", "98a-thre", max])
def test_forget_of_what_is_unknown_forgets_nothing_and_says_what_there_is(what, said):
    put(one="PASSED")
    forget(what)
    [line] = said()
    assert line.startswith("There is no ")
    assert "98a" in line or "progress() lists them all." in line
    assert "98a-one" in read_record()["exercises"]
