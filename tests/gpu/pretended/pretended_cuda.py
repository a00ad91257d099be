"""torch.cuda for GPUs that do not exist: it waits for nothing, for all is done."""

import contextlib
from time import perf_counter
from types import SimpleNamespace

import torch
from pretended_gpus import gpu_generators


class Event:
    def __init__(self, enable_timing: bool = False, **ignored):
        self.moment = 0.0

    def record(self, stream=None) -> None:
        self.moment = perf_counter()

    def elapsed_time(self, later: "Event") -> float:
        return 1e3 * (later.moment - self.moment)

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Stream:
    def __init__(self, *args, **ignored):
        pass

    def wait_stream(self, other: "Stream") -> None:
        pass

    wait_event = record_event = wait_stream

    def synchronize(self) -> None:
        pass


class Generator(torch.Generator):
    """The CPU's random numbers; which device it is said to be for is remembered."""

    def __new__(cls, device="cpu"):
        generator = super().__new__(cls, "cpu")
        if torch.device(device).type == "cuda":
            gpu_generators.add(generator)
        return generator

    def __init__(self, device="cpu"):
        pass


def make_nothing():
    """A function that does nothing; torch wants each of its functions only once."""
    return lambda *args, **kwargs: None


def pretend_cuda(count: int) -> None:
    chosen = [0]

    def set_device(place) -> None:
        chosen[0] = getattr(place, "index", place) or 0

    replaced = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: count,
        "current_device": lambda: chosen[0],
        "set_device": set_device,
        "get_device_name": lambda place=0: f"pretended GPU {place}",
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: Stream(),
        "get_device_capability": lambda place=0: (8, 0),
        "get_device_properties": lambda place=0: SimpleNamespace(
            name=f"pretended GPU {place}", major=8, minor=0, total_memory=0
        ),
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda state, device="cuda": torch.set_rng_state(state),
    }
    waits = ("synchronize", "manual_seed", "manual_seed_all", "empty_cache")
    replaced |= {name: make_nothing() for name in waits}
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    torch.Generator = Generator
    torch.Tensor.cuda = lambda self, place=None, **ignored: self.to(
        torch.device("cuda", chosen[0] if place is None else place)
    )
    torch.nn.Module.cuda = lambda self, place=0: self.to(torch.device("cuda", place))
    torch.Tensor.pin_memory = lambda self: self
    torch.Tensor.record_stream = make_nothing()
