"""What a stage holds is 17's ledger, Korthikanti's formula and 15's schedule."""

from dataclasses import replace

import pytest

from parallel_by_hand.pipeline.schedule_rules import peak_activations
from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale.step_memory import kept_activations, layer_activations
from parallel_by_hand.scale.training_plan import Model, Strategy
from parallel_by_hand.sharding.ledger import MIXED, SINGLE, STRATEGIES, state_bytes
from parallel_by_hand.sharding.memory_ledger import KEPT
from tests.parallel_by_hand.scale.small_steps import SMALL, simulate


@pytest.mark.parametrize("t", [1, 2, 8])
def test_activations_are_korthikantis_and_17s(t):
    s, b, h, a = 256, 3, 512, 8
    sbh = s * b * h
    model = Model(1, h, a, s, 0)
    plain = Strategy(tensor=t, micro_batch=b)
    split = replace(plain, sequence_parallel=True)
    kept = kept_activations
    assert kept(model, plain) == sbh * (10 + 24 / t + 5 * a * s / (h * t))
    assert kept(model, split) == sbh / t * (34 + 5 * a * s / h)
    selective = replace(split, recomputation="selective")
    assert kept(model, selective) == 34 * sbh / t
    assert kept(model, replace(plain, recomputation="full")) == 2 * sbh
    for precision, state in (("mixed", MIXED), ("single", SINGLE)):
        first, second = KEPT[precision]
        alone = Strategy(micro_batch=b, state=state)
        assert layer_activations(model, alone) == sbh * (first + second * a * s / h)


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("data", [1, 2, 8])
def test_the_ledger_is_17s(stage, data):
    for state in (MIXED, SINGLE):
        step = simulate(data=data, shard_stage=stage, state=state)
        found = step.memory
        expected = state_bytes(SMALL.numbers, data, STRATEGIES[stage], state)
        assert (found.parameters, found.gradients, found.optimiser) == expected


def test_stages_and_tensor_ranks_share_all_parameters():
    whole = simulate(batch=16).memory.parameters
    table = 2 * SMALL.vocabulary * SMALL.hidden  # the last stage has a copy
    for pipeline in (2, 4, 8):
        ledgers = simulate(pipeline=pipeline).ledgers
        assert sum(ledger.parameters for ledger in ledgers) == whole + table
    split = simulate(tensor=2).memory.parameters
    extra = SMALL.layers * 6 + SMALL.sequence + 2  # whole on both ranks, h numbers each
    assert 2 * split - whole == 2 * extra * SMALL.hidden


def test_15s_schedule_says_how_many_activations_are_kept():
    for name in ("gpipe", "1f1b", "interleaved", "zero-bubble"):
        step = simulate(
            batch=16, pipeline=4, schedule=name, model=replace(SMALL, vocabulary=0)
        )
        kept = kept_activations(step.model, step.strategy)
        layers = SMALL.layers // step.strategy.stages
        forwards = peak_activations(SCHEDULES_BY_NAME[name](4, 16))
        expected = [round(count * layers * kept) for count in forwards]
        assert [ledger.activations for ledger in step.ledgers] == expected
