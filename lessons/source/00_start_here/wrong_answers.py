"""Answers to the exercise of lesson 00 that people give, and that are not right."""

from lessons.source.sample_answers import Wrong


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


WRONG = {
    "00-saved": [
        Wrong(
            "returns_the_time_of_three_cooks",
            returns_the_time_of_three_cooks,
            advice="how many minutes lie between",
            note="Has answered how long it takes, not how much is saved.",
        ),
        Wrong(
            "returns_the_time_of_one_cook",
            returns_the_time_of_one_cook,
            advice="how many minutes lie between",
            note="The other half of the difference.",
        ),
        Wrong(
            "fails_for_no_dish",
            fails_for_no_dish,
            advice="ValueError",
            note="max() of an empty list is an error. Most people meet it here first.",
        ),
        Wrong(
            "takes_the_last_for_the_slowest",
            takes_the_last_for_the_slowest,
            advice="slower of the two|anywhere in the list",
            note="True in the example, where the slowest dish is the last.",
        ),
        Wrong(
            "divides_the_work_evenly",
            divides_the_work_evenly,
            advice="how many minutes lie between",
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
            "hands_over_the_result",
            5,
            advice="hand over the function itself",
            note='check("00-saved", saved([3, 2, 4])): the result, not the function.',
        ),
    ],
}
