"""On a host: call functions in ranks, one call after another, with torch imported once.

torchrun starts a program on each host. A notebook wants to call a function there; so a
server waits on each host, and forks the ranks of each call. They get what torchrun
would set: RANK, LOCAL_RANK, GROUP_RANK, WORLD_SIZE and so on.
"""

import os
import pickle
import signal
import sys
import time
import traceback
from typing import Any, NamedTuple


class _Job(NamedTuple):
    """What a host has to do: `here` ranks of `world`, the first of them `first`."""

    work: bytes  # the function and its arguments, pickled by value
    first: int
    here: int
    world: int
    address: str  # where rank 0 waits for the others
    port: int
    seconds: float


def send_frame(file: Any, data: bytes) -> None:
    """A frame of bytes to or from the rank server: their number, then they."""
    file.write(len(data).to_bytes(8, "big") + data)
    file.flush()


def receive_frame(file: Any) -> bytes:
    """The rank server's next frame of bytes; EOFError if the other side has ended."""
    head = file.read(8)
    if len(head) < 8:
        raise EOFError("the other side has ended")
    return file.read(int.from_bytes(head, "big"))


def serve_ranks() -> None:
    """Answer each job by a list: for each rank whether it succeeded, its result or
    what went wrong, and what it printed."""
    # Once, for all ranks; the first optimizer of a process imports torch._dynamo: 1 s.
    import torch._dynamo
    import torch.distributed  # noqa: F401

    import sidebyside.ranks.by_value  # noqa: F401

    answers = os.fdopen(os.dup(1), "wb")
    while True:
        try:
            job = _Job(*pickle.loads(receive_frame(sys.stdin.buffer)))
        except EOFError:
            return
        send_frame(answers, pickle.dumps(_call_ranks_here(job)))


def _call_ranks_here(job: _Job) -> list[tuple[bool, object, str]]:
    files = [f"{os.environ['TMPDIR']}/rank-{job.first + n}" for n in range(job.here)]
    ranks = {}
    for local, file in enumerate(files):
        if (pid := os.fork()) == 0:
            _be_rank(job, local, file)
        ranks[pid] = local
    deadline = time.monotonic() + job.seconds
    while ranks:
        pid, status = os.waitpid(-1, os.WNOHANG)
        ranks.pop(pid, None)
        if status:  # it is of no use to wait for the others for long
            deadline = min(deadline, time.monotonic() + 2)
        if time.monotonic() > deadline:
            for left in ranks:
                os.kill(left, signal.SIGKILL)
        if not pid:
            time.sleep(0.002)
    return [_answer_of_rank(file) for file in files]


def _answer_of_rank(file: str) -> tuple[bool, object, str]:
    with open(file + ".out", errors="replace") as printed:
        said = printed.read()
    if not os.path.exists(file):
        return False, "it was ended: it had failed, or not come back in time", said
    with open(file, "rb") as found:
        succeeded, result = pickle.load(found)
    os.unlink(file)
    return succeeded, result, said


def _be_rank(job: _Job, local: int, file: str) -> None:
    """One rank, from joining the group to the result in `file`; it does not return."""
    printed = os.open(file + ".out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    try:
        answer = True, _join_and_call(job, local)
    except BaseException:
        answer = False, traceback.format_exc()
    try:
        sys.stdout.flush()
        with open(file + ".part", "wb") as found:
            pickle.dump(answer, found)
        os.rename(file + ".part", file)
    finally:
        os._exit(not answer[0])


def _join_and_call(job: _Job, local: int) -> bytes:
    import torch
    import torch.distributed as dist

    from sidebyside.ranks.by_value import packed

    rank = job.first + local
    names = {"RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": job.first // job.here}
    names |= {"WORLD_SIZE": job.world, "LOCAL_WORLD_SIZE": job.here}
    os.environ |= {name: str(value) for name, value in names.items()}
    torch.set_num_threads(1)
    meeting = f"tcp://{job.address}:{job.port}"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=job.world)
    function, args = pickle.loads(job.work)
    result = packed(function(*args))
    dist.barrier()  # nobody closes its connections while another still uses them
    return result
