"""Answers that people really give: what each check is tried on.

`wrong_answers.py` in a lesson's room holds WRONG, for each exercise a list of at least
six, which the instructor's page shows too, and RIGHT, at least two for each: unusual
answers that must pass. tests/test_exercises.py tries them all.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Right:
    """A right answer that does it in another way than the solution."""

    name: str
    answers: object  # a function or value, or a tuple with all answers of the exercise

    @property
    def as_tuple(self) -> tuple:
        return self.answers if isinstance(self.answers, tuple) else (self.answers,)


@dataclass(frozen=True)
class Wrong(Right):
    """A wrong answer, the state it must get, and a regex its message must match.

    Where chance decides between two states, `state` is "HUNG or NOT YET".
    """

    advice: str
    state: str = "NOT YET"
    note: str = ""  # for the instructor guide: "People often ..."
