"""What is suspicious follows from the measurements, here given ones."""

import pytest

from parallel_by_hand.practice import diagnosis
from parallel_by_hand.practice.diagnosis import DiagnosedTask, diagnose


def test_the_diagnosis_begins_when_nothing_computes_here(monkeypatch):
    spun = [0.05, 0.05, 0.04, 0.0, 0.05]  # CPU seconds during each pause
    clock, naps = 0.0, []

    def nap(seconds: float) -> None:
        nonlocal clock
        clock += spun[len(naps)]
        naps.append(seconds)

    monkeypatch.setattr(diagnosis, "process_time", lambda: clock)
    monkeypatch.setattr(diagnosis, "sleep", nap)
    diagnosis.come_to_rest_before_diagnosis()
    assert len(naps) == 4


HEALTHY = DiagnosedTask(wall=0.01, cpu=0.01, pack=1e-5, bytes=100)
STARVED = [HEALTHY._replace(wall=1.0)] * 7  # by other programs, and then not


@pytest.mark.parametrize(
    ("times", "message", "crowded", "suspicious"),
    [
        ([HEALTHY] * 8, 1e-4, 1.0, []),
        ([HEALTHY] * 8, 0.02, 1.0, [1]),
        ([HEALTHY._replace(cpu=1e-5)] * 8, 1e-4, 1.0, [2]),
        ([*STARVED, HEALTHY], 1e-4, 1.0, []),
        ([HEALTHY._replace(cpu=0.02)] * 8, 1e-4, 1.0, [3]),
        ([HEALTHY._replace(pack=0.01)] * 8, 1e-4, 1.0, [4]),
        ([*[HEALTHY] * 8, HEALTHY._replace(wall=0.5, cpu=0.5)], 1e-4, 1.0, [5]),
        ([HEALTHY] * 8, 1e-4, 2.0, [6]),
    ],
)
def test_the_limits_of_the_diagnosis(times, message, crowded, suspicious, monkeypatch):
    given = iter(times)
    for name, measured in {
        "time_task_for_diagnosis": lambda *_: next(given),
        "message_time_for_diagnosis": lambda *_: message,
        "slowdown_for_diagnosis": lambda *_: crowded,
    }.items():
        monkeypatch.setattr(diagnosis, name, measured)
    findings = diagnose(abs, range(len(times)), None, workers=2)
    assert [n for n, f in enumerate(findings, 1) if f.suspicious] == suspicious
