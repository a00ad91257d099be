"""What lesson 07 says is so: who notices an accident, and what is lost."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from parallel_by_hand.practice import accidents, programs_to_diagnose
from parallel_by_hand.practice.diagnosis import diagnose

spawn = get_context("spawn")

BAD, OTHERS = accidents.BAD, accidents.TASKS - 1
PATIENCE = 5.0


def met(accident: str) -> dict[str, dict]:
    pools = list(accidents.POOLS)
    with accidents.accidents_side_by_side(pools, accident, PATIENCE) as found:
        return dict(zip(pools, found, strict=True))


@pytest.mark.everything
def test_an_exception_reaches_every_caller_and_spoils_no_pool():
    found = met("exception")
    assert {row["learns"] for row in found.values()} == {"ValueError"}
    assert {row["next"] for row in found.values()} == {"works"}
    assert all(row["hand"] <= BAD for row in found.values()), "the rest is lost"
    assert found["Pool"]["computed"] == OTHERS, "Pool goes on with the others"
    assert found["executor"]["computed"] < OTHERS
    assert found["joblib"]["computed"] < OTHERS


@pytest.mark.everything
def test_only_pool_does_not_notice_that_a_worker_was_killed():
    found = met("kill")
    assert found["Pool"]["learns"].startswith("nothing in")
    assert found["Pool"]["hand"] == BAD
    assert found["Pool"]["computed"] == OTHERS
    assert found["executor"]["learns"] == "BrokenProcessPool"
    assert found["executor"]["next"] == "BrokenProcessPool"
    assert found["joblib"]["learns"] == "TerminatedWorkerError"
    assert found["joblib"]["next"] == "works"


@pytest.mark.everything
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
def test_an_interrupt_ends_every_pool():
    found = met("Ctrl-C")
    assert {row["learns"] for row in found.values()} == {"KeyboardInterrupt"}
    assert all(row["computed"] < OTHERS for row in found.values())


@pytest.mark.everything
def test_the_diagnosis_finds_the_trouble_of_each_program():
    programs = programs_to_diagnose.programs()
    tasks = programs["search"][1]
    assert max(tasks) / sum(tasks) == pytest.approx(5 / 6)
    programs["ask"] = programs_to_diagnose.ask_computer_program, [0.05] * 4
    found = {}
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        for name, (function, its_tasks) in programs.items():
            findings = diagnose(function, its_tasks, pool, workers=2)
            found[name] = {n for n, f in enumerate(findings, 1) if f.suspicious}
    assert 1 in found["words"]
    assert 2 in found["ask"] and 4 not in found["ask"]
    assert 4 in found["images"]
    assert 5 in found["search"] and 4 not in found["search"]
