"""The clinic's ward: a patient's lines, how it is run, and how it is repaired.

A patient's code is given the file name "<patient>": its lines have the numbers that
`show_patients` prints, in a report as in a repair.
"""

import contextlib
import inspect
import linecache
import os
from unittest import mock

from parallel_by_hand.clinic import sick_programs
from parallel_by_hand.clinic.patient_data import data_of_patient
from parallel_by_hand.clinic.sick_programs import PATIENTS
from parallel_by_hand.data_parallel.changed_lines import code_with_changed_lines
from sidebyside import run_ranks


def patient_lines(name: str) -> list[str]:
    """The lines of a patient in the ward; the first has number 1."""
    return inspect.getsource(PATIENTS[name]).splitlines()


def show_patients(*names: str) -> None:
    """Print the ward's programs with the numbers of their lines."""
    for name in names:
        for number, line in enumerate(patient_lines(name), 1):
            print(f"{number:2}  {line}")
        print()


def repaired_patient(name: str, changes: dict[int, str]) -> str:
    """The program with new text for some lines: `code_with_changed_lines`."""
    return code_with_changed_lines(name, patient_lines(name), changes)


def patient_from_code(name: str, code: str, **others):
    """For the ward: the function that this code defines, among its patients' names."""
    names = vars(sick_programs) | others
    exec(compile(code, f"<{name}>", "exec"), names)
    return names[name]


def run_patient_in_rank(name: str, code: str, given: list):
    """Runs in each rank: the program, with this rank's data."""
    import torch.distributed as dist

    return patient_from_code(name, code)(given[dist.get_rank()])


def run_patient(name: str, ranks: int = 3, timeout: float = 3) -> list:
    """What each rank returns; or the error of `run_ranks`, RankFailed or RanksHung."""
    code = "\n".join(patient_lines(name))
    given = data_of_patient(name, ranks)
    file = f"<{name}>"  # whose lines a report shows
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    with on_cpus():
        return run_ranks(
            run_patient_in_rank, name, code, given, world_size=ranks, timeout=timeout
        )


@contextlib.contextmanager
def on_cpus():
    """In the ward ranks find no GPU: the symptoms are gloo's, and NCCL's are others."""
    with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
        yield
