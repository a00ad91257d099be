"""A patient alone is well, and a rank that is late can be told from the others."""

import pytest
import torch

from parallel_by_hand.clinic import patient_data, straggler, ward
from parallel_by_hand.clinic.sick_programs import PATIENTS
from sidebyside import Timeline, run_ranks


def results_alone(given: dict) -> dict:
    """Runs in the only rank."""
    programs = {n: "\n".join(ward.patient_lines(n)) for n in given}
    return {n: ward.patient_from_code(n, programs[n])(given[n][0]) for n in given}


def test_a_patient_in_one_rank_is_well():
    given = {name: patient_data.data_of_patient(name, 2)[:1] for name in PATIENTS}
    with ward.on_cpus():
        [got] = run_ranks(results_alone, given, world_size=1)
    for name in PATIENTS:
        [right] = patient_data.result_when_well(name, given[name])
        torch.testing.assert_close(got[name], right, atol=1e-9, rtol=1e-9)


@pytest.mark.everything
@pytest.mark.parametrize("late", [0, 3])
def test_the_straggler_waits_least_and_loads_longest(late):
    with Timeline() as timeline:
        reports = run_ranks(straggler.train_and_report, late, 1.0, 3, world_size=4)
    waits = [report["wait"] for report in reports]
    loads = [report["load"] for report in reports]
    assert waits.index(min(waits)) == late == loads.index(max(loads))
    kinds = [span.name for span in timeline.spans if span.lane == "rank 1"]
    assert kinds == ["load", "compute", "wait"] * 3
