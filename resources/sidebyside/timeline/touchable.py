"""Figures that can be touched: a still picture, and a live one where scripts run.

Without scripts (a notebook that is not trusted, GitHub) a reader has the still picture,
its words, and a sentence that says what would make it live; on paper, the picture and
its words. Where scripts run, controls and a drawing take their place. Nothing is
fetched: the script is part of the output, and the same settings give the same text.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sidebyside.timeline import figures
from sidebyside.timeline.figures import Figure

HERE = Path(__file__).parent
TRUST = (
    "To touch this picture, run its cell, or trust this notebook: in JupyterLab, "
    "View → Activate Command Palette → Trust Notebook."
)
LOOK = {
    "colours": figures.COLOURS,
    "light": [figures.light_colour(colour) for colour in figures.COLOURS],
    "card": figures.CARD,
    "idle": figures.IDLE,
}


def make_touchable(
    still: Figure,
    scripts: Sequence[Path],
    choices: Mapping[str, Sequence],
    settings: Mapping,
    **facts,
) -> Figure:
    """The figure `still`, which becomes live where scripts run.

    `choices` are what each control offers, by its label: numbers become a slider, words
    a list. `settings` are those that `still` shows. The last of `scripts` draws; it
    finds all of these, and `facts`, in `facts`.
    """
    facts |= {"choices": {name: list(some) for name, some in choices.items()}}
    facts |= {"settings": dict(settings)} | LOOK
    told = json.dumps(facts).replace("</", r"<\/")
    files = [HERE / "touchable.js", *scripts]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    style = (HERE / "touchable.css").read_text(encoding="utf-8")
    still.live = (
        f'<div class="touchable"><p class="sentence"><small>{TRUST}</small></p>\n'
        f"<style>\n{style}</style>\n"
        f'<script>\n(() => {{\n"use strict";\nconst facts = {told};\n{code}}})();\n'
        "</script></div>"
    )
    return still
