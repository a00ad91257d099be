"""A device that sees who reads it at the same time, for the check of 04-histogram."""

from threading import Condition, get_ident
from time import sleep


class NotedSum(int):
    """A sum of energies. `writers` are the threads that have added to it, in turn."""

    writers: tuple[int, ...] = ()


class SlowEnergy(NotedSum):
    """A number that takes its time to be added.

    `counts[b] += energy` loads, adds and stores. Here the adding lasts so long that two
    threads which share a count do both load it before one of them has stored.
    """

    def __add__(self, other):
        sleep(0.001)
        total = int.__add__(self, other)
        if total is NotImplemented:
            return total
        before, noted = getattr(other, "writers", ()), NotedSum(total)
        last_one = before[-1:] == (get_ident(),)
        noted.writers = before if last_one else (*before, get_ident())
        return noted

    __radd__ = __add__


class SlowEnergyInArrays(SlowEnergy):
    """The same for counts in an array or a tensor: it does the adding itself."""

    __array_ufunc__ = None

    def __radd__(self, other):
        sleep(0.001)
        return other + int(self)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [int(part) if isinstance(part, cls) else part for part in args]
        if function.__name__ not in ("add_", "__iadd__"):
            return function(*args, **kwargs or {})
        loaded = args[0].clone()
        sleep(0.001)
        return args[0].copy_(loaded + args[1])


class SlowDevice:
    """Reads the energy of an event, slowly, and knows who reads at the same time.

    It waits, though not for ever, until as many read as are expected, and for a moment
    whether one more comes: a busy machine may be late in starting a thread.
    """

    def __init__(self, energies: list[int], expected: int, kind: type = SlowEnergy):
        self.energies, self.expected, self.kind = energies, expected, kind
        self.calls: list[int] = []
        self.now = self.most = 0
        self.changed, self.patience, self.moment = Condition(), 3.0, 0.5

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
        return self.kind(self.energies[event])

    def _all_here(self) -> bool:
        return self.most >= self.expected
