"""One picture for everything: what each thread, process or rank did, and when."""

# multiprocessing's private names: tests/test_private_names.py says why each is taken.
# pyright: reportAttributeAccessIssue=false

import contextlib
import itertools
import json
import multiprocessing.process
import os
import threading
from functools import partial
from time import perf_counter_ns, thread_time_ns
from typing import Any, NamedTuple

from sidebyside.programs.scratch import (
    open_scratch_to_append,
    read_all_scratch,
    scratch_file,
)

# A child process inherits this entry of its parent's configuration under every
# start method, and so learns where the spans go.
_KEY = "sidebyside-timeline"

_sinks: dict[str, int] = {}  # path -> file descriptor, opened once in a process
_thread = threading.local()
_thread_numbers = itertools.count()
_label = ""


class Span(NamedTuple):
    """Work named `name` in `lane`, from `start` to `end` (seconds since the timeline
    began), during which its thread held a core for `cpu` seconds. For how long is
    unknown, None, where one thread began the work and another ended it."""

    name: str
    lane: str
    start: float
    end: float
    cpu: float | None

    @property
    def duration(self) -> float:
        return self.end - self.start


class span:
    """`with span("forward 3"):` records this piece of work on the open timeline.

    Works in any thread, process or rank that was started inside the timeline, and
    costs next to nothing where no timeline is open. Work that begins in one place and
    ends in another is recorded by `.start()` and `.stop()`; it is drawn in the lane
    of the thread that started it.
    """

    __slots__ = ("_began", "_cpu", "_sink", "_where", "name")

    def __init__(self, name: str):
        self.name = name
        self._sink = None

    def start(self) -> "span":
        self._sink = _find_timeline_sink()
        if self._sink is not None:
            self._where = _lane_of_this_thread()
            self._cpu = thread_time_ns()
            self._began = perf_counter_ns()
        return self

    def stop(self) -> None:
        ended = perf_counter_ns()
        sink, self._sink = self._sink, None
        if sink is None:
            return
        where = _lane_of_this_thread()
        cpu = thread_time_ns() - self._cpu if where == self._where else None
        record = json.dumps((*self._where, self.name, self._began, ended, cpu))
        with contextlib.suppress(OSError):  # the timeline's process is gone
            os.write(sink, record.encode() + b"\n")

    def __enter__(self) -> "span":
        return self.start()

    def __exit__(self, *exception) -> None:
        self.stop()


def _find_timeline_sink() -> int | None:
    path = multiprocessing.process.current_process()._config.get(_KEY)
    if path is None:
        return None
    if path not in _sinks:
        try:
            _sinks[path] = open_scratch_to_append(path)
        except OSError:  # the timeline's process is gone
            return None
    return _sinks[path]


def _lane_of_this_thread() -> tuple[int, int, str, str]:
    """This thread: process id, number within the process, its name, process label."""
    pid = os.getpid()
    try:
        if _thread.pid == pid:
            return _thread.whereabouts
    except AttributeError:
        pass
    thread = threading.current_thread()
    number = -1 if thread is threading.main_thread() else next(_thread_numbers)
    _thread.pid, _thread.whereabouts = pid, (pid, number, thread.name, _label)
    return _thread.whereabouts


def label_process(label: str) -> None:
    """Draw this process's spans in lanes called `label`, such as "rank 0"."""
    global _label
    _label = label


class Timeline:
    """`with Timeline() as timeline:` collects the spans of all that runs inside.

    Threads, processes and ranks write each finished span to one file at once, so
    that a worker that is killed loses only the span it was in. The clock is the
    machine's monotonic clock, which all its processes share.
    """

    def __init__(self):
        self._file: Any = None
        self._records: list[list] = []
        self._began = 0

    def __enter__(self) -> "Timeline":
        if self._file is not None or self._records:
            raise ValueError("a Timeline records once: make a new one with Timeline()")
        self._file, path = scratch_file()
        config = multiprocessing.process.current_process()._config
        self._outer = config.get(_KEY)
        config[_KEY] = self._path = path
        self._began = perf_counter_ns()
        return self

    def __exit__(self, *exception) -> None:
        config = multiprocessing.process.current_process()._config
        config[_KEY] = self._outer
        if self._outer is None:
            del config[_KEY]
        if self._path in _sinks:
            os.close(_sinks.pop(self._path))
        self._records = self._read()
        self._file.close()
        self._file = None

    def _read(self) -> list[list]:
        finished = read_all_scratch(self._file).split(b"\n")[:-1]
        return [json.loads(line) for line in finished]

    @property
    def spans(self) -> list[Span]:
        """All finished spans, by lane and then by start."""
        records = self._records if self._file is None else self._read()
        lanes = _name_lanes_of_timeline(records)
        order = {lane: place for place, lane in enumerate(lanes.values())}
        spans = []
        for pid, thread, _, _, name, began, ended, cpu in records:
            start, end = (began - self._began) / 1e9, (ended - self._began) / 1e9
            held = None if cpu is None else cpu / 1e9
            spans.append(Span(name, lanes[pid, thread], start, end, held))
        return sorted(spans, key=lambda s: (order[s.lane], s.start, -s.end))

    @property
    def lanes(self) -> list[str]:
        """The lanes in the order in which they are drawn."""
        return list(dict.fromkeys(span.lane for span in self.spans))

    def plot(self, title: str = "", stamp: str = "measured here", **options):
        """The timeline as a figure: time to the right, one lane per worker."""
        from sidebyside.timeline.picture import draw_timelines

        return draw_timelines({title: self}, stamp=stamp, **options)

    def text(self, width: int = 60, cpu: bool = False) -> str:
        """The timeline in letters, `width` characters long: for terminals, tests and
        people who listen to their screen."""
        from sidebyside.timeline.picture import write_timeline

        return write_timeline(self, width, cpu)

    def save(self, path: str | os.PathLike) -> str:
        """Write Chrome's trace format, which https://ui.perfetto.dev opens."""
        spans = self.spans
        lanes = {lane: number for number, lane in enumerate(self.lanes)}
        event = partial(dict, pid=0)
        events = [
            event(ph="M", name="thread_name", tid=number, args={"name": lane})
            for lane, number in lanes.items()
        ] + [
            event(
                ph="X",
                name=s.name,
                tid=lanes[s.lane],
                ts=s.start * 1e6,
                dur=s.duration * 1e6,
                args={} if s.cpu is None else {"cpu_ms": s.cpu * 1e3},
            )
            for s in spans
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
        return os.fspath(path)

    def __repr__(self) -> str:
        return f"<Timeline: {len(self.spans)} spans in lanes {', '.join(self.lanes)}>"


def _name_lanes_of_timeline(records: list[list]) -> dict[tuple[int, int], str]:
    """A lane's name for each (process, thread): "main", "thread 1", "rank 0" ..."""
    first = sorted(records, key=lambda record: record[5])  # by start
    threads = {(r[0], r[1]): (r[2], r[3]) for r in first}
    processes = dict.fromkeys(pid for pid, _ in threads)
    here, label_of = os.getpid(), {}
    others = itertools.count(1)
    for pid in processes:
        label = next(label for (p, _), (_, label) in threads.items() if p == pid)
        label_of[pid] = label or ("" if pid == here else f"process {next(others)}")

    lanes, counts = {}, {}
    for (pid, thread), (name, _) in threads.items():
        if thread == -1:  # the process's main thread
            lanes[pid, thread] = label_of[pid] or "main"
            continue
        if name.startswith(("Thread-", "ThreadPoolExecutor-", "Dummy-")):
            counts[pid] = counts.get(pid, 0) + 1
            name = f"thread {counts[pid]}"
        lanes[pid, thread] = f"{label_of[pid]} {name}".strip()
    return dict(
        sorted(lanes.items(), key=lambda item: _lane_order_in_timeline(item[1]))
    )


def _lane_order_in_timeline(lane: str) -> list:
    """Sort "main" first and "rank 2" before "rank 10"."""
    places = []
    for word in lane.split():
        number = int(word) if word.isdigit() else -1
        places.append((word != "main", number, "" if word.isdigit() else word))
    return places
