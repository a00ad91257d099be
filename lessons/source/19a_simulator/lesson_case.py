"""The model, the cluster and the strategy that lesson 19a follows, for its tests."""

from dataclasses import replace

from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.training_plan import Model, Strategy

LESSONS_MODEL = Model(
    layers=48, hidden=6144, heads=64, sequence=2048, vocabulary=51_200
)
LESSONS_CLUSTER = replace(A100, nodes=8)
LESSONS_STRATEGY = Strategy(data=2, tensor=8, pipeline=4, recomputation="full")
