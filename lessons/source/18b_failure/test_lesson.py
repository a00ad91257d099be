"""What fails is noticed, what is saved is whole, and what is resumed is the same."""

import os
import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from demos.failures import own_resumable
from lessons.props.failure import continue_without_each_part
from parallel_by_hand.checkpoints.atomic_file import (
    load_checkpoint,
    save_atomically,
)
from parallel_by_hand.failures.background_save import (
    BackgroundSaver,
    measure_pauses,
    steps_in_file,
    train_beside_writer,
    write_to_slow_disk,
)
from parallel_by_hand.failures.failing_ranks import ask_survivors
from parallel_by_hand.failures.failure_clock import (
    Machine,
    best_interval,
    daly_interval,
    expected_goodput,
    finish_time,
    goodput_by_young,
    hours_between_failures,
    progress_at_last_failure,
    random_failures,
    simulated_goodput,
    spread_of_few,
    young_interval,
)
from parallel_by_hand.failures.own_agent import TooManyRestarts, run_with_restarts
from parallel_by_hand.failures.real_kills import survive_kills
from parallel_by_hand.failures.resumable_training import PARTS
from parallel_by_hand.failures.resumed_digits import (
    Run,
    train_through_accidents,
    trained_parameters,
)
from sidebyside import Timeline, run_ranks
from sidebyside.course.record import ROOT

# Dead or silent -----------------------------------------------------------------------


@pytest.mark.everything
def test_survivors_of_a_killed_rank_hear_of_it_before_any_time_limit():
    words = ask_survivors("killed", limit=600)
    assert [(w.rank, w.steps) for w in words] == [(0, 5), (1, 5)]
    assert all(
        re.fullmatch(r"Connection \w+ by peer|Broken pipe", w.said) for w in words
    )


@pytest.mark.everything
def test_survivors_of_a_frozen_rank_hear_nothing_until_the_time_limit():
    words = ask_survivors("frozen", limit=3)
    assert [(w.rank, w.steps) for w in words] == [(0, 5), (1, 5)]
    assert any(w.said == "Timed out waiting 3000ms" for w in words)


def test_gloos_own_limit_is_30_minutes():
    from torch.distributed.constants import default_pg_timeout

    assert default_pg_timeout.total_seconds() == 30 * 60


def test_nccls_own_limit_is_10_minutes_says_torch():
    """A torch that has no NCCL knows it only in words."""
    from torch.distributed.constants import default_pg_nccl_timeout

    said = " ".join(dist.init_process_group.__doc__.split())
    words = "Default value is 10 minutes for NCCL and 30 minutes for other backends"
    assert words in said
    if default_pg_nccl_timeout is not None:
        assert default_pg_nccl_timeout.total_seconds() == 10 * 60


# The file -----------------------------------------------------------------------------


def test_a_state_that_cannot_be_saved_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "a.pt"
    save_atomically({"step": 1}, path)
    with pytest.raises(Exception, match="pickle"):
        save_atomically({"step": (n for n in "ab")}, path)
    assert load_checkpoint(path) == {"step": 1}


# What belongs into it -----------------------------------------------------------------


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [1, 3])
def test_only_a_complete_checkpoint_goes_on_bit_for_bit(ranks):
    for found in run_ranks(continue_without_each_part, world_size=ranks):
        assert {part for part in found if found[part].equal} == {"nothing"}
        assert set(found) == {"nothing", *PARTS}
        assert found["nothing"].apart == 0
        assert {part for part in PARTS if found[part].twice} == {"place"}


# The agent ----------------------------------------------------------------------------


def trained(folder: Path, ranks=2, elastic=False, **options) -> tuple:
    """All parameters of a run, and its log."""
    folder.mkdir()
    run = Run(folder, options.pop("steps", 24), options.pop("every", 10), **options)
    run_with_restarts(train_through_accidents, ranks, run, elastic=elastic)
    return trained_parameters(run), list(map(str, run.lives))


@pytest.mark.everything
@pytest.mark.parametrize(("ranks", "victim", "at"), [(2, 1, 15), (3, 0, 20)])
def test_a_killed_training_ends_as_the_uninterrupted_one(tmp_path, ranks, victim, at):
    whole, _ = trained(tmp_path / "whole", ranks)
    accidents = {0: (victim, at)}
    resumed, log = trained(tmp_path / "resumed", ranks, accidents=accidents)
    assert torch.equal(whole, resumed)
    first = at // 10 * 10
    begun = [f"{ranks} ranks begin after step {step}" for step in (0, first)]
    assert log == [f"life {life}: {line}" for life, line in enumerate(begun)]


@pytest.mark.everything
def test_a_kill_before_the_first_checkpoint_loses_everything(tmp_path):
    resumed, log = trained(tmp_path / "a", accidents={0: (1, 9)})
    assert log[1] == "life 1: 2 ranks begin after step 0"
    assert torch.equal(resumed, trained(tmp_path / "b")[0])


@pytest.mark.everything
def test_with_dropout_another_world_size_is_another_training(tmp_path):
    """One rank draws other numbers than two."""
    whole, _ = trained(tmp_path / "whole", ranks=2)
    fewer, _ = trained(tmp_path / "f", ranks=2, elastic=True, accidents={0: (1, 15)})
    assert (whole - fewer).abs().max() > 1e-3


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 3])
def test_an_elastic_restart_agrees_up_to_rounding_without_dropout(tmp_path, ranks):
    options = {"ranks": ranks, "dropout": 0, "elastic": True}
    whole, _ = trained(tmp_path / "whole", **options)
    fewer, log = trained(tmp_path / "fewer", accidents={0: (1, 15)}, **options)
    torch.testing.assert_close(whole, fewer, rtol=0, atol=1e-5)
    left = f"{ranks - 1} ranks begin" if ranks > 2 else "1 rank begins"
    assert log[1] == f"life 1: {left} after step 10"


@pytest.mark.everything
def test_the_agent_gives_up_when_ranks_die_again_and_again(tmp_path):
    accidents = dict.fromkeys(range(9), (0, 5))
    run = Run(tmp_path, 24, 10, accidents)
    with pytest.raises(TooManyRestarts, match="3 times"):
        run_with_restarts(train_through_accidents, 2, run, max_restarts=2)


def raise_at_once(life: int) -> None:
    if dist.get_rank() == 1:
        sys.stderr = None  # multiprocessing would print the traceback
        raise ValueError("a mistake in the program")
    dist.barrier()


@pytest.mark.everything
def test_a_rank_that_raises_is_a_dead_rank_to_the_agent():
    with pytest.raises(TooManyRestarts):
        run_with_restarts(raise_at_once, 2, max_restarts=0)


@pytest.mark.everything
def test_the_timeline_shows_lost_steps_twice(tmp_path):
    with Timeline() as timeline:
        trained(tmp_path / "a", accidents={0: (1, 13)}, nap=0.005)
    assert timeline.lanes == ["rank 0", "rank 1"]
    of_rank_1 = [s.name for s in timeline.spans if s.lane == "rank 1"]
    twice = {f"step {n}" for n in (10, 11, 12)}
    assert {name for name in of_rank_1 if of_rank_1.count(name) > 1} - {"save"} == twice


def test_a_kill_loses_half_an_interval_on_average():
    assert sum(step % 10 for step in range(1000)) / 1000 == 4.5


# The clock ----------------------------------------------------------------------------


def finish_second_by_second(work, every, save, restart, failures) -> int:
    """The same in another way: one second after the other."""
    failures, saved, done, phase, left = set(failures), 0, 0, "compute", 0
    for second in range(1, 100_000):
        if phase == "restart" or phase == "save":
            left -= 1
        else:
            done += 1
            if done == work:
                return second
            if done - saved == every:
                phase, left = "save", save
        if phase == "save" and left == 0:
            phase, saved = "compute", done
        if phase == "restart" and left == 0:
            phase = "compute"
        if second in failures:
            done = saved
            phase, left = ("restart", restart) if restart else ("compute", 0)
    raise AssertionError("it never ends")


def test_the_clock_is_the_one_that_goes_second_by_second():
    dice = random.Random(0)
    for _ in range(300):
        sizes = dice.randint(1, 30), dice.randint(1, 9), dice.randint(0, 3)
        failures = sorted(dice.sample(range(1, 90), dice.randint(0, 9)))
        case = *sizes, dice.randint(0, 5), failures
        assert finish_time(*case) == finish_second_by_second(*case), case


def test_the_clock_by_hand():
    assert finish_time(10, 4, 1, 2, [7, 8]) == 17


MACHINES = [Machine(0.8, 0.08, 0.25), Machine(1, 0.02, 0), Machine(10_000, 60, 300)]


@pytest.mark.parametrize("machine", MACHINES)
def test_hundreds_of_simulated_failures_agree_with_dalys_formula(machine):
    for times in (0.5, 1, 2):
        every = young_interval(machine) * times
        seeds = [simulated_goodput(every, machine, 400, seed) for seed in range(8)]
        assert sum(seeds) / 8 == pytest.approx(
            expected_goodput(every, machine), abs=0.02
        )


def test_progress_is_what_the_clock_has_saved():
    machine = MACHINES[0]
    failures = [f for f, _ in zip(random_failures(0.8, 3), range(30), strict=False)]
    saved = progress_at_last_failure(0.3, machine.save, machine.restart, failures)
    rounds = round(saved / 0.3)
    assert finish_time(saved - 1e-6, 0.3, *machine[1:], failures) < failures[-1]
    one_more = (rounds + 1) * 0.3 + 0.1
    assert finish_time(one_more, 0.3, *machine[1:], failures) > failures[-1]


@pytest.mark.parametrize(
    ("mean", "published"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)]
)
def test_dalys_interval_is_the_one_of_his_figures_3_to_5(mean, published):
    """Minutes, with 5 for a checkpoint; Daly 2006, the figures' captions."""
    digits = 1 if published < 10 else 0
    assert round(daly_interval(Machine(mean, 5, 10)), digits) == published


@pytest.mark.parametrize("machine", MACHINES)
def test_youngs_and_dalys_intervals_are_next_to_best(machine):
    best = expected_goodput(best_interval(machine), machine)
    assert expected_goodput(daly_interval(machine), machine) > best - 0.001
    assert goodput_by_young(machine) > best - 0.02


@pytest.mark.parametrize("machine", MACHINES)
def test_the_top_is_broad(machine):
    best = best_interval(machine)
    top = expected_goodput(best, machine)
    for times in (0.5, 2):
        assert expected_goodput(times * best, machine) > top - 0.08


def test_four_times_the_failures_ask_for_twice_the_checkpoints():
    machine = Machine(0.8, 0.08, 0.25)
    often = machine._replace(mean=0.2)
    assert young_interval(machine) == pytest.approx(2 * young_interval(often))


def test_young_is_the_minimum_of_the_two_costs():
    save, mean = 0.08, 0.8
    young = young_interval(Machine(mean, save, 0))
    cost = [save / t + t / (2 * mean) for t in (0.99 * young, young, 1.01 * young)]
    assert cost[1] == min(cost)


def test_five_failures_say_next_to_nothing_about_an_average():
    machine = Machine(0.8, 0.08, 0.25)
    young = young_interval(machine)
    low, high = spread_of_few(young, machine, 5)
    gain = goodput_by_young(machine) - expected_goodput(2 * young, machine)
    assert high - low > 2 * gain
    ten = spread_of_few(young, machine, 10)
    assert low < ten[0] < ten[1] < high


def test_llama_3_was_interrupted_every_three_hours():
    assert hours_between_failures(16_384) == pytest.approx(3.09, abs=0.01)
    assert hours_between_failures(8) / 24 == pytest.approx(264, abs=1)


def test_on_thousands_of_gpus_a_short_save_is_worth_more_than_a_good_interval():
    here = Machine(3600 * hours_between_failures(16_384), 60, 300)
    best = expected_goodput(best_interval(here), here)
    assert best - goodput_by_young(here) < 0.01
    assert goodput_by_young(here._replace(save=5)) > best + 0.05
    small = Machine(3600 * hours_between_failures(8), 60, 300)
    assert goodput_by_young(small) > 0.99


def test_half_or_twice_the_interval_costs_the_points_of_the_text():
    """And a short save brings seven, on 16,384 GPUs."""
    there = Machine(3600 * hours_between_failures(16_384), 60, 300)
    best = best_interval(MACHINES[0]), MACHINES[0], 4
    young = young_interval(there), there, 2
    for every, here, points in best, young:
        top = expected_goodput(every, here)
        for times in 0.5, 2:
            cost = 100 * (top - expected_goodput(times * every, here))
            assert round(cost) == points, (here, times, cost)
    gain = goodput_by_young(there._replace(save=5)) - goodput_by_young(there)
    assert round(100 * gain) == 7


@pytest.mark.everything
def test_real_kills_give_what_the_clock_says_or_less_when_the_machine_is_busy():
    """Naps take longer on a busy machine; a kill would have to be 0.18 s late."""
    machine, moments = Machine(0.8, 0.08, 0.25), [0.3, 0.65, 0.85, 1.7]
    for _ in range(3):  # a mistake is there each time, a kill that comes late is not
        survived = survive_kills(0.2, machine, moments)
        seconds = moments[-1] + machine.restart
        assert survived.predicted * seconds == pytest.approx(0.6)
        rounds = survived.goodput * seconds / 0.2
        assert rounds == pytest.approx(round(rounds))
        if rounds < 3.5:
            break
    assert rounds < 3.5


# In the background --------------------------------------------------------------------


def test_without_a_copy_the_file_is_a_mixture(tmp_path):
    assert steps_in_file(tmp_path, copying=False) == {5, 6}
    assert steps_in_file(tmp_path, copying=True) == {5}


def spans_beside_writer(folder: Path, background: bool) -> dict[str, list]:
    with Timeline() as timeline:
        train_beside_writer(folder, background, steps=6)
    return {s.name: s for s in timeline.spans if s.name.startswith("step")}, [
        s for s in timeline.spans if s.name == "write"
    ]


@pytest.mark.everything
def test_in_the_background_the_next_step_begins_before_the_file_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(write_to_slow_disk, "__defaults__", (1.0,))
    steps, writes = spans_beside_writer(tmp_path, background=True)
    assert steps["step 4"].start < writes[0].end
    steps, writes = spans_beside_writer(tmp_path, background=False)
    assert steps["step 4"].start > writes[0].end


def test_one_write_at_a_time_and_all_are_there_at_the_end(tmp_path):
    _, writes = spans_beside_writer(tmp_path, background=True)
    assert all(one.end <= other.start for one, other in pairwise(writes))
    saved = {path.name: load_checkpoint(path) for path in tmp_path.glob("*.pt")}
    assert {name: int(s["weights"][0]) for name, s in saved.items()} == {
        "00000003.pt": 3,
        "00000006.pt": 6,
    }


def test_a_write_that_fails_is_not_forgotten(tmp_path):
    saver = BackgroundSaver()
    saver.save({"step": 1}, tmp_path / "no_such_folder" / "a.pt")
    with pytest.raises(FileNotFoundError):
        saver.wait()
    saver.pool.shutdown()


def test_pauses_are_measured_and_nothing_is_left(tmp_path):
    pauses = measure_pauses(tmp_path, megabytes=1, rounds=3)
    assert set(pauses) == {"in line", "in the background"}
    assert min(pauses.values()) > 0 and not list(tmp_path.iterdir())


def saved_by_the_library(folder: str) -> bool:
    import torch.distributed.checkpoint as dcp

    state = {"weights": torch.full((1000,), 5.0)}
    writing = dcp.async_save(state, checkpoint_id=folder)
    state["weights"] += 1  # step 6
    writing.result()
    found = {"weights": torch.zeros(1000)}
    dcp.load(found, checkpoint_id=folder)
    return bool((found["weights"] == 5).all())


@pytest.mark.everything
def test_the_librarys_asynchronous_checkpoint_copies_too(tmp_path):
    assert run_ranks(saved_by_the_library, str(tmp_path / "saved")) == [True, True]


# torchrun -----------------------------------------------------------------------------

SCRIPT = ROOT / "demos/failures/own_resumable.py"


OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def torchrun(
    folder: Path, script: Path, leaves: Path, *args: object, own: bool = True, **env
) -> tuple[str, str]:
    """What two ranks of a script print, and what torchrun says.

    It picks a port. If somebody takes it meanwhile, all begins anew, without the file
    that the script leaves.
    """
    logs = folder / "logs"
    logs.mkdir()  # torchrun leaves a folder there
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", "1"]
    env |= {"TMPDIR": str(logs)} | (OWN_STORE if own else {})
    for _ in range(3):
        leaves.unlink(missing_ok=True)
        done = subprocess.run(
            [*command, str(script), *map(str, args)],
            env=os.environ | env, capture_output=True, text=True,
        )  # fmt: skip
        if "EADDRINUSE" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# What rank 1 finds in the store after a restart, before any rank has come back to it.
# To go on from there would be chance: it depends on who of two ports calls the other.
LOOKS = """
import os, signal, time
from datetime import timedelta
import torch, torch.distributed as dist

address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
looked, second = __file__ + ".looked", os.environ["RANK"] == "1"
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    if second:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)
if second:
    try:
        seconds = timedelta(seconds=5 if os.environ["GOES_ON"] else 60)
        store = dist.TCPStore(*address, wait_for_workers=False, timeout=seconds)
        print("addresses:", len(store.list_keys()) > 0)
    except dist.DistNetworkError:
        print("no store yet")
    open(looked, "w").close()
while not os.path.exists(looked):
    time.sleep(0.05)
if os.environ["GOES_ON"]:
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))  # both are there: who leaves now breaks nothing
    dist.destroy_process_group()
"""


@pytest.mark.everything
@pytest.mark.parametrize("own", [True, False])
def test_after_a_restart_a_store_for_all_starts_has_the_addresses_of_the_dead(
    tmp_path, own
):
    script = tmp_path / "looks.py"
    script.write_text(LOOKS)
    looked = tmp_path / "looks.py.looked"
    said, _ = torchrun(tmp_path, script, looked, own=own, GOES_ON="yes" if own else "")
    assert said == ("no store yet\n" if own else "addresses: True\n")


@pytest.mark.everything
def test_torchrun_starts_killed_ranks_again_and_the_result_is_the_same(tmp_path):
    loss, _ = run_ranks(own_resumable.train, str(tmp_path / "whole.pt"), None, "cpu")
    killed = tmp_path / "killed.pt"
    asked = "--checkpoint", killed, "--kill-at", 25
    resumed, said = torchrun(tmp_path, SCRIPT, killed, *asked)
    assert resumed == f"goes on after step 20\nloss of the last batch {loss:.4f}\n"
    assert "exitcode" in said  # whose death the agent sees first is chance
    one, other = (torch.load(tmp_path / f"{n}.pt") for n in ("whole", "killed"))
    assert all(torch.equal(one["model"][n], other["model"][n]) for n in one["model"])
    assert one["loss"] == other["loss"]


@pytest.mark.everything
def test_the_script_is_killed_only_if_it_is_asked_to(tmp_path):
    command = [sys.executable, str(SCRIPT), "--checkpoint", str(tmp_path / "a.pt")]
    done = subprocess.run([*command, "--kill-at", "15"], capture_output=True)
    assert done.returncode == -9 and torch.load(tmp_path / "a.pt")["step"] == 10
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.stdout.startswith("goes on after step 10\nloss of the last batch")


def test_torchruns_own_defaults_are_those_of_the_text():
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
        RendezvousTimeout,
    )
    from torch.distributed.run import get_args_parser

    assert get_args_parser().parse_args(["train.py"]).max_restarts == 0
    assert RendezvousTimeout().last_call.total_seconds() == 30


LOST = r"(Connection \w+ by peer|Broken pipe)"
BOTH = "host-a +rank 0 of 2", "host-b +rank 1 of 2"
BOTH_LATE = [f"{who}: Timed out waiting 10000ms" for who in BOTH]
BOTH_TRAINED = [f"{who} has trained 40 steps" for who in BOTH]
ALONE = "host-a +rank 0 of 1 has trained 40 steps"
TWO_HOSTS = {  # what is heard after each failure, and what is not
    "agent": ([f"host-a +rank 0 of 2: {LOST}", ALONE], "host-b .* trained"),
    "link": ([*BOTH_LATE, ALONE, "host-b +torchrun still waits"], "host-b .* trained"),
    "link --heal 4": (["the link +is back", *BOTH_TRAINED], r"rank \d of \d:"),
    "rendezvous": (
        [f"host-b +rank 1 of 2: {LOST}", "host-b +torchrun has ended, status -?[1-9]"],
        "has trained",
    ),
}


@pytest.mark.everything
@pytest.mark.parametrize("failure", TWO_HOSTS)
def test_two_hosts_lose_one_or_their_link_and_say_what_the_table_says(failure):
    from parallel_by_hand.machines.hosts import why_no_hosts

    if problem := why_no_hosts():
        pytest.skip(problem)
    program = ROOT / "demos/failures/kill_and_resume.py"
    done = subprocess.run(
        [sys.executable, str(program), "--failure", *failure.split()],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    heard, unheard = TWO_HOSTS[failure]
    for words in heard:
        assert re.search(words, done.stdout), (words, done.stdout, done.stderr)
    assert not re.search(unheard, done.stdout), done.stdout
