"""A line that says how far a long cell is, and that is gone when the cell has ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from sidebyside.programs.showing import in_notebook, on_solution_page

PATIENCE = 1  # seconds: what takes no longer says nothing


@contextmanager
def passing_line() -> Iterator[Callable[[str], None]]:
    """`with passing_line() as say: say("round 2 of 5")`, for a learner who waits."""
    began, shown = monotonic(), []
    watched = in_notebook() and not on_solution_page()

    def say(text: str) -> None:
        if shown:
            shown[0].update({"text/plain": text}, raw=True)
        elif watched and monotonic() - began >= PATIENCE:
            from IPython.display import display

            shown.append(display({"text/plain": text}, raw=True, display_id=True))

    try:
        yield say
    finally:
        for line in shown:
            line.update({}, raw=True)


@contextmanager
def seconds_counted(what: str) -> Iterator[None]:
    """`with seconds_counted("checking"):` says "checking: 5 s" while it lasts."""
    began, done = monotonic(), Event()

    def count() -> None:
        with passing_line() as say:
            while not done.wait(PATIENCE):
                say(f"{what}: {monotonic() - began:.0f} s")

    thread = Thread(target=count, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
