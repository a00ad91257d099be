"""What lesson 04 says about races, locks and deadlocks, is so."""

import dis

from parallel_by_hand.races import lost_update

x = 0


def test_processes_that_share_memory_lose_updates_unless_they_lock():
    counts = [
        lost_update.count_in_processes(lost_update.add_one, 300_000) for _ in range(3)
    ]
    assert min(counts) < 600_000
    locked = lost_update.count_in_processes(lost_update.add_with_lock, 50_000)
    assert locked == 100_000


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
    used = {instruction.opname for instruction in dis.get_instructions(plain_update)}
    assert used <= known, "the lesson reads them aloud"


def test_a_call_stands_between_load_and_store():
    load = place_of(update_with_call, "LOAD_GLOBAL", "x")
    call = place_of(update_with_call, "CALL")
    store = place_of(update_with_call, "STORE_GLOBAL", "x")
    assert load < call < store
