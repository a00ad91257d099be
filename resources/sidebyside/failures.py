"""Say which rank failed, where, and what the others were doing."""

import linecache
import os
import signal
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATHS = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
_NOT_THE_LEARNERS = (*_PATHS, str(Path(__file__).parent), "<frozen")
_ROOMS = str(ROOT / "lessons" / "source")

_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")

Frame = tuple[str, int, str]


class RankError(RuntimeError):
    """Some ranks did not return a result. Notebooks show its text, not our frames."""

    def __init__(self, message: str, rank: int | None = None, details: str = ""):
        super().__init__(message)
        self.rank = rank
        self.details = details
        if details:
            self.add_note(details)

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}", *self.details.splitlines()]


class RankFailed(RankError):
    """`.rank` raised, exited or was killed; the other ranks were stopped."""


class RanksHung(RankError):
    """The ranks were not done in time; `.frames` tells the line of each."""

    frames: dict[int, Frame]


def failed(crew) -> RankFailed:
    """The error for a crew of which a rank has raised or died."""
    name, rank = crew.name, _first_to_blame(crew)
    others = _whereabouts(crew, exclude=rank)
    if rank in crew.died:
        return RankFailed(
            f"{name} {rank} {_how_it_died(crew.died[rank])}", rank, others
        )
    report = crew.raised[rank]
    if report["type"] == "Unpicklable":
        return RankFailed(f"{name} {rank} failed: {report['message']}", rank, others)
    lines = [line for frame in _interesting(report["frames"]) for line in _show(frame)]
    details = "\n".join([*lines, report["summary"], *others.splitlines()])
    first = report["summary"].splitlines()[0]
    return RankFailed(f"{name} {rank} raised {first}", rank, details)


def hung(crew, timeout: float) -> RanksHung:
    """The error for a crew that was not done after `timeout` seconds."""
    name = crew.name
    waiting = [r for r in range(crew.size) if r not in crew.results]
    done = sorted(crew.results)
    frames = {r: _user_frame(crew.stacks[r]) for r in waiting if crew.stacks.get(r)}
    message = f"not done after {timeout:g} s: {_ranks(name, waiting)} still "
    message += "works" if len(waiting) == 1 else "work"
    if done:
        message += f", {_ranks(name, done)} finished"
    advice = ""
    if done and len(waiting) < crew.size:
        advice = (
            "\nA collective ends only when every rank has called it: look for the line "
            "that the finished rank never reached."
        )
    error = RanksHung(message, waiting[0], _whereabouts(crew) + advice)
    error.frames = frames
    return error


def _first_to_blame(crew) -> int:
    """Whoever died, else whoever raised something else than a lost connection."""
    if crew.died:
        return min(crew.died)
    own = [rank for rank, report in crew.raised.items() if not _lost_partner(report)]
    return min(own or crew.raised)


def _lost_partner(report: dict) -> bool:
    return any(lost in report["message"] for lost in _LOST)


def _how_it_raised(report: dict) -> str:
    if _lost_partner(report):
        return "lost its connection to the rank that failed"
    return f"raised {report['summary'].splitlines()[0]}"


def _how_it_died(code: int) -> str:
    if code >= 0:
        return f"exited with status {code} before it returned a result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = "; often this means that memory ran out" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory}"


def _ranks(name: str, ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"{name} {ranks[0]}"
    return f"{name}s {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _whereabouts(crew, exclude: int | None = None) -> str:
    """A paragraph on each rank but `exclude`: finished, or the line it is on."""
    lines = []
    for rank in range(crew.size):
        who = f"{crew.name} {rank}"
        if rank == exclude:
            continue
        if rank in crew.results:
            lines.append(f"{who} has finished")
        elif rank in crew.raised:
            lines.append(f"{who} {_how_it_raised(crew.raised[rank])}")
        elif rank in crew.died:
            lines.append(f"{who} {_how_it_died(crew.died[rank])}")
        elif stack := crew.stacks.get(rank):
            frame = _user_frame(stack)
            called = [name for *_, name in stack[stack.index(frame) + 1 :]]
            public = [name for name in called if name != "wrapper"]  # torch's logger
            inside = f" in {public[0]}," if public else ""
            lines.append(f"{who} waits{inside} at")
            lines += _show(frame)
        elif rank in crew.stacks:
            lines.append(f"{who} had not begun yet")
        else:
            lines.append(f"{who} does not answer: it is inside compiled code")
    return "\n".join(lines)


def _interesting(frames: list[Frame]) -> list[Frame]:
    """The learner's frames, and the library function they called last."""
    own = [place for place, frame in enumerate(frames) if not is_library(frame[0])]
    if not own:
        return frames[-3:]
    return [frames[p] for p in own] + frames[own[-1] + 1 : own[-1] + 2]


def _user_frame(frames: list[Frame]) -> Frame:
    own = [frame for frame in frames if not is_library(frame[0])]
    return (own or frames)[-1]


def is_library(filename: str) -> bool:
    """Is this a file of Python, of a package or of the course, not the learner's?"""
    if filename.startswith(_ROOMS) and filename.endswith("checks.py"):
        return True
    return filename.startswith(_NOT_THE_LEARNERS)


def _show(frame: Frame) -> list[str]:
    file, line, function = frame
    code = linecache.getline(file, line).strip()
    return [
        f"  {_place(file)}, line {line}, in {function}",
        *([f"    {code}"] * bool(code)),
    ]


def _place(filename: str) -> str:
    """The file as a learner knows it: "cell In[7]", or a path that is not too long."""
    try:
        cells = get_ipython().compile._filename_map  # only notebooks have it
        return f"cell In[{cells[filename]}]"
    except (NameError, AttributeError, KeyError):
        pass
    for folder in (*_PATHS, str(ROOT), os.getcwd()):
        if filename.startswith(folder + os.sep):
            return filename[len(folder) + 1 :]
    return filename
