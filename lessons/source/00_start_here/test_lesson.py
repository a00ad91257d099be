"""The first page lets the learner use every button, and its claims hold."""

import ast
from pathlib import Path

from sidebyside import machine

SOURCE = Path(__file__).with_name("lesson.py")
BUTTONS = {
    "Timeline", "check", "guess", "hint", "machine", "progress", "reveal", "run_demo",
    "span",
}  # fmt: skip


def test_every_button_of_the_course_is_pressed():
    calls = [n for n in ast.walk(ast.parse(SOURCE.read_text())) if type(n) is ast.Call]
    pressed = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    assert pressed >= BUTTONS


def test_the_solution_waits_for_the_learner_who_takes_a_sign_away():
    assert '\n# %%\n# solution("00-saved")\n' in SOURCE.read_text()


def test_the_capacity_of_two_workers_is_never_above_two():
    assert 0 < machine().capacity(workers=2, rounds=1, seconds=0.02) <= 2
