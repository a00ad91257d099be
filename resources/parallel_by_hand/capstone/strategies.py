"""Every strategy of the ladder by name: a mesh, and a wrapper for each dimension."""

from parallel_by_hand.capstone.strategy_wrappers import (
    accumulation,
    ddp_of_torch,
    ddp_ours,
    deal_positions,
    fsdp2,
    pipeline_parallel,
    replicate_shards,
    sequence_parallel,
    shard_parameters,
    sharded_state,
    tensor_parallel,
    train_in_threads,
)
from parallel_by_hand.capstone.trainer import Strategy
from parallel_by_hand.pipeline.schedules import gpipe, one_f_one_b
from parallel_by_hand.sharding.replicated_state import ReplicatedState
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.sharding.zero_2 import ZeRO2

replicated = sharded_state(ReplicatedState)
one_f_one_b_of_4 = pipeline_parallel(one_f_one_b, 4)

STRATEGIES = {
    "one process": Strategy({}, {}),
    "accumulation": Strategy({}, {"parts": accumulation(4)}),
    "threads": Strategy({}, {"replicas": train_in_threads(2)}),
    "DDP (ours)": Strategy({"data": 2}, {"data": ddp_ours}),
    "DDP (torch)": Strategy({"data": 2}, {"data": ddp_of_torch}),
    "ZeRO-1": Strategy({"data": 2}, {"data": sharded_state(ZeRO1)}),
    "ZeRO-2": Strategy({"data": 2}, {"data": sharded_state(ZeRO2)}),
    "ZeRO-3": Strategy({"data": 2}, {"data": shard_parameters}),
    "FSDP2 (torch)": Strategy({"data": 2}, {"data": fsdp2}),
    "hybrid": Strategy(
        {"replicas": 2, "shards": 2},
        {"shards": shard_parameters, "replicas": replicate_shards},
    ),
    "tensor": Strategy({"tensor": 2}, {"tensor": tensor_parallel}),
    "sequence": Strategy({"tensor": 2}, {"tensor": sequence_parallel}),
    "context": Strategy(
        {"context": 2}, {"context": sharded_state(ReplicatedState, deal_positions)}
    ),
    "GPipe": Strategy({"pipeline": 2}, {"pipeline": pipeline_parallel(gpipe, 4)}),
    "1F1B": Strategy({"pipeline": 2}, {"pipeline": one_f_one_b_of_4}),
    "data x tensor": Strategy(
        {"data": 2, "tensor": 2}, {"tensor": tensor_parallel, "data": replicated}
    ),
    "data x pipeline": Strategy(
        {"data": 2, "pipeline": 2},
        {"pipeline": one_f_one_b_of_4, "data": replicated},
    ),
    "2 x 2 x 2": Strategy(
        {"data": 2, "pipeline": 2, "tensor": 2},
        {
            "tensor": tensor_parallel,
            "pipeline": one_f_one_b_of_4,
            "data": replicated,
        },
    ),
}
