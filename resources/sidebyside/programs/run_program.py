"""Run a demo's `main` so that it ends as a program in a terminal should.

Ctrl-C, or a reader that has seen enough (`python demo.py | head -1`), ends the program
without a word, together with all processes that it has started. The shell sees a
program that a signal ended. A `main` that has something to say after Ctrl-C catches
KeyboardInterrupt.
"""

import atexit
import contextlib
import io
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable

LOOK = 0.1  # seconds between two looks: has Ctrl-C come, is there still a reader?
ALONE = 0.5  # seconds after Ctrl-C in which `main` may end its children itself
SECONDS = 5  # that `main` has to tidy up; nearly always it takes a moment
POSIX = os.name == "posix"


def run_program(main: Callable[[], int | None]) -> None:
    """Call `main`, and exit with the status that it returns."""
    # In a notebook, by %run, or with python -i, what goes on has its own ways.
    if hasattr(sys, "ps1") or sys.flags.inspect:
        main()
        return
    print_whatever_it_is()
    ending, status = _Ending(), None
    try:
        ending.watch()
        try:
            status = main()
        except SystemExit as stop:
            status = stop.code
        finally:
            ending.main_has_ended = True
        sys.stdout.flush()
    except KeyboardInterrupt:
        ending.why = ending.why or signal.SIGINT
    except Exception as error:  # that Ctrl-C or a closed pipe has led to is not told
        closed = isinstance(error, BrokenPipeError) and _nobody_reads()
        if not ending.why and not closed:
            raise
    if not ending.why and _nobody_reads():
        ending.why = signal.SIGPIPE  # a thread may have met it, or nobody
    if ending.why:
        ending.complete()
    sys.exit(status)  # waits for threads, and may still be interrupted


def print_whatever_it_is() -> None:
    """From now on what standard output has no character for is printed as a ?.

    On Windows a file or a pipe has few: print("→") would end the program.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def end_with_parent() -> None:
    """Initializer of a pool's workers: they end with the parent, even a killed one.

    A worker would else wait for its next task for ever.
    """
    from multiprocessing import parent_process

    def wait() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _Ending:
    """How the program ends: the signal that is the reason, and what is done then.

    Ctrl-C goes to children as well, who would each print a traceback. So SIGINT is
    blocked, which children inherit, and an alarm looks whether one has come.
    """

    why = 0  # the signal
    began = 0.0
    next_look = LOOK
    main_has_ended = False
    runs_exit_functions = False

    def watch(self) -> None:
        import psutil  # noqa: F401  an import half done when a signal comes would fail

        signal.signal(signal.SIGINT, lambda *_: self.begin(signal.SIGINT))
        if not POSIX:
            return
        if "multiprocessing" in sys.modules:  # before 3.13.2 its start unblocks SIGINT
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGALRM, lambda _, frame: self.look(frame))
        atexit.register(self.look_no_more)
        if isinstance(sys.stdout, io.TextIOWrapper) and _prints_into_pipe():
            sys.stdout.reconfigure(line_buffering=True)  # each line as it is printed
            threading.excepthook = _silent_without_reader(threading.excepthook)
        signal.setitimer(signal.ITIMER_REAL, LOOK)

    def look(self, frame) -> None:
        """Every now and then: has Ctrl-C come, has the reader gone, is time over?"""
        try:
            if _makes_semaphore(frame):
                return
            if signal.SIGINT in signal.sigpending():
                signal.sigwait({signal.SIGINT})
                self.begin(signal.SIGINT)
            elif self.why and time.monotonic() > self.began + SECONDS:
                self.complete()
            elif self.why and time.monotonic() > self.began + ALONE:
                _end_children()
            elif not self.why and _nobody_reads():
                self.begin(signal.SIGPIPE)
        finally:
            signal.setitimer(signal.ITIMER_REAL, self.next_look)

    def look_no_more(self) -> None:
        """Python forgets our handlers when it ends, also when it ends of an error."""
        if not self.why:
            self.next_look = 0  # never, though one alarm may be on its way
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def begin(self, why: int) -> None:
        """KeyboardInterrupt, which gives `main` a moment to tidy up.

        After Ctrl-C its children get one, too: a Pool whose workers are killed waits
        for locks that they have taken along. Without a reader they would complain.
        """
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # for nobody reads a traceback now
        if self.why or self.main_has_ended:  # a second time: no moment is given
            self.why = self.why or why
            self.complete()
        self.why, self.began = why, time.monotonic()
        if why != signal.SIGINT:
            _end_children()
        raise KeyboardInterrupt

    def complete(self) -> None:
        """Remove temporary files; then die of the signal, so that the shell knows."""
        _end_children()
        if not self.runs_exit_functions:
            self.runs_exit_functions, self.began = True, time.monotonic()
            atexit._run_exitfuncs()  # unlike sys.exit it waits for no thread
            _end_children()
        if not POSIX:
            os._exit(130)
        signal.signal(self.why, signal.SIG_DFL)
        os.kill(os.getpid(), self.why)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {self.why})


def _makes_semaphore(frame) -> bool:
    """Whether `frame` may have made a semaphore that its tracker does not know yet.

    Interrupted there, the semaphore would stay in /dev/shm for ever.
    """
    module = sys.modules.get("multiprocessing.synchronize")
    lock = getattr(module, "SemLock", None)  # the module may be half imported
    while lock and frame:
        if frame.f_code is lock.__init__.__code__:
            return True
        frame = frame.f_back
    return False


def _prints_into_pipe() -> bool:
    with contextlib.suppress(OSError):  # there may be no standard output
        return stat.S_ISFIFO(os.fstat(1).st_mode)
    return False


def _nobody_reads() -> bool:
    """Whether standard output is a pipe whose other end is closed."""
    if not POSIX:
        return False
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _silent_without_reader(usual: Callable) -> Callable:
    """A thread's complaint about the closed pipe is not shown: all ends in a moment."""

    def excepthook(args) -> None:
        if not (issubclass(args.exc_type, BrokenPipeError) and _nobody_reads()):
            usual(args)

    return excepthook


def _end_children() -> None:
    """Kill all that this process has started, and what these have started.

    All of them are stopped first: a process that is killed while it starts another
    would leave an orphan that nobody finds. What other threads of this process start
    meanwhile is ended as well; a Pool, though, replaces its workers without end.
    """
    import psutil

    for _ in range(20):
        if not (running := _running_children()):
            break
        stopped = set()
        while starting := running - stopped:
            for child in starting:
                with contextlib.suppress(psutil.Error):
                    child.suspend()
            stopped |= starting
            running = _running_children()
        for child in stopped:
            with contextlib.suppress(psutil.Error):
                child.kill()
        time.sleep(0.01)


def _running_children() -> set:
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

    Killed, it would leave their semaphores behind.
    """
    return any("resource_tracker import main" in word for word in process.cmdline())
