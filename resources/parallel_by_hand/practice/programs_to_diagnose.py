"""Three programs that a pool does not make faster, each for its own reason. Lesson 07.

Each is a function and its tasks: `[work(task) for task in tasks]` is the program.
"""

from time import sleep

import numpy as np


def count_words_program(line: str) -> int:
    """A program to diagnose: tasks that are too small."""
    return len(line.split())


def brighten_images_program(image: np.ndarray) -> np.ndarray:
    """A program to diagnose: much is sent, little computed."""
    return np.sqrt(image + 1)


def ask_computer_program(seconds: float) -> str:
    """A program to diagnose: ask another computer, which takes its time."""
    sleep(seconds)
    return "yes"


def search_squares_program(limit: int) -> int:
    """To diagnose: how many numbers below the limit have a square that ends in 6?"""
    return sum(number * number % 10 == 6 for number in range(limit))


def programs() -> dict[str, tuple]:
    """The programs to diagnose: each with its tasks."""
    images = [np.full((1000, 1500), n) for n in range(6)]
    return {
        "words": (count_words_program, [f"the line number {n}" for n in range(400)]),
        "images": (brighten_images_program, images),
        "search": (search_squares_program, [10_000] * 15 + [1_500_000] + [10_000] * 15),
    }


def fill_memory_program(length: int) -> float:
    """To diagnose: read and write much memory, and compute next to nothing."""
    numbers = np.zeros(length)
    for _ in range(3):
        numbers += 1
    return float(numbers[-1])
