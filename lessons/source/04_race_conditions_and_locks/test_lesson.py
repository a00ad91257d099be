"""What lesson 04 says about races, locks and deadlocks, is so."""

import dis
from threading import Lock

import pytest

from parallel_by_hand.races import lost_update
from parallel_by_hand.races.interleavings import (
    UPDATE,
    endings,
    every_interleaving,
)
from sidebyside.programs.run_demo import DEMOS
from tests.process_state import said_by

x = 0


def lines_printed_by(demo: str, *arguments: str) -> list[str]:
    return said_by(DEMOS / "races" / demo, *arguments).splitlines()


# The loops


def add_one() -> None:
    global x
    for _ in range(1_000_000):
        x = x + 1


def test_processes_that_share_memory_lose_updates_unless_they_lock():
    counts = [
        lost_update.count_in_processes(lost_update.add_one, 300_000) for _ in range(3)
    ]
    assert min(counts) < 600_000
    locked = lost_update.count_in_processes(lost_update.add_with_lock, 50_000)
    assert locked == 100_000


# The instructions


def names_of(function) -> list[str]:
    return [instruction.opname for instruction in dis.get_instructions(function)]


def place_of(function, opname: str, argument: object = None) -> int:
    """Where the instruction stands, the last if there are several."""
    places = [
        place
        for place, instruction in enumerate(dis.get_instructions(function))
        if instruction.opname.startswith(opname)
        and argument in (None, instruction.argval)
    ]
    return places[-1]


def plain_update() -> None:
    global x
    x = x + 1


def update_with_call() -> None:
    global x
    x = x + int(1)


def test_one_line_is_load_add_store():
    load = place_of(plain_update, "LOAD_GLOBAL", "x")
    add = place_of(plain_update, "BINARY_OP")
    store = place_of(plain_update, "STORE_GLOBAL", "x")
    assert load < add < store
    known = {"RESUME", "LOAD_GLOBAL", "LOAD_CONST", "LOAD_SMALL_INT", "BINARY_OP"}
    known |= {"STORE_GLOBAL", "RETURN_VALUE", "RETURN_CONST", "NOP"}
    assert set(names_of(plain_update)) <= known, "the lesson reads them aloud"


def test_a_call_stands_between_load_and_store():
    load = place_of(update_with_call, "LOAD_GLOBAL", "x")
    call = place_of(update_with_call, "CALL")
    store = place_of(update_with_call, "STORE_GLOBAL", "x")
    assert load < call < store


def test_a_loop_jumps_back_after_the_store():
    store = place_of(add_one, "STORE_GLOBAL", "x")
    assert place_of(add_one, "JUMP_BACKWARD") > store


def test_the_old_count_is_loaded_before_the_call_of_an_update_in_place():
    def add(counts, energy):
        counts[0] += energy(1)

    load = min(
        place
        for place, name in enumerate(names_of(add))
        if name.startswith("BINARY_")  # BINARY_SUBSCR, since 3.14 a BINARY_OP
    )
    assert load < place_of(add, "CALL") < place_of(add, "STORE_SUBSCR")


# The game


def test_eighteen_of_twenty_orders_lose_an_update():
    assert endings(UPDATE, UPDATE) == {1: 18, 2: 2}
    right = [order for order, x in every_interleaving(UPDATE, UPDATE) if x == 2]
    assert right == ["AAABBB", "BBBAAA"]


# Deadlock


@pytest.mark.everything
def test_the_deadlock_demo_hangs_and_tells_where():
    lines = lines_printed_by("deadlock.py", "--patience", "3")
    waiting = [line for line in lines if "with target.lock:" in line]
    assert len(waiting) == 2
    assert all("in transfer" in line for line in waiting)


def test_in_one_order_all_transfers_end():
    lines = lines_printed_by(
        "deadlock.py", "--in-order", "--transfers", "50", "--patience", "9"
    )
    assert lines[-1] == "all 100 are done, and no money is missing: 2000"


def test_a_lock_can_be_taken_once_even_by_the_thread_that_has_it():
    lock = Lock()
    with lock:
        assert not lock.acquire(blocking=False)
