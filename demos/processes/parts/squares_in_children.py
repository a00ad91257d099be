"""What the children of lesson 02 do: it stands in a file, where all can find it."""

import multiprocessing
import os
from multiprocessing.shared_memory import SharedMemory

spawn = multiprocessing.get_context("spawn")


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


def square_by_name(name: str) -> None:
    """Square the first byte of the shared memory that has this name."""
    block = SharedMemory(name=name)
    block.buf[0] **= 2
    block.close()
