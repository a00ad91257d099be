"""Sanitising hides what differs from run to run, and nothing that teaches."""

import re
from pathlib import Path

import pytest
from nbval.plugin import get_sanitize_patterns

from lessons.source.execution import normalise
from sidebyside.course.record import ROOT

PATTERNS = get_sanitize_patterns(
    (Path(__file__).parent / "sanitize.cfg").read_text(encoding="utf-8")
)


def sanitised(text: str) -> str:
    text = normalise(text)
    for regex, replacement in PATTERNS:
        text = re.sub(regex, replacement, text)
    return text


HIDDEN = [
    ("took 0.31 s", "took 12.3 s"),
    ("took 0.31 s", "took 310 ms"),
    ("timeline of a, simulated\na |Rr|</pre>", "timeline of a, simulated\na |.|</pre>"),
    ("0.31 ± 0.02 s", "1.31 ± 0.1 s"),
    ("from 310 ms to 0.4 s", "from 0.9 s to 1.1 s"),
    ("1.9×", "2.0×"),
    ("efficiency 96%", "efficiency 102 %"),
    ("uses 980 MB", "uses 1.2 GB"),
    ("10,123 samples/s", "9,876 samples/s"),
    ("1.2 GB/s", "800 MB/s"),
    ("PID=4711", "PID=12"),
    ("<object at 0x7f001234abcd>", "<object at 0x7f00ffff0000>"),
    ("/tmp/tmpabc/trace.json written", "/tmp/tmpxyz/trace.json written"),
    ('File "/tmp/ipykernel_12/34.py"', 'File "/var/x/ipykernel_5/6.py"'),
    (f"{ROOT}/demos/gil/x.py", "demos/gil/x.py"),
    (
        "rank 0 raised RuntimeError: Expected to have finished reduction",
        "rank 1 raised RuntimeError: Expected to have finished reduction",
    ),
    ("name   median\n------------", "name  median  \n-------"),
]
SHOWN = [
    ("loss 0.6931", "loss 0.6932"),
    ("loss 0.6931 after 0.3 s", "loss 0.6932 after 0.3 s"),
    ("step 3: sum 1111", "step 4: sum 1111"),
    ("rank 0 | sent 4096 bytes", "rank 0 | sent 8192 bytes"),
    ("rank 0 | 1111", "rank 1 | 1111"),
    ("rank 0 raised RuntimeError: bad", "rank 1 raised RuntimeError: bad"),
    ("9 slots", "5 slots"),
    ("3 × 4 numbers", "2 × 4 numbers"),
    ("PASSED in 0.2 s", "NOT YET in 0.2 s"),
    ("tensor([0.2500, 0.5000])", "tensor([0.2500, 0.5001])"),
    ("0.6931", "0.6931 s"),
]


@pytest.mark.parametrize(("one", "other"), HIDDEN)
def test_a_measurement_may_differ(one, other):
    assert sanitised(one) == sanitised(other)


@pytest.mark.parametrize(("one", "other"), SHOWN)
def test_what_teaches_may_not_differ(one, other):
    assert sanitised(one) != sanitised(other)
