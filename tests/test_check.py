"""check always ends, never raises, says what came back, and leaves nothing behind."""

import contextlib
import linecache
import os
import re
import signal
import subprocess
import sys
import threading

import cloudpickle
import psutil
import pytest
import torch

from sidebyside import check, forget, hint, solution
from sidebyside.course.record import ROOT, read_record, record_file
from sidebyside.exercises.check import Verdict, exercise, trying
from sidebyside.exercises.expectations import Expect
from sidebyside.exercises.findings import largest_difference
from sidebyside.ranks.failed_frames import failed_traceback, frame_of_learner
from sidebyside.ranks.failures import hang_told
from sidebyside.ranks.outcomes import Outcome, OutcomeFrame, RaisedOutcome
from tests.process_state import is_alive, wait_until

# As if they were defined in a notebook: the check's process need not import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@exercise("98-add", seconds=20)
def check_add(add):
    with trying("add(1, 2)") as expect:
        got = add(1, 2)
        expect(got == 3, got=got, think="what plus does")


@exercise("98-sort", seconds=20)
def check_sort(ordered):
    numbers = [3, 1, 2]
    with trying("ordered([3, 1, 2])", numbers, think="what can be compared") as expect:
        got = ordered(numbers)
        expect(got == [1, 2, 3], got=got, think="which number is the smallest")
        expect.quick(type(got) is list, got=got, think="what a list has")


@exercise("98-measure", seconds=20)
def check_measure(number):
    Expect("measure")(number == 3, got=number, think="three")
    return "3 calls instead of 5"


@exercise("98-hang", seconds=4)
def check_hang(function):
    with trying("function()"):
        function()


@exercise("98-two", seconds=20)
def check_two(first, second):
    Expect("both")(first != second, think="two different answers")


@exercise("98-ranks", in_ranks=True, when_hung="who comes late")
def check_ranks(function):
    from sidebyside.exercises.rank_trials import run_trial

    with trying("run_ranks(function)") as expect:
        got = run_trial(function, ranks=2, seconds=80)
        expect(got == [0, 1], got=got, think="which rank you are")


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The first check starts multiprocessing's forkserver, which stays."""
    check("98-hang", print)


@pytest.fixture(autouse=True)
def nothing_stays_behind(warm):
    before = set(psutil.Process().children(recursive=True))
    yield
    wait_until(lambda: set(psutil.Process().children(recursive=True)) <= before)


def cell(code: str) -> dict:
    """What the names are after this code has run in a cell of a notebook."""
    file = "/tmp/ipykernel_1/98.py"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    names = {"__name__": "__main__"}
    exec(compile(code, file, "exec"), names)
    return names


def add_cell(*lines: str):
    """The function `add` of a cell; its body has these lines."""
    return cell("\n    ".join(["def add(a, b):", *lines]))["add"]


# What it says -------------------------------------------------------------------------


def test_a_right_answer_is_told_what_the_check_has_measured():
    passed = check("98-measure", 3)
    assert passed.message == "98-measure: PASSED\n  measured    3 calls instead of 5"
    assert "measured" not in check("98-measure", 4).message


def test_a_right_answer_passes(capsys):
    verdict = check("98-add", add_cell("return a + b"))
    assert verdict == Verdict("98-add", "PASSED", "98-add: PASSED")
    assert capsys.readouterr().out == "98-add: PASSED\n"


def test_a_wrong_answer_is_told_what_was_tried_what_came_back_and_what_to_think_of():
    verdict = check("98-add", add_cell("return a - b"))
    assert verdict.state == "NOT YET"
    assert verdict.message == (
        "98-add: NOT YET\n"
        "  tried       add(1, 2)\n"
        "  came back   -1\n"
        "  think about what plus does"
    )


def test_an_exception_is_shown_with_its_line_and_the_arguments():
    verdict = check("98-add", add_cell("a = 0", "return b / a"))
    assert verdict.state == "NOT YET"
    assert verdict.message == (
        "98-add: NOT YET\n"
        "  tried       add(1, 2)\n"
        "  came back   ZeroDivisionError: division by zero\n"
        "  at line     3, in add: return b / a\n"
        "  think about what this line does with these values"
    )


def test_a_hang_is_shown_with_its_line():
    names = cell(
        "import threading\n"
        "def wait(lock):\n    lock.acquire()\n"
        "def f():\n    lock = threading.Lock()\n    wait(lock)\n    wait(lock)"
    )
    verdict = check("98-hang", names["f"])
    assert verdict.state == "HUNG"
    assert verdict.message == (
        "98-hang: HUNG\n"
        "  tried       function()\n"
        "  after       4 s it had not ended\n"
        "  at line     3, in wait: lock.acquire()\n"
        "  think about what would have to happen for this line to end"
    )


def test_who_prints_instead_of_returning_is_told():
    verdict = check("98-add", add_cell("print(a + b)"))
    assert "to print is not to return" in verdict.message


def test_who_hands_over_a_result_is_told_to_hand_over_the_function():
    for result in 3, None:
        verdict = check("98-add", result)
        assert verdict.state == "NOT YET"
        assert "hand over the function itself" in verdict.message


STUBS = "add_cell('raise NotImplementedError')", "{'a': ..., 'b': ...}"


@pytest.mark.parametrize("stub", STUBS)
def test_the_stub_is_not_started(stub):
    verdict = check("98-add", eval(stub))
    assert verdict.state == "NOT STARTED"
    assert "if you have replaced it, run its cell" in verdict.message
    assert read_record()["exercises"] == {}


def test_a_half_filled_answer_is_not_yet_right():
    verdict = check("98-two", {"a": 1, "b": ...}, 2)
    assert verdict.state == "NOT YET"
    assert "says ... in 1 of its places" in verdict.message


def test_an_exercise_that_was_replaced_says_by_which():
    assert "was replaced by 11a-stop" in check("11a-replicas", max).message


def test_numbers_that_are_nearly_equal_are_shown_with_enough_digits():
    one = torch.tensor([0, 1.838])
    told = largest_difference(one.double(), one.double() + torch.tensor([0, 1e-6]))
    assert told == "1.83800006 instead of 1.83800106, at position 1"


def test_an_answer_in_another_dtype_is_told_so():
    exercise("98-dtype")(lambda f: torch.allclose(f(torch.ones(1)), torch.ones(1)))
    verdict = check("98-dtype", lambda tensor: tensor.double())
    assert "think about the dtype of what comes back" in verdict.message


def test_what_the_answer_prints_is_shown_within_limits(capsys):
    assert check("98-add", add_cell("print('hello')", "return 3")).state == "PASSED"
    assert capsys.readouterr().out == "hello\n98-add: PASSED\n"
    assert check("98-add", add_cell("print('x\\n' * 10**7)", "return 3")).state
    assert len(capsys.readouterr().out) < 50_000


def test_an_unknown_id_is_answered_with_near_ones(capsys):
    told = 'There is no exercise "00-savde". Did you mean "00-saved"'
    assert check("00-savde", max).message.startswith(told)
    assert "progress()" in check("nothing like it", max).message
    for show in hint, solution, forget:
        capsys.readouterr()
        show("00-savde")
        assert 'Did you mean "00-saved"' in capsys.readouterr().out


def test_a_wrong_number_of_answers_is_answered_with_the_right_call():
    expected = '98-two takes 2 answers, not 1: check("98-two", first, second)'
    assert check("98-two", 1).message == expected
    assert check("98-two", 1, 2, 3).message.startswith("98-two takes 2 answers, not 3")
    assert 'check("98-add", add)' in check("98-add").message
    assert "the id comes first" in check(max, "98-add").message
    assert read_record()["exercises"] == {}


# What an answer may do ----------------------------------------------------------------

NASTY = {
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "exits at once": ("import os; os._exit(3)", r"tried +add\(1, 2\)\s.* status 3"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "returns a lock": ("import threading; return threading.Lock()", "unlocked"),
    "returns much": ("return list(range(10**6))", r"\[0, 1, .*\.\.\.\]"),
    "cannot be shown": (
        "return type('Odd', (), {'__repr__': lambda self: 1 / 0})()",
        "a Odd|<Odd instance>",
    ),
}


@pytest.mark.parametrize("body", NASTY)
def test_an_answer_that(body):
    code, words = NASTY[body]
    verdict = check("98-add", add_cell(code))
    assert verdict.state == "NOT YET"
    assert re.search(words, verdict.message), verdict.message
    assert "0x" not in verdict.message
    assert check("98-add", add_cell("return a + b")).state == "PASSED", "the next one"


def test_an_answer_that_cannot_be_sent_is_told_why():
    names = cell("ones = (1 for _ in 'ab')\ndef add(a, b):\n    return a + next(ones)")
    verdict = check("98-add", names["add"])
    assert verdict.state == "NOT YET"
    assert "cannot pickle 'generator' object" in verdict.message
    assert "which variable" in verdict.message
    assert "make it inside the function" in verdict.message


def test_an_answer_may_use_what_its_notebook_defines():
    code = "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    a: int\n"
    code += "    b: int\nOFFSET = 0\ndef total(pair): return pair.a + pair.b + OFFSET\n"
    code += "def add(a, b): return total(Pair(a, b))"
    assert check("98-add", cell(code)["add"]).state == "PASSED"


FORKS = """
def {name}(*numbers):
    import multiprocessing, os, pathlib, time
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    pathlib.Path({file!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
    {then}
"""


@pytest.mark.parametrize(
    ("then", "state"),
    [
        ("return 3", "PASSED"),
        ("os.kill(os.getpid(), 9)", "NOT YET"),
        ("child.join()", "HUNG"),
    ],
)
def test_what_an_answer_starts_ends_with_its_check(then, state, tmp_path):
    file = tmp_path / "pids"
    id = "98-hang" if state == "HUNG" else "98-add"
    names = cell(FORKS.format(name="f", file=str(file), then=then))
    assert check(id, names["f"]).state == state
    pids = [int(pid) for pid in file.read_text().split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)))


# Interrupted, killed, at once ---------------------------------------------------------


def test_an_interrupted_check_is_not_recorded_and_leaves_nothing(tmp_path):
    file = tmp_path / "pids"
    names = cell(FORKS.format(name="f", file=str(file), then="child.join()"))

    def interrupt_when_it_runs() -> None:
        wait_until(lambda: file.exists() and file.read_text())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_it_runs)
    thread.start()
    verdict = check("98-add", names["f"])
    thread.join()
    assert verdict.state == "NOT YET"
    assert "you interrupted the check" in verdict.message
    assert read_record()["exercises"] == {}
    assert not any(is_alive(int(pid)) for pid in file.read_text().split())


CACHED = """
import operator
from functools import cache, lru_cache

@cache
def steps_down(n):
    return 0 if n == 0 else 1 + steps_down(n - 1)

@lru_cache(maxsize=4)
def minus(a):
    return -a

plus = cache(operator.add)

@cache
def add(a, b):
    return plus(a, steps_down(-minus(b)))

@cache
def rank():
    import torch.distributed
    return add(torch.distributed.get_rank(), 0)
"""


@pytest.mark.parametrize(("id", "answer"), [("98-add", "add"), ("98-ranks", "rank")])
def test_anything_of_a_notebook_may_be_cached(id, answer):
    verdict = check(id, cell(CACHED)[answer])
    assert verdict.state == "PASSED", verdict.message


# In ranks -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "state", "words"),
    [
        ("return dist.get_rank()", "PASSED", "PASSED"),
        ("return 0", "NOT YET", r"\[0, 0\]"),
        ("raise NotImplementedError('your turn')", "NOT STARTED", "your turn"),
        ("return 1 / dist.get_rank()", "NOT YET", r"rank 0 raised ZeroDivisionError"),
        (
            "dist.get_rank() or dist.barrier()",
            "HUNG",
            r"(?s)tried +run_.*rank 0 waits.*dist.barrier.*think about who comes late",
        ),
    ],
)
def test_a_check_in_ranks(body, state, words, monkeypatch):
    if state == "HUNG":
        monkeypatch.setenv("SIDEBYSIDE_PATIENCE", "6")
    names = cell(f"import torch.distributed as dist\ndef f():\n    {body}")
    verdict = check("98-ranks", names["f"])
    assert verdict.state == state
    assert re.search(words, verdict.message), verdict.message


# Hints, solutions, the record ---------------------------------------------------------


def test_hints_come_one_by_one_and_start_again(capsys):
    shown = []
    for _ in range(5):
        hint("00-saved")
        shown.append(capsys.readouterr().out)
    for number in range(3):
        assert shown[number].startswith(f"*Hint {number + 1} of 3: ")
    assert shown[3].startswith("You have seen all 3 hints; here is the first again.")
    assert shown[4] == shown[1]


def test_the_solution_is_shown_with_its_reason_and_asks_to_try_first(capsys):
    solution("00-saved")
    out = capsys.readouterr().out
    assert out.startswith("You have not tried 00-saved yet")
    assert "return sum(minutes) - max(minutes" in out
    assert "SOLUTION" not in out
    check("00-saved", max)
    capsys.readouterr()
    solution("00-saved")
    assert capsys.readouterr().out.startswith("def saved(minutes")


@pytest.mark.parametrize("broken", ["{", '{"guesses": {"a": {"value": "3"}}}'])
def test_a_broken_record_is_kept_and_said_once(broken, capsys):
    record_file().write_text(broken)
    assert read_record() == {"exercises": {}, "guesses": {}, "course": {}}
    assert "could not be read" in capsys.readouterr().out
    read_record()
    assert capsys.readouterr().out == ""
    [kept] = record_file().parent.glob("*unreadable*")
    assert kept.read_text() == broken


def test_where_nothing_can_be_written_the_record_lives_in_memory(monkeypatch, capsys):
    monkeypatch.setenv("SIDEBYSIDE_PROGRESS", "/proc/no such folder/progress.json")
    assert check("98-add", add_cell("return 3")).state == "PASSED"
    assert "cannot be written" in capsys.readouterr().out
    check("98-add", add_cell("return 3"))
    assert capsys.readouterr().out == "98-add: PASSED\n"
    passed = {"state": "PASSED", "tries": 1}
    assert read_record()["exercises"]["98-add"] == passed, "only till it passed"
    forget()


def test_two_kernels_lose_nothing(tmp_path):
    program = """
import sys
from sidebyside.course.record import changed_record
for n in range(50):
    with changed_record() as record:
        entry = record["exercises"].setdefault("98-both", {"tries": 0})
        entry["tries"] += 1
"""
    kernels = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [kernel.wait() for kernel in kernels] == [0, 0]
    assert read_record()["exercises"]["98-both"]["tries"] == 100
    assert [path.name for path in record_file().parent.iterdir()] == ["progress.json"]


# trying ------------------------------------------------------------------------------


class _Slow(list):
    pass


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (sorted, "PASSED", ""),
        (list, "NOT YET", r"tried +ordered\(\[3, 1, 2\]\) came back \[3, 1, 2\] think"),
        (list.clear, "NOT YET", r"came back \[3, 1, 2\] has become \[\]"),
        (lambda numbers: _Slow([1, 2, 3]), "TOO SLOW", "think about what a list has"),
    ],
)  # fmt: skip
def test_what_was_tried_is_shown_with_whatever_is_found(answer, state, said):
    verdict = check("98-sort", answer)
    assert verdict.state == state
    assert re.search(said, " ".join(verdict.message.split())), verdict.message


def test_no_code_of_a_check_is_shown_where_an_answer_fails():
    room = ROOT / "lessons" / "source" / "11b_buckets_and_overlap"
    check_file, helper = room / "checks.py", room / "buckets_and_no_sync.py"
    ours = [OutcomeFrame(str(file), 1, "ours") for file in (check_file, helper)]
    answer = OutcomeFrame(str(room / "answers.py"), 1, "answer")
    library = OutcomeFrame(contextlib.__file__, 1, "library")
    for frames, said in [
        ([*ours, answer, library, ours[1], library], ["answer", "library"]),
        ([*ours, answer, ours[1]], ["answer"]),
        ([*ours, library, library], ["library", "library"]),
        ([*ours], []),
    ]:
        told = failed_traceback(RaisedOutcome("Error", "no", "x" * 5000, frames))
        assert re.findall(r", in (\w+)", "\n".join(told)) == said
        assert told[-1] == "x" * 260 + " … " + "x" * 40
    waiting = Outcome("rank", 1, 6, stacks={0: [*ours, library]})
    assert hang_told(waiting).endswith("in library, in code that comes with the lesson")
    assert frame_of_learner([*ours, library]) == ours[1]  # a rank that waits is shown
    assert frame_of_learner([*ours, answer, ours[1], library]) == answer
    for file in (
        "numpy/random/_mt19937.pyx",  # as Cython names it
        "/srv/.local/lib/python3.13/site-packages/torch/_tensor.py",
        str(ROOT / "lessons" / "props" / "failure.py"),
        str(ROOT / "resources" / "parallel_by_hand" / "collectives" / "ring.py"),
    ):
        assert frame_of_learner([answer, OutcomeFrame(file, 1, "theirs")]) == answer
