"""What a simulated step means for a whole training, and for those who start it."""

from collections.abc import Callable
from dataclasses import replace
from textwrap import wrap

from parallel_by_hand.scale.legal_strategies import Ways, legal_strategies
from parallel_by_hand.scale.plan_search import memory_of_strategy
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.training_plan import Cluster, Model, Strategy
from parallel_by_hand.sharding.ledger import StateBytes

DAY = 86_400
NODE_WATTS = 1.9  # for each watt of its GPUs: data sheets of DGX A100 (6.5 kW for 3.2
# of GPUs) and DGX H100 (10.2 kW for 5.6), at the most


def tokens_per_second(step: SimulatedStep) -> float:
    """Of a plan, by all GPUs together."""
    return step.batch * step.model.sequence / step.seconds


def facts_of_step(step: SimulatedStep, tokens: float | None = None) -> dict:
    """A plan's facts for JSON: seconds, GB, shares, tokens; days, cost, energy."""
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
    if tokens:
        hours = tokens / rate * step.cluster.gpus / 3600
        energy = hours * step.cluster.watts / 1e6  # MWh
        facts |= {"days": tokens / rate / DAY, "cost": hours * step.cluster.price}
        facts |= {"gpus_mwh": energy, "nodes_mwh": NODE_WATTS * energy}
    return facts


def print_facts(step: SimulatedStep, tokens: float | None) -> None:
    """The plan's tokens per second, memory by part, what tokens cost, and flags."""
    facts = facts_of_step(step)
    print(
        f"{facts['tokens_per_s_per_gpu']:,.0f} tokens/s per GPU, "
        f"{facts['tokens_per_s']:,.0f} in all; utilisation: model "
        f"{step.model_utilisation:.1%}, hardware {step.hardware_utilisation:.1%}"
    )
    parts = (f"{part} {size:.1f}" for part, size in facts["memory_gb"].items() if size)
    room = f"{facts['room_gb']:.1f} ({step.cluster.memory / 2**30:.1f} GiB)"
    print(f"GB on the fullest GPU, of {room}:\n  {', '.join(parts)}")
    print_training(step, tokens)
    for program, flags in flags_of_plan(step).items():
        said = f"{program}: {flags.replace(' = ', '=')}"
        lines = wrap(said, 95, break_on_hyphens=False)
        print((" \\\n  " if flags.startswith("--") else "\n  ").join(lines))


def print_training(step: SimulatedStep, tokens: float | None) -> None:
    """What so many tokens take and cost with this plan."""
    if tokens:
        facts = facts_of_step(step, tokens)
        print(f"{tokens:,.0f} tokens take {facts['days']:,.1f} days without failures, "
              f"cost {facts['cost']:,.0f} at {step.cluster.price:g} a GPU-hour, and "
              f"need up to {facts['gpus_mwh']:,.1f} MWh for the GPUs, "
              f"{facts['nodes_mwh']:,.1f} for whole nodes")  # fmt: skip


# Schedules that the planner tries, and torchtitan's names for them.
SEARCHED = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
OPTIMISERS = {  # bytes of parameters, gradients, optimiser for each number
    "adam": StateBytes(2, 2, 12),  # two averages and a master copy, in 32 bits
    "adam-32-bit-gradients": StateBytes(2, 4, 12),  # as Megatron-LM
    "adam-8-bit": StateBytes(2, 2, 6),  # the averages
    "adam-8-bit-pure": StateBytes(2, 2, 2),  # no master copy: torchtune, bitsandbytes
    "off-loaded": StateBytes(2, 2, 0),  # the optimiser's state is in the CPU's memory
    "lora": StateBytes(2, 0, 0),  # about 1 % of the numbers are trained
}


def flags_of_plan(step: SimulatedStep) -> dict[str, str]:
    """The plan in the words of simulate.py, Megatron-LM, and torchtitan 0.2's TOML."""
    s = step.strategy
    optimiser = {state: name for name, state in OPTIMISERS.items()}[s.state]
    said = vars(step.model) | {"batch": step.batch, "optimizer": optimiser} | vars(s)
    said["attention"] = "fused" if s.fused_attention else "plain"
    ours = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in said.items()
        if value and name not in ("tied", "state", "fused_attention")
    )
    flags = {"simulate.py, after --model and GPU flags": ours.replace(" True", "")}
    if s.state.optimiser != OPTIMISERS["adam"].optimiser:
        none = "the planner writes no flags for this optimizer"
        return flags | {"Megatron-LM, torchtitan": none}
    return flags | {"Megatron-LM": _flags_of_megatron(step),
                    "torchtitan 0.2": _flags_of_torchtitan(step)}  # fmt: skip


def _flags_of_megatron(step: SimulatedStep) -> str:
    """Or why it has none for this plan."""
    s, layers = step.strategy, step.model.layers
    ends = 2 if layers % s.stages else 0  # both ends of the model count as layers
    if s.schedule == "gpipe":
        return "it has no GPipe"
    if (layers + ends) % s.stages:
        return f"it cannot cut {layers} layers into {s.stages} stages"
    thin = (layers + ends) // s.stages
    full = s.recomputation == "full"
    shards = "optim_grads_params" if s.shard_stage == 3 else "optim_grads"
    optional = {
        "--grad-reduce-in-bf16": s.state.gradients == 2,  # else it keeps 4 bytes
        "--cross-entropy-loss-fusion": s.logit == 4,
        f"--num-layers-per-virtual-pipeline-stage {thin}": s.schedule == "interleaved",
        "--account-for-embedding-in-pipeline-split": ends,
        "--account-for-loss-in-pipeline-split": ends,
        "--sequence-parallel": s.sequence_parallel,
        f"--expert-model-parallel-size {s.expert}": s.expert > 1,
        "--use-distributed-optimizer": s.shard_stage,
        f"--use-megatron-fsdp --data-parallel-sharding-strategy {shards}"
        " --ckpt-format fsdp_dtensor": s.shard_stage > 1,
        f"--num-distributed-optimizer-instances {s.hybrid}": s.hybrid > 1,
        f"--recompute-granularity {s.recomputation}": s.recomputation != "none",
        "--recompute-method uniform --recompute-num-layers 1": full,
        "--overlap-grad-reduce": s.overlap and s.replicas > 1,
        "--overlap-param-gather": s.overlap and s.shard_stage == 3,
    }
    return (
        f"--tensor-model-parallel-size {s.tensor} --pipeline-model-parallel-size "
        f"{s.pipeline} --context-parallel-size {s.context} --micro-batch-size "
        f"{s.micro_batch} --global-batch-size {step.batch} --bf16 "
    ) + " ".join(flag for flag, wanted in optional.items() if wanted)


def _flags_of_torchtitan(step: SimulatedStep) -> str:
    s = step.strategy
    shard = s.shard_ranks // s.context if s.shard_stage else 1
    reshard = "always" if s.shard_stage == 3 else "never"
    local = s.micro_batch if s.pipeline == 1 else step.batch // s.data
    titan = {
        "parallelism.data_parallel_shard_degree": shard,
        "parallelism.data_parallel_replicate_degree": s.data // shard,
        "parallelism.tensor_parallel_degree": s.tensor,
        "parallelism.pipeline_parallel_degree": s.pipeline,
        "parallelism.context_parallel_degree": s.context,
        "parallelism.expert_parallel_degree": s.expert,
        # Parameters are sharded at any stage; what is gathered may be kept.
        "parallelism.fsdp_reshard_after_forward": f'"{reshard}"',
        "training.global_batch_size": step.batch,
        "training.local_batch_size": local,
        "activation_checkpoint.mode": f'"{s.recomputation}"',
    }
    if s.pipeline > 1:
        layers = step.model.layers
        less = int(layers % s.stages > 0)  # layers at both ends, for what else is there
        for end in "first", "last":
            titan[f"parallelism.pipeline_parallel_{end}_stage_less_layers"] = less
        if s.schedule == "interleaved":  # else torchtitan makes two stages of a rank
            thin = -(-(layers + 2 * less) // s.stages)
            titan["parallelism.pipeline_parallel_layers_per_stage"] = thin
        titan["parallelism.pipeline_parallel_schedule"] = f'"{SEARCHED[s.schedule]}"'
        titan["parallelism.pipeline_parallel_microbatch_size"] = s.micro_batch
    return "  ".join(f"{key} = {value}" for key, value in titan.items())


def what_would_fit(
    model: Model,
    cluster: Cluster,
    batch: int,
    ways: Ways,
    among: Callable[[Strategy], bool] = lambda strategy: True,
) -> dict[str, float]:
    """If no plan fits: GB that a GPU needs at the least, by optimiser; on more GPUs."""

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
