"""Answers to the exercise of lesson 00 that people give: wrong, and unusual."""

from fractions import Fraction

import numpy as np

from lessons.source.sample_answers import right, wrong


@wrong(
    "00-saved",
    advice="how many do three need",
    note="They answer how long it takes, not how much is saved.",
)
def returns_the_time_of_three_cooks(minutes):
    return max(minutes, default=0)


@wrong(
    "00-saved",
    advice=r"saved\(\[\]\).*ValueError.*how much is saved",
    note="They overlook that max() of an empty list is an error. Most people meet it "
    "here first.",
)
def fails_for_no_dish(minutes):
    return sum(minutes) - max(minutes)


@wrong(
    "00-saved",
    advice="slower of the two|may it stand",
    note="They are right in the example, where the slowest dish is the last.",
)
def takes_the_last_for_the_slowest(minutes):
    return sum(minutes) - minutes[-1] if minutes else 0


@wrong(
    "00-saved",
    advice="how many do three need",
    note="They think that a dish can be divided among cooks.",
)
def divides_the_work_evenly(minutes):
    return sum(minutes) - sum(minutes) / len(minutes) if minutes else 0


@wrong(
    "00-saved",
    advice="is anything saved",
    note="They return the answer of the example. A check never asks for one answer "
    "only.",
)
def remembers_the_example(minutes):
    return 5


@wrong(
    "00-saved",
    advice="to print is not to return",
    note="They forget the line with return: None comes back.",
)
def prints_instead_of_returning(minutes):
    print(sum(minutes) - max(minutes, default=0))


@wrong(
    "00-saved",
    advice="has become .*who else uses",
    note="They have the right number, and the list is another one afterwards.",
)
def takes_the_slowest_out_of_the_list(minutes):
    if minutes:
        minutes.remove(max(minutes))
    return sum(minutes)


@wrong(
    "00-saved",
    advice="two dishes that take as long",
    note="They overlook that two dishes may take as long as each other.",
)
def leaves_out_all_of_the_slowest(minutes):
    return sum(time for time in minutes if time != max(minutes))


@wrong(
    "00-saved",
    advice="not whole numbers",
    note="They count whole minutes; the stub says float.",
)
def counts_whole_minutes(minutes):
    return sum(int(time) for time in minutes) - int(max(minutes, default=0))


@right("00-saved")
def all_but_the_last_after_sorting(minutes):
    return sum(map(Fraction, sorted(minutes)[:-1]))


@right("00-saved")
def with_numpy(minutes):
    times = np.array([0, *minutes], dtype=np.float32)
    return times.sum() - times.max()


wrong(
    "00-saved",
    advice="hand over the function itself",
    note='They write check("00-saved", saved([3, 2, 4])): the result, not the '
    "function.",
    name="hands_over_the_result",
)(5)
