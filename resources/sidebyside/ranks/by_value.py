"""Pack what a notebook defines, so that another process can use it.

cloudpickle sends a notebook's functions with their code. A function under
`functools.cache` it would send as a name, which the other process does not know, and a
module that lies in another one without being imported, such as torch._C._functions,
which `once_differentiable` uses, as a copy.
"""

import functools
import io
import sys
import threading
from collections.abc import Callable
from types import ModuleType

import cloudpickle

_CACHED: type = type(functools.cache(len))
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def packed(value: object) -> bytes:
    """Like cloudpickle.dumps; a notebook's cached function arrives with no cache."""
    return _pickled(_PicklerByValue, value)


def packed_answer(value: object) -> bytes:
    """The same for a whole answer, whose locks, if they are free, arrive as new ones.

    For one process, that is: between two, such a lock would keep nobody out.
    """
    return _pickled(_PicklerOfLocks, value)


def _pickled(kind: type[cloudpickle.CloudPickler], value: object) -> bytes:
    file = io.BytesIO()
    kind(file).dump(value)
    return file.getvalue()


class _PicklerByValue(cloudpickle.CloudPickler):
    def reducer_override(self, value):
        if type(value) is _CACHED and not _is_found_by_name(value):
            return _cached_by_value, (value.__wrapped__, value.cache_parameters())
        if type(value) is ModuleType and value.__name__ not in sys.modules:
            package, _, name = value.__name__.rpartition(".")
            if getattr(sys.modules.get(package), name, None) is value:
                return getattr, (sys.modules[package], name)
        return super().reducer_override(value)


class _PicklerOfLocks(_PicklerByValue):
    def reducer_override(self, value):
        if type(value) is _LOCK and not value.locked():
            return threading.Lock, ()
        if type(value) is _RLOCK:
            return threading.RLock, ()
        return super().reducer_override(value)


def _is_found_by_name(function: Callable) -> bool:
    """Is it in a module that can be imported? `cache(math.factorial)` is in none."""
    if function.__module__ == "__main__":
        return False
    found = sys.modules.get(function.__module__)
    for part in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found is function


def _cached_by_value(function: Callable, parameters: dict) -> Callable:
    return functools.lru_cache(**parameters)(function)
