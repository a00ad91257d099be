"""What the children of lesson 02 do: it stands in a file, where all can find it."""

import multiprocessing
import os
from time import sleep

from sidebyside import span

spawn = multiprocessing.get_context("spawn")


def nap_in_child(seconds: float) -> None:
    """Do nothing for a while, visible on a timeline."""
    with span("nap"):
        sleep(seconds)


def send_squares(connection, numbers: list[int]) -> None:
    """Send (process id, squares) through a pipe."""
    squares = [n * n for n in numbers]
    connection.send((os.getpid(), squares))


def put_squares(queue, part: int, numbers: list[int]) -> None:
    """Put (part, process id, squares) into a queue that several children use."""
    squares = [n * n for n in numbers]
    queue.put((part, os.getpid(), squares))


def square_in_place(shared, signature) -> None:
    """Replace each number in shared memory by its square; sign with the process id."""
    for place, n in enumerate(shared):
        shared[place] = n * n
    signature.value = os.getpid()
