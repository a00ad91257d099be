"""Run a demo's `main` so that it ends as a program in a terminal should.

Ctrl-C, or a reader that has seen enough (`python demo.py | head -1`), ends the program
at once and without a word, together with all processes that it has started. The shell
sees a program that a signal ended. A `main` that has something to say after Ctrl-C
catches KeyboardInterrupt; its children have ended by then. A demo imports this module
first, so that Ctrl-C is quiet while it imports the others: torch takes seconds, fewer
when Python does not search what is imported for garbage.
"""

import atexit
import contextlib
import gc
import os
import select
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

DEMOS = os.path.realpath(os.path.join(__file__, "..", "..", "..", "demos"))
SECONDS = 5  # that `main` has to tidy up; nearly always it takes a moment
LOOK = 0.1  # seconds between two looks whether there still is a reader
FEEDER_SECONDS = 1  # that the feeder of a queue has
POSIX = os.name == "posix"
TIDY = "resource_tracker", "sidebyside.process_sessions"


def run_program(main: Callable[[], int | None]) -> None:
    """Call `main`, and exit with the status that it returns."""
    import psutil  # noqa: F401  an import, or a search for a folder, half done ...

    with contextlib.suppress(OSError):
        tempfile.gettempdir()  # ... when a signal comes, would fail or leave a file
    gc.freeze()  # what is imported stays
    gc.enable()
    ending = _EndOfProgram()
    status = 0
    try:
        _answer_signals_to_program(ending)
        status = _status_of_program(main, ending)
    except KeyboardInterrupt:  # also when `main` had ended, and nobody knew it yet
        ending.why = ending.why or signal.SIGINT
    ending.main_has_ended = True
    if not ending.why and _nobody_reads_program():
        ending.why = signal.SIGPIPE  # a thread may have met it, or nobody
    if ending.why:
        ending.complete()
    _wait_for_feeders_of_program()
    sys.exit(status)  # waits for threads, and may still be interrupted


def _answer_signals_to_program(ending: "_EndOfProgram") -> None:
    signal.signal(signal.SIGINT, lambda *_: ending.begin(signal.SIGINT))
    if POSIX:
        _keep_interrupts_to_program()
        _register_semaphores_before(ending)
        _give_up_pools_at(ending)
        signal.signal(signal.SIGALRM, lambda *_: ending.look())
        atexit.register(ending.expect_no_alarm)
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            sys.stdout.reconfigure(line_buffering=True)  # each line as it is printed
            threading.excepthook = _silent_when_nobody_reads_program(
                threading.excepthook
            )
            _look_for_reader_of_program_in(LOOK)


def _status_of_program(main: Callable, ending: "_EndOfProgram") -> int | None:
    try:
        status = main()
        sys.stdout.flush()
    except SystemExit as stop:
        status = stop.code
    except BrokenPipeError:
        if not _nobody_reads_program():
            raise
        status, ending.why = 0, ending.why or signal.SIGPIPE
    ending.main_has_ended = True
    return status


def _wait_for_feeders_of_program() -> None:
    """A queue that nobody holds any more is tidied up by its feeder, a daemon thread.

    Python's end would stop it half-way: the semaphore removed, and reported as leaked.
    """
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(FEEDER_SECONDS)


def end_with_parent() -> None:
    """Initializer of a pool's workers: they end with the parent, even a killed one.

    A worker would else wait for its next task for ever.
    """
    from multiprocessing import parent_process

    def wait() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _EndOfProgram:
    """How the program ends: the signal that is the reason, and what is done then."""

    why = None
    moment_ends = 0.0
    main_has_ended = False
    tidying = False
    waits = False
    postponed = None

    def begin(self, why: int) -> None:
        """End the children; KeyboardInterrupt gives `main` a moment to tidy up."""
        if self.waits:
            self.postponed = why
            return
        if self.why:  # a second time: no moment is given
            self.complete()
        _look_for_reader_of_program_in(0)  # never, though one alarm may be on its way
        self.moment_ends = time.monotonic() + SECONDS
        self.why = why
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for nobody reads a traceback now
        _end_children_of_program()
        if self.main_has_ended:
            self.complete()
        _look_for_reader_of_program_in(SECONDS)
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def postpone(self) -> Iterator[None]:
        """A signal that arrives meanwhile counts afterwards."""
        self.waits = True
        try:
            yield
        finally:
            self.waits = False
            why, self.postponed = self.postponed, None
            if why:
                self.begin(why)

    def look(self) -> None:
        """Now and then: has the reader gone, or is the moment over?"""
        if self.why:
            if time.monotonic() >= self.moment_ends:
                self.complete()
        elif _nobody_reads_program():
            self.begin(signal.SIGPIPE)

    def expect_no_alarm(self) -> None:
        """Python forgets our handlers when it ends, also when it ends of an error."""
        if not self.why:
            _look_for_reader_of_program_in(0)

    def complete(self) -> None:
        """Remove temporary files; then die of the signal, so that the shell knows.

        The functions that run at exit would wait for a child that `main` has started
        since it was interrupted; and they get a moment, too.
        """
        try:
            _end_children_of_program()
            if not self.tidying:
                self.tidying = True
                self.moment_ends = time.monotonic() + SECONDS
                _look_for_reader_of_program_in(SECONDS)
                atexit._run_exitfuncs()  # unlike sys.exit it waits for no thread
            _end_children_of_program()
        finally:
            if not POSIX:
                os._exit(130)
            signal.signal(self.why, signal.SIG_DFL)
            os.kill(os.getpid(), self.why)


def _look_for_reader_of_program_in(seconds: float) -> None:
    """And again and again; with 0, never."""
    if POSIX:
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)


def _nobody_reads_program() -> bool:
    """Whether standard output is a pipe whose other end is closed."""
    if not POSIX:
        return False
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _silent_when_nobody_reads_program(usual: Callable) -> Callable:
    """A thread's complaint about the closed pipe is not shown: all ends in a moment."""

    def excepthook(args) -> None:
        if not (issubclass(args.exc_type, BrokenPipeError) and _nobody_reads_program()):
            usual(args)

    return excepthook


def _end_children_of_program() -> None:
    """Kill all that this process has started, and what these have started.

    All of them are stopped first: who is killed while it starts another would leave an
    orphan that nobody finds. Those are spared that tidy up for others.
    """
    import psutil

    for _ in range(300):  # other threads may go on starting some
        if not (running := _running_children_of_program()):
            return
        stopped = set()
        while starting := running - stopped:
            for child in starting:
                with contextlib.suppress(psutil.Error):
                    child.suspend()
            stopped |= starting
            running = _running_children_of_program()
        for child in stopped:
            with contextlib.suppress(psutil.Error):
                child.kill()
        select.select([], [], [], 0.01)


def _running_children_of_program() -> set:
    """Each as a psutil.Process, without those that tidy up for others."""
    import psutil

    running = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE:
                running |= set() if tidies_up_for_others(child) else {child}
    return running


def tidies_up_for_others(process) -> bool:
    """Whether this psutil.Process ends by itself, when it has removed what others left.

    Killed, it would leave their semaphores and processes behind.
    """
    return any(name in part for part in process.cmdline() for name in TIDY)


def _keep_interrupts_to_program() -> None:
    """Ctrl-C goes to children as well, who would each print a traceback.

    A process that is started while a signal is blocked is deaf to it.
    """
    from multiprocessing import resource_tracker
    from multiprocessing.process import BaseProcess

    usual = BaseProcess.start

    def start(process: BaseProcess) -> None:
        if process._start_method != "fork":
            resource_tracker.ensure_running()  # it unblocks the signals that it ignores
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            usual(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    BaseProcess.start = start


def _register_semaphores_before(ending: _EndOfProgram) -> None:
    """multiprocessing makes a semaphore, and then notes that it is to be removed.

    Between the two it starts a process, so that there is time for a Ctrl-C.
    """
    from multiprocessing.synchronize import SemLock

    usual = SemLock.__init__

    def init(lock: SemLock, *arguments, **options) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        with ending.postpone() if in_main else contextlib.nullcontext():
            usual(lock, *arguments, **options)

    SemLock.__init__ = init


def _give_up_pools_at(ending: _EndOfProgram) -> None:
    """A Pool replaces killed workers, and waits for locks that they have taken along.

    Once the program ends there is nothing to wait for: all workers are killed.
    """
    from multiprocessing.pool import Pool

    def unless_it_ends(usual: Callable) -> Callable:
        return lambda *args: None if ending.why else usual(*args)

    Pool._repopulate_pool_static = staticmethod(
        unless_it_ends(Pool._repopulate_pool_static)
    )
    Pool._terminate_pool = classmethod(unless_it_ends(Pool._terminate_pool.__func__))
    Pool.join = unless_it_ends(Pool.join)


def _import_quietly_and_without_delay() -> None:
    """Nothing has been started yet, so the signal itself may end the demo."""
    program = getattr(sys.modules["__main__"], "__file__", None)
    if program and os.path.realpath(program).startswith(DEMOS + os.sep):
        gc.disable()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


_import_quietly_and_without_delay()
