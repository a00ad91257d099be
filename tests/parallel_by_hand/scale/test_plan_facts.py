"""Public models, today's ways to split them, and what a plan means for a training."""

import argparse
import json
from dataclasses import replace

import pytest

from parallel_by_hand.scale.best_plans import best_of_kinds, draw_step, why_best
from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.known_models import KNOWN_MODELS, model_from_config
from parallel_by_hand.scale.legal_strategies import TODAY, legal_strategies
from parallel_by_hand.scale.plan_arguments import (
    add_cluster_arguments,
    add_model_arguments,
    add_strategy_arguments,
    model_from_arguments,
    strategy_from_arguments,
)
from parallel_by_hand.scale.plan_facts import (
    OPTIMISERS,
    facts_of_step,
    flags_of_plan,
    what_would_fit,
)
from parallel_by_hand.scale.plan_search import (
    fastest_strategies,
    split_of,
    survey_strategies,
)
from parallel_by_hand.scale.plan_sweep import draw_sweep, print_sweep, sweep_gpus
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Strategy

# Parameters of the checkpoints, from their pages on huggingface.co.
NUMBERS = {
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama2-13b": 13_015_864_320,
    "mixtral-8x7b": 46_702_792_704,
}
LLAMA = KNOWN_MODELS["llama3-8b"]
NODES = replace(GPUS["H100"], nodes=2)


def simulate(**degrees):
    strategy = Strategy(fused_attention=True, overlap=True, **degrees)
    return simulate_step(LLAMA, NODES, strategy, 64)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_public_model_has_as_many_parameters_as_its_checkpoint(name):
    # ours has biases and shifts of norms besides
    assert KNOWN_MODELS[name].numbers == pytest.approx(NUMBERS[name], rel=1e-3)


def test_a_config_is_read_and_another_file_is_refused(tmp_path):
    config = {
        "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "max_position_embeddings": 8192, "vocab_size": 128256, "hidden_act": "silu",
        "num_key_value_heads": 8, "intermediate_size": 14336,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert model_from_config(path) == LLAMA
    for text, said in ("[]", "no JSON of a model"), ("{}", "not say num_hidden_layers"):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            model_from_config(path)


def test_ranks_that_share_a_sequence_keep_their_part_and_send_keys():
    alone, shared = simulate(data=16, shard_stage=3), simulate(
        data=8, context=2, shard_stage=3
    )  # fmt: skip
    assert shared.memory.activations == pytest.approx(alone.memory.activations / 2)
    assert shared.memory.parameters == alone.memory.parameters
    keys = 2 * LLAMA.sequence * 1024 * 2 / 2  # keys and values in 16 bits; half is mine
    layers, micro_batches = 32, 8
    # gathered forward and backward, and their gradients go home
    assert shared.sent["tensor"] == 3 * keys * layers * micro_batches


def test_hybrid_sharding_keeps_more_and_sends_less_between_nodes():
    everywhere = simulate(data=16, shard_stage=3)
    hybrid = simulate(data=16, shard_stage=3, hybrid=2)
    assert hybrid.memory.optimiser == pytest.approx(
        2 * everywhere.memory.optimiser, rel=1e-6
    )
    assert hybrid.sent["data"] < everywhere.sent["data"]
    assert hybrid.seconds < everywhere.seconds


@pytest.mark.parametrize("shard_stage", range(4))
def test_hidden_messages_slow_computing_down_whichever_they_are(shard_stage):
    quiet = replace(NODES, contention=0)
    strategy = Strategy(data=16, shard_stage=shard_stage, overlap=True)
    alone, disturbed = (simulate_step(LLAMA, c, strategy, 16) for c in (quiet, NODES))
    assert disturbed.spent["data"] > 1.1 * alone.spent["data"]


def test_only_gradients_in_shards_are_shared_out_in_groups():
    with pytest.raises(ValueError, match="hybrid sharding needs shard_stage 2 or 3"):
        simulate(data=16, shard_stage=1, hybrid=2)


def test_a_ring_over_nodes_uses_the_cards_of_all_its_members():
    one_card = replace(NODES, ring_of_all_cards=False)
    strategy = Strategy(data=16, shard_stage=3)
    slow, fast = (simulate_step(LLAMA, c, strategy, 16) for c in (one_card, NODES))
    assert slow.spent["data"] > 5 * fast.spent["data"]


@pytest.mark.everything
def test_llama_3s_published_split_is_the_planners_first():
    model = KNOWN_MODELS["llama3-405b"]
    cluster = replace(GPUS["H100"], nodes=2048)
    survey = survey_strategies(model, cluster, 2048, ways=TODAY)
    [best] = fastest_strategies(survey, 1)
    assert split_of(best.strategy) == (128, 8, 16)  # Grattafiori et al. 2024, Table 4


def test_what_would_fit_where_nothing_does():
    cluster = replace(GPUS["RTX4090"], gpus_per_node=2)
    needs = what_would_fit(KNOWN_MODELS["llama2-13b"], cluster, 64, TODAY)
    planned, _, eight_bits, pure, off_loaded, lora, *more = needs.values()
    assert planned > eight_bits > pure > off_loaded > lora
    room = cluster.memory / 1e9
    assert planned > room > lora
    assert list(needs)[-1] == "16 GPUs" and more[-1] < room


def test_facts_and_flags_say_the_plan():
    step = simulate(data=8, tensor=2, shard_stage=1, sequence_parallel=True)
    facts = facts_of_step(step, tokens=1e12)
    assert facts["days"] == pytest.approx(1e12 / facts["tokens_per_s"] / 86_400)
    assert facts["cost"] == pytest.approx(facts["days"] * 24 * 16 * NODES.price)
    assert json.dumps(facts)
    flags = flags_of_plan(step)
    assert "--use-distributed-optimizer" in flags["Megatron-LM"]
    assert "--grad-reduce-in-bf16" in flags["Megatron-LM"]
    assert "tensor_parallel_degree = 2" in flags["torchtitan 0.2"]
    assert 'fsdp_reshard_after_forward = "never"' in flags["torchtitan 0.2"]
    lora = flags_of_plan(simulate(data=16, state=OPTIMISERS["lora"]))
    assert list(lora)[1:] == ["Megatron-LM, torchtitan"]


def test_layers_are_cut_as_megatron_lm_can():
    strategy = Strategy(data=8, pipeline=2, schedule="interleaved", chunks=4)
    for layers, said in (
        (32, "virtual-pipeline-stage 4"),
        (31, "cannot cut 31 layers into 8 stages"),
        (30, "virtual-pipeline-stage 4 --account-for-embedding"),
    ):
        step = simulate_step(replace(LLAMA, layers=layers), NODES, strategy, 64)
        assert said in flags_of_plan(step)["Megatron-LM"]
    assert "layers_per_stage = 4" in flags_of_plan(step)["torchtitan 0.2"]


def test_a_plan_can_be_entered_again():
    parser = argparse.ArgumentParser()
    add_model_arguments(parser, replace(LLAMA, layers=1))
    add_strategy_arguments(parser)
    parser.add_argument("--batch", type=int)
    legal = [*legal_strategies(LLAMA, NODES, 64, TODAY)]
    for strategy in legal[:: len(legal) // 50]:
        [flags, *_] = flags_of_plan(simulate_step(LLAMA, NODES, strategy, 64)).values()
        args = parser.parse_args(flags.split())
        assert Strategy(**strategy_from_arguments(args)) == strategy
        assert model_from_arguments(args) == LLAMA and args.batch == 64


def test_a_link_can_be_said_in_bits():
    parser = argparse.ArgumentParser()
    add_cluster_arguments(parser)
    for text in "200Gb/s", "200Gbps", "25GB/s", "25":
        assert parser.parse_args(["--between", text]).between == 25


def test_a_sweep_halves_the_gpus_until_nothing_fits():
    found = sweep_gpus(LLAMA, NODES, 64, TODAY, lambda strategy: True)
    steps = print_sweep(found, 1e12)
    assert [step.cluster.gpus for step in steps] == [16, 8, 4, 2]
    assert [
        tick.get_text() for tick in draw_sweep(steps, 1e12).axes[0].get_xticklabels()
    ]


def test_one_sentence_says_why_the_best_is_best():
    survey = survey_strategies(LLAMA, replace(NODES, memory=40e9), 64, ways=TODAY)
    best = fastest_strategies(survey, 1)[0]
    kinds = best_of_kinds(survey)
    why = why_best(best, kinds)
    assert f"{best.spent['computing'] / best.seconds:.0%} of the time" in why
    for name, (step, needs) in kinds.items():
        assert (step is None) == (needs + survey.cluster.reserve > 40e9 or not needs)
        if name in why and step:
            assert f"{name} takes {step.seconds / best.seconds - 1:.1%} longer" in why
    assert draw_step(best).axes
