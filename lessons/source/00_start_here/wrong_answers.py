"""Answers to the exercise of lesson 00 that people give: wrong, and unusual."""

from fractions import Fraction

import numpy as np

from lessons.source.sample_answers import Right, Wrong


def returns_the_time_of_three_cooks(minutes):
    return max(minutes, default=0)


def returns_the_time_of_one_cook(minutes):
    return sum(minutes)


def fails_for_no_dish(minutes):
    return sum(minutes) - max(minutes)


def takes_the_last_for_the_slowest(minutes):
    return sum(minutes) - minutes[-1] if minutes else 0


def divides_the_work_evenly(minutes):
    return sum(minutes) - sum(minutes) / len(minutes) if minutes else 0


def remembers_the_example(minutes):
    return 5


def prints_instead_of_returning(minutes):
    print(sum(minutes) - max(minutes, default=0))


def takes_the_slowest_out_of_the_list(minutes):
    if minutes:
        minutes.remove(max(minutes))
    return sum(minutes)


def leaves_out_all_of_the_slowest(minutes):
    return sum(time for time in minutes if time != max(minutes))


def counts_whole_minutes(minutes):
    return sum(int(time) for time in minutes) - int(max(minutes, default=0))


def looks_for_the_slowest_from_one_minute_on(minutes):
    return sum(minutes) - max([*minutes, 1]) if minutes else 0


class RemembersBySum:
    def __init__(self):
        self.known = {}

    def __call__(self, minutes):
        longest = sum(minutes) - max(minutes, default=0)
        return self.known.setdefault(sum(minutes), longest)


def rounds_to_hundredths(minutes):
    return round(sum(minutes) - max(minutes, default=0), 2)


def calls_itself_for_each_dish(minutes):
    total, slowest = _sum_and_slowest(minutes)
    return total - slowest


def _sum_and_slowest(minutes):
    if not minutes:
        return 0, 0
    total, slowest = _sum_and_slowest(minutes[1:])
    return total + minutes[0], max(slowest, minutes[0])


def all_but_the_last_after_sorting(minutes):
    return sum(map(Fraction, sorted(minutes)[:-1]))


def with_numpy(minutes):
    times = np.array([0, *minutes], dtype=np.float32)
    return times.sum() - times.max()


class RemembersDishesAndSum:
    def __init__(self):
        self.known = {}

    def __call__(self, minutes):
        longest = sum(minutes) - max(minutes, default=0)
        return self.known.setdefault((len(minutes), sum(minutes)), longest)


def compares_whole_minutes(minutes):
    return sum(minutes) - max(minutes, key=int, default=0)


WRONG = {
    "00-saved": [
        Wrong(
            "returns_the_time_of_three_cooks",
            returns_the_time_of_three_cooks,
            advice="how many do three need",
            note="Has answered how long it takes, not how much is saved.",
        ),
        Wrong(
            "returns_the_time_of_one_cook",
            returns_the_time_of_one_cook,
            advice="how many do three need",
            note="The other half of the difference.",
        ),
        Wrong(
            "fails_for_no_dish",
            fails_for_no_dish,
            advice=r"saved\(\[\]\).*ValueError.*how much is saved",
            note="max() of an empty list is an error. Most people meet it here first.",
        ),
        Wrong(
            "takes_the_last_for_the_slowest",
            takes_the_last_for_the_slowest,
            advice="slower of the two|may it stand",
            note="True in the example, where the slowest dish is the last.",
        ),
        Wrong(
            "divides_the_work_evenly",
            divides_the_work_evenly,
            advice="how many do three need",
            note="As if a dish could be divided among cooks.",
        ),
        Wrong(
            "remembers_the_example",
            remembers_the_example,
            advice="is anything saved",
            note="A check never asks for one answer only.",
        ),
        Wrong(
            "prints_instead_of_returning",
            prints_instead_of_returning,
            advice="to print is not to return",
            note="The line with return is missing: None comes back.",
        ),
        Wrong(
            "takes_the_slowest_out_of_the_list",
            takes_the_slowest_out_of_the_list,
            advice="has become .*who else uses",
            note="The number is right, and the list is another one afterwards.",
        ),
        Wrong(
            "leaves_out_all_of_the_slowest",
            leaves_out_all_of_the_slowest,
            advice="two dishes that take as long",
            note="Two dishes may take as long as each other.",
        ),
        Wrong(
            "counts_whole_minutes",
            counts_whole_minutes,
            advice="not whole numbers",
            note="The stub says float.",
        ),
        Wrong(
            "looks_for_the_slowest_from_one_minute_on",
            looks_for_the_slowest_from_one_minute_on,
            advice="less than a minute",
            note="The search begins at 1, so that nothing shorter is ever the slowest.",
        ),
        Wrong(
            "remembers_by_the_sum",
            RemembersBySum(),
            advice="keeps from its earlier calls",
            note="What is kept from call to call forgets which dishes they were.",
        ),
        Wrong(
            "hands_over_the_result",
            5,
            advice="hand over the function itself",
            note='check("00-saved", saved([3, 2, 4])): the result, not the function.',
        ),
        Wrong("remembers_dishes_and_sum", RemembersDishesAndSum(), "keeps from its"),
        Wrong(
            "compares_whole_minutes", compares_whole_minutes, "three minutes and more"
        ),
        Wrong("rounds_to_hundredths", rounds_to_hundredths, "is all of each of them"),
        Wrong(
            "calls_itself_for_each_dish",
            calls_itself_for_each_dish,
            advice="RecursionError.*if there are so many",
            note="Python allows about a thousand calls inside one another.",
        ),
    ],
}

RIGHT = {
    "00-saved": [
        Right("all_but_the_last_after_sorting", all_but_the_last_after_sorting),
        Right("with_numpy", with_numpy),
    ],
}
