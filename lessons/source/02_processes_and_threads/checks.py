"""The checks of the exercises of lesson 02."""

import os
import pickle
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, pairwise, product
from multiprocessing import active_children, connection
from multiprocessing.process import BaseProcess
from operator import index
from threading import Thread, Timer, get_ident
from time import monotonic, sleep
from unittest.mock import patch

from demos.processes.parts.five_jobs import JOBS, KINDS, TrialOutcome, job_in_a_trial
from demos.processes.parts.squares_in_children import spawn
from demos.processes.small_firm import open_the_firm
from sidebyside.by_value import packed_answer
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Expect, NotStarted

FITS = {
    "count": "thread",
    "old library": "process",
    "search": "process",
    "unpack": "process",
    "store": "thread",
}

NEEDS = {
    "count": "what must its worker share with the program?",
    "old library": "what must its worker not be able to end?",
    "search": "which kind of worker can be ended when its time is up?",
    "unpack": "what must its worker not be able to change?",
    "store": "what must its worker share with the program?",
}

NAMES = "secretary", "foreman", "apprentice", "courier", "helper"


@exercise("02-firm", seconds=30)
def check_02_firm(belongs_to):
    with trying("belongs_to") as expect:
        _expect_names_of_the_firm(expect, belongs_to)
    with trying("belongs_to, and reading what they all have signed") as expect:
        signed = open_the_firm()
        for name in NAMES:
            said, where = str.__str__(belongs_to[name]), signed[name]
            think = "what the helper is: can a thread be the parent of a process?"
            if name == "helper":
                think = "what the helper is: if it is a thread, in which process?"
            expect(
                said != "helper",
                got=f"{name} belongs to the helper, you say",
                think=think,
            )
            expect(
                said == where,
                got=f"{name} does not belong to {said}",
                think="the helper: in which process is the line that starts it run?"
                if name == "helper"
                else f"the line that starts {name}: which process runs it?",
            )


def _expect_names_of_the_firm(expect: Expect, belongs_to: object) -> None:
    expect(isinstance(belongs_to, dict), got=belongs_to, think="the form: a dictionary")
    unknown = ", ".join(str(name) for name in belongs_to if name not in NAMES)
    missing = ", ".join(name for name in NAMES if name not in belongs_to)
    think = "the dictionary: one entry for each of the five, and no other"
    if missing and "boss" in belongs_to:
        think = "the direction: whose parent does an entry give, or whose children?"
    expect(
        not unknown and not missing,
        got=f"unknown names: {unknown or 'none'}; missing names: {missing or 'none'}",
        think=think,
    )
    for name, where in belongs_to.items():
        expect(
            isinstance(where, str),
            got=f"{name} belongs to {where!r}, you say",
            think="the form of each value: one name, in quotes",
        )
        expect(
            str.__str__(where) in ("boss", *NAMES),
            got=f"{name} belongs to {where!r}, you say",
            think="the names: who is in the firm besides the boss and the five?",
        )


# The long parts are not done first, and do not fit into a pipe; 70,000 squared needs
# 64 bits; there are more parts than the children that people find enough, four.
PARTS = [[1, -2], list(range(70_000, 10_000, -1)), [], [1, -2], list(range(30_000))]
FEW = [[1, 2], [3]]  # tried twice: what is kept from the first time brings no children
WAYS = {
    "through_pipes": "send_squares",
    "through_a_queue": "put_squares",
    "through_shared_memory": "square_in_place",
}
FIRST_ARGUMENTS = "connection", "queue", "shared"  # of the three


@exercise(
    "02-three-ways",
    seconds=40,
    when_hung="what would have to happen for this line to end: does a child wait for a "
    "reader, and who waits for that child's end",
)
def check_02_three_ways(through_pipes, through_a_queue, through_shared_memory):
    ways = through_pipes, through_a_queue, through_shared_memory
    not_started = []
    for name, way in zip(WAYS, ways, strict=True):
        try:
            _try_one_of_three_ways(name, way)
        except NotImplementedError:
            not_started.append(name)
    if len(not_started) == len(WAYS):
        raise NotStarted
    with trying("each of the three functions") as expect:
        right = ", ".join(name for name in WAYS if name not in not_started)
        expect(
            not not_started,
            got=f"right: {right}; not started: {', '.join(not_started)}",
            think="the next one: what changes on the way back?",
        )


class _NumberOfParent(int):
    """A whole number that counts the products made of it, but not in a child."""

    products = 0

    def __mul__(self, other):
        _NumberOfParent.products += 1
        return int(self) * other

    def __pow__(self, power, modulo=None):
        _NumberOfParent.products += 1
        return pow(int(self), power, modulo)

    def __deepcopy__(self, memo):
        return self  # as a whole number does

    def __reduce__(self):
        return int, (int(self),)


@dataclass
class _ChildProcess:
    """A process that the answer has started."""

    process: BaseProcess
    target: str
    way_back: object  # its first argument: a connection, a queue, an array
    has_sentinel_read: bool = False

    @classmethod
    def about_to_start(cls, process: BaseProcess) -> "_ChildProcess":
        target = getattr(process._target, "__name__", "something else")
        given = {**process._kwargs, **dict(enumerate(process._args))}
        first = (given[key] for key in (0, *FIRST_ARGUMENTS) if key in given)
        return cls(process, target, next(first, None))

    def has_ended(self) -> bool:
        """Ended, and the parent has asked: after join(), is_alive(), close() ..."""
        popen = self.process._popen
        if popen is None or popen.returncode is not None:
            return True
        return self.has_sentinel_read and bool(connection.wait([popen.sentinel], 0))

    def left_behind(self) -> list:
        """What is in shared memory when the child has ended."""
        with suppress(Exception):
            self.process.join(10)
            return list(self.way_back)
        return []


def _try_one_of_three_ways(name: str, way: Callable) -> None:
    sizes = " and ".join(str(len(part)) for part in PARTS)
    tried = f"{name}(parts), parts with {sizes} numbers"
    _expect_squares_of_children(name, way, PARTS, tried)
    _expect_squares_of_children(name, way, FEW, f"{name}({FEW})")
    _expect_squares_of_children(name, way, FEW, f"{name}({FEW}), once more")


def _expect_squares_of_children(
    name: str, way: Callable, numbers: list[list[int]], tried: str
) -> None:
    parts = [[_NumberOfParent(n) for n in part] for part in numbers]
    right = [[n * n for n in part] for part in numbers]
    _NumberOfParent.products = 0
    with trying(tried, parts) as expect:
        watched = _watched_children(expect, name, stops=numbers is PARTS)
        with watched as (children, steps):
            got = way(parts)
        pids, found = _pids_and_squares(expect, got, len(parts))
        if found != right:
            copied = set(pids) <= set(children) and found == numbers
            if copied:  # or read too early
                left = [child.left_behind() for child in children.values()]
                copied = sorted(left) != sorted(right)
            think = _where_squares_of_children_go_wrong(found, right, copied)
            expect(False, got=got, think=think)
        here = f"{_NumberOfParent.products} products computed in the parent"
        think = "the squares: does the parent have to compute any of them itself?"
        expect(_NumberOfParent.products < len(PARTS[1]), got=here, think=think)
        _expect_one_child_process_each(expect, pids, children)
        _expect_children_at_the_same_time(expect, steps, pids)


def _pids_and_squares(
    expect: Expect, got: object, length: int
) -> tuple[list[int], list[list]]:
    expect(
        isinstance(got, list) and len(got) == length,
        got=got,
        think="what is returned: is it a list with one entry for each part?",
    )
    for pair in got:
        expect(
            isinstance(pair, tuple | list) and len(pair) == 2,
            got=got,
            think="one entry: is it a pair (process id, squares), and nothing more?",
        )
    pids, found = [], []
    with suppress(TypeError):
        pids, found = [index(pid) for pid, _ in got], [list(part) for _, part in got]
    think = "one pair: is it a number, and a list of numbers?"
    expect(len(found) == length, got=got, think=think)
    return pids, found


def _expect_one_child_process_each(expect: Expect, pids: list, children: dict) -> None:
    signed = set(pids) <= set(children)
    seen = f"you started {len(children)} children, the results are signed by {pids}"
    think = "who did the work: has each part a child process of its own?"
    if signed and len(children) == len(pids):
        think = "two results with the same signature: from which child is each of them?"
        if len(set(pids)) == 1:
            think = "the signatures: has one of them been written by all?"
    each_has_one = signed and len(set(pids)) == len(pids) == len(children)
    expect(each_has_one, got=seen, think=think)
    left = sum(not child.has_ended() for child in children.values())
    expect(
        not left,
        got=f"children for whose end nobody has waited: {left}",
        think="the end of each child: who waits for it?",
    )


def _expect_way_back_from_children(
    expect: Expect, name: str, children: list[_ChildProcess]
) -> None:
    targets = {child.target for child in children}
    expect(
        not targets & {child for child in WAYS.values() if child != WAYS[name]},
        got="children that do " + ", ".join(sorted(targets)),
        think=f"the way back: is it {WAYS[name]} that your children do here?",
    )
    ways, wanted = len({id(child.way_back) for child in children}), len(children)
    think = "the way back: has each child a pipe, or an array, of its own?"
    if name == "through_a_queue":
        wanted = 1
        think = "the way back: how many queues do all children together need?"
    expect(
        ways == wanted,
        got=f"{len(children)} children, with so many different first arguments: {ways}",
        think=think,
    )


def _expect_children_at_the_same_time(expect: Expect, steps: dict, pids: list) -> None:
    for of_thread in steps.values():
        marks = [
            "start" if pid else "wait" for pid in of_thread if pid in (None, *pids)
        ]
        late = next(
            (
                at
                for at, pair in enumerate(pairwise(marks), 1)
                if pair == ("wait", "start") and "start" in marks[:at]
            ),
            0,
        )
        child = marks[: late + 1].count("start")
        expect(
            not late,
            got="your steps: " + ", ".join(marks),
            think=f"the moment when you start child {child}: are those before it still "
            "at work then, or have you waited for one?",
        )


def _where_squares_of_children_go_wrong(
    found: list[list[int]], right: list[list[int]], copied: bool
) -> str:
    if sorted(found) == sorted(right):
        return "the order: who is first in your list, and who was first to arrive?"
    if copied:
        return "the numbers: do they belong to both processes, or has the child a copy?"
    lengths = [len(part) for part in found] == [len(part) for part in right]
    pairs = zip(chain(*found), chain(*right), strict=False)
    if lengths and all((number - square) % 256 == 0 for number, square in pairs):
        return "the size of a number: has a large square room in a place of the array?"
    return "the moment at which you read: had the child written everything by then?"


class _StoppedChildren:
    """A child that has to stop for a while, so many seconds at most."""

    def __init__(self, seconds: float):
        self.seconds, self.pids, self.outlasted = seconds, [], set()

    def outlasts(self, pid: int) -> bool:
        """Whether it is stopped: then the first wait with a limit is over too soon."""
        if pid in self.pids:
            self.outlasted.add(pid)
        return pid in self.pids

    def stop(self, pid: int) -> None:
        if hasattr(signal, "SIGSTOP"):  # elsewhere the order of arrival is chance
            os.kill(pid, signal.SIGSTOP)
            self.pids.append(pid)
            timer = Timer(self.seconds, self.go_on)
            timer.daemon = True
            timer.start()

    def go_on(self) -> None:
        while self.pids:
            with suppress(ProcessLookupError):
                os.kill(self.pids.pop(), signal.SIGCONT)


@contextmanager
def _watched_children(
    expect: Expect, name: str, stops: bool
) -> Iterator[tuple[dict[int, _ChildProcess], dict]]:
    """What the answer does with processes: the children that it starts, by pid.

    And the steps of each of its threads: the pid of a process that was started, or
    None for a wait, be it for a message or for an end. If it `stops`, the first child
    has to: in a queue until a message of another has arrived, else until a message is
    asked for. The first wait with a limit for a child that is stopped is over at once.
    """
    in_a_queue = name == "through_a_queue"
    children, steps, ended = {}, defaultdict(list), set()
    stopped = _StoppedChildren(20 if in_a_queue else 6)  # who sleeps sleeps too little

    def known_ends() -> set[int]:
        return {
            p for p, c in children.items() if c.process._popen.returncode is not None
        }

    def start(process):
        if known_ends() - ended:
            steps[get_ident()].append(None)
        child = _ChildProcess.about_to_start(process)
        _expect_way_back_from_children(expect, name, [*children.values(), child])
        begin(process)
        if stops and not children:
            stopped.stop(process.pid)
        children[process.pid] = child
        steps[get_ident()].append(process.pid)
        ended.update(known_ends())  # start() looks after others, too

    def noted(wait):
        def noted_wait(*args, **options):
            steps[get_ident()].append(None)
            if not in_a_queue or wait is join or len(children) < len(PARTS):
                stopped.go_on()  # nobody else can bring a message
            try:
                return wait(*args, **options)
            finally:
                stopped.go_on()

        return noted_wait

    def noted_join(process, timeout=None):
        if timeout is None or process.pid in stopped.outlasted:
            noted(join)(process, timeout)
        else:
            steps[get_ident()].append(None)
            if not stopped.outlasts(process.pid):
                join(process, timeout)

    def sentinel_of(process):
        if process.pid in children:
            children[process.pid].has_sentinel_read = True
        return read_sentinel(process)

    begin, join = BaseProcess.start, BaseProcess.join
    read_sentinel = BaseProcess.sentinel.fget
    receiver = type(spawn.Pipe()[0])
    instead = [
        (BaseProcess, "start", start),
        (BaseProcess, "join", noted_join),
        (BaseProcess, "sentinel", property(sentinel_of)),
        (receiver, "recv", noted(receiver.recv)),
        (receiver, "recv_bytes", noted(receiver.recv_bytes)),
    ]
    with ExitStack() as stack:
        for replacement in instead:
            stack.enter_context(patch.object(*replacement))
        yield children, steps
        stopped.go_on()


@exercise("02-choose", seconds=90)
def check_02_choose(choice, try_job):
    with trying("your choice") as expect:
        expect(
            isinstance(choice, dict) and set(choice) == set(JOBS),
            got=choice,
            think="the dictionary: one entry for each of the five jobs",
        )
        expect(
            all(kind in KINDS for kind in choice.values()),
            got=choice,
            think='the values: which of the words "thread" and "process" are they?',
        )
    said = {}
    for name, kind in product(FITS, KINDS):
        less = ", which may take 0.9 s" if name == "search" else ""
        with trying(f"job_in_a_trial(try_job, {kind!r}, {name!r}){less}") as expect:
            said[name, kind] = _expect_proof_of_choice(expect, try_job, kind, name)
    slow = "job_in_a_trial(try_job, 'thread', 'count'), whose work takes 0.3 s of "
    slow += "0.9 s, with two arguments"
    with trying(slow) as expect:
        _expect_proof_of_choice(expect, try_job, "thread", "count", slow=True)
    for name, kind in choice.items():
        with trying(f"your own proof of {kind!r} and {name!r}") as expect:
            expect(
                kind == FITS[name],
                got=said[name, kind].said,
                think=f"the job {name!r}: {NEEDS[name]}",
            )


def _expect_proof_of_choice(
    expect: Expect, try_job: Callable, kind: str, name: str, slow: bool = False
) -> TrialOutcome:
    """What the proof says: what it must, if not at once on a busy machine."""
    due = "kept" if kind == FITS[name] else "broken"
    allowed = 0.9 if slow or name == "search" else JOBS[name].seconds
    proof = _watched_proof(try_job, allowed, slow)
    outcome = job_in_a_trial(proof, kind, name, seconds=20)
    if outcome.end == "broken" and due == "kept":  # has a process begun too late?
        outcome = job_in_a_trial(proof, kind, name, seconds=20)
    if outcome.end == "stub":
        raise NotStarted
    returns = "what your proof returns: True or False, for all kinds"
    expect(
        outcome.end in (due, _ALSO.get((name, kind))),
        got=outcome.said.strip("'"),
        think=_ADVICE.get(outcome.end, returns),
    )
    return outcome


def _watched_proof(try_job: Callable, allowed: float, slow: bool) -> Callable:
    """The same proof, in its own process; and what the answer itself does not say.

    Did it read `job.seconds` before it said False, and does a worker get all of them
    and no more? Was there one worker only, has it ended, before the promise was asked
    for, and has an exception of `start()` come out? With `slow`, the work has two
    arguments and takes 0.3 s.
    """
    # this travels by value, so there are no classes here
    Watched, sent = _watched_job(allowed, slow), packed_answer(try_job)

    def proof(kind, job):
        begin, wait, watched = kind.start, kind.join, Watched(job)

        def start(worker):
            watched.started.append(worker)
            if getattr(worker, "_target", None) in watched.works:
                watched.workers[worker] = monotonic()
            try:
                begin(worker)
            except Exception as error:
                watched.raised.append(error)
                raise

        def join(worker, timeout=None):
            if worker in watched.workers:
                watched.note_wait(timeout or 0)
            wait(worker, timeout)

        def noted_sleep(seconds):
            if get_ident() == here:
                watched.note_wait(seconds)
            sleep(seconds)

        here = get_ident()
        with (
            patch.object(kind, "start", start),
            patch.object(kind, "join", join),
            patch("time.sleep", noted_sleep),
        ):
            kept = pickle.loads(sent)(kind, watched)  # a copy, which imports our sleep
        watched.note_end()
        return _what_proof_leaves_unsaid(kept, watched)

    return proof


def _watched_job(allowed: float, slow: bool) -> type:
    class Watched:
        def __init__(self, job):
            self.job, self.allowed, self.given_up_after = job, allowed, allowed
            self.works = job.work, self.late_work
            self.started, self.workers, self.raised, self.waits = [], {}, [], []
            self.asked = self.asked_early = False
            self.slow = {"work": self.late_work, "args": (0.3, job)} if slow else {}

        def __getattr__(self, name):
            return self.slow[name] if name in self.slow else getattr(self.job, name)

        @property
        def seconds(self):
            self.asked = True
            return self.allowed

        def promise(self):
            self.asked_early = bool(self.at_work())
            return self.job.promise()

        def late_work(self, seconds, job):
            sleep(seconds)
            job.work(*job.args)

        def note_wait(self, seconds):
            """How long it is ready to wait for a worker that cannot be ended yet.

            For a process in the first half of its time only: later it may be ended.
            """
            for worker in self.at_work():
                since = monotonic() - self.workers[worker]
                if isinstance(worker, Thread) or since < self.allowed / 2:
                    self.waits.append(seconds)

        def note_end(self):
            """A thread that is left has had the time asked for, or that has passed."""
            for worker in self.at_work():
                if isinstance(worker, Thread):
                    since = monotonic() - self.workers[worker]
                    self.given_up_after = max(sum(self.waits), since)

        def at_work(self):
            asked = [w for w in self.workers if not getattr(w, "_closed", False)]
            return [worker for worker in asked if worker.is_alive()]

    return Watched


def _what_proof_leaves_unsaid(kept: object, watched) -> object:
    if watched.raised:
        said = f"{kept}, after an exception of start()"
        return TrialOutcome("hides an exception", said)
    if len(watched.workers) > 1:
        said = "a second worker was started for the same job"
        return TrialOutcome("second worker", said)
    # who waits bit by bit, until the time is over, may have begun a last bit
    waits, allowed = watched.waits, watched.allowed
    if sum(waits) > 1.2 * allowed or max(waits, default=0) > allowed + 1e-6:
        said = "it was ready to wait for its worker for longer than job.seconds: "
        said += f"{sum(waits):g} s, not {allowed:g} s"
        return TrialOutcome("waits too long", said)
    if watched.given_up_after < 0.8 * allowed:
        said = f"it gave its worker up after {watched.given_up_after:.2g} s, not "
        return TrialOutcome("gives up early", f"{said}{allowed:g} s")
    until = monotonic() + 5  # one that is being ended may need a moment
    while kept is True and (left := active_children()) and monotonic() < until:
        left[0].join(0.1)
    if kept is True and active_children():
        return TrialOutcome("left at work", "True, and a process was still at work")
    if kept is True and watched.asked_early and not watched.at_work():
        said = "True, and the worker was at work when promise() was called"
        return TrialOutcome("asked early", said)
    if kept is False and not watched.asked:
        if watched.started:
            said = "False, and job.seconds was never read"
            return TrialOutcome("never asked", said)
        return TrialOutcome("no worker", "False, and no worker was started")
    return kept


_ALSO = {("old library", "thread"): "ended", ("store", "process"): "raised"}
_ADVICE = {
    "kept": "your proof: a worker of the wrong kind passes it. Does a worker of this "
    "kind do the work, and do you look at the worker and at the promise afterwards?",
    "broken": "your proof: the right kind fails it. Is the work done, and has the "
    "worker ended, at the moment when you look? And do you ask for something that the "
    "text does not? What does an error above say, if there is one?",
    "hung": "your proof: which line waits longer than job.seconds?",
    "ended": "your proof: in which process is the work done?",
    "raised": "your proof: the line that raised this. Is it right for both kinds?",
    "hides an exception": "your proof: if start() raises an exception, who is to hear "
    "of it?",
    "waits too long": "your proof: how long does it wait, all in all, and which number "
    "of the job says how long it may?",
    "gives up early": "your proof: how long may the work take, and does the worker get "
    "all of this time?",
    "no worker": "your proof: which line of it starts a worker?",
    "never asked": "your proof: how long does it wait for a worker, and which number "
    "of the job says how long it may?",
    "second worker": "your proof: how many workers do the work, if the first one does "
    "not bring what was promised?",
    "asked early": "your proof: what does the promise say once the worker has ended? "
    "May it have changed by then?",
    "left at work": "your proof: who ends a worker that still works, and can be?",
}
