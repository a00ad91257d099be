"""Six sick programs, called patients. Each runs in every rank, with data of its own.

Three ranks run each of them. One of the three does what the two others do not: that is
the guilty rank, and the line where it parts from them is the guilty line. The data are
such that nobody gets well by luck.
"""

import os

import torch
import torch.distributed as dist

from parallel_by_hand.clinic.number_server import serve_numbers

RATE, LIMIT, NUMBERS = 0.5, 4.0, 4


def ada(batches):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weight = torch.zeros(2, dtype=torch.float64)
    for x in batches:
        gradient = weight - x.mean(0)
        dist.all_reduce(gradient)
        weight -= RATE * gradient / ranks
    loss = (batches[-1] - weight).square().mean()
    if rank == 0:  # it tells us how it went
        dist.all_reduce(loss)
        loss /= ranks
    return weight, loss


def ben(batches):
    ranks = dist.get_world_size()
    weight = torch.zeros(2, dtype=torch.float64)
    for x in batches:
        gradient = weight - x.mean(0)
        if gradient.norm() > LIMIT:  # use rank 0's, whose data are clean
            dist.broadcast(gradient, src=0)
        else:
            dist.all_reduce(gradient)
            gradient /= ranks
        weight -= RATE * gradient
    return weight


def cleo(gradients):
    largest_first = sorted(gradients, key=lambda name: -gradients[name].norm())
    for name in largest_first:
        dist.all_reduce(gradients[name])
    return gradients


def dan(rows):
    ranks = dist.get_world_size()
    errors = (rows - 1).square().sum(1)
    dist.all_reduce(errors)
    return errors.sum().item() / (len(errors) * ranks)


def eve(batches):
    ranks = dist.get_world_size()
    weight = torch.zeros(2, dtype=torch.float64)
    for x in batches:
        gradient = weight - x.mean(0)
        dist.all_reduce(gradient)
        weight -= RATE * gradient / ranks
    return weight


def finn(numbers):
    server = serve_numbers(numbers)  # sends them, and stays open
    received = b""
    while len(received) < 8 * NUMBERS:
        received += os.read(server, 16)
    total = torch.frombuffer(bytearray(received), dtype=torch.float64).sum()
    dist.all_reduce(total)
    return total.item()


PATIENTS = {
    "ada": ada,
    "ben": ben,
    "cleo": cleo,
    "dan": dan,
    "eve": eve,
    "finn": finn,
}
