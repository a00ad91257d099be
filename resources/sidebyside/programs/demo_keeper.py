"""Runs one demo, and ends it when the notebook that asked for it is gone.

Started by `run_demo` as a program of its own, with a pipe from the notebook as its
standard input. However the notebook ends, the pipe then closes, and the demo is
stopped together with every process it has started.
"""

import os
import signal
import subprocess
import sys
import threading

from sidebyside.programs.process_groups import end_groups


def _stop_demo(demo: subprocess.Popen) -> None:
    """Kill the demo and what it has started."""
    if os.name == "nt":
        command = ["taskkill", "/F", "/T", "/PID", str(demo.pid)]
        subprocess.run(command, capture_output=True, check=False)
    else:
        end_groups([demo.pid])


def main() -> int:
    demo = subprocess.Popen(
        [sys.executable, "-u", *sys.argv[1:]],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )

    def stop_with_the_notebook() -> None:
        for request in sys.stdin:  # until the pipe closes
            if request == "interrupt\n" and os.name != "nt":
                os.killpg(demo.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
        _stop_demo(demo)

    threading.Thread(target=stop_with_the_notebook, daemon=True).start()
    status = demo.wait()
    _stop_demo(demo)  # what it has left behind
    return status


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    if status < 0:  # killed by a signal: end in the same way
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)  # not waiting for the thread that reads
