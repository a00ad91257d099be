"""What a simulated step means for a whole training, and for those who start it."""

from collections.abc import Callable
from dataclasses import replace

from parallel_by_hand.scale.legal_strategies import Ways, legal_strategies
from parallel_by_hand.scale.plan_search import memory_of_strategy
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from parallel_by_hand.sharding.ledger import StateBytes

DAY = 86_400
NODE_WATTS = 1.9  # for each watt of its GPUs: data sheets of DGX A100 (6.5 kW for 3.2
# of GPUs) and DGX H100 (10.2 kW for 5.6), at the most


def tokens_per_second(step: SimulatedStep) -> float:
    """Of all GPUs together."""
    return step.batch * step.model.sequence / step.seconds


def facts_of_step(step: SimulatedStep, tokens: float | None = None) -> dict:
    """For JSON: seconds, bytes as GB, shares, tokens; days, cost and energy for all."""
    rate = tokens_per_second(step)
    memory = {part: size / 1e9 for part, size in step.memory._asdict().items()}
    facts = {
        "strategy": vars(step.strategy) | {"state": step.strategy.state._asdict()},
        "seconds": step.seconds,
        "spent_seconds": step.spent,
        "tokens_per_s": rate,
        "tokens_per_s_per_gpu": rate / step.cluster.gpus,
        "model_utilisation": step.model_utilisation,
        "hardware_utilisation": step.hardware_utilisation,
        "memory_gb": memory | {"reserve": step.cluster.reserve / 1e9},
        "room_gb": step.cluster.memory / 1e9,
        "fits": step.fits,
    }
    return facts | (_facts_of_training(step, tokens / rate) if tokens else {})


def _facts_of_training(step: SimulatedStep, seconds: float) -> dict:
    hours = seconds * step.cluster.gpus / 3600
    energy = hours * step.cluster.watts / 1e6  # MWh
    return {
        "days": seconds / DAY,
        "cost": hours * step.cluster.price,
        "gpus_mwh": energy,
        "nodes_mwh": NODE_WATTS * energy,
    }


def print_facts(step: SimulatedStep, tokens: float | None) -> None:
    """Tokens per second, memory by part, what tokens cost, and flags."""
    facts = facts_of_step(step)
    print(
        f"{facts['tokens_per_s_per_gpu']:,.0f} tokens/s per GPU, "
        f"{facts['tokens_per_s']:,.0f} in all; utilisation: model "
        f"{step.model_utilisation:.1%}, hardware {step.hardware_utilisation:.1%}"
    )
    parts = (f"{part} {size:.1f}" for part, size in facts["memory_gb"].items() if size)
    print(f"GB on the fullest GPU, of {facts['room_gb']:.1f}: {', '.join(parts)}")
    print_training(step, tokens)
    for program, flags in flags_of_plan(step).items():
        print(f"{program}: {flags}")


def print_training(step: SimulatedStep, tokens: float | None) -> None:
    """What so many tokens take and cost."""
    if tokens:
        facts = facts_of_step(step, tokens)
        print(f"{tokens:,.0f} tokens take {facts['days']:,.1f} days, cost "
              f"{facts['cost']:,.0f}, and need {facts['gpus_mwh']:,.1f} MWh for the "
              f"GPUs, {facts['nodes_mwh']:,.1f} for whole nodes")  # fmt: skip


def flags_of_plan(step: SimulatedStep) -> dict[str, str]:
    """The plan in the words of simulate.py, Megatron-LM, and torchtitan's TOML."""
    s, layers = step.strategy, step.model.layers
    megatron = [
        f"--tensor-model-parallel-size {s.tensor}",
        f"--pipeline-model-parallel-size {s.pipeline}",
        f"--context-parallel-size {s.context}",
        f"--micro-batch-size {s.micro_batch} --global-batch-size {step.batch}",
    ]
    if s.schedule == "interleaved":
        thin = layers // s.stages
        megatron.append(f"--num-layers-per-virtual-pipeline-stage {thin}")
    if s.sequence_parallel:
        megatron.append("--sequence-parallel")
    if s.expert > 1:
        megatron.append(f"--expert-model-parallel-size {s.expert}")
    if s.shard_stage:  # from stage 2 on by another way: its own FSDP
        zero = "--use-distributed-optimizer"
        megatron.append(zero if s.shard_stage == 1 else "--use-megatron-fsdp")
    if s.recomputation != "none":
        megatron.append(f"--recompute-granularity {s.recomputation}")
    if s.recomputation == "full":
        megatron.append("--recompute-method uniform --recompute-num-layers 1")
    if s.overlap and s.data > 1 and s.shard_stage < 2:
        megatron.append("--overlap-grad-reduce")
    shard = s.shard_ranks // s.context if s.shard_stage else 1  # it has no less
    titan = {
        "parallelism.data_parallel_shard_degree": shard,
        "parallelism.data_parallel_replicate_degree": s.data // shard,
        "parallelism.tensor_parallel_degree": s.tensor,
        "parallelism.pipeline_parallel_degree": s.pipeline,
        "parallelism.context_parallel_degree": s.context,
        "training.global_batch_size": step.batch,
        "training.local_batch_size": s.micro_batch,
        "activation_checkpoint.mode": f'"{s.recomputation}"',
    }
    if s.expert > 1:
        titan["parallelism.expert_parallel_degree"] = s.expert
    if s.pipeline > 1:  # a local batch is cut into micro-batches
        names = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
        titan |= {
            "training.local_batch_size": step.batch // s.data,
            "parallelism.pipeline_parallel_microbatch_size": s.micro_batch,
            "parallelism.pipeline_parallel_schedule": f'"{names[s.schedule]}"',
        }
    ours = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in vars(s).items()
        if value is not False and name not in ("state", "fused_attention")
    )
    return {
        "simulate.py": ours.replace(" True", ""),
        "Megatron-LM": " ".join(megatron),
        "torchtitan"
        + " (shards parameters, too)" * (s.shard_stage in (1, 2)): "  ".join(
            f"{key} = {value}" for key, value in titan.items()
        ),
    }


OPTIMISERS = {  # bytes of parameters, gradients, optimiser for each number
    "adam": StateBytes(2, 2, 12),  # two averages and a master copy, in 32 bits
    "adam-32-bit-gradients": StateBytes(2, 4, 12),  # as Megatron-LM
    "adam-8-bit": StateBytes(2, 2, 6),  # the averages
    "adam-8-bit-pure": StateBytes(2, 2, 2),  # no master copy: torchtune, bitsandbytes
    "off-loaded": StateBytes(2, 2, 0),  # the optimiser's state is in the CPU's memory
    "lora": StateBytes(2, 0, 0),  # about 1 % of the numbers are trained
}


def what_would_fit(
    model: Model,
    cluster: Cluster,
    batch: int,
    ways: Ways,
    among: Callable[[Strategy], bool] = lambda strategy: True,
) -> dict[str, float]:
    """GB that a GPU needs at the least, by optimiser, and on more GPUs of its kind."""

    def least(cluster: Cluster, state: StateBytes) -> float:
        legal = legal_strategies(model, cluster, batch, ways._replace(state=state))
        needs = (memory_of_strategy(model, s, batch) for s in legal if among(s))
        return (min(needs, default=float("inf")) + cluster.reserve) / 1e9

    needed = {name: least(cluster, state) for name, state in OPTIMISERS.items()}
    for times in 2, 4, 8, 16:
        more = replace(cluster, nodes=times * cluster.nodes)
        size = least(more, ways.state)
        if size < float("inf"):  # what is asked can be with so many
            needed[f"{more.gpus:,} GPUs"] = size
        if 1e9 * size <= cluster.memory:
            break
    return needed
