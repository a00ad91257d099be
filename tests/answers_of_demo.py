"""What `main` of a demo answers: python answers_of_demo.py PATH BAD... absurd ABSURD...

Calls it with --help, with an unknown option, and each option that takes a number with
every bad value that its type does not allow on purpose. Nothing may be started. Prints
as JSON what came of each command line.
"""

import argparse
import contextlib
import io
import json
import os
import runpy
import sys
from multiprocessing.process import BaseProcess

path, *bad = sys.argv[1:]
bad, absurd = bad[: bad.index("absurd")], bad[bad.index("absurd") + 1 :]
stopped = {"now": ""}
found, with_value = [], []


def nothing_may_start(event, args):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"):
        stopped["now"] = event
        raise RuntimeError(event)


def no_process(self):
    stopped["now"] = "a process"
    raise RuntimeError("a process")


def call(*arguments) -> dict:
    sys.argv = [path, *arguments]
    stopped["now"] = ""
    out, err, status = io.StringIO(), io.StringIO(), "none: main() returned"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            demo["main"]()
        except SystemExit as stop:
            status = stop.code or 0
        except BaseException as error:
            status = f"{type(error).__name__}: {error}"
    return {
        "arguments": arguments,
        "status": status,
        "started": stopped["now"],
        "out": out.getvalue(),
        "err": err.getvalue(),
    }


def note_options(self, args=None, namespace=None):
    """In place of `parse_args`."""
    for action in self._actions:
        kind, number = action.type, isinstance(action.default, int | float)
        if action.nargs != 0:
            with_value.append(action.option_strings[-1:])
        if action.nargs != 0 and (number or kind in (int, float) or ours(kind)):
            found.append((action.option_strings[-1:], allowed(kind)))
    raise SystemExit(0)


def ours(kind) -> bool:
    return getattr(kind, "__module__", "") == "sidebyside.programs.arguments" and (
        kind.__qualname__ not in ("output_file", "picture_file")
    )


def allowed(kind) -> list[str]:
    """The bad values that the option allows on purpose, because its type says so."""
    good = []
    for value in bad if ours(kind) else ():
        with contextlib.suppress(argparse.ArgumentTypeError):
            kind(value)
            good.append(value)
    return good


sys.argv = [path]
sys.path.insert(0, os.path.dirname(path))
demo = runpy.run_path(path, run_name="demo")
sys.addaudithook(nothing_may_start)
BaseProcess.start = no_process
parse = argparse.ArgumentParser.parse_args
argparse.ArgumentParser.parse_args = note_options
call()
argparse.ArgumentParser.parse_args = parse
calls = {"help": call("--help"), "unknown": call("--no-such-option"), "bad": []}
for option, good in found:
    calls["bad"] += [call(*option, value) for value in bad if value not in good]
    calls["bad"] += [call(*option, value) for value in absurd]
calls["bad"] += [call(*option, "") for option in with_value]
calls["options"] = [option for option, good in found]
json.dump(calls, sys.__stdout__)
