"""The clock, the formulas and simulated failures agree, also with Daly's figures."""

import pytest

from parallel_by_hand.failures.checkpoint_interval import (
    Machine,
    best_interval,
    daly_interval,
    expected_goodput,
    finish_time_with_failures,
    goodput_by_young,
    progress_at_last_failure,
    random_failures,
    simulated_goodput,
    young_interval,
)

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
    assert (
        finish_time_with_failures(saved - 1e-6, 0.3, *machine[1:], failures)
        < failures[-1]
    )
    one_more = (rounds + 1) * 0.3 + 0.1
    assert (
        finish_time_with_failures(one_more, 0.3, *machine[1:], failures) > failures[-1]
    )


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
