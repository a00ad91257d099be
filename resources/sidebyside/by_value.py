"""Pack what a notebook defines, so that another process can use it.

cloudpickle sends a notebook's functions with their code. A function under
`functools.cache` it would send as a name, which the other process does not know.
"""

import functools
import io
from collections.abc import Callable

import cloudpickle

_CACHED = type(functools.cache(len))


def packed(value: object) -> bytes:
    """Like cloudpickle.dumps; a notebook's cached function arrives with no cache."""
    file = io.BytesIO()
    _PicklerByValue(file).dump(value)
    return file.getvalue()


class _PicklerByValue(cloudpickle.CloudPickler):
    def reducer_override(self, value):
        if type(value) is _CACHED and value.__module__ == "__main__":
            return _cached_by_value, (value.__wrapped__, value.cache_parameters())
        return super().reducer_override(value)


def _cached_by_value(function: Callable, parameters: dict) -> Callable:
    return functools.lru_cache(**parameters)(function)
