"""Answers to the exercise of lesson 00 that people give: wrong, and unusual."""

from fractions import Fraction
from operator import call

import numpy as np

from lessons.source.sample_answers import right, wrong


@wrong(
    "00-saved",
    advice="how many do three need",
    note="Has answered how long it takes, not how much is saved.",
)
def returns_the_time_of_three_cooks(minutes):
    return max(minutes, default=0)


@wrong(
    "00-saved",
    advice="how many do three need",
    note="The other half of the difference.",
)
def returns_the_time_of_one_cook(minutes):
    return sum(minutes)


@wrong(
    "00-saved",
    advice=r"saved\(\[\]\).*ValueError.*how much is saved",
    note="max() of an empty list is an error. Most people meet it here first.",
)
def fails_for_no_dish(minutes):
    return sum(minutes) - max(minutes)


@wrong(
    "00-saved",
    advice="slower of the two|may it stand",
    note="True in the example, where the slowest dish is the last.",
)
def takes_the_last_for_the_slowest(minutes):
    return sum(minutes) - minutes[-1] if minutes else 0


@wrong(
    "00-saved",
    advice="how many do three need",
    note="As if a dish could be divided among cooks.",
)
def divides_the_work_evenly(minutes):
    return sum(minutes) - sum(minutes) / len(minutes) if minutes else 0


@wrong(
    "00-saved",
    advice="is anything saved",
    note="A check never asks for one answer only.",
)
def remembers_the_example(minutes):
    return 5


@wrong(
    "00-saved",
    advice="to print is not to return",
    note="The line with return is missing: None comes back.",
)
def prints_instead_of_returning(minutes):
    print(sum(minutes) - max(minutes, default=0))


@wrong(
    "00-saved",
    advice="has become .*who else uses",
    note="The number is right, and the list is another one afterwards.",
)
def takes_the_slowest_out_of_the_list(minutes):
    if minutes:
        minutes.remove(max(minutes))
    return sum(minutes)


@wrong(
    "00-saved",
    advice="two dishes that take as long",
    note="Two dishes may take as long as each other.",
)
def leaves_out_all_of_the_slowest(minutes):
    return sum(time for time in minutes if time != max(minutes))


@wrong("00-saved", advice="not whole numbers", note="The stub says float.")
def counts_whole_minutes(minutes):
    return sum(int(time) for time in minutes) - int(max(minutes, default=0))


@wrong(
    "00-saved",
    advice="less than a minute",
    note="The search begins at 1, so that nothing shorter is ever the slowest.",
)
def looks_for_the_slowest_from_one_minute_on(minutes):
    return sum(minutes) - max([*minutes, 1]) if minutes else 0


@wrong(
    "00-saved",
    advice="keeps from its earlier calls",
    note="What is kept from call to call forgets which dishes they were.",
    given=call,
)
class RemembersBySum:
    def __init__(self):
        self.known = {}

    def __call__(self, minutes):
        longest = sum(minutes) - max(minutes, default=0)
        return self.known.setdefault(sum(minutes), longest)


@wrong("00-saved", advice="is all of each of them")
def rounds_to_hundredths(minutes):
    return round(sum(minutes) - max(minutes, default=0), 2)


@wrong(
    "00-saved",
    advice="RecursionError.*if there are so many",
    note="Python allows about a thousand calls inside one another.",
)
def calls_itself_for_each_dish(minutes):
    total, slowest = _sum_and_slowest(minutes)
    return total - slowest


def _sum_and_slowest(minutes):
    if not minutes:
        return 0, 0
    total, slowest = _sum_and_slowest(minutes[1:])
    return total + minutes[0], max(slowest, minutes[0])


@right("00-saved")
def all_but_the_last_after_sorting(minutes):
    return sum(map(Fraction, sorted(minutes)[:-1]))


@right("00-saved")
def with_numpy(minutes):
    times = np.array([0, *minutes], dtype=np.float32)
    return times.sum() - times.max()


@wrong("00-saved", advice="keeps from its", given=call)
class RemembersDishesAndSum:
    def __init__(self):
        self.known = {}

    def __call__(self, minutes):
        longest = sum(minutes) - max(minutes, default=0)
        return self.known.setdefault((len(minutes), sum(minutes)), longest)


@wrong("00-saved", advice="three minutes and more")
def compares_whole_minutes(minutes):
    return sum(minutes) - max(minutes, key=int, default=0)


wrong(
    "00-saved",
    advice="hand over the function itself",
    note='check("00-saved", saved([3, 2, 4])): the result, not the function.',
    name="hands_over_the_result",
)(5)
