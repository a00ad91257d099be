"""`sidebyside find` leads to the right place first, however it is asked."""

import pytest

from sidebyside.__main__ import main
from sidebyside.course import finding

RING = "lessons/10b_all_reduce_and_its_cost.ipynb, Round a ring"


@pytest.mark.parametrize(
    ("asked", "name", "file"),
    [
        ("all-reduce", "all-reduce", "lessons/09_data_parallel_by_hand.ipynb"),
        ("ALLREDUCE", "all-reduce", "lessons/09_data_parallel_by_hand.ipynb"),
        ("all reduces", "all-reduce", "lessons/09_data_parallel_by_hand.ipynb"),
        ("al-reduce", "all-reduce", "lessons/09_data_parallel_by_hand.ipynb"),
        ("deadlok", "deadlock", "lessons/04_race_conditions_and_locks.ipynb"),
        ("1F1B", "1F1B", "lessons/15b_pipeline_memory.ipynb"),
        (
            "why does my pool hang",
            "Why does my multiprocessing pool hang for ever?",
            "lessons/07_parallel_work_in_practice.ipynb",
        ),
        (
            "loss differs with two gpus",
            "Why is the loss different with two GPUs?",
            "lessons/11a_the_same_training.ipynb",
        ),
        (
            "10b-ring",
            "Exercise 1: the ring",
            "lessons/10b_all_reduce_and_its_cost.ipynb",
        ),
        ("hot_expert.py", "hot_expert.py", "demos/experts/hot_expert.py"),
        ("eight customers", "Eight customers, one counter or two", "lessons/01"),
    ],
)
def test_a_word_a_question_an_exercise_and_a_demo_are_found(asked, name, file):
    best = finding.find(asked)[0]
    assert best.name == name and best.place.startswith(file)


MESSAGES = [row.name.strip("`") for row in finding.rows(finding.INDEX) if row.meaning]


def test_each_message_is_found_in_a_whole_line_with_other_numbers():
    for message in MESSAGES:
        said = message.replace("…", "17 of 0x7f3a2b, /tmp/x9:29500")
        line = (
            f"[rank3]:[E602 11:18:52.531 foo.cpp:698] RuntimeError: {said} (at 4711)."
        )
        assert finding.find(line)[0].name == message, finding.find(line)[:3]


def test_the_rest_of_a_line_does_not_hide_its_message():
    line = (
        "[rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, "
        "Timeout(ms)=600000) ran for 600004 milliseconds before timing out."
    )
    assert finding.find(line)[0].name == "Watchdog caught collective operation timeout"


def told(monkeypatch, capsys, *words: str) -> str:
    monkeypatch.setattr("sys.argv", ["sidebyside", *words])
    main()
    return capsys.readouterr().out


def test_the_command_prints_ten_places_at_most(monkeypatch, capsys):
    lines = told(monkeypatch, capsys, "find", "ring").splitlines()
    assert lines[0].startswith("ring: each rank sends to its right neighbour")
    assert lines[1].strip() == RING
    assert len(lines) == 20


def test_the_help_names_the_command(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        told(monkeypatch, capsys, "--help")
    assert "sidebyside find" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"), [([], "say what you look for"), (["qwxzy"], "nothing is found")]
)
def test_the_command_says_what_to_type(words, said, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        told(monkeypatch, capsys, "find", *words)
    assert ended.value.code == 2 and said in capsys.readouterr().err
