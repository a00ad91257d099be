"""What is left of a training when one of its processes is killed: gossip goes on."""

import os
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from parallel_by_hand.decentralised.gossip import (
    gossip_weights_of_rank,
    ring_mixing_matrix,
)
from parallel_by_hand.decentralised.local_sgd import (
    flat_parameters,
    local_batches,
    local_step,
)
from parallel_by_hand.sgd.digits_network import digits_network
from sidebyside.ranks.launch import context_of_ranks
from sidebyside.ranks.meeting import keep_gloo_on_loopback


def _gossip_on(mine: Tensor, weights: dict[int, float]) -> None:
    """A round of gossip in which a neighbour may be dead: then its weight is ours.

    All messages are under way before the first is waited for. The system closes the
    connections of a killed process, and gloo raises an error in its neighbours.
    """
    rank, sent, mean = dist.get_rank(), mine.clone(), mine * weights[dist.get_rank()]
    arriving, dead = {}, []
    for other in weights.keys() - {rank}:
        try:
            room = torch.empty_like(mine)
            requests = [dist.isend(sent, other), dist.irecv(room, other)]
            arriving[other] = room, requests
        except RuntimeError:
            dead.append(other)
    for other, (room, requests) in arriving.items():
        try:
            for request in requests:
                request.wait()
            mean += weights[other] * room
        except RuntimeError:
            dead.append(other)
    for other in dead:
        mean += weights[other] * sent
        weights[rank] += weights.pop(other)
    mine.copy_(mean)


def peer_trains(
    rank: int, ranks: int, folder: str, killed: int, at: int, steps: int, all_reduce
) -> None:
    """Runs in a process of its own; one of them kills itself before its step `at`."""
    torch.set_num_threads(1)
    keep_gloo_on_loopback()
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks
    )
    model, row = digits_network(), gossip_weights_of_rank(ring_mixing_matrix(ranks))
    report = Path(folder) / f"{rank}.pt"
    done = 0
    for mine in local_batches(rank, ranks, steps):
        if (rank, done) == (killed, at):
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows
        local_step(model, mine)
        flat = flat_parameters(model)
        try:
            if all_reduce:
                dist.all_reduce(flat)
                flat /= ranks
            else:
                _gossip_on(flat, row)
        except RuntimeError:
            break  # without all the others there is no sum
        vector_to_parameters(flat, model.parameters())
        done += 1
    torch.save({"steps": done, "model": flat_parameters(model)}, report)
    os._exit(0)  # no farewell to a group in which somebody is missing


def train_with_a_kill(
    ranks: int = 4, killed: int = 2, at: int = 32, steps: int = 128, all_reduce=False
) -> dict[int, dict]:
    """For each rank that is left: how many steps it made, and its parameters."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ranks, folder, killed, at, steps, all_reduce
        context = context_of_ranks()
        peers = [
            context.Process(target=peer_trains, args=(rank, *arguments), daemon=True)
            for rank in range(ranks)
        ]
        try:
            for peer in peers:
                peer.start()
            for peer in peers:
                peer.join(timeout=60)
        finally:
            for peer in peers:
                peer.kill()
                peer.join()
        files = {rank: Path(folder) / f"{rank}.pt" for rank in range(ranks)}
        return {rank: torch.load(f) for rank, f in files.items() if f.exists()}
