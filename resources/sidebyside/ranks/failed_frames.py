"""Which frames of a failure are the learner's, and how a traceback is told."""

import linecache
import os
import sysconfig
from itertools import groupby
from pathlib import Path

from sidebyside.ranks.outcomes import OutcomeFrame, RaisedOutcome

ROOT = Path(__file__).parents[3]
_PATHS = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
_NOT_THE_LEARNERS = (*_PATHS, str(Path(__file__).parents[1]), "<frozen")
_ROOMS = str(ROOT / "lessons" / "source")
_LIKE_CELLS = "lesson.py", "answers.py"  # what else lies in a room is the check's

_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_AT_MOST = 30  # frames of one exception


def failed_traceback(error: RaisedOutcome) -> list[str]:
    """As Python shows it, shorter, with the exceptions that led to it."""
    above = []
    if error.before:
        sentence = _CAUSE if error.is_cause else _CONTEXT
        above = [*failed_traceback(error.before), sentence]
    return [
        *above,
        *_folded_traceback(_interesting_frames(error.frames)),
        *error.summary.splitlines(),
    ]


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
    own = [place for place, frame in enumerate(frames) if not is_library(frame.file)]
    if not own:
        return [frame for frame in frames if not _is_of_a_check(frame.file)][-3:]
    return [frames[p] for p in own] + frames[own[-1] + 1 : own[-1] + 2]


def frame_of_learner(frames: list[OutcomeFrame]) -> OutcomeFrame:
    """The innermost; where the learner has none, that of the check, or of a library."""
    own = [frame for frame in frames if not is_library(frame.file)]
    checks = [frame for frame in frames if _is_of_a_check(frame.file)]
    return (own or checks or frames)[-1]


def is_library(filename: str) -> bool:
    """Is this a file of Python, of a package or of the course, not the learner's?"""
    if filename.endswith((".pyx", ".pxd")):  # Cython names its files by themselves
        return True
    return _is_of_a_check(filename) or filename.startswith(_NOT_THE_LEARNERS)


def _is_of_a_check(filename: str) -> bool:
    return filename.startswith(_ROOMS) and not filename.endswith(_LIKE_CELLS)


def frame_in_words(frame: OutcomeFrame) -> list[str]:
    code = linecache.getline(frame.file, frame.line).strip()
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
    here = os.getcwd() if os.path.isdir(".") else os.sep
    for folder in (*_PATHS, str(ROOT), here):
        if filename.startswith(folder + os.sep):
            return filename[len(folder) + 1 :]
    return filename
