"""Ask `main` of a demo for help and for the impossible: python answers_of_demo.py PATH

--help shows the manual. An unknown option, and every bad value of an option that takes
a number, unless its type allows it on purpose, ends with status 2 and one line that
names the option; nothing is started. Prints what is not so.
"""

import argparse
import contextlib
import io
import os
import re
import runpy
import sys
from multiprocessing.process import BaseProcess

BAD = "0", "-1", "x"
ABSURD = "nan", "inf", "1e308", "-1e308", str(10**30), "9" * 5000

path = sys.argv[1]
started, options = [], []


def nothing_may_start(event, args):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"):
        started.append(event)
        raise RuntimeError(event)


def no_process(self):
    started.append("a process")
    raise RuntimeError("a process")


def call(*arguments) -> tuple[object, str, str]:
    """Its status, and what it says."""
    sys.argv = [path, *arguments]
    out, err, status = io.StringIO(), io.StringIO(), "none: main() returned"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            demo["main"]()
        except SystemExit as stop:
            status = stop.code or 0
        except BaseException as error:
            status = f"{type(error).__name__}: {error}"
    return status, out.getvalue(), err.getvalue()


def expect_refusal(option: str, *value: str) -> None:
    started.clear()
    status, out, err = call(option, *value)
    message = re.sub(r"\A(usage:.*\n)(\s+.*\n)*", "", err)
    one_line = message.count("\n") == 1 and option in message and not out
    if status != 2 or started or not one_line or re.search(r"invalid \w+ val", message):
        print(option, *value, f"is not refused: {status}, {started}, {err}")


def note_options(self, args=None, namespace=None):
    """In place of `parse_args`."""
    options.extend(action for action in self._actions if action.nargs != 0)
    raise SystemExit(0)


def bad_values(option: argparse.Action) -> list[str]:
    """Those that its type does not allow on purpose."""
    kind, number = option.type, isinstance(option.default, int | float)
    ours = getattr(kind, "__module__", "") == "sidebyside.programs.arguments"
    if ours and kind.__qualname__ not in ("output_file", "picture_file"):
        return ["", *ABSURD, *(value for value in BAD if not allows(kind, value))]
    return ["", *ABSURD, *BAD] if number or kind in (int, float) else [""]


def allows(kind, value: str) -> bool:
    with contextlib.suppress(argparse.ArgumentTypeError):
        kind(value)
        return True
    return False


sys.argv = [path]
sys.path.insert(0, os.path.dirname(path))
demo = runpy.run_path(path, run_name="demo")
sys.addaudithook(nothing_may_start)
BaseProcess.start = no_process
parse = argparse.ArgumentParser.parse_args
argparse.ArgumentParser.parse_args = note_options
call()
argparse.ArgumentParser.parse_args = parse
status, out, err = call("--help")
if status != 0 or err or demo["__doc__"].strip() not in out:
    print(f"--help does not show the docstring as it is written: {status}, {err}")
expect_refusal("--no-such-option")
for option in options:
    for value in bad_values(option):
        expect_refusal(option.option_strings[-1], value)
