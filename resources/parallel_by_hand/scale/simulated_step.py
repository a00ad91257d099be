"""One training step on any cluster, from the cost models of lessons 10, 13, 15 to 17.

One replica is simulated, one GPU of each of its stages: the others do the same at the
same time. The times of a stage come from the roofline and the links, and lesson 15's
timetable says when each stage works.
"""

from dataclasses import dataclass
from functools import cached_property

from parallel_by_hand.pipeline.schedule_rules import Slot
from parallel_by_hand.scale import step_messages as messages
from parallel_by_hand.scale.pipeline_times import (
    PlannedPipeline,
    PlanOfPipeline,
    run_pipeline_on_paper,
)
from parallel_by_hand.scale.stage_times import (
    StageTimes,
    seconds_added,
    times_of_stages,
)
from parallel_by_hand.scale.step_arithmetic import (
    off_loaded_seconds,
    step_flops,
    unneeded_flops,
    update_seconds,
)
from parallel_by_hand.scale.step_memory import layers_of_stages, ledgers_of_ranks
from parallel_by_hand.scale.training_plan import (
    Cluster,
    Model,
    Strategy,
    why_impossible,
)
from parallel_by_hand.sharding.ledger import Ledger


@dataclass(frozen=True)
class _RankEnd:
    """What a rank of the pipeline does after its last backward, in seconds."""

    messages: float  # data parallel's that nothing hides, and sums of what two hold
    update: float
    after: float  # ZeRO's all-gather

    @property
    def total(self) -> float:
        return self.messages + self.update + self.after


@dataclass(frozen=True)
class SimulatedStep:
    """What `simulate_step` says of one step. Lists are by rank of the pipeline."""

    model: Model
    cluster: Cluster
    strategy: Strategy
    batch: int
    seconds: float
    bubble: float  # lesson 15's share of waiting; a stage goes on while messages travel
    ledgers: list[Ledger]
    sent_by_ranks: list[dict[str, float]]  # bytes to a GPU's groups, such as "tensor"
    stages: list[StageTimes]
    ends: list[_RankEnd]
    planned: PlanOfPipeline

    @property
    def memory(self) -> Ledger:
        """The ledger of the fullest GPU, in bytes."""
        return max(self.ledgers, key=sum)

    @property
    def fits(self) -> bool:
        return sum(self.memory) + self.cluster.reserve <= self.cluster.memory

    @property
    def sent(self) -> dict[str, float]:
        """Bytes that the GPU which sends most sends to each of its groups."""
        return max(self.sent_by_ranks, key=lambda sent: sum(sent.values()))

    @property
    def sent_over(self) -> dict[str, float]:
        """The same by link: "within" a node, "between" nodes."""
        over = {"within": 0.0, "between": 0.0}
        for group, size in self.sent.items():
            over[messages.link_of(group, self.cluster, self.strategy)] += size
        return over

    @property
    def _groups(self) -> list[str]:
        more = ["expert"] if self.strategy.expert > 1 else []
        return ["tensor", "pipeline", "data", *more]

    @cached_property
    def spent(self) -> dict[str, float]:
        """The seconds of the average GPU: computing, messages by group, and waiting.

        Messages that are hidden behind computing take no time; those of the pipeline
        take what the step would be shorter by without them. The sum is `seconds`.
        """
        ranks, count = self.strategy.pipeline, self.strategy.micro_batches(self.batch)
        passages = [p for stage in self.stages for p in (stage.forward, stage.backward)]
        spent = {
            part: count * sum(getattr(p, part) for p in passages) / ranks
            for part in ("computing", *self._groups)
        }
        at_once = run_pipeline_on_paper(self.planned._replace(travel=0.0, sending=0.0))
        spent["pipeline"] += self.seconds - _last_end(at_once, self.ends)
        spent["computing"] += sum(end.update for end in self.ends) / ranks
        spent["data"] += sum(end.messages + end.after for end in self.ends) / ranks
        return spent | {"waiting": max(0.0, self.seconds - sum(spent.values()))}

    @property
    def idle(self) -> float:
        """The share of the GPUs' time in which they do not compute."""
        return 1 - self.spent["computing"] / self.seconds

    @property
    def hardware_utilisation(self) -> float:
        """Operations done, what is computed twice included, as a share of the peak."""
        return self._share_of_peak(self.strategy.recomputation)

    @property
    def model_utilisation(self) -> float:
        """Operations that the model needs, as a share of the peak."""
        return self._share_of_peak("none")

    def _share_of_peak(self, recomputation: str) -> float:
        flops = step_flops(self.model, self.batch, recomputation)
        if self.strategy.frozen:
            flops -= unneeded_flops(self.model, self.batch)
        return flops / (self.seconds * self.cluster.gpus * self.cluster.peak_flops)

    @property
    def cost(self) -> float:
        """Of all GPUs for this step, in the currency of `Cluster.price`."""
        return self.cluster.gpus * self.cluster.price * self.seconds / 3600

    @property
    def energy(self) -> float:
        """Of all GPUs for this step, in joules."""
        return self.cluster.gpus * self.cluster.watts * self.seconds

    @property
    def slots(self) -> list[Slot]:
        """Lesson 15's timetable of one replica, in seconds."""
        return self.planned.slots()


def simulate_step(
    model: Model, cluster: Cluster, strategy: Strategy, batch: int
) -> SimulatedStep:
    """One step of training with a batch of so many sequences."""
    if problem := why_impossible(model, cluster, strategy, batch):
        raise ValueError(problem)
    stages = times_of_stages(model, cluster, strategy)
    handed_on = messages.stage_message(model, cluster, strategy)
    link = messages.link_cost_of("pipeline", cluster, strategy)
    plan = PlanOfPipeline(
        strategy.schedule,
        strategy.pipeline,
        strategy.micro_batches(batch),
        strategy.chunks,
        tuple(stage.forward.total for stage in stages),
        tuple(stage.backward.total for stage in stages),
        handed_on.seconds,
        handed_on.size / link.bandwidth,
    )
    planned = run_pipeline_on_paper(plan)
    ledgers = ledgers_of_ranks(model, strategy, planned.kept)
    ends = [
        _end_of_rank(model, cluster, strategy, rank, stages, ledgers[rank])
        for rank in range(strategy.pipeline)
    ]
    return SimulatedStep(
        model, cluster, strategy, batch, _last_end(planned, ends), planned.bubble(plan),
        ledgers, _bytes_of_ranks(model, cluster, strategy, batch), stages, ends, plan,
    )  # fmt: skip


def _last_end(planned: PlannedPipeline, ends: list[_RankEnd]) -> float:
    pairs = zip(planned.ends, ends, strict=True)
    return max(done + end.total for done, end in pairs)


def _end_of_rank(
    model: Model,
    cluster: Cluster,
    strategy: Strategy,
    rank: int,
    stages: list[StageTimes],
    ledger: Ledger,
) -> _RankEnd:
    data = messages.data_messages(model, cluster, strategy, rank)
    waiting = data.once.seconds
    if strategy.overlap:
        mine = stages[rank :: strategy.pipeline]
        layers = sum(stage.layers for stage in mine)
        last = sum(stage.backward.busy for stage in mine)
        waiting = seconds_added(last, waiting, layers, cluster.contention)
    waiting += messages.norm_messages(model, cluster, strategy, rank).seconds
    if rank in (0, strategy.pipeline - 1):
        waiting += messages.tied_messages(model, cluster, strategy).seconds
    shards = strategy.shard_ranks if strategy.shard_stage else 1
    kept = ledger.parameters // (1 if strategy.shard_stage == 3 else shards)
    state = strategy.trained * kept
    state += ledger.gradients // (1 if strategy.shard_stage >= 2 else shards)
    update = update_seconds(state + ledger.optimiser, cluster)
    if not (strategy.frozen or strategy.state.optimiser):
        numbers = kept / strategy.state.parameters
        update = off_loaded_seconds(numbers, state, cluster)
    return _RankEnd(waiting, update, data.after.seconds)


def _bytes_of_ranks(
    model: Model, cluster: Cluster, strategy: Strategy, batch: int
) -> list[dict[str, float]]:
    """Bytes that a GPU of each rank of the pipeline sends in a step, by group."""
    layers, count = layers_of_stages(model, strategy), strategy.micro_batches(batch)
    around = messages.tensor_messages(model, cluster, strategy)
    handed_on = messages.stage_message(model, cluster, strategy).size
    tied = messages.tied_messages(model, cluster, strategy).size
    routed = sum(m.size for m in messages.expert_messages(model, cluster, strategy))
    ranks, last, sent = strategy.pipeline, len(layers) - 1, []
    for rank in range(ranks):
        data = messages.data_messages(model, cluster, strategy, rank)
        own = sum(layers[rank::ranks])
        tensor = own * sum(message.size for message in around)
        if rank == 0:
            tensor += messages.embedding_messages(model, cluster, strategy).size
        if rank == ranks - 1:
            ends = messages.head_messages(model, cluster, strategy)
            tensor += sum(message.size for message in ends)
        mine = range(rank, last + 1, ranks)
        hops = sum((stage < last) + (stage > 0) for stage in mine)
        pipeline = count * hops * handed_on if ranks > 1 else 0.0
        pipeline += tied if rank in (0, ranks - 1) else 0.0
        norms = messages.norm_messages(model, cluster, strategy, rank).size
        each = count * (data.forward.size + data.backward.size)
        sent.append(
            {
                "tensor": count * tensor + norms,
                "pipeline": pipeline,
                "data": each + data.once.size + data.after.size,
            }
            | ({"expert": count * own * routed} if routed else {})
        )
    return sent
