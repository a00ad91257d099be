"""What the check of the bounded server runs in each rank."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from parallel_by_hand.parameter_server.server_and_workers import (
    letter_group,
    serve_at_once,
    work,
)

UPDATES = 12


def serve_scripted_workers(who_goes_on: Callable) -> tuple[int, int] | None:
    """Rank 0 serves; the server's largest lead of one worker, and its updates.

    The workers' gradients are 0, and take no time.
    """
    letter_group()
    if dist.get_rank() > 0:
        work(lambda parameters, version: 0 * parameters, [0], 3)
        return None
    workers = range(1, dist.get_world_size())
    pushes, lead, versions = dict.fromkeys(workers, 0), [0], []

    def note(version: int, worker: int, staleness: int, share: torch.Tensor) -> None:
        pushes[worker] += 1
        versions.append(version)
        lead.append(max(pushes.values()) - min(pushes.values()))

    serve_at_once(torch.zeros(3), workers, 1.0, UPDATES, note, who_goes_on)
    return max(lead), len(versions)
