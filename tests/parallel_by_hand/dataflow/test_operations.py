"""Where an edge crosses devices, a value is sent once."""

from parallel_by_hand.dataflow.operations import Operation, transfers_in, with_transfers
from parallel_by_hand.dataflow.simulated_devices import (
    devices_of_operations,
    makespan,
    simulate_dataflow,
)


def test_a_value_is_sent_once_to_each_device_that_reads_it():
    graph = [
        Operation("a", device=0),
        *(Operation(f"b{i}", ("a", "a"), device=1) for i in range(3)),
        Operation("c", ("a", "b0"), device=2),
        Operation("d", ("a",), device=0),
    ]
    crossed = with_transfers(graph, takes=2)
    assert transfers_in(crossed) == ["a 0→1", "a 0→2", "b0 1→2"]
    names = [op.name for op in crossed]
    assert names[:6] == [op.name for op in graph]
    home = {op.name: op.device for op in crossed}
    for op in crossed[:6]:
        assert all(home[name] == op.device for name in op.inputs)
    assert devices_of_operations(crossed) == [0, 1, 2, "0→1", "0→2", "1→2"]
    assert makespan(simulate_dataflow(crossed)) == 1 + 2 + 1 + 2 + 1
