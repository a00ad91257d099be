"""A line that says how far a long cell is, and that is gone when the cell has ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from sidebyside.programs.showing import in_notebook, on_solution_page

PATIENCE = 1  # seconds: what takes no longer says nothing


class PassingLine:
    """`with PassingLine() as line: line.say("round 2 of 5")`, for a learner who waits.

    Afterwards an empty output is left, which no notebook shows; on a stored page there
    is none, nor in a terminal.
    """

    def __enter__(self) -> "PassingLine":
        self._began, self._shown = monotonic(), None
        return self

    def say(self, text: str) -> None:
        """Put `text` in the place of what was said before."""
        if self._shown:
            self._shown.update({"text/plain": text}, raw=True)
        elif in_notebook() and not on_solution_page() and self.seconds >= PATIENCE:
            from IPython.display import display

            self._shown = display({"text/plain": text}, raw=True, display_id=True)

    @property
    def seconds(self) -> float:
        return monotonic() - self._began

    def __exit__(self, *exception) -> None:
        if self._shown:
            self._shown.update({}, raw=True)


@contextmanager
def seconds_counted(what: str) -> Iterator[None]:
    """`with seconds_counted("checking"):` says "checking: 5 s" while it lasts."""
    done = Event()

    def count() -> None:
        with PassingLine() as line:
            while not done.wait(PATIENCE):
                line.say(f"{what}: {line.seconds:.0f} s")

    thread = Thread(target=count, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
