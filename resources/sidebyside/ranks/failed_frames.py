"""Which frames of a failure are the learner's, and how a traceback is told."""

import linecache
import os
import re
import sysconfig
from itertools import groupby
from pathlib import Path

from sidebyside.ranks.outcomes import OutcomeFrame, RaisedOutcome

ROOT = Path(__file__).parents[3]
_STDLIB = sysconfig.get_path("stdlib")
_PACKAGES = re.compile(r".*[\\/](site|dist)-packages[\\/]")  # a user's own, too
_COURSE = str(ROOT / "resources")
_NOT_THE_LEARNERS = (_STDLIB, _COURSE, "<frozen")
_ROOMS = tuple(str(ROOT / "lessons" / folder) for folder in ("source", "props"))
_LIKE_CELLS = "lesson.py", "answers.py"  # what else lies in a room is the check's

_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_AT_MOST = 30  # frames of one exception
_LONGEST = 300  # characters of one line


def failed_traceback(error: RaisedOutcome) -> list[str]:
    """As Python shows it, shorter, with the exceptions that led to it."""
    above = []
    if error.before:
        sentence = _CAUSE if error.is_cause else _CONTEXT
        above = [*failed_traceback(error.before), sentence]
    return [
        *above,
        *_folded_traceback(_interesting_frames(error.frames)),
        *map(shortened_line, error.summary.splitlines()),
    ]


def shortened_line(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 40]} … {line[-40:]}"


def _folded_traceback(frames: list[OutcomeFrame]) -> list[str]:
    """A line that calls itself again and again is shown three times, as in Python."""
    paragraphs = []
    for frame, repeats in groupby(frames):
        times = len(list(repeats))
        paragraphs += [frame_in_words(frame)] * min(times, 3)
        if times > 3:
            paragraphs.append([f"  [Previous line repeated {times - 3} more times]"])
    left_out = len(paragraphs) - _AT_MOST
    if left_out > 0:
        half = _AT_MOST // 2
        note = [f"  [{left_out} more calls, one inside the other]"]
        paragraphs = [*paragraphs[:half], note, *paragraphs[-half:]]
    return [line for paragraph in paragraphs for line in paragraph]


def _interesting_frames(frames: list[OutcomeFrame]) -> list[OutcomeFrame]:
    """The learner's frames, and the library function they called last."""
    frames = [frame for frame in frames if not is_of_a_lesson(frame.file)]
    own = [place for place, frame in enumerate(frames) if not is_library(frame.file)]
    if not own:
        return frames[-3:]
    return [frames[p] for p in own] + frames[own[-1] + 1 : own[-1] + 2]


def frame_of_learner(frames: list[OutcomeFrame]) -> OutcomeFrame:
    """The innermost; where the learner has none, that of a lesson or library."""
    own = [frame for frame in frames if not is_library(frame.file)]
    lessons = [frame for frame in frames if is_of_a_lesson(frame.file)]
    course = [frame for frame in frames if frame.file.startswith(_COURSE)]
    return (own or lessons or course or frames)[-1]


def is_library(filename: str) -> bool:
    """Is this a file of Python, of a package or of the course, not the learner's?"""
    if filename.endswith((".pyx", ".pxd")):  # Cython names its files by themselves
        return True
    return (
        is_of_a_lesson(filename)
        or bool(_PACKAGES.match(filename))
        or filename.startswith(_NOT_THE_LEARNERS)
    )


def is_of_a_lesson(filename: str) -> bool:
    """Is this a check or a set-up of a lesson, which learners need not open?"""
    return filename.startswith(_ROOMS) and not filename.endswith(_LIKE_CELLS)


def frame_in_words(frame: OutcomeFrame) -> list[str]:
    code = shortened_line(linecache.getline(frame.file, frame.line).strip())
    return [
        f"  {_place_of_failure(frame.file)}, line {frame.line}, in {frame.function}",
        *([f"    {code}"] * bool(code)),
    ]


def _place_of_failure(filename: str) -> str:
    """The file as a learner knows it: "cell In[7]", or a path that is not too long."""
    try:
        shell = get_ipython()  # pyright: ignore[reportUndefinedVariable]  only notebooks
        cells = shell.compile._filename_map
        return f"cell In[{cells[filename]}]"
    except (NameError, AttributeError, KeyError):
        pass
    filename = _PACKAGES.sub("", filename)
    here = os.getcwd() if os.path.isdir(".") else os.sep
    for folder in (_STDLIB, str(ROOT), here):
        if filename.startswith(folder + os.sep):
            return filename[len(folder) + 1 :]
    return filename
