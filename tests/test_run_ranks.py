"""The promises of run_ranks: results in order, no failure silent, nothing stays."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import get_context
from multiprocessing.synchronize import sem_unlink

import psutil
import pytest
import torch
import torch.distributed as dist

from sidebyside import RankFailed, run_ranks
from sidebyside.ranks.failures import is_lost_connection
from tests.hanging_ranks import how_they_hang
from tests.process_state import TORCHRUN, said_by, wait_until


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The first call starts multiprocessing's forkserver, which stays."""
    run_ranks(dist.get_rank)


@pytest.fixture(autouse=True)
def nothing_stays_behind(warm):
    before = set(psutil.Process().children(recursive=True))
    yield
    wait_until(lambda: set(psutil.Process().children(recursive=True)) <= before)


def ten_to_the_rank() -> list[int]:
    tensor = torch.tensor([10 ** dist.get_rank()])
    dist.all_reduce(tensor)
    return [dist.get_rank(), tensor.item(), torch.get_num_threads()]


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_rank_is_connected_and_counted_once(world_size):
    expected = int("1" * world_size)
    results = run_ranks(ten_to_the_rank, world_size=world_size)
    assert results == [[rank, expected, 1] for rank in range(world_size)]


KEPT = []


def keep_a_queue() -> list[str]:
    """The names of its semaphores."""
    queue = get_context("spawn").Queue()
    KEPT.append(queue)
    locks = queue._rlock, queue._wlock, queue._sem
    return [lock._semlock.name for lock in locks]


def test_the_named_semaphores_of_a_rank_end_with_it():
    found = run_ranks(keep_a_queue, world_size=2)
    names = {name for of_rank in found for name in of_rank}
    assert len(names) == 6
    for name in names:
        with pytest.raises(FileNotFoundError):
            sem_unlink(name)


def test_spawn_gives_the_same_results():
    both = [
        run_ranks(ten_to_the_rank, world_size=2, start_method=method)
        for method in ("forkserver", "spawn")
    ]
    assert both[0] == both[1]


def test_a_function_defined_in_a_notebook_can_be_sent():
    cell = {"dist": dist}
    exec("offset = 5\ndef fn(x): return dist.get_rank() + x + offset", cell)
    assert run_ranks(cell["fn"], 100) == [105, 106]


def test_a_notebooks_backward_that_is_once_differentiable_can_be_sent():
    code = """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, gradient):
                return 2 * gradient

        def gradient(x):
            Double.apply(x).backward()
            return x.grad.item()
        """
    cell = {"torch": torch, "__name__": "__main__"}
    exec(textwrap.dedent(code), cell)
    assert run_ranks(cell["gradient"], torch.ones(1, requires_grad=True)) == [2, 2]


def test_on_gloo_a_rank_sees_no_gpu_and_a_tensor_of_one_arrives_on_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "99")
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    ranks = run_ranks(
        lambda x: (os.getenv("CUDA_VISIBLE_DEVICES"), x.is_cpu), torch.ones(2)
    )
    assert ranks == [("", True)] * 2


def test_a_rank_that_raises_is_named_with_its_own_line():
    def step():
        dist.barrier()
        if dist.get_rank() == 1:
            time.sleep(2)  # by now the others wait for it
            raise ValueError("bad shard")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(
        RankFailed, match="rank 1 raised ValueError: bad shard"
    ) as error:
        run_ranks(step, world_size=3)
    assert error.value.rank == 1
    shown = "\n".join(error.value._render_traceback_())
    assert 'raise ValueError("bad shard")' in shown
    assert "each of ranks 0 and 2 waits in all_reduce, at" in shown
    assert "dist.all_reduce(torch.ones(1))" in shown
    assert "ranks/process.py" not in shown


def test_a_rank_that_dies_is_named_though_the_others_lose_their_connections():
    def step():
        if dist.get_rank() == 1:
            os._exit(7)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankFailed, match="rank 1 exited with status 7") as error:
        run_ranks(step, world_size=3)
    assert error.value.rank == 1


def test_ranks_that_wait_for_each_other_are_each_shown_with_their_line():
    def both_receive():
        if dist.get_rank() == 0:
            dist.recv(torch.ones(1), 1)
        else:
            dist.recv(torch.zeros(1), 0)

    one, other = "dist.recv(torch.ones(1), 1)", "dist.recv(torch.zeros(1), 0)"
    how_they_hang(both_receive, one, other)


def test_large_results_arrive_whole():
    results = run_ranks(lambda: torch.full((25_000_000,), float(dist.get_rank())))
    for rank, tensor in enumerate(results):  # 100 MB each
        assert tensor.shape == (25_000_000,)
        assert tensor[0] == tensor[-1] == rank


def test_what_ranks_print_appears_by_rank_whatever_the_order(capfd):
    def speak():
        for turn in range(2):
            if dist.get_rank() == turn % 2:
                print("turn", turn)
            dist.barrier()
        os.system("echo from a child")

    run_ranks(speak)
    assert capfd.readouterr().out.splitlines() == [
        "rank 0 | turn 0",
        "rank 0 | from a child",
        "rank 1 | turn 1",
        "rank 1 | from a child",
    ]


def test_two_calls_at_once_do_not_collide():
    results = {}

    def call(offset):
        results[offset] = run_ranks(lambda: offset + dist.get_rank())

    callers = [threading.Thread(target=call, args=(100 * n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == {100 * n: [100 * n, 100 * n + 1] for n in range(4)}


@pytest.mark.everything
def test_a_script_without_main_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from sidebyside import run_ranks\nrun_ranks(print, 1)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode != 0
    assert 'below `if __name__ == "__main__":`' in done.stdout + done.stderr


@pytest.mark.everything
def test_a_script_from_standard_input_is_told_what_to_do():
    done = subprocess.run(
        [sys.executable, "-"],
        input="from sidebyside import run_ranks\nrun_ranks(print)\n",
        capture_output=True,
        text=True,
    )
    assert "must be a file, not standard input" in done.stderr


@pytest.mark.everything
def test_torchrun_runs_the_same_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os
        import torch.distributed as dist
        from sidebyside import run_ranks

        def rank():
            return dist.get_rank(), dist.get_world_size()

        if __name__ == "__main__":
            results = run_ranks(rank, world_size=5)
            if os.environ["RANK"] == "0":
                print(results)
        """)
    )
    folder = {"TMPDIR": str(tmp_path)}  # torchrun leaves its log folder there
    said = said_by(*TORCHRUN, "--nproc-per-node", "2", script, **folder)
    assert said == "[(0, 2), (1, 2)]\n"


@pytest.mark.parametrize(
    "said",
    ["Connection closed by peer", "Connection reset by peer", "writev: Broken pipe"],
)
def test_every_wording_of_a_lost_connection_is_known(said):
    assert is_lost_connection(RuntimeError(f"gloo: {said} [127.0.0.1]:40000"))
    assert not is_lost_connection(RuntimeError("Timed out waiting 10000ms"))
