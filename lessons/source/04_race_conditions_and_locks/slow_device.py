"""A device that sees who reads it at the same time, for the check of 04-histogram."""

from threading import Condition
from time import sleep


class SlowEnergy(int):
    """A number that takes its time to be added.

    `counts[b] += energy` loads, adds and stores. Here the adding lasts so long that two
    threads which share a count do both load it before one of them has stored.
    """

    __array_priority__ = 1000  # NumPy leaves the adding to it

    def __add__(self, other):
        sleep(0.003)
        return SlowEnergy(int(self) + int(other))

    __radd__ = __add__


class SlowDevice:
    """Reads the energy of an event, slowly, and knows who reads at the same time.

    It waits, though not for ever, until as many read as are expected, and for a moment
    whether one more comes: a busy machine may be late in starting a thread.
    """

    def __init__(self, energies: list[int], expected: int):
        self.energies, self.expected = energies, expected
        self.calls: list[int] = []
        self.now = self.most = 0
        self.changed, self.patience, self.moment = Condition(), 3.0, 0.3

    def energy(self, event: int) -> int:
        with self.changed:
            self.calls.append(event)
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            if not self.changed.wait_for(self._all_here, self.patience):
                self.patience = 0.0
            self.changed.wait_for(lambda: self.most > self.expected, self.moment)
            self.moment = 0.0
        sleep(0.002)
        with self.changed:
            self.now -= 1
        return SlowEnergy(self.energies[event])

    def _all_here(self) -> bool:
        return self.most >= self.expected
