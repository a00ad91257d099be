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
    return max(minutes)


@wrong(
    "00-saved",
    advice="slower of the two|may it stand",
    note="They are right in the example, where the slowest dish is the last.",
)
def takes_the_last_for_the_slowest(minutes):
    return sum(minutes) - minutes[-1]


@wrong(
    "00-saved",
    advice="to print is not to return",
    note="They forget the line with return: None comes back.",
)
def prints_instead_of_returning(minutes):
    print(sum(minutes) - max(minutes))


@wrong(
    "00-saved",
    advice="has become .*who else uses",
    note="They have the right number, and the list is another one afterwards.",
)
def takes_the_slowest_out_of_the_list(minutes):
    minutes.remove(max(minutes))
    return sum(minutes)


@wrong(
    "00-saved",
    advice="two dishes that take as long",
    note="They overlook that two dishes may take as long as each other.",
)
def leaves_out_all_of_the_slowest(minutes):
    return sum(time for time in minutes if time != max(minutes))


@right("00-saved")
def all_but_the_last_after_sorting(minutes):
    return sum(map(Fraction, sorted(minutes)[:-1]))


@right("00-saved")
def with_numpy(minutes):
    times = np.array(minutes, dtype=np.float32)
    return times.sum() - times.max()


wrong(
    "00-saved",
    advice="hand over the function itself",
    note='They write check("00-saved", saved([3, 2, 4])): the result, not the '
    "function.",
    name="hands_over_the_result",
)(5)
