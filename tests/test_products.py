"""Lessons, solutions and instructor pages are what their sources say."""

from pathlib import Path

from lessons.source import build

ROOT = Path(__file__).resolve().parents[1]


def test_all_products_are_up_to_date(capsys):
    status = build.main(["--check", "--root", str(ROOT)])
    assert status == 0, f"build again:\n{capsys.readouterr().err}"
