"""Wrong answers that people really give, for the tests and the instructor guide.

`lesson_NN.py` holds WRONG: for each exercise a list of at least three. The generic
test in tests/test_exercises.py shows that the check answers each with its advice.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A wrong answer, the state it must get, and a regex its message must match."""

    name: str
    answers: object  # a function or value, or a tuple with all answers of the exercise
    advice: str
    state: str = "NOT YET"
    note: str = ""  # for the instructor guide: "People often ..."

    @property
    def as_tuple(self) -> tuple:
        return self.answers if isinstance(self.answers, tuple) else (self.answers,)
